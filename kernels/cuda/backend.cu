// The backend itself: its scratch, opening and closing, memory, and the table of ops. What a new op takes: kernels/ops.h.
#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/device/handover.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- scratch -----------------------------------------------------------------------------------------------

enum { EXPANDED_BYTES = 128 << 20 }; // of weights that are multiplied as expanded blocks of rows

static size_t widest_gate_up(const DecoderShape *s) {
    int most = s->intermediate_size;
    if (s->experts.n && s->experts.size > most) most = s->experts.size;
    if (s->experts.n && s->experts.shared_size > most) most = s->experts.shared_size;
    return 2 * (size_t)most;
}

template <class Take>
static void layout_routes(const DecoderShape *s, size_t tokens, CudaRoutes *r, Take take) {
    const Experts *e = &s->experts;
    const size_t n = (size_t)e->n, pairs = tokens * (size_t)e->n_active;
    if (n == 0) return;
    r->logits = (float *)take(tokens * (n + 1) * sizeof(float));
    r->group_sums = (float *)take(tokens * (size_t)(e->n_groups + 1) * sizeof(float));
    r->arrived = (unsigned *)take(tokens * sizeof(unsigned));
    r->ids = (int32_t *)take(pairs * sizeof(int32_t));
    r->weights = (float *)take(pairs * sizeof(float));
    r->shared = (float *)take(tokens * sizeof(float));
    r->start = (int32_t *)take((n + 1) * sizeof(int32_t));
    r->tiles = (int32_t *)take((n + 1) * sizeof(int32_t));
    r->tile_pairs = (int4 *)take(pairs * sizeof(int4));
    r->token = (int32_t *)take(pairs * sizeof(int32_t));
    r->where = (int32_t *)take(pairs * sizeof(int32_t));
    r->pairs = take(pairs * (size_t)s->hidden_size * 4);
    r->beside = (float *)take(e->beside ? 2 * tokens * (size_t)s->hidden_size * sizeof(float) : 0);
}

// Elements of a token in scratch.gates: of gates behind attention what layers have, where they are known, or else, where they
// are likely, as much as they may have.
static size_t gate_width(const BackendOptions *options) {
    const DecoderShape *s = options->shape;
    const bool recurs = decoder_recurring(s) > 0;
    int64_t most = recurs ? delta_width(&s->delta) + 2 * (int64_t)s->delta.n_value_heads : 0;
    if ((recurs || s->gates_attention) && !options->layers && decoder_pass_width(s) > most)
        most = decoder_pass_width(s);
    for (int l = 0; options->layers && l < s->n_layers; l++)
        if (options->layers[l].attn_gate.rows > most) most = options->layers[l].attn_gate.rows;
    return (size_t)most;
}

template <class Take>
static void layout_recurring(const DecoderShape *s, const Card *card, size_t tokens, CudaRecurring *r,
                             Take take) {
    if (decoder_recurring(s) == 0) return;
    const size_t keys = (size_t)s->delta.n_key_heads, values = (size_t)s->delta.n_value_heads,
                 chunks = (tokens + DELTA_CHUNK - 1) / DELTA_CHUNK;
    r->mixed = (float *)take(chunks * DELTA_CHUNK * (size_t)delta_channels(&s->delta) * sizeof(float));
    r->rates = (float2 *)take(tokens * values * sizeof(float2));
    r->dots = (float *)take(tokens * keys * sizeof(float));
    r->rows = (float *)take(tokens * 2 * values * sizeof(float));
    const size_t turned = dispatch_chunks_by_wgmma(card) ? DELTA_CHUNK * (size_t)s->delta.key_dim : 0;
    r->chunks = (float *)take(chunks * (keys * turned + (s->delta.adds ? keys : 2 * values) * DELTA_LOWER) *
                              sizeof(float));
    r->factors = (float4 *)take(chunks * DELTA_CHUNK * values * sizeof(float4));
}

// Lays the scratch out for operands of four bytes, the most there may be, and returns its bytes; if base is not
// NULL, points the members into it.
static size_t layout(CudaBackend *cuda, const BackendOptions *options, char *base) {
    const DecoderShape *s = options->shape;
    size_t tokens = (size_t)options->max_tokens, used = 0;
    size_t rows = tokens > (size_t)options->max_logits ? tokens : (size_t)options->max_logits;
    const size_t of_heads_q = (size_t)s->n_heads * (size_t)decoder_most_head_dim(s);
    size_t qkv = of_heads_q + 2 * (size_t)decoder_key_rows(s), gate_up = widest_gate_up(s),
           queries = 2 * of_heads_q;
    size_t wide_row = qkv > gate_up ? qkv : gate_up;
    if (queries > wide_row) wide_row = queries;
    if (decoder_recurring(s) > 0 && (size_t)delta_channels(&s->delta) > wide_row)
        wide_row = (size_t)delta_channels(&s->delta);
    // With W8 sums of 32 bits stand behind what is stored in 16, or behind an input in 8 bits (w8_sums()).
    const size_t passed = 2 * (size_t)decoder_pass_width(s);
    size_t input = (gate_up > passed ? gate_up : passed) / 8 + 8;
    if (qkv + qkv / 2 > wide_row) wide_row = qkv + qkv / 2;
    if ((size_t)s->hidden_size + input > wide_row) wide_row = (size_t)s->hidden_size + input;
    auto take = [&](size_t bytes) {
        size_t at = used;
        used += (bytes + 255) / 256 * 256;
        return base ? base + at : NULL;
    };
    size_t row = (size_t)s->hidden_size > gate_up / 2 ? (size_t)s->hidden_size * 4 : gate_up * 2;
    size_t expanded = row > EXPANDED_BYTES ? row : EXPANDED_BYTES;
    char *rope =
        take((size_t)rope_tables(&s->rope) * tokens * (size_t)(s->rope.rotary_dim / 2) * sizeof(float2));
    char *row_scales = take(tokens * sizeof(float2));
    char *normed = take(rows * (size_t)s->hidden_size * 4);
    char *wide = take(tokens * wide_row * 4 + 256);
    char *weights = take(expanded);
    const int64_t queries_wide = decoder_query_width(s), values_wide = decoder_attended_width(s);
    const bool latent = s->latent.rank > 0;
    const size_t widest =
                     (size_t)(s->hidden_size > s->intermediate_size ? s->hidden_size : s->intermediate_size),
                 ordered = widest * 2 > passed ? widest : passed / 2;
    char *low = take(latent ? tokens * (size_t)s->latent.q_rank * 4 : 0);
    char *of_heads =
        take(latent ? tokens * (size_t)(queries_wide > values_wide ? queries_wide : values_wide) * 4
             : s->orders_inputs ? rows * ordered * 4
                                : 0);
    char *of_tokens = take(tokens * (size_t)s->n_layers * (size_t)s->token_size * sizeof(float));
    char *token_part = take(tokens * (size_t)s->token_size * 4);
    char *logit_rows = take((size_t)options->max_logits * sizeof(int32_t));
    char *drawn = take((size_t)options->max_logits * sizeof(int32_t));
    CudaRoutes routes = cuda->scratch.routes;
    layout_routes(s, tokens, &routes, take);
    CudaRecurring recurring = {};
    layout_recurring(s, &cuda->device.card, tokens, &recurring, take);
    char *gates = take(tokens * gate_width(options) * sizeof(float));
    if (base) {
        cuda->scratch.gates = gates, cuda->scratch.gate_width = (int64_t)gate_width(options);
        cuda->scratch.recurring = recurring;
        cuda->scratch.routes = routes;
        cuda->scratch.rope = (float2 *)rope;
        cuda->scratch.row_scales = (float2 *)row_scales;
        cuda->scratch.normed = normed;
        cuda->scratch.wide = wide;
        cuda->scratch.weights = weights;
        cuda->scratch.low = low, cuda->scratch.expanded = of_heads;
        cuda->scratch.of_tokens = (float *)of_tokens, cuda->scratch.token_part = token_part;
        cuda->scratch.weights_bytes = expanded;
        cuda->scratch.rows = (int32_t *)logit_rows;
        cuda->scratch.drawn = (int32_t *)drawn;
    }
    return used;
}

static int64_t cuda_scratch_bytes(const Backend *backend, int n_rows, int n_slots) {
    const CudaBackend *cuda = (const CudaBackend *)backend;
    return cuda->opened_bytes + (int64_t)(decoder_bytes(cuda) + decode_graphs_bytes(cuda) +
                                          cuda_step_bytes(cuda, n_rows, n_slots) + cuda_sample_bytes(n_rows));
}

Status cuda_room(CudaBackend *cuda, Room *room, size_t bytes, bool pinned, const char *name, Error *error) {
    if (bytes <= room->bytes) return STATUS_OK;
    bytes = cuda_room_bytes(bytes);
    char *memory = NULL;
    cudaError_t code = cudaStreamSynchronize(cuda->device.stream);
    if (code == cudaSuccess)
        code = pinned ? cudaMallocHost(&memory, bytes) : device_allocate(&cuda->device, &memory, bytes);
    if (code == cudaSuccess && !pinned) code = cudaMemsetAsync(memory, 0, bytes, cuda->device.stream);
    Status status = cuda_check(code, error, "%zu bytes for %s", bytes, name);
    if (status) {
        if (memory) cudaFree(memory);
        return status;
    }
    if (room->memory) pinned ? cudaFreeHost(room->memory) : cudaFree(room->memory);
    *room = Room{memory, bytes};
    return STATUS_OK;
}

size_t cuda_handover_bytes(const CudaBackend *cuda) {
    return HANDOVER_A_SM * (size_t)cuda->device.card.n_sms;
}

Status cuda_reserve_handover(CudaBackend *cuda, Error *error) {
    return cuda_room(cuda, &cuda->scratch.handover, cuda_handover_bytes(cuda), false, "what blocks hand over",
                     error);
}

// ---- open, close ---------------------------------------------------------------------------------------------

static void free_scratch(CudaScratch *scratch) {
    Room *rooms[] = {&scratch->step, &scratch->handover, &scratch->parts, &scratch->arrived};
    for (Room *room : rooms)
        if (room->memory) cudaFree(room->memory);
    if (scratch->staging.memory) cudaFreeHost(scratch->staging.memory);
    if (scratch->routes.host_start) cudaFreeHost(scratch->routes.host_start);
    if (scratch->memory) cudaFree(scratch->memory);
    if (scratch->staged) cudaEventDestroy(scratch->staged);
}

static void cuda_close(Backend *backend) {
    CudaBackend *cuda = cuda_backend(backend);
    if (!cuda) return;
    cudaSetDevice(cuda->device.index);
    if (cuda->device.stream) cudaStreamSynchronize(cuda->device.stream);
    visit_close(cuda->visit);
    cuda_free_weights(cuda);
    cuda_free_stamps(cuda);
    library_close(cuda->library);
    decoder_close(cuda->decoder);
    decode_graphs_close(cuda->graphs);
    cuda_sample_close(cuda->sampler);
    measurement_close(cuda->measurement);
    free_scratch(&cuda->scratch);
    if (cuda->counts) cudaFree(cuda->counts);
    device_close(&cuda->device);
    free(cuda);
}

static void cuda_memory(const Backend *backend, int64_t *total, int64_t *available) {
    const CudaBackend *cuda = (const CudaBackend *)backend;
    device_memory(&cuda->device, total, available);
    *available += cuda->opened_bytes;
}

static Status open_scratch(CudaBackend *cuda, const BackendOptions *options, Error *error) {
    CudaScratch *scratch = &cuda->scratch;
    size_t bytes = layout(cuda, options, NULL);
    Status status =
        cuda_check(cudaEventCreateWithFlags(&scratch->staged, cudaEventDisableTiming), error, "an event");
    if (!status)
        status = cuda_check(device_allocate(&cuda->device, &scratch->memory, bytes), error,
                            "%zu bytes of scratch for steps of %d tokens", bytes, options->max_tokens);
    if (status) return status;
    layout(cuda, options, scratch->memory);
    if (CHECKED) cudaMemset(scratch->memory, 0xff, bytes);
    const Experts *e = &options->shape->experts;
    if (e->n == 0) return STATUS_OK;
    cudaError_t code = cudaMemset(scratch->routes.arrived, 0, (size_t)options->max_tokens * sizeof(unsigned));
    if (code == cudaSuccess)
        code = cudaMallocHost(&scratch->routes.host_start, (size_t)(e->n + 1) * sizeof(int32_t));
    return cuda_check(code, error, "scratch for %d experts", e->n);
}

static Status open_all(CudaBackend *cuda, const BackendOptions *options, Error *error) {
    int64_t total, before, after;
    Status status = device_choose(&cuda->device, options, error);
    if (!status) status = first_talk_check(options->shape, error);
    if (status) return status;
    cuda_memory(&cuda->base, &total, &before);
    status = device_open(&cuda->device, options->shape, error);
    if (!status) status = open_scratch(cuda, options, error);
    if (!status)
        status = cuda_check(cudaMalloc(&cuda->counts, sizeof *cuda->counts), error, "counters of attention");
    if (!status)
        status = cuda_check(cudaMemsetAsync(cuda->counts, 0, sizeof *cuda->counts, cuda->device.stream),
                            error, "counters of attention");
    if (!status) status = library_open(cuda, error);
    if (status) return status;
    cuda_memory(&cuda->base, &total, &after);
    cuda->opened_bytes = before - after;
    return STATUS_OK;
}

extern const Ops CUDA_OPS; // the table below

static Status cuda_open(const BackendOptions *options, Backend **backend, Error *error) {
    *backend = NULL;
    const DecoderShape *s = options->shape;
    if (options->max_tokens < 1 || options->max_logits < 1)
        return error_set(error, STATUS_USAGE, "cuda: steps of %d tokens with %d rows of logits",
                         options->max_tokens, options->max_logits);
    Status status = cuda_check_shape(s, error);
    if (status) return status;
    CudaBackend *cuda = (CudaBackend *)calloc(1, sizeof *cuda);
    if (!cuda) return error_set(error, STATUS_MEMORY, "no memory for a backend");
    cuda->base.ops = &CUDA_OPS;
    cuda->shape = s;
    cuda->max_tokens = options->max_tokens;
    cuda->max_logits = options->max_logits;
    cuda->random_weights = options->random_weights;
    cuda->tuned = options->dispatch != NULL;
    if (options->dispatch) cuda->dispatch = *options->dispatch;
    status = open_all(cuda, options, error);
    if (status)
        cuda_close(&cuda->base);
    else
        *backend = &cuda->base;
    return status;
}

static void cuda_describe(const Backend *backend, char *text, size_t size) {
    const CudaBackend *cuda = (const CudaBackend *)backend;
    const CudaDevice *d = &cuda->device;
    const CardLimits *l = &d->limits;
    const bool limited = l->compute || l->n_sms || l->shared || l->memory;
    snprintf(text, size, "%s (cuda:%d, %d SMs%s%s%s)", d->name, d->index, d->card.n_sms,
             d->portable ? ", built without code for sm_90a: slow" : "",
             limited ? ", " LIMITS_VARIABLE " " : "", limited ? getenv(LIMITS_VARIABLE) : "");
}

// ---- memory --------------------------------------------------------------------------------------------------

static Status cuda_alloc(Backend *backend, size_t bytes, void **memory, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    *memory = NULL;
    Status status = cuda_check(device_allocate(&cuda->device, memory, bytes ? bytes : 1), error,
                               "allocating %zu bytes", bytes);
    if (status) return status;
    return cuda_check(cudaMemsetAsync(*memory, 0, bytes, cuda->device.stream), error, "clearing %zu bytes",
                      bytes);
}

static void cuda_free(Backend *backend, void *memory) {
    cudaStreamSynchronize(cuda_backend(backend)->device.stream);
    cudaFree(memory);
}

static Status cuda_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    cuda->step.normed = NULL; // it may be x that is written
    cudaError_t code = cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, cuda->device.stream);
    if (code == cudaSuccess)
        code = cudaStreamSynchronize(cuda->device.stream); // `host` is the caller's again
    return cuda_check(code, error, "writing %zu bytes", bytes);
}

static Status cuda_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    cudaError_t code = cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, cuda->device.stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(cuda->device.stream);
    return cuda_check(code, error, "reading %zu bytes", bytes);
}

// Elements of 16 bits come into the second half of the floats, which are then filled from the front.
static Status cuda_read_floats(Backend *backend, const void *activations, int64_t n, float *host,
                               Error *error) {
    const DType type = cuda_backend(backend)->operand;
    if (type == DTYPE_F32) return cuda_read(backend, host, activations, (size_t)n * 4, error);
    char *raw = (char *)host + 2 * n;
    Status status = cuda_read(backend, raw, activations, (size_t)n * 2, error);
    for (int64_t i = 0; i < n && !status; i++) {
        uint16_t bits;
        memcpy(&bits, raw + 2 * i, sizeof bits);
        host[i] = type == DTYPE_F16 ? __half2float(__ushort_as_half(bits))
                                    : __bfloat162float(__ushort_as_bfloat16(bits));
    }
    return status;
}

static Status cuda_softmax_counts(Backend *backend, SoftmaxCounts *counts, Error *error) {
    DeviceCounts there = {};
    Status status = cuda_read(backend, &there, cuda_backend(backend)->counts, sizeof there, error);
    *counts = SoftmaxCounts{(int64_t)there.parts, (int64_t)there.again};
    return status;
}

// By an H200's times (NOTES.md): a token by itself goes through the persistent kernel, several through kernels of each op, which
// wait for each other in every layer, whatever the weights are. On slower cards that is a smaller part.
static double cuda_step_seconds(const Backend *backend, double bytes, int n) {
    const DecoderShape *s = ((const CudaBackend *)backend)->shape;
    const double layers = s->n_layers, read = bytes / 4.2e12;
    if (n == 1) return read + layers * (s->experts.n > 0 ? 28e-6 : 12e-6);
    return read + layers * 30e-6 + decoder_recurring(s) * 40e-6;
}

const Ops CUDA_OPS = {
    .name = "cuda",
    .activation_bytes = sizeof(float),
    .chunk = 1024,
    .w8 = true,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .devices = cuda_devices,
    .memory = cuda_memory,
    .scratch_bytes = cuda_scratch_bytes,
    .weight_bytes = cuda_weight_bytes,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .write = cuda_write,
    .read = cuda_read,
    .read_floats = cuda_read_floats,
    .load_layer = cuda_load_layer,
    .load_head = cuda_load_head,
    .begin = cuda_begin,
    .embed = cuda_embed,
    .qkv = cuda_qkv,
    .narrow = cuda_narrow,
    .attend = cuda_attend,
    .out = cuda_out,
    .gate_up = cuda_gate_up,
    .down = cuda_down,
    .logits = cuda_logits,
    .cache_attention = cuda_cache_attention,
    .copy_slots = cuda_copy_slots,
    .shift_keys = cuda_shift_keys,
    .decode = cuda_decode,
    .sample = cuda_sample,
    .sample_begin = cuda_sample_begin,
    .sample_end = cuda_sample_end,
    .stamp = cuda_stamp,
    .stamp_seconds = cuda_stamp_seconds,
    .softmax_counts = cuda_softmax_counts,
    .kernels = cuda_kernels,
    .tuning = &CUDA_TUNING,
    .layer_weights = NULL,
    .visits = &CUDA_VISITS,
    .shards = &CUDA_SHARDS,
    .step_seconds = cuda_step_seconds,
    .narrow_from =
        2e10, // some 60 us of products: it takes an upload, and kernels that cannot overlap the last one
};

extern "C" __attribute__((visibility("default"))) const Ops *palaver_cuda_ops(int abi) {
    return abi == OPS_ABI ? &CUDA_OPS : NULL;
}
