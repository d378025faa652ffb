// What the chunks of a prompt need before they go one after the other: see delta_chunks.cuh.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/recurring/delta_chunks.cuh"

enum { BEFORE_THREADS = 256, BEFORE_WARPS = BEFORE_THREADS / 32 };

// ---- the convolution -----------------------------------------------------------------------------------------------

// The step's only sequence, which is all of its tokens: where they lie is known before it is there.
__device__ inline RecurringSequence whole_sequence(const DeltaArguments &a) {
    RecurringSequence s = delta_sequence(a, 0);
    s.first_token = 0, s.n_tokens = a.n_tokens;
    return s;
}

// c of four channels of a token, or of one of the taps - 1 before the first; of tokens beyond the last: zeros. Apart from the
// rest, whose code would be long with it: few ask. WIDE: c is float32.
template <bool WIDE>
__device__ __noinline__ float4 edge_c(const DeltaArguments &a, int64_t from, int t, int channel) {
    if (t >= a.n_tokens || (t < 0 && from < 0)) return make_float4(0, 0, 0, 0);
    if (t >= 0) return products_at(a.c, WIDE ? DTYPE_F32 : a.c_type, (int64_t)t * a.channels + channel);
    const float *at =
        a.states + from * a.state_floats + (int64_t)(a.rule.taps - 1 + t) * a.channels + channel;
    return make_float4(at[0], at[1], at[2], at[3]);
}

__device__ inline float4 fma4(float4 a, float4 b, float4 c) {
    return make_float4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w));
}

// N tokens of four channels: silu(conv_bias + Σ conv[j]·c[t - (taps - 1) + j]); of tokens beyond the last: zeros. Of four taps, as
// nearly all models have them, each c is read once.
template <int N, bool WIDE>
__device__ inline void mix_tokens(const DeltaArguments &a, const RecurringSequence &s, int first, int channel,
                                  float4 (&mixed)[N]) {
    const int taps = a.rule.taps;
    const float *weights = a.conv + (int64_t)channel * taps;
    float4 bias = make_float4(0, 0, 0, 0);
    if (a.conv_bias) bias = *(const float4 *)(a.conv_bias + channel);
#pragma unroll
    for (int n = 0; n < N; n++) mixed[n] = bias;
    if (taps == 4) {
        const bool inside = first >= 3 && first + N <= a.n_tokens;
        const int64_t at = (int64_t)(first - 3) * a.channels + channel;
        float4 c[N + 3], w[4];
#pragma unroll
        for (int i = 0; i < N + 3; i++)
            c[i] = inside ? products_at(a.c, WIDE ? DTYPE_F32 : a.c_type, at + i * a.channels)
                          : edge_c<WIDE>(a, s.from, first - 3 + i, channel);
#pragma unroll
        for (int i = 0; i < 4; i++) w[i] = __ldg((const float4 *)weights + i); // taps of a channel
        const float4 of_tap[4] = {{w[0].x, w[1].x, w[2].x, w[3].x},
                                  {w[0].y, w[1].y, w[2].y, w[3].y},
                                  {w[0].z, w[1].z, w[2].z, w[3].z},
                                  {w[0].w, w[1].w, w[2].w, w[3].w}};
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int j = 0; j < 4; j++) mixed[n] = fma4(of_tap[j], c[n + j], mixed[n]);
    } else {
#pragma unroll 1
        for (int j = 0; j < taps; j++) {
            const float4 of_tap =
                make_float4(weights[j], weights[taps + j], weights[2 * taps + j], weights[3 * taps + j]);
#pragma unroll
            for (int n = 0; n < N; n++)
                mixed[n] =
                    fma4(of_tap, edge_c<WIDE>(a, s.from, first + n - (taps - 1) + j, channel), mixed[n]);
        }
    }
#pragma unroll
    for (int n = 0; n < N; n++)
        mixed[n] = first + n < a.n_tokens
                       ? make_float4(silu(mixed[n].x), silu(mixed[n].y), silu(mixed[n].z), silu(mixed[n].w))
                       : make_float4(0, 0, 0, 0);
}

// Of the last chunk: c of n channels into the state behind it.
__device__ inline void leave_channels(const DeltaArguments &a, const RecurringSequence &s, int channel,
                                      int n) {
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += BEFORE_THREADS) delta_leave_c<false>(a, s, channel + i);
}

// ---- rates ---------------------------------------------------------------------------------------------------------

// γ that no float holds is as good as the smallest.
__device__ inline float log_of(float decay) {
    return logf(fmaxf(decay, 1e-37f));
}

// A warp, a lane a token: β, and G, log γ added up. Tokens beyond the last change nothing.
struct ChunkRates {
    float beta, logs;

    ChunkRates() = default;
    __device__ ChunkRates(const DeltaArguments &a, int first, int head) {
        const int lane = threadIdx.x % 32;
        const float2 rates =
            first + lane < a.n_tokens ? delta_rates(a, first + lane, head) : make_float2(1, 0);
        beta = rates.y, logs = log_of(rates.x);
#pragma unroll
        for (int o = 1; o < DELTA_CHUNK; o *= 2) {
            const float before = __shfl_up_sync(~0u, logs, o);
            if (lane >= o) logs += before;
        }
    }
};

// ---- a head of values ----------------------------------------------------------------------------------------------

// A block v and the factors of a chunk.
template <bool WIDE>
__device__ inline void mix_values(const DeltaArguments &a, const RecurringSequence &s, int first, int head) {
    enum { EACH = 4 };
    const DeltaRule &rule = a.rule;
    const int channel = 2 * rule.n_key_heads * rule.key_dim + head * rule.value_dim,
              quads = rule.value_dim / 4;
    for (int p = threadIdx.x; p < quads * (DELTA_CHUNK / EACH); p += BEFORE_THREADS) {
        const int own = channel + p % quads * 4, t = first + p / quads * EACH;
        float4 v[EACH];
        mix_tokens<EACH, WIDE>(a, s, t, own, v);
        float *to = a.between.mixed + (int64_t)t * a.channels + own;
#pragma unroll
        for (int n = 0; n < EACH; n++) *(float4 *)(to + (int64_t)n * a.channels) = v[n];
    }
    if (first + DELTA_CHUNK >= a.n_tokens) leave_channels(a, s, channel, rule.value_dim);
    if (threadIdx.x >= 32) return;
    const ChunkRates rates(a, first, head);
    const float end = __shfl_sync(~0u, rates.logs, DELTA_CHUNK - 1);
    chunk_factors(a, first / DELTA_CHUNK, head)[threadIdx.x] =
        make_float4(rates.beta, expf(rates.logs), rates.logs, expf(end - rates.logs));
}

// ---- a head of keys ------------------------------------------------------------------------------------------------

template <int KEY_DIM> struct BeforeKeys {
    enum { EACH = DELTA_CHUNK * KEY_DIM, INVERTING = EACH / (DELTA_CHUNK * DELTA_CHUNK) };
    float tiles[2 * EACH]; // of q, in whose place A of INVERTING warps is then; of k
    float qk[DELTA_CHUNK][DELTA_CHUNK + 1], kk[DELTA_CHUNK][DELTA_CHUNK + 1];
};

template <int QUADS> __device__ inline float sum_of_quads(float4 v) {
    float sum = fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, v.w * v.w)));
#pragma unroll
    for (int o = QUADS / 2; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    return sum;
}

__device__ inline float4 scaled_tf32(float4 v, float by) {
    return make_float4(to_tf32(v.x * by), to_tf32(v.y * by), to_tf32(v.z * by), to_tf32(v.w * by));
}

// q and k of a chunk into tiles, one by the same code as the other.
template <int KEY_DIM, bool ADDS, bool WIDE>
__device__ inline void mix_keys(const DeltaArguments &a, const RecurringSequence &s, int first, int key_head,
                                BeforeKeys<KEY_DIM> *keys) {
    constexpr int QUADS = KEY_DIM / 4, EACH = DELTA_CHUNK * QUADS / BEFORE_THREADS;
    const int quad = threadIdx.x % QUADS, t = threadIdx.x / QUADS * EACH;
#pragma unroll 1
    for (int which = 0; which < 2; which++) {
        float4 v[EACH];
        mix_tokens<EACH, WIDE>(a, s, first + t, (which * a.rule.n_key_heads + key_head) * KEY_DIM + quad * 4,
                               v);
#pragma unroll
        for (int n = 0; n < EACH; n++) {
            float scale = 1;
            if (!ADDS) scale = 1 / sqrtf(sum_of_quads<QUADS>(v[n]) + DELTA_LENGTH_EPS);
            if (!ADDS && which == 0) scale /= sqrtf((float)KEY_DIM);
            const float4 own = scaled_tf32(v[n], scale);
            const int row = t + n;
            float *tile =
                keys->tiles + which * keys->EACH + (row / 8 * (KEY_DIM / 8) + quad / 2) * CHUNK_TILE;
            *(float2 *)&tile[chunk_even(row % 8, quad % 2 * 2)] = make_float2(own.x, own.z);
            *(float2 *)&tile[chunk_odd(row % 8, quad % 2 * 2)] = make_float2(own.y, own.w);
        }
    }
}

// Warps of the block, from one on to the last, and one's thread among them.
struct LastWarps {
    int thread, threads;
    __device__ explicit LastWarps(int first)
        : thread((int)threadIdx.x - 32 * first), threads(BEFORE_THREADS - 32 * first) {}
};

// The tiles of q or k to the tokens' places.
template <int KEY_DIM>
__device__ inline void store_tiles(const DeltaArguments &a, LastWarps by, const float *tiles, float *to) {
    constexpr int QUADS = KEY_DIM / 4;
    for (int p = by.thread; p < DELTA_CHUNK * QUADS; p += by.threads)
        *(float4 *)(to + (int64_t)(p / QUADS) * a.channels + p % QUADS * 4) = *(const float4 *)&tiles[p * 4];
}

// kᵀ out of the tiles of k.
template <int KEY_DIM> __device__ inline void store_turned(LastWarps by, const float *tiles, float *to) {
    for (int p = by.thread; p < DELTA_CHUNK * KEY_DIM / 4; p += by.threads) {
        const int tile = p / (CHUNK_TILE / 4), m = tile / (DELTA_CHUNK / 8), c = tile % (DELTA_CHUNK / 8),
                  odd = p / 8 % 2, element = p % 8; // tokens 8c + odd, + 2, + 4, + 6
        const float *from = tiles + (c * (KEY_DIM / 8) + m) * CHUNK_TILE + element % 2 * (CHUNK_TILE / 2) +
                            odd * 4 + element / 2;
        *(float4 *)(to + p * 4) = make_float4(from[0], from[8], from[16], from[24]);
    }
}

// q·k and k·k of a chunk up to the diagonal, a warp 16 tokens by 8; where it adds q·k alone, which is left to the chunks.
template <int KEY_DIM, bool ADDS>
__device__ inline void multiply_keys(BeforeKeys<KEY_DIM> *keys, float *products) {
    enum { PARTS = 6 }; // of each: by tokens 0 to 15 two, by the others four
    constexpr int TILES = KEY_DIM / 8;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int job = threadIdx.x / 32; job < (ADDS ? PARTS : 2 * PARTS); job += BEFORE_WARPS) {
        const int part = job % PARTS, upper = part < 2 ? 0 : 2, j = part < 2 ? part : part - 2;
        const float *rows = keys->tiles + (job < PARTS ? 0 : keys->EACH) + upper * TILES * CHUNK_TILE,
                    *columns = keys->tiles + keys->EACH + j * TILES * CHUNK_TILE;
        float c[4] = {};
#pragma unroll 4
        for (int m = 0; m < TILES; m++) {
            const float2 low = chunk_pair(rows + m * CHUNK_TILE, g, t),
                         high = chunk_pair(rows + (TILES + m) * CHUNK_TILE, g, t);
            const float of_rows[4] = {low.x, high.x, low.y, high.y};
            mma_tf32(c, of_rows, chunk_pair(columns + m * CHUNK_TILE, g, t));
        }
        if (ADDS) {
            if (j <= upper)
                *(float2 *)(products + chunk_lower_tile(upper, j) + lane * 2) = make_float2(c[0], c[1]);
            *(float2 *)(products + chunk_lower_tile(upper + 1, j) + lane * 2) = make_float2(c[2], c[3]);
        } else {
            float(*to)[DELTA_CHUNK + 1] = job < PARTS ? keys->qk : keys->kk;
            float *low = &to[upper * 8 + g][j * 8 + 2 * t], *high = &to[upper * 8 + 8 + g][j * 8 + 2 * t];
            low[0] = c[0], low[1] = c[1], high[0] = c[2], high[1] = c[3];
        }
    }
}

// A warp Γ[i]/Γ[j]·(q[i]·k[j]) and T of a head of values, a lane a column, of T from above. `own`: A, whose rows end with zeros.
template <int KEY_DIM>
__device__ inline void invert(const DeltaArguments &a, int chunk, int head, const ChunkRates &rates,
                              const BeforeKeys<KEY_DIM> &keys, float *own) {
    const int lane = threadIdx.x % 32;
    float *products = chunk_products<false>(a, chunk, head), *to = chunk_inverse(a, chunk, head);
    const auto place = [&](int row) { return chunk_lower_tile(row / 8, lane / 8) + row % 8 * 8 + lane % 8; };
#pragma unroll 4
    for (int i = 0; i < DELTA_CHUNK; i++) {
        const float logs = __shfl_sync(~0u, rates.logs, i), beta = __shfl_sync(~0u, rates.beta, i),
                    decay = lane <= i ? __expf(logs - rates.logs) : 0;
        own[i * DELTA_CHUNK + lane] = lane < i ? beta * decay * keys.kk[i][lane] : 0;
        if (lane / 8 <= i / 8) products[place(i)] = lane <= i ? to_tf32(decay * keys.qk[i][lane]) : 0;
    }
    __syncwarp();
    float t[DELTA_CHUNK] = {};
#pragma unroll
    for (int row = 0; row < DELTA_CHUNK; row++) {
        float4 sums = make_float4(row == lane ? 1 : 0, 0, 0, 0); // four chains of sums, not one
#pragma unroll
        for (int j = 0; j < row; j += 4) {
            const float4 v = *(const float4 *)&own[row * DELTA_CHUNK + j];
            sums.x = fmaf(-v.x, t[j], sums.x), sums.y = fmaf(-v.y, t[j + 1], sums.y);
            sums.z = fmaf(-v.z, t[j + 2], sums.z), sums.w = fmaf(-v.w, t[j + 3], sums.w);
        }
        t[row] = (sums.x + sums.y) + (sums.z + sums.w);
        if (lane / 8 <= row / 8) to[place(row)] = to_tf32(t[row]);
    }
    __syncwarp();
}

// A block a chunk of a head of keys, with T of the heads of values that share them, or of a head of values. Grid: [chunks,
// n_key_heads + n_value_heads], block: 256.
template <int KEY_DIM, bool ADDS, bool WIDE>
__global__ void __launch_bounds__(BEFORE_THREADS, 3)
    delta_before_kernel(const __grid_constant__ DeltaArguments a) {
    __shared__ __align__(16) BeforeKeys<KEY_DIM> keys;
    const DeltaRule &rule = a.rule;
    const int key_head = blockIdx.y, first = blockIdx.x * DELTA_CHUNK;
    const RecurringSequence s = whole_sequence(a);
    let_next_begin();
    kernels_before();
    if (s.to < 0) return;
    if (key_head >= rule.n_key_heads) return mix_values<WIDE>(a, s, first, key_head - rule.n_key_heads);
    const int each = rule.n_value_heads / rule.n_key_heads, warp = threadIdx.x / 32,
              inverting = ADDS ? 0 : min(each, (int)keys.INVERTING);
    const auto head_of = [&](int e) {
        return rule.keys_alternate ? key_head + e * rule.n_key_heads : key_head * each + e;
    };
    ChunkRates rates;
    if (warp < inverting) rates = ChunkRates(a, first, head_of(warp)); // asked for ahead of all else
    mix_keys<KEY_DIM, ADDS, WIDE>(a, s, first, key_head, &keys);
    const int of_q = key_head * KEY_DIM, of_k = of_q + rule.n_key_heads * KEY_DIM;
    if (first + DELTA_CHUNK >= a.n_tokens)
        leave_channels(a, s, of_q, KEY_DIM), leave_channels(a, s, of_k, KEY_DIM);
    __syncthreads();
    float *mixed = a.between.mixed + (int64_t)first * a.channels;
    store_tiles<KEY_DIM>(a, LastWarps(0), keys.tiles, mixed + of_q);
    multiply_keys<KEY_DIM, ADDS>(&keys, ADDS ? chunk_products<true>(a, blockIdx.x, key_head) : NULL);
    __syncthreads();
    if (warp >= inverting) {
        const LastWarps by(inverting);
        store_tiles<KEY_DIM>(a, by, keys.tiles + keys.EACH, mixed + of_k);
        if (a.turns) store_turned<KEY_DIM>(by, keys.tiles + keys.EACH, chunk_turned(a, blockIdx.x, key_head));
        return;
    }
    if constexpr (!ADDS)
        for (int e = warp; e < each; e += inverting) {
            if (e != warp) rates = ChunkRates(a, first, head_of(e));
            invert(a, blockIdx.x, head_of(e), rates, keys, keys.tiles + warp * DELTA_CHUNK * DELTA_CHUNK);
        }
}

template <int KEY_DIM, bool ADDS>
static cudaError_t launch_before(const CudaBackend *cuda, const DeltaArguments &a) {
    const dim3 grid(delta_all_chunks(a), a.rule.n_key_heads + a.rule.n_value_heads);
    return a.c_type == DTYPE_F32
               ? launch_dependent(cuda, delta_before_kernel<KEY_DIM, ADDS, true>, grid, BEFORE_THREADS, 0, a)
               : launch_dependent(cuda, delta_before_kernel<KEY_DIM, ADDS, false>, grid, BEFORE_THREADS, 0,
                                  a);
}

cudaError_t delta_before(const CudaBackend *cuda, const DeltaArguments &a) {
    if (a.rule.key_dim == 64)
        return a.rule.adds ? launch_before<64, true>(cuda, a) : launch_before<64, false>(cuda, a);
    return a.rule.adds ? launch_before<128, true>(cuda, a) : launch_before<128, false>(cuda, a);
}
