#include "kernels/hosts/serve_internal.h"

#include <stdlib.h>
#include <string.h>

// ---- about it -----------------------------------------------------------------------------------------------

static void close_part(Server *s) {
    serve_memory_free(s);
    free(s->part.kv);
    s->part.kv = NULL;
    s->ops->close(&s->part);
}

static Status take_open(Server *s, WireIn *in, WireOut *out, Error *error) {
    WireOpen what;
    WireOpened opened = {0};
    int64_t total;
    wire_take(in, &what, sizeof what);
    close_part(s); // another one: rank 0 has changed its mind about where it runs
    if (!wire_is_over(in) || what.n < 1 || what.max_tokens < 1 || what.max_logits < 1)
        return wire_damaged("what is to be opened", error);
    s->part.max_tokens = what.max_tokens, s->part.max_logits = what.max_logits;
    Status status = s->ops->open(&s->part, &what, error);
    if (status) return status;
    s->part.kv = calloc((size_t)s->part.shape->n_layers, sizeof *s->part.kv);
    if (!s->part.kv) return error_set(error, STATUS_MEMORY, "no memory for %d layers", what.n);
    const Ops *ops = serve_backend(s);
    strncpy(opened.name, ops->name, sizeof opened.name - 1);
    ops->describe(s->part.backend, opened.how, sizeof opened.how);
    ops->memory(s->part.backend, &total, &opened.available);
    opened.weights = s->part.weights, opened.files = s->part.files;
    opened.activation_bytes = (int32_t)ops->activation_bytes;
    opened.w8 = ops->w8, opened.decodes = ops->decode != NULL;
    wire_put(out, &opened, sizeof opened);
    return STATUS_OK;
}

static Status take_load(Server *s, WireIn *in, WireOut *out, Error *error) {
    WireLoad load;
    wire_take(in, &load, sizeof load);
    if (s->part.layers) return wire_damaged("it is loaded", error);
    if (!wire_is_over(in)) return wire_damaged("what is to be loaded", error);
    s->part.sums = NULL, s->part.n_sums = 0;
    Status status = s->ops->load(&s->part, load.sums != 0, error);
    if (!status && load.sums && s->part.n_sums > 0)
        wire_put(out, s->part.sums, (size_t)s->part.n_sums * sizeof *s->part.sums);
    return status;
}

static Status take_room(Server *s, WireIn *in, WireOut *out, Error *error) {
    WireRoom room;
    wire_take(in, &room, sizeof room);
    if (!wire_is_over(in) || room.n_rows < 1 || room.n_slots < 0) return wire_damaged("a question", error);
    const int64_t bytes = serve_backend(s)->scratch_bytes(s->part.backend, room.n_rows, room.n_slots);
    wire_put(out, &bytes, sizeof bytes);
    return STATUS_OK;
}

static Status take_counts(Server *s, WireOut *out, Error *error) {
    SoftmaxCounts counts = {0};
    Status status = serve_backend(s)->softmax_counts(s->part.backend, &counts, error);
    if (!status) wire_put(out, &counts, sizeof counts);
    return status;
}

// What was asked for before is done once a word has been read.
static Status take_wait(Server *s, Error *error) {
    char byte;
    if (s->n_areas == 0) return STATUS_OK;
    return serve_backend(s)->read(s->part.backend, &byte, s->areas[0].memory, 1, error);
}

Status server_take(Server *s, uint32_t type, WireIn *in, WireOut *out, Error *error) {
    if (type == WIRE_OPEN) return take_open(s, in, out, error);
    if (!s->part.backend || !s->part.kv) return wire_damaged("nothing is open", error);
    if (type >= WIRE_QKV && !s->part.layers) return wire_damaged("nothing is loaded", error);
    switch (type) {
    case WIRE_LOAD:
        return take_load(s, in, out, error);
    case WIRE_ROOM:
        return take_room(s, in, out, error);
    case WIRE_COUNTS:
        return take_counts(s, out, error);
    case WIRE_WAIT:
        return take_wait(s, error);
    case WIRE_ALLOC:
    case WIRE_FREE:
    case WIRE_WRITE:
    case WIRE_READ:
    case WIRE_READ_FLOATS:
        return serve_memory_take(s, type, in, out, error);
    default:
        return serve_step_take(s, type, in, out, error);
    }
}

// ---- until it is over ---------------------------------------------------------------------------------------

Status server_open(const ServeOps *ops, void *context, Server **out, Error *error) {
    *out = calloc(1, sizeof **out);
    if (!*out) return error_set(error, STATUS_MEMORY, "no memory to serve");
    (*out)->ops = ops;
    (*out)->part.context = context;
    return STATUS_OK;
}

void server_close(Server *s) {
    if (!s) return;
    close_part(s);
    wire_arrays_free(&s->arrays);
    wire_arrays_free(&s->others);
    free(s->areas);
    free(s);
}

// What was not answered and failed is told with the next answer; until then ops of a step do nothing.
typedef struct Failure {
    Status status;
    Error error;
} Failure;

// What memory and caches are is taken note of all the same.
static void note(Server *s, uint32_t type, WireIn *in, Failure *failure) {
    Error error;
    if (failure->status && type != WIRE_KV && type != WIRE_FREE && type != WIRE_WRITE) return;
    const Status status = server_take(s, type, in, NULL, failure->status ? &error : &failure->error);
    if (!failure->status) failure->status = status;
}

static Status answer(World *world, Server *s, uint32_t type, WireIn *in, Failure *failure, Error *error) {
    WireOut *out = world_out(world, 0);
    WireAnswer head = {0};
    wire_begin(out, WIRE_ANSWER);
    const size_t at = out->n;
    wire_put(out, &head, sizeof head);
    if (!failure->status) failure->status = server_take(s, type, in, out, &failure->error);
    if (out->failed) return world_flush(world, 0, error);
    if (failure->status) {
        out->n = at;
        head = (WireAnswer){(int32_t)failure->status, (int32_t)strlen(failure->error.message)};
        wire_put(out, &head, sizeof head);
        wire_put(out, failure->error.message, (size_t)head.length);
    }
    wire_end(out);
    const bool is_fatal = failure->status == STATUS_FATAL;
    if (is_fatal) (void)error_set(error, STATUS_FATAL, "%s", failure->error.message);
    failure->status = STATUS_OK;
    Error other;
    Status status = world_flush(world, 0, is_fatal ? &other : error);
    return is_fatal ? STATUS_FATAL : status;
}

Status serve(World *world, const ServeOps *ops, void *context, Error *error) {
    Server *s;
    WireHeader header;
    WireIn in;
    Failure failure = {0};
    Status status = server_open(ops, context, &s, error);
    while (!status) {
        status = world_receive(world, &header, &in, error);
        if (!status && header.type == WIRE_END && in.left > 0)
            status = error_set(error, STATUS_FILE, "rank 0 at %s has refused this rank: %.*s",
                               world_name(world, 0), (int)(in.left < 400 ? in.left : 400), in.at);
        if (status || header.type == WIRE_END) break;
        if (wire_is_answered(header.type))
            status = answer(world, s, header.type, &in, &failure, error);
        else
            note(s, header.type, &in, &failure);
    }
    server_close(s);
    return status;
}
