// A library that has NCCL's functions, some of them or of another version, as -D says; nothing of it adds anything up.
#define STUB(name)                                                                                           \
    int name(void);                                                                                          \
    int name(void) {                                                                                         \
        return 0;                                                                                            \
    }

int ncclGetVersion(int *version);
int ncclGetVersion(int *version) {
    *version = STUB_VERSION;
    return STUB_VERSION == 0;
}

STUB(ncclCommInitAll)
STUB(ncclCommDestroy)
STUB(ncclCommAbort)
STUB(ncclGroupStart)
STUB(ncclGroupEnd)
STUB(ncclAllReduce)
STUB(ncclGetErrorString)
#ifndef STUB_LACKS
STUB(ncclCommGetAsyncError)
#endif
