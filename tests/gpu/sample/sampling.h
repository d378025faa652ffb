// Sampling on the GPU against the CPU's: the same token, always.
#ifndef PALAVER_TESTS_GPU_SAMPLING_H
#define PALAVER_TESTS_GPU_SAMPLING_H

#include "kernels/ops.h"

typedef void Report(const char *name, const char *what, double error, double bound);

void test_sampling(const Ops *cuda, Report *report);

// Prints what a mask of allowed tokens costs (sample_speed.c). No test.
void sample_speed(const Ops *cuda);

#endif
