// Joining cards: who reaches whose memory, and inboxes.
#include "kernels/cuda/peers/peers.cuh"

#include "kernels/cuda/devices.h"
#include "kernels/cuda/peers/nccl.cuh"

#include <atomic>
#include <new>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- meeting -------------------------------------------------------------------------------------------------

struct PeersMeeting {
    int n;
    std::atomic<int> arrived, unwell;
    std::atomic<bool> outcome; // of the meeting before
    std::atomic<unsigned> meetings;
};

bool peers_meet(CudaPeers *peers, bool well) {
    PeersMeeting *m = peers->meeting;
    const unsigned before = m->meetings.load();
    if (!well) m->unwell++;
    if (++m->arrived == m->n) {
        m->outcome = m->unwell == 0; // nobody can come to the next meeting before this one has ended
        m->unwell = 0, m->arrived = 0;
        m->meetings++;
    } else {
        for (unsigned looks = 1; m->meetings.load() == before; looks++)
            if (looks % 256 == 0) sched_yield();
    }
    return m->outcome;
}

// ---- joining -------------------------------------------------------------------------------------------------

static bool peers_forbidden() {
    const char *wish = getenv("PALAVER_NO_PEER");
    return wish && *wish && strcmp(wish, "0") != 0;
}

// Whether every card reaches the memory of every other.
static bool all_reach_all(Backend *const *ranks, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            int reaches = 1;
            const int from = cuda_backend(ranks[i])->device.index, to = cuda_backend(ranks[j])->device.index;
            if (i != j && (cudaDeviceCanAccessPeer(&reaches, from, to) != cudaSuccess || !reaches)) {
                cudaGetLastError();
                return false;
            }
        }
    return true;
}

static Status enable_access(Backend *const *ranks, int n, Error *error) {
    for (int i = 0; i < n; i++) {
        cudaSetDevice(cuda_backend(ranks[i])->device.index);
        for (int j = 0; j < n; j++) {
            const int to = cuda_backend(ranks[j])->device.index;
            const cudaError_t code = i == j ? cudaSuccess : cudaDeviceEnablePeerAccess(to, 0);
            if (code == cudaErrorPeerAccessAlreadyEnabled) {
                cudaGetLastError();
                continue;
            }
            Status status = cuda_check(code, error, "reaching the memory of cuda:%d from cuda:%d", to,
                                       cuda_backend(ranks[i])->device.index);
            if (status) return status;
        }
    }
    return STATUS_OK;
}

// A card's own part, on the thread's device.
static Status open_peers(CudaBackend *cuda, bool direct, int n, Error *error) {
    CudaPeers *p = cuda->peers;
    const size_t bytes = 2 * (size_t)n * PEERS_WORDS * sizeof(unsigned long long);
    cudaError_t code = direct
                           ? device_allocate(&cuda->device, &p->own_inbox, bytes)
                           : cudaHostAlloc(&p->own_inbox, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    if (code == cudaSuccess && direct) code = cudaMemset(p->own_inbox, 0, bytes);
    if (code == cudaSuccess && !direct) memset(p->own_inbox, 0, bytes);
    if (code == cudaSuccess) code = device_allocate(&cuda->device, &p->state, sizeof *p->state);
    if (code == cudaSuccess) code = cudaMemset(p->state, 0, sizeof *p->state);
    if (code == cudaSuccess) code = device_allocate(&cuda->device, &p->own_flags, sizeof *p->own_flags);
    if (code == cudaSuccess) code = cudaMemset(p->own_flags, 0, sizeof *p->own_flags);
    const size_t shares = 2 * (size_t)n * (size_t)cuda->shape->hidden_size * sizeof *p->own_shares;
    if (code == cudaSuccess) code = device_allocate(&cuda->device, &p->own_shares, shares);
    if (code == cudaSuccess) code = cudaMemset(p->own_shares, 0, shares);
    if (code == cudaSuccess) code = cudaDeviceSynchronize();
    if (code == cudaSuccess && direct) cuda->opened_bytes += (int64_t)bytes;
    Status status = cuda_check(code, error, "%zu bytes for what %d cards exchange", bytes, n);
    return status ? status : peers_load_kernels(error);
}

static void close_peers(CudaBackend *cuda) {
    CudaPeers *p = cuda->peers;
    if (!p) return;
    if (p->own_inbox) p->direct ? cudaFree(p->own_inbox) : cudaFreeHost(p->own_inbox);
    if (p->state) cudaFree(p->state);
    if (p->own_flags) cudaFree(p->own_flags);
    if (p->own_shares) cudaFree(p->own_shares);
    delete p;
    cuda->peers = NULL;
}

static void use(Backend *backend) {
    cudaSetDevice(cuda_backend(backend)->device.index);
}

// Whose errors are told by what it is asked for next.
static void finish(Backend *backend) {
    use(backend);
    cudaStreamSynchronize(cuda_backend(backend)->device.stream);
}

static void part(Backend *const *ranks, int n) {
    PeersMeeting *meeting = NULL;
    PeersNccl *nccl = NULL;
    for (int i = 0; i < n; i++) { // nobody writes any more
        const CudaPeers *p = cuda_backend(ranks[i])->peers;
        finish(ranks[i]);
        if (p) meeting = p->meeting, nccl = p->nccl;
    }
    nccl_close(nccl);
    for (int i = 0; i < n; i++) close_peers(cuda_backend(ranks[i]));
    delete meeting;
}

static Status join_all(Backend *const *ranks, int n, bool direct, Error *error) {
    Status status = direct ? enable_access(ranks, n, error) : STATUS_OK;
    for (int i = 0; i < n && !status; i++) {
        CudaBackend *cuda = cuda_backend(ranks[i]);
        cudaSetDevice(cuda->device.index);
        status = open_peers(cuda, direct, n, error);
    }
    for (int i = 0; i < n && !status; i++)
        for (int j = 0; j < n; j++) {
            const CudaPeers *other = cuda_backend(ranks[j])->peers;
            cuda_backend(ranks[i])->peers->inbox[j] = other->own_inbox;
            cuda_backend(ranks[i])->peers->flags[j] = other->own_flags;
            cuda_backend(ranks[i])->peers->shares[j] = other->own_shares;
        }
    return status;
}

// NCCL, where cards do not reach each other; without it they go on as they can.
static void join_nccl(Backend *const *ranks, int n) {
    PeersNccl *nccl;
    Error why = {};
    (void)nccl_open(ranks, n, &nccl, &why);
    for (int i = 0; i < n; i++) {
        CudaPeers *p = cuda_backend(ranks[i])->peers;
        p->nccl = nccl;
        snprintf(p->without_nccl, sizeof p->without_nccl, "%.119s", why.message);
    }
}

static Status join(Backend *const *ranks, int n, Error *error) {
    const bool direct = !peers_forbidden() && all_reach_all(ranks, n);
    PeersMeeting *meeting = new (std::nothrow) PeersMeeting();
    bool all = meeting != NULL;
    if (meeting) meeting->n = n;
    for (int i = 0; i < n && all; i++) {
        CudaPeers *p = new (std::nothrow) CudaPeers();
        all = p != NULL;
        if (!p) break;
        p->rank = i, p->n = n, p->direct = direct, p->meeting = meeting;
        cuda_backend(ranks[i])->peers = p;
    }
    Status status = all ? join_all(ranks, n, direct, error)
                        : error_set(error, STATUS_MEMORY, "no memory for %d cards", n);
    if (status) {
        for (int i = 0; i < n; i++) close_peers(cuda_backend(ranks[i]));
        delete meeting;
    } else if (!direct) {
        join_nccl(ranks, n);
    }
    use(ranks[0]); // the caller is the first rank's thread
    return status;
}

static void identify(const Backend *backend, char id[SHARD_ID]) {
    const int index = ((const CudaBackend *)backend)->device.index;
    if (cudaDeviceGetPCIBusId(id, SHARD_ID, index) == cudaSuccess) return; // "0000:3B:00.0"
    cudaGetLastError();
    snprintf(id, SHARD_ID, "card-%d", index);
}

static void way(const Backend *backend, char *text, size_t size) {
    const CudaPeers *p = ((const CudaBackend *)backend)->peers;
    const char *why = peers_forbidden() ? "PALAVER_NO_PEER" : "no peer access";
    if (p->direct) {
        snprintf(text, size, "through peer memory");
    } else if (p->nccl) {
        const int v = nccl_version(p->nccl);
        snprintf(text, size, "through NCCL %d.%d.%d (%s)", v / 10000, v / 100 % 100, v % 100, why);
    } else {
        snprintf(text, size, "through the host's memory (%s; %s): slow", why, p->without_nccl);
    }
}

static Status devices(const char *text, ShardDevices *found, Error *error) {
    int indexes[SHARDS_MOST];
    Status status = devices_several(text, indexes, &found->n, error);
    for (int i = 0; i < found->n && !status; i++)
        snprintf(found->names[i], sizeof found->names[i], "cuda:%d", indexes[i]);
    return status;
}

const ShardOps CUDA_SHARDS = {
    8,           devices,  join,   part, cuda_sum, cuda_add_shared, cuda_row_products, cuda_norm_rows,
    cuda_gather, identify, finish, use,  way};
