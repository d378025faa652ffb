// `palaver config`: the settings in force.
#ifndef PALAVER_APP_CONFIGURATION_H
#define PALAVER_APP_CONFIGURATION_H

#include "app/program.h"

int configuration_main(Program *program); // the exit status

#endif
