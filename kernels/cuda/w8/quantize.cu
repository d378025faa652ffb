// W8A8 around the GEMMs: activations in 8 bits, and what becomes of sums that cuBLASLt leaves in memory.
// The rules of quantising are kernels/w8.h's and kernels/fp8.h's; rows behind a norm are quantised in norm_row.cuh.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/gemm/gemm.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/w8/norm_row.cuh"

// ---- quantise ------------------------------------------------------------------------------------------------

// Eight elements of 16 bits, or four of 32.
template <class T> struct alignas(16) Piece {
    static constexpr int N = 16 / sizeof(T);
    T v[N];
    __device__ float4 four(int i) const {
        return make_float4(to_float(v[i]), to_float(v[i + 1]), to_float(v[i + 2]), to_float(v[i + 3]));
    }
};

// Rows y [·, n], and theirs in 8 bits: of `stride` bytes, zeros behind n elements.
struct QuantizeArguments {
    const void *y;
    int n, stride;
    char *q;
    float *scales;
    Fp8Row fp8; // of FP8
};

// Quantise: of attention's output, and of g behind SiLU·mul. One block a row, which stays in registers: a piece a
// thread and turn. Grid: [rows].
template <RowForm FORM, class T, int THREADS, int TURNS>
__global__ void __launch_bounds__(THREADS) quantize_kernel(const __grid_constant__ QuantizeArguments a) {
    constexpr int EACH = Piece<T>::N, SPAN = THREADS * EACH;
    __shared__ uint32_t tops[THREADS / 32];
    Piece<T> v[TURNS];
    uint32_t top = 0;
    int mine = threadIdx.x * EACH;
    let_next_begin();
    kernels_before();
    const T *in = (const T *)a.y + (int64_t)blockIdx.x * a.n;
#pragma unroll
    for (int t = 0; t < TURNS; t++)
        v[t] = t * SPAN + mine < a.n ? *(const Piece<T> *)(in + t * SPAN + mine) : Piece<T>{};
    char *to = a.q + (int64_t)blockIdx.x * a.stride;
    uint32_t of_turn[TURNS];
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        of_turn[t] = 0;
#pragma unroll
        for (int i = 0; i < EACH; i += 4) of_turn[t] = max(of_turn[t], magnitude_bits(v[t].four(i)));
        top = max(top, of_turn[t]);
    }
    if constexpr (FORM == ROW_FP8_GROUPS) {
        constexpr int LANES = FP8_GROUP / EACH; // that have a group
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
#pragma unroll
            for (int o = 1; o < LANES; o *= 2)
                of_turn[t] = max(of_turn[t], __shfl_xor_sync(~0u, of_turn[t], o));
            const int at = t * SPAN + mine;
            const float scale = a.fp8.scale(of_turn[t]);
            const Fp8Divisor by(scale);
            if (at >= a.stride) continue;
#pragma unroll
            for (int i = 0; i < EACH; i += 4) *(uint32_t *)(to + at + i) = by.four(v[t].four(i));
            if (threadIdx.x % LANES == 0)
                a.scales[(int64_t)(at / FP8_GROUP) * a.fp8.stride + blockIdx.x] = scale;
        }
    } else {
        const uint32_t most = block_most<THREADS>(top, tops);
        const float scale = FORM == ROW_W8 ? w8_scale(__uint_as_float(most)) : a.fp8.scale(most);
        const typename DivisorOf<FORM>::Divisor by(scale);
#pragma unroll
        for (int t = 0; t < TURNS; t++)
#pragma unroll
            for (int i = 0; i < EACH; i += 4)
                if (t * SPAN + mine + i < a.stride)
                    *(uint32_t *)(to + t * SPAN + mine + i) = by.four(v[t].four(i));
        if (threadIdx.x == 0) a.scales[blockIdx.x] = scale;
    }
}

template <RowForm FORM, class T>
static cudaError_t launch_form(const CudaBackend *cuda, int n_rows, const QuantizeArguments &a) {
    constexpr int EACH = 16 / sizeof(T);
    const int stride = a.stride;
    auto kernel = stride <= 256 * 2 * EACH    ? quantize_kernel<FORM, T, 256, 2>
                  : stride <= 512 * 2 * EACH  ? quantize_kernel<FORM, T, 512, 2>
                  : stride <= 512 * 4 * EACH  ? quantize_kernel<FORM, T, 512, 4>
                  : stride <= 1024 * 4 * EACH ? quantize_kernel<FORM, T, 1024, 4>
                  : stride <= 1024 * 8 * EACH ? quantize_kernel<FORM, T, 1024, 8>
                                              : NULL;
    int threads = stride <= 256 * 2 * EACH ? 256 : stride <= 512 * 4 * EACH ? 512 : 1024;
    if (!kernel) return cudaErrorInvalidValue;
    return launch_dependent(cuda, kernel, n_rows, threads, 0, a);
}

template <class T>
static cudaError_t launch_quantize(const CudaBackend *cuda, int n_rows, RowForm form,
                                   const QuantizeArguments &a) {
    return form == ROW_W8         ? launch_form<ROW_W8, T>(cuda, n_rows, a)
           : form == ROW_FP8_ROWS ? launch_form<ROW_FP8_ROWS, T>(cuda, n_rows, a)
                                  : launch_form<ROW_FP8_GROUPS, T>(cuda, n_rows, a);
}

// Whether x is to be quantised; then its rows are at `memory`, their scales behind them.
static bool place_rows(const CudaBackend *cuda, void *memory, Gemm *gemm, QuantizedRows *rows) {
    const Weight *w = &gemm->w->part[0];
    const bool w8 = linear_is_w8(gemm->w);
    const Fp8Inputs how = w8 ? FP8_INPUTS_KEPT : gemm_fp8_inputs(cuda, gemm);
    if (!w8 && !how) return false;
    const bool groups = !w8 && how != FP8_INPUTS_ROWS;
    const int64_t bytes = w8 ? w->row_bytes : w->cols;
    rows->form = w8 ? ROW_W8 : groups ? ROW_FP8_GROUPS : ROW_FP8_ROWS;
    rows->scales = (float *)((char *)memory + gemm->n * bytes);
    rows->fp8 = Fp8Row{gemm->w->input_scale, how == FP8_INPUTS_POWERS, gemm->n};
    gemm->x = memory, gemm->x_scales = rows->scales, gemm->x_stride = groups ? gemm->n : 0;
    return true;
}

static QuantizeArguments arguments_of(const Gemm *gemm, const void *y, const QuantizedRows &rows) {
    return QuantizeArguments{y,           gemm->w->cols, (int)w8_scale_offset(gemm->w->cols), (char *)gemm->x,
                             rows.scales, rows.fp8};
}

// Rows that memory of activations has. A graph's own has no more than its rows.
static int rows_of_memory(const CudaBackend *cuda, int n) {
    return n > decode_graph_rows(cuda) ? cuda->max_tokens : n;
}

Status gemm_take(CudaBackend *cuda, Gemm *gemm, const void *y, Error *error) {
    QuantizedRows rows;
    gemm->x_rows = rows_of_memory(cuda, gemm->n);
    if (gemm->order) {
        Status status = cuda_reorder(cuda, gemm, y, cuda->scratch.expanded, error);
        if (status) return status;
        y = cuda->scratch.expanded;
    }
    gemm->x = y;
    if (!place_rows(cuda, cuda->scratch.wide, gemm, &rows)) return STATUS_OK;
    cudaError_t code;
    const QuantizeArguments a = arguments_of(gemm, y, rows);
    WITH_OPERAND(cuda, (code = launch_quantize<T>(cuda, gemm->n, rows.form, a)));
    return cuda_check(code, error, "quantising [%d, %d]", gemm->n, gemm->w->cols);
}

Status gemm_take_norm(CudaBackend *cuda, Gemm *gemm, const float *x, const int32_t *rows, Norm norm,
                      Error *error) {
    QuantizedRows to;
    gemm->x = cuda->scratch.normed, gemm->x_rows = rows_of_memory(cuda, gemm->n);
    NormCall call = {x, rows, gemm->n, norm, cuda->operand, cuda->scratch.normed};
    if (gemm->order) { // of weights that take it as it is
        Status status = cuda_norm(cuda, &call, error);
        gemm->x = cuda->scratch.expanded;
        return status ? status : cuda_reorder(cuda, gemm, call.y, cuda->scratch.expanded, error);
    }
    if (!place_rows(cuda, cuda->scratch.normed, gemm, &to)) return cuda_norm(cuda, &call, error);
    if (!norm.weight) { // x itself, of which only these layers have no rows of their own
        const QuantizeArguments a = arguments_of(gemm, x, to);
        return cuda_check(launch_quantize<float>(cuda, gemm->n, to.form, a), error, "quantising [%d, %d]",
                          gemm->n, gemm->w->cols);
    }
    bool done = cuda->step.normed == x && cuda->step.normed_by == norm.weight && !rows;
    cuda->step.normed = NULL;
    return done ? STATUS_OK : cuda_norm_quantize(cuda, &call, to, error);
}

// ---- sums in memory -----------------------------------------------------------------------------------------------

struct FinishArguments {
    const int32_t *sums; // [n, rows]
    const float *x_scales, *w_scales, *bias, *other;
    int rows;
    Activation activation;
    GemmEpilogue epilogue;
    void *y;

    // Of columns [col, col + 4) of token t, without bias.
    __device__ float4 four(int t, int col) const {
        int4 acc = *(const int4 *)(sums + (int64_t)t * rows + col);
        float4 w = __ldg((const float4 *)(w_scales + col));
        float s = x_scales[t];
        return make_float4(w8_value(acc.x, s, w.x), w8_value(acc.y, s, w.y), w8_value(acc.z, s, w.z),
                           w8_value(acc.w, s, w.w));
    }
};

// One thread four columns, a multiple of which there are. FLOAT may write over its sums. Grid: [rows / 1024, n], block:
// 256.
template <class T> __global__ void __launch_bounds__(256) finish_kernel(const FinishArguments a) {
    struct alignas(sizeof(T) * 4) Four {
        T v[4];
    };
    struct alignas(sizeof(T) * 2) Two {
        T v[2];
    };
    int t = blockIdx.y, col = (blockIdx.x * 256 + threadIdx.x) * 4;
    if (col >= a.rows) return;
    float4 f = a.four(t, col);
    int64_t at = (int64_t)t * a.rows + col;
    if (a.epilogue == EPILOGUE_GATED) {
        int unit = col / 2;
        if (a.bias) f.x += a.bias[unit], f.z += a.bias[unit + 1];
        if (a.other) f.y += a.other[unit], f.w += a.other[unit + 1];
        *(Two *)((T *)a.y + at / 2) = Two{from_float<T>(activate_pair(a.activation, f.x, f.y)),
                                          from_float<T>(activate_pair(a.activation, f.z, f.w))};
        return;
    }
    if (a.bias) f.x += a.bias[col], f.y += a.bias[col + 1], f.z += a.bias[col + 2], f.w += a.bias[col + 3];
    if (a.epilogue == EPILOGUE_ADD || a.epilogue == EPILOGUE_FLOAT) {
        float4 *to = (float4 *)((float *)a.y + at);
        if (a.epilogue == EPILOGUE_ADD) {
            float4 x = *to;
            f = make_float4(x.x + f.x, x.y + f.y, x.z + f.z, x.w + f.w);
        }
        *to = f;
        return;
    }
    if (a.epilogue == EPILOGUE_ACTIVATE)
        f = make_float4(activate_any(a.activation, f.x), activate_any(a.activation, f.y),
                        activate_any(a.activation, f.z), activate_any(a.activation, f.w));
    *(Four *)((T *)a.y + at) =
        Four{from_float<T>(f.x), from_float<T>(f.y), from_float<T>(f.z), from_float<T>(f.w)};
}

// Dequantise + residual + norm + quantise: x += result + bias, and the RMS norm of what is stored as a row of integers
// and its scale. One block a row, four elements a thread and turn; a.rows is a multiple of 4.
template <int THREADS, int TURNS>
__global__ void __launch_bounds__(THREADS) finish_norm_kernel(const FinishArguments a, const NormRows norm) {
    float4 u[TURNS], v[TURNS];
    int t = blockIdx.x;
    float *x = (float *)a.y + (int64_t)t * a.rows;
    load_norm<THREADS>(norm, u);
#pragma unroll
    for (int k = 0; k < TURNS; k++) {
        int col = (k * THREADS + threadIdx.x) * 4;
        v[k] = make_float4(0, 0, 0, 0);
        if (col >= a.rows) continue;
        float4 f = a.four(t, col), old = *(const float4 *)(x + col);
        if (a.bias)
            f.x += a.bias[col], f.y += a.bias[col + 1], f.z += a.bias[col + 2], f.w += a.bias[col + 3];
        v[k] = make_float4(old.x + f.x, old.y + f.y, old.z + f.z, old.w + f.w);
        *(float4 *)(x + col) = v[k];
    }
    norm_row<ROW_W8, THREADS, TURNS, false>(norm, t, v, u);
}

int32_t *w8_sums(const CudaBackend *cuda, const Gemm *gemm) {
    size_t n = (size_t)gemm->n, used = 0; // of scratch.wide
    if (gemm->epilogue == EPILOGUE_FLOAT) return (int32_t *)gemm->y;
    if (gemm->epilogue == EPILOGUE_STORE) used = n * (size_t)gemm->w->rows * operand_bytes(cuda->operand);
    if (gemm->epilogue == EPILOGUE_ADD) used = n * ((size_t)gemm->w->part[0].row_bytes + sizeof(float));
    return (int32_t *)((char *)cuda->scratch.wide + (used + 255) / 256 * 256);
}

// Whether what follows y's last sums is the norm of y, and there is a kernel that does both.
static bool norm_follows(const CudaBackend *cuda, const Gemm *g) {
    return g->epilogue == EPILOGUE_ADD && g->next && linear_is_w8(g->next) && cuda->shape->norm == NORM_RMS &&
           g->w->rows <= NORM_QUANTIZE_MOST && !g->count;
}

Status w8_finish(CudaBackend *cuda, const Gemm *g, const int32_t *sums, Error *error) {
    FinishArguments a = {sums,     g->x_scales, g->w->part[0].scales,    g->bias,
                         g->other, g->w->rows,  cuda->shape->activation, g->epilogue,
                         g->y};
    cudaStream_t stream = cuda->device.stream;
    if (norm_follows(cuda, g)) {
        Gemm next = {g->next};
        QuantizedRows rows;
        next.n = g->n;
        place_rows(cuda, cuda->scratch.normed, &next, &rows);
        NormRows to = {{(float *)g->next_norm, NULL}, g->w->rows,     (int)g->next->part[0].row_bytes,
                       cuda->shape->norm_eps,         (char *)next.x, rows.scales};
        WITH_NORM_TURNS(a.rows, (finish_norm_kernel<THREADS, TURNS><<<g->n, THREADS, 0, stream>>>(a, to)));
        cuda->step.normed = (const float *)g->y, cuda->step.normed_by = g->next_norm;
    } else {
        dim3 grid((unsigned)((a.rows / 4 + 255) / 256), (unsigned)g->n);
        WITH_OPERAND(cuda, (finish_kernel<T><<<grid, 256, 0, stream>>>(a)));
    }
    return CUDA_LAUNCHED(error, "sums of [%d, %d]", g->n, a.rows);
}
