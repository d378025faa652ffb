// Tokenizers' files that are wrong: what is refused, with which words.
#ifndef PALAVER_TESTS_TOKENIZER_FILES_H
#define PALAVER_TESTS_TOKENIZER_FILES_H

#include "tokenizer/tokenizer.h"

// A folder that has to open.
Tokenizer *tokenizer_files_open(const char *folder);
// The folder cannot be opened, for a reason that holds `why`.
void tokenizer_files_refused(const char *folder, Status status, const char *why);
// The first bytes of a file of the golden tokenizer `name`, at 200 places: refused with a reason, or, where a tail was
// not needed (may_open), opened.
void tokenizer_files_cut(const char *name, const char *file, bool may_open);

#endif
