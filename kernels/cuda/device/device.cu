// Opening a device, and what its errors mean.
#include "kernels/cuda/device/device.cuh"
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

// ---- which device -----------------------------------------------------------------------------------------

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

Status cuda_devices(char *text, size_t size, Error *error) {
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

static Status read_properties(CudaDevice *device, Error *error) {
    cudaDeviceProp properties;
    Status status =
        cuda_check(cudaGetDeviceProperties(&properties, device->index), error, "device %d", device->index);
    if (status) return status;
    device->card.n_sms = properties.multiProcessorCount;
    device->card.compute = properties.major * 10 + properties.minor;
    device->card.shared_limit = properties.sharedMemPerBlockOptin;
    memcpy(device->name, properties.name, sizeof device->name);
    if (device->card.compute < 80)
        return error_set(error, STATUS_DEVICE, "%s has compute capability %d.%d; palaver needs 8.0",
                         properties.name, properties.major, properties.minor);
    return STATUS_OK;
}

// ---- which code ---------------------------------------------------------------------------------------------

__global__ void probe_kernel(int *is_90a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    *is_90a = 1;
#else
    *is_90a = 0;
#endif
}

// Tries whether there is code for the card, and which: Hopper's kernels are empty but for sm_90a.
static Status probe_code(CudaDevice *device, Error *error) {
    int *there = NULL, is_90a = 0, compute = device->card.compute;
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
        code = cudaMemcpyAsync(&is_90a, there, sizeof is_90a, cudaMemcpyDeviceToHost, device->stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(device->stream);
    cudaFree(there);
    device->portable = compute == 90 && !is_90a;
    if (device->portable) device->card.compute = 80;
    return status ? status : cuda_check(code, error, "a first kernel");
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
    Status status = parse_device(options->device, &device->index, error);
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
    size_t available = 0, total = 0;
    if (code == cudaSuccess) code = cudaMemGetInfo(&available, &total);
    facts->available = (int64_t)available;
    return cuda_check(code, error, "versions");
}

void device_close(CudaDevice *device) {
    if (device->inv_freq) cudaFree(device->inv_freq);
    if (device->stream) cudaStreamDestroy(device->stream);
}
