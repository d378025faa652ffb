// Several cards that hold one decoder (kernels/shards): what they exchange, and through what.
//
// By words: a float travels as 64 bits, its round beside it, into every other card's inbox, and who waits for it polls its
// own memory. Data that carry their round need no flag and no fence, and each word is whole by itself. By slices, where a
// sum is large and cards reach each other's memory: each card adds up a slice of all parts and writes it to all x.
//
// Where cards do not reach each other (or PALAVER_NO_PEER is set), inboxes lie in the host's memory, which all cards
// reach over the bus, and everything goes by words; but for large sums, which NCCL adds up if it is there (nccl.cuh).
#ifndef PALAVER_KERNELS_CUDA_PEERS_PEERS_CUH
#define PALAVER_KERNELS_CUDA_PEERS_PEERS_CUH

#include "kernels/cuda/backend.cuh"
#include "kernels/shards/shard_ops.h"

enum {
    PEERS_WORDS = 1 << 19, // of a rank's place in an inbox: more go in turns
    SLICE_BLOCKS = 96,     // of a card, that sum slices; all of them run at once
};

// A card's own, on the device: zeros at first.
struct PeerState {
    unsigned round; // exchanges that are done
    unsigned done;  // blocks of the exchange in hand that are
};

struct PeerFlags {
    unsigned ready[SHARDS_MOST][SLICE_BLOCKS]; // [rank, block] the round for which a rank's parts are there
    unsigned done[SHARDS_MOST][SLICE_BLOCKS];  // for which its slice is written
};

struct PeersMeeting; // peers.cu: where ranks' threads wait for each other

struct CudaPeers {
    int rank, n;
    bool direct; // they reach each other's memory
    // [2, n, PEERS_WORDS] of each rank, as this card reaches it: by rounds in turn, a place for each sender
    unsigned long long *inbox[SHARDS_MOST];
    PeerFlags *flags[SHARDS_MOST]; // likewise, if `direct`
    unsigned long long *own_inbox; // this card's
    PeerFlags *own_flags;
    PeerState *state;
    // [2, n, hidden_size] of each rank, if `direct`: what all add to x, in the decoding kernel (decode/cards.cuh)
    uint32_t *shares[SHARDS_MOST], *own_shares;
    PeersMeeting *meeting;
    struct PeersNccl *nccl; // all cards'; NULL: they are `direct`, or `without_nccl` says why there is none
    char without_nccl[120];
};

// Waits for all ranks' threads: whether all of them are well.
bool peers_meet(CudaPeers *peers, bool well);

// Loads what follows to the thread's device: a kernel that is loaded when it is first launched may wait for others.
Status peers_load_kernels(Error *error);
Status cuda_sum(Backend *backend, const ShardSum *sum, Error *error);
Status cuda_row_products(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv,
                         const ShardRows *rows, void *q, Error *error); // ops/qkv.cu
Status cuda_norm_rows(Backend *backend, const Layer *layer, const KvLayer *kv, const ShardRows *rows, void *q,
                      Error *error);
Status cuda_add_shared(Backend *backend, const Layer *layer, bool of_down, float *sums, float *x,
                       Error *error);
Status cuda_gather(Backend *backend, const ShardGather *gather, Error *error);

#endif
