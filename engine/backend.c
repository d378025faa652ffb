#include "engine/backend.h"

#include "kernels/cuda/devices.h"
#include "kernels/hosts/hosts.h"
#include "kernels/shards/shards.h"
#include "kernels/split/split.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char PLUGIN[] = "libpalaver-cuda.so";

static bool names(const char *device, const char *kind) {
    size_t n = strlen(kind);
    return !strncmp(device, kind, n) && (device[n] == 0 || device[n] == ':');
}

Status backend_device_kind(const char *device, DeviceKind *kind, Error *error) {
    if (!strcmp(device, "auto"))
        *kind = DEVICE_AUTO;
    else if (names(device, "cpu"))
        *kind = DEVICE_CPU;
    else if (names(device, "cuda"))
        *kind = DEVICE_CUDA;
    else
        return error_set(error, STATUS_USAGE, "device \"%s\": expected auto, cpu, cuda, cuda:N or several",
                         device);
    return STATUS_OK;
}

bool backend_names_several(const char *device) {
    return names(device, "cuda") && (strchr(device, ',') || !strcmp(device, "cuda:all"));
}

// The plug-in's path: `folder` is relative to the program's own. False if there is no such file.
static bool find_plugin(const char *folder, char path[PATH_MAX]) {
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return false;
    program[n] = 0;
    char *slash = strrchr(program, '/');
    if (!slash) return false;
    *slash = 0;
    int length = snprintf(path, PATH_MAX, "%s/%s%s", program, folder, PLUGIN);
    return length > 0 && length < PATH_MAX && !access(path, R_OK);
}

Status backend_cuda_ops(const Ops **ops, Error *error) {
    char path[PATH_MAX];
    *ops = NULL;
    if (!find_plugin("", path) && !find_plugin("../lib/palaver/", path))
        return error_set(error, STATUS_DEVICE, "no CUDA plug-in beside palaver%s",
                         devices_on_bus("") ? " for the GPU that is there: make builds it where nvcc is"
                                            : "");
    // Never closed: the driver keeps threads of its own until the program ends.
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return error_set(error, STATUS_DEVICE, "the CUDA plug-in cannot be loaded: %s", dlerror());
    OpsPlugin plugin = NULL;
    *(void **)&plugin = dlsym(library, "palaver_cuda_ops");
    if (plugin) *ops = plugin(OPS_ABI);
    if (!*ops)
        return error_set(error, STATUS_DEVICE, "%s is of another build than palaver: make all builds both",
                         path);
    return STATUS_OK;
}

bool backend_sees_gpu(const Ops *cuda) {
    char names[400];
    Error none;
    return devices_on_bus("") || (cuda && !cuda->devices(names, sizeof names, &none));
}

Status backend_open(const Ops *ops, const BackendOptions *options, Backend **backend, Error *error) {
    return backend_names_several(options->device) ? shards_open(ops, options, backend, error)
                                                  : ops->open(options, backend, error);
}

// Whether a side of a backend of two, or the one that there is, is the CPU.
static bool side_maps(const Backend *backend, int side) {
    if (hosts_own(backend)) backend = hosts_own(backend);
    const Backend *own = split_side(backend, side);
    return (own ? own : backend)->ops == ops_cpu();
}

bool backend_maps(const Backend *backend, int layer) {
    const bool second = split_side(backend, SPLIT_SECOND) && layer >= split_border(backend);
    return side_maps(backend, second ? SPLIT_SECOND : SPLIT_FIRST);
}

bool backend_maps_any(const Backend *backend) {
    return side_maps(backend, SPLIT_FIRST) || side_maps(backend, SPLIT_SECOND);
}

bool backend_uploads(const Backend *backend) {
    return !side_maps(backend, SPLIT_FIRST) || !side_maps(backend, SPLIT_SECOND);
}
