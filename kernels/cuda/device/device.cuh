// The device: what is settled when it is opened, and does not change until it is closed.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_DEVICE_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_DEVICE_CUH

#include "kernels/base/status.h"
#include "kernels/cuda/limits.h"

#include <cuda_runtime.h>

// A checked build (make SANITIZE_GPU=1 test-gpu) is for compute-sanitizer, which takes sound things for faults: see
// tests/gpu/sanitizer_probe.cu. Lanes that one would speak for arrive each, warps wait where they would only tell that
// they have come, lanes that fill rings do it one after the other, and scratch that cuBLAS writes begins as NaN.
#ifdef PALAVER_CHECKED
constexpr bool CHECKED = true;
#else
constexpr bool CHECKED = false;
#endif

struct CudaDevice {
    int index; // of CUDA's devices
    Card card;
    int code;            // architecture that the kernels at work were made for, as __CUDA_ARCH__
    bool portable;       // it is a Hopper, and the plug-in was built without code for sm_90a
    CardLimits limits;   // of PALAVER_CUDA_LIMITS; `card` has them
    int64_t available;   // bytes of its memory when it was chosen
    char name[256];      // as long as CUDA's own
    cudaStream_t stream; // all work goes here
    double *inv_freq;    // [n_tables, n_sets, rotary_dim/2] on the device; NULL: no rotary embedding
};

// SoftmaxCounts, on the device.
struct DeviceCounts {
    unsigned long long parts, again;
};

// OK if `code` is success; else fills the error with the formatted what and CUDA's own reason. Out of memory is
// STATUS_MEMORY, a fault after which the device is lost STATUS_FATAL, the rest STATUS_DEVICE.
Status cuda_check(cudaError_t code, Error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The same for the launch just made.
#define CUDA_LAUNCHED(error, ...) cuda_check(cudaGetLastError(), error, __VA_ARGS__)

// Finds the device that options->device names, and makes it the thread's.
Status device_choose(CudaDevice *device, const BackendOptions *options, Error *error);
// The devices that "cuda:0,2" or "cuda:all" names: indexes [*n], at most 16.
Status devices_several(const char *text, int *indexes, int *n, Error *error);
// Opens it: a stream, the frequencies of the shape's rotary embedding, a first kernel. What of it was opened is closed
// by device_close(), also after an error.
Status device_open(CudaDevice *device, const DecoderShape *shape, Error *error);
void device_close(CudaDevice *device);
// cudaMalloc() and cudaMemGetInfo() within the limits.
cudaError_t device_allocate(const CudaDevice *device, void **memory, size_t bytes);
template <class T> cudaError_t device_allocate(const CudaDevice *device, T **memory, size_t bytes) {
    return device_allocate(device, (void **)memory, bytes);
}
void device_memory(const CudaDevice *device, int64_t *total, int64_t *available);
// What a table of measured kernels is kept for: TuningOps.card.
Status device_card(const char *name, struct CardFacts *facts, Error *error);
// One line about every device: Ops.devices.
Status cuda_devices(char *text, size_t size, Error *error);

#endif
