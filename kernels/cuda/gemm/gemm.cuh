// GEMMs of the ops: y [n, rows] = x [n, cols] · Wᵀ, and what becomes of the sums.
#ifndef PALAVER_KERNELS_CUDA_GEMM_GEMM_CUH
#define PALAVER_KERNELS_CUDA_GEMM_GEMM_CUH

#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/device/built.cuh"
#include "kernels/cuda/heads.cuh"

struct Gemm {
    const Linear *w;
    const void *x; // [n, w->cols] operand type; of W8 rows of integers, as long as those of w
    int n;         // any number
    GemmEpilogue epilogue;
    void *y;
    // [w->rows], NULL: none. FLOAT: of the outputs; ACTIVATE: of what is activated; GATED: of gates, and `other` of
    // ups.
    const float *bias, *other;
    const HeadArguments *heads; // HEADS, else NULL
    // On the device, where not all rows' results are wanted: how many; n <= FLAT_MOST, by flat GEMMs. NULL: all.
    const int32_t *count;
    const char **chosen; // gets the kernel's name; NULL: nobody asks
    // [n] of W8, and of inputs in e4m3 (kernels/fp8.h), of which those by groups have x_stride more for each 128 columns;
    // else NULL.
    const float *x_scales;
    // ADD: what multiplies norm(y) next, and the weights of that norm; NULL: something else comes first.
    const Linear *next;
    const float *next_norm;
    int x_stride; // see x_scales; 0: they are of rows
    int x_rows;   // that x's memory has, where it has more than n: gemm_take() and gemm_take_norm() say so
    const int32_t
        *order;         // of activations, which gemm_take() and gemm_take_norm() put in it; NULL: as they are
    const Xielu *xielu; // ACTIVATE, of shapes with it
};

// By the kernel that dispatch.h names. STATUS_UNSUPPORTED, with no error: it names none for this epilogue, and nothing
// was done; store, and go on.
Status cuda_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);

// Of y.
static inline DType gemm_output(const CudaBackend *cuda, const Gemm *gemm) {
    const bool sums =
        gemm->epilogue == EPILOGUE_FLOAT || gemm->epilogue == EPILOGUE_ADD || gemm->epilogue == EPILOGUE_SUMS;
    return sums ? DTYPE_F32 : cuda->operand;
}

// How x of a GEMM of activations is rounded: as the shape says where its kernel takes FP8, else not at all.
Fp8Inputs gemm_fp8_inputs(const CudaBackend *cuda, const Gemm *gemm);

// reorder.cu: to [n, cols] of the operand type, to[·][i] = from[·][order[i]].
Status cuda_reorder(CudaBackend *cuda, const Gemm *gemm, const void *from, void *to, Error *error);

// Rows of x that tiles may bring: up to the end of the last tile, as far as they are there; what those from n on hold becomes
// results that nobody reads. Zeros, which stand for rows beyond a map's end, take longer to come than rows (NOTES).
static inline int gemm_rows_there(const Gemm *gemm) {
    const int whole = (gemm->n + 255) / 256 * 256, most = gemm->n > gemm->x_rows ? gemm->n : gemm->x_rows;
    return whole < most ? whole : most;
}

// Bytes of a row of x.
static inline size_t gemm_input_bytes(const CudaBackend *cuda, const Gemm *gemm) {
    return linear_is_w8(gemm->w) ? (size_t)gemm->w->part[0].row_bytes
                                 : (size_t)gemm->w->cols * operand_bytes(cuda->operand);
}

// ---- the kernels' own launchers, for what dispatch_gemm() gives them ------------------------------------------

Status gemv_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);
Status flat_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);
Status tile_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);
// w8/tile_w8.cu, w8/tile_fp8.cu, then _groups.cu
MAY_LACK Status tile_gemm_w8(CudaBackend *cuda, const Gemm *gemm, Error *error);
MAY_LACK Status tile_gemm_fp8(CudaBackend *cuda, const Gemm *gemm, Error *error);
Status tile_gemm_fp8_groups(CudaBackend *cuda, const Gemm *gemm, Error *error);
Status library_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);
Status unpack_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);

// expand.cu: rows [first, first + n) of w as a dense matrix of type `type`.
struct WeightRows {
    const Weight *w;
    int first, n;
};
Status cuda_expand(CudaBackend *cuda, const WeightRows &rows, DType type, void *dense, Error *error);

// ---- w8/quantize.cu -----------------------------------------------------------------------------------------------------

// A GEMM's input where W is W8, or where gemm_fp8_inputs() says so: g->x and x_scales become the quantised rows of activations y [n, cols] of the operand
// type, which lie in cuda->scratch.wide. Where W is not, x is y.
Status gemm_take(CudaBackend *cuda, Gemm *gemm, const void *y, Error *error);
// The same of norm(x), x [·, cols] float32, its rows as cuda_norm() takes them; they lie in cuda->scratch.normed.
Status gemm_take_norm(CudaBackend *cuda, Gemm *gemm, const float *x, const int32_t *rows, Norm norm,
                      Error *error);

// Where the sums of a W8 GEMM by cuBLASLt lie, [n, rows], and what becomes of them: the epilogue, but for heads.
int32_t *w8_sums(const CudaBackend *cuda, const Gemm *gemm);
Status w8_finish(CudaBackend *cuda, const Gemm *gemm, const int32_t *sums, Error *error);

#endif
