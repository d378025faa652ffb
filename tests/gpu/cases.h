// The cases of test-gpu, for main.c.
#ifndef PALAVER_TESTS_GPU_CASES_H
#define PALAVER_TESTS_GPU_CASES_H

#include "tests/gpu/model.h"

extern const Case CASES[];
extern const int N_CASES;

#endif
