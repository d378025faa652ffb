// NCCL of which one sum fails, for several cards without peer access: how a talk ends then. Which one, NCCL_AT says (counted
// over all cards, 0 is the first), and how, NCCL_FAILS: "error", it says so; "silent", the card takes no part, so that the others
// wait for it. NCCL_REAL: the library behind it, if it is not libnccl.so.2.
//
//   make build/nccl-failing.so; PALAVER_NO_PEER=1 PALAVER_NCCL=build/nccl-failing.so NCCL_FAILS=silent NCCL_AT=60 palaver …
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SYSTEM_ERROR = 2 }; // of ncclResult_t

static void *real(const char *name) {
    const char *path = getenv("NCCL_REAL");
    void *library = dlopen(path ? path : "libnccl.so.2", RTLD_NOW), // the same one every time
        *function = library ? dlsym(library, name) : NULL;
    if (function) return function;
    fprintf(stderr, "nccl-failing: %s\n", dlerror());
    exit(1);
}

// A function that goes on to the real one; `types` and `names` of its parameters in brackets.
#define PASSED_ON(result, name, types, names)                                                                \
    result name types;                                                                                       \
    result name types {                                                                                      \
        result(*function) types;                                                                             \
        void *found = real(#name);                                                                           \
        memcpy(&function, &found, sizeof found);                                                             \
        return function names;                                                                               \
    }

PASSED_ON(int, ncclGetVersion, (int *version), (version))
PASSED_ON(int, ncclCommInitAll, (void **all, int n, const int *devices), (all, n, devices))
PASSED_ON(int, ncclCommDestroy, (void *one), (one))
PASSED_ON(int, ncclCommAbort, (void *one), (one))
PASSED_ON(int, ncclCommGetAsyncError, (void *one, int *error), (one, error))
PASSED_ON(int, ncclGroupStart, (void), ())
PASSED_ON(int, ncclGroupEnd, (void), ())
PASSED_ON(const char *, ncclGetErrorString, (int error), (error))

int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *one, void *stream);
int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *one, void *stream) {
    static atomic_int sums;
    int (*function)(const void *, void *, size_t, int, int, void *, void *);
    const char *how = getenv("NCCL_FAILS"), *which = getenv("NCCL_AT");
    if (how && atomic_fetch_add(&sums, 1) == (which ? atoi(which) : 0)) {
        fprintf(stderr, "nccl-failing: this sum fails: %s\n", how);
        return strcmp(how, "silent") ? SYSTEM_ERROR : 0;
    }
    void *found = real("ncclAllReduce");
    memcpy(&function, &found, sizeof found);
    return function(from, to, n, type, op, one, stream);
}
