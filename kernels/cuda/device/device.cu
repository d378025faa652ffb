// Opening a device, and what its errors mean.
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/devices.h"
#include "kernels/shards/shard_ops.h"
#include "kernels/tuning.h"

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
    if (code == cudaErrorMemoryAllocation)
        return error_set(
            error, STATUS_MEMORY,
            "cuda: %s: the card's memory is full; close other programs that use it (nvidia-smi lists "
            "them), or take a smaller --context",
            what);
    if (code == cudaErrorDevicesUnavailable) // which opening it says, before anything could be lost
        return error_set(
            error, STATUS_DEVICE,
            "cuda: %s: the card is busy: another program has it for itself (nvidia-smi names it); "
            "close it, or take another card or --device cpu",
            what);
    return error_set(error, is_fatal(code) ? STATUS_FATAL : STATUS_DEVICE, "cuda: %s: %s (%s)", what,
                     cudaGetErrorString(code), cudaGetErrorName(code));
}

// ---- which device -----------------------------------------------------------------------------------------

static_assert(DEVICES_STUB_LIBRARY == (int)cudaErrorStubLibrary &&
                  DEVICES_INSUFFICIENT_DRIVER == (int)cudaErrorInsufficientDriver &&
                  DEVICES_NO_DEVICE == (int)cudaErrorNoDevice &&
                  DEVICES_NOT_READY == (int)cudaErrorSystemNotReady &&
                  DEVICES_DRIVER_MISMATCH == (int)cudaErrorSystemDriverMismatch,
              "CUDA's error codes");

// How many cards there are; none is an error.
static Status count_devices(bool fully, int *count, Error *error) {
    DevicesFound found = {};
    cudaError_t code = cudaGetDeviceCount(&found.n);
    cudaGetLastError();
    found.code = code;
    found.trouble = cudaGetErrorString(code);
    if (cudaDriverGetVersion(&found.driver) != cudaSuccess) found.driver = 0;
    if (cudaRuntimeGetVersion(&found.runtime) != cudaSuccess) found.runtime = CUDART_VERSION;
    found.on_bus = devices_on_bus("");
    found.let_seen = getenv("CUDA_VISIBLE_DEVICES");
    *count = found.n < DEVICES_MOST ? found.n : DEVICES_MOST;
    return devices_check(&found, fully, error);
}

// All of them: one after the other, as CUDA counts them.
static Status read_devices(bool fully, DeviceFacts cards[DEVICES_MOST], int *count, Error *error) {
    Status status = count_devices(fully, count, error);
    for (int i = 0; !status && i < *count; i++) {
        cudaDeviceProp p;
        status = cuda_check(cudaGetDeviceProperties(&p, i), error, "device %d", i);
        if (status) break;
        memcpy(cards[i].name, p.name, sizeof cards[i].name);
        cards[i].compute = p.major * 10 + p.minor;
        cards[i].bytes = (int64_t)p.totalGlobalMem;
    }
    return status;
}

Status cuda_devices(char *text, size_t size, Error *error) {
    DeviceFacts cards[DEVICES_MOST];
    int count;
    Status status = read_devices(true, cards, &count, error);
    if (!status) devices_list(cards, count, text, size);
    return status;
}

// "cuda" or "cuda:N".
static Status choose_device(const char *text, int *device, Error *error) {
    DeviceFacts cards[DEVICES_MOST];
    int count;
    Status status = read_devices(false, cards, &count, error);
    return status ? status : devices_choose(text, cards, count, device, error);
}

Status devices_several(const char *text, int *indexes, int *n, Error *error) {
    DeviceFacts cards[DEVICES_MOST];
    int count;
    *n = 0;
    Status status = read_devices(false, cards, &count, error);
    return status ? status : devices_choose_several(text, cards, count, SHARDS_MOST, indexes, n, error);
}

static Status read_properties(CudaDevice *device, Error *error) {
    cudaDeviceProp properties;
    Status status =
        cuda_check(cudaGetDeviceProperties(&properties, device->index), error, "device %d", device->index);
    if (status) return status;
    device->card.n_sms = properties.multiProcessorCount;
    device->card.compute = properties.major * 10 + properties.minor;
    device->card.shared_limit = properties.sharedMemPerBlockOptin;
    memcpy(device->name, properties.name, sizeof device->name);
    size_t total, available;
    status = cuda_check(cudaMemGetInfo(&available, &total), error, "the memory of device %d", device->index);
    device->available = (int64_t)available;
    return status ? status : limits_read(getenv(LIMITS_VARIABLE), &device->limits, error);
}

// ---- memory -------------------------------------------------------------------------------------------------

void device_memory(const CudaDevice *device, int64_t *total, int64_t *available) {
    size_t there = 0, unused = 0;
    if (cudaMemGetInfo(&unused, &there) != cudaSuccess) cudaGetLastError();
    *total = (int64_t)there, *available = (int64_t)unused;
    if (device->limits.memory == 0 || device->limits.memory > *total) return;
    const int64_t left = device->limits.memory - (device->available - *available);
    *total = device->limits.memory;
    if (*available > left) *available = left > 0 ? left : 0;
}

cudaError_t device_allocate(const CudaDevice *device, void **memory, size_t bytes) {
    int64_t total, available;
    if (device->limits.memory) {
        device_memory(device, &total, &available);
        // A device that has failed tells nothing of its memory, 0 in all: cudaMalloc() says why.
        if (total > 0 && (int64_t)bytes > available) return cudaErrorMemoryAllocation;
    }
    return cudaMalloc(memory, bytes);
}

// ---- which code ---------------------------------------------------------------------------------------------

struct Code {
    int architecture; // that the code was made for
    bool is_90a;
};

__global__ void probe_kernel(Code *code) {
#ifdef __CUDA_ARCH__
    code->architecture = __CUDA_ARCH__;
#endif
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    code->is_90a = true;
#else
    code->is_90a = false;
#endif
}

// Tries whether there is code for the card, and which. Hopper's kernels are empty but for sm_90a: other code for 9.0
// counts as code for 8.0.
static Status probe_code(CudaDevice *device, Error *error) {
    int compute = device->card.compute;
    Code *there = NULL, found = {};
    Status status = cuda_check(cudaMalloc(&there, sizeof *there), error, "a first kernel");
    if (status) return status;
    probe_kernel<<<1, 1, 0, device->stream>>>(there);
    cudaError_t code = cudaGetLastError();
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorUnsupportedPtxVersion)
        status = error_set(
            error, STATUS_DEVICE,
            "%s has compute capability %d.%d, for which libpalaver-cuda.so has no code: build it with "
            "CUDA_ARCH='-gencode arch=compute_%d,code=sm_%d'",
            device->name, compute / 10, compute % 10, compute, compute);
    if (code == cudaSuccess)
        code = cudaMemcpyAsync(&found, there, sizeof found, cudaMemcpyDeviceToHost, device->stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(device->stream);
    cudaFree(there);
    if (!status) status = cuda_check(code, error, "a first kernel");
    if (status) return status;
    device->code = found.architecture;
    device->portable = compute == 90 && !found.is_90a;
    device->card.compute = found.architecture / 10 == 90 && !found.is_90a ? 80 : found.architecture / 10;
    return limits_apply(&device->limits, &device->card, error);
}

// ---- open, close ---------------------------------------------------------------------------------------------

static Status upload_frequencies(CudaDevice *device, const Rope *rope, Error *error) {
    size_t bytes =
        (size_t)rope_tables(rope) * (size_t)rope_sets(rope) * (size_t)(rope->rotary_dim / 2) * sizeof(double);
    if (bytes == 0) return STATUS_OK;
    cudaError_t code = cudaMalloc(&device->inv_freq, bytes);
    if (code == cudaSuccess)
        code = cudaMemcpy(device->inv_freq, rope->inv_freq, bytes, cudaMemcpyHostToDevice);
    return cuda_check(code, error, "writing frequencies");
}

Status device_choose(CudaDevice *device, const BackendOptions *options, Error *error) {
    Status status = choose_device(options->device, &device->index, error);
    if (!status)
        status = cuda_check(cudaSetDevice(device->index), error, "choosing device %d", device->index);
    return status ? status : read_properties(device, error);
}

Status device_open(CudaDevice *device, const DecoderShape *shape, Error *error) {
    Status status =
        cuda_check(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking), error, "a stream");
    if (!status) status = upload_frequencies(device, &shape->rope, error);
    return status ? status : probe_code(device, error);
}

Status device_card(const char *name, CardFacts *facts, Error *error) {
    CudaDevice device = {};
    BackendOptions options = {};
    options.device = name;
    Status status = device_choose(&device, &options, error);
    if (!status) status = probe_code(&device, error);
    if (status) return status;
    *facts = CardFacts{};
    memcpy(facts->name, device.name, sizeof facts->name);
    facts->compute = device.card.compute;
    cudaError_t code = cudaDriverGetVersion(&facts->driver);
    if (code == cudaSuccess) code = cudaRuntimeGetVersion(&facts->runtime);
    int64_t total;
    device_memory(&device, &total, &facts->available);
    return cuda_check(code, error, "versions");
}

void device_close(CudaDevice *device) {
    if (device->inv_freq) cudaFree(device->inv_freq);
    if (device->stream) cudaStreamDestroy(device->stream);
}
