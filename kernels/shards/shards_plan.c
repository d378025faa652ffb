#include "kernels/shards/shards_plan.h"

#include <stdio.h>

enum { LARGEST_UNIT = 256 }; // of an intermediate size: what suits kernels

ShardBlocks shards_blocks(const DecoderShape *shape, const LayerWeights *layers, int columns) {
    ShardBlocks blocks = {columns, columns};
    for (int l = 0; layers && l < shape->n_layers; l++) {
        const LayerWeights *w = &layers[l];
        const int64_t out = dtype_block_size(w->wo.type), down = dtype_block_size(w->w_down.type),
                      shared = w->shared_down.data ? dtype_block_size(w->shared_down.type) : 1;
        if (out > blocks.out) blocks.out = out;
        if (down > blocks.down) blocks.down = down;
        if (shared > blocks.down) blocks.down = shared;
    }
    return blocks;
}

// Where part i of n of `total` begins: at whole units, the last of which may be less. Part n is the end.
static int cut_at(int total, int unit, int i, int n) {
    const int64_t units = ((int64_t)total + unit - 1) / unit, end = (units * i + n - 1) / n * unit;
    return end < total ? (int)end : total;
}

// Units of so many elements for n parts: the largest of those that are multiples of `least` and make all parts alike,
// else `least`.
static int unit_of(int total, int least, int n) {
    for (int unit = LARGEST_UNIT; unit > least; unit /= 2)
        if (unit % least == 0 && total % ((int64_t)unit * n) == 0) return unit;
    return least;
}

static Status check_shape(const DecoderShape *s, Error *error) {
    const char *what = s->experts.beside     ? "experts beside a dense part"
                       : s->alibi            ? "ALiBi"
                       : s->heads_of_layers  ? "layers whose heads differ"
                       : s->token_size       ? "per-layer embeddings"
                       : s->head_layer_norms ? "layer norms of each head"
                       : s->normed_residual  ? "normed residuals"
                                             : NULL;
    if (!what) return STATUS_OK;
    return error_set(
        error, STATUS_UNSUPPORTED,
        "several cards: models with %s cannot be cut for them yet; take one card (--device cuda:0)", what);
}

// How many heads stand together where a cut has to lie between blocks of wo's columns.
static int heads_together(const DecoderShape *s, int64_t block) {
    const int64_t of_head = decoder_attended_width(s) / s->n_heads;
    int heads = 1;
    while (heads * of_head % block != 0 && heads < s->n_heads) heads++;
    return heads;
}

// KV heads [first, first + n) and all heads that look at them.
static void take_groups(const DecoderShape *s, int first, int n, Shard *shard) {
    const int group = s->n_heads / s->n_kv_heads;
    shard->first_kv_head = first, shard->n_kv_heads = n;
    shard->first_head = first * group, shard->n_heads = n * group;
}

// Card i of n, where KV heads are cut in units of `unit`.
static void cut_groups(const DecoderShape *s, int unit, int i, int n, Shard *shard) {
    const int first = cut_at(s->n_kv_heads, unit, i, n), end = cut_at(s->n_kv_heads, unit, i + 1, n);
    take_groups(s, first, end - first, shard);
}

// Card i of n, of which several share a KV head: those from the first of card · n_kv_heads / n on. Each has some of the
// heads that look at it.
static void cut_heads(const DecoderShape *s, int unit, int i, int n, Shard *shard) {
    const int group = s->n_heads / s->n_kv_heads, kv = (int)((int64_t)i * s->n_kv_heads / n);
    int before = 0, sharing = 0; // cards of the same KV head: all of them, and those before this one
    for (int other = 0; other < n; other++) {
        if ((int64_t)other * s->n_kv_heads / n != kv) continue;
        sharing++;
        if (other < i) before++;
    }
    const int first = cut_at(group, unit, before, sharing), end = cut_at(group, unit, before + 1, sharing);
    shard->first_kv_head = kv, shard->n_kv_heads = 1;
    shard->first_head = kv * group + first, shard->n_heads = end - first;
}

// Part i of n of an intermediate size, whichever it is.
static void cut_size(int size, const ShardBlocks *blocks, int i, int n, int *first, int *own) {
    const int unit = unit_of(size, (int)blocks->down, n);
    *first = cut_at(size, unit, i, n);
    *own = cut_at(size, unit, i + 1, n) - *first;
}

// Whether the card has a part of everything that there is.
static bool has_all(const DecoderShape *s, const Shard *own) {
    const Experts *e = &s->experts;
    return own->n_heads > 0 && own->n_rows > 0 && (own->n_columns > 0 || (e->n && !s->intermediate_size)) &&
           (own->n_of_expert > 0 || !e->n) && (own->n_of_shared > 0 || !e->n || !e->shared_size);
}

static Status leaves_one_empty(const DecoderShape *s, const ShardBlocks *blocks, int n, Error *error) {
    char experts[80] = "";
    if (s->experts.n)
        snprintf(experts, sizeof experts, ", experts of %d and %d", s->experts.size, s->experts.shared_size);
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%d cards: %d heads of %d over %d KV heads, an intermediate size of %d%s in blocks of %lld and "
        "%lld: one of them would have nothing; take fewer",
        n, s->n_heads, s->head_dim, s->n_kv_heads, s->intermediate_size, experts, (long long)blocks->out,
        (long long)blocks->down);
}

Status shards_plan(const DecoderShape *s, const ShardBlocks *blocks, int n, Shard *shards, Error *error) {
    Status status = check_shape(s, error);
    if (status) return status;
    const int group = s->n_heads / s->n_kv_heads, heads = heads_together(s, blocks->out);
    int groups = 1; // KV heads that stand together
    while (groups * group % heads != 0 && groups < s->n_kv_heads) groups++;
    const bool share = s->n_kv_heads / groups < n && group % heads == 0 && s->n_kv_heads < n;
    const int rows = unit_of(s->vocab_size, 1, n);
    for (int i = 0; i < n; i++) {
        Shard *own = &shards[i];
        *own = (Shard){0};
        if (share)
            cut_heads(s, heads, i, n, own);
        else
            cut_groups(s, groups, i, n, own);
        cut_size(s->intermediate_size, blocks, i, n, &own->first_column, &own->n_columns);
        if (s->experts.n) {
            cut_size(s->experts.size, blocks, i, n, &own->first_of_expert, &own->n_of_expert);
            cut_size(s->experts.shared_size, blocks, i, n, &own->first_of_shared, &own->n_of_shared);
        }
        own->first_row = cut_at(s->vocab_size, rows, i, n);
        own->n_rows = cut_at(s->vocab_size, rows, i + 1, n) - own->first_row;
        if (!has_all(s, own)) return leaves_one_empty(s, blocks, n, error);
    }
    return STATUS_OK;
}

DecoderShape shards_shape(const DecoderShape *whole, const Shard *shard) {
    DecoderShape own = *whole;
    own.n_heads = shard->n_heads, own.n_kv_heads = shard->n_kv_heads;
    own.intermediate_size = shard->n_columns;
    own.experts.size = shard->n_of_expert, own.experts.shared_size = shard->n_of_shared;
    own.output_rows = shard->n_rows, own.adds_shares = true;
    return own;
}
