// qkv: h = norm(x); q, k, v = W·h + b; norms of heads; RoPE; k and v into their slots.
#include "kernels/cuda/cache/store.cuh"
#include "kernels/cuda/gemm/gemm.cuh"
#include "kernels/cuda/heads.cuh"
#include "kernels/cuda/latent/latent.cuh"
#include "kernels/cuda/ops/convolve.cuh"
#include "kernels/cuda/ops/products.cuh"
#include "kernels/cuda/recurring/delta.cuh"
#include "kernels/cuda/rope.cuh"
#include "kernels/temperature.h"

// Whether the GEMM stores its sums as they are. Of bf16 eight bits are left: rounded before RoPE as well as behind it,
// queries and keys are as far from float32 as everything else of a layer together.
static bool stores_sums(const CudaBackend *cuda, const Layer *layer) {
    return cuda->operand == DTYPE_BF16 && !linear_is_w8(&layer->qkv);
}

// From products that are stored. rows: norms are of rows of which other cards have a part, and these are all cards' squares;
// NULL: there are no others.
static Status finish_heads(CudaBackend *cuda, HeadArguments a, const Layer *layer, const ShardRows *rows,
                           void *q, Error *error) {
    HeadsCase c = {cuda->step.kind, a.n_tokens, a.head_dim, plain_heads(a),
                   a.kv.key_feedback && feeds_back_in_quads(a.kv, a.head_dim)};
    HeadsKernel kernel = dispatch_heads(&c);
    const bool in_floats = stores_sums(cuda, layer);
    cudaError_t code = rows               ? row_scales_of_squares(cuda, &a, rows)
                       : layer->row_norms ? row_scales(cuda, &a, in_floats)
                                          : cudaSuccess;
    cuda->step.chosen.heads = dispatch_heads_name(kernel);
    if (code == cudaSuccess && in_floats)
        code = heads_finish<__nv_bfloat16, float>(cuda, kernel, a, q);
    else if (code == cudaSuccess)
        WITH_OPERAND(cuda, (code = heads_finish<T, T>(cuda, kernel, a, q)));
    return cuda_check(code, error, "[%d, %d heads of %d]", a.n_tokens, a.n_heads + 2 * a.n_kv_heads,
                      a.head_dim);
}

static HeadArguments arguments_of(const CudaBackend *cuda, const Layer *layer, const KvLayer *kv) {
    const DecoderShape *s = cuda->shape;
    HeadArguments a = {};
    a.n_tokens = cuda->step.n_tokens;
    a.bias = layer->b_qkv, a.q_norm = layer->q_norm, a.k_norm = layer->k_norm, a.v_norm = layer->v_norm;
    a.temperatures = cuda->step.tempered && layer_is_tempered(s, kv) ? cuda->step.temperatures : NULL;
    a.norms_turned = s->norms_turned, a.layer_norms = s->head_layer_norms, a.eps = s->norm_eps;
    a.n_heads = s->n_heads, a.n_kv_heads = kv->borrowed ? 0 : kv_layer_heads(s, kv);
    a.head_dim = kv_layer_head_dim(s, kv);
    a.rotary_dim = kv->rope < 0 ? 0 : rope_of_table(&s->rope, kv->rope).rotary_dim;
    a.interleaved = s->rope.kind == ROPE_INTERLEAVED;
    a.rope = cuda_turns(cuda, kv), a.rope_stride = s->rope.rotary_dim / 2;
    a.slots = cuda->step.slots, a.kv = *kv;
    return a;
}

// Products, stored in cuda->scratch.wide.
static Status store_products(CudaBackend *cuda, const Layer *layer, Gemm *gemm, Error *error) {
    gemm->epilogue = stores_sums(cuda, layer) ? EPILOGUE_SUMS : EPILOGUE_STORE;
    gemm->y = cuda->scratch.wide, gemm->heads = NULL;
    return cuda_gemm(cuda, gemm, error);
}

// Of a layer that convolves; the norm is the GEMM's.
static Status convolve(CudaBackend *cuda, const Layer *layer, const KvLayer *kv, Gemm *gemm, void *y,
                       Error *error) {
    const DecoderShape *s = cuda->shape;
    ConvolveArguments a = {};
    a.n_tokens = cuda->step.n_tokens;
    a.alone = cuda->step.padded || cuda->step.n_sequences == cuda->step.n_tokens; // padded: what decodes
    a.bias = layer->b_qkv, a.conv = layer->conv, a.conv_bias = layer->conv_bias, a.taps = s->convolution.taps;
    a.n_heads = s->n_heads, a.n_kv_heads = kv_layer_heads(s, kv), a.head_dim = kv_layer_head_dim(s, kv);
    a.slots = cuda->step.slots, a.earlier = cuda->step.earlier, a.kv = *kv;
    Status status = store_products(cuda, layer, gemm, error);
    cudaError_t code = cudaSuccess;
    if (status) return status;
    cuda->step.chosen.heads = "convolve";
    if (stores_sums(cuda, layer))
        code = convolve_finish<__nv_bfloat16, float>(cuda, a, y);
    else
        WITH_OPERAND(cuda, (code = convolve_finish<T, T>(cuda, a, y)));
    return cuda_check(code, error, "a convolution over %d of [%d, %d heads of %d]", a.taps, a.n_tokens,
                      a.n_heads, a.head_dim);
}

Status cuda_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    const int n = cuda->step.n_tokens;
    cuda->step.gate = AttentionGate{};
    if (layer->recurs) {
        Status status = delta_qkv(cuda, layer, (const float *)x, kv, q, error);
        return status ? error_prefix(error, "qkv: ") : STATUS_OK;
    }
    if (s->latent.rank > 0) {
        Status status = kv_layer_check(kv, s->head_dim, error);
        if (!status) status = latent_qkv(cuda, layer, (const float *)x, kv, q, error);
        return status ? error_prefix(error, "qkv: ") : STATUS_OK;
    }
    HeadArguments a = arguments_of(cuda, layer, kv);
    Gemm gemm = {&layer->qkv, NULL, n, EPILOGUE_HEADS, q};
    gemm.order = layer->orders.qkv;
    gemm.heads = &a, gemm.chosen = &cuda->step.chosen.qkv;
    Status status = kv_layer_check(kv, a.head_dim, error);
    if (!status) status = gemm_take_norm(cuda, &gemm, (const float *)x, NULL, layer->attn_norm, error);
    if (!status && kv->convolves)
        status = convolve(cuda, layer, kv, &gemm, q, error);
    else if (!status)
        status = cuda_gemm(cuda, &gemm, error);
    if (status == STATUS_UNSUPPORTED && !kv->convolves) {
        status = store_products(cuda, layer, &gemm, error);
        if (!status) status = finish_heads(cuda, a, layer, NULL, q, error);
    }
    if (!status && layer->attn_gate.rows) {
        LayerInput input = {(const float *)x, layer->attn_norm, layer->orders.qkv, gemm};
        status = gate_make(cuda, layer, &input, error);
    }
    return status ? error_prefix(error, "qkv: ") : STATUS_OK;
}

// ---- in two, where other cards have a part of rows that are normed whole ---------------------------------------

Status cuda_row_products(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv,
                         const ShardRows *rows, void *q, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const HeadArguments a = arguments_of(cuda, layer, kv);
    Gemm gemm = {&layer->qkv, NULL, a.n_tokens, EPILOGUE_STORE, q};
    gemm.order = layer->orders.qkv, gemm.chosen = &cuda->step.chosen.qkv;
    Status status = kv_layer_check(kv, a.head_dim, error);
    if (!status && layer->attn_gate.rows) // of which a card would need a part
        status = error_set(error, STATUS_UNSUPPORTED, "a gate behind attention over several cards");
    if (!status) status = gemm_take_norm(cuda, &gemm, (const float *)x, NULL, layer->attn_norm, error);
    if (!status) status = store_products(cuda, layer, &gemm, error);
    if (status) return error_prefix(error, "qkv: ");
    return cuda_check(row_squares(cuda, a, stores_sums(cuda, layer), rows), error,
                      "squares of rows of %d tokens", a.n_tokens);
}

Status cuda_norm_rows(Backend *backend, const Layer *layer, const KvLayer *kv, const ShardRows *rows, void *q,
                      Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Status status = finish_heads(cuda, arguments_of(cuda, layer, kv), layer, rows, q, error);
    return status ? error_prefix(error, "qkv: ") : STATUS_OK;
}
