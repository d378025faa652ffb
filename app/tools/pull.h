// `palaver pull`: a model from a hub.
#ifndef PALAVER_APP_PULL_H
#define PALAVER_APP_PULL_H

#include "app/program.h"

int pull_main(Program *program); // the exit status

#endif
