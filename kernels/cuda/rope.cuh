// RoPE and norms of heads, as every kernel does them: one head in a warp's shared memory, or a pair in registers.
#ifndef PALAVER_KERNELS_CUDA_ROPE_CUH
#define PALAVER_KERNELS_CUDA_ROPE_CUH

#include <cuda_runtime.h>

// The sum over a warp's lanes, in all of them.
__device__ __forceinline__ float warp_sum(float v) {
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// The pair (x, y) turned by an angle, of which `turn` is cos and sin, times the rope's magnitude.
__device__ __forceinline__ void rope_pair(float x, float y, const float2 &turn, float &first, float &second) {
    // Rounded here as everywhere: what shares no kernel may still have to be the same.
    first = fmaf(x, turn.x, -__fmul_rn(y, turn.y));
    second = fmaf(x, turn.y, __fmul_rn(y, turn.x));
}

// Where the elements of pair i of a head lie.
struct RopePlace {
    int first, second;
    __device__ __forceinline__ RopePlace(int i, int rotary_dim, bool interleaved)
        : first(interleaved ? 2 * i : i), second(interleaved ? 2 * i + 1 : i + rotary_dim / 2) {}
};

// A warp turns the pairs of head v [head_dim], times `scale`, into `to` [head_dim], which may be v; turns
// [rotary_dim/2].
__device__ __forceinline__ void rope_head(const float2 *turns, int rotary_dim, bool interleaved, float scale,
                                          const float *v, float *to) {
    for (int i = threadIdx.x % 32; i < rotary_dim / 2; i += 32) {
        const RopePlace at(i, rotary_dim, interleaved);
        float x = v[at.first] * scale, y = v[at.second] * scale;
        rope_pair(x, y, turns[i], to[at.first], to[at.second]);
    }
}

// A warp multiplies head v [dim] with norm [dim] over its root mean square; squares: the lane's share of their sum.
__device__ __forceinline__ void norm_head(const float *norm, float squares, float eps, float *v, int dim) {
    float scale = rsqrtf(warp_sum(squares) / dim + eps);
    for (int i = threadIdx.x % 32; i < dim; i += 32) v[i] *= scale * norm[i];
}

#endif
