// begin: checks a step, uploads its arrays, cuts its tokens into attention tiles, computes cos and sin.
#include "kernels/cuda/attention/split.cuh"
#include "kernels/both_ways.h"
#include "kernels/step_check.h"
#include "kernels/temperature.h"

#include <stdio.h>
#include <string.h>

struct BeginArguments {
    const int32_t *positions, *slots, *n_evicted, *rope_sets, *drawn;
    const int32_t *prefixes;  // NULL: positions have one dimension
    const int32_t *drawn_ids; // of rows that were sampled
    int32_t *ids;
    const double *inv_freq;
    int n_pairs, n_sets;
    float magnitude[ROPE_MOST_TABLES];
    int64_t rope_stride;      // elements from a table's turns to the next one's
    float2 *rope, *sink_rope; // sink_rope NULL: no token was evicted; else [n_tables, n_tokens, n_pairs]
    int32_t *slot_positions;
};

__device__ inline float2 turn_of(double angle, float magnitude) {
    double sine, cosine;
    sincos(angle, &sine, &cosine);
    return make_float2(magnitude * (float)cosine, magnitude * (float)sine);
}

// One thread a pair of a token: rope[t, i] = magnitude·(cos, sin)(p·inv_freq[i]), the angle in double. Thread 0
// of a token's pairs enters its position into the cache's slot, and the id that was drawn for it. Grid: [n_tokens,
// n_tables], block: 128.
__global__ void begin_kernel(BeginArguments a) {
    int token = blockIdx.x, table = blockIdx.y;
    int32_t position = a.positions[token];
    const double *inv_freq = a.inv_freq + ((int64_t)table * a.n_sets + a.rope_sets[token]) * a.n_pairs;
    float2 *rope = a.rope + table * a.rope_stride,
           *sink_rope = a.sink_rope + (int64_t)table * gridDim.x * a.n_pairs;
    for (int i = threadIdx.x; i < a.n_pairs; i += blockDim.x) {
        int64_t at = (int64_t)token * a.n_pairs + i;
        int32_t by = position;
        if (a.prefixes)
            by = i < a.n_pairs / 2 ? position_within(position, a.prefixes[token])
                                   : position_beyond(position, a.prefixes[token]);
        rope[at] = turn_of(by * inv_freq[i], a.magnitude[table]);
        if (a.sink_rope) sink_rope[at] = turn_of(a.n_evicted[token] * inv_freq[i], 1);
    }
    if (threadIdx.x != 0 || table != 0) return;
    if (a.slots[token] >= 0) a.slot_positions[a.slots[token]] = position;
    if (a.drawn[token] >= 0) a.ids[token] = max(a.drawn_ids[a.drawn[token]], 0);
}

static int n_pages(const Step *step, const StepSequence *q) {
    return (int)sequence_n_pages(q, step->page_size);
}

// Whether its tokens are of a prefix that is seen both ways: they see keys that this step stores behind theirs.
static bool reads_prefix(const Step *step, const StepSequence *q) {
    return step->positions[q->first_token] < q->n_prefix;
}

Status cuda_check_step(const CudaBackend *cuda, const Step *step, Error *error) {
    return step_check(cuda->shape, cuda->max_tokens, step, error);
}

// ---- tiles ---------------------------------------------------------------------------------------------------

// How a step's sequences are cut: tiles of at most `most` tokens. Those of few tokens are for the kernels that split the
// cache, and stand apart: all of a short step, else those of sequences of one, or where all tiles are. In a prompt whose
// pieces are not to show, there are none.
struct TileCut {
    int most;
    bool none_few, all_few;
    TileCut(const Step *step, const SplitPlan *plan)
        : most(tile_tokens(&plan->heads)), none_few(step->kind == STEP_READING || any_prefix(step)),
          all_few(!none_few && step->kind == STEP_ANY && step->n_tokens <= plan->few) {}

    static bool any_prefix(const Step *step) {
        for (int s = 0; s < step->n_sequences; s++)
            if (step->sequences[s].n_prefix > 0 && reads_prefix(step, &step->sequences[s])) return true;
        return false;
    }

    // Whether a sequence's tiles are.
    bool few(const StepSequence *q) const {
        return all_few || (!none_few && (q->n_tokens == 1 || most == 1));
    }
    int few_tiles(const StepSequence *q) const { return few(q) ? (q->n_tokens + most - 1) / most : 0; }
    // Blocks of 64 rows that share all its tiles of a KV head.
    int row_blocks(const StepSequence *q, const AttendHeads *heads) const {
        const int group = heads->n_heads / heads->n_kv_heads;
        auto blocks = [&](int tokens) { return (tokens * group + SPLIT_WGMMA_ROWS - 1) / SPLIT_WGMMA_ROWS; };
        return q->n_tokens / most * blocks(most) + blocks(q->n_tokens % most);
    }
};

// Appends the tiles of a sequence that are, or are not, of few tokens.
static int cut_sequence(const StepSequence *q, AttendTile tile, const TileCut &cut, bool few,
                        AttendTile *tiles) {
    if (cut.few(q) != few) return 0;
    int n = 0;
    for (int t = 0; t < q->n_tokens; t += cut.most) {
        tile.first_token = q->first_token + t;
        tile.n_tokens = q->n_tokens - t < cut.most ? q->n_tokens - t : cut.most;
        tiles[n++] = tile;
    }
    return n;
}

// The step's arrays in the order in which they are uploaded, from `base` on; returns the bytes.
static size_t lay_out(CudaStep *step, const StageRoom *room, char *base) {
    size_t used = 0, n = (size_t)room->tokens;
    auto take = [&](size_t ints) {
        char *at = base + used;
        used += (ints * 4 + 15) / 16 * 16;
        return (int32_t *)at;
    };
    step->ids = take(n), step->positions = take(n), step->slots = take(n), step->n_evicted = take(n);
    step->rope_sets = take(n), step->drawn = take(n), step->count = take(1);
    step->prefixes = take(n), step->seen = take(n);
    step->temperatures = (float *)take(n);
    step->earlier = take(n * (size_t)room->earlier);
    step->sequence_of = take(n * (size_t)room->recurs);
    step->sequences = (RecurringSequence *)take(n * (size_t)room->recurs * sizeof(RecurringSequence) / 4);
    step->tiles = (AttendTile *)take(n * sizeof(AttendTile) / 4);
    step->pages.first = take((size_t)room->pages);
    step->split_tiles = (AttendTile *)take((size_t)room->splits * sizeof(AttendTile) / 4);
    return used;
}

// Fills tiles and tables of pages, which `to` has in host memory.
static void fill_tiles(const Staging *from, CudaStep *to) {
    const Step *step = from->step;
    const TileCut cut(step, from->plan);
    int32_t *pages = (int32_t *)to->pages.first;
    for (int few = 0; few < 2; few++) {
        int first_page = 0, n = to->n_tiles;
        for (int s = 0; s < step->n_sequences; s++) {
            const StepSequence *q = &step->sequences[s];
            AttendTile tile = {0, 0, first_page, q->n_slots, q->n_sinks, q->n_evicted, q->in_order};
            if (from->mask_columns) tile.mask_column = (int)from->mask_columns[s];
            n += cut_sequence(q, tile, cut, few, to->tiles + n);
            if (!few) memcpy(pages + first_page, q->pages, (size_t)n_pages(step, q) * sizeof *pages);
            first_page += n_pages(step, q);
            if (q->n_slots > to->most_slots) to->most_slots = q->n_slots;
            to->evicted = to->evicted || q->n_evicted > 0;
        }
        if (few)
            to->n_few_tiles = n - to->n_tiles;
        else
            to->n_tiles = n;
    }
}

// ---- splits --------------------------------------------------------------------------------------------------

// A plan by which most splits are made of a step of single tokens.
static SplitPlan plan_of_rows(const AttendHeads *heads, DType cache) {
    SplitPlan plan = {};
    plan.heads = *heads, plan.cache = cache;
    plan.few = ATTEND_FEW, plan.tokens = 1;
    plan.blocks_a_sm = MOST_BLOCKS_A_SM, plan.row_tiles = split_head_tiles(heads);
    return plan;
}

Status cuda_split_plan(const CudaBackend *cuda, const Step *step, const AttendHeads *heads, const KvLayer *kv,
                       SplitPlan *plan, Error *error) {
    const Card *card = &cuda->device.card;
    bool evicted = false;
    int n_slots = 0;
    if (kv && kv->recurs) kv = NULL; // nothing lies in its slots
    for (int s = 0; s < step->n_sequences; s++) {
        evicted = evicted || step->sequences[s].n_evicted > 0;
        if (step->sequences[s].n_slots > n_slots) n_slots = step->sequences[s].n_slots;
    }
    *plan = plan_of_rows(heads, kv ? kv->type : DTYPE_F16);
    if (kv) plan->few = split_few_tokens(card, kv, heads, evicted, n_slots);
    const TileCut cut(step, plan);
    for (int s = 0; s < step->n_sequences && cut.all_few; s++) {
        int n = step->sequences[s].n_tokens < cut.most ? step->sequences[s].n_tokens : cut.most;
        if (n > plan->tokens) plan->tokens = n;
    }
    if (kv && !split_built(kv->type)) {
        char what[40];
        snprintf(what, sizeof what, "a cache of %s", dtype_name(kv->type));
        return built_lacks(what, error);
    }
    if (step->kind != STEP_ANY || !kv)
        return STATUS_OK; // of no account, and who attends to no cache is not cut
    SplitFit fit;
    Status status =
        cuda_check(split_fit(card, kv, heads, plan->tokens, evicted, &fit), error, "splits of a cache");
    plan->blocks_a_sm = fit.blocks_a_sm, plan->once = fit.once;
    const int rows = plan->tokens * (heads->n_heads / heads->n_kv_heads);
    if (fit.rows > 0) plan->row_tiles = (rows + fit.rows - 1) / fit.rows;
    return status;
}

// Indexes of a split of a sequence.
static int split_slots(const CudaBackend *cuda, const Step *step, const StepSequence *q,
                       const SplitPlan *plan) {
    SplitCase c = {step->kind,      plan->cache,       plan->heads.n_kv_heads,
                   plan->row_tiles, plan->blocks_a_sm, plan->tokens > 1 && step->n_tokens <= FLAT_BESIDE};
    const TileCut cut(step, plan);
    c.slots = q->n_slots;
    c.latent = plan->heads.head_dim == ATTEND_LATENT_ROW, c.once = plan->once;
    if (step->n_sequences == 1) c.row_blocks = cut.row_blocks(q, &plan->heads);
    for (int s = 0; s < step->n_sequences && step->kind != STEP_DECODING; s++) {
        const StepSequence *other = &step->sequences[s];
        c.indexes += (int64_t)other->n_slots * cut.few_tiles(other);
        if (other->n_slots > c.slots) c.slots = other->n_slots;
    }
    return dispatch_split_slots(&cuda->device.card, &c);
}

static int splits_of(int n_slots, int split_slots) {
    return (n_slots + split_slots - 1) / split_slots;
}

static void fill_splits(const CudaBackend *cuda, const Staging *from, const StageRoom *room, CudaStep *to) {
    const StepSequence *q = from->step->sequences;
    int n = 0;
    for (int t = to->n_tiles; t < to->n_tiles + to->n_few_tiles; t++) {
        AttendTile *tile = &to->tiles[t];
        while (q->first_token + q->n_tokens <= tile->first_token) q++;
        tile->split_slots = split_slots(cuda, from->step, q, from->plan);
        tile->first_split = n;
        tile->n_splits = splits_of(tile->n_slots, tile->split_slots);
        for (int i = 0; i < tile->n_splits; i++) to->split_tiles[n++] = *tile;
    }
    while (n < room->splits) to->split_tiles[n++] = AttendTile{};
    to->n_splits = room->splits;
}

StageRoom cuda_stage_room(const CudaBackend *cuda, const Step *step, const SplitPlan *plan) {
    StageRoom room = {step->n_tokens, 0, 0, decoder_earlier(cuda->shape), decoder_recurring(cuda->shape) > 0};
    for (int s = 0; s < step->n_sequences; s++) {
        const StepSequence *q = &step->sequences[s];
        int few = TileCut(step, plan).few_tiles(q);
        room.pages += n_pages(step, q);
        if (few > 0) room.splits += splits_of(q->n_slots, split_slots(cuda, step, q, plan)) * few;
    }
    return room;
}

static size_t sink_rope_bytes(const Rope *rope, int n_tokens) {
    return (size_t)rope_tables(rope) * (size_t)n_tokens * (size_t)(rope->rotary_dim / 2) * sizeof(float2);
}

// With what the graphs of decode/graph.cu have to spare.
static size_t room_bytes(const CudaBackend *cuda, const StageRoom *needed, const SplitPlan *plan) {
    StageRoom room = {2 * needed->tokens, needed->splits + needed->splits / 4 + 16,
                      needed->pages + needed->pages / 4 + 64, needed->earlier, needed->recurs};
    CudaStep any;
    size_t sink_bytes = sink_rope_bytes(&cuda->shape->rope, room.tokens);
    return cuda_room_bytes(lay_out(&any, &room, NULL) + sink_bytes) +
           split_bytes(room.splits, &plan->heads, plan->tokens);
}

size_t cuda_step_bytes(const CudaBackend *cuda, int n_rows, int n_slots) {
    const DecoderShape *s = cuda->shape;
    // Of all caches those that are cut most: two rounds of as many splits as there may be.
    const AttendHeads heads = {s->n_heads, s->n_kv_heads, decoder_most_head_dim(s)};
    const SplitPlan plan = plan_of_rows(&heads, DTYPE_F16);
    const int most = tile_tokens(&heads), group = heads.n_heads / heads.n_kv_heads;
    StepSequence sequence = {};
    Step step = {};
    step.n_sequences = 1, step.sequences = &sequence, step.page_size = 16;
    step.n_tokens = sequence.n_tokens = cuda->max_tokens, sequence.n_slots = n_slots;
    StageRoom prompt = cuda_stage_room(cuda, &step, &plan);
    step.n_tokens = sequence.n_tokens = 1;
    const int of_one = cuda_stage_room(cuda, &step, &plan).splits;
    if (of_one > prompt.splits) prompt.splits = of_one;
    step.kind = STEP_DECODING;
    StageRoom row = cuda_stage_room(cuda, &step, &plan),
              rows = {n_rows, n_rows * row.splits, n_rows * row.pages, row.earlier, row.recurs};
    // As many rows of queries as splits of the longest tiles of few tokens hand to each other; shorter ones about as many.
    SplitPlan wide = plan;
    wide.tokens = most < ATTEND_FEW ? most : ATTEND_FEW;
    wide.row_tiles = (wide.tokens * group + MOST_SPLIT_ROWS - 1) / MOST_SPLIT_ROWS;
    step.n_tokens = sequence.n_tokens = ATTEND_FEW, step.kind = STEP_ANY;
    StageRoom few = cuda_stage_room(cuda, &step, &wide);
    // And of more tokens, where a cache in f16 has heads that wgmma takes.
    const SplitRowsCase tile = {DTYPE_F16, heads.n_kv_heads, 128, most, most * group, false, false};
    SplitPlan more = plan;
    more.few = dispatch_few_tokens(&cuda->device.card, &tile, 0);
    more.tokens = most, more.once = true, more.blocks_a_sm = 1;
    more.row_tiles = (most * group + SPLIT_WGMMA_ROWS - 1) / SPLIT_WGMMA_ROWS;
    step.n_tokens = sequence.n_tokens = more.few;
    StageRoom many = cuda_stage_room(cuda, &step, &more);
    const size_t sizes[] = {room_bytes(cuda, &prompt, &plan), room_bytes(cuda, &rows, &plan),
                            room_bytes(cuda, &few, &wide), room_bytes(cuda, &many, &more)};
    size_t bytes = sizes[0];
    for (size_t size : sizes) bytes = size > bytes ? size : bytes;
    return bytes + tile_split_bytes(&cuda->device.card);
}

// ---- the op --------------------------------------------------------------------------------------------------

// The step's tokens into `to`, whose arrays lie in host memory; those beyond them are empty.
static void fill_tokens(const DecoderShape *shape, const Staging *from, int room, CudaStep *to) {
    const Step *step = from->step;
    size_t n = (size_t)step->n_tokens;
    // Where a row must not show in another, nor where a prompt was cut, one that has to be sharpened may not either.
    to->tempered = shape->temperature_beta != 0 && step->kind != STEP_ANY;
    for (size_t i = n; i < (size_t)room; i++) {
        to->ids[i] = to->positions[i] = to->n_evicted[i] = to->rope_sets[i] = 0;
        to->prefixes[i] = to->seen[i] = 0;
        to->slots[i] = -1, to->temperatures[i] = 1;
    }
    for (size_t i = 0; i < (size_t)room; i++) to->drawn[i] = from->drawn && i < n ? from->drawn[i] : -1;
    if (step->ids) memcpy(to->ids, step->ids, n * sizeof(int32_t));
    memcpy(to->positions, step->positions, n * sizeof(int32_t));
    memcpy(to->slots, step->slots, n * sizeof(int32_t));
    for (int s = 0; s < step->n_sequences; s++)
        for (int t = 0; t < step->sequences[s].n_tokens; t++) {
            const int token = step->sequences[s].first_token + t;
            const float temperature =
                query_temperature(shape, (int64_t)step->positions[token] - step->sequences[s].n_evicted);
            to->temperatures[token] = temperature, to->tempered = to->tempered || temperature != 1;
            to->n_evicted[token] = step->sequences[s].n_evicted;
            to->rope_sets[token] = step->sequences[s].rope_set;
            to->prefixes[token] = step->sequences[s].n_prefix;
            to->seen[token] = position_seen(step->positions[token], step->sequences[s].n_prefix);
        }
    *to->count = step->n_tokens;
}

// What convolutions look at; of tokens beyond the step's nothing.
static void fill_earlier(const Step *step, const StageRoom *room, CudaStep *to) {
    for (int i = step->n_tokens * room->earlier; i < room->tokens * room->earlier; i++) to->earlier[i] = -1;
    for (int s = 0; s < step->n_sequences && room->earlier > 0; s++)
        for (int t = 0; t < step->sequences[s].n_tokens; t++) {
            int32_t *own = to->earlier + (int64_t)(step->sequences[s].first_token + t) * room->earlier;
            for (int i = 0; i < room->earlier; i++)
                own[i] = sequence_slot_before(&step->sequences[s], step->slots, t, i + 1);
        }
}

// What layers that recur go by; of sequences and tokens beyond the step's nothing.
static void fill_sequences(const Step *step, const StageRoom *room, CudaStep *to) {
    if (!room->recurs) return;
    for (int i = 0; i < room->tokens; i++)
        to->sequence_of[i] = -1, to->sequences[i] = RecurringSequence{0, 0, -1, -1};
    for (int s = 0; s < step->n_sequences; s++) {
        const StepSequence *q = &step->sequences[s];
        to->sequences[s] = RecurringSequence{q->first_token, q->n_tokens, q->state_from, q->state_to};
        for (int t = 0; t < q->n_tokens; t++) to->sequence_of[q->first_token + t] = s;
    }
}

static bool all_in_order(const Step *step) {
    for (int s = 0; s < step->n_sequences; s++)
        if (!step->sequences[s].in_order) return false;
    return true;
}

// Fills `to`, whose arrays lie in host memory.
static void fill_step(const CudaBackend *cuda, const Staging *from, const StageRoom *room, CudaStep *to) {
    const Step *step = from->step;
    to->kind = to->gemm_kind = step->kind;
    to->n_sequences = step->n_sequences;
    to->n_tokens = room->tokens, to->padded = from->room != NULL;
    to->in_order = step->kind == STEP_READING && all_in_order(step);
    to->slot_positions = step->slot_positions;
    fill_tokens(cuda->shape, from, room->tokens, to);
    fill_earlier(step, room, to);
    fill_sequences(step, room, to);
    to->few_tokens = from->plan->tokens, to->tile_tokens = tile_tokens(&from->plan->heads);
    fill_tiles(from, to);
    fill_splits(cuda, from, room, to);
    for (; to->padded && to->n_tiles + to->n_few_tiles < room->tokens; to->n_few_tiles++)
        to->tiles[to->n_tiles + to->n_few_tiles] = AttendTile{};
    // Which kernels attend goes by the size of pages: where sequences do not show in each other, not by their lengths.
    bool one_page = step->kind == STEP_ANY && to->most_slots <= step->page_size;
    to->pages.size = one_page ? 1u << 31 : (uint32_t)step->page_size;
    to->pages.shift = to->pages.size & (to->pages.size - 1) ? -1 : __builtin_ctz(to->pages.size);
}

Status cuda_stage(CudaBackend *cuda, const Staging *from, Error *error) {
    CudaScratch *scratch = &cuda->scratch;
    CudaStep step = {}; // nothing of the step before is left
    StageRoom room = from->room ? *from->room : cuda_stage_room(cuda, from->step, from->plan);
    size_t bytes = lay_out(&step, &room, NULL), sink_bytes = sink_rope_bytes(&cuda->shape->rope, room.tokens);
    Status status = cuda_check(cudaEventSynchronize(scratch->staged), error, "staging a step");
    if (!status) status = cuda_room(cuda, &scratch->staging, bytes, true, "a step's arrays", error);
    if (!status)
        status = cuda_room(cuda, &scratch->step, bytes + sink_bytes, false, "a step's arrays", error);
    if (status) return status;

    lay_out(&step, &room, scratch->staging.memory);
    fill_step(cuda, from, &room, &step);
    lay_out(&step, &room, scratch->step.memory);
    step.sink_rope = step.evicted ? (float2 *)(scratch->step.memory + bytes) : NULL;
    cuda->step = step;
    cudaError_t code = cudaMemcpyAsync(scratch->step.memory, scratch->staging.memory, bytes,
                                       cudaMemcpyHostToDevice, cuda->device.stream);
    if (code == cudaSuccess) code = cudaEventRecord(scratch->staged, cuda->device.stream);
    return cuda_check(code, error, "staging %d tokens", from->step->n_tokens);
}

Status cuda_begin_staged(CudaBackend *cuda, Error *error) {
    const DecoderShape *s = cuda->shape;
    const CudaStep *step = &cuda->step;
    BeginArguments a = {};
    a.positions = step->positions, a.slots = step->slots, a.n_evicted = step->n_evicted;
    a.rope_sets = step->rope_sets, a.drawn = step->drawn, a.drawn_ids = cuda->scratch.drawn;
    a.prefixes = s->rope.two_dimensional ? step->prefixes : NULL;
    a.ids = step->ids;
    a.inv_freq = cuda->device.inv_freq, a.n_pairs = s->rope.rotary_dim / 2;
    a.n_sets = rope_sets(&s->rope);
    a.magnitude[0] = (float)s->rope.magnitude, a.magnitude[1] = (float)s->rope.other_magnitude;
    a.rope_stride = (int64_t)cuda->max_tokens * a.n_pairs;
    a.rope = cuda->scratch.rope, a.sink_rope = step->sink_rope;
    a.slot_positions = step->slot_positions;
    begin_kernel<<<dim3(cuda->step.n_tokens, rope_tables(&s->rope)), 128, 0, cuda->device.stream>>>(a);
    return CUDA_LAUNCHED(error, "begin: %d tokens", cuda->step.n_tokens);
}

Status cuda_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    AttendHeads heads = {s->n_heads, s->n_kv_heads, s->head_dim};
    SplitPlan plan;
    Status status = cuda_check_step(cuda, step, error);
    if (!status) status = cuda_split_plan(cuda, step, &heads, kv, &plan, error);
    Staging staging = {step, NULL, &plan};
    if (!status) status = cuda_stage(cuda, &staging, error);
    if (!status) status = cuda_settle_upload(cuda, error);
    return status ? status : cuda_begin_staged(cuda, error);
}
