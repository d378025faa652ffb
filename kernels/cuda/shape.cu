// What a shape must be for there to be kernels for its layers.
#include "kernels/cuda/backend.cuh"

// Whether there are kernels for such heads, in every layer.
static Status check_heads(const DecoderShape *s, Error *error) {
    for (int l = 0; l < s->n_layers; l++) {
        const LayerHeads h = layer_heads(s, l);
        if (h.recurs || h.no_mixer) continue;
        if (h.n_kv_heads < 1 || s->n_heads % h.n_kv_heads || h.head_dim % 2)
            return error_set(error, STATUS_UNSUPPORTED,
                             "cuda: %d heads of %d over %d: they must be a multiple of KV heads, and their "
                             "size even",
                             s->n_heads, h.head_dim, h.n_kv_heads);
    }
    return STATUS_OK;
}

static Status check_recurring(const DecoderShape *s, Error *error) {
    const DeltaRule *d = &s->delta;
    if (decoder_recurring(s) == 0) return STATUS_OK;
    const bool heads = d->n_key_heads > 0 && d->n_value_heads > 0 && d->n_value_heads % d->n_key_heads == 0;
    if (heads && !(d->adds && d->keys_alternate) && d->key_dim > 0 && d->key_dim % 8 == 0 &&
        d->key_dim <= DELTA_MOST_DIM && d->value_dim > 0 && d->value_dim % 8 == 0 &&
        d->value_dim <= DELTA_MOST_DIM && d->taps > 0 && d->taps <= CONVOLUTION_MOST_TAPS)
        return STATUS_OK;
    return error_set(
        error, STATUS_UNSUPPORTED,
        "cuda: layers that recur, %d heads of values of %d over %d of keys of %d, %d taps: heads "
        "of values must be a multiple of those of keys, sizes of 8, at most %d, and taps at most "
        "%d",
        d->n_value_heads, d->value_dim, d->n_key_heads, d->key_dim, d->taps, DELTA_MOST_DIM,
        CONVOLUTION_MOST_TAPS);
}

Status cuda_check_shape(const DecoderShape *s, Error *error) {
    const Experts *e = &s->experts;
    const Latent *l = &s->latent;
    if (s->hidden_size % 8 || s->intermediate_size % 8 || s->token_size % 8)
        return error_set(error, STATUS_UNSUPPORTED,
                         "cuda: hidden size %d, intermediate size %d, %d elements for each layer: sizes must "
                         "be multiples of 8",
                         s->hidden_size, s->intermediate_size, s->token_size);
    if (e->n &&
        (e->size % 8 || e->shared_size % 8 || e->n > EXPERTS_MOST || e->n_active > EXPERTS_MOST_ACTIVE))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "cuda: %d experts of %d, %d at once, one of %d for all: sizes must be multiples of 8", e->n,
            e->size, e->n_active, e->shared_size);
    if (e->beside && s->norm != NORM_RMS)
        return error_set(error, STATUS_UNSUPPORTED, "cuda: layer norms of experts beside a dense part");
    if (l->rank && (l->rank % 8 || l->plain_dim % 8 || l->q_rank % 8 || decoder_attended_width(s) % 8 ||
                    l->rank > HEAD_PRODUCT_COLS || l->plain_dim > HEAD_PRODUCT_COLS))
        return error_set(error, STATUS_UNSUPPORTED,
                         "cuda: latents of %d, queries of %d, heads of %d + %d with values of %d: sizes must "
                         "be multiples of 8, a latent's at most %d",
                         l->rank, l->q_rank, l->plain_dim, s->rope.rotary_dim, l->value_dim,
                         HEAD_PRODUCT_COLS);
    const Status status = check_recurring(s, error);
    return status ? status : check_heads(s, error);
}
