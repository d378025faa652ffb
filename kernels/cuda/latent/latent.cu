#include "kernels/cuda/latent/latent.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/rope.cuh"
#include "kernels/temperature.h"

// Rows that qkv's first GEMM has left: [queries, or what becomes of q_down | latent | rotary part].
struct LatentRows {
    int stride, first; // elements of a row, and of its first part
    int q_rank, rank, rotary_dim;
    bool interleaved;
    float eps;
    const float *q_norm, *latent_norm;
    const float *
        temperatures; // [n_tokens] that queries are multiplied by, as what they are made of; NULL: they are not
    const float2 *rope; // [n_tokens, rotary_dim/2]; NULL: nothing is turned
    const int32_t *slots;
    KvLayer kv;
};

__device__ inline void store_element(const KvLayer &kv, int64_t at, float v) {
    if (kv.type == DTYPE_F16)
        ((__half *)kv.k)[at] = __float2half_rn(v);
    else if (kv.type == DTYPE_BF16)
        ((__nv_bfloat16 *)kv.k)[at] = __float2bfloat16_rn(v);
    else
        ((float *)kv.k)[at] = v;
}

template <class T> __device__ inline float norm_scale(const T *x, int n, float eps, float *sums) {
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 256) sum += to_float(x[i]) * to_float(x[i]);
    return rsqrtf(block_sum<256>(sum, sums) / n + eps);
}

// A block a token: norms, RoPE of the rotary part, and the row into its slot; low [n_tokens, q_rank]: normed, for the
// next GEMM. Grid: [n_tokens], block: 256.
template <class T>
__global__ void __launch_bounds__(256)
    store_latents_kernel(const __grid_constant__ LatentRows a, const T *rows, T *low) {
    __shared__ float sums[8];
    const int token = blockIdx.x;
    const T *row = rows + (int64_t)token * a.stride, *latent = row + a.first, *rotary = latent + a.rank;
    let_next_begin();
    kernels_before();
    if (a.q_rank > 0) {
        const float temperature = a.temperatures ? a.temperatures[token] : 1,
                    scale = norm_scale(row, a.q_rank, a.eps, sums) * temperature;
        for (int i = threadIdx.x; i < a.q_rank; i += 256)
            low[(int64_t)token * a.q_rank + i] = from_float<T>(to_float(row[i]) * scale * a.q_norm[i]);
    }
    const float scale = norm_scale(latent, a.rank, a.eps, sums);
    if (a.slots[token] < 0) return;
    const int64_t at = (int64_t)a.slots[token] * a.kv.slot_stride;
    for (int i = threadIdx.x; i < a.rank; i += 256)
        store_element(a.kv, at + a.rotary_dim + i, to_float(latent[i]) * scale * a.latent_norm[i]);
    for (int i = threadIdx.x; i < a.rotary_dim / 2; i += 256) {
        const RopePlace place(i, a.rotary_dim, a.interleaved);
        float x = to_float(rotary[place.first]), y = to_float(rotary[place.second]);
        if (a.rope) rope_pair(x, y, a.rope[(int64_t)token * (a.rotary_dim / 2) + i], x, y);
        store_element(a.kv, at + place.first, x);
        store_element(a.kv, at + place.second, y);
    }
}

// ---- qkv ---------------------------------------------------------------------------------------------------

static Status store_latents(CudaBackend *cuda, const Layer *layer, const KvLayer *kv, Error *error) {
    const DecoderShape *s = cuda->shape;
    const Latent *l = &s->latent;
    const int n = cuda->step.n_tokens;
    LatentRows a = {layer->qkv.rows,
                    layer->qkv.rows - s->head_dim,
                    l->q_rank,
                    l->rank,
                    s->rope.rotary_dim,
                    s->rope.kind == ROPE_INTERLEAVED,
                    l->norm_eps,
                    layer->q_down_norm,
                    layer->latent_norm,
                    cuda->step.tempered && layer_is_tempered(s, kv) ? cuda->step.temperatures : NULL,
                    kv->rope < 0 ? NULL : cuda_turns(cuda, kv),
                    cuda->step.slots,
                    *kv};
    cudaError_t code;
    WITH_OPERAND(cuda, (code = launch_dependent(cuda, store_latents_kernel<T>, n, 256, 0, a,
                                                (const T *)cuda->scratch.wide, (T *)cuda->scratch.low)));
    return cuda_check(code, error, "latents of %d tokens", n);
}

// From expanded queries, `stride` elements a token.
static Status absorb(CudaBackend *cuda, const Layer *layer, const KvLayer *kv, const void *expanded,
                     int64_t stride, void *q, Error *error) {
    const DecoderShape *s = cuda->shape;
    const Latent *l = &s->latent;
    const int n = cuda->step.n_tokens, rotary = s->rope.rotary_dim;
    HeadProduct product = {&layer->k_up, n, s->n_heads, l->rank, l->plain_dim};
    product.x = expanded, product.x_token = stride, product.x_head = l->plain_dim + rotary;
    product.y = (char *)q + (size_t)rotary * operand_bytes(cuda->operand);
    product.y_token = (int64_t)s->n_heads * s->head_dim, product.y_head = s->head_dim;
    product.rotary_dim = rotary, product.interleaved = s->rope.kind == ROPE_INTERLEAVED;
    product.rope = kv->rope < 0 ? NULL : cuda_turns(cuda, kv);
    return head_product(cuda, &product, error);
}

Status latent_qkv(CudaBackend *cuda, const Layer *layer, const float *x, const KvLayer *kv, void *q,
                  Error *error) {
    const DecoderShape *s = cuda->shape;
    const int n = cuda->step.n_tokens;
    const void *expanded = cuda->scratch.wide;
    int64_t stride = layer->qkv.rows;
    Gemm gemm = {&layer->qkv, NULL, n, EPILOGUE_STORE, cuda->scratch.wide};
    gemm.chosen = &cuda->step.chosen.qkv;
    Status status = gemm_take_norm(cuda, &gemm, x, NULL, layer->attn_norm, error);
    if (!status) status = cuda_gemm(cuda, &gemm, error);
    if (!status) status = store_latents(cuda, layer, kv, error);
    if (!status && s->latent.q_rank > 0) {
        Gemm up = {&layer->q_up, NULL, n, EPILOGUE_STORE, cuda->scratch.expanded};
        status = gemm_take(cuda, &up, cuda->scratch.low, error);
        if (!status) status = cuda_gemm(cuda, &up, error);
        expanded = cuda->scratch.expanded, stride = layer->q_up.rows;
    }
    return status ? status : absorb(cuda, layer, kv, expanded, stride, q, error);
}

// ---- out ---------------------------------------------------------------------------------------------------

Status latent_values(CudaBackend *cuda, const Layer *layer, const void *y, const void **values,
                     Error *error) {
    const DecoderShape *s = cuda->shape;
    const Latent *l = &s->latent;
    HeadProduct product = {&layer->v_up, cuda->step.n_tokens, s->n_heads, l->value_dim, l->rank};
    product.x = (const char *)y + (size_t)s->rope.rotary_dim * operand_bytes(cuda->operand);
    product.x_token = (int64_t)s->n_heads * s->head_dim, product.x_head = s->head_dim;
    product.y = cuda->scratch.expanded;
    product.y_token = decoder_attended_width(s), product.y_head = l->value_dim;
    *values = cuda->scratch.expanded;
    return head_product(cuda, &product, error);
}
