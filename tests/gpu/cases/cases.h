// The cases of test-gpu, for main.c: shapes around the edges of tiles, chunks and warps, and caches of every kind.
#ifndef PALAVER_TESTS_GPU_CASES_H
#define PALAVER_TESTS_GPU_CASES_H

#include "tests/gpu/model/model.h"

int cases_n(void);
const Case *cases_at(int i); // 0 … cases_n() - 1

// ---- what they are put together of, a file for each ---------------------------------------------------------

typedef struct CaseList {
    const Case *cases; // [n]
    int n;
} CaseList;
extern const CaseList CASES_OF_WEIGHTS, CASES_OF_EXPERTS, CASES_OF_LAYERS, CASES_OF_CACHES, CASES_OF_TILES,
    CASES_OF_W8;

#define F16KV .kv = DTYPE_F16
#define INT8(g) .kv = DTYPE_INT8, .group = (g), .scale = DTYPE_F16
#define INT4(g) .kv = DTYPE_INT4, .group = (g), .scale = DTYPE_F16
#define LAYOUT(l, p) .layout_plus_1 = (l) + 1, .page_size = (p)
#define BEYOND .layer_norm = true, .no_gate = true
#define EXPERTS(n, active, kind) .n_experts = (n), .n_active = (active), .router = (kind)
#define SINKS .sinks = true

#endif
