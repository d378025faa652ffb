// begin: checks a step, uploads its arrays, cuts its tokens into attention tiles, computes cos and sin.
#include "kernels/cuda/cuda.cuh"

#include <string.h>

// One thread a pair of a token: rope[t, i] = magnitude·(cos, sin)(p·inv_freq[i]), the angle in double. Thread 0
// of a token's pairs enters its position into the cache's slot. Grid: [n_tokens], block: 128.
__global__ void begin_kernel(const int32_t *positions, const int32_t *slots, const double *inv_freq,
                             int n_pairs, float magnitude, float2 *rope, int32_t *slot_positions) {
    int token = blockIdx.x;
    int32_t position = positions[token];
    for (int i = threadIdx.x; i < n_pairs; i += blockDim.x) {
        double sine, cosine;
        sincos(position * inv_freq[i], &sine, &cosine);
        rope[(int64_t)token * n_pairs + i] = make_float2(magnitude * (float)cosine, magnitude * (float)sine);
    }
    if (threadIdx.x == 0) slot_positions[slots[token]] = position;
}

Status cuda_check_step(const CudaBackend *cuda, const Step *step, Error *error) {
    if (step->n_tokens < 1 || step->n_tokens > cuda->max_tokens)
        return error_set(error, STATUS_USAGE, "begin: %d tokens, at most %d go into a step", step->n_tokens,
                         cuda->max_tokens);
    for (int i = 0; i < step->n_tokens; i++) {
        if (step->ids[i] < 0 || step->ids[i] >= cuda->shape->vocab_size)
            return error_set(error, STATUS_USAGE, "begin: token %d has id %d, the vocabulary %d entries", i,
                             step->ids[i], cuda->shape->vocab_size);
        if (step->positions[i] < 0 || step->slots[i] < 0)
            return error_set(error, STATUS_USAGE, "begin: token %d has position %d and slot %d", i,
                             step->positions[i], step->slots[i]);
        if (cuda->shape->n_positions > 0 && step->positions[i] >= cuda->shape->n_positions)
            return error_set(error, STATUS_USAGE,
                             "begin: token %d has position %d, the model has learned only %d positions", i,
                             step->positions[i], cuda->shape->n_positions);
    }
    int next = 0;
    for (int s = 0; s < step->n_sequences; s++) {
        const StepSequence *q = &step->sequences[s];
        if (q->first_token != next || q->n_tokens < 1 || q->n_tokens > step->n_tokens - next ||
            q->n_slots < 1 || q->n_slots > step->page_size || q->pages[0] < 0 || q->n_gone)
            return error_set(error, STATUS_USAGE, "begin: sequence %d has tokens %d+%d and slots %d+%d", s,
                             q->first_token, q->n_tokens, q->pages[0], q->n_slots);
        next += q->n_tokens;
    }
    if (next != step->n_tokens)
        return error_set(error, STATUS_USAGE, "begin: sequences cover %d of %d tokens", next, step->n_tokens);
    return STATUS_OK;
}

// Tokens of a tile: as many as keep 128 rows of a KV head's group busy.
static int fill_tiles(const DecoderShape *shape, const Step *step, AttendTile *tiles) {
    int group = shape->n_heads / shape->n_kv_heads, most = group < 128 ? 128 / group : 1, n = 0;
    for (int s = 0; s < step->n_sequences; s++) {
        const StepSequence *q = &step->sequences[s];
        for (int t = 0; t < q->n_tokens; t += most)
            tiles[n++] = AttendTile{q->first_token + t, q->n_tokens - t < most ? q->n_tokens - t : most,
                                    q->pages[0], q->n_slots};
    }
    return n;
}

Status cuda_begin(Backend *backend, const Step *step, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Status status = cuda_check_step(cuda, step, error);
    if (!status) status = cuda_check(cudaEventSynchronize(cuda->staged), error, "begin");
    if (status) return status;

    cuda_end_upload(cuda);
    size_t n = (size_t)step->n_tokens;
    cuda->n_tokens = step->n_tokens;
    cuda->slot_positions = step->slot_positions;
    cuda->most_slots = 0;
    for (int i = 0; i < step->n_sequences; i++)
        if (step->sequences[i].n_slots > cuda->most_slots) cuda->most_slots = step->sequences[i].n_slots;
    memcpy(cuda->staging, step->ids, n * sizeof(int32_t));
    memcpy(cuda->staging + n, step->positions, n * sizeof(int32_t));
    memcpy(cuda->staging + 2 * n, step->slots, n * sizeof(int32_t));
    size_t ints = (3 * n + 3) / 4 * 4; // tiles are read as int4
    cuda->n_tiles = fill_tiles(cuda->shape, step, (AttendTile *)(cuda->staging + ints));
    cuda->positions = cuda->ids + n;
    cuda->slots = cuda->ids + 2 * n;
    cuda->tiles = (AttendTile *)(cuda->ids + ints);
    size_t bytes = ints * sizeof(int32_t) + (size_t)cuda->n_tiles * sizeof(AttendTile);
    cudaError_t code = cudaMemcpyAsync(cuda->ids, cuda->staging, bytes, cudaMemcpyHostToDevice, cuda->stream);
    if (code == cudaSuccess) code = cudaEventRecord(cuda->staged, cuda->stream);
    status = cuda_check(code, error, "begin: %d tokens", step->n_tokens);
    if (status) return status;

    const Rope *rope = &cuda->shape->rope;
    begin_kernel<<<step->n_tokens, 128, 0, cuda->stream>>>(cuda->positions, cuda->slots, cuda->inv_freq,
                                                           rope->rotary_dim / 2, (float)rope->magnitude,
                                                           cuda->rope, cuda->slot_positions);
    return CUDA_LAUNCHED(error, "begin: %d tokens", step->n_tokens);
}
