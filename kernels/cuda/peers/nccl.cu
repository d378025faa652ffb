#include "kernels/cuda/peers/nccl.cuh"

#include "kernels/cuda/device/ptx_peers.cuh"
#include "kernels/cuda/nccl_library.h"
#include "kernels/shards/shard_ops.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stdlib.h>
#include <string.h>
#include <thread>

// What a card tells the host of its sums, in the host's memory.
struct NcclProgress {
    unsigned begun, done;
    unsigned broken; // the host tells the card: the sums do not end
};

struct NcclRank {
    NcclComm comm;
    NcclProgress *progress; // pinned
    unsigned *count;        // on the card: sums that have begun
    std::timed_mutex *lock; // a call of NCCL is not overtaken by the end of its connection
};

struct PeersNccl {
    NcclLibrary library;
    int n;
    NcclRank ranks[SHARDS_MOST];
    std::atomic<bool> failed;             // a rank could not begin a sum that others wait in
    std::atomic<bool> broken, broken_off; // begun; ended
    bool closes;
    std::mutex lock; // of `closes`
    std::condition_variable wakes;
    std::thread watch;
};

// ---- kernels -------------------------------------------------------------------------------------------------

// One thread.
__global__ void begin_sum_kernel(unsigned *count, NcclProgress *progress) {
    *(volatile unsigned *)&progress->begun = ++*count;
}

// x += part, which NCCL has made the sum of all, and zeros again. n a multiple of 4. Grid: any; block: 256.
__global__ void __launch_bounds__(256)
    end_sum_kernel(float *part, float *x, int64_t n, const unsigned *count, NcclProgress *progress) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        if (*(volatile unsigned *)&progress->broken) __trap(); // what is in the part is no sum
        *(volatile unsigned *)&progress->done = *count;
    }
    for (int64_t i = 4 * ((int64_t)blockIdx.x * 256 + threadIdx.x); i < n; i += 4ll * 256 * gridDim.x) {
        const float4 sum = *(const float4 *)(part + i);
        float4 *to = (float4 *)(x + i), before = *to;
        *(float4 *)(part + i) = make_float4(0, 0, 0, 0);
        *to = make_float4(before.x + sum.x, before.y + sum.y, before.z + sum.z, before.w + sum.w);
    }
}

// To the thread's device: one that is loaded when it is first launched may wait for others.
static Status load_kernels(Error *error) {
    cudaFuncAttributes any;
    cudaError_t code = cudaFuncGetAttributes(&any, begin_sum_kernel);
    if (code == cudaSuccess) code = cudaFuncGetAttributes(&any, end_sum_kernel);
    return cuda_check(code, error, "kernels of sums by NCCL");
}

// ---- the watch -----------------------------------------------------------------------------------------------

typedef std::chrono::steady_clock WatchClock;
enum { BREAKING_SECONDS = 2 }; // with Patience::MOST_SECONDS the 10 s in which a talk has to end

// All at once: each of them ends only when the others have been told.
static void break_off(PeersNccl *nccl) {
    nccl->broken = true;
    for (int i = 0; i < nccl->n; i++) *(volatile unsigned *)&nccl->ranks[i].progress->broken = 1;
    for (int i = 0; i < nccl->n; i++) {
        NcclRank *r = &nccl->ranks[i];
        const bool locked = r->lock->try_lock_for(std::chrono::milliseconds(200)); // else it hangs there
        (void)nccl->library.abort(r->comm);
        if (locked) r->lock->unlock();
    }
    nccl->broken_off = true;
}

// What the watch saw of a card.
struct NcclLook {
    unsigned begun, done;
    WatchClock::time_point since; // it has been so
};

static bool is_stuck(const PeersNccl *nccl, NcclLook looks[SHARDS_MOST], WatchClock::time_point now) {
    bool stuck = nccl->failed;
    for (int i = 0; i < nccl->n; i++) {
        const NcclRank *r = &nccl->ranks[i];
        const unsigned done = *(volatile unsigned *)&r->progress->done;
        const unsigned begun = *(volatile unsigned *)&r->progress->begun;
        int result = 0;
        if (begun == done || begun != looks[i].begun || done != looks[i].done) looks[i] = {begun, done, now};
        if (now - looks[i].since >= std::chrono::seconds(Patience::MOST_SECONDS)) stuck = true;
        if (nccl->library.async_error(r->comm, &result) || (result && result != NCCL_IN_PROGRESS))
            stuck = true;
    }
    return stuck;
}

static void watch(PeersNccl *nccl) {
    NcclLook looks[SHARDS_MOST] = {};
    WatchClock::time_point looked = WatchClock::now();
    std::unique_lock<std::mutex> lock(nccl->lock);
    for (NcclLook &look : looks) look.since = looked;
    while (!nccl->wakes.wait_for(lock, std::chrono::milliseconds(250), [&] { return nccl->closes; })) {
        const WatchClock::time_point now = WatchClock::now();
        // A process that was stopped (Ctrl-Z, a lid) has not asked for what cards wait for.
        if (now - looked > std::chrono::seconds(2))
            for (NcclLook &look : looks) look.since = now;
        looked = now;
        if (!is_stuck(nccl, looks, now)) continue;
        lock.unlock();
        break_off(nccl);
        return;
    }
}

// ---- all cards -----------------------------------------------------------------------------------------------

static Status nccl_check(const PeersNccl *nccl, int result, Error *error) {
    if (!result) return STATUS_OK;
    cudaGetLastError();
    return error_set(error, STATUS_DEVICE, "NCCL: %s", nccl->library.words(result));
}

// The first sums of each size connect cards, and take memory: not while a step is captured.
static Status warm_up(PeersNccl *nccl, Backend *const *ranks, Error *error) {
    enum { SMALLEST = 1 << 12, LARGEST = 1 << 22 };
    float *memory[SHARDS_MOST] = {};
    cudaError_t code = cudaSuccess;
    int result = 0;
    for (int i = 0; i < nccl->n && code == cudaSuccess; i++) {
        cudaSetDevice(cuda_backend(ranks[i])->device.index);
        code = cudaMalloc(&memory[i], LARGEST * sizeof(float));
        if (code == cudaSuccess) code = cudaMemset(memory[i], 0, LARGEST * sizeof(float));
    }
    for (size_t n = SMALLEST; n <= LARGEST && code == cudaSuccess && !result; n *= 2) {
        result = nccl->library.group_start();
        for (int i = 0; i < nccl->n && !result; i++)
            result = nccl->library.all_reduce(memory[i], memory[i], n, NCCL_FLOAT32, NCCL_SUM,
                                              nccl->ranks[i].comm, cuda_backend(ranks[i])->device.stream);
        const int ended = nccl->library.group_end();
        if (!result) result = ended;
    }
    for (int i = 0; i < nccl->n; i++) {
        cudaSetDevice(cuda_backend(ranks[i])->device.index);
        const cudaError_t synced = cudaStreamSynchronize(cuda_backend(ranks[i])->device.stream);
        if (code == cudaSuccess) code = synced;
        if (memory[i]) cudaFree(memory[i]);
    }
    Status status = nccl_check(nccl, result, error);
    return status ? status : cuda_check(code, error, "first sums by NCCL");
}

// What a rank's sums tell, on its device.
static Status open_rank(NcclRank *r, const CudaBackend *cuda, Error *error) {
    cudaSetDevice(cuda->device.index);
    r->lock = new (std::nothrow) std::timed_mutex();
    if (!r->lock) return error_set(error, STATUS_MEMORY, "no memory for NCCL");
    cudaError_t code =
        cudaHostAlloc(&r->progress, sizeof *r->progress, cudaHostAllocPortable | cudaHostAllocMapped);
    if (code == cudaSuccess) *r->progress = NcclProgress{};
    if (code == cudaSuccess) code = device_allocate(&cuda->device, &r->count, sizeof *r->count);
    if (code == cudaSuccess) code = cudaMemset(r->count, 0, sizeof *r->count);
    if (code == cudaSuccess) code = cudaDeviceSynchronize();
    Status status = cuda_check(code, error, "what a card tells of sums");
    return status ? status : load_kernels(error);
}

static Status connect(PeersNccl *nccl, Backend *const *ranks, int n, Error *error) {
    int devices[SHARDS_MOST] = {};
    NcclComm comms[SHARDS_MOST] = {};
    for (int i = 0; i < n; i++) devices[i] = cuda_backend(ranks[i])->device.index;
    Status status = nccl_check(nccl, nccl->library.init_all(comms, n, devices), error);
    if (status) return status;
    nccl->n = n;
    for (int i = 0; i < n; i++) nccl->ranks[i].comm = comms[i];
    for (int i = 0; i < n && !status; i++) status = open_rank(&nccl->ranks[i], cuda_backend(ranks[i]), error);
    if (!status) status = warm_up(nccl, ranks, error);
    if (status) return status;
    try {
        nccl->watch = std::thread(watch, nccl);
    } catch (...) {
        return error_set(error, STATUS_MEMORY, "no thread for NCCL");
    }
    return STATUS_OK;
}

// Nobody watches any more; `end` is destroy() or, where something failed, abort().
static void close_all(PeersNccl *nccl, int (*end)(NcclComm)) {
    for (int i = 0; i < nccl->n; i++) (void)end(nccl->ranks[i].comm);
    for (int i = 0; i < nccl->n; i++) {
        if (nccl->ranks[i].progress) cudaFreeHost(nccl->ranks[i].progress);
        if (nccl->ranks[i].count) cudaFree(nccl->ranks[i].count);
        delete nccl->ranks[i].lock;
    }
    delete nccl;
}

Status nccl_open(Backend *const *ranks, int n, PeersNccl **out, Error *error) {
    *out = NULL;
    PeersNccl *nccl = new (std::nothrow) PeersNccl();
    if (!nccl) return error_set(error, STATUS_MEMORY, "no memory for NCCL");
    Status status = nccl_library_load(getenv(NCCL_VARIABLE), &nccl->library, error);
    if (!status) status = connect(nccl, ranks, n, error);
    if (status)
        close_all(nccl, nccl->library.abort);
    else
        *out = nccl;
    return status;
}

void nccl_close(PeersNccl *nccl) {
    if (!nccl) return;
    {
        std::lock_guard<std::mutex> lock(nccl->lock);
        nccl->closes = true;
    }
    nccl->wakes.notify_all();
    if (nccl->broken) { // the process ends, which NCCL's own threads do not survive: it may take some time, but may hang, too
        const WatchClock::time_point most = WatchClock::now() + std::chrono::seconds(BREAKING_SECONDS);
        while (!nccl->broken_off && WatchClock::now() < most)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        nccl->watch.detach();
        return;
    }
    nccl->watch.join();
    close_all(nccl, nccl->library.destroy);
}

int nccl_version(const PeersNccl *nccl) {
    return nccl->library.version;
}

// ---- a sum ---------------------------------------------------------------------------------------------------

Status nccl_sum(PeersNccl *nccl, const CudaBackend *cuda, const NcclSum *s, Error *error) {
    NcclRank *r = &nccl->ranks[s->rank];
    const cudaStream_t stream = cuda->device.stream;
    const int64_t wanted = (s->n / 4 + 255) / 256, most = 4 * cuda->device.card.n_sms;
    std::lock_guard<std::timed_mutex> lock(*r->lock);
    if (nccl->broken)
        return error_set(error, STATUS_FATAL, "cuda: a sum of %d cards by NCCL did not end", nccl->n);
    begin_sum_kernel<<<1, 1, 0, stream>>>(r->count, r->progress);
    const int result =
        nccl->library.all_reduce(s->part, s->part, (size_t)s->n, NCCL_FLOAT32, NCCL_SUM, r->comm, stream);
    if (result) { // the others may wait for it already
        nccl->failed = true;
        return error_set(error, STATUS_FATAL, "cuda: a sum of %d cards by NCCL: %s", nccl->n,
                         nccl->library.words(result));
    }
    end_sum_kernel<<<(int)(wanted < most ? wanted : most), 256, 0, stream>>>(s->part, s->x, s->n, r->count,
                                                                             r->progress);
    return CUDA_LAUNCHED(error, "the sum of %d cards by NCCL", nccl->n);
}
