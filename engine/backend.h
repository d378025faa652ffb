// Which backend computes: the CUDA plug-in where it is there and works, else the CPU.
#ifndef PALAVER_ENGINE_BACKEND_H
#define PALAVER_ENGINE_BACKEND_H

#include "kernels/ops.h"

// The ops of the CUDA plug-in, libpalaver-cuda.so beside the program or in ../lib/palaver, loaded once. STATUS_DEVICE
// says why there are none: no plug-in, one that cannot be loaded, one of another build.
Status backend_cuda_ops(const Ops **ops, Error *error);

// Whether there is a GPU, be it of use or not: on the bus, or known to its driver (`cuda` NULL: that cannot be asked).
bool backend_sees_gpu(const Ops *cuda);

// What a device name asks for.
typedef enum DeviceKind { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA } DeviceKind;

// "auto", "cpu" and "cuda" with anything after a colon; else STATUS_USAGE.
Status backend_device_kind(const char *device, DeviceKind *kind, Error *error);

// Whether it names several cards, or all that there are: "cuda:0,1", "cuda:all".
bool backend_names_several(const char *device);

// Opens what a device's name asks for: one, or several as one.
Status backend_open(const Ops *ops, const BackendOptions *options, Backend **backend, Error *error);

// Whether a layer's matrices are used where the mapped files have them: the CPU's. Of any of a backend's layers, and
// whether those of others are uploaded.
bool backend_maps(const Backend *backend, int layer);
bool backend_maps_any(const Backend *backend);
bool backend_uploads(const Backend *backend);

#endif
