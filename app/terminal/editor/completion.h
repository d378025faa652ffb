// Tab: what may be put at the cursor.
#ifndef PALAVER_APP_COMPLETION_H
#define PALAVER_APP_COMPLETION_H

#include <stddef.h>

// The editor's callback adds candidates; each replaces the bytes from `start` to the cursor. One candidate is inserted,
// with several their common beginning, and a second Tab lists them.
typedef struct Completion Completion;

// Adds a candidate (UTF-8, copied). `final` is put behind it when it is the only one: ' ', '/' or 0.
// `start` is the same in every call of one completion.
void completion_add(Completion *completion, size_t start, const char *text, char final);
// What is added from here on stands behind what is there already, whatever their letters.
void completion_begin_group(Completion *completion);

#endif
