// What the files of the split share: its state, its memory (split_memory.c), and its loading (split_weights.c).
#ifndef PALAVER_KERNELS_SPLIT_SPLIT_INTERNAL_H
#define PALAVER_KERNELS_SPLIT_SPLIT_INTERNAL_H

#include "kernels/split/split.h"

// Addresses [address, address + bytes) of one allocation.
typedef struct SplitArea {
    char *address; // reserved, and never to be read: what it stands for lies in `at`
    size_t bytes;
    bool divided;          // the first `of_first` bytes lie on the first side alone, the others on the second
    size_t of_first;       // divided: bytes
    void *at[SPLIT_SIDES]; // each side's own memory
} SplitArea;

struct Layer {
    Layer *next;
    int side;
    Layer *own; // the side's
};

struct Head {
    Head *next;
    Head *own[SPLIT_SIDES];
};

typedef struct Split {
    Backend base;
    Backend *sides[SPLIT_SIDES];
    DecoderShape shapes[SPLIT_SIDES]; // the whole one, but for the number of layers
    int n_layers, border;
    Layer *layers;
    Head *heads;
    SplitArea *areas; // [n_areas]
    size_t n_areas, areas_room;
    KvLayer *kv; // [n_layers] of one side, while its op runs
    // The step in hand.
    int n_tokens;
    int x_side;     // that has the newest x
    float *staging; // [max_tokens, hidden_size] of x on its way
    // Its times: when it began, when x had crossed; 0: that is not known, or has been told.
    double began, crossed;
    SplitTimes times; // of the step before, or of this one once it was waited for
    char device[32];  // the second side's name, "cuda:0"
} Split;

static inline Split *split_of(Backend *backend) {
    return (Split *)backend;
}

static inline const Ops *split_ops(const Split *split, int side) {
    return split->sides[side]->ops;
}

// The same memory as a side's op takes it. NULL stays NULL, and so does what the side has nothing of.
void *split_memory_at(const Split *split, int side, const void *memory);

// Someone has waited for the second side: a step that had come there is done.
void split_waited(Split *split);

// Ops of the table.
Status split_memory_alloc(Backend *backend, size_t bytes, void **memory, Error *error);
Status split_memory_alloc_layers(Backend *backend, size_t bytes, int n_layers, void **memory, Error *error);
void split_memory_free(Backend *backend, void *memory);
Status split_memory_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error);
Status split_memory_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error);

Status split_load_layer(Backend *backend, const LayerWeights *host, Layer **layer, Error *error);
Status split_load_head(Backend *backend, const HeadWeights *host, Head **head, Error *error);

#endif
