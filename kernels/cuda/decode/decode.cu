// decode: a step of one token by the persistent kernel, where model, cache and device are made for it.
#include "kernels/cuda/decode/decode_internal.cuh"
#include "kernels/cuda/peers/peers.cuh"

#include <stdlib.h>
#include <string.h>

void decoder_close(Decoder *d) {
    if (!d) return;
    if (d->memory) cudaFree(d->memory);
    if (d->pages.memory) cudaFree(d->pages.memory);
    free(d->host_table);
    free(d->wanted);
    free(d->host_scales);
    free(d->wanted_scales);
    free(d->host_gates);
    free(d->wanted_gates);
    free(d->host_kinds);
    free(d->wanted_kinds);
    free(d->host_pages);
    free(d);
}

static size_t lay_out(const DecoderShape *s, Decoder *d, char *base) {
    size_t used = 0, q = (size_t)s->n_heads * s->head_dim, kv = (size_t)s->n_kv_heads * s->head_dim;
    LayerHeads wide;
    const bool kinds = kinds_of(s, &wide);
    const size_t wide_q = kinds ? (size_t)s->n_heads * WIDE_DIM : 0, usual_parts = (size_t)d->max_splits * q,
                 wide_parts = (size_t)d->wide_max_splits * wide_q;
    auto take = [&](size_t bytes) {
        size_t at = used;
        used += (bytes + 255) / 256 * 256;
        return base + at;
    };
    d->parts_bytes = (usual_parts + wide_parts) * 4;
    size_t of_qkv = max(q + 2 * kv, wide_q + 2 * (size_t)wide.n_kv_heads * WIDE_DIM), gives = max(q, wide_q);
    const bool recurs = s->delta.n_value_heads > 0;
    if (recurs) { // gates and rates besides
        const size_t width = (size_t)delta_width(&s->delta);
        of_qkv =
            max(of_qkv + q, (size_t)delta_channels(&s->delta) + width + 2 * (size_t)s->delta.n_value_heads);
        gives = max(gives, width);
    }
    d->qkv = (uint32_t *)take(of_qkv * 4);
    d->attended = (uint32_t *)take(gives * 4);
    d->middle = (uint32_t *)take((size_t)s->hidden_size * 2 * 4); // see DecodeArguments.halved
    d->gated = (uint32_t *)take((size_t)decoder_ffn_width(s) * 4);
    d->routed = (uint32_t *)take((size_t)(s->experts.n + 1) * (size_t)route_parts(s) * 4);
    d->x = (uint32_t *)take((size_t)s->hidden_size * 2 * 4);
    d->parts = (uint32_t *)take(d->parts_bytes), d->wide_parts = d->parts + usual_parts;
    d->weights = (unsigned long long *)take((size_t)(d->max_splits + d->wide_max_splits) * s->n_heads * 8);
    d->wide_weights = d->weights + (size_t)d->max_splits * s->n_heads;
    d->arrived = (unsigned *)take((size_t)(PHASE_END + s->n_kv_heads + wide.n_kv_heads) * 32 * 4);
    d->table = (DecodeLayer *)take((size_t)s->n_layers * sizeof(DecodeLayer));
    d->scales = (DecodeScales *)take((size_t)s->n_layers * sizeof(DecodeScales));
    d->gates = recurs ? (DecodeGated *)take((size_t)s->n_layers * sizeof(DecodeGated)) : NULL;
    d->kinds = kinds ? (DecodeKind *)take((size_t)s->n_layers * sizeof(DecodeKind)) : NULL;
    return used;
}

// Into how many a sequence's cache is cut at most: a block each.
static void limit_splits(const CudaBackend *cuda, Decoder *d) {
    LayerHeads wide;
    d->max_splits = cuda->device.card.n_sms / cuda->shape->n_kv_heads;
    d->wide_max_splits = kinds_of(cuda->shape, &wide) ? cuda->device.card.n_sms / wide.n_kv_heads : 0;
}

size_t decoder_bytes(const CudaBackend *cuda) {
    Decoder d = {};
    limit_splits(cuda, &d);
    return lay_out(cuda->shape, &d, NULL);
}

static Status decoder_open(CudaBackend *cuda, Error *error) {
    const DecoderShape *s = cuda->shape;
    Decoder *d = (Decoder *)calloc(1, sizeof *d);
    if (!d) return error_set(error, STATUS_MEMORY, "no memory for decoding");
    d->n_layers = s->n_layers;
    limit_splits(cuda, d);
    d->host_table = (DecodeLayer *)calloc((size_t)s->n_layers, sizeof(DecodeLayer));
    d->wanted = (DecodeLayer *)calloc((size_t)s->n_layers, sizeof(DecodeLayer));
    d->host_scales = (DecodeScales *)calloc((size_t)s->n_layers, sizeof(DecodeScales));
    d->wanted_scales = (DecodeScales *)calloc((size_t)s->n_layers, sizeof(DecodeScales));
    const bool recurs = s->delta.n_value_heads > 0;
    if (recurs) {
        d->host_gates = (DecodeGated *)calloc((size_t)s->n_layers, sizeof(DecodeGated));
        d->wanted_gates = (DecodeGated *)calloc((size_t)s->n_layers, sizeof(DecodeGated));
    }
    const bool kinds = d->wide_max_splits > 0;
    if (kinds) {
        d->host_kinds = (DecodeKind *)calloc((size_t)s->n_layers, sizeof(DecodeKind));
        d->wanted_kinds = (DecodeKind *)calloc((size_t)s->n_layers, sizeof(DecodeKind));
    }
    size_t bytes = lay_out(s, d, NULL);
    Status status = STATUS_OK;
    if (!d->host_table || !d->wanted || !d->host_scales || !d->wanted_scales ||
        (recurs && (!d->host_gates || !d->wanted_gates)) || (kinds && (!d->host_kinds || !d->wanted_kinds)))
        status = error_set(error, STATUS_MEMORY, "no memory for decoding");
    if (!status)
        status = cuda_check(device_allocate(&cuda->device, &d->memory, bytes), error,
                            "%zu bytes for decoding", bytes);
    if (!status)
        status = cuda_check(cudaMemsetAsync(d->memory, 0, bytes, cuda->device.stream), error, "decoding");
    if (status) {
        decoder_close(d);
        return status;
    }
    lay_out(s, d, d->memory);
    cuda->decoder = d;
    return STATUS_OK;
}

// Brings a sequence's table of pages up to date on the device: it seldom changes.
static Status upload_pages(CudaBackend *cuda, const Step *step, DecodeArguments *a, Error *error) {
    Decoder *d = cuda->decoder;
    const int32_t *pages = step->sequences[0].pages;
    int n = (int)(((int64_t)a->n_slots + step->page_size - 1) / step->page_size), same = 0;
    if (n > d->room_pages) {
        int room = n + n / 2 + 64;
        Status status =
            cuda_room(cuda, &d->pages, (size_t)room * sizeof(int32_t), false, "a table of pages", error);
        if (status) return status;
        int32_t *copy = (int32_t *)realloc(d->host_pages, (size_t)room * sizeof(int32_t));
        if (!copy) return error_set(error, STATUS_MEMORY, "no memory for a table of pages");
        d->host_pages = copy, d->room_pages = room, d->n_pages = 0;
    }
    a->pages = (const int32_t *)d->pages.memory;
    while (same < n && same < d->n_pages && pages[same] == d->host_pages[same]) same++;
    if (same == n) return STATUS_OK;
    size_t bytes = (size_t)(n - same) * sizeof(int32_t);
    memcpy(d->host_pages + same, pages + same, bytes);
    d->n_pages = n;
    return cuda_check(cudaMemcpyAsync(d->pages.memory + same * sizeof(int32_t), d->host_pages + same, bytes,
                                      cudaMemcpyHostToDevice, cuda->device.stream),
                      error, "a table of %d pages", n);
}

static bool is_w8(const Layer *layer) {
    return linear_is_w8(&layer->qkv) || linear_is_w8(&layer->gate_up);
}

// Whether there is code for layers of experts: so many that a lane's scores fit in registers, all of them behind the
// router; scores that are softmaxes or sigmoids, weights of what experts give; heads of up to 128 elements, or where
// layers recur.
static bool experts_decodable(const DecoderShape *s) {
    const Experts *e = &s->experts;
    const int64_t units = (int64_t)(e->n_active + 1) * e->size;
    return (s->head_dim <= 128 || s->delta.n_value_heads > 0) && e->n <= MOST_ROUTED &&
           e->n_active < EXPERTS_MOST_ACTIVE && e->score != ROUTER_SPARSEMIXER && !e->scales_input &&
           units * e->size < (int64_t)1 << 32;
}

// Whether `more` lies behind a matrix of experts as another expert's `rows` rows.
static bool lies_behind(const Linear *experts, const Linear *more, int rows) {
    const Weight *w = &experts->part[0], *v = &more->part[0];
    return v->data == w->data + w->rows * w->row_bytes && v->format == w->format && v->cols == w->cols &&
           v->rows == rows;
}

// Whether a layer has no shared expert, or one that is one more of its experts.
static bool shared_decodable(const DecoderShape *s, const Layer *layer) {
    if (s->experts.shared_size == 0) return true;
    return lies_behind(&layer->gate_up, &layer->shared_gate_up, 2 * s->experts.size) &&
           lies_behind(&layer->down, &layer->shared_down, s->hidden_size) && !layer->b_down && !layer->b_gate;
}

static bool layer_reorders(const Layer *layer) {
    const LayerOrders *o = &layer->orders;
    return o->qkv || o->out || o->gate_up || o->down;
}

// Whether there is code for such a layer: a gated feed-forward part, no biases but attention's and those of experts,
// inputs in their order, norms of heads, gates behind attention where layers recur; norms of values and a scale of x where
// layers are of two kinds, and then norms behind their parts; experts in all layers or in none;
// behind a part a norm of what fits in registers, and then neither W8 nor experts.
static bool layer_decodable(const DecoderShape *s, const Layer *layer, bool whole_head, bool kinds) {
    const bool post = layer->attn_post_norm.weight || layer->ffn_post_norm.weight;
    const bool gates = layer->attn_gate.rows > 0 && s->delta.n_value_heads == 0;
    const bool own = (layer->v_norm || layer->x_scale != 1) && !kinds;
    if (!layer->gated || layer->row_norms || own || gates || (layer->router != NULL) != (s->experts.n > 0))
        return false;
    if (layer->router) return experts_decodable(s) && shared_decodable(s, layer) && !post;
    if (layer->b_gate || layer->b_up || layer->b_down || layer_reorders(layer)) return false;
    if (post && s->delta.n_value_heads > 0) return false;
    if (layer->x_scale != 1 && !layer->ffn_post_norm.weight) return false;
    return !post || (s->hidden_size <= ADDED_MOST && !is_w8(layer) && !whole_head);
}

static bool activation_decodable(const DecoderShape *s) {
    return s->activation <= ACTIVATION_GELU_TANH ||
           (s->activation == ACTIVATION_CLAMPED_SWIGLU && s->experts.n > 0);
}

// The same for the decoder: RMS norms, heads that are alike in all layers that attend or of two kinds, no per-layer embeddings, no caps of
// scores, learned attention sinks in layers of experts only, shared experts weighed alike, a temperature in every layer.
static bool decodable(const DecoderShape *s, const DecodeStep *t) {
    LayerHeads wide;
    const bool kinds = kinds_of(s, &wide);
    if (s->norm != NORM_RMS || !activation_decodable(s) || s->parallel_residual || s->alibi ||
        s->attention_cap > 0 || (s->heads_of_layers && s->delta.n_value_heads == 0 && !kinds) ||
        s->experts.guarded || s->token_size || s->experts.beside || s->norms_turned || s->head_layer_norms ||
        s->temperature_unturned || s->normed_residual != 0 || s->rope.two_dimensional)
        return false;
    if (s->delta.n_value_heads > 0 && !states_decodable(s)) return false;
    if (t->head->positions.data || t->head->embedding_norm.weight || t->head->output_bias) return false;
    for (int l = 0; l < s->n_layers; l++)
        if ((t->kv[l].sink_scores && s->experts.n == 0) ||
            t->layers[l]->shared_routed != t->layers[0]->shared_routed ||
            !layer_decodable(s, t->layers[l], linear_is_w8(&t->head->output), kinds))
            return false;
    return true;
}

// Brings a table on the device from `there` to what is wanted: seldom, for another cache, or the first step.
static cudaError_t renew(const CudaBackend *cuda, void *table, void *there, const void *wanted,
                         size_t bytes) {
    if (memcmp(there, wanted, bytes) == 0) return cudaSuccess;
    memcpy(there, wanted, bytes);
    cudaError_t code = cudaMemcpyAsync(table, there, bytes, cudaMemcpyHostToDevice, cuda->device.stream);
    return code == cudaSuccess ? cudaStreamSynchronize(cuda->device.stream) : code;
}

static Status decode_one(CudaBackend *cuda, const DecodeStep *t, Error *error) {
    const DecoderShape *s = cuda->shape;
    Status status = cuda_check_step(cuda, t->step, error);
    if (!status && !cuda->decoder) status = decoder_open(cuda, error);
    DecodeArguments a;
    const bool able = !status && arguments_fill(cuda, t, &a);
    if (able && !decode_built(a.kind, s, a.n_slots))
        status = built_lacks("decoding with such a cache", error);
    if (able && !status && cuda->peers && !decode_built_cards(&a))
        status = built_lacks("decoding over several cards", error);
    if (able && !status) status = upload_pages(cuda, t->step, &a, error);
    if (able && !status) status = cuda_settle_upload(cuda, error);
    if (able && !status && cuda->peers)
        status =
            cuda_check(decode_launch_on_cards(&a, 0, NULL), error, "decode: the kernel of several cards");
    // All cards begin it or none.
    const bool all = cuda->peers ? peers_meet(cuda->peers, able && !status) : able;
    if (status) return status;
    if (!all) return STATUS_UNSUPPORTED;

    Decoder *d = cuda->decoder;
    cudaError_t code = renew(cuda, d->table, d->host_table, d->wanted, s->n_layers * sizeof(DecodeLayer));
    if (code == cudaSuccess)
        code = renew(cuda, d->scales, d->host_scales, d->wanted_scales, s->n_layers * sizeof(DecodeScales));
    if (code == cudaSuccess && a.gated)
        code = renew(cuda, d->gates, d->host_gates, d->wanted_gates, s->n_layers * sizeof(DecodeGated));
    if (code == cudaSuccess && a.kinds)
        code = renew(cuda, d->kinds, d->host_kinds, d->wanted_kinds, s->n_layers * sizeof(DecodeKind));
    if (code == cudaSuccess &&
        (a.n_splits != d->n_splits ||
         a.heads[1].n_splits != d->wide_splits)) // no bits of a later round may be left where it will look
        code = cudaMemsetAsync(d->parts, (int)(d->round & ROUND_BITS), d->parts_bytes, cuda->device.stream);
    if (code == cudaSuccess)
        code = cuda->peers ? decode_launch_on_cards(&a, cuda->device.card.n_sms, cuda->device.stream)
                           : decode_launch(&a, cuda->device.card.n_sms, cuda->device.stream);
    status = cuda_check(code, error, "decode: position %d, %d slots in %d splits, %d bytes of shared memory",
                        a.position, a.n_slots, a.n_splits, a.shared.total);
    if (status) return status;
    d->n_splits = a.n_splits;
    d->round += (unsigned)s->n_layers;
    if (a.kinds)
        kinds_done(&a, d);
    else if (a.n_splits > 1) // else nobody arrived
        d->head_round += (unsigned)(a.n_attending * a.n_splits);
    return t->gather ? cuda_gather(&cuda->base, t->gather, error) : STATUS_OK;
}

Status cuda_decode(Backend *backend, const DecodeStep *t, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    StepCase c = {t->step->kind,           t->step->n_tokens, t->step->n_sequences,
                  decode_graph_rows(cuda), cuda->shape,       decodable(cuda->shape, t)};
    if (cuda->peers) c.has_code = peers_meet(cuda->peers, c.has_code); // all go one way
    if (dispatch_step(&cuda->device.card, &c) == STEP_PATH_PERSISTENT) {
        Status status = decode_one(cuda, t, error);
        if (status != STATUS_UNSUPPORTED) return status;
        c.has_code = false; // not for this cache
    }
    return dispatch_step(&cuda->device.card, &c) == STEP_PATH_GRAPH ? cuda_decode_graph(cuda, t, error)
                                                                    : STATUS_UNSUPPORTED;
}
