// `palaver inspect MODEL`: what is in a model's files, without loading it.
#ifndef PALAVER_APP_INSPECT_H
#define PALAVER_APP_INSPECT_H

#include "app/program.h"

int inspect_main(Program *program); // the exit status

// Architecture, rope, tokenizer, template, bytes by type, memory at a few context sizes, then every tensor.
Status inspect_print(const char *path, FILE *out, Error *error);

#endif
