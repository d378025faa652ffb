// begin(): checks a step, copies it, computes its angles, and cuts it into tiles for attention.
#include "kernels/cpu/cpu.h"

#include <limits.h>
#include <math.h>
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

static Status check_sequences(const Step *step, Error *error) {
    int next = 0;
    if (step->n_sequences < 1 || step->n_sequences > step->n_tokens)
        return error_set(error, STATUS_DEVICE, "begin: %d sequences for %d tokens", step->n_sequences,
                         step->n_tokens);
    for (int i = 0; i < step->n_sequences; i++) {
        const StepSequence *s = &step->sequences[i];
        if (s->first_token != next || s->n_tokens < 1 || s->n_tokens > step->n_tokens - next)
            return error_set(error, STATUS_DEVICE,
                             "begin: sequence %d has %d tokens from %d on, expected from %d", i, s->n_tokens,
                             s->first_token, next);
        if (s->n_slots < 1 || s->n_slots > step->page_size || s->pages[0] < 0 || s->n_gone ||
            s->n_slots > INT_MAX - s->pages[0])
            return error_set(error, STATUS_DEVICE, "begin: sequence %d sees %d slots in pages of %d", i,
                             s->n_slots, step->page_size);
        int first = s->pages[0];
        for (int t = next; t < next + s->n_tokens; t++)
            if (step->slots[t] < first || step->slots[t] - first >= s->n_slots)
                return error_set(error, STATUS_DEVICE,
                                 "begin: slot %d of token %d is not among its sequence's %d..%d",
                                 step->slots[t], t, first, first + s->n_slots - 1);
        next += s->n_tokens;
    }
    if (next != step->n_tokens)
        return error_set(error, STATUS_DEVICE, "begin: the sequences cover %d of %d tokens", next,
                         step->n_tokens);
    return STATUS_OK;
}

// Enters the positions; a slot that comes twice is found by its mark, and everything is put back.
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
    return STATUS_OK;
}

static void compute_angles(CpuBackend *cpu) {
    const Rope *rope = &cpu->shape->rope;
    const double turn = 6.283185307179586476925286766559;
    int pairs = rope->rotary_dim / 2;
    for (int t = 0; t < cpu->n_tokens; t++)
        for (int i = 0; i < pairs; i++) {
            double angle = remainder(cpu->positions[t] * rope->inv_freq[i], turn);
            cpu->cos[t * (int64_t)pairs + i] = (float)(cos(angle) * rope->magnitude);
            cpu->sin[t * (int64_t)pairs + i] = (float)(sin(angle) * rope->magnitude);
        }
}

static void cut_tiles(CpuBackend *cpu) {
    int most = cpu_tile_tokens(cpu);
    cpu->n_tiles = 0;
    for (int i = 0; i < cpu->n_sequences; i++) {
        const StepSequence *s = &cpu->sequences[i];
        for (int t = 0; t < s->n_tokens; t += most) {
            int n = s->n_tokens - t < most ? s->n_tokens - t : most;
            cpu->tiles[cpu->n_tiles++] = (TokenTile){s->first_token + t, n, i};
        }
    }
}

Status cpu_begin(Backend *backend, const Step *step, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    Status status = check_tokens(cpu, step, error);
    if (status == STATUS_OK) status = check_sequences(step, error);
    if (status == STATUS_OK) status = enter_positions(cpu, step, error);
    if (status != STATUS_OK) return status;
    size_t bytes = (size_t)step->n_tokens * sizeof(int32_t);
    memcpy(cpu->ids, step->ids, bytes);
    memcpy(cpu->positions, step->positions, bytes);
    memcpy(cpu->slots, step->slots, bytes);
    memcpy(cpu->sequences, step->sequences, (size_t)step->n_sequences * sizeof *step->sequences);
    cpu->n_tokens = step->n_tokens;
    cpu->n_sequences = step->n_sequences;
    cpu->slot_positions = step->slot_positions;
    compute_angles(cpu);
    cut_tiles(cpu);
    return STATUS_OK;
}
