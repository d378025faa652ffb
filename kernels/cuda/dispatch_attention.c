// Which kernel attends, and how tiles of few tokens are split.
#include "kernels/cuda/dispatch_internal.h"

static bool is_power_of_two(int64_t n) {
    return n > 0 && (n & (n - 1)) == 0;
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

// A row of all heads, which the plain kernel would go through once for each, or heads of 512.
static bool wide_fits(const Card *card, const AttendCase *a) {
    const bool row = a->latent && a->head_dim == ATTEND_LATENT_ROW && is_16_bit(a->cache),
               head = !a->latent && a->head_dim == ATTEND_WIDE_HEAD;
    return (row || head) && (is_16_bit(a->cache) ? a->whole_pieces : a->octets) && !a->alibi && !a->capped &&
           !a->sinks && ATTEND_WIDE_BYTES(a->head_dim) <= card->shared_limit && a->n_splits <= 65535;
}

// Tiles of many tokens, of heads of 512.
static bool wide_wgmma_fits(const Card *card, const AttendCase *a) {
    const size_t tiles = (a->n_slots + ATTEND_KEYS - 1) / ATTEND_KEYS;
    return has_wgmma(card) && a->few_tokens == 0 && a->head_dim == ATTEND_WIDE_HEAD &&
           a->cache == DTYPE_F16 && a->octets && a->window >= 0 && !a->evicted && a->group <= ATTEND_KEYS &&
           a->page_size % ATTEND_KEYS == 0 &&
           ATTEND_WIDE_WGMMA_BYTES + ATTEND_WGMMA_STATIC + tiles * (sizeof(int) + 1) <= card->shared_limit;
}

AttendKernel dispatch_attend(const Card *card, const AttendCase *a) {
    if (!is_16_bit(a->operand) || a->masked) return ATTEND_PLAIN;
    if (wide_fits(card, a)) return wide_wgmma_fits(card, a) ? ATTEND_WIDE_WGMMA : ATTEND_WIDE;
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

bool dispatch_chunks_by_wgmma(const Card *card) {
    return has_wgmma(card);
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
    const int least = c->wide ? SPLIT_UNIT : LEAST_SPLIT;
    if (slots < least) slots = least;
    if (slots < c->slots / MOST_SPLITS + 1) slots = c->slots / MOST_SPLITS + 1;
    return (int)((slots + SPLIT_UNIT - 1) / SPLIT_UNIT * SPLIT_UNIT);
}
