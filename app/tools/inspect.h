// `palaver inspect MODEL`: what is in a model's files, without loading it.
#ifndef PALAVER_APP_INSPECT_H
#define PALAVER_APP_INSPECT_H

#include "app/program.h"

int inspect_main(Program *program); // the exit status

#endif
