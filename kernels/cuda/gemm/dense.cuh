// The rows of a matrix of any format, in blocks, as a dense matrix of the operand type.
#ifndef PALAVER_KERNELS_CUDA_GEMM_DENSE_CUH
#define PALAVER_KERNELS_CUDA_GEMM_DENSE_CUH

#include "kernels/cuda/gemm/gemm.cuh"

// Rows: whole tiles of gemm/tile.cu, whole heads, and an address in y as cuBLASLt's heuristic supposes (256 bytes).
enum { DENSE_UNIT = 256 };

// Calls gemm(dense, expanded, first, n) for rows first … first + n - 1 of w at a time, which lie at `dense`: in place,
// or `expanded` in scratch by the kernel just launched. Blocks but a part's last have a multiple of DENSE_UNIT rows.
template <class F> Status for_dense(CudaBackend *cuda, const Linear *w, Error *error, F gemm) {
    Status status = STATUS_OK;
    int row = 0;
    for (int i = 0; i < w->n_parts && !status; i++) {
        const Weight *part = &w->part[i];
        bool direct = part->format == format_of(cuda->operand);
        int most =
            direct ? part->rows
                   : (int)(cuda->scratch.weights_bytes / ((size_t)part->cols * operand_bytes(cuda->operand)));
        if (!direct && most > DENSE_UNIT) most -= most % DENSE_UNIT;
        for (int first = 0; first < part->rows && !status; first += most) {
            int n = part->rows - first < most ? part->rows - first : most;
            if (!direct)
                status = cuda_expand(cuda, WeightRows{part, first, n}, cuda->operand, cuda->scratch.weights,
                                     error);
            if (!status) status = gemm(direct ? part->data : cuda->scratch.weights, !direct, row + first, n);
        }
        row += part->rows;
    }
    return status;
}

#endif
