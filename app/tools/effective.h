// `palaver config`: the settings in force.
#ifndef PALAVER_APP_EFFECTIVE_H
#define PALAVER_APP_EFFECTIVE_H

#include "config/config.h"

#include <stdio.h>

// A TOML file of every key with its value and where it comes from; `model` says in the first line whom they are for.
Status effective_print(const Config *config, const char *model, FILE *out, Error *error);

#endif
