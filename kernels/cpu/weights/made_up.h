// Weights that are made up, for measuring: as many bytes as a file would have, in memory of their own.
#ifndef PALAVER_KERNELS_CPU_WEIGHTS_MADE_UP_H
#define PALAVER_KERNELS_CPU_WEIGHTS_MADE_UP_H

#include "kernels/base/machine/threads.h"
#include "kernels/ops.h"

// What was made, to be freed by made_up_free().
typedef struct MadeUp MadeUp;

// Gives each matrix that is there of `matrices` [n] data of its own: of vectors ones, else numbers of sane scale. *made
// grows, and is whole also after a failure. STATUS_UNSUPPORTED: e4m3, nf4 and w8, whose scales are float32.
Status made_up_matrices(Matrix *matrices, int n, Threads *threads, MadeUp **made, Error *error);
void made_up_free(MadeUp *made);

#endif
