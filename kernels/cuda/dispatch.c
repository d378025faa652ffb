// Which kernel runs: the table is in dispatch.h. Cards, steps, experts, names.
#include "kernels/cuda/dispatch_internal.h"

// ---- cards -------------------------------------------------------------------------------------------------

const CardFeatures *dispatch_features(const Card *card) {
    // What 10.x and 12.x share with Hopper is bulk copies, barriers for them, and kernels that overlap.
    static const CardFeatures TABLE[] = {
        {120, true, false}, {100, true, false}, {90, true, true}, {80, false, false}};
    int i = 0;
    while (i < 3 && card->compute < TABLE[i].compute) i++;
    return &TABLE[i];
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

// ---- experts -----------------------------------------------------------------------------------------------

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
                                        "wgmma", "split",    "wide",     "wide wgmma"};
    return NAMES[kernel];
}
