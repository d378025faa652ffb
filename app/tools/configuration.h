// `palaver config`: the settings in force.
#ifndef PALAVER_APP_CONFIGURATION_H
#define PALAVER_APP_CONFIGURATION_H

#include "app/program.h"

int configuration_main(Program *program); // the exit status

// A TOML file of every key with its value and where it comes from; `model` says in the first line whom they are for.
Status configuration_print(const Config *config, const char *model, FILE *out, Error *error);

#endif
