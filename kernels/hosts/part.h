// Which part of a decoder a rank has: layers one after the other, as even as they divide.
#ifndef PALAVER_KERNELS_HOSTS_PART_H
#define PALAVER_KERNELS_HOSTS_PART_H

#include "kernels/ops.h"

// The first layer of a rank; of rank n_ranks, the number of all.
static inline int part_first(int n_layers, int n_ranks, int rank) {
    return (int)((int64_t)n_layers * rank / n_ranks);
}

// What the backend of so many layers is opened with.
DecoderShape part_shape(const DecoderShape *whole, int n_layers);
// STATUS_UNSUPPORTED: layers differ in more than their weights, or have embeddings of their own; fewer of them than
// ranks.
Status part_check(const DecoderShape *whole, int n_ranks, Error *error);

#endif
