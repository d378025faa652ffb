// The backend itself: opening a device, its memory, and the table of ops.
#include "kernels/cuda/backend.cuh"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Errors after which every later call fails: the device has to be given up.
static bool is_fatal(cudaError_t code) {
    switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorDevicesUnavailable:
        return true;
    default:
        return false;
    }
}

Status cuda_check(cudaError_t code, Error *error, const char *format, ...) {
    if (code == cudaSuccess) return STATUS_OK;
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    cudaGetLastError(); // one that is not sticky is told once
    Status status = is_fatal(code)                      ? STATUS_FATAL
                    : code == cudaErrorMemoryAllocation ? STATUS_MEMORY
                                                        : STATUS_DEVICE;
    return error_set(error, status, "cuda: %s: %s (%s)", what, cudaGetErrorString(code),
                     cudaGetErrorName(code));
}

// ---- scratch -----------------------------------------------------------------------------------------------

enum { EXPANDED_BYTES = 128 << 20 }; // of weights that are multiplied as expanded blocks of rows

// Lays the scratch out for operands of four bytes, the most there may be, and returns its bytes; if base is not
// NULL, points the members into it.
static size_t layout(CudaBackend *cuda, const BackendOptions *options, char *base) {
    const DecoderShape *s = options->shape;
    size_t tokens = (size_t)options->max_tokens, used = 0;
    size_t rows = tokens > (size_t)options->max_logits ? tokens : (size_t)options->max_logits;
    size_t qkv = (size_t)(s->n_heads + 2 * s->n_kv_heads) * s->head_dim,
           gate_up = 2 * (size_t)s->intermediate_size, queries = 2 * (size_t)s->n_heads * s->head_dim;
    size_t wide_row = qkv > gate_up ? qkv : gate_up;
    if (queries > wide_row) wide_row = queries;
    auto take = [&](size_t bytes) {
        size_t at = used;
        used += (bytes + 255) / 256 * 256;
        return base ? base + at : NULL;
    };
    size_t row = (size_t)(s->hidden_size > s->intermediate_size ? s->hidden_size : s->intermediate_size) * 4;
    size_t expanded = row > EXPANDED_BYTES ? row : EXPANDED_BYTES;
    char *rope = take(tokens * (size_t)(s->rope.rotary_dim / 2) * sizeof(float2));
    char *inv_freq = take((size_t)cuda_rope_sets(s) * (size_t)(s->rope.rotary_dim / 2) * sizeof(double));
    char *normed = take(rows * (size_t)s->hidden_size * 4);
    char *wide = take(tokens * wide_row * 4);
    char *weights = take(expanded);
    char *logit_rows = take((size_t)options->max_logits * sizeof(int32_t));
    if (base) {
        cuda->rope = (float2 *)rope;
        cuda->inv_freq = (double *)inv_freq;
        cuda->normed = normed;
        cuda->wide = wide;
        cuda->weights = weights;
        cuda->weights_bytes = expanded;
        cuda->rows = (int32_t *)logit_rows;
    }
    return used;
}

static int64_t cuda_scratch_bytes(const Backend *backend, int n_rows, int window) {
    const CudaBackend *cuda = (const CudaBackend *)backend;
    return cuda->opened_bytes + (int64_t)(decoder_bytes(cuda) + decode_graphs_bytes(cuda) +
                                          cuda_step_bytes(cuda, n_rows, window) + cuda_sample_bytes(n_rows));
}

Status cuda_room(CudaBackend *cuda, Room *room, size_t bytes, bool pinned, const char *name, Error *error) {
    if (bytes <= room->bytes) return STATUS_OK;
    bytes = cuda_room_bytes(bytes);
    char *memory = NULL;
    cudaError_t code = cudaStreamSynchronize(cuda->stream);
    if (code == cudaSuccess) code = pinned ? cudaMallocHost(&memory, bytes) : cudaMalloc(&memory, bytes);
    if (code == cudaSuccess && !pinned) code = cudaMemsetAsync(memory, 0, bytes, cuda->stream);
    Status status = cuda_check(code, error, "%zu bytes for %s", bytes, name);
    if (status) {
        if (memory) cudaFree(memory);
        return status;
    }
    if (room->memory) pinned ? cudaFreeHost(room->memory) : cudaFree(room->memory);
    *room = Room{memory, bytes};
    return STATUS_OK;
}

// ---- open, close ---------------------------------------------------------------------------------------------

static void cuda_close(Backend *backend) {
    CudaBackend *cuda = cuda_backend(backend);
    if (!cuda) return;
    cudaSetDevice(cuda->device);
    if (cuda->stream) cudaStreamSynchronize(cuda->stream);
    cuda_free_weights(cuda);
    cuda_free_stamps(cuda);
    gemm_close(cuda->gemm);
    decoder_close(cuda->decoder);
    decode_graphs_close(cuda->graphs);
    cuda_sample_close(cuda->sampler);
    if (cuda->scratch) cudaFree(cuda->scratch);
    if (cuda->step.memory) cudaFree(cuda->step.memory);
    if (cuda->staging.memory) cudaFreeHost(cuda->staging.memory);
    if (cuda->flat.memory) cudaFree(cuda->flat.memory);
    if (cuda->parts.memory) cudaFree(cuda->parts.memory);
    if (cuda->arrived.memory) cudaFree(cuda->arrived.memory);
    if (cuda->staged) cudaEventDestroy(cuda->staged);
    if (cuda->stream) cudaStreamDestroy(cuda->stream);
    free(cuda);
}

static Status count_devices(int *count, Error *error) {
    *count = 0;
    cudaError_t code = cudaGetDeviceCount(count);
    if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice || *count == 0) {
        cudaGetLastError();
        return error_set(error, STATUS_DEVICE,
                         code == cudaErrorInsufficientDriver ? "no NVIDIA driver, or one too old for CUDA 13"
                                                             : "no NVIDIA GPU");
    }
    return cuda_check(code, error, "counting devices");
}

static Status cuda_devices(char *text, size_t size, Error *error) {
    int count;
    Status status = count_devices(&count, error);
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < count && !status && used < size; i++) {
        cudaDeviceProp p;
        status = cuda_check(cudaGetDeviceProperties(&p, i), error, "device %d", i);
        if (!status)
            used += (size_t)snprintf(text + used, size - used, "%s%s, %.0f GB", i ? "; " : "", p.name,
                                     (double)p.totalGlobalMem / 1e9);
    }
    return status;
}

// "cuda" or "cuda:N" or "auto": the first device.
static Status parse_device(const char *text, int *device, Error *error) {
    int count;
    Status status = count_devices(&count, error);
    if (status) return status;
    *device = 0;
    if (!strncmp(text, "cuda:", 5)) {
        char *end;
        long n = strtol(text + 5, &end, 10);
        if (end == text + 5 || *end || n < 0 || n >= count)
            return error_set(error, STATUS_USAGE, "device \"%s\": there %s %d, cuda:0%s", text,
                             count == 1 ? "is" : "are", count, count == 1 ? "" : " and on");
        *device = (int)n;
    }
    return STATUS_OK;
}

static Status read_properties(CudaBackend *cuda, Error *error) {
    cudaDeviceProp properties;
    Status status =
        cuda_check(cudaGetDeviceProperties(&properties, cuda->device), error, "device %d", cuda->device);
    if (status) return status;
    cuda->n_sms = properties.multiProcessorCount;
    cuda->compute = properties.major * 10 + properties.minor;
    cuda->shared_limit = properties.sharedMemPerBlockOptin;
    memcpy(cuda->device_name, properties.name, sizeof cuda->device_name);
    if (cuda->compute < 80)
        return error_set(error, STATUS_DEVICE, "%s has compute capability %d.%d; palaver needs 8.0",
                         properties.name, properties.major, properties.minor);
    return STATUS_OK;
}

__global__ void probe_kernel(int *is_90a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    *is_90a = 1;
#else
    *is_90a = 0;
#endif
}

// Tries whether there is code for the card, and which: Hopper's kernels are empty but for sm_90a.
static Status probe_code(CudaBackend *cuda, Error *error) {
    int *there = (int *)cuda->scratch, is_90a = 0;
    probe_kernel<<<1, 1, 0, cuda->stream>>>(there);
    cudaError_t code = cudaGetLastError();
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorUnsupportedPtxVersion)
        return error_set(
            error, STATUS_DEVICE,
            "%s has compute capability %d.%d, for which libpalaver-cuda.so has no code: build it with "
            "CUDA_ARCH='-gencode arch=compute_%d,code=sm_%d'",
            cuda->device_name, cuda->compute / 10, cuda->compute % 10, cuda->compute, cuda->compute);
    if (code == cudaSuccess)
        code = cudaMemcpyAsync(&is_90a, there, sizeof is_90a, cudaMemcpyDeviceToHost, cuda->stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(cuda->stream);
    cuda->portable = cuda->compute == 90 && !is_90a;
    if (cuda->portable) cuda->compute = 80;
    return cuda_check(code, error, "a first kernel");
}

static void cuda_memory(const Backend *backend, int64_t *total, int64_t *available) {
    size_t there = 0, unused = 0;
    if (cudaMemGetInfo(&unused, &there) != cudaSuccess) cudaGetLastError();
    *total = (int64_t)there;
    *available = (int64_t)unused + ((const CudaBackend *)backend)->opened_bytes;
}

static Status open_device(CudaBackend *cuda, const BackendOptions *options, Error *error) {
    Status status = parse_device(options->device, &cuda->device, error);
    if (!status) status = cuda_check(cudaSetDevice(cuda->device), error, "choosing device %d", cuda->device);
    if (!status) status = read_properties(cuda, error);
    int64_t total, before, after;
    cuda_memory(&cuda->base, &total, &before);
    if (!status)
        status =
            cuda_check(cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), error, "a stream");
    if (!status)
        status =
            cuda_check(cudaEventCreateWithFlags(&cuda->staged, cudaEventDisableTiming), error, "an event");
    if (status) return status;

    size_t bytes = layout(cuda, options, NULL);
    status = cuda_check(cudaMalloc(&cuda->scratch, bytes), error,
                        "%zu bytes of scratch for steps of %d tokens", bytes, options->max_tokens);
    if (status) return status;
    layout(cuda, options, cuda->scratch);
    if (CHECKED) cudaMemset(cuda->scratch, 0xff, bytes);
    const Rope *rope = &options->shape->rope;
    if (!status && rope->rotary_dim > 0)
        status = cuda_check(cudaMemcpy(cuda->inv_freq, rope->inv_freq,
                                       (size_t)cuda_rope_sets(options->shape) *
                                           (size_t)(rope->rotary_dim / 2) * sizeof(double),
                                       cudaMemcpyHostToDevice),
                            error, "writing frequencies");
    if (!status) status = probe_code(cuda, error);
    if (!status) status = gemm_open(cuda, error);
    cuda_memory(&cuda->base, &total, &after);
    cuda->opened_bytes = before - after;
    return status;
}

extern const Ops CUDA_OPS; // the table below

static Status cuda_open(const BackendOptions *options, Backend **backend, Error *error) {
    *backend = NULL;
    const DecoderShape *s = options->shape;
    if (options->max_tokens < 1 || options->max_logits < 1 || s->n_kv_heads < 1 ||
        s->n_heads % s->n_kv_heads || s->head_dim % 2 || s->hidden_size % 8 || s->intermediate_size % 8)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "cuda: hidden size %d, %d heads of %d over %d, intermediate size %d: sizes must be multiples "
            "of 8, heads a multiple of KV heads",
            s->hidden_size, s->n_heads, s->head_dim, s->n_kv_heads, s->intermediate_size);
    CudaBackend *cuda = (CudaBackend *)calloc(1, sizeof *cuda);
    if (!cuda) return error_set(error, STATUS_MEMORY, "no memory for a backend");
    cuda->base.ops = &CUDA_OPS;
    cuda->shape = s;
    cuda->max_tokens = options->max_tokens;
    cuda->max_logits = options->max_logits;
    cuda->random_weights = options->random_weights;
    Status status = open_device(cuda, options, error);
    if (status)
        cuda_close(&cuda->base);
    else
        *backend = &cuda->base;
    return status;
}

static void cuda_describe(const Backend *backend, char *text, size_t size) {
    const CudaBackend *cuda = (const CudaBackend *)backend;
    snprintf(text, size, "%s (cuda:%d, %d SMs%s)", cuda->device_name, cuda->device, cuda->n_sms,
             cuda->portable ? ", built without code for sm_90a: slow" : "");
}

// ---- memory --------------------------------------------------------------------------------------------------

static Status cuda_alloc(Backend *backend, size_t bytes, void **memory, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    *memory = NULL;
    Status status = cuda_check(cudaMalloc(memory, bytes ? bytes : 1), error, "allocating %zu bytes", bytes);
    if (status) return status;
    return cuda_check(cudaMemsetAsync(*memory, 0, bytes, cuda->stream), error, "clearing %zu bytes", bytes);
}

static void cuda_free(Backend *backend, void *memory) {
    cudaStreamSynchronize(cuda_backend(backend)->stream);
    cudaFree(memory);
}

static Status cuda_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    cudaError_t code = cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, cuda->stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(cuda->stream); // `host` is the caller's again
    return cuda_check(code, error, "writing %zu bytes", bytes);
}

static Status cuda_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    cudaError_t code = cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, cuda->stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(cuda->stream);
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

const Ops CUDA_OPS = {
    .name = "cuda",
    .activation_bytes = sizeof(float),
    .chunk = 1024,
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
    .stamp = cuda_stamp,
    .stamp_seconds = cuda_stamp_seconds,
};

extern "C" __attribute__((visibility("default"))) const Ops *palaver_cuda_ops(int abi) {
    return abi == OPS_ABI ? &CUDA_OPS : NULL;
}
