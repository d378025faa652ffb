// What the attend phase of the decoding kernel knows of its layer's heads: where all layers' are alike, what the arguments
// say; where they are of two kinds, those of one.
#ifndef PALAVER_KERNELS_CUDA_DECODE_HEADS_CUH
#define PALAVER_KERNELS_CUDA_DECODE_HEADS_CUH

#include "kernels/cuda/decode/decode.cuh"

// EIGHTS: times eight elements a lane has of a slot.
struct AlikeHeads {
    static constexpr int EIGHTS = 1;
    const DecodeArguments &a;
    __device__ int dim() const { return a.head_dim; }
    __device__ int group() const { return a.group; }
    __device__ int n_kv_heads() const { return a.n_kv_heads; }
    __device__ int q_dim() const { return a.q_dim; }
    __device__ int kv_dim() const { return a.kv_dim; }
    __device__ int rotary_dim() const { return a.rotary_dim; }
    __device__ int first() const { return 0; }
    __device__ int n_splits() const { return a.n_splits; }
    __device__ int split_slots() const { return a.split_slots; }
    __device__ int combine_elements() const { return a.combine_elements; }
    __device__ static int most_streams() { return DECODE_WARPS; }
    __device__ int head_of(int e) const { return e * a.head_factor >> 22; } // of the group's element e
    __device__ int64_t slot_stride() const { return a.head_dim; }
    __device__ int64_t head_stride() const { return a.cache.head_stride; }
    __device__ uint32_t *parts() const { return a.parts; }
    __device__ unsigned long long *weights() const { return a.weights; }
    __device__ unsigned *arrived() const { return a.head_arrived; }
    __device__ unsigned round() const { return a.head_round; }
    __device__ const float *v_norm() const { return NULL; }
};

template <int KIND> struct KindHeads {
    static constexpr int DIM = KIND ? WIDE_DIM : USUAL_DIM, EIGHTS = DIM / USUAL_DIM;
    const DecodeArguments &a;
    const DecodeKind &layer;
    __device__ const DecodeHeads &own() const { return a.heads[KIND]; }
    __device__ static int dim() { return DIM; }
    __device__ int group() const { return own().group; }
    __device__ int n_kv_heads() const { return own().n_kv_heads; }
    __device__ int q_dim() const { return own().q_dim; }
    __device__ int kv_dim() const { return own().kv_dim; }
    __device__ int rotary_dim() const { return own().rotary_dim; }
    __device__ int first() const { return own().first; }
    __device__ int n_splits() const { return own().n_splits; }
    __device__ int split_slots() const { return own().split_slots; }
    __device__ int combine_elements() const { return own().combine_elements; }
    __device__ int most_streams() const { return own().streams; }
    __device__ static int head_of(int e) { return e / DIM; }
    __device__ int64_t slot_stride() const { return own().slot_stride; }
    __device__ int64_t head_stride() const { return own().head_stride; }
    __device__ uint32_t *parts() const { return own().parts; }
    __device__ unsigned long long *weights() const { return own().weights; }
    __device__ unsigned *arrived() const { return own().head_arrived; }
    __device__ unsigned round() const { return own().head_round; }
    __device__ const float *v_norm() const { return layer.v_norm; }
};

#endif
