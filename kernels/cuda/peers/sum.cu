// What cards exchange: sums after out and down, and logits.
#include "kernels/cuda/layers.cuh"
#include "kernels/cuda/ops/out.cuh"
#include "kernels/cuda/peers/peers.cuh"

#include "kernels/cuda/device/ptx_peers.cuh"
#include "kernels/cuda/peers/nccl.cuh"

// ---- waiting -------------------------------------------------------------------------------------------------

__device__ static unsigned long long word_of(float value, unsigned round) {
    return (unsigned long long)round << 32 | __float_as_uint(value);
}
__device__ static float value_of(unsigned long long word) {
    return __uint_as_float((unsigned)word);
}

__device__ static float await_word(const unsigned long long *from, unsigned round) {
    Patience patience;
    unsigned long long word = load_word(from);
    while ((unsigned)(word >> 32) != round) {
        patience.look_again();
        word = load_word(from);
    }
    return value_of(word);
}

__device__ static float4 await_words(const unsigned long long *from, unsigned round) {
    Patience patience;
    unsigned long long w[4];
    for (;;) {
        load_words(from, w[0], w[1]);
        load_words(from + 2, w[2], w[3]);
        bool there = true;
        for (int i = 0; i < 4; i++) there = there && (unsigned)(w[i] >> 32) == round;
        if (there) return make_float4(value_of(w[0]), value_of(w[1]), value_of(w[2]), value_of(w[3]));
        patience.look_again();
    }
}

__device__ static void await_flag(const unsigned *flag, unsigned round) {
    Patience patience;
    while ((int)(load_flag(flag) - round) < 0) patience.look_again();
}

// All threads, at a kernel's end: the block that is ready last ends the round. Nobody reads the round behind that.
__device__ static void end_round(PeerState *state, unsigned round) {
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (atomicAdd(&state->done, 1) != gridDim.x - 1) return;
    state->done = 0;
    state->round = round;
}

// ---- by words ------------------------------------------------------------------------------------------------

struct Inboxes {
    unsigned long long *of[SHARDS_MOST];
    int rank, n;
    // Of what `sender` sends in a round. A place is written again two rounds later, when the reader, whose own words of
    // the round between were needed for that, has long read it.
    __device__ unsigned long long *place(int reader, int sender, unsigned round) const {
        return of[reader] + (int64_t)((round & 1) * n + sender) * PEERS_WORDS;
    }
};

static Inboxes inboxes_of(const CudaPeers *p) {
    Inboxes boxes = {};
    for (int i = 0; i < p->n; i++) boxes.of[i] = p->inbox[i];
    boxes.rank = p->rank, boxes.n = p->n;
    return boxes;
}

// Four elements a thread and turn, n a multiple of 4: sent to all, then awaited from all and added up in the order of
// ranks. Grid: any; block: 256.
__global__ void __launch_bounds__(256)
    sum_words_kernel(Inboxes boxes, PeerState *state, float *part, float *x, int n) {
    const unsigned round = state->round + 1;
    for (int i = 4 * (blockIdx.x * 256 + threadIdx.x); i < n; i += 4 * 256 * gridDim.x) {
        const float4 own = *(const float4 *)(part + i);
        *(float4 *)(part + i) = make_float4(0, 0, 0, 0);
        for (int r = 0; r < boxes.n; r++) {
            if (r == boxes.rank) continue;
            unsigned long long *to = boxes.place(r, boxes.rank, round) + i;
            store_words(to, word_of(own.x, round), word_of(own.y, round));
            store_words(to + 2, word_of(own.z, round), word_of(own.w, round));
        }
        float4 sum = make_float4(0, 0, 0, 0);
        for (int r = 0; r < boxes.n; r++) {
            const float4 v =
                r == boxes.rank ? own : await_words(boxes.place(boxes.rank, r, round) + i, round);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        float4 *to = (float4 *)(x + i), before = *to;
        *to = make_float4(before.x + sum.x, before.y + sum.y, before.z + sum.z, before.w + sum.w);
    }
    end_round(state, round);
}

static cudaError_t sum_words(const CudaBackend *cuda, float *part, float *x, int64_t n) {
    const CudaPeers *p = cuda->peers;
    const Inboxes boxes = inboxes_of(p);
    const int most = 2 * cuda->device.card.n_sms;
    for (int64_t at = 0; at < n; at += PEERS_WORDS) {
        const int some = n - at < PEERS_WORDS ? (int)(n - at) : PEERS_WORDS;
        int blocks = (some / 4 + 255) / 256;
        if (blocks > most) blocks = most;
        sum_words_kernel<<<blocks, 256, 0, cuda->device.stream>>>(boxes, p->state, part + at, x + at, some);
    }
    return cudaGetLastError();
}

// ---- by slices -----------------------------------------------------------------------------------------------

struct Slices {
    float4 *parts[SHARDS_MOST], *x[SHARDS_MOST];
    PeerFlags *flags[SHARDS_MOST];
    PeerState *state;
    int rank, n_ranks;
    int n, of_rank, of_block; // float4s: of all, of a rank's slice, of a block's share in it
};

// Threads [0, n_ranks) of a block: tells all ranks that it has come so far, and waits until theirs have.
__device__ static void meet_blocks(const Slices &s, bool ready, unsigned round) {
    if (threadIdx.x < s.n_ranks) {
        PeerFlags *there = s.flags[threadIdx.x], *here = s.flags[s.rank];
        store_flag(ready ? &there->ready[s.rank][blockIdx.x] : &there->done[s.rank][blockIdx.x], round);
        await_flag(ready ? &here->ready[threadIdx.x][blockIdx.x] : &here->done[threadIdx.x][blockIdx.x],
                   round);
    }
    __syncthreads();
}

// A rank adds up its slice of all parts, and writes x plus that to all x; when all have, it clears its part. Block b of
// every rank goes hand in hand with the others' block b, so that blocks may begin one after the other. Grid:
// SLICE_BLOCKS, block: 512.
__global__ void __launch_bounds__(512) sum_slices_kernel(Slices s) {
    enum { TURNS = 4 };
    const unsigned round = s.state->round + 1;
    meet_blocks(s, true, round); // what the parts hold was written by kernels before this one
    const int slice = s.rank * s.of_rank, first = slice + blockIdx.x * s.of_block;
    const int slice_end = min(slice + s.of_rank, s.n), end = min(first + s.of_block, slice_end);
    for (int i = first + threadIdx.x; i < end; i += TURNS * 512) {
        float4 sum[TURNS] = {};
        for (int r = 0; r < s.n_ranks; r++) {
            float4 v[TURNS];
#pragma unroll
            for (int t = 0; t < TURNS; t++)
                if (i + t * 512 < end) v[t] = load_fresh(s.parts[r] + i + t * 512);
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                if (i + t * 512 >= end) continue;
                sum[t].x += v[t].x, sum[t].y += v[t].y, sum[t].z += v[t].z, sum[t].w += v[t].w;
            }
        }
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            if (i + t * 512 >= end) continue;
            const float4 x = s.x[s.rank][i + t * 512];
            const float4 all = make_float4(x.x + sum[t].x, x.y + sum[t].y, x.z + sum[t].z, x.w + sum[t].w);
            for (int r = 0; r < s.n_ranks; r++) s.x[r][i + t * 512] = all;
        }
    }
    __threadfence_system();
    __syncthreads();
    meet_blocks(s, false, round);
    for (int r = 0; r < s.n_ranks; r++) {
        const int of = r * s.of_rank, from = of + blockIdx.x * s.of_block;
        const int to = min(min(from + s.of_block, of + s.of_rank), s.n);
        for (int i = from + threadIdx.x; i < to; i += 512) s.parts[s.rank][i] = make_float4(0, 0, 0, 0);
    }
    end_round(s.state, round);
}

static cudaError_t sum_slices(const CudaBackend *cuda, const ShardSum *sum, int64_t n) {
    const CudaPeers *p = cuda->peers;
    Slices s = {};
    for (int i = 0; i < p->n; i++)
        s.parts[i] = (float4 *)sum->parts[i], s.x[i] = (float4 *)sum->x[i], s.flags[i] = p->flags[i];
    s.state = p->state, s.rank = p->rank, s.n_ranks = p->n;
    s.n = (int)(n / 4);
    s.of_rank = (s.n + p->n - 1) / p->n;
    s.of_block = (s.of_rank + SLICE_BLOCKS - 1) / SLICE_BLOCKS;
    sum_slices_kernel<<<SLICE_BLOCKS, 512, 0, cuda->device.stream>>>(s);
    return cudaGetLastError();
}

// Fewer elements go by words: from card to card once instead of three times.
// Through the host's memory a sum of 4 million takes 2 ms by words, 0.07 ms by NCCL where it reaches the cards' memory
// itself, 0.5 ms where it does not; one of 4,096 some 10 us by words, and 34.
enum { SLICES_FROM = 1 << 17, NCCL_FROM = 1 << 16 };

// A graph's sums go by words: NCCL's in graphs of two cards have not come back.
static bool is_captured(const CudaBackend *cuda) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(cuda->device.stream, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
}

Status cuda_sum(Backend *backend, const ShardSum *sum, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const CudaPeers *p = cuda->peers;
    const int64_t n = (int64_t)cuda->step.n_tokens * sum->width;
    bool known = p->direct && n >= SLICES_FROM && n / 4 <= INT32_MAX;
    for (int i = 0; i < p->n; i++) known = known && sum->x[i];
    cuda->step.normed = NULL; // of an x that was
    if (p->nccl && n >= NCCL_FROM && !is_captured(cuda)) {
        const NcclSum own = {p->rank, (float *)sum->parts[p->rank], (float *)sum->x[p->rank], n};
        return nccl_sum(p->nccl, cuda, &own, error);
    }
    const cudaError_t code = known
                                 ? sum_slices(cuda, sum, n)
                                 : sum_words(cuda, (float *)sum->parts[p->rank], (float *)sum->x[p->rank], n);
    return cuda_check(code, error, "the sum of %d cards for %d tokens", p->n, cuda->step.n_tokens);
}

Status cuda_add_shared(Backend *backend, const Layer *layer, bool of_down, float *sums, float *x,
                       Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const Norm norm = of_down ? layer->ffn_post_norm : layer->attn_post_norm;
    const int n = cuda->step.n_tokens;
    Status status = cuda_add_normed(cuda, sums, n, norm, x, error);
    return status ? status : out_clear(cuda, (int64_t)n * cuda->shape->hidden_size, sums, error);
}

// ---- logits --------------------------------------------------------------------------------------------------

struct Columns {
    int first[SHARDS_MOST + 1];
    const float *part;    // [n_rows, own columns]
    float *whole;         // [n_rows, first[n]]
    int n_rows, before;   // rows of this turn, and of turns before
    const int32_t *count; // so many rows there are; NULL: all
};

// All threads send a rank's columns, then take the others'. Grid: so many blocks that all run at once; block: 256.
__global__ void __launch_bounds__(256) gather_kernel(Inboxes boxes, PeerState *state, Columns c) {
    const unsigned round = state->round + 1;
    const int all = c.first[boxes.n], width = c.first[boxes.rank + 1] - c.first[boxes.rank];
    const int rows = c.count ? max(0, min(c.n_rows, *c.count - c.before)) : c.n_rows;
    const int thread = blockIdx.x * 256 + threadIdx.x, stride = 256 * gridDim.x;
    if (rows == 0) return; // on every card; a round is one in which they wait for each other
    for (int i = thread; i < rows * width; i += stride) {
        const float value = c.part[i];
        for (int r = 0; r < boxes.n; r++)
            if (r != boxes.rank) store_word(boxes.place(r, boxes.rank, round) + i, word_of(value, round));
        c.whole[(int64_t)(i / width) * all + c.first[boxes.rank] + i % width] = value;
    }
    for (int r = 0; r < boxes.n; r++) {
        if (r == boxes.rank) continue;
        const int columns = c.first[r + 1] - c.first[r];
        const unsigned long long *from = boxes.place(boxes.rank, r, round);
        for (int i = thread; i < rows * columns; i += stride)
            c.whole[(int64_t)(i / columns) * all + c.first[r] + i % columns] = await_word(from + i, round);
    }
    end_round(state, round);
}

Status cuda_gather(Backend *backend, const ShardGather *g, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const CudaPeers *p = cuda->peers;
    const Inboxes boxes = inboxes_of(p);
    Columns c = {};
    int widest = 1;
    for (int i = 0; i <= p->n; i++) c.first[i] = g->first[i];
    for (int i = 0; i < p->n; i++)
        if (c.first[i + 1] - c.first[i] > widest) widest = c.first[i + 1] - c.first[i];
    const int width = c.first[p->rank + 1] - c.first[p->rank], at_once = PEERS_WORDS / widest;
    if (at_once < 1)
        return error_set(error, STATUS_UNSUPPORTED, "cuda: %d logits a card of several, at most %d", widest,
                         PEERS_WORDS);
    // A graph's step has tokens to spare, which there are no rows for.
    const bool padded = g->in_order && cuda->step.padded;
    const int n_rows = padded ? cuda->step.n_tokens : g->n_rows;
    c.count = padded ? cuda->step.count : NULL;
    for (int row = 0; row < n_rows; row += at_once) {
        c.n_rows = n_rows - row < at_once ? n_rows - row : at_once, c.before = row;
        c.part = g->part + (int64_t)row * width, c.whole = g->whole + (int64_t)row * c.first[p->n];
        const int64_t wanted = ((int64_t)c.n_rows * width + 255) / 256;
        const int most = cuda->device.card.n_sms, blocks = wanted < most ? (int)wanted : most;
        gather_kernel<<<blocks, 256, 0, cuda->device.stream>>>(boxes, p->state, c);
    }
    return CUDA_LAUNCHED(error, "logits of %d cards, %d rows", p->n, n_rows);
}

// ---- loading -------------------------------------------------------------------------------------------------

Status peers_load_kernels(Error *error) {
    cudaFuncAttributes any;
    cudaError_t code = cudaFuncGetAttributes(&any, sum_words_kernel);
    if (code == cudaSuccess) code = cudaFuncGetAttributes(&any, sum_slices_kernel);
    if (code == cudaSuccess) code = cudaFuncGetAttributes(&any, gather_kernel);
    return cuda_check(code, error, "kernels of what cards exchange");
}
