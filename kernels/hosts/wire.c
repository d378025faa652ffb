#include "kernels/hosts/wire.h"

#include "kernels/base/array.h"

#include <stdlib.h>
#include <string.h>

// ---- writing ------------------------------------------------------------------------------------------------

void wire_begin(WireOut *out, WireType type) {
    const WireHeader header = {.type = type};
    out->begun = out->n;
    wire_put(out, &header, sizeof header);
}

void *wire_room(WireOut *out, size_t n) {
    out->failed = out->failed || !array_reserve(&out->bytes, 1, out->n, n, &out->room);
    if (out->failed) return NULL;
    out->n += n;
    return out->bytes + out->n - n;
}

void wire_put(WireOut *out, const void *bytes, size_t n) {
    void *to = wire_room(out, n);
    if (to && n > 0) memcpy(to, bytes, n);
}

void wire_drop(WireOut *out) {
    out->n = out->begun;
}

void wire_end(WireOut *out) {
    if (out->failed) return;
    const size_t size = out->n - out->begun - sizeof(WireHeader);
    const uint32_t told = (uint32_t)size;
    out->failed = size > WIRE_MOST;
    memcpy(out->bytes + out->begun + offsetof(WireHeader, size), &told, sizeof told);
}

static int pages_of(int n_slots, int page_size) {
    return n_slots > 0 ? (n_slots - 1) / page_size + 1 : 0;
}

void wire_put_step(WireOut *out, const WireStep *head, const Step *step) {
    const size_t bytes = (size_t)step->n_tokens * sizeof(int32_t);
    WireStep own = *head;
    own.n_tokens = step->n_tokens, own.n_sequences = step->n_sequences;
    own.page_size = step->page_size, own.kind = (int32_t)step->kind;
    own.n_pages = 0;
    for (int i = 0; i < step->n_sequences; i++)
        own.n_pages += pages_of(step->sequences[i].n_slots, step->page_size);
    wire_put(out, &own, sizeof own);
    wire_put(out, step->ids, bytes);
    wire_put(out, step->positions, bytes);
    wire_put(out, step->slots, bytes);
    for (int i = 0; i < step->n_sequences; i++) {
        const StepSequence *s = &step->sequences[i];
        const WireSequence to = {s->first_token, s->n_tokens, s->n_slots,  s->n_sinks,
                                 s->n_evicted,   s->rope_set, s->n_prefix, s->in_order};
        wire_put(out, &to, sizeof to);
    }
    for (int i = 0; i < step->n_sequences; i++)
        wire_put(out, step->sequences[i].pages,
                 (size_t)pages_of(step->sequences[i].n_slots, step->page_size) * sizeof(int32_t));
}

void wire_put_draws(WireOut *out, const WireSample *head, const SampleParams *params) {
    wire_put(out, head, sizeof *head);
    for (int i = 0; i < head->n_rows; i++) {
        const SampleParams *p = &params[i];
        const WireDraw to = {
            p->temperature, p->top_p, p->min_p,         p->typical_p,       p->seed, p->conversation,
            p->position,    p->top_k, p->n_adjustments, p->allowed != NULL, 0};
        wire_put(out, &to, sizeof to);
        wire_put(out, p->adjustments, (size_t)p->n_adjustments * sizeof *p->adjustments);
        if (p->allowed) wire_put(out, p->allowed, (size_t)head->n_words * sizeof *p->allowed);
    }
}

// ---- reading ------------------------------------------------------------------------------------------------

const void *wire_take_bytes(WireIn *in, size_t n) {
    in->failed = in->failed || n > in->left;
    if (in->failed) return NULL;
    const char *bytes = in->at;
    in->at += n, in->left -= n;
    return bytes;
}

void wire_take(WireIn *in, void *to, size_t n) {
    const void *bytes = wire_take_bytes(in, n);
    if (bytes)
        memcpy(to, bytes, n);
    else
        memset(to, 0, n);
}

bool wire_is_over(const WireIn *in) {
    return !in->failed && in->left == 0;
}

Status wire_damaged(const char *what, Error *error) {
    return error_set(error, STATUS_DEVICE, "a message between ranks is damaged: %s", what);
}

void wire_arrays_free(WireArrays *arrays) {
    free(arrays->memory);
    *arrays = (WireArrays){0};
}

static Status reserve(WireArrays *arrays, size_t bytes, Error *error) {
    if (bytes <= arrays->room) return STATUS_OK;
    free(arrays->memory);
    arrays->room = 0;
    arrays->memory = malloc(bytes);
    if (!arrays->memory) return error_set(error, STATUS_MEMORY, "no memory for %zu bytes of a step", bytes);
    arrays->room = bytes;
    return STATUS_OK;
}

// The sequences cover the tokens in order, and have as many pages as were told.
static bool sequences_fit(const WireStep *head, const WireSequence *s) {
    int64_t tokens = 0, pages = 0;
    for (int i = 0; i < head->n_sequences; i++) {
        WireSequence one;
        memcpy(&one, &s[i], sizeof one);
        if (one.first_token != tokens || one.n_tokens < 1 || one.n_slots < 1) return false;
        tokens += one.n_tokens;
        pages += pages_of(one.n_slots, head->page_size);
    }
    return tokens == head->n_tokens && pages == head->n_pages;
}

Status wire_take_step(WireIn *in, int max_tokens, WireArrays *arrays, WireStep *head, Step *step,
                      Error *error) {
    wire_take(in, head, sizeof *head);
    if (in->failed || head->n_tokens < 1 || head->n_tokens > max_tokens || head->n_sequences < 1 ||
        head->n_sequences > head->n_tokens || head->page_size < 1 || head->n_pages < 0 ||
        head->kind < STEP_ANY || head->kind > STEP_READING)
        return wire_damaged("a step's sizes", error);
    const size_t tokens = (size_t)head->n_tokens * sizeof(int32_t),
                 sequences = (size_t)head->n_sequences * sizeof(WireSequence),
                 pages = (size_t)head->n_pages * sizeof(int32_t),
                 own = (size_t)head->n_sequences * sizeof(StepSequence);
    const char *arrived = wire_take_bytes(in, 3 * tokens);
    const WireSequence *told = wire_take_bytes(in, sequences);
    const char *tables = wire_take_bytes(in, pages);
    if (!arrived || !told || !tables || !sequences_fit(head, told))
        return wire_damaged("a step's sequences", error);
    Status status = reserve(arrays, own + 3 * tokens + pages, error);
    if (status) return status;
    StepSequence *to = arrays->memory;
    char *ids = (char *)arrays->memory + own;
    int32_t *page = (int32_t *)(void *)(ids + 3 * tokens);
    memcpy(ids, arrived, 3 * tokens);
    memcpy(page, tables, pages);
    for (int i = 0; i < head->n_sequences; i++) {
        WireSequence s;
        memcpy(&s, &told[i], sizeof s);
        to[i] = (StepSequence){
            s.first_token, s.n_tokens,      s.n_slots, page, s.n_sinks, s.n_evicted, s.rope_set,
            s.n_prefix,    s.in_order != 0, 0,         {0},  -1,        -1};
        page += pages_of(s.n_slots, head->page_size);
    }
    *step = (Step){.n_tokens = head->n_tokens,
                   .n_sequences = head->n_sequences,
                   .ids = (const int32_t *)(const void *)ids,
                   .positions = (const int32_t *)(const void *)(ids + tokens),
                   .slots = (const int32_t *)(const void *)(ids + 2 * tokens),
                   .sequences = to,
                   .page_size = head->page_size,
                   .kind = (StepKind)head->kind};
    return STATUS_OK;
}

// One row; of its arrays only where they lie, which may be at no multiple of their alignment.
static bool take_draw(WireIn *in, const WireSample *head, int vocab_size, WireDraw *draw,
                      const void **adjustments, const void **allowed) {
    wire_take(in, draw, sizeof *draw);
    if (in->failed || draw->n_adjustments < 0 || draw->n_adjustments > vocab_size) return false;
    *adjustments = wire_take_bytes(in, (size_t)draw->n_adjustments * sizeof(LogitAdjustment));
    *allowed = draw->has_allowed ? wire_take_bytes(in, (size_t)head->n_words * sizeof(uint32_t)) : NULL;
    return !in->failed;
}

Status wire_take_draws(WireIn *in, int max_rows, int vocab_size, WireArrays *arrays, WireSample *head,
                       SampleParams **params, Error *error) {
    wire_take(in, head, sizeof *head);
    const size_t left = in->left;
    if (in->failed || head->n_rows < 1 || head->n_rows > max_rows || head->n_words != (vocab_size + 31) / 32)
        return wire_damaged("a draw's sizes", error);
    const size_t rows = (size_t)head->n_rows * sizeof **params;
    Status status = reserve(arrays, rows + left, error); // what is in the message finds room
    if (status) return status;
    char *to = (char *)arrays->memory + rows;
    *params = arrays->memory;
    for (int i = 0; i < head->n_rows; i++) {
        WireDraw d;
        const void *adjustments, *allowed;
        if (!take_draw(in, head, vocab_size, &d, &adjustments, &allowed))
            return wire_damaged("a draw's parameters", error);
        const size_t n_adjustments = (size_t)d.n_adjustments * sizeof(LogitAdjustment),
                     n_allowed = allowed ? (size_t)head->n_words * sizeof(uint32_t) : 0;
        (*params)[i] =
            (SampleParams){.temperature = d.temperature,
                           .top_p = d.top_p,
                           .min_p = d.min_p,
                           .typical_p = d.typical_p,
                           .top_k = d.top_k,
                           .seed = d.seed,
                           .conversation = d.conversation,
                           .position = d.position,
                           .n_adjustments = d.n_adjustments,
                           .adjustments = (const LogitAdjustment *)(const void *)to,
                           .allowed = allowed ? (const uint32_t *)(const void *)(to + n_adjustments) : NULL};
        memcpy(to, adjustments, n_adjustments);
        if (allowed) memcpy(to + n_adjustments, allowed, n_allowed);
        to += n_adjustments + n_allowed;
    }
    return STATUS_OK;
}

Status wire_take_ids(WireIn *in, int64_t n, int64_t most, WireArrays *arrays, int32_t **ids, Error *error) {
    const void *bytes = n < 0 ? NULL : wire_take_bytes(in, (size_t)n * sizeof **ids);
    if (!bytes) return wire_damaged("an array", error);
    Status status = reserve(arrays, (size_t)n * sizeof **ids + 1, error);
    if (status) return status;
    *ids = arrays->memory;
    memcpy(*ids, bytes, (size_t)n * sizeof **ids);
    for (int64_t i = 0; i < n; i++)
        if ((*ids)[i] < 0 || (*ids)[i] >= most) return wire_damaged("an index", error);
    return STATUS_OK;
}
