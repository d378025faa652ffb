#include "kernels/step_check.h"

#include <limits.h>

static Status check_tokens(const DecoderShape *shape, int max_tokens, const Step *step, Error *error) {
    if (step->n_tokens < 1 || step->n_tokens > max_tokens)
        return error_set(error, STATUS_DEVICE, "begin: %d tokens, the backend was opened for 1 to %d",
                         step->n_tokens, max_tokens);
    for (int i = 0; i < step->n_tokens; i++) {
        if (step->ids[i] < 0 || step->ids[i] >= shape->vocab_size)
            return error_set(error, STATUS_DEVICE, "begin: token %d has id %d, the vocabulary ends at %d", i,
                             step->ids[i], shape->vocab_size - 1);
        if (step->positions[i] < 0)
            return error_set(error, STATUS_DEVICE, "begin: token %d has position %d", i, step->positions[i]);
        if (shape->n_positions > 0 && step->positions[i] >= shape->n_positions)
            return error_set(error, STATUS_DEVICE,
                             "begin: token %d has position %d, the model has learned only %d positions", i,
                             step->positions[i], shape->n_positions);
    }
    return STATUS_OK;
}

// The table of one sequence, and what it says was evicted.
static Status check_view(const StepSequence *s, int i, int page_size, int n_sets, Error *error) {
    if (s->n_slots < 1)
        return error_set(error, STATUS_DEVICE, "begin: sequence %d sees %d slots", i, s->n_slots);
    for (int64_t page = 0; page < sequence_n_pages(s, page_size); page++) {
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
        for (int64_t page = 0; page < sequence_n_pages(s, page_size) && !there; page++)
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

// Each token's slot is among its sequence's. Tokens are mostly its last and follow each other, so that the search begins
// at the page of the first of them, then where the last one was found.
static Status check_slots(const Step *step, const StepSequence *s, Error *error) {
    int64_t n_pages = sequence_n_pages(s, step->page_size);
    int64_t page = s->n_slots > s->n_tokens ? (s->n_slots - s->n_tokens) / step->page_size : 0;
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

Status step_check(const DecoderShape *shape, int max_tokens, const Step *step, Error *error) {
    Status status = check_tokens(shape, max_tokens, step, error);
    return status ? status : check_sequences(shape, step, error);
}
