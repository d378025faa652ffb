// Cards and a GEMM, for tests of which kernel runs.
#ifndef PALAVER_TESTS_DISPATCH_CASES_H
#define PALAVER_TESTS_DISPATCH_CASES_H

#include "kernels/cuda/dispatch.h"

// H200; the same by a plug-in without code for sm_90a; A100; RTX 4090.
extern const Card HOPPER, PORTABLE, AMPERE, ADA;

// A matrix of 6144 × 4096 in bf16 that suits every kernel.
GemmCase dispatch_cases_gemm(StepKind kind, GemmEpilogue epilogue, int n);

#endif
