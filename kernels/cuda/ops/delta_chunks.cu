// The recurrence of a delta rule for prompts, sixteen tokens at once by tensor cores: between delta_mix_kernel and the end.
//
// Within a chunk, with Γ[i] the product of γ up to its token i, Γ[i]/Γ[j] = e^(G[i] - G[j]), and S the state before it:
//   A[i][j] = β[i]·Γ[i]/Γ[j]·(k[i]·k[j]), j < i;     δ = T·R, T = (1 + A)⁻¹, R[i] = β[i]·(v[i] - Γ[i]·Sᵀk[i])
//   y[i] = Γ[i]·Sᵀq[i] + Σ Γ[i]/Γ[j]·(q[i]·k[j])·δ[j], j <= i;     S ← Γ[15]·S + Σ Γ[15]/Γ[j]·k[j]·δ[j]ᵀ
// (the WY form of Yang et al., arXiv:2412.06464, section 3). Where it adds T is 1 and R[i] β[i]·v[i].
//
//   delta_chunk_kernel    q·k of all chunks' tokens, and T of each head of values
//   delta_chunks_kernel   the chunks of a sequence one after the other
//
// Factors are rounded to TF32, sums are float32: chunks begin with a step, so that results depend on where steps were cut.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/ops/delta.cuh"

enum { CHUNK = 16, CHUNK_SQUARE = CHUNK * CHUNK, CHUNK_KEY_DIM = 128, CHUNK_COLUMNS = 32 };

// To the nearest number of TF32: the tensor cores leave the lower bits away.
__device__ inline float to_tf32(float x) {
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & ~0x1fffu);
}

// Where the products of a sequence's first chunk stand: each sequence may end with a chunk that is not whole.
__device__ inline int chunk_base(const RecurringSequence &s, int sequence) {
    return s.first_token / CHUNK + sequence;
}

__device__ inline float *chunk_qk(const DeltaArguments &a, int chunk, int key_head) {
    return a.chunks + ((int64_t)chunk * a.rule.n_key_heads + key_head) * CHUNK_SQUARE;
}

__device__ inline float *chunk_inverse(const DeltaArguments &a, int chunk, int head) {
    return a.chunks + (int64_t)a.n_chunks * a.rule.n_key_heads * CHUNK_SQUARE +
           ((int64_t)chunk * a.rule.n_value_heads + head) * CHUNK_SQUARE;
}

// G of the chunk's tokens, which lane % 16 has of its own: log γ added up.
__device__ inline float chunk_logs(float log_decay) {
    const int lane = threadIdx.x % 16;
#pragma unroll
    for (int o = 1; o < CHUNK; o *= 2) {
        const float before = __shfl_up_sync(~0u, log_decay, o, 16);
        if (lane >= o) log_decay += before;
    }
    return log_decay;
}

// γ that no float holds is as good as the smallest.
__device__ inline float log_of(float decay) {
    return logf(fmaxf(decay, 1e-37f));
}

// ---- before them ---------------------------------------------------------------------------------------------------

enum { BEFORE_THREADS = 128, BEFORE_STRIDE = CHUNK_KEY_DIM + 4 };

struct ChunkKeys {
    float q[CHUNK][BEFORE_STRIDE], k[CHUNK][BEFORE_STRIDE], kk[CHUNK][CHUNK + 1];
    float a[BEFORE_THREADS / 32][CHUNK][CHUNK + 1]; // of each warp's head of values
};

__device__ inline float4 to_tf32(float4 v) {
    return make_float4(to_tf32(v.x), to_tf32(v.y), to_tf32(v.z), to_tf32(v.w));
}

// A head's q, at `from`, and k, of_k behind it, of n tokens, rounded where they lie; all of them are asked for before any is
// stored.
__device__ inline void take_keys(float *from, int of_k, int channels, int n, int dim, ChunkKeys *to) {
    constexpr int EACH = CHUNK * CHUNK_KEY_DIM / 4 / BEFORE_THREADS;
    const int row = dim / 4;
    float4 q[EACH], k[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int p = threadIdx.x + e * BEFORE_THREADS, t = p / row;
        const float *at = from + (int64_t)t * channels + p % row * 4;
        const bool there = t < CHUNK && t < n;
        q[e] = there ? *(const float4 *)at : make_float4(0, 0, 0, 0);
        k[e] = there ? *(const float4 *)(at + of_k) : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int p = threadIdx.x + e * BEFORE_THREADS, t = p / row, i = p % row * 4;
        float *at = from + (int64_t)t * channels + i;
        if (t >= CHUNK) continue;
        *(float4 *)&to->q[t][i] = q[e] = to_tf32(q[e]);
        *(float4 *)&to->k[t][i] = k[e] = to_tf32(k[e]);
        if (t < n) *(float4 *)at = q[e], *(float4 *)(at + of_k) = k[e];
    }
}

// A warp the inverse of a head of values: lane j < 16 its column j, from above.
__device__ inline void invert_chunk(const DeltaArguments &a, const RecurringSequence &s, int first, int head,
                                    ChunkKeys *keys, float *to) {
    const int lane = threadIdx.x % 32, i = lane % 16;
    const bool there = first + i < s.n_tokens;
    const float2 rates =
        there ? a.between.rates[(int64_t)(s.first_token + first + i) * a.rule.n_value_heads + head]
              : make_float2(1, 0);
    const float logs = chunk_logs(there ? log_of(rates.x) : 0);
    float(*own)[CHUNK + 1] = keys->a[threadIdx.x / 32];
    for (int j = lane / 16; j < CHUNK; j += 2) {
        const float other = __shfl_sync(~0u, logs, j, 16);
        own[i][j] = j < i ? rates.y * expf(logs - other) * keys->kk[i][j] : 0;
    }
    __syncwarp();
    float t[CHUNK];
#pragma unroll
    for (int row = 0; row < CHUNK; row++) {
        float sum = row == i ? 1 : 0;
#pragma unroll
        for (int j = 0; j < row; j++) sum = fmaf(-own[row][j], t[j], sum);
        t[row] = row < i ? 0 : sum;
        if (lane < 16) to[row * CHUNK + i] = to_tf32(t[row]);
    }
    __syncwarp();
}

// A block a chunk and a head of keys: its q and k, which it leaves rounded, their products, and the inverses of the heads of
// values that share them. Grid: [chunks of the longest sequence, n_key_heads, sequences], block: 128.
template <bool ADDS>
__global__ void __launch_bounds__(BEFORE_THREADS)
    delta_chunk_kernel(const __grid_constant__ DeltaArguments a) {
    __shared__ __align__(16) ChunkKeys keys;
    const DeltaRule &rule = a.rule;
    const int key_head = blockIdx.y, first = blockIdx.x * CHUNK, dim = rule.key_dim;
    const RecurringSequence s = delta_sequence(a, blockIdx.z);
    let_next_begin();
    kernels_before();
    if (s.to < 0 || first >= s.n_tokens) return;
    const int chunk = chunk_base(s, blockIdx.z) + blockIdx.x, of_k = rule.n_key_heads * dim;
    take_keys(a.between.mixed + (int64_t)(s.first_token + first) * a.channels + key_head * dim, of_k,
              a.channels, s.n_tokens - first, dim, &keys);
    __syncthreads();
    for (int p = threadIdx.x; p < CHUNK_SQUARE; p += BEFORE_THREADS) {
        const int i = p / CHUNK, j = p % CHUNK;
        float qk = 0, kk = 0;
        for (int e = 0; e < dim && j <= i; e += 4) {
            const float4 q = *(const float4 *)&keys.q[i][e], k = *(const float4 *)&keys.k[i][e],
                         other = *(const float4 *)&keys.k[j][e];
            qk = fmaf(q.x, other.x, fmaf(q.y, other.y, fmaf(q.z, other.z, fmaf(q.w, other.w, qk))));
            kk = fmaf(k.x, other.x, fmaf(k.y, other.y, fmaf(k.z, other.z, fmaf(k.w, other.w, kk))));
        }
        chunk_qk(a, chunk, key_head)[p] = qk;
        keys.kk[i][j] = kk;
    }
    if (ADDS) return;
    __syncthreads();
    const int each = rule.n_value_heads / rule.n_key_heads;
    for (int e = threadIdx.x / 32; e < each; e += BEFORE_THREADS / 32) {
        const int head = rule.keys_alternate ? key_head + e * rule.n_key_heads : key_head * each + e;
        invert_chunk(a, s, first, head, &keys, chunk_inverse(a, chunk, head));
    }
}

// ---- one after the other -------------------------------------------------------------------------------------------

enum { CHUNK_THREADS = 64, CHUNK_STAGES = 3 };

// What a block needs of a chunk; rows lie such that a warp's reads of B fall into different banks. Of tokens beyond the last:
// zeros.
template <int KEY_DIM> struct ChunkTokens {
    float q[CHUNK][KEY_DIM + 8], k[CHUNK][KEY_DIM + 8], v[CHUNK][CHUNK_COLUMNS + 4];
    float inverse[CHUNK][CHUNK + 8], qk[CHUNK][CHUNK + 8];
    float2 rates[CHUNK];
};

// c += a·b, a [16, 8] and b [8, 8] of TF32, with g = lane / 4 and t = lane % 4:
//
//   a: a[0] (g, t), a[1] (g + 8, t), a[2] (g, t + 4), a[3] (g + 8, t + 4)     b: b0 (t, g), b1 (t + 4, g)
//   c: c[0] (g, 2t), c[1] (g, 2t + 1), c[2] (g + 8, 2t), c[3] (g + 8, 2t + 1)
//
// What is a c here becomes an a as it is, if its columns 2t and 2t + 1 are taken for t and t + 4, and rows of b likewise.
__device__ inline void mma_tf32(float c[4], const float a[4], float b0, float b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

// A c, scaled column by column, as an a.
__device__ inline void as_input(const float c[4], float even, float odd, float a[4]) {
    a[0] = to_tf32(c[0] * even), a[1] = to_tf32(c[2] * even);
    a[2] = to_tf32(c[1] * odd), a[3] = to_tf32(c[3] * odd);
}

// Asks for the chunk from token `first` of the sequence on, for a head's columns from `column` on.
template <int KEY_DIM, bool ADDS>
__device__ inline void ask_chunk(const DeltaArguments &a, const RecurringSequence &s, int chunk, int first,
                                 int head, int column, ChunkTokens<KEY_DIM> *to) {
    constexpr int ROW = KEY_DIM / 4, V = CHUNK_COLUMNS / 4, SQUARE = CHUNK / 4;
    const DeltaRule &rule = a.rule;
    const int key = delta_key_head(rule, head), keys = rule.n_key_heads * KEY_DIM;
    const float *mixed = a.between.mixed + (int64_t)(s.first_token + first) * a.channels;
    const int left = s.n_tokens - first;
    for (int p = threadIdx.x; p < CHUNK * ROW; p += CHUNK_THREADS) {
        const int t = p / ROW, i = p % ROW * 4;
        const float *from = mixed + (t < left ? (int64_t)t * a.channels + key * KEY_DIM + i : 0);
        copy_piece<16>(shared_at(&to->q[t][i]), from, t < left);
        copy_piece<16>(shared_at(&to->k[t][i]), from + (t < left ? keys : 0), t < left);
    }
    for (int p = threadIdx.x; p < CHUNK * V; p += CHUNK_THREADS) {
        const int t = p / V, i = p % V * 4;
        const float *from =
            mixed + (t < left ? (int64_t)t * a.channels + 2 * keys + head * rule.value_dim + column + i : 0);
        copy_piece<16>(shared_at(&to->v[t][i]), from, t < left);
    }
    const int t = threadIdx.x / SQUARE, i = threadIdx.x % SQUARE * 4; // of 64 threads each one piece
    copy_piece<16>(shared_at(&to->qk[t][i]), chunk_qk(a, chunk, key) + threadIdx.x * 4, true);
    if (!ADDS)
        copy_piece<16>(shared_at(&to->inverse[t][i]), chunk_inverse(a, chunk, head) + threadIdx.x * 4, true);
    if (threadIdx.x < CHUNK) {
        const bool there = threadIdx.x < left;
        const int64_t token = s.first_token + first + (there ? threadIdx.x : 0);
        copy_piece<8>(shared_at(&to->rates[threadIdx.x]), a.between.rates + token * rule.n_value_heads + head,
                      there);
    }
}

// Sᵀ of 16 columns of a head, by a warp: a c of 16 columns and 8 rows of S after the other.
template <int KEY_DIM> struct ChunkState {
    float s[KEY_DIM / 8][4];

    // at: the first element of the warp's columns; NULL: zeros.
    __device__ void load(const float *at, int stride) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int m = 0; m < KEY_DIM / 8; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[m][i] = at ? at[(int64_t)(8 * m + 2 * t + i % 2) * stride + g + i / 2 * 8] : 0;
    }
    __device__ void store(float *at, int stride) const {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int m = 0; m < KEY_DIM / 8; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                at[(int64_t)(8 * m + 2 * t + i % 2) * stride + g + i / 2 * 8] = s[m][i];
    }

    // Goes on by a chunk, of which n tokens are there; y of them [n, stride], the warp's columns.
    template <bool ADDS>
    __device__ void step(const ChunkTokens<KEY_DIM> &tokens, int n, int column, float *y, int64_t stride) {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const float2 rates = tokens.rates[lane % 16];
        const float logs = chunk_logs(lane % 16 < n ? log_of(rates.x) : 0),
                    end = __shfl_sync(~0u, logs, CHUNK - 1);
        float of_k[2][4] = {}, of_q[2][4] = {}, d[2][4];
#pragma unroll
        for (int m = 0; m < KEY_DIM / 8; m++) {
            float a[4];
            as_input(s[m], 1, 1, a);
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const float2 q = *(const float2 *)&tokens.q[8 * c + g][8 * m + 2 * t];
                mma_tf32(of_q[c], a, q.x, q.y);
                if (ADDS) continue;
                const float2 k = *(const float2 *)&tokens.k[8 * c + g][8 * m + 2 * t];
                mma_tf32(of_k[c], a, k.x, k.y);
            }
        }
        // By tokens 8c + 2t and 8c + 2t + 1 of the lane.
        float own_logs[2][2];
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int token = 8 * c + 2 * t + i;
                const float l = own_logs[c][i] = __shfl_sync(~0u, logs, token), decay = expf(l),
                            beta = __shfl_sync(~0u, rates.y, token);
#pragma unroll
                for (int h = 0; h < 2; h++) { // columns g and g + 8
                    const float v = tokens.v[token][column + g + 8 * h];
                    d[c][i + 2 * h] = beta * (ADDS ? v : fmaf(-decay, of_k[c][i + 2 * h], v));
                    of_q[c][i + 2 * h] *= decay;
                }
            }
        if (!ADDS) correct(tokens, d);
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const float l = __shfl_sync(~0u, logs, 8 * c + g);
#pragma unroll
            for (int j = 0; j <= c; j++) {
                float a[4];
                as_input(d[j], 1, 1, a);
                const float2 qk = *(const float2 *)&tokens.qk[8 * c + g][8 * j + 2 * t];
                const bool first = 8 * j + 2 * t <= 8 * c + g, second = 8 * j + 2 * t + 1 <= 8 * c + g;
                mma_tf32(of_q[c], a, first ? to_tf32(qk.x * expf(l - own_logs[j][0])) : 0,
                         second ? to_tf32(qk.y * expf(l - own_logs[j][1])) : 0);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int token = 8 * c + 2 * t + i % 2;
                if (token < n) y[token * stride + g + i / 2 * 8] = of_q[c][i];
            }
        }
        add(tokens, d, own_logs, end);
    }

  private:
    // δ = T·R.
    __device__ static void correct(const ChunkTokens<KEY_DIM> &tokens, float (&d)[2][4]) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        float r[2][4], sum[2][4] = {};
#pragma unroll
        for (int j = 0; j < 2; j++) as_input(d[j], 1, 1, r[j]);
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int j = 0; j <= c; j++) {
                const float2 b = *(const float2 *)&tokens.inverse[8 * c + g][8 * j + 2 * t];
                mma_tf32(sum[c], r[j], b.x, b.y);
            }
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) d[c][i] = sum[c][i];
    }

    // S ← Γ[15]·S + Σ Γ[15]/Γ[j]·k[j]·δ[j]ᵀ.
    __device__ void add(const ChunkTokens<KEY_DIM> &tokens, const float (&d)[2][4], const float (&logs)[2][2],
                        float end) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        const float decay = expf(end);
        float a[2][4];
#pragma unroll
        for (int j = 0; j < 2; j++) as_input(d[j], expf(end - logs[j][0]), expf(end - logs[j][1]), a[j]);
#pragma unroll
        for (int m = 0; m < KEY_DIM / 8; m++) {
#pragma unroll
            for (int i = 0; i < 4; i++) s[m][i] *= decay;
#pragma unroll
            for (int j = 0; j < 2; j++)
                mma_tf32(s[m], a[j], tokens.k[8 * j + 2 * t][8 * m + g],
                         tokens.k[8 * j + 2 * t + 1][8 * m + g]);
        }
    }
};

// A block 32 columns of a head's S, a warp 16 of them, through all chunks of a sequence, of which CHUNK_STAGES - 1 are on their
// way. Grid: [value_dim / 32, n_value_heads, sequences], block: 64.
template <int KEY_DIM, bool ADDS>
__global__ void __launch_bounds__(CHUNK_THREADS)
    delta_chunks_kernel(const __grid_constant__ DeltaArguments a) {
    extern __shared__ __align__(16) char shared[];
    ChunkTokens<KEY_DIM> *stages = (ChunkTokens<KEY_DIM> *)shared;
    const DeltaRule &rule = a.rule;
    const int head = blockIdx.y, first_column = blockIdx.x * CHUNK_COLUMNS,
              of_warp = threadIdx.x / 32 * 16;                 // of the block's columns
    const RecurringSequence s = delta_sequence(a, blockIdx.z); // the state before is there since begin(), too
    ChunkState<KEY_DIM> state;
    let_next_begin();
    if (s.to < 0) return;
    const int own = first_column + of_warp, base = chunk_base(s, blockIdx.z);
    state.load(s.from >= 0 ? delta_head(a, s.from, head) + own : NULL, rule.value_dim);
    kernels_before();
    const int n_chunks = (s.n_tokens + CHUNK - 1) / CHUNK;
    for (int i = 0; i < CHUNK_STAGES - 1; i++) {
        if (i < n_chunks) ask_chunk<KEY_DIM, ADDS>(a, s, base + i, i * CHUNK, head, first_column, &stages[i]);
        end_copies();
    }
    float *y = a.raw + (int64_t)s.first_token * a.width + head * rule.value_dim + own;
    for (int i = 0; i < n_chunks; i++) {
        await_copies<CHUNK_STAGES - 2>();
        __syncthreads(); // all have asked for this chunk, and are done with the one before, whose place is free
        const int ahead = i + CHUNK_STAGES - 1;
        if (ahead < n_chunks)
            ask_chunk<KEY_DIM, ADDS>(a, s, base + ahead, ahead * CHUNK, head, first_column,
                                     &stages[ahead % CHUNK_STAGES]);
        end_copies();
        const int n = min(CHUNK, s.n_tokens - i * CHUNK);
        state.template step<ADDS>(stages[i % CHUNK_STAGES], n, of_warp, y, a.width);
        y += (int64_t)CHUNK * a.width;
    }
    state.store(delta_head(a, s.to, head) + own, rule.value_dim);
}

// ---- the two -------------------------------------------------------------------------------------------------------

bool delta_chunks_fit(const DeltaArguments &a, int n_rows, int longest) {
    const DeltaRule *r = &a.rule;
    const int64_t squares = r->n_key_heads + (r->adds ? 0 : r->n_value_heads),
                  chunks = a.n_tokens / CHUNK + n_rows;
    return longest >= 2 * CHUNK && (r->key_dim == 128 || r->key_dim == 64) &&
           r->value_dim % CHUNK_COLUMNS == 0 && a.channels % 4 == 0 &&
           chunks * squares * CHUNK_SQUARE <= (int64_t)a.n_tokens * (a.channels - a.width);
}

template <int KEY_DIM, bool ADDS>
static cudaError_t launch_chunks(const CudaBackend *cuda, const DeltaArguments &a, int n_rows, int longest) {
    const DeltaRule *r = &a.rule;
    const size_t bytes = CHUNK_STAGES * sizeof(ChunkTokens<KEY_DIM>);
    cudaError_t code = cudaFuncSetAttribute(delta_chunks_kernel<KEY_DIM, ADDS>,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (code == cudaSuccess)
        code = launch_dependent(cuda, delta_chunk_kernel<ADDS>,
                                dim3((longest + CHUNK - 1) / CHUNK, r->n_key_heads, n_rows), BEFORE_THREADS,
                                0, a);
    if (code != cudaSuccess) return code;
    return launch_dependent(cuda, delta_chunks_kernel<KEY_DIM, ADDS>,
                            dim3(r->value_dim / CHUNK_COLUMNS, r->n_value_heads, n_rows), CHUNK_THREADS,
                            bytes, a);
}

cudaError_t delta_chunks(const CudaBackend *cuda, DeltaArguments a, int n_rows, int longest) {
    a.n_chunks = a.n_tokens / CHUNK + n_rows;
    a.chunks = a.raw + (int64_t)a.n_tokens * a.width;
    if (a.rule.key_dim == 64)
        return a.rule.adds ? launch_chunks<64, true>(cuda, a, n_rows, longest)
                           : launch_chunks<64, false>(cuda, a, n_rows, longest);
    return a.rule.adds ? launch_chunks<128, true>(cuda, a, n_rows, longest)
                       : launch_chunks<128, false>(cuda, a, n_rows, longest);
}
