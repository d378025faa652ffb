// From how many rows of x on which way is taken: what tuning has measured, or what is built in.
#include "kernels/cuda/dispatch_internal.h"

DType dispatch_type(Format format) {
    static const DType TYPES[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16,   DTYPE_Q8_0,  DTYPE_Q8_0, DTYPE_Q8_0,
                                  DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_IQ4_NL, DTYPE_MXFP4, DTYPE_Q2_K, DTYPE_Q3_K,
                                  DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q6_K,   DTYPE_E4M3,  DTYPE_NF4};
    return (size_t)format < sizeof TYPES / sizeof *TYPES ? TYPES[format] : DTYPE_COUNT;
}

// Measured on an H200 with Llama-2-7B's shape: where whole steps are shorter. By themselves (`palaver tune`) GEMVs are best up
// to 2 or 3 rows of quantised weights, and the library for `out` and `down` of 17 to 64 rows of 16 bits; but of flat GEMMs W
// comes while the kernel before them ends (NOTES.md). Float32 has no flat kernel on tensor cores. The second is
// of the same card without Hopper's code (2026-11-29), beside a cuBLAS that has it: of 16 bits the library may be worse at
// few rows elsewhere, which tuning shows. Quantised weights it has unpacked into memory first, for which a flat GEMM reads
// them for every 64 rows of x.
static const DispatchTable HOPPER = {15,
                                     {{0, 0, DTYPE_F32, 5, 5},
                                      {0, 0, DTYPE_F16, 1, 65},
                                      {0, 0, DTYPE_BF16, 1, 65},
                                      {0, 0, DTYPE_Q8_0, 2, 65},
                                      {0, 0, DTYPE_Q6_K, 3, 65},
                                      {0, 0, DTYPE_Q5_0, 2, 65},
                                      {0, 0, DTYPE_Q5_1, 3, 65},
                                      {0, 0, DTYPE_Q4_0, 2, 65},
                                      {0, 0, DTYPE_Q4_1, 2, 65},
                                      {0, 0, DTYPE_IQ4_NL, 3, 65},
                                      {0, 0, DTYPE_MXFP4, 3, 65},
                                      {0, 0, DTYPE_Q2_K, 3, 65},
                                      {0, 0, DTYPE_Q3_K, 3, 65},
                                      {0, 0, DTYPE_E4M3, 2, 65},
                                      {0, 0, DTYPE_NF4, 3, 65}}};
static const DispatchTable OTHERS = {15,
                                     {{0, 0, DTYPE_F32, 5, 5},
                                      {0, 0, DTYPE_F16, 3, 17},
                                      {0, 0, DTYPE_BF16, 3, 17},
                                      {0, 0, DTYPE_Q8_0, 3, 193},
                                      {0, 0, DTYPE_Q6_K, 3, 257},
                                      {0, 0, DTYPE_Q5_0, 3, 193},
                                      {0, 0, DTYPE_Q5_1, 3, 193},
                                      {0, 0, DTYPE_Q4_0, 3, 193},
                                      {0, 0, DTYPE_Q4_1, 3, 193},
                                      {0, 0, DTYPE_IQ4_NL, 3, 193},
                                      {0, 0, DTYPE_MXFP4, 3, 193},
                                      {0, 0, DTYPE_Q2_K, 5, 257},
                                      {0, 0, DTYPE_Q3_K, 3, 257},
                                      {0, 0, DTYPE_E4M3, 3, 193},
                                      {0, 0, DTYPE_NF4, 3, 193}}};

const DispatchTable *dispatch_built_in(const Card *card) {
    return has_wgmma(card) ? &HOPPER : &OTHERS;
}

const char *dispatch_class(const Card *card) {
    return has_wgmma(card) ? "Hopper" : "cards without Hopper's code";
}

// type: what dispatch_type() gives.
static const DispatchRow *find_row(const DispatchTable *table, DType type, int n_out, int n_in) {
    for (int i = 0; table && i < table->n; i++) {
        const DispatchRow *row = &table->rows[i];
        bool any = row->n_out == 0 && row->n_in == 0;
        bool same = dispatch_type(format_of(row->type)) == type;
        if (same && (any || (row->n_out == n_out && row->n_in == n_in))) return row;
    }
    return NULL;
}

int dispatch_library_from(const Card *card, DType type) {
    const DispatchRow *row = find_row(dispatch_built_in(card), type, 0, 0);
    return row ? row->library_from : 0;
}

static bool gemv_fits(const Card *card, const GemmCase *g) {
    bool quantised = g->format >= FORMAT_Q8;
    bool integers = quantised && g->format != FORMAT_E4M3; // in shared memory
    size_t shared = integers ? (size_t)g->n * GEMV_INPUT_BYTES((size_t)g->cols) : 0;
    return g->n <= GEMV_MOST && dispatch_type(g->format) != DTYPE_COUNT &&
           g->cols % (quantised ? 32 : 8) == 0 && shared <= card->shared_limit;
}

LinearWay dispatch_linear(const Card *card, const GemmCase *g) {
    const DType type = dispatch_type(g->format);
    const DispatchRow *row = find_row(g->table, type, g->rows, g->cols);
    if (!row) row = find_row(dispatch_built_in(card), type, g->rows, g->cols);
    bool gemv = gemv_fits(card, g), library = !g->counted;
    if (g->way == LINEAR_FLAT || (g->way == LINEAR_GEMV && gemv) || (g->way == LINEAR_LIBRARY && library))
        return g->way;
    if (g->way) return LINEAR_BY_TABLE;
    if (!row) return library ? LINEAR_LIBRARY : LINEAR_FLAT;
    // Without tensor cores a flat GEMM reads W for every row of x again, and the library has it unpacked first.
    const bool fast = dispatch_flat(card, g->operand, g->format) != FLAT_PLAIN && !g->plain;
    if (gemv && (g->n < row->flat_from || (g->quantised && !fast && g->n < row->library_from)))
        return LINEAR_GEMV;
    const bool flat = g->n < row->library_from && fast;
    return flat || !library ? LINEAR_FLAT : LINEAR_LIBRARY;
}
