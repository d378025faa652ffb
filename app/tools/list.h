// `palaver list`: the models that are on this machine.
#ifndef PALAVER_APP_LIST_H
#define PALAVER_APP_LIST_H

#include "app/program.h"

int list_main(Program *program); // the exit status

#endif
