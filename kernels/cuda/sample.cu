// sample: one token from one row of logits, by the kernel of sample_kernel.cuh; by the CPU's sampler what does not fit.
#include "kernels/cuda/sample_kernel.cuh"
extern "C" {
#include "kernels/cpu/sample.h"
}

#include <stdlib.h>
#include <string.h>

struct CudaSample {
    char *memory;
    int32_t *keys, *group_max;
    uint64_t *candidates;
    SampleState *state;
    LogitAdjustment *adjustments, *staged; // room for `room`
    int room;
    Drawn *drawn;
    SampleScratch *scratch; // of the CPU's sampler, and the row, when they are needed
    float *row;
};

void cuda_sample_close(CudaSample *s) {
    if (!s) return;
    if (s->memory) cudaFree(s->memory);
    if (s->adjustments) cudaFree(s->adjustments);
    if (s->staged) cudaFreeHost(s->staged);
    if (s->drawn) cudaFreeHost(s->drawn);
    sample_scratch_close(s->scratch);
    free(s->row);
    free(s);
}

static Status sample_open(CudaBackend *cuda, Error *error) {
    size_t vocab = (size_t)cuda->shape->vocab_size, groups = (vocab + SAMPLE_GROUP - 1) / SAMPLE_GROUP;
    CudaSample *s = (CudaSample *)calloc(1, sizeof *s);
    if (!s) return error_set(error, STATUS_MEMORY, "no memory for sampling");
    size_t state = (sizeof(SampleState) + 255) / 256 * 256, candidates = MOST_CANDIDATES * sizeof(uint64_t);
    SampleState initial = {0, INT32_MAX, INT32_MAX, 0};
    cudaError_t code = cudaMalloc(&s->memory, state + candidates + (vocab + groups) * sizeof(int32_t));
    if (code == cudaSuccess) code = cudaMallocHost(&s->drawn, sizeof *s->drawn);
    if (code == cudaSuccess) {
        s->state = (SampleState *)s->memory;
        s->candidates = (uint64_t *)(s->memory + state);
        s->keys = (int32_t *)(s->memory + state + candidates);
        s->group_max = s->keys + vocab;
        code = cudaMemcpyAsync(s->state, &initial, sizeof initial, cudaMemcpyHostToDevice, cuda->stream);
    }
    if (code == cudaSuccess) code = cudaStreamSynchronize(cuda->stream);
    Status status = cuda_check(code, error, "sample: room for %zu logits", vocab);
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
    return status ? status : sample_logits(s->row, n, s->scratch, p, id, error);
}

static SampleArguments arguments_for(const CudaBackend *cuda, const CudaSample *s, const float *logits,
                                     const SampleParams *p) {
    SampleArguments a = {};
    a.logits = logits;
    a.n_vocab = cuda->shape->vocab_size;
    a.n_groups = (a.n_vocab + SAMPLE_GROUP - 1) / SAMPLE_GROUP;
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
    a.keys = s->keys, a.group_max = s->group_max, a.candidates = s->candidates, a.state = s->state;
    a.drawn = s->drawn;
    return a;
}

Status cuda_sample(Backend *backend, const float *logits, const SampleParams *p, int32_t *id, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Status status = check_params(cuda, p, error);
    if (!status && !cuda->sampler) status = sample_open(cuda, error);
    if (status) return status;
    CudaSample *s = cuda->sampler;
    SampleArguments a = arguments_for(cuda, s, logits, p);
    if (a.temperature > 0 && (a.top_k > MOST || (!a.top_k && p->typical_p < 1)))
        return sample_on_host(cuda, s, logits, p, id, error);
    status = upload_adjustments(cuda, s, p, error);
    if (status) return status;
    a.adjustments = s->adjustments;
    s->drawn->outcome = OUTCOME_NOTHING;
    void *arguments[] = {&a};
    cudaError_t code =
        cudaLaunchCooperativeKernel(sample_kernel, dim3(SAMPLE_BLOCKS), dim3(SAMPLE_THREADS), arguments,
                                    MOST_CANDIDATES * sizeof(uint64_t), cuda->stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(cuda->stream);
    status = cuda_check(code, error, "sample: %d logits", a.n_vocab);
    if (status) return status;
    switch (s->drawn->outcome) {
    case OUTCOME_DRAWN:
        *id = s->drawn->id;
        return STATUS_OK;
    case OUTCOME_NAN:
        return error_set(error, STATUS_DEVICE,
                         "sample: the logit of token %d is not a number: the model or its file is damaged",
                         s->drawn->id);
    case OUTCOME_BAD_ADJUSTMENT:
        return error_set(error, STATUS_USAGE, "sample: token %d is adjusted to what is not a number",
                         p->adjustments[s->drawn->id].id);
    case OUTCOME_TOO_MANY:
        return sample_on_host(cuda, s, logits, p, id, error);
    default:
        return error_set(error, STATUS_DEVICE,
                         "sample: none of %d tokens is left to choose from: all are banned or impossible",
                         a.n_vocab);
    }
}
