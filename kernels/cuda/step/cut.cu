// The plan by which a step is cut, and what it needs of memory.
#include "kernels/cuda/step/cut.cuh"
#include "kernels/cuda/attention/wide.cuh"

#include <stdio.h>

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

int step_split_slots(const CudaBackend *cuda, const Step *step, const StepSequence *q,
                     const SplitPlan *plan) {
    SplitCase c = {step->kind,      plan->cache,       plan->heads.n_kv_heads,
                   plan->row_tiles, plan->blocks_a_sm, plan->tokens > 1 && step->n_tokens <= FLAT_BESIDE};
    const TileCut cut(step, plan);
    c.slots = q->n_slots;
    c.wide = is_wide(plan->heads.head_dim), c.once = plan->once;
    if (step->n_sequences == 1) c.row_blocks = cut.row_blocks(q, &plan->heads);
    for (int s = 0; s < step->n_sequences && step->kind != STEP_DECODING; s++) {
        const StepSequence *other = &step->sequences[s];
        c.indexes += (int64_t)other->n_slots * cut.few_tiles(other);
        if (other->n_slots > c.slots) c.slots = other->n_slots;
    }
    return dispatch_split_slots(&cuda->device.card, &c);
}

StageRoom cuda_stage_room(const CudaBackend *cuda, const Step *step, const SplitPlan *plan) {
    StageRoom room = {step->n_tokens, 0, 0, decoder_earlier(cuda->shape), decoder_recurring(cuda->shape) > 0};
    for (int s = 0; s < step->n_sequences; s++) {
        const StepSequence *q = &step->sequences[s];
        int few = TileCut(step, plan).few_tiles(q);
        room.pages += n_pages(step, q);
        if (few > 0) room.splits += splits_of(q->n_slots, step_split_slots(cuda, step, q, plan)) * few;
    }
    return room;
}

// With what the graphs of decode/graph.cu have to spare.
static size_t room_bytes(const CudaBackend *cuda, const StageRoom *needed, const SplitPlan *plan) {
    const DecoderShape *s = cuda->shape;
    // Heads of layers may differ: as many as most have, as wide as the widest, whose splits may be cut into pieces.
    const AttendHeads heads = {s->n_heads, decoder_least_kv_heads(s), decoder_most_head_dim(s)};
    StageRoom room = {2 * needed->tokens, needed->splits + needed->splits / 4 + 16,
                      needed->pages + needed->pages / 4 + 64, needed->earlier, needed->recurs};
    CudaStep any;
    size_t sink_bytes = sink_rope_bytes(&cuda->shape->rope, room.tokens);
    return cuda_room_bytes(step_lay_out(&any, &room, NULL) + sink_bytes) +
           split_bytes(room.splits * wide_pieces(&heads, plan->heads.n_kv_heads), &heads, plan->tokens);
}

size_t cuda_step_bytes(const CudaBackend *cuda, int n_rows, int n_slots) {
    const DecoderShape *s = cuda->shape;
    // Of all caches those that are cut most: two rounds of as many splits as there may be.
    const AttendHeads heads = {s->n_heads, s->n_kv_heads, s->head_dim};
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
