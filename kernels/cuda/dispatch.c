// Which kernel runs: the table is in dispatch.h.
#include "kernels/cuda/dispatch.h"

static bool is_16_bit(DType type) {
    return type == DTYPE_F16 || type == DTYPE_BF16;
}

static bool is_power_of_two(int64_t n) {
    return n > 0 && (n & (n - 1)) == 0;
}

// ---- cards -------------------------------------------------------------------------------------------------

const CardFeatures *dispatch_features(const Card *card) {
    // What 10.x and 12.x share with Hopper is bulk copies, barriers for them, and kernels that overlap.
    static const CardFeatures TABLE[] = {
        {120, true, false}, {100, true, false}, {90, true, true}, {80, false, false}};
    int i = 0;
    while (i < 3 && card->compute < TABLE[i].compute) i++;
    return &TABLE[i];
}

static bool has_wgmma(const Card *card) {
    return dispatch_features(card)->wgmma;
}

// ---- steps -------------------------------------------------------------------------------------------------

int dispatch_decode_lanes(int head_dim) {
    if (head_dim % 8 || head_dim > 256) return 0;
    return head_dim <= 64 ? 8 : head_dim <= 128 ? 16 : 32;
}

int dispatch_decode_heads(int group, int lanes, int n_slots) {
    if (group == 1) return 1;
    if (lanes == 32) return 2;
    return n_slots > 4096 ? 4 : lanes == 16 || group > 4 ? 2 : 1;
}

StepPath dispatch_step(const Card *card, const StepCase *c) {
    const DecoderShape *s = c->shape;
    if (c->n_tokens != c->n_sequences || c->kind == STEP_READING) return STEP_PATH_OPS;
    if (c->n_sequences == 1 && c->kind == STEP_ANY && c->has_code && s->latent.rank == 0 &&
        dispatch_decode_lanes(s->head_dim) && s->n_kv_heads <= card->n_sms && s->hidden_size % 4 == 0 &&
        s->n_heads / s->n_kv_heads * s->head_dim < 4096)
        return STEP_PATH_PERSISTENT;
    return c->n_tokens <= c->most_rows ? STEP_PATH_GRAPH : STEP_PATH_OPS;
}

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

static Format format_of_operand(DType operand) {
    return operand == DTYPE_F16 ? FORMAT_F16 : operand == DTYPE_BF16 ? FORMAT_BF16 : FORMAT_F32;
}

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

// ---- the table ---------------------------------------------------------------------------------------------

DType dispatch_type(Format format) {
    static const DType TYPES[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16,   DTYPE_Q8_0,  DTYPE_Q8_0, DTYPE_Q8_0,
                                  DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_IQ4_NL, DTYPE_MXFP4, DTYPE_Q2_K, DTYPE_Q3_K,
                                  DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q6_K,   DTYPE_E4M3,  DTYPE_NF4};
    return (size_t)format < sizeof TYPES / sizeof *TYPES ? TYPES[format] : DTYPE_COUNT;
}

// Measured on an H200 on 2026-11-22 with Llama-2-7B's shape in bf16, q8_0 and q4_0 (`palaver tune --shape llama2-7b`):
// the points that lose least over its five kinds of layers. Since then flat GEMMs have become faster: 4 rows of q8_0 and
// q4_0 take longer by GEMV than 16 by them, and steps of 17 to 64 rows of 16 bits are shorter by them, though `out` and
// `down` by themselves are not (NOTES.md). Float32 has no flat kernel on tensor cores. The second is
// of the same card without Hopper's code (2026-11-29), beside a cuBLAS that has it: of 16 bits the library may be worse at
// few rows elsewhere, which tuning shows. Quantised weights it has unpacked into memory first, for which a flat GEMM reads
// them for every 64 rows of x.
static const DispatchTable HOPPER = {15,
                                     {{0, 0, DTYPE_F32, 5, 5},
                                      {0, 0, DTYPE_F16, 1, 65},
                                      {0, 0, DTYPE_BF16, 1, 65},
                                      {0, 0, DTYPE_Q8_0, 4, 65},
                                      {0, 0, DTYPE_Q6_K, 5, 65},
                                      {0, 0, DTYPE_Q5_0, 5, 65},
                                      {0, 0, DTYPE_Q5_1, 5, 65},
                                      {0, 0, DTYPE_Q4_0, 4, 65},
                                      {0, 0, DTYPE_Q4_1, 5, 65},
                                      {0, 0, DTYPE_IQ4_NL, 5, 65},
                                      {0, 0, DTYPE_MXFP4, 5, 65},
                                      {0, 0, DTYPE_Q2_K, 5, 65},
                                      {0, 0, DTYPE_Q3_K, 5, 65},
                                      {0, 0, DTYPE_E4M3, 5, 65},
                                      {0, 0, DTYPE_NF4, 5, 65}}};
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

// ---- attention ---------------------------------------------------------------------------------------------

// A tile of 64 slots lies in one page; behind the kernel's own memory lies a list of the tiles.
static bool wgmma_fits(const Card *card, const AttendCase *a, bool octets, uint32_t page_size) {
    size_t tiles = (a->n_slots + ATTEND_KEYS - 1) / ATTEND_KEYS;
    return has_wgmma(card) && (a->head_dim == 64 || a->head_dim == 128) && octets &&
           a->tile_rows <= ATTEND_ROWS && page_size % ATTEND_KEYS == 0 &&
           ATTEND_WGMMA_BYTES(a->head_dim) + ATTEND_WGMMA_STATIC + tiles * (sizeof(int) + 1) <=
               card->shared_limit;
}

static bool tile_fits(const Card *card, const AttendCase *a) {
    int d = a->head_dim;
    return (d == 64 || d == 80 || d == 96 || d == 128 || d == 256) && a->octets &&
           a->tile_rows <= ATTEND_ROWS &&
           ATTEND_TILE_BYTES(d) + a->n_slots / ATTEND_TILE_KEYS(d) + 2 <= card->shared_limit;
}

static bool split_fits(const Card *card, const AttendCase *a) {
    bool integers = a->cache == DTYPE_INT8 || a->cache == DTYPE_INT4;
    if (integers && (a->scale_group < 8 || !is_power_of_two(a->scale_group))) return false;
    return is_power_of_two(a->page_size) && a->whole_pieces && a->head_dim % 16 == 0 &&
           a->head_dim <= (a->cache == DTYPE_F32 ? 128 : 256) && a->split_shared <= card->shared_limit &&
           a->n_splits <= 65535;
}

// A row of all heads; the plain kernel goes through it once for each.
static bool latent_fits(const Card *card, const AttendCase *a) {
    return a->latent && a->head_dim == ATTEND_LATENT_ROW && is_16_bit(a->cache) && !a->alibi && !a->capped &&
           a->whole_pieces && ATTEND_LATENT_BYTES <= card->shared_limit && a->n_splits <= 65535;
}

AttendKernel dispatch_attend(const Card *card, const AttendCase *a) {
    if (!is_16_bit(a->operand) || a->masked) return ATTEND_PLAIN;
    if (latent_fits(card, a)) return ATTEND_LATENT;
    if (a->few_tokens > 0 && split_fits(card, a)) return ATTEND_SPLIT;
    if (a->few_tokens == 1) return ATTEND_PLAIN;
    bool half = a->cache == DTYPE_F16, plain = half && !a->alibi && !a->capped, chunks = a->window < 0;
    // That kernel takes keys in pairs of those tiles that its own tokens see: behind a window, and in a ring that has
    // gone round, which these are shows where a prompt was cut.
    bool pairs = a->kind != STEP_READING || (a->window <= 0 && a->in_order);
    if (plain && !chunks && !a->evicted && pairs && wgmma_fits(card, a, a->octets, a->page_size))
        return ATTEND_WGMMA;
    // Not for pieces of prompts: how long a cache may be must not show where one was cut.
    if (!half && !chunks && !a->alibi && !a->capped && !a->evicted && a->kind == STEP_ANY &&
        a->n_sequences == 1 && a->n_tokens >= 64 && a->octets && a->halves_want <= a->halves_bytes &&
        wgmma_fits(card, a, true, 1u << 31))
        return ATTEND_HALVES;
    if (!tile_fits(card, a)) return ATTEND_PLAIN;
    return plain ? ATTEND_TILE_F16 : ATTEND_TILE_ANY;
}

// Rows that decode go one way however many there are. A graph takes steps of any kind for such.
ExpertsWay dispatch_experts(const ExpertsStep *s) {
    if (s->gemms == STEP_DECODING) return s->flat ? EXPERTS_FLAT : EXPERTS_ROWS;
    if (s->gemms == STEP_READING) return EXPERTS_GROUPED;
    if (s->n_tokens <= (s->flat ? EXPERTS_ROWS_MOST_FLAT : EXPERTS_ROWS_MOST)) return EXPERTS_ROWS;
    const int most = s->unpacked ? EXPERTS_FLAT_UNPACKED_MOST : EXPERTS_FLAT_MOST;
    if (s->flat && s->n_pairs <= most * s->n) return EXPERTS_FLAT;
    return s->kind == STEP_DECODING ? EXPERTS_ROWS : EXPERTS_GROUPED;
}

// Eight times as many as experts have in the mean: an expert that has more than a tile of them is read again, and choices
// are not even, while a wider tile has more to do for the same weights.
int dispatch_expert_pairs(int n_pairs, int n) {
    int pairs = 8;
    while (pairs < 64 && pairs * n < 8 * n_pairs) pairs *= 2;
    return pairs;
}

static bool tiles_take(DType operand, Format format) {
    return format == format_of_operand(operand) ||
           (format >= FORMAT_Q8 && format != FORMAT_W8 && operand == DTYPE_F16);
}

bool dispatch_experts_by_mma(const Card *card, const ExpertsCase *e) {
    return !has_wgmma(card) && is_16_bit(e->operand) && e->hidden % 8 == 0 && e->size % 8 == 0 &&
           tiles_take(e->operand, e->gate_up) && tiles_take(e->operand, e->down);
}

// ---- splits ------------------------------------------------------------------------------------------------

enum {
    SPLITS_A_SM = 4,   // where it is not the kernel of splits that attends
    LONG_SPLIT = 2048, // what is longer may be cut into two rounds of them, which end more evenly
    ROW_SPLIT = 1024,  // the most of a row among others; a split begins and ends in the time of 300 of f16
    LEAST_SPLIT = 128,
    TILE_SPLIT = 1024,     // the least of a tile of many tokens
    MOST_FEW_SLOTS = 8192, // see dispatch_few_tokens()
    MOST_BESIDE =
        4096, // slots of a sequence up to which splits leave room beside them: more are read by more blocks
    SPLIT_UNIT = 64,
};

bool dispatch_splits_by_wgmma(const Card *card, const SplitRowsCase *c) {
    return has_wgmma(card) && c->cache == DTYPE_F16 && (c->head_dim == 64 || c->head_dim == 128) &&
           c->tokens > 1 && c->rows > 8 && !c->evicted && !c->based;
}

int dispatch_few_tokens(const Card *card, const SplitRowsCase *tile, int n_slots) {
    if (!dispatch_splits_by_wgmma(card, tile) || n_slots > MOST_FEW_SLOTS) return ATTEND_FEW;
    const int blocks = tile->n_kv_heads * ((tile->rows + SPLIT_WGMMA_ROWS - 1) / SPLIT_WGMMA_ROWS),
              most = card->n_sms / blocks * tile->tokens;
    return most < ATTEND_FEW ? ATTEND_FEW : most < ATTEND_FEW_BY_WGMMA ? most : ATTEND_FEW_BY_WGMMA;
}

int dispatch_tile_splits(const Card *card, StepKind kind, int blocks, int n_slots) {
    if (kind != STEP_ANY) return 1;
    int n = card->n_sms / blocks;
    if (n > n_slots / TILE_SPLIT) n = n_slots / TILE_SPLIT;
    if (n > MOST_SPLITS) n = MOST_SPLITS;
    return n > 1 ? n : 1;
}

int dispatch_most_tile_splits(const Card *card) {
    return has_wgmma(card) ? card->n_sms : 0;
}

// As many as give every multiprocessor its splits of all tiles and KV heads; in a step whose sequences do not show in
// each other, as many as bring one sequence onto a quarter of them, the others being for others. So there are at most
// two rounds of splits and one a tile, or MOST_SPLITS for each row that decodes: more than the 65,535 that a grid can
// have would take 256 such rows, tens of millions of tokens.
int dispatch_split_slots(const Card *card, const SplitCase *c) {
    int64_t blocks = (int64_t)c->n_kv_heads * c->row_tiles, slots;
    if (c->kind == STEP_DECODING) {
        int64_t n = card->n_sms / (4 * blocks), more = (c->slots + ROW_SPLIT - 1) / ROW_SPLIT;
        if (n < more) n = more;
        slots = (c->slots + n - 1) / n;
    } else if (c->once && c->row_blocks > 0) {
        int64_t n = card->n_sms / ((int64_t)c->n_kv_heads * c->row_blocks);
        if (n < 1) n = 1;
        slots = (c->slots + n - 1) / n;
    } else {
        // Whole rounds: the few blocks of one that is begun take as long as the others.
        int64_t a_sm = c->blocks_a_sm > 0 ? c->blocks_a_sm : SPLITS_A_SM;
        // Where four splits are left: fewer take longer than what follows gains.
        if (c->beside && c->slots <= MOST_BESIDE && card->n_sms >= 4 * blocks) a_sm = 1;
        int64_t round = card->n_sms * a_sm;
        bool once = c->once || c->cache == DTYPE_INT4 || c->cache == DTYPE_F32; // as measured: NOTES.md
        if (c->indexes * blocks / round > LONG_SPLIT && !once) round *= 2;
        int64_t n = round / blocks > 0 ? round / blocks : 1;
        slots = (c->indexes + n - 1) / n;
    }
    const int least = c->latent ? SPLIT_UNIT : LEAST_SPLIT;
    if (slots < least) slots = least;
    if (slots < c->slots / MOST_SPLITS + 1) slots = c->slots / MOST_SPLITS + 1;
    return (int)((slots + SPLIT_UNIT - 1) / SPLIT_UNIT * SPLIT_UNIT);
}

// ---- names -------------------------------------------------------------------------------------------------

const char *dispatch_gemm_name(GemmKernel kernel) {
    static const char *const NAMES[] = {"separate", "gemv", "flat", "tile", "library", "unpack"};
    return NAMES[kernel];
}

const char *dispatch_flat_name(FlatKernel kernel) {
    static const char *const NAMES[] = {"flat plain", "flat mma", "flat wgmma"};
    return NAMES[kernel];
}

const char *dispatch_heads_name(HeadsKernel kernel) {
    static const char *const NAMES[] = {"any heads", "heads together", "whole heads"};
    return NAMES[kernel];
}

const char *dispatch_attend_name(AttendKernel kernel) {
    static const char *const NAMES[] = {"plain", "tile any", "tile f16", "halves + wgmma",
                                        "wgmma", "split",    "latent"};
    return NAMES[kernel];
}
