// GEMVs over the experts that a token takes, for weights of one format each, compiled by themselves.
// INSTANCES: FORMAT_F32 FORMAT_F16 FORMAT_BF16 FORMAT_Q8 FORMAT_Q8S FORMAT_Q8M FORMAT_Q4 FORMAT_Q4M
// INSTANCES: FORMAT_IQ4 FORMAT_FP4 FORMAT_Q2 FORMAT_Q3 FORMAT_Q5 FORMAT_Q5M FORMAT_Q6 FORMAT_E4M3 FORMAT_NF4
//
// As in gemm/gemv_format.cu a warp has two rows of W on their way at a time: of gate_up a pair of gate and up, or without gates
// two neighbours of up, which is a unit then, of down
// the same row of two experts, one pair of experts after the other, so that the sum over all is the warp's own.
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/gemm/gemv_rows.cuh"

struct ExpertRowsArguments {
    ExpertRowsCall c;
    int chunks;    // of a row
    int of_expert; // gate_up: units of one: pairs of rows
    int units;     // gate_up: n_active·of_expert; down: hidden
};

// Where a warp is: step `step` of unit `unit`.
struct ExpertPlace {
    int unit, step;
};

template <bool DOWN> __device__ inline int steps_of(const ExpertRowsArguments &a) {
    return DOWN ? (a.c.n_active + 1) / 2 * a.chunks : a.chunks;
}

template <int FORMAT, bool DOWN>
__device__ inline void load_rows(const ExpertRowsArguments &a, const int32_t *ids, const ExpertPlace &at,
                                 GemvRow<FORMAT> *rows) {
#pragma unroll
    for (int r = 0; r < GEMV_ROWS; r++) {
        int64_t row;
        int chunk = at.step, cols = a.c.w.cols;
        if (DOWN) {
            int j = at.step / a.chunks * 2 + r;
            chunk = at.step % a.chunks;
            if (j >= a.c.n_active) j = 0, cols = 0; // of an odd number, zeros
            row = (int64_t)ids[j] * a.c.hidden + at.unit;
        } else {
            const int j = at.unit / a.of_expert;
            row = ((int64_t)ids[j] * a.of_expert + at.unit - j * a.of_expert) * 2 + r;
        }
        rows[r].load(a.c.w.data + row * a.c.w.row_bytes, chunk, cols);
    }
}

// Of down each row meets an input of its own.
template <int FORMAT, class T>
__device__ inline void multiply_down(const FlatArguments &in, const GemvRow<FORMAT> *rows, char *shared,
                                     int chunk, int first, GemvSum (*sums)[1]) {
    constexpr int EACH = GemvShape<FORMAT>::EACH;
#pragma unroll
    for (int r = 0; r < GEMV_ROWS; r++) {
        const int j = min(first + r, in.n - 1);
#pragma unroll
        for (int t = 0; t < GemvShape<FORMAT>::TURNS; t++) {
            const int col = gemv_place<FORMAT>(in, chunk, t);
            if constexpr (format_rounds_input(FORMAT)) {
                Input x = gemv_input(shared, in.w.cols, j);
                multiply_piece<FORMAT>(rows[r], t, x, col, sums[r][0]);
            } else {
                constexpr int N = EACH < 8 ? EACH : 8;
#pragma unroll
                for (int first = 0; first < EACH; first += N) {
                    float w[N], f[N];
                    weights_of<N>(rows[r], t, first, w);
                    load_floats<N>((const T *)in.x + (int64_t)j * in.w.cols + col + first, f);
#pragma unroll
                    for (int i = 0; i < N; i += 2) {
                        sums[r][0].even = fmaf(w[i], f[i], sums[r][0].even);
                        sums[r][0].odd = fmaf(w[i + 1], f[i + 1], sums[r][0].odd);
                    }
                }
            }
        }
    }
}

__device__ inline float whole_sum(const GemvSum &s) {
    float sum = s.even + s.odd;
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    return sum;
}

template <class T, bool DOWN>
__device__ inline void end_unit(const ExpertRowsArguments &a, int token, const int32_t *ids,
                                const float *weights, int unit, const GemvSum (*sums)[1]) {
    const ExpertRowsCall &c = a.c;
    float first = whole_sum(sums[0][0]), second = whole_sum(sums[1][0]);
    if (threadIdx.x % 32 != 0) return;
    if (DOWN) {
        float sum = first + second;
        for (int j = 0; c.bias && j < c.n_active; j++)
            sum += weights[j] * c.bias[(int64_t)ids[j] * c.hidden + unit];
        c.x[(int64_t)token * c.hidden + unit] += sum;
        return;
    }
    const int j = unit / a.of_expert;
    const int64_t at = (int64_t)ids[j] * a.of_expert + unit - j * a.of_expert;
    const float inner = c.scales_input ? weights[j] : 1, outer = c.scales_input ? 1 : weights[j];
    first *= inner, second *= inner;
    if (!c.gated) {
        T *g = (T *)c.g + (int64_t)token * c.n_active * c.size + 2 * unit;
        g[0] = from_float<T>(outer * activate_any(c.activation, first));
        g[1] = from_float<T>(outer * activate_any(c.activation, second));
        return;
    }
    if (c.bias) first += c.bias[at];
    if (c.up_bias) second += c.up_bias[at];
    ((T *)c.g)[(int64_t)token * c.n_active * c.size + unit] =
        from_float<T>(outer * activate_pair(c.activation, first, second));
}

// A warp a unit after the other, up to the last. Grid: [any, n], block: GEMV_WARPS warps. Dynamic shared memory, of
// quantised weights: GEMV_INPUT_BYTES(cols) for each row of the input, one or n_active.
template <int FORMAT, class T, bool DOWN>
__global__ void __launch_bounds__(GEMV_WARPS * 32, 2)
    expert_rows_kernel(const __grid_constant__ ExpertRowsArguments a) {
    extern __shared__ __align__(16) char shared[];
    const int token = blockIdx.y, n_steps = steps_of<DOWN>(a);
    const int stride = (int)gridDim.x * GEMV_WARPS;
    const float *weights = a.c.weights + (int64_t)token * a.c.n_active;
    ExpertPlace at = {(int)blockIdx.x * GEMV_WARPS + (int)threadIdx.x / 32, 0};
    GemvRow<FORMAT> next[GEMV_ROWS];
    __shared__ int32_t ids[EXPERTS_MOST_ACTIVE];
    // The router decides which rows are read. It has ended when down begins, for gate_up, which waited for it, lets down
    // begin only then: down's first rows are asked for before gate_up ends.
    if (DOWN)
        let_next_begin();
    else
        kernels_before();
    if ((int)threadIdx.x < a.c.n_active) // past the L1, which may still hold those of the layer before
        ids[threadIdx.x] = __ldcg(a.c.ids + (int64_t)token * a.c.n_active + threadIdx.x);
    __syncthreads();
    if (at.unit < a.units) load_rows<FORMAT, DOWN>(a, ids, at, next);
    if (DOWN)
        kernels_before();
    else
        let_next_begin();
    FlatArguments in;
    in.n = DOWN ? a.c.n_active : 1;
    in.w.cols = a.c.w.cols;
    in.x = (const T *)a.c.in + (int64_t)token * in.n * in.w.cols;
    if constexpr (format_rounds_input(FORMAT)) {
        quantise_input<T>(in, shared);
        __syncthreads();
    }
    GemvSum sums[GEMV_ROWS][1] = {};
    while (at.unit < a.units) {
        GemvRow<FORMAT> now[GEMV_ROWS];
#pragma unroll
        for (int r = 0; r < GEMV_ROWS; r++) now[r] = next[r];
        const ExpertPlace here = at;
        if (++at.step == n_steps) at.step = 0, at.unit += stride;
        if (at.unit < a.units) load_rows<FORMAT, DOWN>(a, ids, at, next);
        if (DOWN)
            multiply_down<FORMAT, T>(in, now, shared, here.step % a.chunks, here.step / a.chunks * 2, sums);
        else if constexpr (format_rounds_input(FORMAT))
            multiply_quants<FORMAT, 1>(in, now, shared, here.step, sums);
        else
            multiply_plain<FORMAT, T, 1>(in, now, here.step, sums);
        if (at.step == 0) {
            end_unit<T, DOWN>(a, token, ids, weights, here.unit, sums);
            sums[0][0] = sums[1][0] = GemvSum{0, 0};
        }
    }
}

template <int FORMAT, class T, bool DOWN>
static cudaError_t launch(const CudaBackend *cuda, const ExpertRowsCall *c) {
    auto kernel = expert_rows_kernel<FORMAT, T, DOWN>;
    int rows = DOWN ? c->n_active : 1, a_sm = 0,
        shared = format_rounds_input(FORMAT) ? rows * GEMV_INPUT_BYTES(c->w.cols) : 0;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (code == cudaSuccess)
        code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&a_sm, kernel, GEMV_WARPS * 32, (size_t)shared);
    if (code != cudaSuccess) return code;
    const int of_expert = c->gated ? c->size : c->size / 2;
    ExpertRowsArguments a = {*c, (c->w.cols + GemvShape<FORMAT>::FULL - 1) / GemvShape<FORMAT>::FULL,
                             of_expert, DOWN ? c->hidden : c->n_active * of_expert};
    int blocks = (a.units + GEMV_WARPS - 1) / GEMV_WARPS,
        most = (a_sm > 0 ? a_sm : 1) * cuda->device.card.n_sms;
    dim3 grid((unsigned)(blocks < most ? blocks : most), (unsigned)c->n);
    return dispatch_features(&cuda->device.card)->overlap
               ? launch_dependent(cuda, kernel, grid, GEMV_WARPS * 32, (size_t)shared, a)
               : launch_overlapping(cuda, kernel, grid, GEMV_WARPS * 32, (size_t)shared, a);
}

template <Format FORMAT>
cudaError_t expert_rows_launch(const CudaBackend *cuda, const ExpertRowsCall *call, bool down) {
    cudaError_t code;
    if (down)
        WITH_OPERAND(cuda, (code = launch<FORMAT, T, true>(cuda, call)));
    else
        WITH_OPERAND(cuda, (code = launch<FORMAT, T, false>(cuda, call)));
    return code;
}

template cudaError_t expert_rows_launch<INSTANCE>(const CudaBackend *cuda, const ExpertRowsCall *call,
                                                  bool down);
