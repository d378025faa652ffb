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

// A function that goes on to the real one, of this type.
#define REAL(type, name)                                                                                     \
    void *found = real(name);                                                                                \
    type function;                                                                                           \
    memcpy(&function, &found, sizeof found)

typedef int OfVersion(int *);
int ncclGetVersion(int *version);
int ncclGetVersion(int *version) {
    REAL(OfVersion *, "ncclGetVersion");
    return function(version);
}

typedef int OfAll(void **, int, const int *);
int ncclCommInitAll(void **all, int n, const int *devices);
int ncclCommInitAll(void **all, int n, const int *devices) {
    REAL(OfAll *, "ncclCommInitAll");
    return function(all, n, devices);
}

typedef int OfOne(void *);
int ncclCommDestroy(void *one);
int ncclCommDestroy(void *one) {
    REAL(OfOne *, "ncclCommDestroy");
    return function(one);
}
int ncclCommAbort(void *one);
int ncclCommAbort(void *one) {
    REAL(OfOne *, "ncclCommAbort");
    return function(one);
}

typedef int OfError(void *, int *);
int ncclCommGetAsyncError(void *one, int *error);
int ncclCommGetAsyncError(void *one, int *error) {
    REAL(OfError *, "ncclCommGetAsyncError");
    return function(one, error);
}

typedef int OfNone(void);
int ncclGroupStart(void);
int ncclGroupStart(void) {
    REAL(OfNone *, "ncclGroupStart");
    return function();
}
int ncclGroupEnd(void);
int ncclGroupEnd(void) {
    REAL(OfNone *, "ncclGroupEnd");
    return function();
}

typedef const char *OfWords(int);
const char *ncclGetErrorString(int error);
const char *ncclGetErrorString(int error) {
    REAL(OfWords *, "ncclGetErrorString");
    return function(error);
}

typedef int OfSum(const void *, void *, size_t, int, int, void *, void *);
int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *one, void *stream);
int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *one, void *stream) {
    static atomic_int sums;
    const char *how = getenv("NCCL_FAILS"), *which = getenv("NCCL_AT");
    if (how && atomic_fetch_add(&sums, 1) == (which ? atoi(which) : 0)) {
        fprintf(stderr, "nccl-failing: this sum fails: %s\n", how);
        return strcmp(how, "silent") ? SYSTEM_ERROR : 0;
    }
    REAL(OfSum *, "ncclAllReduce");
    return function(from, to, n, type, op, one, stream);
}
