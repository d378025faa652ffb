// Layers that recur (delta.c).
#ifndef PALAVER_TESTS_GPU_DELTA_H
#define PALAVER_TESTS_GPU_DELTA_H

#include "kernels/ops.h"

// only: NULL, "delta", or part of a case's name.
void test_delta(const Ops *cuda, const char *only);

// Prints how fast they are (delta_speed.c). No test.
void delta_speed(const Ops *ops);

#endif
