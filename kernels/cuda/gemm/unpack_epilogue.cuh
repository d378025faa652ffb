// Epilogues of unpack_tile.cuh: what is done with a tile's sums in the registers of the warps that multiplied.
//
// Of a tile of FLAT_ROWS rows of W and 8·TILES tokens from `token` on, lane l = 4·g + t of warp w holds sums[i]: rows
// 16w + g ([0], [1]) and 8 further ([2], [3]), tokens 8i + 2t and the next. What epilogues take and where it goes:
// FlatArguments.
#ifndef PALAVER_KERNELS_CUDA_GEMM_UNPACK_EPILOGUE_CUH
#define PALAVER_KERNELS_CUDA_GEMM_UNPACK_EPILOGUE_CUH

#include "kernels/cuda/flat/flat_epilogue.cuh"

// y = sum, in halves: pairs of rows lie side by side in y, so that 8 × 8 sums are transposed first.
struct UnpackStore {
    template <int TILES>
    static __device__ void end(const FlatArguments &a, int tile, int token, float (&sums)[TILES][4]) {
        int lane = threadIdx.x % 32, row = tile * FLAT_ROWS + threadIdx.x / 32 * 16 + lane % 4 * 2;
        int first = token + lane / 4;
        __half *to = (__half *)a.y + (int64_t)first * a.y_stride + row;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                uint32_t pair = transposed(pack_halves(sums[i][2 * r], sums[i][2 * r + 1]));
                if (first + 8 * i < a.n && row + 8 * r < a.w.rows) *(uint32_t *)(to + 8 * r) = pair;
            }
            to += 8 * (int64_t)a.y_stride;
        }
    }
    static __device__ uint32_t pack_halves(float low, float high) {
        __half2 pair = __floats2half2_rn(low, high);
        return *(uint32_t *)&pair;
    }
};

// y = sum, or y += sum, in float32. Nobody else adds to an element meanwhile.
template <bool ADD> struct UnpackFloat {
    template <int TILES>
    static __device__ void end(const FlatArguments &a, int tile, int token, float (&sums)[TILES][4]) {
        int lane = threadIdx.x % 32, row = tile * FLAT_ROWS + threadIdx.x / 32 * 16 + lane / 4;
        int first = token + lane % 4 * 2;
        float *to = (float *)a.y + (int64_t)first * a.y_stride + row;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float *at = to + j % 2 * a.y_stride + j / 2 * 8;
                if (first + 8 * i + j % 2 >= a.n || row + j / 2 * 8 >= a.w.rows) continue;
                if (ADD)
                    atomicAdd(at, sums[i][j]);
                else
                    *at = sums[i][j];
            }
            to += 8 * (int64_t)a.y_stride;
        }
    }
};

// g = activation(gate) · up, in halves. Gates are in lanes of even rows, ups in those of odd ones: the former finish
// the fragment's upper rows, the latter the lower.
template <Activation ACTIVATION> struct UnpackGated {
    template <int TILES>
    static __device__ void end(const FlatArguments &a, int tile, int token, float (&sums)[TILES][4]) {
        int lane = threadIdx.x % 32, g = lane / 4;
        bool odd = g % 2;
        int unit = tile * (FLAT_ROWS / 2) + threadIdx.x / 32 * 8 + g / 2 + (odd ? 4 : 0);
        int first = token + lane % 4 * 2;
        __half *to = (__half *)a.y + (int64_t)first * a.y_stride + unit;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float got = __shfl_xor_sync(~0u, odd ? sums[i][j] : sums[i][j + 2], 4);
                float gate = odd ? got : sums[i][j], up = odd ? sums[i][j + 2] : got;
                if (first + 8 * i + j < a.n && unit < a.w.rows / 2)
                    to[j * a.y_stride] = __float2half_rn(activate(ACTIVATION, gate) * up);
            }
            to += 8 * (int64_t)a.y_stride;
        }
    }
};

// The same of any activation, with biases of gates and of ups, NULL: none.
struct UnpackPairs {
    template <int TILES>
    static __device__ void end(const FlatArguments &a, int tile, int token, float (&sums)[TILES][4]) {
        const int lane = threadIdx.x % 32, g = lane / 4;
        const bool odd = g % 2;
        const int unit = tile * (FLAT_ROWS / 2) + threadIdx.x / 32 * 8 + g / 2 + (odd ? 4 : 0);
        const int first = token + lane % 4 * 2;
        const bool there = unit < a.w.rows / 2;
        const float of_gate = a.bias && there ? a.bias[unit] : 0,
                    of_up = a.other && there ? a.other[unit] : 0;
        __half *to = (__half *)a.y + (int64_t)first * a.y_stride + unit;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const float got = __shfl_xor_sync(~0u, odd ? sums[i][j] : sums[i][j + 2], 4);
                const float gate = odd ? got : sums[i][j], up = odd ? sums[i][j + 2] : got;
                if (first + 8 * i + j < a.n && there)
                    to[j * a.y_stride] =
                        __float2half_rn(activate_pair(a.activation, gate + of_gate, up + of_up));
            }
            to += 8 * (int64_t)a.y_stride;
        }
    }
};

// Heads: RoPE, q to y, k and v to their slots.
struct UnpackHeads {
    template <int TILES>
    static __device__ void end(const FlatArguments &a, int tile, int token, float (&sums)[TILES][4]) {
        FlatArguments b = a;
        b.n -= token;
        b.y = (__half *)a.y + (int64_t)token * a.y_stride;
        b.heads.rope += (int64_t)token * (a.heads.head_dim / 2);
        b.heads.slots += token;
        end_heads<__half, InOrder, TILES>(b, tile, sums);
    }
};

#endif
