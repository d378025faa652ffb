// GEMMs of many rows by cuBLASLt, which is loaded when a device is opened.
//
// In cuBLAS's column-major terms: Y [rows, n] = (W [cols, rows])ᵀ · X [cols, n], both with leading dimension cols.
#include "kernels/cuda/gemm/dense.cuh"
#include "kernels/cuda/latent/latent.cuh"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLANS = 256, WORKSPACE_BYTES = 64 << 20 };

// One shape of GEMM, and how cuBLASLt wants to compute it.
struct Plan {
    int rows, cols, n, y_stride;
    DType operand, y_type;
    bool add, same; // same: the algorithm is that of every other n
    // Of heads, each with a matrix of its own behind the one before: how many, elements of x and y from one to the next,
    // and of x from one row to the next. 0: one GEMM, rows of x follow each other.
    int n_heads, x_stride;
    int64_t x_head, y_head;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulAlgo_t algorithm;
};

struct Library {
    void *library;
    cublasLtHandle_t handle;
    void *workspace;
    Plan plans[MAX_PLANS];
    int n_plans;
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtDestroy) destroy;
    decltype(&cublasLtMatmul) matmul;
    decltype(&cublasLtMatmulDescCreate) operation_create;
    decltype(&cublasLtMatmulDescDestroy) operation_destroy;
    decltype(&cublasLtMatmulDescSetAttribute) operation_set;
    decltype(&cublasLtMatrixLayoutCreate) layout_create;
    decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
    decltype(&cublasLtMatmulAlgoConfigGetAttribute) algorithm_get;
    decltype(&cublasLtGetStatusString) status_string;
};

static Status load_library(Library *g, Error *error) {
    static const char *const NAMES[] = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
                                        "/usr/local/cuda/targets/x86_64-linux/lib/libcublasLt.so.13",
                                        "/usr/local/cuda/targets/sbsa-linux/lib/libcublasLt.so.13",
                                        "/opt/cuda/lib64/libcublasLt.so.13"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES && !g->library; i++)
        g->library = dlopen(NAMES[i], RTLD_NOW | RTLD_LOCAL);
    if (!g->library)
        return error_set(error, STATUS_DEVICE,
                         "cuBLAS is missing (%s): install the CUDA 13 libraries, or put their folder into "
                         "LD_LIBRARY_PATH",
                         dlerror());
    struct {
        const char *name;
        void **function;
    } wanted[] = {
        {"cublasLtCreate", (void **)&g->create},
        {"cublasLtDestroy", (void **)&g->destroy},
        {"cublasLtMatmul", (void **)&g->matmul},
        {"cublasLtMatmulDescCreate", (void **)&g->operation_create},
        {"cublasLtMatmulDescDestroy", (void **)&g->operation_destroy},
        {"cublasLtMatmulDescSetAttribute", (void **)&g->operation_set},
        {"cublasLtMatrixLayoutCreate", (void **)&g->layout_create},
        {"cublasLtMatrixLayoutSetAttribute", (void **)&g->layout_set},
        {"cublasLtMatrixLayoutDestroy", (void **)&g->layout_destroy},
        {"cublasLtMatmulPreferenceCreate", (void **)&g->preference_create},
        {"cublasLtMatmulPreferenceDestroy", (void **)&g->preference_destroy},
        {"cublasLtMatmulPreferenceSetAttribute", (void **)&g->preference_set},
        {"cublasLtMatmulAlgoGetHeuristic", (void **)&g->heuristic},
        {"cublasLtMatmulAlgoConfigGetAttribute", (void **)&g->algorithm_get},
        {"cublasLtGetStatusString", (void **)&g->status_string},
    };
    for (auto &w : wanted) {
        *w.function = dlsym(g->library, w.name);
        if (!*w.function)
            return error_set(error, STATUS_DEVICE, "cuBLAS lacks %s: is it version 13?", w.name);
    }
    return STATUS_OK;
}

static Status check(const Library *g, cublasStatus_t code, const Plan *p, Error *error) {
    if (code == CUBLAS_STATUS_SUCCESS) return STATUS_OK;
    Status status = code == CUBLAS_STATUS_ALLOC_FAILED ? STATUS_MEMORY : STATUS_DEVICE;
    return error_set(error, status, "cuBLAS: [%d, %d]·[%d, %d]ᵀ in %s: %s", p->n, p->cols, p->rows, p->cols,
                     dtype_name(p->operand), g->status_string(code));
}

Status library_open(CudaBackend *cuda, Error *error) {
    Library *g = (Library *)calloc(1, sizeof *g);
    if (!g) return error_set(error, STATUS_MEMORY, "no memory for GEMMs");
    Status status = load_library(g, error);
    if (!status && g->create(&g->handle) != CUBLAS_STATUS_SUCCESS)
        status = error_set(error, STATUS_DEVICE, "cuBLAS could not be started");
    if (!status)
        status = cuda_check(cudaMalloc(&g->workspace, WORKSPACE_BYTES), error, "workspace for GEMMs");
    if (status)
        library_close(g);
    else
        cuda->library = g;
    return status;
}

static void plan_free(const Library *g, Plan *p) {
    if (p->operation) g->operation_destroy(p->operation);
    if (p->w) g->layout_destroy(p->w);
    if (p->x) g->layout_destroy(p->x);
    if (p->y) g->layout_destroy(p->y);
}

void library_close(Library *g) {
    if (!g) return;
    for (int i = 0; i < g->n_plans; i++) plan_free(g, &g->plans[i]);
    if (g->workspace) cudaFree(g->workspace);
    if (g->handle) g->destroy(g->handle);
    if (g->library) dlclose(g->library);
    free(g);
}

static cudaDataType_t data_type(DType type) {
    return type == DTYPE_F32    ? CUDA_R_32F
           : type == DTYPE_BF16 ? CUDA_R_16BF
           : type == DTYPE_INT8 ? CUDA_R_8I
                                : CUDA_R_16F;
}

enum {
    LONG_SUM = 8192, // columns from which on a tile's beginning and end matter little
    SAME_ROWS = 1024,
    HEAD_ALIGNMENT = 16, // bytes of where heads begin in their rows
};

// Of 8-bit integers sums are exact in 32 bits, whoever adds them up.
static bool is_integer(const Plan *p) {
    return p->operand == DTYPE_INT8;
}
static cudaDataType_t result_type(const Plan *p) {
    return is_integer(p) ? CUDA_R_32I : data_type(p->y_type);
}

// For all heads at once: what lies between the beginnings of their matrices.
static cublasStatus_t set_heads(const Library *g, const Plan *p, cublasLtMatrixLayout_t layout,
                                int64_t stride) {
    cublasStatus_t code =
        g->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &p->n_heads, sizeof p->n_heads);
    return code != CUBLAS_STATUS_SUCCESS
               ? code
               : g->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
}

// x and y of n rows.
static cublasStatus_t make_layouts(const Library *g, const Plan *p, int n, cublasLtMatrixLayout_t *x,
                                   cublasLtMatrixLayout_t *y) {
    const int stride = p->x_stride ? p->x_stride : p->cols;
    cublasStatus_t code = g->layout_create(x, data_type(p->operand), (uint64_t)p->cols, (uint64_t)n, stride);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = g->layout_create(y, result_type(p), (uint64_t)p->rows, (uint64_t)n, p->y_stride);
    if (p->n_heads && code == CUBLAS_STATUS_SUCCESS) code = set_heads(g, p, *x, p->x_head);
    if (p->n_heads && code == CUBLAS_STATUS_SUCCESS) code = set_heads(g, p, *y, p->y_head);
    return code;
}

// Of the first two algorithms that cuBLASLt's heuristic names the first: always the same one, so that results can be
// repeated. Hopper's tiles of 128 x 256 read less shared memory for a GEMM than those of 256 x 128, which are named
// first: over long sums, and on a card at the limit of its power, 5% of the time (NOTES.md).
//
// Where rows are not to show in each other, it is the one for SAME_ROWS of them, which adds up a row's products in one
// order however many there are: no splits of the sum.
static Status choose_algorithm(const Library *g, Plan *p, Error *error) {
    cublasLtMatmulPreference_t preference = NULL;
    size_t workspace = WORKSPACE_BYTES;
    uint32_t no_splits = CUBLASLT_REDUCTION_SCHEME_NONE, alignment = HEAD_ALIGNMENT;
    static const cublasLtMatmulPreferenceAttributes_t ALIGNED[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasLtMatmulHeuristicResult_t found[2];
    cublasLtMatrixLayout_t x = p->x, y = p->y;
    int n_found = 0, best = 0, tile = 0;
    size_t written;
    cublasStatus_t code = g->preference_create(&preference);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = g->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                 sizeof workspace);
    for (size_t i = 0; p->n_heads && i < sizeof ALIGNED / sizeof *ALIGNED && code == CUBLAS_STATUS_SUCCESS;
         i++)
        code = g->preference_set(preference, ALIGNED[i], &alignment, sizeof alignment);
    if (p->same) {
        x = y = NULL;
        if (code == CUBLAS_STATUS_SUCCESS)
            code = g->preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_splits,
                                     sizeof no_splits);
        if (code == CUBLAS_STATUS_SUCCESS) code = make_layouts(g, p, SAME_ROWS, &x, &y);
    }
    if (code == CUBLAS_STATUS_SUCCESS)
        code = g->heuristic(g->handle, p->operation, p->w, x, y, y, preference, 2, found, &n_found);
    if (preference) g->preference_destroy(preference);
    if (p->same && x) g->layout_destroy(x);
    if (p->same && y) g->layout_destroy(y);
    if (code == CUBLAS_STATUS_SUCCESS && n_found < 1) code = CUBLAS_STATUS_NOT_SUPPORTED;
    if (code == CUBLAS_STATUS_SUCCESS && n_found > 1 && p->cols >= LONG_SUM &&
        found[1].wavesCount == found[0].wavesCount &&
        g->algorithm_get(&found[1].algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile, &written) ==
            CUBLAS_STATUS_SUCCESS &&
        tile == CUBLASLT_MATMUL_TILE_128x256)
        best = 1;
    p->algorithm = found[best].algo;
    return check(g, code, p, error);
}

static Status plan_open(const Library *g, Plan *p, Error *error) {
    cublasOperation_t transpose = CUBLAS_OP_T;
    cudaDataType_t operand = data_type(p->operand);
    cublasStatus_t code =
        g->operation_create(&p->operation, is_integer(p) ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                            is_integer(p) ? CUDA_R_32I : CUDA_R_32F);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = g->operation_set(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = g->layout_create(&p->w, operand, (uint64_t)p->cols, (uint64_t)p->rows, p->cols);
    if (p->n_heads && code == CUBLAS_STATUS_SUCCESS) code = set_heads(g, p, p->w, (int64_t)p->rows * p->cols);
    if (code == CUBLAS_STATUS_SUCCESS) code = make_layouts(g, p, p->n, &p->x, &p->y);
    Status status = check(g, code, p, error);
    return status ? status : choose_algorithm(g, p, error);
}

static Status find_plan(Library *g, const Plan *wanted, const Plan **plan, Error *error) {
    for (int i = 0; i < g->n_plans; i++) {
        const Plan *p = &g->plans[i];
        if (p->rows == wanted->rows && p->cols == wanted->cols && p->n == wanted->n &&
            p->add == wanted->add && p->same == wanted->same && p->y_stride == wanted->y_stride &&
            p->operand == wanted->operand && p->y_type == wanted->y_type && p->n_heads == wanted->n_heads &&
            p->x_stride == wanted->x_stride && p->x_head == wanted->x_head && p->y_head == wanted->y_head) {
            *plan = p;
            return STATUS_OK;
        }
    }
    if (g->n_plans == MAX_PLANS) { // shapes of prompts differ without end: begin anew
        for (int i = 0; i < g->n_plans; i++) plan_free(g, &g->plans[i]);
        g->n_plans = 0;
    }
    Plan *p = &g->plans[g->n_plans];
    *p = *wanted;
    Status status = plan_open(g, p, error);
    if (status) {
        plan_free(g, p);
        return status;
    }
    g->n_plans++;
    *plan = p;
    return STATUS_OK;
}

// Rows of y for a dense matrix of the operand type; y points at the first of them.
static Status run_gemm(CudaBackend *cuda, const Gemm *a, int rows, const void *dense, void *y, Error *error) {
    bool add = a->epilogue == EPILOGUE_ADD;
    Plan wanted = {rows,          a->w->cols,           a->n, a->w->rows,
                   cuda->operand, gemm_output(cuda, a), add,  cuda->step.kind == STEP_READING};
    const Plan *p;
    Status status = find_plan(cuda->library, &wanted, &p, error);
    if (status) return status;
    float one = 1, beta = add ? 1 : 0;
    const Library *g = cuda->library;
    return check(g,
                 g->matmul(g->handle, p->operation, &one, dense, p->w, a->x, p->x, &beta, y, p->y, y, p->y,
                           &p->algorithm, g->workspace, WORKSPACE_BYTES, cuda->device.stream),
                 p, error);
}

// y [n, rows] int32 = x · Wᵀ, both in 8 bits with rows padded alike, then the epilogue.
static Status multiply_w8(CudaBackend *cuda, const Gemm *a, Error *error) {
    const Weight *w = &a->w->part[0];
    Plan wanted = {w->rows, (int)w->row_bytes, a->n, w->rows, DTYPE_INT8, DTYPE_F32, false, false};
    const Plan *p;
    const Library *g = cuda->library;
    int32_t one = 1, zero = 0, *sums = w8_sums(cuda, a);
    Status status = find_plan(cuda->library, &wanted, &p, error);
    if (!status)
        status =
            check(g,
                  g->matmul(g->handle, p->operation, &one, w->data, p->w, a->x, p->x, &zero, sums, p->y, sums,
                            p->y, &p->algorithm, g->workspace, WORKSPACE_BYTES, cuda->device.stream),
                  p, error);
    return status ? status : w8_finish(cuda, a, sums, error);
}

Status library_gemm(CudaBackend *cuda, const Gemm *a, Error *error) {
    if (linear_is_w8(a->w)) return multiply_w8(cuda, a, error);
    char *y = (char *)a->y;
    return for_dense(cuda, a->w, error, [&](const void *dense, bool, int first, int n) {
        return run_gemm(cuda, a, n, dense, y + (size_t)first * operand_bytes(gemm_output(cuda, a)), error);
    });
}

Status library_head_product(CudaBackend *cuda, const HeadProduct *a, Error *error) {
    const int64_t size = (int64_t)operand_bytes(cuda->operand);
    const uint64_t places = (uint64_t)(uintptr_t)a->x | (uint64_t)(uintptr_t)a->y |
                            (uint64_t)(a->x_token * size) | (uint64_t)(a->x_head * size) |
                            (uint64_t)(a->y_token * size) | (uint64_t)(a->y_head * size) |
                            (uint64_t)((int64_t)a->cols * size) | (uint64_t)((int64_t)a->rows * size);
    if (a->w->format != format_of(cuda->operand) || places % HEAD_ALIGNMENT) return STATUS_UNSUPPORTED;
    Plan wanted = {a->rows, a->cols, a->n, (int)a->y_token, cuda->operand, cuda->operand};
    wanted.same = cuda->step.kind == STEP_READING;
    wanted.n_heads = a->n_heads, wanted.x_stride = (int)a->x_token;
    wanted.x_head = a->x_head, wanted.y_head = a->y_head;
    const Plan *p;
    Status status = find_plan(cuda->library, &wanted, &p, error);
    if (status) return status;
    const float one = 1, zero = 0;
    const Library *g = cuda->library;
    return check(g,
                 g->matmul(g->handle, p->operation, &one, a->w->data, p->w, a->x, p->x, &zero, a->y, p->y,
                           a->y, p->y, &p->algorithm, g->workspace, WORKSPACE_BYTES, cuda->device.stream),
                 p, error);
}
