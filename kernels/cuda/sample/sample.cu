// sample: a token from each row of logits, by the kernel of sample_kernel.cuh, asked for and waited for apart.
#include "kernels/cuda/sample/sample_kernel.cuh"

#include <stdlib.h>
#include <string.h>

enum {
    FEWER_BLOCKS = 3, // sizes of rows: n_blocks, a half, a quarter
    LEAST_BLOCKS = 16,
};

struct CudaSample {
    // Of each row, room for room_rows; n_asked of them are asked for.
    SampleWords *words;
    SampleArguments *rows, *staged_rows; // rows: on the device, of draws of more than GIVEN_ROWS
    Drawn *drawn;
    int room_rows, n_asked;
    unsigned *ticket, tickets; // on the device, and what it stands at
    uint32_t launch;           // number of the last one
    int n_blocks;              // of a row: so many are there at once, as they wait for each other
    int at_once[FEWER_BLOCKS]; // blocks there at once, of rows of n_blocks, of half as many, …; 0: none
    int n_each;                // blocks of a row of the draw in hand
    LogitAdjustment *adjustments, *staged; // room for `room`
    int room;
    uint32_t *allowed,
        *staged_allowed; // of the rows that have them, one behind the other: room for room_allowed rows
    int room_allowed;
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
    if (s->allowed) cudaFree(s->allowed);
    if (s->staged_allowed) cudaFreeHost(s->staged_allowed);
    free(s);
}

size_t cuda_sample_bytes(int n_rows) {
    return (size_t)n_rows * (sizeof(SampleWords) + sizeof(SampleArguments));
}

// Shared memory of a block: its share of the row, and candidates.
static size_t shared_bytes(int n_vocab, int n_blocks) {
    int share = n_blocks * SAMPLE_THREADS;
    return (size_t)((n_vocab + share - 1) / share) * SAMPLE_THREADS * sizeof(int32_t) +
           (size_t)(n_blocks * BLOCK_CANDIDATES) * sizeof(uint64_t);
}

// How many blocks of a row there are: fewer on a card that has no room for all of them at once. 0: not even for one.
static cudaError_t choose_blocks(const CudaBackend *cuda, int *n_blocks) {
    cudaError_t code = cudaSuccess;
    for (*n_blocks = SAMPLE_BLOCKS; *n_blocks > 0; *n_blocks /= 2) {
        size_t shared = shared_bytes(cuda->shape->vocab_size, *n_blocks);
        int of_sm = 0;
        if (shared + SAMPLE_STATIC_SHARED > cuda->device.card.shared_limit) continue;
        for (const void *kernel : {(const void *)sample_kernel, (const void *)sample_rows_kernel})
            if (code == cudaSuccess)
                code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (code == cudaSuccess)
            code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, sample_rows_kernel, SAMPLE_THREADS,
                                                                 shared);
        if (code != cudaSuccess || of_sm * cuda->device.card.n_sms >= *n_blocks) break;
    }
    return code;
}

// Of several rows each may have fewer blocks, so that all are there at once.
static cudaError_t count_at_once(CudaBackend *cuda, CudaSample *s) {
    const Card *card = &cuda->device.card;
    cudaError_t code = cudaSuccess;
    size_t most = 0;
    for (int i = 0; i < FEWER_BLOCKS; i++) {
        const size_t shared = shared_bytes(cuda->shape->vocab_size, s->n_blocks >> i);
        if (s->n_blocks >> i < LEAST_BLOCKS || shared + SAMPLE_STATIC_SHARED > card->shared_limit) break;
        if (shared > most) {
            most = shared;
            code = cudaFuncSetAttribute(sample_rows_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        (int)most);
        }
        int of_sm = 0;
        if (code == cudaSuccess)
            code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, sample_rows_kernel, SAMPLE_THREADS,
                                                                 shared);
        if (code != cudaSuccess) return code;
        s->at_once[i] = of_sm * card->n_sms;
    }
    return code;
}

// Blocks of each of n_rows rows. A bound is the top_k-th of their warps' maxima: of these there are to be twice as many.
static int blocks_of_each(const CudaSample *s, int n_rows, const SampleParams *params) {
    int least = LEAST_BLOCKS, i = 0;
    for (int r = 0; r < n_rows; r++) {
        const SampleParams *p = &params[r];
        if (p->temperature <= 0) continue;
        if (p->top_k == 0) return s->n_blocks;
        while (least < s->n_blocks && least * (SAMPLE_THREADS / 32) < 2 * p->top_k) least *= 2;
    }
    while (i + 1 < FEWER_BLOCKS && s->at_once[i + 1] > 0 && s->n_blocks >> (i + 1) >= least &&
           n_rows * (s->n_blocks >> i) > s->at_once[i])
        i++;
    return s->n_blocks >> i;
}

static Status sample_open(CudaBackend *cuda, Error *error) {
    const int n_vocab = cuda->shape->vocab_size;
    if (n_vocab > SAMPLE_MAX_VOCAB)
        return error_set(error, STATUS_UNSUPPORTED,
                         "sample: a vocabulary of %d tokens: 1 to %d can be sampled from", n_vocab,
                         SAMPLE_MAX_VOCAB);
    CudaSample *s = (CudaSample *)calloc(1, sizeof *s);
    if (!s) return error_set(error, STATUS_MEMORY, "no memory for sampling");
    cudaError_t code = cudaMalloc(&s->ticket, sizeof *s->ticket);
    if (code == cudaSuccess) code = cudaMemsetAsync(s->ticket, 0, sizeof *s->ticket, cuda->device.stream);
    if (code == cudaSuccess) code = choose_blocks(cuda, &s->n_blocks);
    if (code == cudaSuccess) code = count_at_once(cuda, s);
    Status status = cuda_check(code, error, "sample: room for candidates");
    if (!status && s->n_blocks == 0)
        status = error_set(error, STATUS_UNSUPPORTED,
                           "sample: a row of %d logits does not fit into this card's shared memory", n_vocab);
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

static size_t allowed_words(const CudaBackend *cuda) {
    return ((size_t)cuda->shape->vocab_size + 31) / 32;
}

// Room for n rows' bits of what is allowed.
static Status make_room_for_allowed(CudaBackend *cuda, CudaSample *s, int n, Error *error) {
    if (n <= s->room_allowed) return STATUS_OK;
    if (s->allowed) cudaFree(s->allowed);
    if (s->staged_allowed) cudaFreeHost(s->staged_allowed);
    s->allowed = s->staged_allowed = NULL;
    s->room_allowed = 0;
    size_t bytes = (size_t)n * allowed_words(cuda) * sizeof(uint32_t);
    cudaError_t code = cudaMalloc(&s->allowed, bytes);
    if (code == cudaSuccess) code = cudaMallocHost(&s->staged_allowed, bytes);
    if (code == cudaSuccess) s->room_allowed = n;
    return cuda_check(code, error, "sample: room for what %d rows allow", n);
}

// The bits of each row that has some, brought to the device; rows [n_rows] are told where.
static cudaError_t stage_allowed(CudaBackend *cuda, int n_rows, const SampleParams *params) {
    CudaSample *s = cuda->sampler;
    size_t words = allowed_words(cuda), n = 0;
    for (int i = 0; i < n_rows; i++) {
        s->staged_rows[i].allowed = params[i].allowed ? s->allowed + n : NULL;
        if (!params[i].allowed) continue;
        memcpy(s->staged_allowed + n, params[i].allowed, words * sizeof *s->allowed);
        n += words;
    }
    if (n == 0) return cudaSuccess;
    return cudaMemcpyAsync(s->allowed, s->staged_allowed, n * sizeof *s->allowed, cudaMemcpyHostToDevice,
                           cuda->device.stream);
}

// Of the row-th row, whose adjustments begin at `first`.
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
    a.large = a.top_k > MOST || (!a.top_k && p->typical_p < 1);
    a.whole = p->temperature > 0 && !a.top_k && (p->top_p < 1 || !(p->min_p > 0));
    a.whole_scale = p->top_p < 1 ? a.unit_scale : a.scale;
    a.launch = s->launch;
    a.words = &s->words[row], a.drawn = &s->drawn[row];
    a.id = &cuda->scratch.drawn[row];
    a.n_blocks = s->n_each;
    return a;
}

// Brings the rows' arguments to where the kernel finds them.
static cudaError_t stage_rows(CudaBackend *cuda, const float *logits, int n_rows,
                              const SampleParams *params) {
    CudaSample *s = cuda->sampler;
    int n_adjustments = 0;
    s->launch++;
    for (int i = 0; i < n_rows; i++) {
        const SampleParams *p = &params[i];
        s->staged_rows[i] =
            arguments_for(cuda, s, logits + (int64_t)i * cuda->shape->vocab_size, p, i, n_adjustments);
        s->drawn[i].outcome = OUTCOME_PENDING;
        if (p->n_adjustments)
            memcpy(s->staged + n_adjustments, p->adjustments, (size_t)p->n_adjustments * sizeof *s->staged);
        n_adjustments += p->n_adjustments;
    }
    cudaError_t code = stage_allowed(cuda, n_rows, params);
    if (n_adjustments && code == cudaSuccess)
        code = cudaMemcpyAsync(s->adjustments, s->staged, (size_t)n_adjustments * sizeof *s->staged,
                               cudaMemcpyHostToDevice, cuda->device.stream);
    if (n_rows > GIVEN_ROWS && code == cudaSuccess)
        code = cudaMemcpyAsync(s->rows, s->staged_rows, (size_t)n_rows * sizeof *s->rows,
                               cudaMemcpyHostToDevice, cuda->device.stream);
    return code;
}

Status cuda_sample_begin(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                         Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    if (n_rows < 1 || n_rows > cuda->max_logits)
        return error_set(error, STATUS_USAGE, "sample: %d rows: 1 to %d", n_rows, cuda->max_logits);
    Status status = STATUS_OK;
    int n_adjustments = 0, n_allowed = 0;
    for (int i = 0; i < n_rows && !status; i++) {
        status = check_params(cuda, &params[i], error);
        n_adjustments += params[i].n_adjustments;
        n_allowed += params[i].allowed != NULL;
    }
    if (!status && !cuda->sampler) status = sample_open(cuda, error);
    if (!status) status = make_room(cuda, cuda->sampler, n_rows, n_adjustments, error);
    if (!status) status = make_room_for_allowed(cuda, cuda->sampler, n_allowed, error);
    if (status) return status;
    CudaSample *s = cuda->sampler;
    const cudaStream_t stream = cuda->device.stream;
    s->n_each = n_rows > 1 ? blocks_of_each(s, n_rows, params) : s->n_blocks;
    size_t shared = shared_bytes(cuda->shape->vocab_size, s->n_each);
    cudaError_t code = stage_rows(cuda, logits, n_rows, params);
    if (n_rows == 1 && code == cudaSuccess) {
        sample_kernel<<<s->n_each, SAMPLE_THREADS, shared, stream>>>(s->staged_rows[0]);
    } else if (code == cudaSuccess) {
        GivenRows given;
        if (n_rows <= GIVEN_ROWS) memcpy(given.row, s->staged_rows, (size_t)n_rows * sizeof *given.row);
        sample_rows_kernel<<<n_rows * s->n_each, SAMPLE_THREADS, shared, stream>>>(
            given, n_rows <= GIVEN_ROWS ? NULL : s->rows, (unsigned)s->n_each, s->ticket, s->tickets);
        s->tickets += (unsigned)(n_rows * s->n_each);
    }
    if (code == cudaSuccess) code = cudaGetLastError();
    if (code != cudaSuccess) { // whether blocks took tickets is not known
        s->tickets = 0;
        cudaMemsetAsync(s->ticket, 0, sizeof *s->ticket, stream);
    }
    s->n_asked = n_rows;
    return cuda_check(code, error, "sample: %d rows of %d logits", n_rows, cuda->shape->vocab_size);
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

static Status take_answer(const CudaSample *s, int row, int32_t *id, Error *error) {
    const Drawn *drawn = &s->drawn[row];
    const int64_t first = s->staged_rows[row].adjustments - s->adjustments;
    switch (drawn->outcome) {
    case OUTCOME_DRAWN:
        *id = drawn->id;
        return STATUS_OK;
    case OUTCOME_NAN:
        *id = SAMPLE_NAN;
        return STATUS_OK;
    case OUTCOME_NOTHING:
        *id = SAMPLE_NOTHING;
        return STATUS_OK;
    case OUTCOME_BAD_ADJUSTMENT:
        return error_set(error, STATUS_USAGE, "sample: token %d is adjusted to what is not a number",
                         s->staged[first + drawn->id].id);
    default:
        return error_set(error, STATUS_DEVICE, "sample: the kernel ended without an answer");
    }
}

Status cuda_sample_end(Backend *backend, int32_t *ids, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    CudaSample *s = cuda->sampler;
    Status status = STATUS_OK;
    for (int i = 0; i < s->n_asked && !status; i++) status = await(cuda, &s->drawn[i], error);
    for (int i = 0; i < s->n_asked && !status; i++) status = take_answer(s, i, &ids[i], error);
    s->n_asked = 0;
    return status;
}

Status cuda_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                   int32_t *ids, Error *error) {
    Status status = cuda_sample_begin(backend, logits, n_rows, params, error);
    return status ? status : cuda_sample_end(backend, ids, error);
}
