// GEMMs of the ops: y [n, rows] = x [n, cols] · Wᵀ, and what becomes of the sums.
#ifndef PALAVER_KERNELS_CUDA_GEMM_GEMM_CUH
#define PALAVER_KERNELS_CUDA_GEMM_GEMM_CUH

#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/heads.cuh"

struct Gemm {
    const Linear *w;
    const void *x; // [n, w->cols] operand type
    int n;         // any number
    GemmEpilogue epilogue;
    void *y;
    // [w->rows], NULL: none. FLOAT: of the outputs; ACTIVATE: of what is activated; GATED: of gates, and `other` of
    // ups.
    const float *bias, *other;
    const HeadArguments *heads; // HEADS, else NULL
    // On the device, where not all rows' results are wanted: how many; n <= FLAT_MOST. NULL: all.
    const int32_t *count;
    const char **chosen; // gets the kernel's name; NULL: nobody asks
};

// By the kernel that dispatch.h names. STATUS_UNSUPPORTED, with no error: it names none for this epilogue, and nothing
// was done; store, and go on.
Status cuda_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);

// Of y.
static inline DType gemm_output(const CudaBackend *cuda, const Gemm *gemm) {
    return gemm->epilogue == EPILOGUE_FLOAT || gemm->epilogue == EPILOGUE_ADD ? DTYPE_F32 : cuda->operand;
}

// ---- the kernels' own launchers, for what dispatch_gemm() gives them ------------------------------------------

Status flat_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);
Status tile_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);
Status library_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);
Status unpack_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);

// expand.cu: rows [first, first + n) of w as a dense matrix of type `type`.
struct WeightRows {
    const Weight *w;
    int first, n;
};
Status cuda_expand(CudaBackend *cuda, const WeightRows &rows, DType type, void *dense, Error *error);

#endif
