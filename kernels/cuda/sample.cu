// sample: a token from each row of logits, by the kernel of sample_kernel.cuh; by the CPU's sampler what does not fit.
#include "kernels/cuda/sample_kernel.cuh"
extern "C" {
#include "kernels/cpu/sample.h"
}

#include <stdlib.h>
#include <string.h>

struct CudaSample {
    SampleWords *words;
    uint32_t launch;                       // number of the last one
    bool fits;                             // all its blocks at once, as they wait for each other
    LogitAdjustment *adjustments, *staged; // room for `room`
    int room;
    Drawn *drawn;
    SampleScratch *scratch; // of the CPU's sampler, and the row, when they are needed
    float *row;
};

void cuda_sample_close(CudaSample *s) {
    if (!s) return;
    if (s->words) cudaFree(s->words);
    if (s->adjustments) cudaFree(s->adjustments);
    if (s->staged) cudaFreeHost(s->staged);
    if (s->drawn) cudaFreeHost(s->drawn);
    sample_scratch_close(s->scratch);
    free(s->row);
    free(s);
}

// Shared memory of a block: its share of the row, and candidates.
static size_t shared_bytes(int n_vocab) {
    int share = SAMPLE_GROUPS * 32;
    return (size_t)((n_vocab + share - 1) / share) * SAMPLE_THREADS * sizeof(int32_t) +
           MOST_CANDIDATES * sizeof(uint64_t);
}

static Status sample_open(CudaBackend *cuda, Error *error) {
    CudaSample *s = (CudaSample *)calloc(1, sizeof *s);
    if (!s) return error_set(error, STATUS_MEMORY, "no memory for sampling");
    cudaError_t code = cudaMalloc(&s->words, sizeof *s->words);
    if (code == cudaSuccess) code = cudaMallocHost(&s->drawn, sizeof *s->drawn);
    if (code == cudaSuccess) code = cudaMemsetAsync(s->words, 0, sizeof *s->words, cuda->stream);
    size_t shared = shared_bytes(cuda->shape->vocab_size);
    int blocks = 0; // of a multiprocessor
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code == cudaSuccess)
        code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sample_kernel, SAMPLE_THREADS, shared);
    s->fits = blocks * cuda->n_sms >= SAMPLE_BLOCKS;
    Status status = cuda_check(code, error, "sample: room for candidates");
    if (status)
        cuda_sample_close(s);
    else
        cuda->sampler = s;
    return status;
}

static Status check_params(const CudaBackend *cuda, const SampleParams *p, Error *error) {
    if (!(p->temperature >= 0 && p->temperature < INFINITY))
        return error_set(error, STATUS_USAGE, "sample: temperature %g must be 0 or more", p->temperature);
    if (!(p->top_p >= 0 && p->top_p <= 1) || !(p->typical_p >= 0 && p->typical_p <= 1) ||
        !(p->min_p >= 0 && p->min_p <= 1))
        return error_set(error, STATUS_USAGE, "sample: top_p %g, typical_p %g and min_p %g must be 0 to 1",
                         p->top_p, p->typical_p, p->min_p);
    if (p->top_k < 0 || p->n_adjustments < 0)
        return error_set(error, STATUS_USAGE, "sample: top_k %d and n_adjustments %d must be 0 or more",
                         p->top_k, p->n_adjustments);
    for (int i = 0; i < p->n_adjustments; i++) {
        LogitAdjustment a = p->adjustments[i];
        if (a.id < 0 || a.id >= cuda->shape->vocab_size)
            return error_set(error, STATUS_USAGE, "sample: an adjustment of token %d in a vocabulary of %d",
                             a.id, cuda->shape->vocab_size);
        if (!(a.divide > 0 && a.divide < INFINITY) || isnan(a.subtract))
            return error_set(error, STATUS_USAGE, "sample: token %d is adjusted by / %g - %g", a.id, a.divide,
                             a.subtract);
    }
    return STATUS_OK;
}

static Status upload_adjustments(CudaBackend *cuda, CudaSample *s, const SampleParams *p, Error *error) {
    int n = p->n_adjustments;
    cudaError_t code = cudaSuccess;
    if (n > s->room) {
        if (s->adjustments) cudaFree(s->adjustments);
        if (s->staged) cudaFreeHost(s->staged);
        s->adjustments = s->staged = NULL;
        s->room = 0;
        int room = n < 512 ? 1024 : 2 * n;
        code = cudaMalloc(&s->adjustments, (size_t)room * sizeof *s->adjustments);
        if (code == cudaSuccess) code = cudaMallocHost(&s->staged, (size_t)room * sizeof *s->staged);
        if (code == cudaSuccess) s->room = room;
    }
    if (code == cudaSuccess && n > 0) {
        memcpy(s->staged, p->adjustments, (size_t)n * sizeof *s->staged);
        code = cudaMemcpyAsync(s->adjustments, s->staged, (size_t)n * sizeof *s->staged,
                               cudaMemcpyHostToDevice, cuda->stream);
    }
    return cuda_check(code, error, "sample: %d adjustments", n);
}

// The same chain on the host.
static Status sample_on_host(CudaBackend *cuda, CudaSample *s, const float *logits, const SampleParams *p,
                             int32_t *id, Error *error) {
    int n = cuda->shape->vocab_size;
    Status status = s->scratch ? STATUS_OK : sample_scratch_open(n, &s->scratch, error);
    if (status) return status;
    if (!s->row) s->row = (float *)malloc((size_t)n * sizeof *s->row);
    if (!s->row) return error_set(error, STATUS_MEMORY, "sample: no memory for a row of %d logits", n);
    status = cuda->base.ops->read(&cuda->base, s->row, logits, (size_t)n * sizeof *s->row, error);
    if (status) return status;
    Error of_row;
    status = sample_logits(s->row, n, s->scratch, p, id, &of_row);
    return status && status != STATUS_DEVICE ? error_set(error, status, "%s", of_row.message) : STATUS_OK;
}

static SampleArguments arguments_for(const CudaBackend *cuda, const CudaSample *s, const float *logits,
                                     const SampleParams *p) {
    SampleArguments a = {};
    a.logits = logits;
    a.n_vocab = cuda->shape->vocab_size;
    a.n_adjustments = p->n_adjustments;
    a.adjustments = s->adjustments;
    a.temperature = p->temperature, a.top_p = p->top_p, a.typical_p = p->typical_p, a.min_p = p->min_p;
    a.gap = p->min_p > 0 ? -log((double)p->min_p) : 0;
    a.scale = p->temperature > 0 ? sample_scale(p->temperature) : 0;
    a.unit_scale = sample_scale(1);
    a.top_k = p->top_k < a.n_vocab ? p->top_k : 0;
    a.u = sample_uniform(p->seed, p->conversation, p->position);
    a.whole = p->temperature > 0 && !a.top_k && (p->top_p < 1 || !(p->min_p > 0));
    a.whole_scale = p->top_p < 1 ? a.unit_scale : a.scale;
    a.words = s->words, a.drawn = s->drawn;
    return a;
}

static Status sample_row(CudaBackend *cuda, const float *logits, const SampleParams *p, int32_t *id,
                         Error *error) {
    Status status = check_params(cuda, p, error);
    if (!status && !cuda->sampler) status = sample_open(cuda, error);
    if (status) return status;
    CudaSample *s = cuda->sampler;
    SampleArguments a = arguments_for(cuda, s, logits, p);
    if (!s->fits || (a.temperature > 0 && (a.top_k > MOST || (!a.top_k && p->typical_p < 1))))
        return sample_on_host(cuda, s, logits, p, id, error);
    status = upload_adjustments(cuda, s, p, error);
    if (status) return status;
    a.adjustments = s->adjustments;
    a.launch = ++s->launch;
    volatile Drawn *drawn = s->drawn;
    drawn->outcome = OUTCOME_PENDING;
    sample_kernel<<<SAMPLE_BLOCKS, SAMPLE_THREADS, shared_bytes(a.n_vocab), cuda->stream>>>(a);
    cudaError_t code = cudaGetLastError();
    // The answer is there a little before the kernel has ended; a kernel that fails gives none.
    for (unsigned i = 1; code == cudaSuccess && drawn->outcome == OUTCOME_PENDING; i++) {
        if (i % 65536 != 0) continue;
        code = cudaStreamQuery(cuda->stream);
        if (code == cudaSuccess) break;
        if (code == cudaErrorNotReady) code = cudaSuccess;
    }
    status = cuda_check(code, error, "sample: %d logits", a.n_vocab);
    if (status) return status;
    switch (s->drawn->outcome) {
    case OUTCOME_DRAWN:
        *id = s->drawn->id;
        return STATUS_OK;
    case OUTCOME_NAN:
        *id = SAMPLE_NAN;
        return STATUS_OK;
    case OUTCOME_BAD_ADJUSTMENT:
        return error_set(error, STATUS_USAGE, "sample: token %d is adjusted to what is not a number",
                         p->adjustments[s->drawn->id].id);
    case OUTCOME_TOO_MANY:
        return sample_on_host(cuda, s, logits, p, id, error);
    default:
        *id = SAMPLE_NOTHING;
        return STATUS_OK;
    }
}

Status cuda_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                   int32_t *ids, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    if (n_rows < 1 || n_rows > cuda->max_logits)
        return error_set(error, STATUS_USAGE, "sample: %d rows: 1 to %d", n_rows, cuda->max_logits);
    Status status = STATUS_OK;
    for (int i = 0; i < n_rows && !status; i++)
        status = sample_row(cuda, logits + (int64_t)i * cuda->shape->vocab_size, &params[i], &ids[i], error);
    return status;
}
