// Attention by heads too wide for the registers of a warp: attention/wide_kernel.cuh. Rows of a cache of latents (ops.h, Latent),
// which are key and value of all heads, and heads of 512 (Gemma 4).
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_WIDE_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_WIDE_CUH

#include "kernels/cuda/attention/attend.cuh"
#include "kernels/cuda/device/built.cuh"

enum { LATENT_ROW = ATTEND_LATENT_ROW, WIDE_HEAD = ATTEND_WIDE_HEAD };

// A block's rows of queries, 16 times `tiles`, and its keys of a stage.
struct WideForm {
    int tiles, keys;
};
// Bytes of a block: queries, two stages of keys, and of values where they are not the keys, weights.
constexpr size_t wide_shared(int head_dim, WideForm f) {
    const size_t rows = 16 * (size_t)f.tiles, kept = head_dim == LATENT_ROW ? 1 : 2;
    return 2 * ((rows + 2 * kept * (size_t)f.keys) * ((size_t)head_dim + 8) + rows * ((size_t)f.keys + 8));
}

static inline bool is_wide(int head_dim) {
    return head_dim == LATENT_ROW || head_dim == WIDE_HEAD;
}

// Of a block for so many rows: where shared memory is short fewer keys, then fewer rows.
static inline WideForm wide_form(const Card *card, int head_dim, int rows) {
    const bool latent = head_dim == LATENT_ROW;
    const int tiles = rows <= 16 ? 1 : rows <= 32 && latent ? 2 : 4, least = latent ? 32 : 16;
    const WideForm forms[] = {{tiles, latent && tiles < 4 ? 64 : 32}, {tiles, least}};
    for (const WideForm &f : forms)
        if (wide_shared(head_dim, f) + ATTEND_WIDE_STATIC <= card->shared_limit) return f;
    return WideForm{1, least};
}

// Blocks that a split is divided among, where the step was cut for more KV heads than these.
enum { WIDE_MOST_PIECES = 8 };
static inline int wide_pieces(const AttendHeads *heads, int cut_kv_heads) {
    const int n = is_wide(heads->head_dim) ? cut_kv_heads / heads->n_kv_heads : 1;
    return n < 1 ? 1 : n > WIDE_MOST_PIECES ? WIDE_MOST_PIECES : n;
}

// For what dispatch_attend() gives it; split: tiles of few tokens, in splits.
cudaError_t attend_wide(const CudaBackend *cuda, const AttendLaunch *launch, bool split);

struct WideArguments {
    AttendArguments a;
    DType type; // of q and y
    const void *q, *q_sinks;
    void *y;
    const AttendTile *split_tiles; // NULL: tiles are whole
    int pieces;                    // see wide_pieces(); of whole tiles 1
    int parts;                     // rows of a piece, of all heads
    float *sums;                   // [n_splits, pieces, parts, head_dim]
    float2 *weights;               // [n_splits, pieces, parts] largest score and sum
};

// The kernels of caches in a type, and of all that are brought as float16 (wide_cache.cu); rows: of a KV head's tile.
enum WideCache { WIDE_HALVES, WIDE_BFLOATS, WIDE_OTHERS };
template <WideCache CACHE>
MAY_LACK cudaError_t wide_launch(const CudaBackend *cuda, const WideArguments &l, int rows, int n);

// Of tiles of many tokens, on Hopper (wide_wgmma.cu), where dispatch_attend() says so.
cudaError_t attend_wide_by_wgmma(const CudaBackend *cuda, const AttendLaunch *launch);

// Eight elements of any type of 16 bits as such of C.
template <class C> __device__ inline uint4 eight_of(DType type, const void *from, int64_t at) {
    union {
        uint4 all;
        __half h[8];
        __nv_bfloat16 b[8];
        C c[8];
    } in, out;
    in.all = *(const uint4 *)((const char *)from + at * 2);
#pragma unroll
    for (int i = 0; i < 8; i++)
        out.c[i] = from_float<C>(type == DTYPE_F16 ? to_float(in.h[i]) : to_float(in.b[i]));
    return out.all;
}

#endif
