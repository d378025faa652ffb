// begin(): checks a step, copies it, computes its angles, and cuts it into tiles for attention.
#include "kernels/cpu/cpu.h"
#include "kernels/base/array.h"
#include "kernels/cpu/loops/rope.h"
#include "kernels/both_ways.h"
#include "kernels/temperature.h"

#include <limits.h>
#include <string.h>

#define TAKEN INT32_MIN // marks a slot that a token of this step has claimed, while begin() checks

static Status check_tokens(const CpuBackend *cpu, const Step *step, Error *error) {
    if (step->n_tokens < 1 || step->n_tokens > cpu->max_tokens)
        return error_set(error, STATUS_DEVICE, "begin: %d tokens, the backend was opened for 1 to %d",
                         step->n_tokens, cpu->max_tokens);
    for (int i = 0; i < step->n_tokens; i++) {
        if (step->ids[i] < 0 || step->ids[i] >= cpu->shape->vocab_size)
            return error_set(error, STATUS_DEVICE, "begin: token %d has id %d, the vocabulary ends at %d", i,
                             step->ids[i], cpu->shape->vocab_size - 1);
        if (step->positions[i] < 0)
            return error_set(error, STATUS_DEVICE, "begin: token %d has position %d", i, step->positions[i]);
        if (cpu->shape->n_positions > 0 && step->positions[i] >= cpu->shape->n_positions)
            return error_set(error, STATUS_DEVICE,
                             "begin: token %d has position %d, the model has learned only %d positions", i,
                             step->positions[i], cpu->shape->n_positions);
    }
    return STATUS_OK;
}

static int64_t count_pages(const StepSequence *s, int page_size) {
    return (s->n_slots - 1) / page_size + 1;
}

// The table of one sequence, and what it says was evicted.
static Status check_view(const StepSequence *s, int i, int page_size, int n_sets, Error *error) {
    if (s->n_slots < 1)
        return error_set(error, STATUS_DEVICE, "begin: sequence %d sees %d slots", i, s->n_slots);
    for (int64_t page = 0; page < count_pages(s, page_size); page++) {
        int64_t left = s->n_slots - page * page_size, n = left < page_size ? left : page_size;
        if (s->pages[page] < 0 || s->pages[page] > INT_MAX - n)
            return error_set(error, STATUS_DEVICE,
                             "begin: sequence %d sees %d slots, of these %lld from slot %d on", i, s->n_slots,
                             (long long)n, s->pages[page]);
    }
    if (s->n_evicted < 0 || (s->n_evicted > 0 && (s->n_sinks < 0 || s->n_sinks > INT_MAX - s->n_evicted)))
        return error_set(error, STATUS_DEVICE,
                         "begin: sequence %d has %d sinks, the next %d tokens are evicted", i, s->n_sinks,
                         s->n_evicted);
    if (s->rope_set < 0 || s->rope_set >= (n_sets > 0 ? n_sets : 1))
        return error_set(error, STATUS_DEVICE, "begin: sequence %d has set %d of %d sets of frequencies", i,
                         s->rope_set, n_sets);
    return STATUS_OK;
}

// What convolutions look at: slots of the sequence's own.
static Status check_earlier(const StepSequence *s, int i, int page_size, int most, Error *error) {
    if (s->n_earlier < 0 || s->n_earlier >= CONVOLUTION_MOST_TAPS)
        return error_set(error, STATUS_DEVICE, "begin: %d tokens before sequence %d", s->n_earlier, i);
    for (int k = 0; k < s->n_earlier && k < most; k++) {
        bool there = false;
        for (int64_t page = 0; page < count_pages(s, page_size) && !there; page++)
            there = s->earlier[k] >= s->pages[page] && s->earlier[k] - s->pages[page] < page_size;
        if (!there)
            return error_set(error, STATUS_DEVICE,
                             "begin: sequence %d comes after slot %d, which is not among its own", i,
                             s->earlier[k]);
    }
    return STATUS_OK;
}

// Each sequence goes on from a state, or from none, to another one, which is nobody else's.
static Status check_states(const Step *step, int i, Error *error) {
    const StepSequence *s = &step->sequences[i];
    bool own = s->state_to >= 0 && s->state_from >= -1;
    for (int k = 0; k < step->n_sequences && own; k++)
        own = s->state_to != step->sequences[k].state_from &&
              (k == i || s->state_to != step->sequences[k].state_to);
    if (own) return STATUS_OK;
    return error_set(error, STATUS_DEVICE,
                     "begin: sequence %d goes on from state %d to state %d, which is taken", i, s->state_from,
                     s->state_to);
}

// A prefix that is seen both ways is read at once: where one of its tokens is in the step, as many are.
static Status check_prefix(const Step *step, const StepSequence *s, int i, Error *error) {
    int32_t there = 0;
    for (int t = s->first_token; t < s->first_token + s->n_tokens; t++)
        there += step->positions[t] < s->n_prefix;
    if (there == 0 || (there == s->n_prefix && s->n_evicted == 0)) return STATUS_OK;
    return error_set(error, STATUS_DEVICE,
                     "begin: sequence %d has %d of the %d tokens that see each other, %d were evicted", i,
                     there, s->n_prefix, s->n_evicted);
}

// Each token's slot is among its sequence's. Tokens mostly follow each other, so that the search begins at the page
// where the last one was found.
static Status check_slots(const Step *step, const StepSequence *s, Error *error) {
    int64_t n_pages = count_pages(s, step->page_size), page = 0;
    for (int t = s->first_token; t < s->first_token + s->n_tokens; t++) {
        int64_t tried = 0;
        for (; tried < n_pages; tried++, page = page + 1 < n_pages ? page + 1 : 0) {
            int64_t left = s->n_slots - page * step->page_size,
                    n = left < step->page_size ? left : step->page_size;
            if (step->slots[t] >= s->pages[page] && step->slots[t] - s->pages[page] < n) break;
        }
        if (tried == n_pages)
            return error_set(
                error, STATUS_DEVICE,
                "begin: slot %d of token %d is not among its sequence's %d slots in %lld page%s from %d on",
                step->slots[t], t, s->n_slots, (long long)n_pages, n_pages == 1 ? "" : "s", s->pages[0]);
    }
    return STATUS_OK;
}

static Status check_sequences(const DecoderShape *shape, const Step *step, Error *error) {
    int next = 0;
    if (step->n_sequences < 1 || step->n_sequences > step->n_tokens)
        return error_set(error, STATUS_DEVICE, "begin: %d sequences for %d tokens", step->n_sequences,
                         step->n_tokens);
    if (step->kind == STEP_DECODING && step->n_tokens != step->n_sequences)
        return error_set(error, STATUS_DEVICE, "begin: decoding %d tokens of %d sequence%s", step->n_tokens,
                         step->n_sequences, step->n_sequences == 1 ? "" : "s");
    if (step->page_size < 1)
        return error_set(error, STATUS_DEVICE, "begin: pages of %d slots", step->page_size);
    for (int i = 0; i < step->n_sequences; i++) {
        const StepSequence *s = &step->sequences[i];
        if (s->first_token != next || s->n_tokens < 1 || s->n_tokens > step->n_tokens - next)
            return error_set(error, STATUS_DEVICE,
                             "begin: sequence %d has %d tokens from %d on, expected from %d", i, s->n_tokens,
                             s->first_token, next);
        Status status = check_view(s, i, step->page_size, shape->rope.n_sets, error);
        if (!status) status = check_prefix(step, s, i, error);
        if (!status) status = check_slots(step, s, error);
        if (!status) status = check_earlier(s, i, step->page_size, decoder_earlier(shape), error);
        if (!status && shape->delta.n_value_heads) status = check_states(step, i, error);
        if (status) return status;
        next += s->n_tokens;
    }
    if (next != step->n_tokens)
        return error_set(error, STATUS_DEVICE, "begin: the sequences cover %d of %d tokens", next,
                         step->n_tokens);
    return STATUS_OK;
}

// Makes room for the tables of all sequences.
static Status grow_pages(CpuBackend *cpu, const Step *step, Error *error) {
    int64_t n = 0;
    for (int i = 0; i < step->n_sequences; i++) n += count_pages(&step->sequences[i], step->page_size);
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
        int64_t n = count_pages(&s, step->page_size);
        memcpy(pages, s.pages, (size_t)n * sizeof *pages);
        s.pages = pages;
        cpu->sequences[i] = s;
        pages += n;
    }
}

Status cpu_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error) {
    (void)kv; // tiles are cut the same for every cache
    CpuBackend *cpu = cpu_backend(backend);
    Status status = check_tokens(cpu, step, error);
    if (!status) status = check_sequences(cpu->shape, step, error);
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
        kv->recurs ? delta_width(&s->delta) : (int64_t)s->n_heads * kv_layer_head_dim(s, kv);
    rows_to_front(rows->tokens, step->n_tokens, width, rows->q);
    if (cpu_backend(backend)->gated)
        rows_to_front(rows->tokens, step->n_tokens, width, cpu_backend(backend)->gates);
    return cpu_begin(backend, step, kv, error);
}
