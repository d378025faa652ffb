// NVIDIA's collectives (NCCL), a library that may be there when palaver runs, and is asked for then: what of its interface
// is used, by its documentation. Results are 0 where all went well, or 7 where a call is still under way.
#ifndef PALAVER_KERNELS_CUDA_NCCL_LIBRARY_H
#define PALAVER_KERNELS_CUDA_NCCL_LIBRARY_H

#include "kernels/base/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_VARIABLE "PALAVER_NCCL"

enum { NCCL_FLOAT32 = 7, NCCL_SUM = 0, NCCL_IN_PROGRESS = 7 };
typedef struct ncclComm *NcclComm;

typedef struct NcclLibrary {
    int version; // 22803: 2.28.3
    int (*get_version)(int *version);
    int (*init_all)(NcclComm *comms, int n, const int *devices);
    int (*destroy)(NcclComm comm);
    int (*abort)(NcclComm comm);
    int (*async_error)(NcclComm comm, int *result);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *from, void *to, size_t n, int type, int op, NcclComm comm, void *stream);
    const char *(*words)(int result);
} NcclLibrary;

// Loads what `wish` (the environment's PALAVER_NCCL) names: NULL and "" are libnccl.so.2, "0" is none. It stays loaded.
// NVLink multicast is off from then on unless the environment's NCCL_NVLS_ENABLE is set. STATUS_UNSUPPORTED: there is
// none, it lacks a function, or is older than 2.10; the message is a few words, to stand in brackets.
Status nccl_library_load(const char *wish, NcclLibrary *library, Error *error);

#ifdef __cplusplus
}
#endif
#endif
