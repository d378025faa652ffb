#include "kernels/hosts/part.h"

DecoderShape part_shape(const DecoderShape *whole, int n_layers) {
    DecoderShape own = *whole;
    own.n_layers = n_layers;
    return own;
}

Status part_check(const DecoderShape *whole, int n_ranks, Error *error) {
    if (whole->heads_of_layers || whole->token_size)
        return error_set(error, STATUS_UNSUPPORTED,
                         "several hosts: a model whose layers differ in more than their weights, or have "
                         "embeddings of their own, runs on one");
    if (whole->n_layers < n_ranks)
        return error_set(error, STATUS_UNSUPPORTED, "%d ranks: the model has %d layers", n_ranks,
                         whole->n_layers);
    return STATUS_OK;
}
