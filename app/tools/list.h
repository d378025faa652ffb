// `palaver list`: the models that are on this machine. --json: a list of {name, path, where, bytes, type, parameters, context,
// fits, default, problem}; a path that is no UTF-8 is a list of its bytes instead of a string, and `name` is printable
// in any case, as palaver takes it.
#ifndef PALAVER_APP_LIST_H
#define PALAVER_APP_LIST_H

#include "app/program.h"

int list_main(Program *program); // the exit status

#endif
