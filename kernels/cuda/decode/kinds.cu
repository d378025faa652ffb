// Models whose layers are of two kinds (Gemma 4): heads of 256 and heads of 512, of which there may be another number for keys.
#include "kernels/cuda/decode/decode_internal.cuh"

#include <limits.h>
#include <string.h>

// A place that only layers of a kind write tells rounds apart where these are no multiple of ROUND_BITS + 1 away from each other,
// from the last of a token to the first of the next as well.
static bool rounds_differ(const DecoderShape *s, bool wide) {
    int first = -1, last = -1;
    for (int l = 0; l < s->n_layers; l++) {
        if ((s->heads_of_layers[l].head_dim == WIDE_DIM) != wide) continue;
        if (last >= 0 && (l - last) % (ROUND_BITS + 1) == 0) return false;
        if (first < 0) first = l;
        last = l;
    }
    return first >= 0 && (first + s->n_layers - last) % (ROUND_BITS + 1) != 0;
}

bool kinds_of(const DecoderShape *s, LayerHeads *wide) {
    *wide = LayerHeads{};
    if (!s->heads_of_layers || s->delta.n_value_heads > 0 || s->convolution.taps > 0 || s->experts.n > 0 ||
        s->head_dim != USUAL_DIM)
        return false;
    for (int l = 0; l < s->n_layers; l++) {
        const LayerHeads h = s->heads_of_layers[l];
        if (h.lender != l || h.no_mixer || h.no_ffn || h.beside) return false;
        if (h.head_dim == WIDE_DIM && wide->n_kv_heads == 0) *wide = h;
        const bool usual = h.head_dim == USUAL_DIM && h.n_kv_heads == s->n_kv_heads,
                   other = h.head_dim == WIDE_DIM && h.n_kv_heads == wide->n_kv_heads;
        if (!usual && !other) return false;
    }
    return wide->n_kv_heads > 0 && rounds_differ(s, false) && rounds_differ(s, true);
}

// The first index that a layer behind such a window sees, where tokens lie at their positions.
static int first_seen(const DecodeArguments *a, const StepSequence *q, int window) {
    const int chunk = chunk_slots(a);
    if (window <= 0 || !q->in_order || a->n_evicted > 0 || a->position < window) return 0;
    return (a->position - window + 1) / chunk * chunk;
}

static void fill_heads(const CudaBackend *cuda, const LayerHeads &own, DecodeArguments *a, DecodeHeads *h) {
    const DecoderShape *s = cuda->shape;
    h->n_kv_heads = own.n_kv_heads, h->group = s->n_heads / own.n_kv_heads;
    h->q_dim = s->n_heads * own.head_dim, h->kv_dim = own.n_kv_heads * own.head_dim;
    h->rotary_dim = -1;
    h->parts = a->parts, h->weights = a->weights, h->head_arrived = a->head_arrived;
    h->head_round = a->head_round;
}

// A layer's own; false: it is not as the others of its kind, or the kernel has no code for its cache.
static bool add_layer(const CudaBackend *cuda, const DecodeStep *t, int l, DecodeArguments *a,
                      DecodeKind *kind) {
    const Layer *layer = t->layers[l];
    const KvLayer *kv = &t->kv[l];
    memset(kind, 0, sizeof *kind);
    kind->wide = kv->head_dim == WIDE_DIM;
    DecodeHeads *h = &a->heads[kind->wide];
    const int turned = kv->rope < 0 ? 0 : rope_of_table(&cuda->shape->rope, kv->rope).rotary_dim;
    const int first = first_seen(a, &t->step->sequences[0], t->windows[l]);
    if (h->n_layers == 0)
        h->rotary_dim = turned, h->slot_stride = kv->slot_stride, h->head_stride = kv->head_stride,
        h->first = first;
    kind->v_norm = layer->v_norm, kind->x_scale = layer->x_scale;
    kind->turn = h->n_layers++;
    auto whole = [](const void *p) { return (uintptr_t)p % 16 == 0; };
    return kv->type == DTYPE_F16 && !kv->rotate_keys && h->rotary_dim == turned && h->first == first &&
           h->slot_stride == kv->slot_stride && h->head_stride == kv->head_stride &&
           kv->slot_stride % 8 == 0 && kv->head_stride % 8 == 0 && kv->slot_stride <= INT_MAX / 4 &&
           whole(kv->k) && whole(kv->v);
}

bool kinds_fill(const CudaBackend *cuda, const DecodeStep *t, DecodeArguments *a) {
    const DecoderShape *s = cuda->shape;
    Decoder *d = cuda->decoder;
    LayerHeads wide;
    if (!kinds_of(s, &wide)) return false;
    const LayerHeads usual = {s->n_kv_heads, s->head_dim};
    fill_heads(cuda, usual, a, &a->heads[0]);
    fill_heads(cuda, wide, a, &a->heads[1]);
    DecodeHeads *h = &a->heads[1]; // behind the first kind's
    h->parts = d->wide_parts, h->weights = d->wide_weights;
    h->head_arrived += s->n_kv_heads * 32, h->head_round = d->wide_round;
    a->kind = DECODE_F16, a->kinds = d->kinds;
    a->cache = t->kv[0];
    a->cache.k = a->cache.v = NULL;
    for (int l = 0; l < s->n_layers; l++)
        if (!add_layer(cuda, t, l, a, &d->wanted_kinds[l])) return false;
    return true;
}

void kinds_done(const DecodeArguments *a, Decoder *d) {
    if (a->heads[0].n_splits > 1) d->head_round += (unsigned)(a->heads[0].n_layers * a->heads[0].n_splits);
    if (a->heads[1].n_splits > 1) d->wide_round += (unsigned)(a->heads[1].n_layers * a->heads[1].n_splits);
    d->wide_splits = a->heads[1].n_splits;
}
