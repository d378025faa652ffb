// `palaver perplexity MODEL FILE`: how well a model predicts a text, also one that is longer than its context.
#ifndef PALAVER_APP_PERPLEXITY_H
#define PALAVER_APP_PERPLEXITY_H

#include "app/program.h"

int perplexity_main(Program *program); // the exit status

#endif
