// `palaver tokenize MODEL [TEXT]`: how a model's tokenizer takes a text apart.
#ifndef PALAVER_APP_TOKENIZE_H
#define PALAVER_APP_TOKENIZE_H

#include "app/program.h"

// The text is the operand, or what is on stdin. Returns the exit status.
int tokenize_main(Program *program);

#endif
