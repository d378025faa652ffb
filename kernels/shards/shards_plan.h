// Which part of a decoder each of several cards has: plain arithmetic.
//
//   q, k, v   rows of its heads; where there are fewer KV heads than cards, several cards have the same one
//   out       columns of its heads              gate, up   its rows of the intermediate size
//   down      columns of the same               output     its rows of the vocabulary
//
// Of latent attention each card has its heads' rows of the matrices that expand queries, keys and values, and columns of
// out; the latent, which all heads look at, every card makes and keeps whole, as the only KV head there is.
//
// Of a mixture of experts every card has a part of every expert, cut like a dense layer, and of the shared one: all have
// as much to do whichever a token takes, and what they add up is the same sum. The router, as what stands between (norms,
// the residual stream, the embedding), every card has whole: they choose alike.
#ifndef PALAVER_KERNELS_SHARDS_SHARDS_PLAN_H
#define PALAVER_KERNELS_SHARDS_SHARDS_PLAN_H

#include "kernels/shards/shard_ops.h"

typedef struct Shard {
    int first_head, n_heads;
    int first_kv_head, n_kv_heads;    // those that its heads look at; n_heads is a multiple of n_kv_heads
    int first_column, n_columns;      // of the intermediate size
    int first_of_expert, n_of_expert; // of every expert's; 0: there are none
    int first_of_shared, n_of_shared; // of the shared expert's, likewise
    int first_row, n_rows;            // of the vocabulary
} Shard;

// Columns of wo and of w_down that cannot be cut apart: powers of two.
typedef struct ShardBlocks {
    int64_t out, down;
} ShardBlocks;

// The largest blocks of any layer's types (layers NULL: those of plain ones), at least ShardOps.columns.
ShardBlocks shards_blocks(const DecoderShape *shape, const LayerWeights *layers, int columns);

// shards [n], as even as blocks and heads allow; of equal ones sizes that suit kernels. STATUS_UNSUPPORTED: a card would
// have nothing; how many cards can be, or what the shape has that cannot be cut yet.
Status shards_plan(const DecoderShape *shape, const ShardBlocks *blocks, int n, Shard *shards, Error *error);

// The shape that a card's backend is opened with.
DecoderShape shards_shape(const DecoderShape *whole, const Shard *shard);

#endif
