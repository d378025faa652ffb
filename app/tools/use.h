// `palaver use`: which model is taken where none is named.
#ifndef PALAVER_APP_USE_H
#define PALAVER_APP_USE_H

#include "app/program.h"

int use_main(Program *program); // the exit status

#endif
