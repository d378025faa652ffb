// How the decoding kernel goes about a step: splits of the cache, rows in halves, shared memory and copies under way.
#include "kernels/cuda/decode/decode_internal.cuh"

enum {
    ALONE = 96,       // slots up to which one block attends faster than several that exchange their sums
    LEAST_SPLIT = 64, // slots for which it pays to ask another block
    LEAST_SHARED_SPLIT = 40, // the same where eight heads and more look at each
    FEWEST_SPLITS = 6,       // where there are several: two or three have more to put together than they save
    STATIC_SHARED = 1024,    // more than the kernel declares itself
};

int chunk_slots(const DecodeArguments *a) {
    int lanes = dispatch_decode_lanes(a->head_dim);
    return decode_passes(a->kind, dispatch_decode_heads(a->group, lanes, a->n_slots)) * (32 / lanes);
}

static int splits_of(int n_slots, int split_slots) {
    return (n_slots + split_slots - 1) / split_slots;
}

// Indexes of a split, of n_slots that `group` query heads look at in chunks; at most `most` splits.
static int slots_of_split(int n_slots, int group, int chunk, int most) {
    int splits = splits_of(n_slots, group < 8 ? LEAST_SPLIT : LEAST_SHARED_SPLIT);
    if (splits < FEWEST_SPLITS) splits = FEWEST_SPLITS;
    if (splits > most) splits = most;
    if (splits < 1 || n_slots <= ALONE) splits = 1;
    const int slots = splits_of(splits_of(n_slots, splits), chunk) * chunk;
    // Whole chunks may leave too few of them again.
    const int shorter = slots - chunk;
    return splits > 1 && splits_of(n_slots, slots) < FEWEST_SPLITS && shorter > 0 &&
                   splits_of(n_slots, shorter) <= most
               ? shorter
               : slots;
}

static void choose_splits(const Decoder *d, DecodeArguments *a) {
    const int chunk = chunk_slots(a), first = a->heads[0].first; // 0 but of two kinds
    a->split_slots = slots_of_split(a->n_slots - first, a->group, chunk, d->max_splits);
    a->n_splits = splits_of(a->n_slots - first, a->split_slots);
    a->combine_elements = (a->group * a->head_dim + a->n_splits - 1) / a->n_splits;
    if (!a->kinds) return;
    for (int k = 0; k < 2; k++) {
        DecodeHeads *h = &a->heads[k];
        const int n = a->n_slots - h->first, most = k ? d->wide_max_splits : d->max_splits;
        h->split_slots = slots_of_split(n, h->group, chunk * USUAL_DIM / (k ? WIDE_DIM : USUAL_DIM), most);
        h->n_splits = splits_of(n, h->split_slots);
        h->combine_elements = (h->q_dim / h->n_kv_heads + h->n_splits - 1) / h->n_splits;
        // Of heads of 512 a stream's sums are as large as three stages of a ring.
        h->streams = k == 0 || h->split_slots > 256 ? 16 : h->split_slots > 64 ? 2 : 1;
    }
}

// The widest input in float32 and in fewer bits, whether there is one in halves, and whether a phase wants one in both.
struct InputForms {
    int float_cols, quant_cols;
    bool halves, both;
};
static InputForms forms_of(const DecodeArguments *a, const DecodeLayer *layers) {
    InputForms f = {};
    auto count = [&](int phase, int wanted) {
        int cols = a->phases[phase].pieces * a->phases[phase].pitch;
        if (phase == PHASE_OUT) cols = max(cols, max(a->state_width, a->heads[1].q_dim));
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
    const DecodeGated *gated = a->gated ? cuda->decoder->wanted_gates : NULL;
    const int warps = block.warps;
    int used = 0, slot = chunk_bytes(a->output.format, chunk_elements(a->output.format));
    for (int l = 0; l < a->n_layers; l++) {
        for (int i = 0; gated && i < gated[l].n_parts; i++)
            slot = max(slot, chunk_bytes(gated[l].parts[i].format, chunk_elements(gated[l].parts[i].format)));
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
    s->gated = take(a->gated && block.near ? a->n_layers * (int)sizeof(DecodeGated) : 0);
    s->rope = take(a->n_tables * layer_turns(*a) * (int)sizeof(float2));
    s->residual = take(a->hidden * 4);
    s->sums = take((ROUTED_SCALE + 1) * 4);
    s->masks = take(a->n_windows * (a->split_slots / chunk + 1) * 4);
    s->pages = take(((a->split_slots >> a->page_shift) + 2) * 4);
    s->barriers = take(warps * DECODE_MAX_STAGES * 16 + 16); // behind them: experts are chosen, place_of()
    s->chosen = take(a->experts.n > 0
                         ? (int)sizeof(ChosenExperts) + (2 * a->experts.n + a->phases[PHASE_ROUTE].units) * 4
                         : 0);
    const DecodeHeads *wide = a->kinds ? &a->heads[1] : NULL;
    a->kinds_at = take(wide ? a->n_layers * (int)sizeof(DecodeKind) : 0);
    a->wide_masks_at = take(wide ? a->n_windows * (wide->split_slots * 2 / chunk + 1) * 4 : 0);
    a->wide_pages_at = take(wide ? ((wide->split_slots >> a->page_shift) + 2) * 4 : 0);
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
    if (a->gated) attend = max(attend, 3 * RECUR_MOST_DIM * (int)sizeof(float));
    if (wide) {
        const int group = wide->group, of_wide = (group + heads - 1) / heads;
        n_parts = max(n_parts, of_wide), streams = min(warps / max(of_wide, 1), wide->streams);
        attend = max(attend, ((group + 2 + streams * group + (a->n_evicted > 0 ? group : 0)) * WIDE_DIM +
                              2 * (streams + 2) * group) *
                                 4);
    }
    if (used - s->input < attend) used = round_up(s->input + attend, 128);
    s->ring = used;
    s->slot_bytes = slot;
    s->n_stages = ((int)cuda->device.card.shared_limit - STATIC_SHARED - used) / (warps * slot);
    if (s->n_stages > DECODE_MAX_STAGES) s->n_stages = DECODE_MAX_STAGES;
    s->total = used + warps * s->n_stages * slot;
    // A warp for each part of the group's heads, besides one that rounds.
    return s->n_stages >= 2 && n_parts <= warps - (a->kind == DECODE_F16 ? 0 : 1);
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
    bool can = a->early > 0 && a->kind == DECODE_F16 && !cuda->peers && !a->gated && n_blocks % 2 == 0 &&
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

bool plan_step(const CudaBackend *cuda, DecodeArguments *a) {
    DecodeLayer *layers = cuda->decoder->wanted;
    a->early = early_of(cuda, a);
    for (int phase : {PHASE_OUT, PHASE_DOWN})
        if (can_halve(cuda, a, layers, phase)) halve(a, layers, phase);
    choose_splits(cuda->decoder, a);
    if (!lay_out_shared(cuda, a, layers)) return false;
    limit_copies(cuda, a, layers);
    return true;
}
