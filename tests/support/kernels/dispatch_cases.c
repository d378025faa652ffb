#include "tests/support/kernels/dispatch_cases.h"

const Card HOPPER = {90, 132, 232448}, PORTABLE = {80, 132, 232448}, AMPERE = {80, 108, 166912},
           ADA = {89, 128, 101376};

GemmCase dispatch_cases_gemm(StepKind kind, GemmEpilogue epilogue, int n) {
    return (GemmCase){.kind = kind,
                      .operand = DTYPE_BF16,
                      .n = n,
                      .rows = 6144,
                      .cols = 4096,
                      .n_parts = 1,
                      .format = FORMAT_BF16,
                      .epilogue = epilogue,
                      .head_dim = 128,
                      .plain_heads = true,
                      .octets = true};
}
