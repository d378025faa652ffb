// Which kernel takes a flat product, and a plain one for what has no other: float32, and weights of 16 bits that are not of
// the operand type.
#include "kernels/cuda/gemm/flat_mma.cuh"

// One warp a row of W, or a pair of gate and up, and a row of x. Grid: [units / 8, n], block: 256.
template <class T>
__global__ void __launch_bounds__(256) flat_plain_kernel(const __grid_constant__ FlatArguments a) {
    int lane = threadIdx.x % 32, unit = blockIdx.x * 8 + threadIdx.x / 32, token = blockIdx.y;
    bool gated = a.end == FLAT_GATED;
    let_next_begin();
    kernels_before();
    if (unit >= (gated ? a.w.rows / 2 : a.w.rows) || (a.count && token >= *a.count)) return;
    const T *x = (const T *)a.x + (int64_t)token * a.w.cols;
    auto dot = [&](int r) {
        const char *row = a.w.data + r * a.w.row_bytes;
        float sum = 0;
        for (int i = lane; i < a.w.cols; i += 32)
            sum += row_element(a.w.format, row, a.w.cols, i) * to_float(x[i]);
        for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
        return sum;
    };
    float sum = dot(gated ? 2 * unit : unit), up = gated ? dot(2 * unit + 1) : 0;
    if (lane) return;
    int64_t at = (int64_t)token * a.y_stride + unit;
    if (a.bias) sum += a.bias[unit];
    if (gated) {
        if (a.other) up += a.other[unit];
        ((T *)a.y)[at] = from_float<T>(activate_any(a.activation, sum) * up);
    } else if (a.end == FLAT_ADD) {
        ((float *)a.y)[at] += sum;
    } else if (a.end == FLAT_FLOAT) {
        ((float *)a.y)[at] = sum;
    } else {
        ((T *)a.y)[at] = from_float<T>(a.end == FLAT_ALONE ? activate_any(a.activation, sum) : sum);
    }
}

template <class T> static cudaError_t launch_plain(const CudaBackend *cuda, const FlatArguments *a) {
    int units = a->end == FLAT_GATED ? a->w.rows / 2 : a->w.rows;
    return launch_dependent(cuda, flat_plain_kernel<T>, dim3((units + 7) / 8, a->n), 256, 0, *a);
}

static FlatKernels *kernels_for(const CudaBackend *cuda, int format) {
    if (cuda->operand == DTYPE_BF16) return format == FORMAT_BF16 ? flat_launch<FORMAT_BF16> : NULL;
    if (cuda->operand != DTYPE_F16) return NULL;
    FlatKernels *const all[] = {NULL,
                                flat_launch<FORMAT_F16>,
                                NULL,
                                flat_launch<FORMAT_Q8>,
                                flat_launch<FORMAT_Q8S>,
                                flat_launch<FORMAT_Q8M>,
                                flat_launch<FORMAT_Q4>,
                                flat_launch<FORMAT_Q4M>};
    return all[format];
}

static cudaError_t launch(CudaBackend *cuda, FlatArguments *a) {
    FlatKernels *kernels = kernels_for(cuda, a->w.format);
    cudaError_t code = kernels ? kernels(cuda, a) : cudaErrorNotSupported;
    if (code == cudaErrorNotSupported && a->end != FLAT_HEADS)
        WITH_OPERAND(cuda, code = launch_plain<T>(cuda, a));
    return code;
}

// ---- scratch -------------------------------------------------------------------------------------------------

static size_t parts_bytes(const CudaBackend *cuda) {
    return (size_t)FLAT_BLOCKS_A_SM * (size_t)cuda->n_sms * FLAT_WARPS * (FLAT_MOST / 8) * 32 *
           sizeof(float4);
}

size_t flat_bytes(const CudaBackend *cuda) {
    const DecoderShape *s = cuda->shape;
    int q = (s->n_heads + 2 * s->n_kv_heads) * s->head_dim, rows = 2 * s->intermediate_size;
    if (rows < q) rows = q;
    if (rows < s->vocab_size) rows = s->vocab_size;
    if (rows < s->hidden_size) rows = s->hidden_size;
    return parts_bytes(cuda) + (size_t)(rows / FLAT_ROWS + 1) * sizeof(unsigned);
}

Status flat_reserve(CudaBackend *cuda, Error *error) {
    return cuda_room(cuda, &cuda->flat, flat_bytes(cuda), false, "products of few rows", error);
}

static void set_scratch(const CudaBackend *cuda, FlatArguments *a) {
    a->parts = (float4 *)cuda->flat.memory;
    a->arrived = (unsigned *)(cuda->flat.memory + parts_bytes(cuda));
}

// ---- the product ---------------------------------------------------------------------------------------------

static cudaError_t multiply_piece(CudaBackend *cuda, const FlatProduct *p, int first, int n) {
    cudaError_t code = cudaSuccess;
    int stride = p->end == FLAT_GATED ? p->w->rows / 2 : p->w->rows;
    size_t in = operand_bytes(cuda->operand), out = p->end == FLAT_FLOAT || p->end == FLAT_ADD ? 4 : in;
    for (int i = 0, row = 0; i < p->w->n_parts && code == cudaSuccess; i++) {
        FlatArguments a = {};
        a.w = p->w->part[i];
        a.x = (const char *)p->x + (size_t)first * (size_t)p->w->cols * in;
        a.n = n, a.end = p->end, a.count = p->count;
        a.y = (char *)p->y + ((size_t)first * (size_t)stride + (size_t)row) * out;
        a.y_stride = stride;
        a.bias = p->bias ? p->bias + row : NULL, a.other = p->other;
        a.activation = cuda->shape->activation;
        set_scratch(cuda, &a);
        code = launch(cuda, &a);
        row += a.w.rows;
    }
    return code;
}

Status cuda_flat_heads(CudaBackend *cuda, const Linear *w, const void *x, int n, const HeadArguments *heads,
                       void *q, Error *error) {
    Status status = flat_reserve(cuda, error);
    size_t in = operand_bytes(cuda->operand);
    int dim = heads->head_dim;
    if (status) return status;
    if (cuda->compute != 90 || cuda->operand == DTYPE_F32 || w->n_parts != 1 ||
        w->part[0].format != format_of(cuda->operand) || heads->bias || (dim != 64 && dim != 128))
        return STATUS_UNSUPPORTED;
    for (int first = 0; first < n; first += FLAT_MOST) {
        FlatArguments a = {};
        a.w = w->part[0];
        a.x = (const char *)x + (size_t)first * (size_t)w->cols * in;
        a.n = n - first < FLAT_MOST ? n - first : FLAT_MOST, a.end = FLAT_HEADS;
        a.y_stride = heads->n_heads * dim;
        a.y = (char *)q + (size_t)first * (size_t)a.y_stride * in;
        a.heads = *heads;
        a.heads.rope += (size_t)first * (size_t)(dim / 2), a.heads.slots += first;
        set_scratch(cuda, &a);
        cudaError_t code = launch(cuda, &a);
        if (code == cudaErrorNotSupported && first == 0) return STATUS_UNSUPPORTED;
        if (code != cudaSuccess) return cuda_check(code, error, "the heads of %d rows", n);
    }
    return STATUS_OK;
}

Status cuda_flat(CudaBackend *cuda, const FlatProduct *p, Error *error) {
    Status status = flat_reserve(cuda, error);
    cudaError_t code = cudaSuccess;
    for (int first = 0; first < p->n && !status && code == cudaSuccess; first += FLAT_MOST)
        code = multiply_piece(cuda, p, first, p->n - first < FLAT_MOST ? p->n - first : FLAT_MOST);
    return status
               ? status
               : cuda_check(code, error, "the product of %d rows by [%d, %d]", p->n, p->w->rows, p->w->cols);
}
