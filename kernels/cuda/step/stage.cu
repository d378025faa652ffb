// A step as the device has it: its arrays are filled in host memory and uploaded at once.
#include "kernels/cuda/step/cut.cuh"
#include "kernels/both_ways.h"
#include "kernels/temperature.h"

#include <string.h>

size_t step_lay_out(CudaStep *step, const StageRoom *room, char *base) {
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

// ---- tiles, splits -------------------------------------------------------------------------------------------

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

static void fill_splits(const CudaBackend *cuda, const Staging *from, const StageRoom *room, CudaStep *to) {
    const StepSequence *q = from->step->sequences;
    int n = 0;
    for (int t = to->n_tiles; t < to->n_tiles + to->n_few_tiles; t++) {
        AttendTile *tile = &to->tiles[t];
        while (q->first_token + q->n_tokens <= tile->first_token) q++;
        tile->split_slots = step_split_slots(cuda, from->step, q, from->plan);
        tile->first_split = n;
        tile->n_splits = splits_of(tile->n_slots, tile->split_slots);
        for (int i = 0; i < tile->n_splits; i++) to->split_tiles[n++] = *tile;
    }
    while (n < room->splits) to->split_tiles[n++] = AttendTile{};
    to->n_splits = room->splits;
}

// ---- tokens, sequences ---------------------------------------------------------------------------------------

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
    to->cut_kv_heads = from->plan->heads.n_kv_heads;
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
    size_t bytes = step_lay_out(&step, &room, NULL),
           sink_bytes = sink_rope_bytes(&cuda->shape->rope, room.tokens);
    Status status = cuda_check(cudaEventSynchronize(scratch->staged), error, "staging a step");
    if (!status) status = cuda_room(cuda, &scratch->staging, bytes, true, "a step's arrays", error);
    if (!status)
        status = cuda_room(cuda, &scratch->step, bytes + sink_bytes, false, "a step's arrays", error);
    if (status) return status;

    step_lay_out(&step, &room, scratch->staging.memory);
    fill_step(cuda, from, &room, &step);
    step_lay_out(&step, &room, scratch->step.memory);
    step.sink_rope = step.evicted ? (float2 *)(scratch->step.memory + bytes) : NULL;
    cuda->step = step;
    cudaError_t code = cudaMemcpyAsync(scratch->step.memory, scratch->staging.memory, bytes,
                                       cudaMemcpyHostToDevice, cuda->device.stream);
    if (code == cudaSuccess) code = cudaEventRecord(scratch->staged, cuda->device.stream);
    return cuda_check(code, error, "staging %d tokens", from->step->n_tokens);
}
