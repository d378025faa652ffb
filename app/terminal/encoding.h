// Text of files and pipes on its way in: UTF-8 that is taken as it is, or Latin-1 where that was asked for.
#ifndef PALAVER_TERMINAL_ENCODING_H
#define PALAVER_TERMINAL_ENCODING_H

#include "kernels/base/status.h"

#include <stddef.h>

typedef enum TextEncoding { ENCODING_UTF8, ENCODING_LATIN1 } TextEncoding;

// The malloc'ed *text [*size] becomes UTF-8, or nothing of it is taken. Latin-1 (ISO 8859-1) has no characters from
// 0x80 to 0x9f: where a file has such bytes it is of another encoding. STATUS_FILE as text_check() has it, with `name`.
Status encoding_take(const char *name, TextEncoding encoding, char **text, size_t *size, Error *error);

// Leaves out a byte order mark at the beginning of *text [*size], which ends in a NUL: editors put it there, nobody means it.
void encoding_drop_mark(char *text, size_t *size);

#endif
