// Hostile messages to a rank (kernels/hosts): each is done or refused with one line, and no backend is given memory, layers,
// slots or arrays that are not there. A seed is what rank 0 said in a talk: kind and size of a message, 16 bits each, and so
// many bytes, again and again.
#include "kernels/hosts/serve.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_LAYERS = 2, VOCAB = 384, MOST_BYTES = 1 << 16 };

static unsigned sum; // what was looked at has to be there

static void look(const void *bytes, size_t n) {
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) sum += b[i];
}

// ---- a backend that does nothing but look at what it is given ---------------------------------------------------

static void describe(const Backend *b, char *text, size_t size) {
    (void)b;
    strncpy(text, "nothing", size);
}
static void memory(const Backend *b, int64_t *total, int64_t *available) {
    (void)b;
    *total = *available = 1 << 30;
}
static int64_t scratch_bytes(const Backend *b, int n_rows, int n_slots) {
    (void)b;
    return (int64_t)n_rows * n_slots;
}
static Status take(Backend *b, size_t bytes, void **to, Error *error) {
    (void)b;
    *to = bytes <= MOST_BYTES ? calloc(1, bytes) : NULL;
    return *to ? STATUS_OK : error_set(error, STATUS_MEMORY, "%zu bytes", bytes);
}
static void give_back(Backend *b, void *area) {
    (void)b;
    free(area);
}
static Status put(Backend *b, void *to, const void *host, size_t bytes, Error *error) {
    (void)b, (void)error;
    memcpy(to, host, bytes);
    return STATUS_OK;
}
static Status get(Backend *b, void *host, const void *from, size_t bytes, Error *error) {
    (void)b, (void)error;
    memcpy(host, from, bytes);
    return STATUS_OK;
}
static Status read_floats(Backend *b, const void *from, int64_t n, float *host, Error *error) {
    (void)b, (void)error;
    look(from, 1);
    memset(host, 0, (size_t)n * sizeof *host);
    return STATUS_OK;
}
static Status begin(Backend *b, const Step *s, const KvLayer *kv, Error *error) {
    (void)b, (void)error;
    look(s->ids, (size_t)s->n_tokens * sizeof *s->ids);
    look(s->positions, (size_t)s->n_tokens * sizeof *s->positions);
    for (int i = 0; i < s->n_tokens; i++) s->slot_positions[s->slots[i]] = s->positions[i];
    for (int i = 0; i < s->n_sequences; i++)
        for (int at = 0; at < s->sequences[i].n_slots; at++)
            sum += (unsigned)s->slot_positions[s->sequences[i].pages[at / s->page_size] + at % s->page_size];
    if (kv && kv->k) look(kv->k, 1);
    return STATUS_OK;
}
static Status qkv(Backend *b, const Layer *l, const void *x, const KvLayer *kv, void *q, Error *error) {
    (void)b, (void)error;
    look(l, 1), look(x, 1), look(q, 1), look(kv->k, 1);
    return STATUS_OK;
}
static Status attend(Backend *b, const void *q, const KvLayer *kv, int window, void *y, Error *error) {
    (void)b, (void)error, (void)window;
    look(q, 1), look(y, 1), look(kv->k, 1);
    return STATUS_OK;
}
static Status part(Backend *b, const Layer *l, const void *from, void *to, Error *error) {
    (void)b, (void)error;
    look(l, 1), look(from, 1), look(to, 1);
    return STATUS_OK;
}
static Status logits(Backend *b, const Head *h, const void *x, const LogitRows *rows, float *to,
                     Error *error) {
    (void)b, (void)error;
    look(h, 1), look(x, 1), look(to, 1);
    if (rows->tokens) look(rows->tokens, (size_t)rows->n * sizeof *rows->tokens);
    return STATUS_OK;
}
static Status slots(Backend *b, const CacheSlots *s, const int32_t *to, Error *error) {
    (void)b, (void)error;
    for (int i = 0; i < s->n; i++) s->slot_positions[s->slots[i]] = to ? s->slot_positions[to[i]] : 0;
    return STATUS_OK;
}
static Status shift(Backend *b, const CacheSlots *s, int32_t delta, Error *error) {
    (void)delta;
    return slots(b, s, NULL, error);
}
static Status decode(Backend *b, const DecodeStep *t, Error *error) {
    Status status = begin(b, t->step, t->kv, error);
    look(t->buffers->x, 1), look(t->buffers->q, 1), look(t->buffers->g, 1), look(t->logits, 1);
    return status ? status : t->pass(t->context, t->buffers, error);
}
static Status sample(Backend *b, const float *from, int n_rows, const SampleParams *params, int32_t *ids,
                     Error *error) {
    (void)b, (void)error;
    look(from, 1);
    for (int i = 0; i < n_rows; i++) {
        look(params[i].adjustments, (size_t)params[i].n_adjustments * sizeof *params[i].adjustments);
        if (params[i].allowed) look(params[i].allowed, (VOCAB + 31) / 32 * sizeof(uint32_t));
        ids[i] = 0;
    }
    return STATUS_OK;
}
static Status counts(Backend *b, SoftmaxCounts *to, Error *error) {
    (void)b, (void)error;
    *to = (SoftmaxCounts){0};
    return STATUS_OK;
}

static const Ops OPS = {.name = "nothing",
                        .activation_bytes = 4,
                        .describe = describe,
                        .memory = memory,
                        .scratch_bytes = scratch_bytes,
                        .alloc = take,
                        .free = give_back,
                        .write = put,
                        .read = get,
                        .read_floats = read_floats,
                        .begin = begin,
                        .qkv = qkv,
                        .attend = attend,
                        .out = part,
                        .gate_up = part,
                        .down = part,
                        .logits = logits,
                        .copy_slots = slots,
                        .shift_keys = shift,
                        .decode = decode,
                        .sample = sample,
                        .softmax_counts = counts};
static Backend backend = {&OPS};
static const DecoderShape shape = {.n_layers = N_LAYERS, .vocab_size = VOCAB};
static char layer; // of which nothing is known

// ---- what serves ------------------------------------------------------------------------------------------------

static Status open_part(ServePart *p, const WireOpen *what, Error *error) {
    if (what->n > N_LAYERS) return error_set(error, STATUS_USAGE, "%d layers", what->n);
    p->backend = &backend, p->shape = &shape;
    if (p->max_tokens > 64) p->max_tokens = 64;
    if (p->max_logits > 64) p->max_logits = 64;
    return STATUS_OK;
}
static Status load_part(ServePart *p, bool sums, Error *error) {
    static Layer *layers[N_LAYERS];
    static const uint64_t SUMS[N_LAYERS];
    (void)error;
    if (sums) p->sums = SUMS, p->n_sums = N_LAYERS;
    for (int i = 0; i < N_LAYERS; i++) layers[i] = (Layer *)(void *)&layer;
    p->layers = layers, p->head = (Head *)(void *)&layer;
    return STATUS_OK;
}
static void close_part(ServePart *p) {
    p->backend = NULL, p->layers = NULL, p->head = NULL;
}
static Status pass_part(const void *p, const PassBuffers *b, Error *error) {
    (void)error;
    look(((const ServePart *)p)->x, 1), look(b->logits, 1);
    return STATUS_OK;
}
static const int *windows_of(const ServePart *p) {
    static const int windows[N_LAYERS];
    (void)p;
    return windows;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const ServeOps SERVE = {open_part, load_part, close_part, pass_part, windows_of};
    Server *server;
    Error error = {0};
    if (server_open(&SERVE, NULL, &server, &error)) abort();
    while (size >= 4) {
        const uint32_t type = data[0] + 256u * data[1], told = data[2] + 256u * data[3];
        const size_t n = told < size - 4 ? told : size - 4;
        char *message = malloc(n + 1); // of its own, so that a sanitizer sees its end
        memcpy(message, data + 4, n);
        WireIn in = {message, n, false};
        WireOut out = {0};
        error = (Error){0};
        if (server_take(server, type, &in, &out, &error) && (!*error.message || strchr(error.message, '\n')))
            abort();
        free(message);
        free(out.bytes);
        data += 4 + n, size -= 4 + n;
    }
    server_close(server);
    return 0;
}
