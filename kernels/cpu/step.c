// begin(): copies a step, computes its angles, and cuts it into tiles for attention.
#include "kernels/cpu/cpu.h"
#include "kernels/base/array.h"
#include "kernels/cpu/loops/rope.h"
#include "kernels/both_ways.h"
#include "kernels/step_check.h"
#include "kernels/temperature.h"

#include <limits.h>
#include <string.h>

#define TAKEN INT32_MIN // marks a slot that a token of this step has claimed, while begin() checks

// Makes room for the tables of all sequences.
static Status grow_pages(CpuBackend *cpu, const Step *step, Error *error) {
    int64_t n = 0;
    for (int i = 0; i < step->n_sequences; i++) n += sequence_n_pages(&step->sequences[i], step->page_size);
    if (array_reserve(&cpu->pages, sizeof *cpu->pages, 0, (size_t)n, &cpu->pages_capacity)) return STATUS_OK;
    return error_set(error, STATUS_MEMORY, "begin: no memory for %lld pages", (long long)n);
}

// What in_order says, which other backends rely on.
static Status check_order(const Step *step, Error *error) {
    for (int i = 0; i < step->n_sequences; i++) {
        const StepSequence *s = &step->sequences[i];
        for (int index = 0; index < s->n_slots && s->in_order; index++) {
            const int32_t slot = s->pages[index / step->page_size] + index % step->page_size;
            if (step->slot_positions[slot] == index) continue;
            return error_set(
                error, STATUS_DEVICE,
                "begin: index %d of sequence %d, which is said to be in order, holds position %d", index, i,
                step->slot_positions[slot]);
        }
    }
    return STATUS_OK;
}

// Enters the positions; a slot that comes twice is found by its mark, and where something is wrong everything is put back.
static Status enter_positions(CpuBackend *cpu, const Step *step, Error *error) {
    int32_t *held = step->slot_positions;
    for (int i = 0; i < step->n_tokens; i++) {
        int32_t slot = step->slots[i];
        cpu->before[i] = held[slot];
        if (held[slot] == TAKEN) {
            while (--i >= 0) held[step->slots[i]] = cpu->before[i];
            return error_set(error, STATUS_DEVICE, "begin: two tokens go to slot %d", slot);
        }
        held[slot] = TAKEN;
    }
    for (int i = 0; i < step->n_tokens; i++) held[step->slots[i]] = step->positions[i];
    Status status = check_order(step, error);
    for (int i = 0; i < step->n_tokens && status; i++) held[step->slots[i]] = cpu->before[i];
    return status;
}

static void compute_temperatures(CpuBackend *cpu) {
    for (int i = 0; i < cpu->n_sequences; i++) {
        const StepSequence *s = &cpu->sequences[i];
        for (int t = s->first_token; t < s->first_token + s->n_tokens; t++)
            cpu->temperatures[t] = query_temperature(cpu->shape, (int64_t)cpu->positions[t] - s->n_evicted);
    }
}

// Of a token in two dimensions: a half of the pairs for each.
static void two_angles(const Rope *rope, const StepSequence *s, int32_t position, float *cosines,
                       float *sines) {
    const int pairs = rope->rotary_dim / 4;
    Rope half = *rope;
    half.rotary_dim = 2 * pairs;
    rope_angles(&half, 0, position_within(position, s->n_prefix), rope->magnitude, cosines, sines);
    half.inv_freq += pairs;
    rope_angles(&half, 0, position_beyond(position, s->n_prefix), rope->magnitude, cosines + pairs,
                sines + pairs);
}

// Those of one table of frequencies.
static void compute_angles(CpuBackend *cpu, int table) {
    const Rope *rope = &cpu->shape->rope;
    const int64_t pairs = rope->rotary_dim / 2, first = table * (int64_t)cpu->max_tokens;
    const double magnitude = table == 0 ? rope->magnitude : rope->other_magnitude;
    for (int i = 0; i < cpu->n_sequences; i++) {
        const StepSequence *s = &cpu->sequences[i];
        const int row = rope_row(rope, table, s->rope_set);
        for (int t = s->first_token; t < s->first_token + s->n_tokens; t++) {
            float *cosines = cpu->cos + (first + t) * pairs, *sines = cpu->sin + (first + t) * pairs;
            if (rope->two_dimensional)
                two_angles(rope, s, cpu->positions[t], cosines, sines);
            else
                rope_angles(rope, row, cpu->positions[t], magnitude, cosines, sines);
        }
        if (s->n_evicted > 0)
            rope_angles(rope, row, -(int64_t)s->n_evicted, 1, cpu->sink_cos + (first + i) * pairs,
                        cpu->sink_sin + (first + i) * pairs);
    }
}

static void take_sequences(CpuBackend *cpu, const Step *step) {
    int32_t *pages = cpu->pages;
    cpu->n_sequences = step->n_sequences;
    cpu->page_size = step->page_size;
    for (int i = 0; i < step->n_sequences; i++) {
        StepSequence s = step->sequences[i];
        int64_t n = sequence_n_pages(&s, step->page_size);
        memcpy(pages, s.pages, (size_t)n * sizeof *pages);
        s.pages = pages;
        cpu->sequences[i] = s;
        pages += n;
    }
}

Status cpu_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error) {
    (void)kv; // tiles are cut the same for every cache
    CpuBackend *cpu = cpu_backend(backend);
    Status status = step_check(cpu->shape, cpu->max_tokens, step, error);
    if (!status) status = grow_pages(cpu, step, error);
    if (!status) status = enter_positions(cpu, step, error);
    if (status) return status;
    size_t bytes = (size_t)step->n_tokens * sizeof(int32_t);
    memcpy(cpu->ids, step->ids, bytes);
    memcpy(cpu->positions, step->positions, bytes);
    memcpy(cpu->slots, step->slots, bytes);
    cpu->n_tokens = step->n_tokens;
    cpu->slot_positions = step->slot_positions;
    take_sequences(cpu, step);
    for (int table = 0; table < rope_tables(&cpu->shape->rope); table++) compute_angles(cpu, table);
    if (cpu->shape->temperature_beta != 0) compute_temperatures(cpu);
    int tile_tokens =
        attention_tile_tokens(cpu->loops, cpu->shape->n_heads, decoder_least_kv_heads(cpu->shape));
    cpu->n_tiles = attention_cut_tiles(cpu->sequences, cpu->n_sequences, tile_tokens, cpu->tiles);
    return STATUS_OK;
}

static void rows_to_front(const int32_t *tokens, int n, int64_t width, float *rows) {
    for (int i = 0; i < n; i++)
        memmove(rows + i * width, rows + tokens[i] * width, (size_t)width * sizeof *rows);
}

Status cpu_narrow(Backend *backend, const Step *step, const NarrowRows *rows, const KvLayer *kv,
                  Error *error) {
    const DecoderShape *s = cpu_backend(backend)->shape;
    rows_to_front(rows->tokens, step->n_tokens, s->hidden_size, rows->x);
    const int64_t width =
        kv->recurs ? kv->states ? delta_width(&s->delta) : 0 : (int64_t)s->n_heads * kv_layer_head_dim(s, kv);
    rows_to_front(rows->tokens, step->n_tokens, width, rows->q);
    if (cpu_backend(backend)->gated)
        rows_to_front(rows->tokens, step->n_tokens, cpu_backend(backend)->gated, cpu_backend(backend)->gates);
    return cpu_begin(backend, step, kv, error);
}
