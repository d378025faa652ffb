// Attention: a part of the work is a tile of tokens and the query heads of one KV head, so that each key and
// value is read once for all of them.
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/cache/kv.h"
#include "kernels/cpu/loops/rope.h"

int attention_tile_tokens(const Loops *loops, int n_heads, int n_kv_heads) {
    int tokens = loops->attend_rows / (n_heads / n_kv_heads);
    return tokens > 0 ? tokens : 1;
}

int64_t attention_thread_bytes(const Loops *loops, int n_heads, int n_kv_heads, int head_dim) {
    int rows = attention_tile_tokens(loops, n_heads, n_kv_heads) * (n_heads / n_kv_heads);
    return (loops->attend_scratch(rows, head_dim) + 63) & ~INT64_C(63);
}

int attention_cut_tiles(const StepSequence *sequences, int n_sequences, int tile_tokens, TokenTile *tiles) {
    int n_tiles = 0;
    for (int i = 0; i < n_sequences; i++)
        for (int t = 0; t < sequences[i].n_tokens; t += tile_tokens) {
            int n = sequences[i].n_tokens - t < tile_tokens ? sequences[i].n_tokens - t : tile_tokens;
            tiles[n_tiles++] = (TokenTile){sequences[i].first_token + t, n, i};
        }
    return n_tiles;
}

void attention_query(const AttendTile *tile, int row, bool is_sink, float *q) {
    const float *from = tile->q + attend_row_offset(tile, row), scale = tile->scale;
    const int head_dim = tile->head_dim; // q may be anything, as far as a compiler sees
    for (int d = 0; d < head_dim; d++) q[d] = from[d] * scale;
    if (is_sink && tile->rope) rope_turn(tile->rope, tile->sink_cos, tile->sink_sin, q);
    const float *balance = tile->kv->key_balance;
    for (int d = 0; balance && d < tile->head_dim; d++) q[d] *= balance[tile->kv_head * tile->head_dim + d];
    if (tile->kv->rotate_keys) hadamard_turn(q, tile->head_dim);
}

// ---- the parts ------------------------------------------------------------------------------------------

typedef struct Parts {
    const AttentionJob *job;
    int of_a_group; // parts into which the heads of a KV head are cut, where there are too few for the threads
} Parts;

static AttendMask mask_of_tile(const AttentionJob *job, const TokenTile *tokens, int head) {
    AttendMask mask = job->mask;
    if (!mask.values) return mask;
    int64_t first = tokens->first_token * mask.token_stride + head * mask.head_stride +
                    job->mask_columns[tokens->sequence];
    mask.values = (const char *)mask.values + first * dtype_block_bytes(mask.type);
    return mask;
}

static void attend_part(void *context, int64_t part, int thread) {
    const Parts *c = context;
    const AttentionJob *job = c->job;
    int units = job->n_kv_heads * c->of_a_group, unit = (int)(part % units);
    const TokenTile *tokens = &job->tiles[job->n_tiles - 1 - part / units]; // the longest first
    int group = job->n_heads / job->n_kv_heads, kv_head = unit / c->of_a_group, piece = unit % c->of_a_group;
    int first = group * piece / c->of_a_group, end = group * (piece + 1) / c->of_a_group;
    int head = kv_head * group + first;
    int64_t width = (int64_t)job->n_heads * job->head_dim;
    int64_t offset = tokens->first_token * width + (int64_t)head * job->head_dim;
    int64_t angles = job->rope ? tokens->sequence * (int64_t)job->pairs : 0;
    AttendTile tile = {.q = job->q + offset,
                       .y = job->y + offset,
                       .q_stride = width,
                       .n_tokens = tokens->n_tokens,
                       .n_heads = end - first,
                       .head_dim = job->head_dim,
                       .positions = job->positions + tokens->first_token,
                       .scale = job->scale,
                       .cap = job->cap,
                       .slopes = job->slopes ? job->slopes + head : NULL,
                       .mask = mask_of_tile(job, tokens, head),
                       .kv = job->kv,
                       .kv_head = kv_head,
                       .window = job->window,
                       .sequence = &job->sequences[tokens->sequence],
                       .page_size = job->page_size,
                       .slot_positions = job->slot_positions,
                       .rope = job->rope,
                       .sink_cos = job->sink_cos + angles,
                       .sink_sin = job->sink_sin + angles,
                       .bases = job->kv->score_bases ? job->kv->score_bases + head : NULL,
                       .sink_scores = job->kv->sink_scores ? job->kv->sink_scores + head : NULL,
                       .counts = job->counts};
    job->loops->attend(&tile, job->scratch + thread * job->thread_bytes);
}

void attention_run(const AttentionJob *job) {
    Parts c = {.job = job, .of_a_group = 1};
    int64_t units = (int64_t)job->n_tiles * job->n_kv_heads;
    int group = job->n_heads / job->n_kv_heads, wanted = 2 * threads_count(job->threads);
    while (c.of_a_group < group && units * c.of_a_group < wanted) c.of_a_group++;
    threads_run(job->threads, units * c.of_a_group, attend_part, &c);
}
