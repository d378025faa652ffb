#include "kernels/cuda/nccl_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 21000 }; // whose sums a graph may hold, in a process with a thread for each card

// The end of a path tells more than its beginning.
static const char *end_of(const char *path) {
    enum { SHOWN = 40 };
    const size_t n = strlen(path);
    return n > SHOWN ? path + n - SHOWN : path;
}

static bool find_all(void *library, NcclLibrary *l, const char **missing) {
    const struct {
        const char *name;
        void *function; // where its address goes
    } ALL[] = {{"ncclGetVersion", &l->get_version},
               {"ncclCommInitAll", &l->init_all},
               {"ncclCommDestroy", &l->destroy},
               {"ncclCommAbort", &l->abort},
               {"ncclCommGetAsyncError", &l->async_error},
               {"ncclGroupStart", &l->group_start},
               {"ncclGroupEnd", &l->group_end},
               {"ncclAllReduce", &l->all_reduce},
               {"ncclGetErrorString", &l->words}};
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
        void *symbol = dlsym(library, ALL[i].name);
        memcpy(ALL[i].function, &symbol, sizeof symbol);
        *missing = ALL[i].name;
        if (!symbol) return false;
    }
    return true;
}

Status nccl_library_load(const char *wish, NcclLibrary *l, Error *error) {
    const char *name = wish && *wish ? wish : "libnccl.so.2", *missing;
    *l = (NcclLibrary){0};
    if (!strcmp(name, "0")) return error_set(error, STATUS_UNSUPPORTED, NCCL_VARIABLE "=0");
    setenv("NCCL_NVLS_ENABLE", "0", 0); // read when cards are first connected
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(error, STATUS_UNSUPPORTED,
                         "no NCCL: %s cannot be loaded; " NCCL_VARIABLE " names one", end_of(name));
    if (!find_all(library, l, &missing))
        return error_set(error, STATUS_UNSUPPORTED, "no NCCL: %s has no %s", end_of(name), missing);
    if (l->get_version(&l->version))
        return error_set(error, STATUS_UNSUPPORTED, "no NCCL: %s does not tell its version", end_of(name));
    if (l->version >= OLDEST) return STATUS_OK;
    const int v = l->version, major = v < 10000 ? v / 1000 : v / 10000, // until 2.8 two digits less
        minor = v < 10000 ? v / 100 % 10 : v / 100 % 100;
    return error_set(error, STATUS_UNSUPPORTED, "no NCCL: %s is %d.%d, not 2.10 or later", end_of(name),
                     major, minor);
}
