// Which kernel multiplies, by tiles of which size, and which finishes heads.
#include "kernels/cuda/dispatch_internal.h"

// ---- tiles -------------------------------------------------------------------------------------------------

// What a GEMM takes by tiles of `columns`, in columns that every cluster of two blocks multiplies with.
static int64_t tile_cost(const Card *card, int n, int rows, int columns) {
    int64_t clusters = card->n_sms / 2, pairs = (n + 2 * TILE_TOKENS - 1) / (2 * TILE_TOKENS);
    int64_t tiles = pairs * ((rows + columns - 1) / columns);
    return (tiles + clusters - 1) / clusters * columns;
}

int dispatch_tile_columns(const Card *card, GemmEpilogue epilogue, int n, int rows) {
    int64_t wide = tile_cost(card, n, rows, 256);
    if (epilogue == EPILOGUE_GATED) return tile_cost(card, n, rows, 192) < wide ? 192 : 256;
    // Tiles of 128 read shared memory more for a GEMM: a quarter slower.
    return tile_cost(card, n, rows, 128) * 5 < wide * 4 ? 128 : 256;
}

// Whether three quarters of what the tensor cores could do meanwhile are of use: of less cuBLASLt makes more, by
// smaller tiles and sums cut in parts. Where those may not be cut, it does not.
static bool tiles_keep_busy(const Card *card, const GemmCase *g) {
    int columns =
        g->epilogue == EPILOGUE_GATED ? dispatch_tile_columns(card, EPILOGUE_GATED, g->n, g->rows) : 256;
    int64_t could = tile_cost(card, g->n, g->rows, columns) * (card->n_sms / 2) * 2 * TILE_TOKENS;
    return g->kind == STEP_READING || (int64_t)g->n * g->rows * 4 >= 3 * could;
}

enum {
    UNPACK_RUN = 1024, // columns that a cluster has of a tile at least, where they share them out
    UNPACK_JOIN = 640, // that take as long as to put a tile together
};

// What a GEMM takes by tiles of 256 rows of W and `tokens` of x, in tenths of a round of 256: as measured, halves take
// six tenths of a whole (NOTES.md). Tiles of a last round that would leave half of the clusters idle are halved.
static int64_t unpack_cost(const Card *card, int n, int rows, int tokens) {
    int64_t clusters = card->n_sms / 2, tiles = (int64_t)((n + tokens - 1) / tokens) * ((rows + 255) / 256);
    int64_t last = tiles % clusters, whole = tokens == 256 ? 10 : 6, half = tokens == 256 ? 6 : 4;
    return tiles / clusters * whole + (last == 0 ? 0 : 2 * last <= clusters ? half : whole);
}

int64_t dispatch_unpack_runs(int64_t tiles, int cols) {
    const int64_t runs = tiles * cols / UNPACK_RUN;
    return runs > 0 ? runs : 1;
}

UnpackTiles dispatch_unpack(const Card *card, StepKind kind, int n, int rows, int cols) {
    const int64_t wide = unpack_cost(card, n, rows, 256) * cols,
                  narrow = unpack_cost(card, n, rows, 128) * cols;
    const int64_t tiles = (int64_t)((n + 127) / 128) * ((rows + 255) / 256),
                  runs = dispatch_unpack_runs(tiles, cols), clusters = card->n_sms / 2;
    const int64_t shared = (tiles * cols / (runs < clusters ? runs : clusters) + UNPACK_JOIN) * 6;
    if (kind == STEP_ANY && shared < narrow && shared < wide) return (UnpackTiles){128, true};
    return (UnpackTiles){narrow < wide ? 128 : 256, false};
}

// ---- GEMMs -------------------------------------------------------------------------------------------------

FlatKernel dispatch_flat(const Card *card, DType operand, Format format) {
    bool same = format == format_of_operand(operand), quantised = format >= FORMAT_Q8;
    if (!is_16_bit(operand)) return FLAT_PLAIN;
    if (format == FORMAT_W8) return has_wgmma(card) ? FLAT_WGMMA : FLAT_PLAIN;
    if (!same && !(quantised && operand == DTYPE_F16)) return FLAT_PLAIN;
    return has_wgmma(card) ? FLAT_WGMMA : FLAT_MMA;
}

// Heads that a GEMM's own epilogue can finish.
static bool heads_in_registers(const GemmCase *g) {
    return g->plain_heads && !g->biased && (g->head_dim == 64 || g->head_dim == 128);
}

// ---- GEMMs by kind -------------------------------------------------------------------------------------------

static GemmKernel flat_or_separate(const Card *card, const GemmCase *g) {
    if (g->epilogue != EPILOGUE_HEADS) return GEMM_FLAT;
    const FlatKernel flat = dispatch_flat(card, g->operand, g->format);
    const bool whole = g->format == FORMAT_W8 ? flat == FLAT_WGMMA : flat != FLAT_PLAIN;
    return heads_in_registers(g) && g->n_parts == 1 && whole ? GEMM_FLAT : GEMM_SEPARATE;
}

static GemmKernel gemm_unpacked(const GemmCase *g) {
    bool gates = g->activation == ACTIVATION_SILU || g->activation == ACTIVATION_GELU_TANH;
    if (g->epilogue == EPILOGUE_HEADS)
        return heads_in_registers(g) && g->n_parts == 1 ? GEMM_UNPACK : GEMM_SEPARATE;
    if (g->epilogue == EPILOGUE_GATED) return gates && !g->biased ? GEMM_UNPACK : GEMM_SEPARATE;
    if (g->epilogue == EPILOGUE_FLOAT && g->kind == STEP_READING) return GEMM_FLAT;
    return g->epilogue == EPILOGUE_ACTIVATE ? GEMM_SEPARATE : GEMM_UNPACK;
}

// W8's sums are exact in every kernel, so that none of them shows which it was.
static GemmKernel gemm_of_w8(const Card *card, const GemmCase *g) {
    // Of what cuBLASLt finishes, all rows are finished.
    bool whole = is_16_bit(g->operand) && g->rows % 8 == 0 && !g->counted, tiles = has_wgmma(card) && whole;
    bool plain = !g->biased;
    int most = has_wgmma(card) ? W8_FLAT_MOST : W8_PLAIN_MOST;
    if (g->n <= most && g->epilogue != EPILOGUE_HEADS) return GEMM_FLAT;
    switch (g->epilogue) {
    case EPILOGUE_HEADS:
        if (!tiles || !heads_in_registers(g)) return GEMM_SEPARATE;
        return g->n <= W8_FLAT_MOST ? GEMM_FLAT : g->octets ? GEMM_TILE : GEMM_SEPARATE;
    case EPILOGUE_GATED:
        plain = plain && (g->activation == ACTIVATION_SILU || g->activation == ACTIVATION_GELU_TANH);
        break;
    case EPILOGUE_FLOAT:
    case EPILOGUE_ACTIVATE:
        plain = false;
        break;
    default:
        break;
    }
    return tiles && plain ? GEMM_TILE : whole ? GEMM_LIBRARY : GEMM_FLAT;
}

bool dispatch_fp8(const Card *card, const GemmCase *g) {
    const bool fits = g->inputs && has_wgmma(card) && is_16_bit(g->operand) && g->cols % FP8_GROUP == 0 &&
                      g->rows % 8 == 0 && !g->counted && g->epilogue != EPILOGUE_FLOAT;
    const LinearWay way = g->kind == STEP_ANY ? dispatch_linear(card, g) : LINEAR_LIBRARY;
    return fits && way == LINEAR_LIBRARY && g->kind != STEP_DECODING;
}

static GemmKernel gemm_of_fp8(const GemmCase *g) {
    const bool gates = g->activation == ACTIVATION_SILU || g->activation == ACTIVATION_GELU_TANH;
    if (g->epilogue == EPILOGUE_HEADS) return heads_in_registers(g) && g->octets ? GEMM_TILE : GEMM_SEPARATE;
    if (g->epilogue == EPILOGUE_GATED) return gates && !g->biased ? GEMM_TILE : GEMM_SEPARATE;
    return g->epilogue == EPILOGUE_ACTIVATE ? GEMM_SEPARATE : GEMM_TILE;
}

GemmKernel dispatch_gemm(const Card *card, const GemmCase *g) {
    // No GEMM's epilogue has a layer's numbers of xIELU.
    if (g->epilogue == EPILOGUE_ACTIVATE && g->activation == ACTIVATION_XIELU) return GEMM_SEPARATE;
    if (g->rounded) return gemm_of_fp8(g);
    if (g->format == FORMAT_W8) return gemm_of_w8(card, g);
    LinearWay way = g->kind == STEP_ANY ? dispatch_linear(card, g) : LINEAR_BY_TABLE;
    if (way == LINEAR_GEMV) return g->epilogue == EPILOGUE_HEADS ? GEMM_SEPARATE : GEMM_GEMV;
    if (way == LINEAR_FLAT || g->kind == STEP_DECODING) return flat_or_separate(card, g);
    if (g->quantised && g->operand == DTYPE_F16 && has_wgmma(card)) return gemm_unpacked(g);
    bool tiles = has_wgmma(card) && is_16_bit(g->operand);
    switch (g->epilogue) {
    case EPILOGUE_HEADS:
        return tiles && heads_in_registers(g) && g->octets && tiles_keep_busy(card, g) ? GEMM_TILE
                                                                                       : GEMM_SEPARATE;
    case EPILOGUE_GATED:
        return tiles && !g->biased &&
                       (g->activation == ACTIVATION_SILU || g->activation == ACTIVATION_GELU_TANH) &&
                       tiles_keep_busy(card, g)
                   ? GEMM_TILE
                   : GEMM_SEPARATE;
    case EPILOGUE_ACTIVATE:
        return GEMM_SEPARATE;
    case EPILOGUE_FLOAT:
        return g->kind == STEP_READING ? GEMM_FLAT : GEMM_LIBRARY;
    case EPILOGUE_ADD:
        return tiles && g->kind == STEP_READING && g->cols % 8 == 0 && g->rows % 8 == 0 ? GEMM_TILE
                                                                                        : GEMM_LIBRARY;
    default:
        return GEMM_LIBRARY;
    }
}

HeadsKernel dispatch_heads(const HeadsCase *h) {
    if (h->plain && (h->head_dim == 64 || h->head_dim == 128)) return HEADS_WHOLE;
    return h->feedback_in_quads && h->kind != STEP_DECODING && h->n >= 64 &&
                   (h->head_dim & -h->head_dim) >= 8 * HEADS_TOGETHER_TOKENS
               ? HEADS_TOGETHER
               : HEADS_ANY;
}
