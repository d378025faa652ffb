// gate_up and down of layers of experts: see experts.cuh.
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/device/by_format.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/ops/gate_up.cuh"
#include "kernels/cuda/ops/out.cuh"

static ExpertsWay way_of(const CudaBackend *cuda, const Layer *layer) {
    const Experts *e = &cuda->shape->experts;
    const CudaStep *s = &cuda->step;
    const ExpertsStep step = {s->kind,
                              s->gemm_kind,
                              s->n_tokens * e->n_active,
                              e->n,
                              s->n_tokens,
                              experts_flat(cuda, layer),
                              experts_quantised(layer)};
    return dispatch_experts(&step);
}

// Whether pairs and g are f16 where the operand type is bf16: where tiles unpack W, to halves.
static bool halved(const CudaBackend *cuda, const Layer *layer, ExpertsWay way) {
    return cuda->operand == DTYPE_BF16 && layer->gate_up.part[0].format != FORMAT_BF16 &&
           (way == EXPERTS_FLAT || (way == EXPERTS_GROUPED && experts_tiled(cuda, layer)));
}

static char *shared_g(const CudaBackend *cuda, void *g) {
    const Experts *e = &cuda->shape->experts;
    return (char *)g +
           (size_t)cuda->step.n_tokens * (size_t)e->n_active * (size_t)e->size * operand_bytes(cuda->operand);
}

// One expert's rows of a matrix of all.
static Linear part_of(const Linear *all, int expert, int n) {
    Linear one = *all;
    one.rows = one.part[0].rows = all->rows / n;
    one.part[0].data += (int64_t)expert * one.rows * all->part[0].row_bytes;
    return one;
}

static Status rows_call(CudaBackend *cuda, const Layer *layer, ExpertRowsCall *c, bool down, Error *error) {
    const DecoderShape *s = cuda->shape;
    const CudaRoutes *r = &cuda->scratch.routes;
    const Weight &w = (down ? layer->down : layer->gate_up).part[0];
    c->gated = layer->gated, c->w = w, c->ids = r->ids, c->weights = r->weights;
    c->n = cuda->step.n_tokens, c->n_active = s->experts.n_active, c->size = s->experts.size,
    c->hidden = s->hidden_size;
    c->activation = s->activation, c->scales_input = s->experts.scales_input;
    auto launch = by_format<FORMAT_F32>(w.format, [](auto f) { return expert_rows_launch<f.value>; });
    return cuda_check(launch(cuda, c, down), error, "experts of %d tokens", c->n);
}

// ---- one expert after the other --------------------------------------------------------------------------------

// Brings the numbers of the experts' pairs to the host, which waits for them: once a layer, for down is told the same.
static Status await_numbers(CudaBackend *cuda, Error *error) {
    const CudaRoutes *r = &cuda->scratch.routes;
    const int n = cuda->shape->experts.n;
    cudaError_t code = cudaMemcpyAsync(r->host_start, r->start, (size_t)(n + 1) * sizeof *r->host_start,
                                       cudaMemcpyDeviceToHost, cuda->device.stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(cuda->device.stream);
    return cuda_check(code, error, "the numbers of %d experts' tokens", n);
}

// Runs `each(expert, first pair, pairs)` for those that have any, by the numbers that the host has.
template <class Each> static Status for_experts(CudaBackend *cuda, Each each) {
    const int n = cuda->shape->experts.n;
    const int32_t *start = cuda->scratch.routes.host_start;
    Status status = STATUS_OK;
    for (int e = 0; e < n && !status; e++)
        if (start[e + 1] > start[e]) status = each(e, start[e], start[e + 1] - start[e]);
    return status;
}

static Status gate_up_each(CudaBackend *cuda, const Layer *layer, void *g, Error *error) {
    const Experts *e = &cuda->shape->experts;
    const size_t bytes = operand_bytes(cuda->operand), hidden = (size_t)cuda->shape->hidden_size;
    const Status status = await_numbers(cuda, error);
    if (status) return status;
    return for_experts(cuda, [&](int expert, int first, int n) {
        const Linear w = part_of(&layer->gate_up, expert, e->n);
        Gemm gemm = {&w, (const char *)cuda->scratch.routes.pairs + (size_t)first * hidden * bytes, n,
                     layer->gated ? EPILOGUE_GATED : EPILOGUE_ACTIVATE,
                     (char *)g + (size_t)first * (size_t)e->size * bytes};
        gemm.bias = layer->b_gate ? layer->b_gate + (int64_t)expert * e->size : NULL;
        gemm.other = layer->b_up ? layer->b_up + (int64_t)expert * e->size : NULL;
        return gate_up_gemm(cuda, &gemm, layer->gated, error);
    });
}

// What the tiles made of ups without gates, four elements a thread: g [n], a multiple of 8.
template <class T>
__global__ void __launch_bounds__(256) activate_ups_kernel(const Activation activation, int64_t n, T *g) {
    const int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * 4;
    let_next_begin();
    kernels_before();
    if (i >= n) return;
    struct alignas(4 * sizeof(T)) Four {
        T v[4];
    } four = *(const Four *)(g + i);
    for (int j = 0; j < 4; j++) four.v[j] = from_float<T>(activate_any(activation, to_float(four.v[j])));
    *(Four *)(g + i) = four;
}

static Status activate_ups(CudaBackend *cuda, DType type, void *g, Error *error) {
    const DecoderShape *s = cuda->shape;
    const int64_t n = (int64_t)cuda->step.n_tokens * s->experts.n_active * s->experts.size;
    const int blocks = (int)((n / 4 + 255) / 256);
    cudaError_t code;
    WITH_TYPE(type, (code = launch_dependent(cuda, activate_ups_kernel<T>, blocks, 256, 0, s->activation, n,
                                             (T *)g)));
    return cuda_check(code, error, "ups of %d tokens", cuda->step.n_tokens);
}

static Status down_each(CudaBackend *cuda, const Layer *layer, const void *g, Error *error) {
    const Experts *e = &cuda->shape->experts;
    const size_t bytes = operand_bytes(cuda->operand), hidden = (size_t)cuda->shape->hidden_size;
    return for_experts(cuda, [&](int expert, int first, int n) {
        const Linear w = part_of(&layer->down, expert, e->n);
        Gemm gemm = {&w, (const char *)g + (size_t)first * (size_t)e->size * bytes, n, EPILOGUE_STORE,
                     (char *)cuda->scratch.routes.pairs + (size_t)first * hidden * bytes};
        return cuda_gemm(cuda, &gemm, error);
    });
}

// x += Σ weight·(pairs + bias), four elements a thread.
struct CombineArguments {
    CudaRoutes r;
    int n_active, hidden;
    const float *weights; // [n_tokens, n_active], NULL: 1
    const float *bias;    // [n, hidden], NULL: none
    float *x;
};
enum { COMBINE_THREADS = 128, COMBINE_AT_ONCE = 8 }; // pairs
// Grid: [hidden / 4 / COMBINE_THREADS, n_tokens].
template <class T>
__global__ void __launch_bounds__(COMBINE_THREADS)
    combine_kernel(const __grid_constant__ CombineArguments a) {
    const int64_t first = (int64_t)blockIdx.y * a.n_active;
    const int i = (blockIdx.x * COMBINE_THREADS + threadIdx.x) * 4;
    let_next_begin();
    kernels_before();
    if (i >= a.hidden) return;
    float sum[4] = {};
    for (int begin = 0; begin < a.n_active; begin += COMBINE_AT_ONCE) {
        struct alignas(4 * sizeof(T)) Four {
            T v[4];
        } pairs[COMBINE_AT_ONCE];
        float weight[COMBINE_AT_ONCE];
#pragma unroll
        for (int j = 0; j < COMBINE_AT_ONCE; j++) {
            const int64_t at = first + min(begin + j, a.n_active - 1);
            pairs[j] = *(const Four *)((const T *)a.r.pairs + (int64_t)a.r.where[at] * a.hidden + i);
            weight[j] = a.weights ? a.weights[at] : 1;
        }
#pragma unroll
        for (int j = 0; j < COMBINE_AT_ONCE; j++) {
            if (begin + j >= a.n_active) break;
            float4 bias = make_float4(0, 0, 0, 0);
            if (a.bias) bias = *(const float4 *)(a.bias + (int64_t)a.r.ids[first + begin + j] * a.hidden + i);
            sum[0] = fmaf(weight[j], to_float(pairs[j].v[0]) + bias.x, sum[0]);
            sum[1] = fmaf(weight[j], to_float(pairs[j].v[1]) + bias.y, sum[1]);
            sum[2] = fmaf(weight[j], to_float(pairs[j].v[2]) + bias.z, sum[2]);
            sum[3] = fmaf(weight[j], to_float(pairs[j].v[3]) + bias.w, sum[3]);
        }
    }
    float4 *x = (float4 *)(a.x + (int64_t)blockIdx.y * a.hidden + i), was = *x;
    *x = make_float4(was.x + sum[0], was.y + sum[1], was.z + sum[2], was.w + sum[3]);
}

// ---- the shared expert ------------------------------------------------------------------------------------------

// Rows of g times their token's weight. Grid: [n_tokens], block: 256.
template <class T> __global__ void __launch_bounds__(256) weigh_kernel(const float *weights, int cols, T *g) {
    let_next_begin();
    kernels_before();
    const float by = weights[blockIdx.x];
    T *row = g + (int64_t)blockIdx.x * cols;
    for (int i = threadIdx.x; i < cols; i += 256) row[i] = from_float<T>(by * to_float(row[i]));
}

static Status shared_gate_up(CudaBackend *cuda, const Layer *layer, void *g, Error *error) {
    const int n = cuda->step.n_tokens, wide = cuda->shape->experts.shared_size;
    void *to = shared_g(cuda, g);
    Gemm gemm = {&layer->shared_gate_up, cuda->scratch.normed, n,
                 layer->gated ? EPILOGUE_GATED : EPILOGUE_ACTIVATE, to};
    Status status = gate_up_gemm(cuda, &gemm, layer->gated, error);
    if (status || !layer->shared_routed) return status;
    cudaError_t code;
    WITH_OPERAND(cuda, (code = launch_dependent(cuda, weigh_kernel<T>, n, 256, 0,
                                                (const float *)cuda->scratch.routes.shared, wide, (T *)to)));
    return cuda_check(code, error, "the shared expert of %d tokens", n);
}

// ---- beside a dense part, which is the shared expert's ----------------------------------------------------------

// scratch.normed: x as one of the two parts reads it.
static Status take_norm(CudaBackend *cuda, const float *x, Norm norm, Error *error) {
    const NormCall call = {x, NULL, cuda->step.n_tokens, norm, cuda->operand, cuda->scratch.normed};
    return cuda_norm(cuda, &call, error);
}

struct BothArguments {
    const float *dense, *experts;                 // [n_tokens, hidden]
    const float *dense_norm, *expert_norm, *norm; // [hidden]
    int hidden;
    float eps;
    float *x;
};

// x += norm(norm(dense) + norm(experts)), a block a row. Grid: [n_tokens], dynamic shared memory: hidden floats.
__global__ void __launch_bounds__(256) add_both_kernel(const __grid_constant__ BothArguments a) {
    extern __shared__ __align__(16) float sum[];
    __shared__ float sums[8];
    const int64_t row = (int64_t)blockIdx.x * a.hidden;
    let_next_begin();
    kernels_before();
    float of_dense = 0, of_experts = 0, of_both = 0;
    for (int i = threadIdx.x; i < a.hidden; i += 256) {
        of_dense += a.dense[row + i] * a.dense[row + i];
        of_experts += a.experts[row + i] * a.experts[row + i];
    }
    of_dense = rsqrtf(block_sum<256>(of_dense, sums) / a.hidden + a.eps);
    of_experts = rsqrtf(block_sum<256>(of_experts, sums) / a.hidden + a.eps);
    for (int i = threadIdx.x; i < a.hidden; i += 256) { // its own
        const float both = a.dense[row + i] * of_dense * a.dense_norm[i] +
                           a.experts[row + i] * of_experts * a.expert_norm[i];
        sum[i] = both, of_both += both * both;
    }
    of_both = rsqrtf(block_sum<256>(of_both, sums) / a.hidden + a.eps);
    for (int i = threadIdx.x; i < a.hidden; i += 256) a.x[row + i] += sum[i] * of_both * a.norm[i];
}

static Status add_both(CudaBackend *cuda, const Layer *layer, float *x, Error *error) {
    const DecoderShape *s = cuda->shape;
    const int n = cuda->step.n_tokens;
    const float *dense = cuda->scratch.routes.beside;
    const size_t shared = (size_t)s->hidden_size * sizeof(float);
    const BothArguments a = {dense,
                             dense + (int64_t)n * s->hidden_size,
                             layer->shared_post_norm.weight,
                             layer->expert_post_norm.weight,
                             layer->ffn_post_norm.weight,
                             s->hidden_size,
                             s->norm_eps,
                             x};
    cudaError_t code =
        cudaFuncSetAttribute(add_both_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code == cudaSuccess) code = launch_dependent(cuda, add_both_kernel, n, 256, shared, a);
    return cuda_check(code, error, "a dense part and experts of %d tokens", n);
}

// ---- the ops ----------------------------------------------------------------------------------------------------

Status experts_gate_up(CudaBackend *cuda, const Layer *layer, const float *x, void *g, Error *error) {
    const ExpertsWay way = way_of(cuda, layer);
    const RouteCall call = {layer, x, cuda->step.n_tokens};
    const bool beside = cuda->shape->experts.beside;
    Status status = experts_route(cuda, &call, error);
    if (!status && beside) status = take_norm(cuda, x, layer->ffn_norm, error);
    if (!status && beside) status = shared_gate_up(cuda, layer, g, error);
    if (!status && beside) status = take_norm(cuda, x, layer->expert_norm, error);
    if (!status && way == EXPERTS_ROWS) {
        ExpertRowsCall c = {};
        c.in = cuda->scratch.normed, c.g = g, c.bias = layer->b_gate, c.up_bias = layer->b_up;
        status = rows_call(cuda, layer, &c, false, error);
    } else if (!status) {
        const bool flat = way == EXPERTS_FLAT;
        status = experts_sort(cuda, halved(cuda, layer, way),
                              flat ? experts_flat_pairs(cuda) : experts_tile_pairs(cuda, layer), error);
        if (!status)
            status = flat                         ? experts_flat_gate_up(cuda, layer, g, error)
                     : experts_tiled(cuda, layer) ? experts_tile_gate_up(cuda, layer, g, error)
                                                  : gate_up_each(cuda, layer, g, error);
        if (!status && !layer->gated && (flat || experts_tiled(cuda, layer)))
            status = activate_ups(cuda, halved(cuda, layer, way) ? DTYPE_F16 : cuda->operand, g, error);
    }
    cuda->step.chosen.gate_up = way == EXPERTS_ROWS          ? "expert rows"
                                : way == EXPERTS_FLAT        ? "expert flat"
                                : experts_tiled(cuda, layer) ? "expert tiles"
                                                             : "experts";
    if (!status && !beside && layer->shared_gate_up.rows > 0) status = shared_gate_up(cuda, layer, g, error);
    return status;
}

// x += what the experts give.
static Status add_experts(CudaBackend *cuda, const Layer *layer, const void *g, float *x, Error *error) {
    const DecoderShape *s = cuda->shape;
    const ExpertsWay way = way_of(cuda, layer);
    if (way == EXPERTS_ROWS) {
        ExpertRowsCall c = {};
        c.in = g, c.x = x, c.bias = layer->b_down;
        return rows_call(cuda, layer, &c, true, error);
    }
    const Status status = way == EXPERTS_FLAT          ? experts_flat_down(cuda, layer, g, error)
                          : experts_tiled(cuda, layer) ? experts_tile_down(cuda, layer, g, error)
                                                       : down_each(cuda, layer, g, error);
    const CudaRoutes *r = &cuda->scratch.routes;
    const float *weights = s->experts.scales_input ? NULL : r->weights;
    CombineArguments a = {*r, s->experts.n_active, s->hidden_size, weights, layer->b_down, x};
    cudaError_t code;
    if (status) return status;
    const DType type = halved(cuda, layer, way) ? DTYPE_F16 : cuda->operand;
    const dim3 grid((s->hidden_size + 4 * COMBINE_THREADS - 1) / (4 * COMBINE_THREADS), cuda->step.n_tokens);
    WITH_TYPE(type, (code = launch_dependent(cuda, combine_kernel<T>, grid, COMBINE_THREADS, 0, a)));
    return cuda_check(code, error, "the sum over experts of %d tokens", cuda->step.n_tokens);
}

Status experts_down(CudaBackend *cuda, const Layer *layer, const void *g, float *x, Error *error) {
    const bool beside = cuda->shape->experts.beside;
    const Norm behind = beside ? Norm{} : out_norm_behind(cuda, layer->ffn_post_norm);
    const int n = cuda->step.n_tokens;
    const int64_t all = (int64_t)n * cuda->shape->hidden_size;
    float *dense = beside          ? cuda->scratch.routes.beside
                   : behind.weight ? (float *)cuda->scratch.normed // where none of their inputs lies
                                   : x;
    float *experts = beside ? dense + all : dense;
    Status status = dense != x ? out_clear(cuda, beside ? 2 * all : all, dense, error) : STATUS_OK;
    if (behind.weight) cuda->step.normed = NULL;
    if (!status) status = add_experts(cuda, layer, g, experts, error);
    cuda->step.chosen.down = cuda->step.chosen.gate_up;
    if (!status && layer->shared_gate_up.rows > 0) {
        Gemm gemm = {&layer->shared_down, shared_g(cuda, (void *)g), n, EPILOGUE_ADD, dense};
        status = cuda_gemm(cuda, &gemm, error);
    }
    if (status) return status;
    return beside          ? add_both(cuda, layer, x, error)
           : behind.weight ? cuda_add_normed(cuda, dense, n, behind, x, error)
                           : STATUS_OK;
}
