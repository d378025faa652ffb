// Models of a known shape with made-up weights, for measuring: --shape NAME --weights TYPE.
#ifndef PALAVER_APP_SHAPE_H
#define PALAVER_APP_SHAPE_H

#include "app/program.h"

// Opens program->engine over one, with room for what the command does.
Status shape_open(Program *program, Error *error);

#endif
