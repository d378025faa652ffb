// What a prompt's tokens leave each other where they go in chunks: between delta_before() and the chunks' kernel.
//
// Within a chunk, with Γ[i] the product of γ up to its token i, Γ[i]/Γ[j] = e^(G[i] - G[j]), and S the state before it:
//   A[i][j] = β[i]·Γ[i]/Γ[j]·(k[i]·k[j]), j < i;     δ = T·R, T = (1 + A)⁻¹, R[i] = β[i]·(v[i] - Γ[i]·Sᵀk[i])
//   y[i] = Γ[i]·Sᵀq[i] + Σ Γ[i]/Γ[j]·(q[i]·k[j])·δ[j], j <= i;     S ← Γ[31]·S + Σ Γ[31]/Γ[j]·k[j]·δ[j]ᵀ
// (the WY form of Yang et al., arXiv:2412.06464, section 3). Where it adds T is 1 and R[i] β[i]·v[i].
//
//   delta_before()   of all chunks at once: the convolution, q·k of a chunk's tokens, T of each head of values
//   delta_chunks()   the chunks one after the other
//
// Factors are rounded to TF32, sums are float32: chunks begin with a step, so that results depend on where steps were cut.
//
// What is multiplied lies in tiles of 8 by 8, as the lanes of a warp take it, g = lane / 4 and t = lane % 4 (mma_tf32()):
// of T and of q·k, which end at the diagonal, tile (c, j <= c) after tile (0, 0), (1, 0), (1, 1), …; row after row in a tile. Of q
// and k, which lie in the place of the tokens' own, tile (c, m) after tile has tokens 8c … by elements 8m …: row after row those
// of even number, then the others. Of kᵀ, which wgmma takes (a.turns), tile (m, c) after tile, likewise by tokens.
#ifndef PALAVER_KERNELS_CUDA_RECURRING_DELTA_CHUNKS_CUH
#define PALAVER_KERNELS_CUDA_RECURRING_DELTA_CHUNKS_CUH

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/recurring/delta.cuh"

enum { CHUNK_TILE = 64, CHUNK_LOWER = DELTA_LOWER };
static_assert(DELTA_CHUNK == 32 && CHUNK_LOWER == 10 * CHUNK_TILE, "a lane a token, and ten tiles");

// Where of a tile's rows of q, k or kᵀ elements 2t and 2t + 1 of row g are.
__device__ inline int chunk_even(int g, int t) {
    return g * 4 + t;
}
__device__ inline int chunk_odd(int g, int t) {
    return CHUNK_TILE / 2 + g * 4 + t;
}
__device__ inline float2 chunk_pair(const float *tile, int g, int t) {
    return make_float2(tile[chunk_even(g, t)], tile[chunk_odd(g, t)]);
}

__device__ constexpr int chunk_lower_tile(int c, int j) {
    return (c * (c + 1) / 2 + j) * CHUNK_TILE;
}

__host__ __device__ inline int delta_all_chunks(const DeltaArguments &a) {
    return (a.n_tokens + DELTA_CHUNK - 1) / DELTA_CHUNK;
}

// In a.between.chunks: kᵀ of each chunk and head of keys; where it adds q·k of them, else Γ[i]/Γ[j]·(q[i]·k[j]) of each head of
// values, and T of it.
__device__ inline float *chunk_turned(const DeltaArguments &a, int chunk, int key_head) {
    return a.between.chunks + ((int64_t)chunk * a.rule.n_key_heads + key_head) * DELTA_CHUNK * a.rule.key_dim;
}
template <bool ADDS> __device__ inline float *chunk_products(const DeltaArguments &a, int chunk, int head) {
    const int64_t turned =
        a.turns ? (int64_t)delta_all_chunks(a) * a.rule.n_key_heads * DELTA_CHUNK * a.rule.key_dim : 0;
    const int heads = ADDS ? a.rule.n_key_heads : a.rule.n_value_heads;
    return a.between.chunks + turned + ((int64_t)chunk * heads + head) * CHUNK_LOWER;
}
__device__ inline float *chunk_inverse(const DeltaArguments &a, int chunk, int head) {
    return chunk_products<false>(a, delta_all_chunks(a) + chunk, head);
}

// Of a chunk's tokens: β, Γ[i], G[i], Γ[31]/Γ[i].
__device__ inline float4 *chunk_factors(const DeltaArguments &a, int chunk, int head) {
    return a.between.factors + ((int64_t)chunk * a.rule.n_value_heads + head) * DELTA_CHUNK;
}

// To the nearest number of TF32.
__device__ inline float to_tf32(float x) {
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & ~0x1fffu);
}

// The same for what a tensor core takes, which leaves the lower bits away by itself.
__device__ inline float as_tf32(float x) {
    return __uint_as_float(__float_as_uint(x) + 0x1000u);
}

// c += a·b, a [16, 8] and b [8, 8] of TF32:
//
//   a: a[0] (g, t), a[1] (g + 8, t), a[2] (g, t + 4), a[3] (g + 8, t + 4)     b: b.x (t, g), b.y (t + 4, g)
//   c: c[0] (g, 2t), c[1] (g, 2t + 1), c[2] (g + 8, 2t), c[3] (g + 8, 2t + 1)
//
// What is a c here becomes an a as it is, if its columns 2t and 2t + 1 are taken for t and t + 4, and rows of b likewise.
__device__ inline void mma_tf32(float (&c)[4], const float (&a)[4], float2 b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b.x)), "r"(__float_as_uint(b.y)));
}

// A c as an a, its columns 2t and 2t + 1 times these.
__device__ inline void as_input(const float (&c)[4], float even, float odd, float (&a)[4]) {
    a[0] = as_tf32(c[0] * even), a[1] = as_tf32(c[2] * even);
    a[2] = as_tf32(c[1] * odd), a[3] = as_tf32(c[3] * odd);
}

// ---- what a block needs of a chunk ---------------------------------------------------------------------------------

enum { CHUNK_GROUPS = DELTA_CHUNK / 8, CHUNK_LOADERS = 64 }; // threads that bring it

// v so that a warp's reads fall into different banks. Of tokens beyond the last: zeros.
template <int KEY_DIM, int COLUMNS, bool TURNED> struct ChunkTokens {
    enum { KEYS = DELTA_CHUNK * KEY_DIM };
    float k[KEYS], q[KEYS], turned[TURNED ? KEYS : 4];
    float inverse[CHUNK_LOWER], products[CHUNK_LOWER];
    float4 factors[DELTA_CHUNK];
    float v[DELTA_CHUNK][COLUMNS + 4];
};

template <int N> __device__ inline void ask_floats(float *to, const float *from, int thread) {
#pragma unroll
    for (int p = 0; p < N; p += 4 * CHUNK_LOADERS)
        if (N - p >= 4 * CHUNK_LOADERS || p + thread * 4 < N)
            copy_piece<16>(shared_at(to + p + thread * 4), from + p + thread * 4, true);
}

// Rows of N floats, stride of floats apart, of which `there` are, to rows of PITCH.
template <int N, int PITCH>
__device__ inline void ask_rows(float *to, const float *from, int64_t stride, int there, int thread) {
    constexpr int PIECES = N / 4, AT_ONCE = CHUNK_LOADERS / PIECES;
    const int row = thread / PIECES, at = thread % PIECES * 4;
    from += row * stride + at;
    const uint32_t place = shared_at(to + row * PITCH + at);
#pragma unroll
    for (int i = 0; i < DELTA_CHUNK / AT_ONCE; i++, from += AT_ONCE * stride)
        copy_piece<16>(place + i * AT_ONCE * PITCH * 4, from, row + i * AT_ONCE < there);
}

// Of the loading threads: asks for a chunk, for a head's columns from `column` on.
template <int KEY_DIM, int COLUMNS, bool TURNED, bool ADDS>
__device__ inline void ask_chunk(const DeltaArguments &a, int chunk, int head, int column, int thread,
                                 ChunkTokens<KEY_DIM, COLUMNS, TURNED> *to) {
    const DeltaRule &rule = a.rule;
    const int key = delta_key_head(rule, head), keys = rule.n_key_heads * KEY_DIM,
              left = a.n_tokens - chunk * DELTA_CHUNK, in_tiles = (left + 7) / 8 * 8;
    const float *mixed = a.between.mixed + (int64_t)chunk * DELTA_CHUNK * a.channels;
    ask_rows<KEY_DIM, KEY_DIM>(to->k, mixed + keys + key * KEY_DIM, a.channels, in_tiles, thread);
    ask_rows<KEY_DIM, KEY_DIM>(to->q, mixed + key * KEY_DIM, a.channels, in_tiles, thread);
    ask_rows<COLUMNS, COLUMNS + 4>(&to->v[0][0], mixed + 2 * keys + head * rule.value_dim + column,
                                   a.channels, left, thread);
    if (TURNED) ask_floats<DELTA_CHUNK * KEY_DIM>(to->turned, chunk_turned(a, chunk, key), thread);
    ask_floats<CHUNK_LOWER>(to->products, chunk_products<ADDS>(a, chunk, ADDS ? key : head), thread);
    if (!ADDS) ask_floats<CHUNK_LOWER>(to->inverse, chunk_inverse(a, chunk, head), thread);
    ask_floats<DELTA_CHUNK * 4>((float *)to->factors, (const float *)chunk_factors(a, chunk, head), thread);
}

// Of the loading threads: chunk after chunk, by turns to STAGES places, of which the others read one.
template <int KEY_DIM, int COLUMNS, bool TURNED, bool ADDS, int STAGES>
__device__ inline void bring_chunks(const DeltaArguments &a, int head, int column, int thread,
                                    ChunkTokens<KEY_DIM, COLUMNS, TURNED> (&to)[STAGES]) {
    const int n = delta_all_chunks(a);
    for (int i = 0, stage = 0; i <= n + STAGES - 2; i++, stage = stage + 1 == STAGES ? 0 : stage + 1) {
        if (i < n) ask_chunk<KEY_DIM, COLUMNS, TURNED, ADDS>(a, i, head, column, thread, &to[stage]);
        end_copies();
        if (i < STAGES - 2) continue;
        await_copies<STAGES - 2>();
        if constexpr (TURNED) show_stores();
        __syncthreads(); // chunk i - (STAGES - 2) is there, and the one before has been read
    }
}

// ---- what a warp has of S: 16 columns, a c of these by 8 rows after the other ---------------------------------------

// State: s[OWN][4], and place(m, i, stride), where in S, of rows of `stride` elements, s[m][i] lies behind the first of the
// columns. at: the first element of these; NULL: zeros.
template <class State> __device__ inline void load_state(State &state, const float *at, int stride) {
#pragma unroll
    for (int m = 0; m < State::OWN; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) state.s[m][i] = at ? at[state.place(m, i, stride)] : 0;
}
template <class State> __device__ inline void store_state(const State &state, float *at, int stride) {
#pragma unroll
    for (int m = 0; m < State::OWN; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) at[state.place(m, i, stride)] = state.s[m][i];
}

// ---- what a warp does with 16 columns of all tokens of a chunk: a c of 16 columns by 8 tokens after the other ------

// From Sᵀk to δ = T·R. v: the warp's first column.
template <bool ADDS, class Tokens>
__device__ inline void correct(const Tokens &tokens, const float *v, int pitch, float (&d)[CHUNK_GROUPS][4]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int c = 0; c < CHUNK_GROUPS; c++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int token = 8 * c + 2 * t + i % 2;
            const float4 f = tokens.factors[token];
            const float own = v[token * pitch + g + i / 2 * 8];
            d[c][i] = f.x * (ADDS ? own : fmaf(-f.y, d[c][i], own));
        }
    if constexpr (!ADDS) {
        float sum[CHUNK_GROUPS][4] = {};
#pragma unroll
        for (int j = 0; j < CHUNK_GROUPS; j++) {
            float a[4];
            as_input(d[j], 1, 1, a);
#pragma unroll
            for (int c = j; c < CHUNK_GROUPS; c++)
                mma_tf32(sum[c], a, *(const float2 *)&tokens.inverse[chunk_lower_tile(c, j) + lane * 2]);
        }
#pragma unroll
        for (int c = 0; c < CHUNK_GROUPS; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) d[c][i] = sum[c][i];
    }
}

// y += Σ Γ[i]/Γ[j]·(q[i]·k[j])·δ[j], j <= i.
template <bool ADDS, class Tokens>
__device__ inline void look_back(const Tokens &tokens, const float (&d)[CHUNK_GROUPS][4],
                                 float (&y)[CHUNK_GROUPS][4]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int j = 0; j < CHUNK_GROUPS; j++) {
        const float even = tokens.factors[8 * j + 2 * t].z, odd = tokens.factors[8 * j + 2 * t + 1].z;
        float a[4];
        as_input(d[j], 1, 1, a);
#pragma unroll
        for (int c = j; c < CHUNK_GROUPS; c++) {
            float2 qk = *(const float2 *)&tokens.products[chunk_lower_tile(c, j) + lane * 2];
            if (ADDS) {
                const float l = tokens.factors[8 * c + g].z;
                qk.x = c > j || 2 * t <= g ? as_tf32(qk.x * __expf(l - even)) : 0;
                qk.y = c > j || 2 * t + 1 <= g ? as_tf32(qk.y * __expf(l - odd)) : 0;
            }
            mma_tf32(y[c], a, qk);
        }
    }
}

// y of n tokens [n, stride], the warp's columns.
__device__ inline void leave_columns(const float (&v)[CHUNK_GROUPS][4], int n, float *y, int64_t stride) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    y += 2 * t * stride + g;
    if (n >= DELTA_CHUNK) {
#pragma unroll
        for (int c = 0; c < CHUNK_GROUPS; c++, y += 8 * stride)
#pragma unroll
            for (int i = 0; i < 4; i++) y[i % 2 * stride + i / 2 * 8] = v[c][i];
        return;
    }
#pragma unroll
    for (int c = 0; c < CHUNK_GROUPS; c++, y += 8 * stride)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (8 * c + 2 * t + i % 2 < n) y[i % 2 * stride + i / 2 * 8] = v[c][i];
}

// ---- who launches them ---------------------------------------------------------------------------------------------

// delta_before.cu: of the only sequence of a step. q and k, in tiles, and v behind the convolution go to a.between.mixed, whose
// chunks are whole.
cudaError_t delta_before(const CudaBackend *cuda, const DeltaArguments &a);

// delta_mma.cu, delta_wgmma.cu: the chunks one after the other, by mma.sync or on Hopper.
cudaError_t delta_by_mma(const CudaBackend *cuda, const DeltaArguments &a);
cudaError_t delta_by_wgmma(const CudaBackend *cuda, const DeltaArguments &a);

#endif
