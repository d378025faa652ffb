#include "kernels/cuda/device/built.cuh"
#include "kernels/cuda/weights/upload.cuh"

#include "kernels/cuda/weights/repack.cuh"
extern "C" {
#include "kernels/base/machine/threads.h"
}

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STAGES = 4,
    STAGE_BYTES = 8 << 20,
    PIECE_BYTES = 512 << 10, // that a thread copies at a time
    MOST_THREADS = 16,       // a core brings 4 GB/s out of a mapping, page faults included; the bus takes 55
};

struct Upload {
    Threads *threads;
    char *pinned; // [STAGES, STAGE_BYTES]
    char *device; // likewise, in the backend's scratch: no step runs while weights are loaded
    cudaStream_t streams[STAGES];
    cudaEvent_t event; // of upload_follow() and upload_precede()
    int next;
    bool busy;    // something may be on its way
    bool settled; // a step has begun since layers were loaded
};

void cuda_end_upload(CudaBackend *cuda) {
    Upload *u = cuda->upload;
    if (!u) return;
    const bool settled = u->settled;
    for (cudaStream_t stream : u->streams)
        if (stream) {
            cudaStreamSynchronize(stream);
            cudaStreamDestroy(stream);
        }
    if (u->event) cudaEventDestroy(u->event);
    if (u->pinned) cudaFreeHost(u->pinned);
    threads_close(u->threads);
    free(u);
    cuda->upload = NULL;
    if (!settled) weights_find_uniform(cuda, NULL), gates_round_rates(cuda);
}

Status upload_begin(CudaBackend *cuda, Error *error) {
    if (cuda->upload) return STATUS_OK;
    if (cuda->scratch.weights_bytes < (size_t)STAGES * STAGE_BYTES)
        return error_set(error, STATUS_MEMORY, "cuda: scratch of %zu bytes has no room for loading",
                         cuda->scratch.weights_bytes);
    Upload *u = cuda->upload = (Upload *)calloc(1, sizeof *u);
    if (!u) return error_set(error, STATUS_MEMORY, "no memory for loading");
    u->busy = true;
    u->device = (char *)cuda->scratch.weights;
    int cores = threads_available();
    Status status = threads_open(cores < MOST_THREADS ? cores : MOST_THREADS, &u->threads, error);
    cudaError_t code = cudaSuccess;
    if (!status) code = cudaStreamSynchronize(cuda->device.stream); // steps before may still use the scratch
    if (!status && code == cudaSuccess) code = cudaMallocHost(&u->pinned, (size_t)STAGES * STAGE_BYTES);
    for (int i = 0; i < STAGES && !status && code == cudaSuccess; i++)
        code = cudaStreamCreateWithFlags(&u->streams[i], cudaStreamNonBlocking);
    if (!status && code == cudaSuccess) code = cudaEventCreateWithFlags(&u->event, cudaEventDisableTiming);
    if (!status) status = cuda_check(code, error, "buffers for loading");
    if (status) cuda_end_upload(cuda);
    return status;
}

Status upload_follow(CudaBackend *cuda, Error *error) {
    Upload *u = cuda->upload;
    u->busy = true;
    cudaError_t code = cudaEventRecord(u->event, cuda->device.stream);
    for (int i = 0; i < STAGES && code == cudaSuccess; i++)
        code = cudaStreamWaitEvent(u->streams[i], u->event, 0);
    return cuda_check(code, error, "loading behind steps");
}

Status upload_precede(CudaBackend *cuda, Error *error) {
    Upload *u = cuda->upload;
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < STAGES && code == cudaSuccess; i++) {
        code = cudaEventRecord(u->event, u->streams[i]);
        if (code == cudaSuccess) code = cudaStreamWaitEvent(cuda->device.stream, u->event, 0);
    }
    u->busy = code != cudaSuccess;
    return cuda_check(code, error, "steps behind loading");
}

Status upload_bytes(CudaBackend *cuda, void *to, const void *from, size_t bytes, Error *error) {
    Upload *u = cuda->upload;
    return cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, u->streams[u->next]), error,
                      "loading %zu bytes", bytes);
}

Status cuda_settle_upload(CudaBackend *cuda, Error *error) {
    if (!cuda->upload) return STATUS_OK;
    if (!cuda->visit) {
        cuda_end_upload(cuda);
        return STATUS_OK;
    }
    Status status = cuda->upload->busy ? upload_precede(cuda, error) : STATUS_OK;
    if (!status && !cuda->upload->settled) weights_find_uniform(cuda, NULL), gates_round_rates(cuda);
    cuda->upload->settled = true;
    return status;
}

// ---- matrices --------------------------------------------------------------------------------------------------

struct Copy {
    const char *from;
    char *to;
    int64_t bytes;
    DType type;
    bool beyond; // of MXFP4 and E4M3: whether a scale was met that makes more of a code than a half holds
};

// MXFP4: a scale is 2^(exponent - 128), the largest code 12: up to here both fit into halves. E4M3: 448 times as much does.
// NF4: as much.
enum { MOST_EXPONENT = 140, MOST_E4M3 = 146, MOST_NF4 = 65504 };

static int most_of(DType type) {
    return type == DTYPE_MXFP4 ? 1 << (MOST_EXPONENT - 128) : type == DTYPE_E4M3 ? MOST_E4M3 : MOST_NF4;
}

static bool is_beyond(DType type, const char *block) {
    float scale;
    if (type == DTYPE_MXFP4) return (uint8_t)*block > MOST_EXPONENT;
    memcpy(&scale, block, sizeof scale);
    return !(fabsf(scale) <= (float)most_of(type));
}

static void copy_piece(void *context, int64_t part, int) {
    Copy *c = (Copy *)context;
    int64_t at = part * PIECE_BYTES, n = c->bytes - at < PIECE_BYTES ? c->bytes - at : PIECE_BYTES;
    memcpy(c->to + at, c->from + at, (size_t)n);
    if (c->type != DTYPE_MXFP4 && c->type != DTYPE_E4M3 && c->type != DTYPE_NF4) return;
    const int64_t block = dtype_block_bytes(c->type);
    bool beyond = false;
    for (int64_t i = (at + block - 1) / block * block; i < at + n; i += block)
        beyond |= is_beyond(c->type, c->from + i); // which may be cut in two here, but not there
    if (beyond) __atomic_store_n(&c->beyond, true, __ATOMIC_RELAXED);
}

// n rows, which lie in pinned memory, to rows first, first + stride, … of w.
static cudaError_t send_rows(Upload *u, const Matrix *m, int64_t n, const Weight *w, int64_t first,
                             int stride) {
    size_t row = (size_t)dtype_row_bytes(m->type, m->cols);
    const char *pinned = u->pinned + (int64_t)u->next * STAGE_BYTES;
    cudaStream_t stream = u->streams[u->next];
    if (!format_quantized(w->format))
        return cudaMemcpy2DAsync(w->data + first * w->row_bytes, (size_t)(w->row_bytes * stride), pinned, row,
                                 row, (size_t)n, cudaMemcpyHostToDevice, stream);
    char *device = u->device + (int64_t)u->next * STAGE_BYTES;
    cudaError_t code = cudaMemcpyAsync(device, pinned, (size_t)n * row, cudaMemcpyHostToDevice, stream);
    if (code != cudaSuccess) return code;
    if (w->format == FORMAT_E4M3) {
        repack_e4m3_kernel<<<(unsigned)n, 256, 0, stream>>>(device, (int64_t)row, *w, first, stride);
        return cudaGetLastError();
    }
    if (w->format == FORMAT_W8) {
        repack_w8_kernel<<<(unsigned)n, 256, 0, stream>>>(device, (int64_t)row, *w, first, stride);
        return cudaGetLastError();
    }
    dim3 grid((unsigned)n, (unsigned)((m->cols / 32 + 63) / 64));
    repack_kernel<<<grid, 64, 0, stream>>>(m->type, (const uint8_t *)device, (int64_t)row, *w, first, stride);
    return cudaGetLastError();
}

Status upload_rows(CudaBackend *cuda, const Matrix *m, const Weight *w, int64_t first, int stride,
                   Error *error) {
    Upload *u = cuda->upload;
    int64_t row = dtype_row_bytes(m->type, m->cols), at_once = STAGE_BYTES / row;
    if (at_once < 1) return error_set(error, STATUS_UNSUPPORTED, "rows of %lld elements", (long long)m->cols);
    if (!first_talk_has(w->format)) return built_lacks(dtype_name(m->type), error);
    if (cuda->random_weights) {
        random_kernel<<<(unsigned)m->rows, 256, 0, cuda->device.stream>>>(*w, first, stride,
                                                                          (uint32_t)(uintptr_t)w->data);
        return CUDA_LAUNCHED(error, "making up [%lld, %lld]", (long long)m->rows, (long long)m->cols);
    }
    if (m->pieces) {
        for (int i = 0; i < m->n_pieces; i++) {
            const Matrix piece = matrix_of_expert(m, i, m->n_pieces);
            Status status = upload_rows(cuda, &piece, w, first + i * piece.rows * stride, stride, error);
            if (status) return status;
        }
        return STATUS_OK;
    }
    for (int64_t r = 0; r < m->rows; r += at_once) {
        int64_t n = m->rows - r < at_once ? m->rows - r : at_once;
        Copy copy = {(const char *)m->data + r * row, u->pinned + (int64_t)u->next * STAGE_BYTES, n * row,
                     m->type, false};
        cudaError_t code = cudaStreamSynchronize(u->streams[u->next]); // its stage is free again
        threads_run(u->threads, (copy.bytes + PIECE_BYTES - 1) / PIECE_BYTES, copy_piece, &copy);
        if (copy.beyond)
            return error_set(
                error, STATUS_UNSUPPORTED,
                "cuda: [%lld, %lld] of %s has scales above %d, which 16 bits cannot hold: --device cpu",
                (long long)m->rows, (long long)m->cols, dtype_name(m->type), most_of(m->type));
        if (code == cudaSuccess) code = send_rows(u, m, n, w, first + r * stride, stride);
        u->next = (u->next + 1) % STAGES;
        Status status = cuda_check(code, error, "loading [%lld, %lld] of %s", (long long)m->rows,
                                   (long long)m->cols, dtype_name(m->type));
        if (status) return status;
    }
    return STATUS_OK;
}

// ---- vectors ---------------------------------------------------------------------------------------------------

static float element(const Matrix *m, int64_t i) {
    uint16_t half;
    float value;
    if (m->type == DTYPE_F32) {
        memcpy(&value, (const char *)m->data + i * 4, 4);
        return value;
    }
    memcpy(&half, (const char *)m->data + i * 2, 2);
    if (m->type == DTYPE_F16) return __half2float(__ushort_as_half(half));
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&value, &bits, 4);
    return value;
}

Status upload_vectors(CudaBackend *cuda, const VectorList &list, float offset, float *target, Error *error) {
    const Matrix *const *vectors = list.vectors;
    const int64_t *sizes = list.sizes;
    const int n = list.n;
    Upload *u = cuda->upload;
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        total += sizes[i];
        if (vectors[i]->data && vectors[i]->type > DTYPE_BF16)
            return error_set(error, STATUS_UNSUPPORTED, "cuda: a norm or bias of type %s",
                             dtype_name(vectors[i]->type));
    }
    if (total > STAGE_BYTES / 4)
        return error_set(error, STATUS_UNSUPPORTED, "cuda: a vector of %lld", (long long)total);
    cudaStream_t stream = u->streams[u->next];
    cudaError_t code = cudaStreamSynchronize(stream);
    float *values = (float *)(u->pinned + (int64_t)u->next * STAGE_BYTES), *to = values;
    for (int i = 0; i < n; to += sizes[i++])
        for (int64_t j = 0; j < sizes[i]; j++)
            to[j] = !vectors[i]->data      ? 0
                    : cuda->random_weights ? 1
                                           : (element(vectors[i], j) + offset) * list.scale;
    if (code == cudaSuccess)
        code = cudaMemcpyAsync(target, values, (size_t)total * 4, cudaMemcpyHostToDevice, stream);
    u->next = (u->next + 1) % STAGES;
    return cuda_check(code, error, "loading a vector of %lld", (long long)total);
}
