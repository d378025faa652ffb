// Attention of any queries over any cache: what attend() and cache_attention() share.
#ifndef PALAVER_KERNELS_CPU_ATTENTION_ATTENTION_H
#define PALAVER_KERNELS_CPU_ATTENTION_ATTENTION_H

#include "kernels/base/machine/threads.h"
#include "kernels/cpu/loops/loops.h"

// Tokens of one sequence that attend together.
typedef struct TokenTile {
    int first_token, n_tokens, sequence;
} TokenTile;

typedef struct AttentionJob {
    const Loops *loops;
    Threads *threads;
    char *scratch; // [n_threads, thread_bytes], thread_bytes >= attention_thread_bytes()
    int64_t thread_bytes;

    const float *q; // [n_tokens, n_heads*head_dim]
    float *y;       // likewise; may be q
    int n_heads, n_kv_heads, head_dim, window;
    float scale, cap;    // cap: DecoderShape.attention_cap
    const float *slopes; // [n_heads] of ALiBi; NULL: none
    // Added to scores; values NULL: nothing. Of token 0, head 0 and column 0; index i of a sequence is column
    // mask_columns[sequence] + i.
    AttendMask mask;
    const int64_t *mask_columns; // [n_sequences]
    const int32_t *positions;    // [n_tokens]

    const TokenTile *tiles;
    int n_tiles;
    const StepSequence *sequences;
    int page_size;
    const KvLayer *kv;
    const int32_t *slot_positions; // NULL: index i holds position i
    // Where a sequence has evicted tokens: cos and sin [n_sequences, pairs] of its n_evicted. rope NULL: nothing is
    // turned.
    const Rope *rope;
    int pairs; // of a sequence's row of these
    const float *sink_cos, *sink_sin;
    AttendCounts *counts; // NULL: nobody counts
} AttentionJob;

// Most tokens that attend together: with the heads that share a KV head they make about attend_rows rows.
int attention_tile_tokens(const Loops *loops, int n_heads, int n_kv_heads);

// Bytes that a thread needs.
int64_t attention_thread_bytes(const Loops *loops, int n_heads, int n_kv_heads, int head_dim);

// Cuts sequences into tiles [at most as many as there are tokens] and returns how many there are.
int attention_cut_tiles(const StepSequence *sequences, int n_sequences, int tile_tokens, TokenTile *tiles);

void attention_run(const AttentionJob *job);

#endif
