// A step over several hosts: rank 0's layers by its own backend, the others' recorded for them; x is read where it is, and
// sent to where it is needed.
#include "kernels/hosts/hosts_internal.h"

// From rank 0 x is read into the message itself.
static Status cross_from_own(Hosts *h, int rank, const void *x, size_t bytes, Error *error) {
    Status status = STATUS_OK;
    for (size_t done = 0, n; done < bytes && !status; done += n) {
        n = bytes - done < WIRE_PIECE ? bytes - done : WIRE_PIECE;
        const char *from = (const char *)x + done;
        const WireMemory to = {hosts_memory_at(h, rank, from), n};
        WireOut *out = world_out(h->world, rank);
        wire_begin(out, WIRE_WRITE);
        wire_put(out, &to, sizeof to);
        void *place = wire_room(out, n);
        if (place) status = own_ops(h)->read(h->own, place, hosts_memory_here(h, from), n, error);
        if (status)
            wire_drop(out);
        else
            wire_end(out);
    }
    return status;
}

// From another one it is passed on when it comes, while rank 0 goes on.
static Status cross(Hosts *h, int rank, const void *x, Error *error) {
    if (h->x_rank == rank) return STATUS_OK;
    const size_t bytes = (size_t)h->n_tokens * (size_t)h->whole->hidden_size * sizeof(float);
    Status status;
    if (h->x_rank == 0) {
        status = cross_from_own(h, rank, x, bytes, error);
    } else {
        hosts_relay(h, h->x_rank, rank, (void *)x, bytes);
        status = world_start(h->world, h->x_rank, error);
    }
    if (status) return status;
    h->x_rank = rank;
    return STATUS_OK;
}

// A step begins while ranks are busy with those before it, one each and another that waits. If one of them has failed,
// nobody was told, so that this one fails of it.
static Status follow(Hosts *h, Error *error) {
    const int last = last_of(h);
    if (h->is_open) {
        world_mark(h->world, last);
        Status status = world_await(h->world, last, h->n, error);
        if (status) return status;
    }
    h->is_open = true;
    return STATUS_OK;
}

static Step step_here(const Hosts *h, const Step *step) {
    Step own = *step;
    own.slot_positions = hosts_memory_here(h, step->slot_positions);
    return own;
}

static WireStep head_of(const Hosts *h, int rank, const Step *step, const KvLayer *kv) {
    WireStep head = {.slot_positions = hosts_memory_at(h, rank, step->slot_positions), .has_kv = kv != NULL};
    if (kv) head.kv = hosts_kv_at(h, rank, kv);
    return head;
}

// Of ranks up to, and without, `end`.
static Status begin(Hosts *h, int end, const Step *step, const KvLayer *kv, Error *error) {
    const Step own = step_here(h, step);
    KvLayer own_kv = {0};
    if (kv) own_kv = hosts_kv_here(h, kv);
    h->n_tokens = step->n_tokens;
    h->layer = NULL;
    Status status = follow(h, error);
    if (!status) status = own_ops(h)->begin(h->own, &own, kv ? &own_kv : NULL, error);
    for (int rank = 1; rank < end && !status; rank++) {
        const WireStep head = head_of(h, rank, step, kv);
        WireOut *out = world_out(h->world, rank);
        wire_begin(out, WIRE_BEGIN);
        wire_put_step(out, &head, step);
        wire_end(out);
    }
    return status;
}

Status hosts_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error) {
    Hosts *h = hosts_of(backend);
    return begin(h, h->n, step, kv, error);
}

Status hosts_embed(Backend *backend, const Head *head, void *x, Error *error) {
    Hosts *h = hosts_of(backend);
    h->x_rank = 0;
    return own_ops(h)->embed(h->own, head->own, hosts_memory_here(h, x), error);
}

// Whether ops of a layer do nothing, for all of its rank's come in one.
static bool is_left_out(const Hosts *h, const Layer *layer) {
    return h->skips_last && layer->rank == last_of(h);
}

static void tell_op(Hosts *h, WireType type, const void *from, const void *to, int window) {
    const int rank = h->layer->rank;
    const WireOp op = {h->layer->index, window, hosts_memory_at(h, rank, from), hosts_memory_at(h, rank, to)};
    hosts_tell(h, rank, type, &op, sizeof op);
}

Status hosts_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                 Error *error) {
    Hosts *h = hosts_of(backend);
    h->layer = layer;
    if (is_left_out(h, layer)) return STATUS_OK;
    Status status = cross(h, layer->rank, x, error);
    if (status) return status;
    if (layer->rank == 0) {
        const KvLayer own = hosts_kv_here(h, kv);
        status = world_pump(h->world, error);
        if (status) return status;
        return own_ops(h)->qkv(h->own, layer->own, hosts_memory_here(h, x), &own, hosts_memory_here(h, q),
                               error);
    }
    hosts_tell_kv(h, h->first[layer->rank] + layer->index, layer->rank, kv);
    tell_op(h, WIRE_QKV, x, q, 0);
    return STATUS_OK;
}

Status hosts_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error) {
    Hosts *h = hosts_of(backend);
    if (is_left_out(h, h->layer)) return STATUS_OK;
    if (h->layer->rank == 0) {
        const KvLayer own = hosts_kv_here(h, kv);
        return own_ops(h)->attend(h->own, hosts_memory_here(h, q), &own, window, hosts_memory_here(h, y),
                                  error);
    }
    tell_op(h, WIRE_ATTEND, q, y, window);
    return STATUS_OK;
}

Status hosts_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    Hosts *h = hosts_of(backend);
    if (is_left_out(h, layer)) return STATUS_OK;
    if (layer->rank == 0)
        return own_ops(h)->out(h->own, layer->own, hosts_memory_here(h, y), hosts_memory_here(h, x), error);
    tell_op(h, WIRE_OUT, y, x, 0);
    return STATUS_OK;
}

Status hosts_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error) {
    Hosts *h = hosts_of(backend);
    if (is_left_out(h, layer)) return STATUS_OK;
    if (layer->rank == 0)
        return own_ops(h)->gate_up(h->own, layer->own, hosts_memory_here(h, x), hosts_memory_here(h, g),
                                   error);
    tell_op(h, WIRE_GATE_UP, x, g, 0);
    return STATUS_OK;
}

Status hosts_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error) {
    Hosts *h = hosts_of(backend);
    if (is_left_out(h, layer)) return STATUS_OK;
    if (layer->rank == 0)
        return own_ops(h)->down(h->own, layer->own, hosts_memory_here(h, g), hosts_memory_here(h, x), error);
    tell_op(h, WIRE_DOWN, g, x, 0);
    return STATUS_OK;
}

Status hosts_logits(Backend *backend, const Head *head, const void *x, const LogitRows *rows, float *logits,
                    Error *error) {
    Hosts *h = hosts_of(backend);
    const int last = last_of(h);
    (void)head;
    if (h->skips_last) return STATUS_OK;
    Status status = cross(h, last, x, error);
    if (status) return status;
    const WireLogits told = {hosts_memory_at(h, last, x), hosts_memory_at(h, last, logits), rows->n,
                             rows->tokens != NULL};
    WireOut *out = world_out(h->world, last);
    wire_begin(out, WIRE_LOGITS);
    wire_put(out, &told, sizeof told);
    if (rows->tokens) wire_put(out, rows->tokens, (size_t)rows->n * sizeof *rows->tokens);
    wire_end(out);
    return STATUS_OK;
}

// ---- one token at once --------------------------------------------------------------------------------------

// The last rank's layers, logits included, in one message, for its backend to take in one go; the others' op by op.
Status hosts_decode(Backend *backend, const DecodeStep *t, Error *error) {
    Hosts *h = hosts_of(backend);
    const int last = last_of(h);
    if (!h->opened[last].decodes || t->drawn || !t->buffers) return STATUS_UNSUPPORTED;
    Status status = begin(h, last, t->step, t->kv, error);
    if (status) return status;
    h->skips_last = true;
    status = t->pass(t->context, t->buffers, error);
    h->skips_last = false;
    if (!status) status = cross(h, last, t->buffers->x, error);
    if (status) return status;
    for (int l = h->first[last]; l < h->whole->n_layers; l++) hosts_tell_kv(h, l, last, &t->kv[l]);
    const WireDecode told = {hosts_memory_at(h, last, t->buffers->x), hosts_memory_at(h, last, t->buffers->q),
                             hosts_memory_at(h, last, t->buffers->g), hosts_memory_at(h, last, t->logits)};
    const WireStep head = head_of(h, last, t->step, NULL);
    WireOut *out = world_out(h->world, last);
    wire_begin(out, WIRE_DECODE);
    wire_put(out, &told, sizeof told);
    wire_put_step(out, &head, t->step);
    wire_end(out);
    return STATUS_OK;
}

Status hosts_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                    int32_t *ids, Error *error) {
    Hosts *h = hosts_of(backend);
    const int last = last_of(h);
    const WireSample head = {hosts_memory_at(h, last, logits), n_rows, (h->whole->vocab_size + 31) / 32};
    WireOut *out = world_out(h->world, last);
    wire_begin(out, WIRE_SAMPLE);
    wire_put_draws(out, &head, params);
    wire_end(out);
    return hosts_ask(h, last, ids, (size_t)n_rows * sizeof *ids, error);
}

// ---- the cache ----------------------------------------------------------------------------------------------

// Each rank's own layers of those given, which are all of the model.
static Status on_slots(Hosts *h, WireType type, const CacheSlots *slots, const int32_t *to, int32_t delta,
                       Error *error) {
    Status status = STATUS_OK;
    const size_t bytes = (size_t)slots->n * sizeof *slots->slots;
    for (int rank = 1; rank < h->n; rank++) {
        for (int l = h->first[rank]; l < h->first[rank + 1]; l++)
            hosts_tell_kv(h, l, rank, &slots->layers[l]);
        const WireSlots told = {hosts_memory_at(h, rank, slots->slot_positions), slots->n, delta};
        WireOut *out = world_out(h->world, rank);
        wire_begin(out, type);
        wire_put(out, &told, sizeof told);
        wire_put(out, slots->slots, bytes);
        if (to) wire_put(out, to, bytes);
        wire_end(out);
        Error other;
        const Status its = hosts_ask(h, rank, NULL, 0, status ? &other : error);
        if (!status) status = its;
    }
    return status;
}

static Status slots_here(Hosts *h, const char *op, const CacheSlots *slots, CacheSlots *own, Error *error) {
    if (slots->n_layers != h->whole->n_layers)
        return error_set(error, STATUS_USAGE, "%s: %d of %d layers", op, slots->n_layers, h->whole->n_layers);
    for (int l = 0; l < h->first[1]; l++) h->kv[l] = hosts_kv_here(h, &slots->layers[l]);
    *own = *slots;
    own->layers = h->kv, own->n_layers = h->first[1];
    own->slot_positions = hosts_memory_here(h, slots->slot_positions);
    return STATUS_OK;
}

Status hosts_copy_slots(Backend *backend, const CacheSlots *slots, const int32_t *to, Error *error) {
    Hosts *h = hosts_of(backend);
    CacheSlots own;
    Status status = slots_here(h, "copy_slots", slots, &own, error);
    if (!status) status = own_ops(h)->copy_slots(h->own, &own, to, error);
    return status ? status : on_slots(h, WIRE_COPY_SLOTS, slots, to, 0, error);
}

Status hosts_shift_keys(Backend *backend, const CacheSlots *slots, int32_t delta, Error *error) {
    Hosts *h = hosts_of(backend);
    CacheSlots own;
    Status status = slots_here(h, "shift_keys", slots, &own, error);
    if (!status) status = own_ops(h)->shift_keys(h->own, &own, delta, error);
    return status ? status : on_slots(h, WIRE_SHIFT_KEYS, slots, NULL, delta, error);
}
