// How a layer's weights lie in its allocation, and what of them there has to be.
#ifndef PALAVER_KERNELS_CUDA_WEIGHTS_LAYOUT_CUH
#define PALAVER_KERNELS_CUDA_WEIGHTS_LAYOUT_CUH

#include "kernels/cuda/weights/upload.cuh"

// Bytes from a row to the next. Quantised rows begin at whole lines of the L2 where that adds no more than a 32nd: those of
// 5,120 columns in 8 bits are read 3% faster (NOTES). W8 is copied as it lies in a file.
inline int64_t row_stride(Format format, int cols) {
    const int64_t row = format_row_bytes(format, cols), lines = (row + 127) / 128 * 128;
    return format_quantized(format) && format != FORMAT_W8 && (lines - row) * 32 <= row ? lines : row;
}

// Memory that is first measured, then cut up: with base NULL, take() only counts.
struct Arena {
    char *base;
    size_t used;
    char *take(size_t bytes) {
        size_t at = used;
        used += (bytes + 255) / 256 * 256;
        return base ? base + at : NULL;
    }
    Weight weight(const Matrix *m, int64_t rows) { return weight_as(format_of(m->type), m, rows); }
    Weight weight_as(Format format, const Matrix *m, int64_t rows) {
        const int64_t row = row_stride(format, (int)m->cols);
        Weight w = {take((size_t)(rows * row)), row, (int)rows, (int)m->cols, format, 0, NULL};
        if (format == FORMAT_W8) w.scales = (float *)take((size_t)rows * sizeof(float));
        return w;
    }
    // The whole of a matrix by itself; of one that is absent rows are 0.
    Linear linear(const Matrix *m) {
        return m->data ? Linear{{weight(m, m->rows)}, 1, (int)m->rows, (int)m->cols} : Linear{};
    }
};

// STATUS_UNSUPPORTED, naming the matrix, unless it is there, [rows, cols], and can be multiplied with.
Status layout_check_matrix(const char *name, const Matrix *m, int64_t rows, int64_t cols, Error *error);

// What the activations of GEMMs are held in: by the first layer that is not W8; where all are, by the head.
void settle_operand(CudaBackend *cuda, DType type, bool of_head);

size_t head_bytes(const DecoderShape *shape, const HeadWeights *host); // of its allocation (head.cu)

// ---- vectors.cu ---------------------------------------------------------------------------------------------------

// A vector of a layer or of the head, and where it goes on the device.
struct Vector {
    const char *name;
    const Matrix *from;
    int64_t size;
    float offset;  // added to its elements
    float scale;   // which then multiplies them
    bool required; // else it may be absent, and *to stays NULL
    float **to;
};

Status vectors_check(const Vector *vectors, int n, Error *error);
void vectors_lay_out(const Vector *vectors, int n, Arena *a);
Status vectors_upload(CudaBackend *cuda, const Vector *vectors, int n, Error *error);

// ---- heads.cu: the matrices of attention, but for wo, and the biases of queries, keys and values ----------------

void heads_lay_out(const DecoderShape *s, const LayerWeights *h, Layer *layer, Arena *a);
Status heads_upload(CudaBackend *cuda, const LayerWeights *h, const Layer *layer, Error *error);
Status heads_check(const DecoderShape *s, const LayerWeights *h, Error *error);

// ---- gates.cu: gates behind attention, and what else layers that recur have of matrices -------------------------

void gates_lay_out(const DecoderShape *s, const LayerWeights *h, Layer *layer, Arena *a);
Status gates_upload(CudaBackend *cuda, const LayerWeights *h, const Layer *layer, Error *error);
Status gates_check(const DecoderShape *s, const LayerWeights *h, Error *error);

// ---- orders.cu: the orders in which a layer takes its inputs -----------------------------------------------------

void orders_lay_out(const LayerWeights *h, Layer *layer, Arena *a);
Status orders_upload(CudaBackend *cuda, const LayerWeights *h, Layer *layer, Error *error);

#endif
