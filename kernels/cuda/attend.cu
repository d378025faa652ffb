// attend: softmax(attention_scale · q·Kᵀ + mask)·V over the cache, for any number of tokens.
//
// Two kernels. The tile kernel takes 128 rows (tokens × the heads that share a KV head) at a time through tensor
// cores, with the softmax computed as the tiles of keys go by (Milakov & Gimelshein, arXiv:1805.02867; Dao,
// arXiv:2307.08691): it wants a 16-bit operand type, a cache in f16 and a head size that it was built for. The
// plain kernel takes everything else in float32.
#include "kernels/cuda/attend.cuh"

// ---- plain -------------------------------------------------------------------------------------------------

__device__ inline float kv_at(const KvLayer &kv, const void *values, int64_t i) {
    return kv.type == DTYPE_F16 ? __half2float(((const __half *)values)[i]) : ((const float *)values)[i];
}

// One warp a head of a token of a tile: a lane a slot for the scores, a lane an element for the values.
// Grid: [tiles, heads], block: 32, shared memory: 2·head_dim floats.
template <class T> __global__ void plain_kernel(AttendArguments a, int head_dim, const T *q, T *y) {
    extern __shared__ float shared[];
    float *query = shared, *sums = shared + head_dim;
    AttendTile tile = a.tiles[blockIdx.x];
    int lane = threadIdx.x, head = blockIdx.y, kv_head = head / (a.n_heads / a.n_kv_heads);
    for (int token = tile.first_token; token < tile.first_token + tile.n_tokens; token++) {
        int64_t row = ((int64_t)token * a.n_heads + head) * head_dim;
        int32_t position = a.positions[token];
        for (int d = lane; d < head_dim; d += 32) {
            query[d] = to_float(q[row + d]) * a.scale;
            sums[d] = 0;
        }
        __syncwarp();
        float largest = -INFINITY, weights = 0;
        for (int first = tile.first_slot; first < tile.first_slot + tile.n_slots; first += 32) {
            int slot = first + lane;
            bool seen =
                slot < tile.first_slot + tile.n_slots && visible(a.slot_positions[slot], position, a.window);
            if (!__any_sync(~0u, seen)) continue;
            float score = -INFINITY;
            int64_t start = slot * a.kv.slot_stride + kv_head * a.kv.head_stride;
            if (seen) {
                score = 0;
                for (int d = 0; d < head_dim; d++) score += query[d] * kv_at(a.kv, a.kv.k, start + d);
            }
            float top = score;
            for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
            top = fmaxf(top, largest);
            float shrink = expf(largest - top), weight = seen ? expf(score - top) : 0;
            largest = top;
            float sum = weight;
            for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
            weights = weights * shrink + sum;
            for (int d = lane; d < head_dim; d += 32) sums[d] *= shrink;
            for (int s = 0; s < 32; s++) {
                float w = __shfl_sync(~0u, weight, s);
                if (!__shfl_sync(~0u, (int)seen, s)) continue;
                int64_t at = (first + s) * a.kv.slot_stride + kv_head * a.kv.head_stride;
                for (int d = lane; d < head_dim; d += 32) sums[d] += w * kv_at(a.kv, a.kv.v, at + d);
            }
        }
        for (int d = lane; d < head_dim; d += 32)
            y[row + d] = from_float<T>(weights > 0 ? sums[d] / weights : 0);
        __syncwarp();
    }
}

// ---- tiles -------------------------------------------------------------------------------------------------

enum { TILE_THREADS = ROWS / 16 * 32 };

__device__ inline void load_matrices(uint32_t r[4], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p)));
}

__device__ inline void load_matrices_transposed(uint32_t r[4], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p)));
}

__device__ inline void multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <int HEAD> struct TileShared {
    static constexpr int STRIDE = HEAD + 8; // an odd number of 16-byte pieces: rows fall into different banks
    __half q[ROWS * STRIDE], k[2][KEYS * STRIDE], v[2][KEYS * STRIDE];
    int32_t slot_positions[2][KEYS], row_positions[ROWS];
};

// Brings the 64 keys and values from `slot` on, and their positions; what lies beyond the range is empty.
template <int HEAD>
__device__ inline void load_tile(TileShared<HEAD> *s, int stage, const AttendArguments &a,
                                 const AttendTile &tile, int kv_head, int slot) {
    constexpr int PIECES = HEAD / 8;
    int end = tile.first_slot + tile.n_slots;
    for (int i = threadIdx.x; i < KEYS * PIECES; i += blockDim.x) {
        int key = i / PIECES, d = i % PIECES * 8;
        bool there = slot + key < end;
        int64_t from =
            (int64_t)(there ? slot + key : slot) * a.kv.slot_stride + kv_head * a.kv.head_stride + d;
        copy_16(&s->k[stage][key * s->STRIDE + d], (const __half *)a.kv.k + from, there);
        copy_16(&s->v[stage][key * s->STRIDE + d], (const __half *)a.kv.v + from, there);
    }
    if (threadIdx.x < KEYS) {
        int i = slot + threadIdx.x;
        s->slot_positions[stage][threadIdx.x] = i < end ? a.slot_positions[i] : -1;
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Eight warps, each 16 of the 128 rows; row r is head r % group of token r / group. KV tiles are double-buffered.
// Grid: [KV heads, tiles], the last tiles (which see most) first. HEAD is a multiple of 16.
template <class T, int HEAD>
__global__ void __launch_bounds__(TILE_THREADS, HEAD <= 128 ? 2 : 1)
    tile_kernel(AttendArguments a, const T *q, T *y) {
    extern __shared__ __align__(16) char memory[];
    TileShared<HEAD> *s = (TileShared<HEAD> *)memory;
    uint8_t *kinds = (uint8_t *)(s + 1);
    constexpr int STRIDE = TileShared<HEAD>::STRIDE;
    AttendTile tile = a.tiles[gridDim.y - 1 - blockIdx.y];
    int kv_head = blockIdx.x, group = a.n_heads / a.n_kv_heads, n_rows = tile.n_tokens * group;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int lowest = INT32_MAX, highest = -1;
    for (int t = 0; t < tile.n_tokens; t++) {
        int32_t p = a.positions[tile.first_token + t];
        lowest = min(lowest, p);
        highest = max(highest, p);
    }
    for (int i = threadIdx.x; i < ROWS * HEAD / 8; i += blockDim.x) {
        int r = i / (HEAD / 8), d = i % (HEAD / 8) * 8, token = tile.first_token + r / group;
        int head = kv_head * group + r % group;
        struct alignas(16) Octet {
            T v[8];
        } in = {};
        if (r < n_rows) in = *(const Octet *)(q + ((int64_t)token * a.n_heads + head) * HEAD + d);
        uint4 out;
        out.x = pack_halves(to_float(in.v[0]), to_float(in.v[1]));
        out.y = pack_halves(to_float(in.v[2]), to_float(in.v[3]));
        out.z = pack_halves(to_float(in.v[4]), to_float(in.v[5]));
        out.w = pack_halves(to_float(in.v[6]), to_float(in.v[7]));
        *(uint4 *)&s->q[r * STRIDE + d] = out;
    }
    if (threadIdx.x < ROWS)
        s->row_positions[threadIdx.x] =
            (int)threadIdx.x < n_rows ? a.positions[tile.first_token + threadIdx.x / group] : -1;
    int n_tiles = (tile.n_slots + KEYS - 1) / KEYS;
    classify_tiles(a, tile, lowest, highest, kinds, n_tiles);
    __syncthreads();

    float out[HEAD / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    int rows[2] = {warp * 16 + lane / 4, warp * 16 + lane / 4 + 8};
    int32_t row_positions[2] = {s->row_positions[rows[0]], s->row_positions[rows[1]]};
    auto next_tile = [&](int t) {
        while (t < n_tiles && kinds[t] == TILE_HIDDEN) t++;
        return t;
    };
    int now = next_tile(0), stage = 0;
    if (now < n_tiles) load_tile(s, 0, a, tile, kv_head, tile.first_slot + now * KEYS);
    while (now < n_tiles) {
        int next = next_tile(now + 1);
        if (next < n_tiles) {
            load_tile(s, stage ^ 1, a, tile, kv_head, tile.first_slot + next * KEYS);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();

        float scores[KEYS / 8][4] = {};
#pragma unroll
        for (int d = 0; d < HEAD; d += 16) {
            uint32_t qa[4], kb[4];
            load_matrices(qa, &s->q[(warp * 16 + lane % 16) * STRIDE + d + lane / 16 * 8]);
#pragma unroll
            for (int n = 0; n < KEYS / 8; n += 2) {
                load_matrices(
                    kb, &s->k[stage][(n * 8 + lane / 16 * 8 + lane % 8) * STRIDE + d + lane / 8 % 2 * 8]);
                multiply_add(scores[n], qa, kb[0], kb[1]);
                multiply_add(scores[n + 1], qa, kb[2], kb[3]);
            }
        }
        if (kinds[now] == TILE_MASKED) {
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int32_t p = s->slot_positions[stage][n * 8 + lane % 4 * 2 + i % 2];
                    if (!visible(p, row_positions[i / 2], a.window)) scores[n][i] = -INFINITY;
                }
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float largest = top[r];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
                largest = fmaxf(largest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
            // A row that has seen nothing yet keeps -inf: take 0 instead, so that no inf - inf arises.
            float base = largest == -INFINITY ? 0 : largest * a.scale;
            float shrink = power((top[r] == -INFINITY ? largest : top[r]) * a.scale - base);
            if (top[r] == -INFINITY) shrink = 0;
            top[r] = largest;
            float added = 0;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = 2 * r; i < 2 * r + 2; i++) {
                    scores[n][i] = power(scores[n][i] * a.scale - base);
                    added += scores[n][i];
                }
            sum[r] = sum[r] * shrink + added;
#pragma unroll
            for (int n = 0; n < HEAD / 8; n++) {
                out[n][2 * r] *= shrink;
                out[n][2 * r + 1] *= shrink;
            }
        }
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            uint32_t p[4] = {pack_halves(scores[2 * k][0], scores[2 * k][1]),
                             pack_halves(scores[2 * k][2], scores[2 * k][3]),
                             pack_halves(scores[2 * k + 1][0], scores[2 * k + 1][1]),
                             pack_halves(scores[2 * k + 1][2], scores[2 * k + 1][3])};
#pragma unroll
            for (int n = 0; n < HEAD / 8; n += 2) {
                uint32_t vb[4];
                load_matrices_transposed(vb,
                                         &s->v[stage][(k * 16 + lane % 16) * STRIDE + n * 8 + lane / 16 * 8]);
                multiply_add(out[n], p, vb[0], vb[1]);
                multiply_add(out[n + 1], p, vb[2], vb[3]);
            }
        }
        __syncthreads(); // before the next but one tile overwrites this stage
        now = next;
        stage ^= 1;
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = sum[r];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        float scale = total > 0 ? 1 / total : 0;
        if (rows[r] >= n_rows) continue;
        int token = tile.first_token + rows[r] / group, head = kv_head * group + rows[r] % group;
        T *target = y + ((int64_t)token * a.n_heads + head) * HEAD + lane % 4 * 2;
        struct alignas(4) Pair {
            T v[2];
        };
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++)
            *(Pair *)(target + n * 8) =
                Pair{from_float<T>(out[n][2 * r] * scale), from_float<T>(out[n][2 * r + 1] * scale)};
    }
}

// ---- launchers ---------------------------------------------------------------------------------------------

template <class T, int HEAD>
static cudaError_t launch_tiles(const CudaBackend *cuda, const AttendArguments &a, int most_slots, const T *q,
                                T *y) {
    size_t shared = sizeof(TileShared<HEAD>) + (size_t)(most_slots + KEYS - 1) / KEYS;
    if (shared > cuda->shared_limit) return cudaErrorInvalidValue;
    cudaError_t code =
        cudaFuncSetAttribute(tile_kernel<T, HEAD>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess) return code;
    tile_kernel<T, HEAD><<<dim3(a.n_kv_heads, cuda->n_tiles), TILE_THREADS, shared, cuda->stream>>>(a, q, y);
    return cudaGetLastError();
}

template <class T>
static cudaError_t launch_16_bit(const CudaBackend *cuda, AttendArguments a, int most_slots, const T *q, T *y,
                                 bool *taken) {
    const KvLayer *kv = &a.kv;
    int head = cuda->shape->head_dim;
    *taken = kv->type == DTYPE_F16 && kv->slot_stride % 8 == 0 && kv->head_stride % 8 == 0 &&
             a.n_heads / a.n_kv_heads <= ROWS;
    a.scale *= 1.44269504f;
    if (*taken) {
        cudaError_t code = attend_by_wgmma(cuda, &a, q, y);
        if (code != cudaErrorNotSupported) return code;
    }
    if (*taken && head == 64) return launch_tiles<T, 64>(cuda, a, most_slots, q, y);
    if (*taken && head == 80) return launch_tiles<T, 80>(cuda, a, most_slots, q, y);
    if (*taken && head == 96) return launch_tiles<T, 96>(cuda, a, most_slots, q, y);
    if (*taken && head == 128) return launch_tiles<T, 128>(cuda, a, most_slots, q, y);
    if (*taken && head == 256) return launch_tiles<T, 256>(cuda, a, most_slots, q, y);
    *taken = false;
    return cudaSuccess;
}

template <class T>
static cudaError_t launch_plain(const CudaBackend *cuda, const AttendArguments &a, const T *q, T *y) {
    int head = cuda->shape->head_dim;
    plain_kernel<T>
        <<<dim3(cuda->n_tiles, a.n_heads), 32, 2 * (size_t)head * 4, cuda->stream>>>(a, head, q, y);
    return cudaGetLastError();
}

Status cuda_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    if (kv->type != DTYPE_F16 && kv->type != DTYPE_F32)
        return error_set(error, STATUS_UNSUPPORTED, "attend: a cache of %s", dtype_name(kv->type));
    AttendArguments a = {*kv,           cuda->positions, cuda->slot_positions, cuda->tiles, s->n_heads,
                         s->n_kv_heads, window,          s->attention_scale};
    bool taken = false;
    cudaError_t code = cudaSuccess;
    if (cuda->operand == DTYPE_F16)
        code = launch_16_bit(cuda, a, cuda->most_slots, (const __half *)q, (__half *)y, &taken);
    else if (cuda->operand == DTYPE_BF16)
        code = launch_16_bit(cuda, a, cuda->most_slots, (const __nv_bfloat16 *)q, (__nv_bfloat16 *)y, &taken);
    if (!taken && code == cudaSuccess) WITH_OPERAND(cuda, code = launch_plain(cuda, a, (const T *)q, (T *)y));
    return cuda_check(code, error, "attend: %d tokens, %d heads of %d, up to %d slots", cuda->n_tokens,
                      s->n_heads, s->head_dim, cuda->most_slots);
}
