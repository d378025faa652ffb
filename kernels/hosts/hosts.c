#include "kernels/hosts/hosts_internal.h"

#include "kernels/base/hash.h"
#include "kernels/hosts/part.h"
#include "kernels/part_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOAD_WAIT_MS = 200 };

// ---- messages -----------------------------------------------------------------------------------------------

void hosts_tell(Hosts *h, int rank, WireType type, const void *bytes, size_t n) {
    WireOut *out = world_out(h->world, rank);
    wire_begin(out, type);
    if (n > 0) wire_put(out, bytes, n);
    wire_end(out);
}

Status hosts_ask(Hosts *h, int rank, void *to, size_t size, Error *error) {
    WireIn in;
    if (rank == last_of(h)) h->is_open = false;
    Status status = world_ask(h->world, rank, &in, error);
    if (status) return status;
    if (size > 0) wire_take(&in, to, size);
    return wire_is_over(&in) ? STATUS_OK : wire_damaged("an answer", error);
}

// Whether a rank's files have to be compared with rank 0's: they are the same ones where both are on one host.
static bool is_compared(const Hosts *h, int rank) {
    const uint64_t files = h->opened[rank].files;
    return h->files.begin && (files == 0 || files != h->files.files);
}

static int n_layers_of(const Hosts *h, int rank) {
    return h->first[rank + 1] - h->first[rank];
}

// The others load while rank 0 does.
static Status tell_to_load(Hosts *h, Error *error) {
    Status status = STATUS_OK;
    for (int rank = 1; rank < h->n && !status; rank++) {
        const WireLoad load = {.sums = is_compared(h, rank)};
        if (load.sums)
            status = h->files.begin(h->files.context, h->first[rank], n_layers_of(h, rank),
                                    rank == last_of(h), error);
        if (status) return status;
        hosts_tell(h, rank, WIRE_LOAD, &load, sizeof load);
        status = world_flush(h->world, rank, error);
    }
    h->loads = !status;
    if (!status && h->files.begin) status = h->files.start(h->files.context, error);
    return status;
}

// A rank whose files are others is told why it ends.
static Status compare_files(Hosts *h, int rank, const WireIn *sums, Error *error) {
    Error why, none;
    Status status = h->files.compare(h->files.context, h->first[rank], n_layers_of(h, rank),
                                     rank == last_of(h), sums->at, sums->left, &why);
    if (status == STATUS_FILE) {
        hosts_tell(h, rank, WIRE_END, why.message, strlen(why.message));
        (void)world_flush(h->world, rank, &none);
        return error_set(error, STATUS_FATAL, "rank %d (%s): %s", rank, world_name(h->world, rank),
                         why.message);
    }
    if (status) *error = why;
    return status;
}

static Status await_loading(Hosts *h, bool compares, Error *error) {
    Status status = STATUS_OK;
    h->loads = false;
    for (int rank = 1; rank < h->n; rank++) {
        while (!world_has_answer(h->world, rank, LOAD_WAIT_MS))
            if (h->interrupt && *h->interrupt)
                return error_set(error, STATUS_INTERRUPTED, "loading was interrupted");
        Error other;
        WireIn in;
        const bool is_last = rank == last_of(h);
        if (is_last) h->is_open = false;
        Status its = world_ask(h->world, rank, &in, status ? &other : error);
        if (!its && !status && compares && is_compared(h, rank)) its = compare_files(h, rank, &in, error);
        if (!status) status = its;
    }
    return status;
}

static Status wait_for_all(Hosts *h, Error *error) {
    Status status = STATUS_OK;
    for (int rank = 1; rank < h->n && !status; rank++) {
        hosts_tell(h, rank, WIRE_WAIT, NULL, 0);
        status = hosts_ask(h, rank, NULL, 0, error);
    }
    return status;
}

// ---- opening ------------------------------------------------------------------------------------------------

static void hosts_close(Backend *backend) {
    if (!backend) return;
    Hosts *h = hosts_of(backend);
    Error none;
    if (h->loads) (void)await_loading(h, false, &none);
    if (h->is_open) (void)wait_for_all(h, &none); // their answers are on the way
    if (h->own) {
        hosts_free_areas(h);
        own_ops(h)->close(h->own);
    }
    while (h->layers) {
        Layer *next = h->layers->next;
        free(h->layers);
        h->layers = next;
    }
    while (h->heads) {
        Head *next = h->heads->next;
        free(h->heads);
        h->heads = next;
    }
    free(h->kv);
    free(h->told);
    free(h);
}

static Status open_others(Hosts *h, const WireOpen *what, const BackendOptions *options, Error *error) {
    Status status = STATUS_OK;
    for (int rank = 1; rank < h->n; rank++) {
        WireOpen own = *what;
        own.first = h->first[rank], own.n = h->first[rank + 1] - own.first;
        own.max_tokens = options->max_tokens, own.max_logits = options->max_logits;
        own.random_weights = options->random_weights, own.is_last = rank == last_of(h);
        hosts_tell(h, rank, WIRE_OPEN, &own, sizeof own);
        status = world_flush(h->world, rank, error);
        if (status) return status;
    }
    for (int rank = 1; rank < h->n; rank++) {
        WireOpened *to = &h->opened[rank];
        Error other;
        const Status its = hosts_ask(h, rank, to, sizeof *to, status ? &other : error);
        to->name[sizeof to->name - 1] = to->how[sizeof to->how - 1] = 0;
        if (!status) status = its;
        if (!status && to->activation_bytes != sizeof(float))
            status = error_set(error, STATUS_UNSUPPORTED, "rank %d (%s): %s keeps x in %d bytes", rank,
                               world_name(h->world, rank), to->name, to->activation_bytes);
    }
    return status;
}

static Status open_own(Hosts *h, const HostsOptions *o, const BackendOptions *options, Error *error) {
    BackendOptions own = *options;
    h->shape = part_shape(options->shape, h->first[1]);
    own.shape = &h->shape;
    own.dispatch = NULL;
    Status status = o->open(o->context, &own, &h->own, error);
    if (status) {
        h->own = NULL;
        return status;
    }
    const HeadWeights head = part_weights_head(o->head, false);
    h->own_weights = part_weights_bytes(h->own, options->layers, h->first[1], &head);
    if (own_ops(h)->activation_bytes == sizeof(float)) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "several hosts: %s keeps x in %zu bytes", own_ops(h)->name,
                     own_ops(h)->activation_bytes);
}

static const Ops HOSTS_OPS; // the table below

Status hosts_open(const HostsOptions *o, const BackendOptions *options, Backend **out, Error *error) {
    const DecoderShape *shape = options->shape;
    const int n = world_size(o->world);
    *out = NULL;
    Status status = part_check(shape, n, error);
    if (status) return status;
    Hosts *h = calloc(1, sizeof *h);
    if (!h) return error_set(error, STATUS_MEMORY, "no memory for %d hosts", n);
    h->base.ops = &h->table;
    h->table = HOSTS_OPS;
    h->world = o->world, h->whole = shape, h->n = n, h->interrupt = o->interrupt, h->files = o->files;
    h->max_tokens = options->max_tokens, h->max_logits = options->max_logits;
    for (int rank = 0; rank <= n; rank++) h->first[rank] = part_first(shape->n_layers, n, rank);
    h->kv = calloc((size_t)shape->n_layers, sizeof *h->kv);
    h->told = calloc((size_t)shape->n_layers, sizeof *h->told);
    if (!h->kv || !h->told) status = error_set(error, STATUS_MEMORY, "no memory for %d hosts", n);
    if (!status) status = open_own(h, o, options, error);
    if (!status) status = open_others(h, &o->what, options, error);
    if (status) {
        hosts_close(&h->base);
        return status;
    }
    h->table.chunk = own_ops(h)->chunk;
    h->table.w8 = own_ops(h)->w8;
    if (!h->opened[last_of(h)].decodes) h->table.decode = NULL;
    *out = &h->base;
    return STATUS_OK;
}

Backend *hosts_own(const Backend *backend) {
    return backend->ops->close == hosts_close ? ((const Hosts *)backend)->own : NULL;
}

bool hosts_has_layer(const Backend *backend, int layer) {
    return layer < ((const Hosts *)backend)->first[1];
}

uint64_t hosts_hash(const Backend *backend) {
    const Hosts *h = (const Hosts *)backend;
    uint64_t hash = hash_bytes(HASH_START, h->first, (size_t)(h->n + 1) * sizeof *h->first);
    for (int rank = 1; rank < h->n; rank++) {
        const WireOpened *o = &h->opened[rank];
        hash = hash_bytes(hash, o->name, strlen(o->name) + 1);
        hash = hash_bytes(hash, o->how, strlen(o->how) + 1);
    }
    return hash;
}

// ---- loading ------------------------------------------------------------------------------------------------

static int64_t hosts_weight_bytes(const Backend *backend, const LayerWeights *layers,
                                  const HeadWeights *head) {
    const Hosts *h = (const Hosts *)backend;
    int64_t bytes = h->own_weights;
    (void)layers, (void)head; // as they were when it was opened
    for (int rank = 1; rank < h->n; rank++) bytes += h->opened[rank].weights;
    return bytes;
}

static Status hosts_load_head(Backend *backend, const HeadWeights *host, Head **out, Error *error) {
    Hosts *h = hosts_of(backend);
    const HeadWeights own = part_weights_head(host, false);
    *out = NULL;
    Head *head = calloc(1, sizeof *head);
    if (!head) return error_set(error, STATUS_MEMORY, "no memory for the head");
    head->next = h->heads;
    h->heads = head;
    Status status = tell_to_load(h, error);
    if (!status) status = own_ops(h)->load_head(h->own, &own, &head->own, error);
    if (!status) *out = head;
    return status;
}

static Status hosts_load_layer(Backend *backend, const LayerWeights *host, Layer **out, Error *error) {
    Hosts *h = hosts_of(backend);
    *out = NULL;
    Layer *layer = calloc(1, sizeof *layer);
    if (!layer) return error_set(error, STATUS_MEMORY, "no memory for a layer");
    layer->next = h->layers;
    h->layers = layer;
    while (host->index >= h->first[layer->rank + 1]) layer->rank++;
    layer->index = host->index - h->first[layer->rank];
    Status status = STATUS_OK;
    if (layer->rank == 0) status = own_ops(h)->load_layer(h->own, host, &layer->own, error);
    if (!status && h->loads && host->index == h->whole->n_layers - 1) status = await_loading(h, true, error);
    if (!status) *out = layer;
    return status;
}

// ---- about all of them --------------------------------------------------------------------------------------

static void hosts_describe(const Backend *backend, char *text, size_t size) {
    const Hosts *h = (const Hosts *)backend;
    char how[160];
    own_ops(h)->describe(h->own, how, sizeof how);
    size_t n = (size_t)snprintf(text, size, "%d ranks: %d layers on %s (%s)", h->n, h->first[1],
                                own_ops(h)->name, how);
    for (int rank = 1; rank < h->n && n < size; rank++)
        n +=
            (size_t)snprintf(text + n, size - n, ", %d at %s on %s (%s)", h->first[rank + 1] - h->first[rank],
                             world_name(h->world, rank), h->opened[rank].name, h->opened[rank].how);
}

// The memory plan counts a cache whole, of which a rank has its layers': what a rank has left is told as the whole that it is
// the part of, the scarcest one's, with all weights on top, which the plan takes off again.
static double whole_of(const Hosts *h, int rank) {
    return (double)h->whole->n_layers / (h->first[rank + 1] - h->first[rank]);
}

static void hosts_memory(const Backend *backend, int64_t *total, int64_t *available) {
    const Hosts *h = (const Hosts *)backend;
    int64_t own_total, own_available, weights = h->own_weights;
    own_ops(h)->memory(h->own, &own_total, &own_available);
    double least = (double)(own_available - h->own_weights) * whole_of(h, 0);
    for (int rank = 1; rank < h->n; rank++) {
        const double left = (double)(h->opened[rank].available - h->opened[rank].weights) * whole_of(h, rank);
        weights += h->opened[rank].weights;
        if (left < least) least = left;
    }
    *total = (int64_t)((double)own_total * whole_of(h, 0));
    *available = (int64_t)least + weights;
}

// What the engine takes for a step's activations, and each rank has as well.
static int64_t activation_bytes(const Hosts *h) {
    const DecoderShape *s = h->whole;
    const int64_t row =
        s->hidden_size + (int64_t)s->n_heads * decoder_most_head_dim(s) + decoder_ffn_width(s);
    return (int64_t)sizeof(float) * (h->max_tokens * row + (int64_t)h->max_logits * s->vocab_size);
}

static int64_t hosts_scratch_bytes(const Backend *backend, int n_rows, int n_slots) {
    Hosts *h = (Hosts *)backend;
    const WireRoom room = {n_rows, n_slots};
    const int64_t besides = activation_bytes(h) + (int64_t)sizeof(int32_t) * n_slots;
    double most = (double)(own_ops(h)->scratch_bytes(h->own, n_rows, n_slots) + besides) * whole_of(h, 0);
    for (int rank = 1; rank < h->n; rank++) {
        int64_t bytes = 0;
        Error lost; // which the next op tells
        hosts_tell(h, rank, WIRE_ROOM, &room, sizeof room);
        if (hosts_ask(h, rank, &bytes, sizeof bytes, &lost)) continue;
        const double whole = (double)(bytes + besides) * whole_of(h, rank);
        if (whole > most) most = whole;
    }
    return (int64_t)most - activation_bytes(h);
}

// An operator of its own, of no decoder that could be divided.
static Status hosts_cache_attention(Backend *backend, const CacheAttention *attention, Error *error) {
    (void)backend, (void)attention;
    return error_set(error, STATUS_UNSUPPORTED, "cache_attention: it runs on one host");
}

// Rank 0's clock is for all: what the others were asked for is waited for.
static Status hosts_stamp(Backend *backend, int i, Error *error) {
    Hosts *h = hosts_of(backend);
    Status status = wait_for_all(h, error);
    return status ? status : own_ops(h)->stamp(h->own, i, error);
}

static Status hosts_stamp_seconds(Backend *backend, int n, double *seconds, Error *error) {
    Hosts *h = hosts_of(backend);
    return own_ops(h)->stamp_seconds(h->own, n, seconds, error);
}

static Status hosts_softmax_counts(Backend *backend, SoftmaxCounts *counts, Error *error) {
    Hosts *h = hosts_of(backend);
    Status status = own_ops(h)->softmax_counts(h->own, counts, error);
    for (int rank = 1; rank < h->n && !status; rank++) {
        SoftmaxCounts its = {0};
        hosts_tell(h, rank, WIRE_COUNTS, NULL, 0);
        status = hosts_ask(h, rank, &its, sizeof its, error);
        counts->parts += its.parts, counts->again += its.again;
    }
    return status;
}

static const Ops HOSTS_OPS = {
    .name = "hosts",
    .activation_bytes = sizeof(float),
    .close = hosts_close,
    .describe = hosts_describe,
    .memory = hosts_memory,
    .scratch_bytes = hosts_scratch_bytes,
    .weight_bytes = hosts_weight_bytes,
    .alloc = hosts_alloc,
    .alloc_layers = hosts_alloc_layers,
    .free = hosts_free,
    .write = hosts_write,
    .read = hosts_read,
    .read_floats = hosts_read_floats,
    .load_layer = hosts_load_layer,
    .load_head = hosts_load_head,
    .begin = hosts_begin,
    .embed = hosts_embed,
    .qkv = hosts_qkv,
    .attend = hosts_attend,
    .out = hosts_out,
    .gate_up = hosts_gate_up,
    .down = hosts_down,
    .logits = hosts_logits,
    .cache_attention = hosts_cache_attention,
    .copy_slots = hosts_copy_slots,
    .shift_keys = hosts_shift_keys,
    .decode = hosts_decode,
    .sample = hosts_sample,
    .stamp = hosts_stamp,
    .stamp_seconds = hosts_stamp_seconds,
    .softmax_counts = hosts_softmax_counts,
};
