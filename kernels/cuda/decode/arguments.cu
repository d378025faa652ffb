// The arguments of the decoding kernel: layers, cache, splits and shared memory of a step.
#include "kernels/cuda/decode/decode_internal.cuh"
#include "kernels/cuda/peers/peers.cuh"
#include "kernels/temperature.h"

#include <string.h>

// A matrix in chunks; n_chunks 0 if the kernel cannot count them, or copy one.
static DecodeMatrix matrix_in_chunks(const char *data, int format, int cols, int64_t row_bytes) {
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

static DecodeMatrix matrix_of(const Weight *w) {
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

static bool multiplies(const DecodeArguments *a, const DecodeMatrix *m) {
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

static bool describe_layer(const Layer *layer, const KvLayer *kv, int window, DecodeArguments *a,
                           DecodeLayer *l) {
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

// What the layers' caches have in common, from the first. False if the kernel has no code for it: rows one behind the
// other, which begin, as groups of scales that are copied together, at multiples of 16 bytes.
static bool describe_cache(const DecoderShape *s, const KvLayer *kv, const Step *step, DecodeArguments *a) {
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

static bool fits_cache(const KvLayer *kv, const DecodeArguments *a, DecodeScales *scales) {
    auto aligned = [](const void *p) { return (uintptr_t)p % 16 == 0; };
    const KvLayer *c = &a->cache;
    *scales = {(char *)kv->k_scale, (char *)kv->v_scale, kv->key_balance, kv->key_feedback};
    return kv->type == c->type && kv->slot_stride == c->slot_stride && kv->head_stride == c->head_stride &&
           kv->group == c->group && kv->scale_type == c->scale_type && kv->rotate_keys == c->rotate_keys &&
           kv->key_pairs == c->key_pairs && aligned(kv->k) && aligned(kv->v) && aligned(kv->k_scale) &&
           aligned(kv->v_scale) && aligned(kv->key_feedback) && a->feeds_back == (kv->key_feedback != NULL);
}

enum {
    ALONE = 96,       // slots up to which one block attends faster than several that exchange their sums
    LEAST_SPLIT = 64, // slots for which it pays to ask another block
    LEAST_SHARED_SPLIT = 40, // the same where eight heads and more look at each
    FEWEST_SPLITS = 6,       // where there are several: two or three have more to put together than they save
    STATIC_SHARED = 1024,    // more than the kernel declares itself
};

// Slots of a chunk.
static int chunk_slots(const DecodeArguments *a) {
    int lanes = dispatch_decode_lanes(a->head_dim);
    return decode_passes(a->kind, dispatch_decode_heads(a->group, lanes, a->n_slots)) * (32 / lanes);
}

static int splits_of(int n_slots, int split_slots) {
    return (n_slots + split_slots - 1) / split_slots;
}

static void choose_splits(const Decoder *d, DecodeArguments *a) {
    int chunk = chunk_slots(a), least = a->group < 8 ? LEAST_SPLIT : LEAST_SHARED_SPLIT;
    int splits = splits_of(a->n_slots, least);
    if (splits < FEWEST_SPLITS) splits = FEWEST_SPLITS;
    if (splits > d->max_splits) splits = d->max_splits;
    if (splits < 1 || a->n_slots <= ALONE) splits = 1;
    a->split_slots = splits_of(splits_of(a->n_slots, splits), chunk) * chunk;
    // Whole chunks may leave too few of them again.
    int shorter = a->split_slots - chunk;
    if (splits > 1 && splits_of(a->n_slots, a->split_slots) < FEWEST_SPLITS && shorter > 0 &&
        splits_of(a->n_slots, shorter) <= d->max_splits)
        a->split_slots = shorter;
    a->n_splits = splits_of(a->n_slots, a->split_slots);
    a->combine_elements = (a->group * a->head_dim + a->n_splits - 1) / a->n_splits;
}

static int round_up(int n, int to) {
    return (n + to - 1) / to * to;
}

// The widest input in float32 and in fewer bits, whether there is one in halves, and whether a phase wants one in both.
struct InputForms {
    int float_cols, quant_cols;
    bool halves, both;
};
static InputForms forms_of(const DecodeArguments *a, const DecodeLayer *layers) {
    InputForms f = {};
    auto count = [&](int phase, int wanted) {
        const int cols = a->phases[phase].pieces * a->phases[phase].pitch;
        const bool floats = wanted & FORM_FLOATS, quants = wanted & ~FORM_FLOATS;
        f.halves = f.halves || (wanted & FORM_HALVES);
        if (floats && cols > f.float_cols) f.float_cols = cols;
        if (quants && cols > f.quant_cols) f.quant_cols = cols;
        f.both = f.both || (floats && quants);
    };
    for (int l = 0; l < a->n_layers; l++)
        for (int p = 0; p < PHASE_LOGITS; p++)
            if (p != PHASE_ATTEND) count(p, layers[l].forms[p]);
    count(PHASE_LOGITS, a->output_forms);
    return f;
}

// Lays shared memory out; the rings take what is left. False if there is not enough.
static bool lay_out_shared(const CudaBackend *cuda, DecodeArguments *a, const DecodeLayer *layers) {
    const DecodeBlock block = decode_block(cuda->device.code);
    const int warps = block.warps;
    int used = 0, slot = chunk_bytes(a->output.format, chunk_elements(a->output.format));
    for (int l = 0; l < a->n_layers; l++) {
        const DecodeMatrix *rows[] = {&layers[l].rows[PHASE_QKV],
                                      &layers[l].rows[PHASE_OUT],
                                      &layers[l].rows[PHASE_GATE_UP],
                                      &layers[l].rows[PHASE_DOWN],
                                      &layers[l].k,
                                      &layers[l].v};
        for (const DecodeMatrix *m : rows) {
            if (!m->data) continue;
            int bytes = chunk_bytes(m->format, chunk_elements(m->format));
            if (bytes > slot) slot = bytes;
        }
    }
    slot = round_up(slot > 2048 ? slot : 2048, 128); // a chunk of the cache has at most 2 KB
    auto take = [&](int bytes) {
        int at = used;
        used += round_up(bytes, 128);
        return at;
    };
    DecodeShared *s = &a->shared;
    int lanes = dispatch_decode_lanes(a->head_dim), chunk = chunk_slots(a);
    s->layers = take(block.near ? a->n_layers * (int)sizeof(DecodeLayer) : 0);
    s->scales = take(a->kind == DECODE_F16 || !block.near ? 0 : a->n_layers * (int)sizeof(DecodeScales));
    s->rope = take(a->n_tables * layer_turns(*a) * (int)sizeof(float2));
    s->residual = take(a->hidden * 4);
    s->sums = take((ROUTED_SCALE + 1) * 4);
    s->masks = take(a->n_windows * (a->split_slots / chunk + 1) * 4);
    s->pages = take(((a->split_slots >> a->page_shift) + 2) * 4);
    s->barriers = take(warps * DECODE_MAX_STAGES * 16 + 16); // behind them: experts are chosen, place_of()
    s->chosen =
        take(a->experts.n > 0 ? (int)sizeof(ChosenExperts) + (2 + a->route_parts) * a->experts.n * 4 : 0);
    const InputForms forms = forms_of(a, layers);
    int cols = forms.quant_cols;
    s->input = take(round_up(forms.float_cols, 256) * 4);
    int behind = used;
    if (!forms.both) used = s->input; // either form in the same place
    s->quants = used;
    s->quant_plane = round_up(forms.halves ? cols : cols / 2, 128) + 64;
    s->quant_sums = s->quants + 2 * s->quant_plane + round_up(cols / 32 * 4 + 4, 16);
    if (cols) take(s->quant_sums - s->quants + cols / 16 * 4 + 16);
    if (used < behind) used = behind;
    int heads = dispatch_decode_heads(a->group, lanes, a->n_slots), n_parts = (a->group + heads - 1) / heads;
    int streams = warps / n_parts, elements = a->group * a->head_dim;
    int attend = ((a->group + 2) * a->head_dim + streams * elements + 2 * (streams + 2) * a->group +
                  (a->kind == DECODE_F16 ? 0 : a->head_dim / 8 + a->head_dim + warps * chunk * MOST_GROUPS) +
                  (a->n_evicted > 0 ? elements : 0)) *
                 4;
    if (used - s->input < attend) used = round_up(s->input + attend, 128);
    s->ring = used;
    s->slot_bytes = slot;
    s->n_stages = ((int)cuda->device.card.shared_limit - STATIC_SHARED - used) / (warps * slot);
    if (s->n_stages > DECODE_MAX_STAGES) s->n_stages = DECODE_MAX_STAGES;
    s->total = used + warps * s->n_stages * slot;
    // A warp for each part of the group's heads, besides one that rounds.
    return s->n_stages >= 2 && n_parts <= warps - (a->kind == DECODE_F16 ? 0 : 1);
}

// The token's index, and pages that the kernel can go through: powers of two, of whole chunks. The last page is looked
// at first: there the token is, unless the sequence has become a ring.
static bool find_token(const Step *step, DecodeArguments *a) {
    const StepSequence *q = &step->sequences[0];
    int size = step->page_size, chunk = chunk_slots(a);
    if (q->n_slots <= size)
        a->page_shift = 31;
    else if (size & (size - 1) || size < chunk)
        return false;
    else
        a->page_shift = __builtin_ctz((unsigned)size);
    for (int p = (q->n_slots - 1) / size; p >= 0; p--) {
        int at = a->slot - q->pages[p];
        if (at < 0 || at >= size || at >= q->n_slots - p * size) continue;
        a->index = p * size + at;
        return true;
    }
    return false;
}

static void fill_phases(const DecoderShape *s, const Decoder *d, DecodeArguments *a) {
    auto counter = [&](int phase) { return d->arrived + phase * 32; };
    const Experts *e = &s->experts;
    int hidden = s->hidden_size, pairs = e->n > 0 ? e->n_active * e->size : s->intermediate_size;
    DecodePhaseShape *p = a->phases;
    p[PHASE_QKV] = {hidden, a->q_dim + 2 * a->kv_dim, d->x, d->qkv, counter(PHASE_DOWN), counter(PHASE_QKV),
                    true};
    p[PHASE_ATTEND] = {0, 0, d->qkv, d->attended, counter(PHASE_QKV), counter(PHASE_ATTEND), false};
    p[PHASE_OUT] = {a->q_dim,           hidden, d->attended, d->middle, counter(PHASE_ATTEND),
                    counter(PHASE_OUT), false};
    if (e->n > 0)
        p[PHASE_ROUTE] = {hidden,    e->n * route_parts(s), d->middle,
                          d->routed, counter(PHASE_OUT),    counter(PHASE_ROUTE),
                          true};
    p[PHASE_GATE_UP] = {hidden, pairs, d->middle, d->gated, counter(PHASE_OUT), counter(PHASE_GATE_UP), true};
    p[PHASE_DOWN] = {pairs, hidden, d->gated, d->x, counter(PHASE_GATE_UP), counter(PHASE_DOWN), false};
    p[PHASE_LOGITS] = {hidden, decoder_output_rows(s), d->x, NULL, counter(PHASE_DOWN), NULL, false};
    for (int i = 0; i < PHASE_END; i++) p[i].pieces = 1, p[i].pitch = p[i].cols;
    if (e->n > 0) {
        p[PHASE_GATE_UP].from = NULL, p[PHASE_GATE_UP].awaited = NULL; // its input is the router's
        p[PHASE_DOWN].pieces = e->n_active, p[PHASE_DOWN].cols = e->size;
        p[PHASE_DOWN].pitch = round_up(e->size, PIECE_PITCH);
        a->experts = *e, a->route_parts = route_parts(s);
        while (a->choice_shift < 3 && round_up(e->n, 4) << (a->choice_shift + 1) <= MOST_ROUTED)
            a->choice_shift++;
        a->size_factor = (unsigned)((((uint64_t)1 << 32) + (unsigned)e->size - 1) / (unsigned)e->size);
    }
    a->qkv = d->qkv, a->attended = d->attended, a->parts = d->parts, a->weights = d->weights;
    a->head_arrived = counter(PHASE_END);
}

static uint64_t bits_of(const DecodeMatrix &m) {
    return m.data ? format_bits(m.format) : 0;
}

static DecodeFormats formats_of(const DecodeLayer *layers, int n, const DecodeMatrix &output) {
    uint64_t all = bits_of(output);
    for (int l = 0; l < n; l++) {
        all |= bits_of(layers[l].k) | bits_of(layers[l].v);
        for (int p = 0; p < PHASE_LOGITS; p++)
            if (p != PHASE_ROUTE) all |= bits_of(layers[l].rows[p]); // routers are float32 in all kernels
    }
    for (int set = DECODE_ALL + 1; set < DECODE_SETS; set++)
        if (!(all & ~decode_formats((DecodeFormats)set))) return (DecodeFormats)set;
    return DECODE_ALL;
}

// Of several cards: where they leave what they add to x. False: there is no code for that, or a block would have no rows of
// out and down (cards.cuh).
static bool fill_cards(const CudaBackend *cuda, DecodeArguments *a, const DecodeLayer *layers) {
    const CudaPeers *p = cuda->peers;
    if (!p) return true;
    bool able = p->direct && a->hidden >= cuda->device.card.n_sms && decode_has_cards(a);
    for (int l = 0; l < a->n_layers; l++) {
        for (int phase = 0; phase < PHASE_LOGITS; phase++)
            able = able && !(layers[l].forms[phase] & FORM_WHOLE);
        able = able && !layers[l].out_post && !layers[l].down_post;
    }
    a->n_cards = p->n, a->card = p->rank;
    for (int i = 0; i < p->n; i++) a->shares[i] = p->shares[i];
    return able && !(a->output_forms & FORM_WHOLE);
}

// See DecodeArguments.early and decode.cuh. With all but one the others' data are asked for again and again, which takes as
// long as it saves.
static int early_of(const CudaBackend *cuda, const DecodeArguments *a) {
    const int n_blocks = cuda->device.card.n_sms;
    bool all = !cuda->peers;
    for (int phase : {PHASE_QKV, PHASE_OUT, PHASE_GATE_UP, PHASE_DOWN})
        all = all && a->phases[phase].units >= n_blocks;
    return all ? n_blocks / 4 : 0;
}

// All warps of the card's blocks that compute; each has a ring.
static int warps_of(const CudaBackend *cuda) {
    return cuda->device.card.n_sms * decode_block(cuda->device.code).warps;
}

// About the bytes that a token reads of a layer's matrices, k and v as if they were rows of q.
static int64_t layer_bytes(const DecodeArguments *a, const DecodeLayer &l) {
    int64_t bytes = 0;
    for (int phase : {PHASE_QKV, PHASE_OUT, PHASE_GATE_UP, PHASE_DOWN}) {
        const DecodePhaseShape &p = a->phases[phase];
        bytes += (int64_t)p.units * p.pieces * l.rows[phase].row_bytes * (phase == PHASE_GATE_UP ? 2 : 1);
    }
    return bytes;
}

// See DecodeArguments.copies_now, once the rings are laid out. Measured on Hopper alone. Where rings hold a layer its
// matrices are not waited for. Experts are not known ahead, so that most of a layer is read while it is waited for: more
// ahead, and fewer at once, for blocks then get more even shares. Formats of DECODE_TWO wait for instructions.
static void limit_copies(const CudaBackend *cuda, DecodeArguments *a, const DecodeLayer *layers) {
    const int64_t rings = (int64_t)warps_of(cuda) * a->shared.n_stages * a->shared.slot_bytes;
    a->copies_now = a->copies_ahead = a->shared.n_stages;
    if (cuda->device.code != 900 || layer_bytes(a, layers[0]) < rings) return;
    a->copies_ahead = a->experts.n > 0 || a->formats == DECODE_TWO ? 2 : 1;
    if (a->experts.n > 0) a->copies_now = min(a->shared.n_stages, 3);
}

// The most units of a phase that a warp has.
static int most_units(const CudaBackend *cuda, int units) {
    const int warps = warps_of(cuda);
    return (units + warps - 1) / warps;
}

// Whether halves of a phase's rows are some of their pieces, and not of their columns.
static bool halves_pieces(const DecodeArguments *a, int phase) {
    return a->experts.n > 0 && phase == PHASE_DOWN;
}

// Whether halves of a matrix's rows, of so many columns, are rows themselves.
static bool halves_are_rows(const DecodeMatrix &m, int cols) {
    return (m.format == FORMAT_F16 || m.format == FORMAT_BF16) && m.row_bytes == cols * 2 && cols % 512 == 0;
}

// See DecodeArguments.halved: where halves share out more evenly over all warps than rows do, and where every block gives
// some of both halves of down's input (decode.cuh). Where x is put together of them there is no code for W8.
static bool can_halve(const CudaBackend *cuda, const DecodeArguments *a, const DecodeLayer *layers,
                      int phase) {
    const DecodePhaseShape &p = a->phases[phase];
    const bool pieces = halves_pieces(a, phase);
    const int n_blocks = cuda->device.card.n_sms, of_half = pieces ? p.pieces / 2 * p.cols : p.cols / 2;
    bool can = a->early > 0 && a->kind == DECODE_F16 && !cuda->peers && n_blocks % 2 == 0 &&
               of_half >= n_blocks && (!pieces || p.pieces % 2 == 0) &&
               most_units(cuda, 2 * p.units) < 2 * most_units(cuda, p.units);
    int forms = a->output_forms;
    for (int l = 0; l < a->n_layers && can; l++) {
        can = (pieces || halves_are_rows(layers[l].rows[phase], p.cols)) && !layers[l].out_post &&
              !layers[l].down_post;
        forms |= layers[l].forms[PHASE_QKV] | layers[l].forms[PHASE_GATE_UP];
    }
    return can && !(forms & FORM_WHOLE);
}

static void halve(DecodeArguments *a, DecodeLayer *layers, int phase) {
    DecodePhaseShape &p = a->phases[phase];
    a->halved |= 1u << phase;
    p.units *= 2;
    if (halves_pieces(a, phase)) {
        p.pieces /= 2;
        return;
    }
    p.cols /= 2, p.pitch = p.cols;
    for (int l = 0; l < a->n_layers; l++) {
        DecodeMatrix &m = layers[l].rows[phase];
        m = matrix_in_chunks(m.data, m.format, p.cols, p.cols * 2);
    }
}

bool arguments_fill(const CudaBackend *cuda, const DecodeStep *t, DecodeArguments *a) {
    const DecoderShape *s = cuda->shape;
    const StepSequence *q = &t->step->sequences[0];
    const Decoder *d = cuda->decoder;
    memset(a, 0, sizeof *a);
    a->n_layers = s->n_layers, a->hidden = s->hidden_size;
    a->q_dim = s->n_heads * s->head_dim, a->kv_dim = s->n_kv_heads * s->head_dim;
    a->head_factor = ((1u << 22) + (unsigned)s->head_dim - 1) / (unsigned)s->head_dim;
    a->n_kv_heads = s->n_kv_heads, a->group = s->n_heads / s->n_kv_heads;
    a->head_dim = s->head_dim, a->rotary_dim = s->rope.rotary_dim;
    a->interleaved = s->rope.kind == ROPE_INTERLEAVED, a->activation = s->activation;
    a->eps = s->norm_eps, a->embedding_scale = s->embedding_scale, a->logit_cap = s->logit_cap;
    a->n_tables = rope_tables(&s->rope), a->table_stride = rope_sets(&s->rope) * (s->rope.rotary_dim / 2);
    a->magnitude[0] = (float)s->rope.magnitude, a->magnitude[1] = (float)s->rope.other_magnitude;
    a->score_scale = s->attention_scale * 1.44269504f;
    a->inv_freq = cuda->device.inv_freq + (int64_t)q->rope_set * (s->rope.rotary_dim / 2);
    a->id = t->step->ids[0], a->position = t->step->positions[0], a->slot = t->step->slots[0];
    if (t->drawn && t->drawn[0] >= 0) a->drawn = cuda->scratch.drawn + t->drawn[0];
    a->score_scale *= query_temperature(s, (int64_t)a->position - q->n_evicted);
    a->n_slots = q->n_slots, a->slot_positions = t->step->slot_positions;
    a->n_sinks = q->n_sinks, a->n_evicted = q->n_evicted;
    bool able = describe_cache(s, &t->kv[0], t->step, a) && find_token(t->step, a);
    for (int l = 0; l < s->n_layers; l++)
        able = able && describe_layer(t->layers[l], &t->kv[l], t->windows[l], a, &d->wanted[l]) &&
               fits_cache(&t->kv[l], a, &d->wanted_scales[l]);
    a->embedding = matrix_of(&t->head->embedding);
    if (t->x) { // a table of one row
        a->embedding = {(const char *)t->x, NULL, s->hidden_size * (int)sizeof(float), FORMAT_F32};
        a->id = 0, a->drawn = NULL, a->embedding_scale = 1;
    }
    a->output = matrix_of(&t->head->output.part[0]);
    a->output_forms = decode_form(a->output.format);
    a->formats = formats_of(d->wanted, s->n_layers, a->output);
    a->norm = t->head->norm.weight;
    a->logits = t->gather ? (float *)t->gather->part : t->logits, a->counts = cuda->counts;
    a->layers = d->table, a->scales = d->scales;
    fill_phases(s, d, a);
    a->round = d->round, a->head_round = d->head_round;
    a->threads = decode_block(cuda->device.code).threads();
    a->early = early_of(cuda, a);
    for (int phase : {PHASE_OUT, PHASE_DOWN})
        if (can_halve(cuda, a, d->wanted, phase)) halve(a, d->wanted, phase);
    if (!able || !multiplies(a, &a->output)) return false;
    choose_splits(d, a);
    if (!fill_cards(cuda, a, d->wanted) || !lay_out_shared(cuda, a, d->wanted)) return false;
    limit_copies(cuda, a, d->wanted);
    return true;
}
