// The arguments of the decoding kernel for a step, out of what describe.cu says of the model and plan.cu of the way.
#include "kernels/cuda/decode/decode_internal.cuh"
#include "kernels/cuda/peers/peers.cuh"
#include "kernels/temperature.h"

#include <string.h>

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
    const int n_taken = e->n_active + (e->shared_size > 0);
    int hidden = s->hidden_size, pairs = e->n > 0 ? n_taken * e->size : s->intermediate_size;
    DecodePhaseShape *p = a->phases;
    p[PHASE_QKV] = {hidden, a->q_dim + 2 * a->kv_dim, d->x, d->qkv, counter(PHASE_DOWN), counter(PHASE_QKV),
                    true};
    p[PHASE_ATTEND] = {0, 0, d->qkv, d->attended, counter(PHASE_QKV), counter(PHASE_ATTEND), false};
    p[PHASE_OUT] = {a->q_dim,           hidden, d->attended, d->middle, counter(PHASE_ATTEND),
                    counter(PHASE_OUT), false};
    if (e->n > 0)
        p[PHASE_ROUTE] = {hidden,
                          (e->n + a->shared_routed) * route_parts(s),
                          d->middle,
                          d->routed,
                          counter(PHASE_OUT),
                          counter(PHASE_ROUTE),
                          true};
    p[PHASE_GATE_UP] = {hidden, pairs, d->middle, d->gated, counter(PHASE_OUT), counter(PHASE_GATE_UP), true};
    p[PHASE_DOWN] = {pairs, hidden, d->gated, d->x, counter(PHASE_GATE_UP), counter(PHASE_DOWN), false};
    p[PHASE_LOGITS] = {hidden, decoder_output_rows(s), d->x, NULL, counter(PHASE_DOWN), NULL, false};
    for (int i = 0; i < PHASE_END; i++) p[i].pieces = 1, p[i].pitch = p[i].cols;
    if (e->n > 0) {
        p[PHASE_GATE_UP].from = NULL, p[PHASE_GATE_UP].awaited = NULL; // its input is the router's
        p[PHASE_DOWN].pieces = n_taken, p[PHASE_DOWN].cols = e->size;
        p[PHASE_DOWN].pitch = round_up(e->size, PIECE_PITCH);
        a->experts = *e, a->n_taken = n_taken, a->route_parts = route_parts(s);
        while (a->choice_shift < 3 && round_up(e->n, 4) << (a->choice_shift + 1) <= MOST_ROUTED)
            a->choice_shift++;
        a->size_factor = (unsigned)((((uint64_t)1 << 32) + (unsigned)e->size - 1) / (unsigned)e->size);
    }
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

// Of layers that recur: whose states the token goes on from, and how many blocks share a head.
static void fill_states(const CudaBackend *cuda, const StepSequence *q, DecodeArguments *a) {
    const DeltaRule *d = &cuda->shape->delta;
    if (d->n_value_heads == 0) return;
    a->gated = cuda->decoder->gates;
    a->delta = *d, a->channels = (int)delta_channels(d), a->state_floats = delta_state_floats(d);
    a->state_width = (int)delta_width(d);
    a->state_from = q->state_from, a->state_to = q->state_to;
    a->head_parts = 1;
    while (2 * a->head_parts * 8 <= d->value_dim &&
           2 * a->head_parts * d->n_value_heads <= cuda->device.card.n_sms)
        a->head_parts *= 2;
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
    fill_states(cuda, q, a);
    const KvLayer *attending = kv_layer_attending(t->kv, s->n_layers);
    const bool kinds = d->kinds != NULL;
    a->qkv = d->qkv, a->attended = d->attended, a->parts = d->parts, a->weights = d->weights;
    a->head_arrived = d->arrived + PHASE_END * 32;
    a->round = d->round, a->head_round = d->head_round;
    bool able = attending && (kinds ? kinds_fill(cuda, t, a) : describe_cache(s, attending, t->step, a)) &&
                find_token(t->step, a);
    for (int l = 0; l < s->n_layers && able; l++) {
        able = describe_layer(t->layers[l], &t->kv[l], t->windows[l], a, &d->wanted[l]) &&
               (t->kv[l].recurs || kinds || fits_cache(&t->kv[l], a, &d->wanted_scales[l]));
        if (able && a->gated)
            able = describe_gated(a, t->layers[l], &t->kv[l], &d->wanted[l], &d->wanted_gates[l]);
        if (able && a->gated) d->wanted_gates[l].turn = a->n_attending;
        a->n_attending += !t->kv[l].recurs;
    }
    a->embedding = matrix_of(&t->head->embedding);
    if (t->x) { // a table of one row
        a->embedding = {(const char *)t->x, NULL, s->hidden_size * (int)sizeof(float), FORMAT_F32};
        a->id = 0, a->drawn = NULL, a->embedding_scale = 1;
    }
    a->output = matrix_of(&t->head->output.part[0]);
    a->output_forms = decode_form(a->output.format);
    a->formats = formats_of(d->wanted, a->gated ? d->wanted_gates : NULL, s->n_layers, a->output);
    a->norm = t->head->norm.weight;
    a->logits = t->gather ? (float *)t->gather->part : t->logits, a->counts = cuda->counts;
    a->layers = d->table, a->scales = d->scales;
    a->shared_routed = s->experts.n > 0 && t->layers[0]->shared_routed;
    fill_phases(s, d, a);
    a->threads = decode_block(cuda->device.code).threads();
    if (able && a->gated) able = !cuda->peers && decode_has_states(a);
    if (able && a->kinds) able = !cuda->peers;
    return able && multiplies(a, &a->output) && fill_cards(cuda, a, d->wanted) && plan_step(cuda, a);
}
