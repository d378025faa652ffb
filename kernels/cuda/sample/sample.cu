// sample: a token from each row of logits, by the kernel of sample_kernel.cuh; by the CPU's sampler what does not fit.
#include "kernels/cuda/sample/sample_kernel.cuh"
extern "C" {
#include "kernels/cpu/sample/sample.h"
}

#include <stdlib.h>
#include <string.h>

struct CudaSample {
    // Of each row that goes to the device, room for room_rows.
    SampleWords *words;
    SampleArguments *rows, *staged_rows;
    Drawn *drawn;
    int room_rows;
    unsigned *ticket, tickets;             // on the device, and what it stands at
    uint32_t launch;                       // number of the last one
    bool fits;                             // all its blocks at once, as they wait for each other
    LogitAdjustment *adjustments, *staged; // room for `room`
    int room;
    SampleScratch *scratch; // of the CPU's sampler, and the row, when they are needed
    float *row;
};

static void free_rows(CudaSample *s) {
    if (s->words) cudaFree(s->words);
    if (s->rows) cudaFree(s->rows);
    if (s->staged_rows) cudaFreeHost(s->staged_rows);
    if (s->drawn) cudaFreeHost(s->drawn);
    s->words = NULL, s->rows = s->staged_rows = NULL, s->drawn = NULL;
    s->room_rows = 0;
}

void cuda_sample_close(CudaSample *s) {
    if (!s) return;
    free_rows(s);
    if (s->ticket) cudaFree(s->ticket);
    if (s->adjustments) cudaFree(s->adjustments);
    if (s->staged) cudaFreeHost(s->staged);
    sample_scratch_close(s->scratch);
    free(s->row);
    free(s);
}

size_t cuda_sample_bytes(int n_rows) {
    return (size_t)n_rows * (sizeof(SampleWords) + sizeof(SampleArguments));
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
    cudaError_t code = cudaMalloc(&s->ticket, sizeof *s->ticket);
    if (code == cudaSuccess) code = cudaMemsetAsync(s->ticket, 0, sizeof *s->ticket, cuda->device.stream);
    size_t shared = shared_bytes(cuda->shape->vocab_size);
    int blocks = 0; // of a multiprocessor
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(sample_rows_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)shared);
    if (code == cudaSuccess)
        code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sample_kernel, SAMPLE_THREADS, shared);
    s->fits = blocks * cuda->device.card.n_sms >= SAMPLE_BLOCKS;
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

// Room for n rows and n adjustments in all.
static Status make_room(CudaBackend *cuda, CudaSample *s, int n_rows, int n_adjustments, Error *error) {
    cudaError_t code = cudaSuccess;
    if (n_rows > s->room_rows) {
        free_rows(s);
        code = cudaMalloc(&s->words, (size_t)n_rows * sizeof *s->words);
        if (code == cudaSuccess)
            code = cudaMemsetAsync(s->words, 0, (size_t)n_rows * sizeof *s->words, cuda->device.stream);
        if (code == cudaSuccess) code = cudaMalloc(&s->rows, (size_t)n_rows * sizeof *s->rows);
        if (code == cudaSuccess)
            code = cudaMallocHost(&s->staged_rows, (size_t)n_rows * sizeof *s->staged_rows);
        if (code == cudaSuccess) code = cudaMallocHost(&s->drawn, (size_t)n_rows * sizeof *s->drawn);
        if (code == cudaSuccess) s->room_rows = n_rows;
    }
    if (code == cudaSuccess && n_adjustments > s->room) {
        if (s->adjustments) cudaFree(s->adjustments);
        if (s->staged) cudaFreeHost(s->staged);
        s->adjustments = s->staged = NULL;
        s->room = 0;
        int room = n_adjustments < 512 ? 1024 : 2 * n_adjustments;
        code = cudaMalloc(&s->adjustments, (size_t)room * sizeof *s->adjustments);
        if (code == cudaSuccess) code = cudaMallocHost(&s->staged, (size_t)room * sizeof *s->staged);
        if (code == cudaSuccess) s->room = room;
    }
    return cuda_check(code, error, "sample: room for %d rows and %d adjustments", n_rows, n_adjustments);
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

// Of the row-th row that goes to the device, its adjustments from `first` on.
static SampleArguments arguments_for(const CudaBackend *cuda, const CudaSample *s, const float *logits,
                                     const SampleParams *p, int row, int first) {
    SampleArguments a = {};
    a.logits = logits;
    a.n_vocab = cuda->shape->vocab_size;
    a.n_adjustments = p->n_adjustments;
    a.adjustments = s->adjustments + first;
    a.temperature = p->temperature, a.top_p = p->top_p, a.typical_p = p->typical_p, a.min_p = p->min_p;
    a.gap = p->min_p > 0 ? -log((double)p->min_p) : 0;
    a.scale = p->temperature > 0 ? sample_scale(p->temperature) : 0;
    a.unit_scale = sample_scale(1);
    a.top_k = p->top_k < a.n_vocab ? p->top_k : 0;
    a.u = sample_uniform(p->seed, p->conversation, p->position);
    a.whole = p->temperature > 0 && !a.top_k && (p->top_p < 1 || !(p->min_p > 0));
    a.whole_scale = p->top_p < 1 ? a.unit_scale : a.scale;
    a.launch = s->launch;
    a.words = &s->words[row], a.drawn = &s->drawn[row];
    return a;
}

// Whether the kernel may be able to draw it.
static bool fits(const CudaBackend *cuda, const SampleParams *p) {
    int top_k = p->top_k < cuda->shape->vocab_size ? p->top_k : 0;
    return cuda->sampler->fits &&
           (p->temperature == 0 || (top_k <= MOST && (top_k > 0 || p->typical_p >= 1)));
}

// Starts the rows that fit, and counts them.
static Status launch_rows(CudaBackend *cuda, const float *logits, int n_rows, const SampleParams *params,
                          int *n_launched, Error *error) {
    CudaSample *s = cuda->sampler;
    int n = 0, n_adjustments = 0, n_vocab = cuda->shape->vocab_size;
    for (int i = 0; i < n_rows; i++)
        if (fits(cuda, &params[i])) n++, n_adjustments += params[i].n_adjustments;
    *n_launched = n;
    if (n == 0) return STATUS_OK;
    Status status = make_room(cuda, s, n, n_adjustments, error);
    if (status) return status;
    s->launch++;
    n = n_adjustments = 0;
    for (int i = 0; i < n_rows; i++) {
        const SampleParams *p = &params[i];
        if (!fits(cuda, p)) continue;
        s->staged_rows[n] = arguments_for(cuda, s, logits + (int64_t)i * n_vocab, p, n, n_adjustments);
        s->drawn[n++].outcome = OUTCOME_PENDING;
        if (p->n_adjustments)
            memcpy(s->staged + n_adjustments, p->adjustments, (size_t)p->n_adjustments * sizeof *s->staged);
        n_adjustments += p->n_adjustments;
    }
    cudaError_t code = cudaSuccess;
    if (n_adjustments)
        code = cudaMemcpyAsync(s->adjustments, s->staged, (size_t)n_adjustments * sizeof *s->staged,
                               cudaMemcpyHostToDevice, cuda->device.stream);
    if (n > 1 && code == cudaSuccess)
        code = cudaMemcpyAsync(s->rows, s->staged_rows, (size_t)n * sizeof *s->rows, cudaMemcpyHostToDevice,
                               cuda->device.stream);
    size_t shared = shared_bytes(n_vocab);
    if (n == 1 && code == cudaSuccess) {
        sample_kernel<<<SAMPLE_BLOCKS, SAMPLE_THREADS, shared, cuda->device.stream>>>(s->staged_rows[0]);
    } else if (code == cudaSuccess) {
        sample_rows_kernel<<<n * SAMPLE_BLOCKS, SAMPLE_THREADS, shared, cuda->device.stream>>>(
            s->rows, s->ticket, s->tickets);
        s->tickets += (unsigned)(n * SAMPLE_BLOCKS);
    }
    if (code == cudaSuccess) code = cudaGetLastError();
    if (code != cudaSuccess) { // whether blocks took tickets is not known
        s->tickets = 0;
        cudaMemsetAsync(s->ticket, 0, sizeof *s->ticket, cuda->device.stream);
    }
    return cuda_check(code, error, "sample: %d rows of %d logits", n, n_vocab);
}

// The answer is there a little before the kernel has ended; a kernel that fails gives none.
static Status await(CudaBackend *cuda, const volatile Drawn *drawn, Error *error) {
    cudaError_t code = cudaSuccess;
    for (unsigned i = 1; code == cudaSuccess && drawn->outcome == OUTCOME_PENDING; i++) {
        if (i % 65536 != 0) continue;
        code = cudaStreamQuery(cuda->device.stream);
        if (code == cudaSuccess) break;
        if (code == cudaErrorNotReady) code = cudaSuccess;
    }
    return cuda_check(code, error, "sample: %d logits", cuda->shape->vocab_size);
}

static Status take_answer(CudaBackend *cuda, const Drawn *drawn, const float *logits, const SampleParams *p,
                          int32_t *id, Error *error) {
    switch (drawn->outcome) {
    case OUTCOME_DRAWN:
        *id = drawn->id;
        return STATUS_OK;
    case OUTCOME_NAN:
        *id = SAMPLE_NAN;
        return STATUS_OK;
    case OUTCOME_BAD_ADJUSTMENT:
        return error_set(error, STATUS_USAGE, "sample: token %d is adjusted to what is not a number",
                         p->adjustments[drawn->id].id);
    case OUTCOME_TOO_MANY:
        return sample_on_host(cuda, cuda->sampler, logits, p, id, error);
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
    for (int i = 0; i < n_rows && !status; i++) status = check_params(cuda, &params[i], error);
    if (!status && !cuda->sampler) status = sample_open(cuda, error);
    if (status) return status;
    CudaSample *s = cuda->sampler;
    int n_launched = 0;
    status = launch_rows(cuda, logits, n_rows, params, &n_launched, error);
    for (int row = 0; row < n_launched && !status; row++) status = await(cuda, &s->drawn[row], error);
    for (int i = 0, row = 0; i < n_rows && !status; i++) {
        const float *of_row = logits + (int64_t)i * cuda->shape->vocab_size;
        if (fits(cuda, &params[i]))
            status = take_answer(cuda, &s->drawn[row++], of_row, &params[i], &ids[i], error);
        else
            status = sample_on_host(cuda, s, of_row, &params[i], &ids[i], error);
    }
    return status;
}
