// What the decoding kernel is told of the model: matrices, layers and their caches, and whether it has code for them.
#include "kernels/cuda/decode/decode_internal.cuh"

#include <string.h>

DecodeMatrix matrix_in_chunks(const char *data, int format, int cols, int64_t row_bytes) {
    const int full = chunk_elements(format), n = (cols + full - 1) / full;
    const int last = chunk_bytes(format, cols - (n - 1) * full), most = chunk_bytes(format, full);
    const bool able = n > 0 && n <= UINT8_MAX && most / 16 <= UINT8_MAX && last % 16 == 0;
    return DecodeMatrix{data,
                        NULL,
                        (int)row_bytes,
                        (uint8_t)format,
                        (uint8_t)(able ? n : 0),
                        (uint8_t)(most / 16),
                        (uint8_t)(last / 16)};
}

DecodeMatrix matrix_of(const Weight *w) {
    DecodeMatrix m = matrix_in_chunks(w->data, w->format, w->cols, w->row_bytes);
    m.scales = w->scales;
    return m;
}

// Attention windows that the kernel can tell apart: two. Returns the index, or -1.
static int window_index(DecodeArguments *a, int window) {
    if (window < 0) return -1; // chunks
    for (int i = 0; i < a->n_windows; i++)
        if (a->windows[i] == window) return i;
    if (a->n_windows == 2) return -1;
    a->windows[a->n_windows] = window;
    return a->n_windows++;
}

bool multiplies(const DecodeArguments *a, const DecodeMatrix *m) {
    return !m->data || (m->n_chunks > 0 && decode_multiplies(a->kind, m->format));
}

// What gate_up of the experts multiplies is the router's input, in the forms that both want.
static void describe_experts(const Layer *layer, DecodeLayer *l) {
    l->forms[PHASE_ROUTE] |= l->forms[PHASE_GATE_UP];
    l->bias[PHASE_ROUTE] = layer->router_bias;
    l->choice_bias = layer->choice_bias;
    l->bias[PHASE_GATE_UP] = layer->b_gate, l->up_bias = layer->b_up;
    l->bias[PHASE_DOWN] = layer->b_down;
}

bool describe_layer(const Layer *layer, const KvLayer *kv, int window, DecodeArguments *a, DecodeLayer *l) {
    const Weight *part = layer->qkv.part;
    memset(l, 0, sizeof *l); // padding too: tables are compared byte by byte
    l->rows[PHASE_QKV] = matrix_of(&part[0]);
    l->split_qkv = layer->qkv.n_parts > 1;
    if (l->split_qkv) l->k = matrix_of(&part[1]), l->v = matrix_of(&part[2]);
    l->rows[PHASE_OUT] = matrix_of(&layer->out.part[0]);
    l->rows[PHASE_GATE_UP] = matrix_of(&layer->gate_up.part[0]);
    l->rows[PHASE_DOWN] = matrix_of(&layer->down.part[0]);
    if (layer->router)
        l->rows[PHASE_ROUTE] = matrix_in_chunks((const char *)layer->router, FORMAT_F32, layer->qkv.cols,
                                                layer->qkv.cols * (int)sizeof(float));
    for (int p = 0; p < PHASE_LOGITS; p++)
        if (p != PHASE_ATTEND) l->forms[p] = (uint8_t)decode_form(l->rows[p].format);
    for (int i = 1; i < layer->qkv.n_parts; i++) l->forms[PHASE_QKV] |= (uint8_t)decode_form(part[i].format);
    l->norm[PHASE_QKV] = layer->attn_norm.weight;
    l->norm[layer->router ? PHASE_ROUTE : PHASE_GATE_UP] = layer->ffn_norm.weight;
    if (layer->router) describe_experts(layer, l);
    l->bias[PHASE_QKV] = layer->b_qkv;
    l->bias[PHASE_OUT] = layer->bo;
    l->q_norm = layer->q_norm;
    l->k_norm = layer->k_norm;
    l->keys = (char *)kv->k;
    l->values = (char *)kv->v;
    l->out_post = layer->attn_post_norm.weight, l->down_post = layer->ffn_post_norm.weight;
    l->bases = kv->score_bases, l->sinks = kv->sink_scores, l->rope = kv->rope;
    l->window = window_index(a, window);
    for (const DecodeMatrix &m : l->rows)
        if (!multiplies(a, &m)) return false;
    if (!multiplies(a, &l->k) || !multiplies(a, &l->v)) return false;
    // Quants and halves of one input lie in the same place.
    const int both = FORM_QUANTS | FORM_HALVES;
    return l->window >= 0 && (l->forms[PHASE_QKV] & both) != both;
}

// ---- layers that recur -------------------------------------------------------------------------------------------

bool states_decodable(const DecoderShape *s) {
    const DeltaRule *d = &s->delta;
    for (int l = 0; l < s->n_layers; l++) {
        const LayerHeads h = layer_heads(s, l);
        if (h.no_mixer || h.no_ffn || h.beside) return false;
    }
    if (d->least_step != 0 || (d->scale != 0 && d->scale != 1)) return false;
    const auto short_enough = [](int dim) { return dim <= RECUR_MOST_DIM && dim % 4 == 0; };
    // Lanes that a head of values has in an input (load_gated_input()) are a power of two; 8 columns are a warp's.
    return d->taps <= RECUR_MOST_TAPS && short_enough(d->key_dim) && short_enough(d->value_dim) &&
           d->value_dim >= 8 && (d->value_dim & (d->value_dim - 1)) == 0 && delta_width(d) <= GATED_MOST &&
           !decoder_heads_differ(s) && s->n_heads * s->head_dim <= GATED_MOST &&
           (!d->adds || d->n_key_heads == 1) && delta_channels(d) % 4 == 0 &&
           (s->n_heads + 2 * s->n_kv_heads) * s->head_dim % 4 == 0;
}

// Another of qkv's matrices, of which one that lies behind the last as its next rows is a part of that.
static bool add_part(DecodeGated *g, const Weight *w) {
    const int n = g->n_parts, begin = g->begin(n);
    if (w->rows == 0) return true;
    const DecodeMatrix m = matrix_of(w);
    if (n > 0 && !m.scales) {
        const DecodeMatrix &last = g->parts[n - 1];
        const int rows = begin - g->begin(n - 1);
        if (last.format == m.format && last.data + (int64_t)rows * last.row_bytes == m.data) {
            g->ends[n - 1] = begin + w->rows;
            return true;
        }
    }
    if (n == GATED_PARTS) return false;
    g->parts[n] = m, g->ends[n] = begin + w->rows;
    g->n_parts++;
    return true;
}

static bool add_linear(DecodeGated *g, const Linear *w) {
    for (int i = 0; w->rows > 0 && i < w->n_parts; i++)
        if (!add_part(g, &w->part[i])) return false;
    return true;
}

bool describe_gated(const DecodeArguments *a, const Layer *layer, const KvLayer *kv, DecodeLayer *l,
                    DecodeGated *g) {
    memset(g, 0, sizeof *g);
    g->recurs = layer->recurs;
    g->gate = !layer->attn_gate.rows ? GATE_NONE
              : !layer->recurs       ? GATE_SIGMOID
              : a->delta.adds        ? GATE_ADDED
                                     : GATE_STATE;
    g->gates_at = layer->qkv.rows;
    if (!add_linear(g, &layer->qkv) || !add_linear(g, &layer->attn_gate) || !add_linear(g, &layer->rates))
        return false;
    if (layer->recurs) {
        g->conv = layer->conv, g->conv_bias = layer->conv_bias;
        g->decay_rate = layer->decay_rate, g->decay_bias = layer->decay_bias;
        g->norm = layer->state_norm, g->skip = layer->skip, g->states = kv->states;
    }
    l->forms[PHASE_QKV] = 0;
    for (int i = 0; i < g->n_parts; i++) {
        l->forms[PHASE_QKV] |= (uint8_t)decode_form(g->parts[i].format);
        if (!multiplies(a, &g->parts[i])) return false;
    }
    // But for floats all forms lie in the same place.
    const int forms = l->forms[PHASE_QKV] & ~FORM_FLOATS;
    return (forms & (forms - 1)) == 0 && !(layer->recurs && (!kv->states || !layer->state_norm)) &&
           !layer->attn_gate_bias && !layer->b_qkv;
}

// Rows one behind the other, which begin, as groups of scales that are copied together, at multiples of 16 bytes.
bool describe_cache(const DecoderShape *s, const KvLayer *kv, const Step *step, DecodeArguments *a) {
    const StepSequence *q = &step->sequences[0];
    a->cache = *kv;
    a->cache.k = a->cache.v = a->cache.k_scale = a->cache.v_scale = NULL;
    a->cache.key_balance = a->cache.key_feedback = a->cache.score_bases = NULL;
    a->kind = kv->type == DTYPE_INT8 ? DECODE_INT8 : kv->type == DTYPE_INT4 ? DECODE_INT4 : DECODE_F16;
    if (kv->slot_stride != s->head_dim || kv->head_stride * cache_bits(a->kind) / 8 % 16) return false;
    if (a->kind == DECODE_F16) return kv->type == DTYPE_F16 && !kv->rotate_keys;
    if (s->experts.n > 0)
        return false; // graphs: six more kernels of a kind are half a minute of compiling each
    a->scale_shift = __builtin_ctz((unsigned)kv->group);
    if ((s->head_dim != 64 && s->head_dim != 128) || kv->group < 8 || kv->group & (kv->group - 1) ||
        s->head_dim / kv->group > MOST_GROUPS || kv->scale_type != DTYPE_F16 ||
        kv->head_stride / kv->group % 8)
        return false;
    a->feeds_back = kv->key_feedback != NULL;
    int scales = s->head_dim / kv->group;
    for (int p = 0; scales % 8 && (int64_t)p * step->page_size < q->n_slots; p++)
        if (q->pages[p] % 8 * scales % 8) return false;
    return true;
}

bool fits_cache(const KvLayer *kv, const DecodeArguments *a, DecodeScales *scales) {
    auto aligned = [](const void *p) { return (uintptr_t)p % 16 == 0; };
    const KvLayer *c = &a->cache;
    *scales = {(char *)kv->k_scale, (char *)kv->v_scale, kv->key_balance, kv->key_feedback};
    return kv->type == c->type && kv->slot_stride == c->slot_stride && kv->head_stride == c->head_stride &&
           kv->group == c->group && kv->scale_type == c->scale_type && kv->rotate_keys == c->rotate_keys &&
           kv->key_pairs == c->key_pairs && aligned(kv->k) && aligned(kv->v) && aligned(kv->k_scale) &&
           aligned(kv->v_scale) && aligned(kv->key_feedback) && a->feeds_back == (kv->key_feedback != NULL);
}

static uint64_t bits_of(const DecodeMatrix &m) {
    return m.data ? format_bits(m.format) : 0;
}

DecodeFormats formats_of(const DecodeLayer *layers, const DecodeGated *gated, int n,
                         const DecodeMatrix &output) {
    uint64_t all = bits_of(output);
    for (int l = 0; l < n; l++) {
        for (int i = 0; gated && i < gated[l].n_parts; i++) all |= bits_of(gated[l].parts[i]);
        all |= bits_of(layers[l].k) | bits_of(layers[l].v);
        for (int p = 0; p < PHASE_LOGITS; p++)
            if (p != PHASE_ROUTE) all |= bits_of(layers[l].rows[p]); // routers are float32 in all kernels
    }
    const int first = gated ? DECODE_FEW_RATES : DECODE_FEW, end = gated ? DECODE_SETS : DECODE_FEW_RATES;
    for (int set = first; set < end; set++)
        if (!(all & ~decode_formats((DecodeFormats)set))) return (DecodeFormats)set;
    return DECODE_ALL;
}
