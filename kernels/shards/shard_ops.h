// What a table of ops offers where several of its backends hold one decoder, a shard each (kernels/shards): which devices a
// name means, and what backends exchange. Every function but devices(), join() and part() is called for each rank, by the
// thread that opened its backend, in the same order on all of them; what it gives is there for the ops asked for behind it.
#ifndef PALAVER_KERNELS_SHARDS_SHARD_OPS_H
#define PALAVER_KERNELS_SHARDS_SHARD_OPS_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SHARDS_MOST = 16 };

enum { SHARD_ID = 40 };

// The devices that make one, as BackendOptions.device names each.
typedef struct ShardDevices {
    int n;
    char names[SHARDS_MOST][16];
} ShardDevices;

// After a part (out, down; squares of rows) of a step of n tokens: every rank has added its own share to zeros.
typedef struct ShardSum {
    int width; // floats of a token, a multiple of four
    void *const
        *parts; // [n_ranks] each rank's, [n tokens of the step, width] float32; zeros again afterwards
    // [n_ranks] each rank's x, likewise, all alike; other ranks' are NULL where nobody knows them. x += the sum of all
    // parts, which every rank adds up in the same order, so that all x stay the same to the bit.
    void *const *x;
} ShardSum;

// Norms of whole rows of queries and keys, of which each rank has some heads.
enum { SHARD_SQUARES = 4 };
typedef struct ShardRows {
    // [n tokens of the step, SHARD_SQUARES]: sums of squares of a token's queries and of its keys, and two zeros
    float *squares;
    int q_width, k_width; // of whole rows
    int counted_kv_heads; // of this rank's, so many first ones are another's as well, which counts them
} ShardRows;

// A rank's columns of logits, which all ranks get: rank i has columns [first[i], first[i + 1]).
typedef struct ShardGather {
    const int *first;  // [n_ranks + 1]
    const float *part; // [n_rows, first[rank + 1] - first[rank]] of this rank
    float *whole;      // [n_rows, first[n_ranks]] likewise
    int n_rows;        // of the LogitRows that part was made for
    bool in_order;     // LogitRows.tokens was NULL
} ShardGather;

typedef struct ShardOps {
    int columns; // of a matrix: multiples of so many, a power of two
    // "cuda:0,2", "cuda:all": STATUS_USAGE: a device that is not there, or named twice; STATUS_DEVICE: none, or not alike.
    Status (*devices)(const char *text, ShardDevices *devices, Error *error);
    // The backends become ranks of one, rank i of n; before layers are loaded. part() before any of them is closed.
    Status (*join)(Backend *const *ranks, int n, Error *error);
    void (*part)(Backend *const *ranks, int n);
    Status (*sum)(Backend *backend, const ShardSum *sum, Error *error);
    // Where the layer has a norm behind out, or down: x [n tokens of the step, hidden_size] += norm(sums), by whose shape
    // out and down have left that; sums are zeros again afterwards.
    Status (*add_normed)(Backend *backend, const Layer *layer, bool of_down, float *sums, float *x,
                         Error *error);
    // qkv() of a layer whose norms are of whole rows, in two. Products and biases, which q and the backend keep, and what
    // this rank adds to the squares of rows; then, from those of all ranks, what is left; squares are zeros again afterwards.
    Status (*row_products)(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv,
                           const ShardRows *rows, void *q, Error *error);
    Status (*norm_rows)(Backend *backend, const Layer *layer, const KvLayer *kv, const ShardRows *rows,
                        void *q, Error *error);
    Status (*gather)(Backend *backend, const ShardGather *gather, Error *error);
    // The device's name on this machine, the same in every process, without slashes; "": nobody else uses it.
    void (*identify)(const Backend *backend, char id[SHARD_ID]);
    // Waits until all that the backend was asked for is done. Any thread may, and is another backend's own again by use().
    void (*finish)(Backend *backend);
    void (*use)(Backend *backend);
    // How they exchange: "through peer memory".
    void (*way)(const Backend *backend, char *text, size_t size);
} ShardOps;

#ifdef __cplusplus
}
#endif
#endif
