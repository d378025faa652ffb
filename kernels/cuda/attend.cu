// attend: softmax(attention_scale · q·Kᵀ + mask)·V over the cache, for any number of tokens.
//
// Tiles of several tokens go to the kernels of attention/tile.cuh, tiles of one to that of attention/split.cuh, where operands
// have 16 bits and the cache is laid out for them. The plain kernel takes everything else in float32.
#include "kernels/cuda/attention/split.cuh"

// ---- plain -------------------------------------------------------------------------------------------------

enum { PLAIN_WARPS = 8 };

// One query of one head, as a warp goes through its indexes. In shared memory, [dim] each.
struct PlainRow {
    float *q, *kept, *sums;
    float largest, weight;
};

__device__ inline float mask_at(const AttendMask &mask, int64_t at) {
    if (mask.type == DTYPE_F32) return ((const float *)mask.values)[at];
    return mask.type == DTYPE_F16 ? __half2float(((const __half *)mask.values)[at])
                                  : __bfloat162float(((const __nv_bfloat16 *)mask.values)[at]);
}

// Indexes first, first + step, …, 32 of them at a time: a lane an index for the scores, a lane an element for the
// values.
__device__ inline void plain_stream(const AttendArguments &a, const AttendTile &tile, int token, int head,
                                    int first, int step, PlainRow &r) {
    int lane = threadIdx.x % 32, kv_head = head / (a.n_heads / a.n_kv_heads), dim = a.head_dim;
    Seen recent = seen_from(a.positions[token], a.window, tile.n_keep, tile.n_gone, false);
    Seen prefix = seen_from(a.positions[token], a.window, tile.n_keep, tile.n_gone, true);
    float slope = a.alibi ? alibi_slope(head, a.n_heads) : 0;
    for (int begin = first; begin < tile.n_slots; begin += step) {
        int index = begin + lane;
        bool kept = tile.n_gone > 0 && index < tile.n_keep, there = index < tile.n_slots;
        int32_t slot = there ? slot_of(a.pages, tile.first_page, index) : 0;
        int32_t position = there ? position_at(a.slot_positions, slot, index) : -1;
        const Seen &seen = kept ? prefix : recent;
        float score = -INFINITY;
        int64_t start = slot * a.kv.slot_stride + kv_head * a.kv.head_stride;
        if (there && visible(position, seen)) {
            const float *q = kept ? r.kept : r.q;
            float dot = 0;
            for (int d = 0; d < dim; d++) dot += q[d] * kv_at(a.kv, true, start + d);
            score = dot * a.scale - slope * (float)(seen.high - position);
            if (a.mask.values)
                score += mask_at(a.mask, token * a.mask.row + head * a.mask.head + tile.mask_column + index);
        }
        float top = score;
        for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
        top = fmaxf(top, r.largest);
        if (top == -INFINITY) continue;
        float shrink = expf(r.largest - top), weight = expf(score - top), sum = weight;
        r.largest = top;
        for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
        r.weight = r.weight * shrink + sum;
        for (int d = lane; d < dim; d += 32) r.sums[d] *= shrink;
        for (int s = 0; s < 32; s++) {
            float w = __shfl_sync(~0u, weight, s);
            int64_t at = __shfl_sync(~0u, start, s);
            if (w == 0) continue;
            for (int d = lane; d < dim; d += 32) r.sums[d] += w * kv_at(a.kv, false, at + d);
        }
    }
}

// Many tokens: each warp takes every eighth. Few: all warps share a token's indexes, and put together what they have;
// unless how many they are is not to show.
// Grid: [tiles, heads], block: 256, shared memory: 8 · 3·head_dim floats.
template <class T>
__global__ void __launch_bounds__(PLAIN_WARPS * 32)
    plain_kernel(const __grid_constant__ AttendArguments a, bool always_alone, const T *q, const T *q_kept,
                 T *y) {
    extern __shared__ float shared[];
    __shared__ float largest[PLAIN_WARPS], weights[PLAIN_WARPS];
    AttendTile tile = a.tiles[blockIdx.x];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.y, dim = a.head_dim;
    bool alone = always_alone || tile.n_tokens >= PLAIN_WARPS;
    float *mine = shared + warp * 3 * dim;
    for (int t = alone ? warp : 0; t < tile.n_tokens; t += alone ? PLAIN_WARPS : 1) {
        int token = tile.first_token + t;
        int64_t row = ((int64_t)token * a.n_heads + head) * dim;
        PlainRow r = {mine, mine + dim, mine + 2 * dim, -INFINITY, 0};
        for (int d = lane; d < dim; d += 32) {
            r.q[d] = to_float(q[row + d]);
            r.kept[d] = to_float(q_kept[row + d]);
            r.sums[d] = 0;
        }
        if (alone)
            __syncwarp();
        else
            __syncthreads(); // all have read q, which may be y
        plain_stream(a, tile, token, head, alone ? 0 : warp * 32, alone ? 32 : PLAIN_WARPS * 32, r);
        __syncwarp();
        if (alone) {
            for (int d = lane; d < dim; d += 32)
                y[row + d] = from_float<T>(r.weight == 0 ? 0 : r.sums[d] / r.weight);
            __syncwarp();
            continue;
        }
        if (lane == 0) largest[warp] = r.largest, weights[warp] = r.weight;
        __syncthreads();
        float top = -INFINITY, weight = 0;
        for (int w = 0; w < PLAIN_WARPS; w++) top = fmaxf(top, largest[w]);
        for (int w = 0; w < PLAIN_WARPS; w++)
            if (weights[w] != 0) weight += weights[w] * expf(largest[w] - top);
        for (int d = threadIdx.x; d < dim; d += blockDim.x) {
            float sum = 0;
            for (int w = 0; w < PLAIN_WARPS; w++)
                if (weights[w] != 0) sum += shared[(w * 3 + 2) * dim + d] * expf(largest[w] - top);
            y[row + d] = from_float<T>(weight == 0 ? 0 : sum / weight);
        }
        __syncthreads();
    }
}

template <class T>
static cudaError_t launch_plain(const CudaBackend *cuda, const AttendArguments &a, int n_tiles,
                                const Queries &q, void *y) {
    size_t shared = PLAIN_WARPS * 3 * (size_t)a.head_dim * sizeof(float);
    cudaError_t code =
        cudaFuncSetAttribute(plain_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess) return code;
    plain_kernel<T><<<dim3(n_tiles, a.n_heads), PLAIN_WARPS * 32, shared, cuda->stream>>>(
        a, cuda->kind == STEP_READING, (const T *)q.recent, (const T *)q.kept, (T *)y);
    return cudaGetLastError();
}

// ---- which kernel ------------------------------------------------------------------------------------------

// Tiles of several tokens.
static cudaError_t attend_tiles(CudaBackend *cuda, const AttendCall *call, AttendArguments a,
                                const Queries &q) {
    cudaError_t code = cudaErrorNotSupported;
    if (cuda->n_tiles == 0) return cudaSuccess;
    if (call->type != DTYPE_F32 && !a.mask.values) {
        TileLaunch launch = {a, call->type, q.recent, q.kept, call->y, cuda->n_tiles, cuda->most_slots};
        launch.a.scale *= LOG2_E;
        bool half = a.kv.type == DTYPE_F16, plain = half && !a.alibi;
        // That kernel takes keys in pairs of those tiles that its own tokens see: behind a window, and in a ring that has
        // gone round, which these are shows where a prompt was cut.
        bool pairs = cuda->kind != STEP_READING || (a.window <= 0 && cuda->in_order);
        if (plain && !cuda->gone && pairs) code = attend_by_wgmma(cuda, &launch);
        // Not for pieces of prompts: how long a cache may be must not show where one was cut.
        if (!half && !a.alibi && !cuda->gone && cuda->kind == STEP_ANY)
            code = attend_as_halves(cuda, &launch);
        if (code == cudaErrorNotSupported)
            code =
                plain ? tile_launch<TILES_OF_F16>(cuda, &launch) : tile_launch<TILES_OF_ANY>(cuda, &launch);
    }
    if (code == cudaErrorNotSupported)
        WITH_TYPE(call->type, code = launch_plain<T>(cuda, a, cuda->n_tiles, q, call->y));
    return code;
}

// Tiles of one token.
static cudaError_t attend_singles(CudaBackend *cuda, const AttendCall *call, AttendArguments a,
                                  const Queries &q) {
    cudaError_t code = cudaErrorNotSupported;
    if (cuda->n_single_tiles == 0) return cudaSuccess;
    if (call->type != DTYPE_F32 && !a.mask.values) {
        SplitLaunch launch = {a, call->type, q.recent, q.kept, call->y};
        launch.a.scale *= LOG2_E;
        code = attend_splits(cuda, &launch);
    }
    a.tiles += cuda->n_tiles;
    if (code == cudaErrorNotSupported)
        WITH_TYPE(call->type, code = launch_plain<T>(cuda, a, cuda->n_single_tiles, q, call->y));
    return code;
}

Status cuda_attend_step(CudaBackend *cuda, const AttendCall *call, Error *error) {
    const AttendHeads *h = &call->heads;
    AttendArguments a = {*call->kv,    cuda->positions, call->slot_positions, cuda->tiles,
                         cuda->pages,  h->n_heads,      h->n_kv_heads,        h->head_dim,
                         call->window, call->scale,     call->alibi,          call->mask};
    Status status = split_reserve(cuda, h, error);
    if (status) return status;
    cuda->cached = call->kv->type;
    cuda->flat_large = false; // beside the splits there is room for one ring: flat_wgmma.cuh
    Queries q;
    cudaError_t code = cuda_queries(cuda, call, &q);
    if (code == cudaSuccess) code = attend_tiles(cuda, call, a, q);
    if (code == cudaSuccess) code = attend_singles(cuda, call, a, q);
    return cuda_check(code, error, "attend: %d tokens, %d heads of %d, up to %d slots, a cache of %s",
                      cuda->n_tokens, h->n_heads, h->head_dim, cuda->most_slots, dtype_name(call->kv->type));
}

Status cuda_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    Status status = kv_layer_check(kv, s->head_dim, error);
    if (status) return error_prefix(error, "attend: ");
    AttendCall call = {};
    call.heads = AttendHeads{s->n_heads, s->n_kv_heads, s->head_dim};
    call.type = cuda->operand;
    call.q = q;
    call.y = y;
    call.kv = kv;
    call.slot_positions = cuda->slot_positions;
    call.window = window;
    call.scale = s->attention_scale;
    call.alibi = s->alibi;
    return cuda_attend_step(cuda, &call, error);
}
