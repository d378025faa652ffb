// begin: checks a step, has it staged, computes cos and sin, enters positions.
#include "kernels/cuda/attention/split.cuh"
#include "kernels/both_ways.h"
#include "kernels/step_check.h"

Status cuda_check_step(const CudaBackend *cuda, const Step *step, Error *error) {
    return step_check(cuda->shape, cuda->max_tokens, step, error);
}

struct BeginArguments {
    const int32_t *positions, *slots, *n_evicted, *rope_sets, *drawn;
    const int32_t *prefixes;  // NULL: positions have one dimension
    const int32_t *drawn_ids; // of rows that were sampled
    int32_t *ids;
    const double *inv_freq;
    int n_pairs, n_sets;
    float magnitude[ROPE_MOST_TABLES];
    int64_t rope_stride;      // elements from a table's turns to the next one's
    float2 *rope, *sink_rope; // sink_rope NULL: no token was evicted; else [n_tables, n_tokens, n_pairs]
    int32_t *slot_positions;
};

__device__ inline float2 turn_of(double angle, float magnitude) {
    double sine, cosine;
    sincos(angle, &sine, &cosine);
    return make_float2(magnitude * (float)cosine, magnitude * (float)sine);
}

// One thread a pair of a token: rope[t, i] = magnitude·(cos, sin)(p·inv_freq[i]), the angle in double. Thread 0
// of a token's pairs enters its position into the cache's slot, and the id that was drawn for it. Grid: [n_tokens,
// n_tables], block: 128.
__global__ void begin_kernel(BeginArguments a) {
    int token = blockIdx.x, table = blockIdx.y;
    int32_t position = a.positions[token];
    const double *inv_freq = a.inv_freq + ((int64_t)table * a.n_sets + a.rope_sets[token]) * a.n_pairs;
    float2 *rope = a.rope + table * a.rope_stride,
           *sink_rope = a.sink_rope + (int64_t)table * gridDim.x * a.n_pairs;
    for (int i = threadIdx.x; i < a.n_pairs; i += blockDim.x) {
        int64_t at = (int64_t)token * a.n_pairs + i;
        int32_t by = position;
        if (a.prefixes)
            by = i < a.n_pairs / 2 ? position_within(position, a.prefixes[token])
                                   : position_beyond(position, a.prefixes[token]);
        rope[at] = turn_of(by * inv_freq[i], a.magnitude[table]);
        if (a.sink_rope) sink_rope[at] = turn_of(a.n_evicted[token] * inv_freq[i], 1);
    }
    if (threadIdx.x != 0 || table != 0) return;
    if (a.slots[token] >= 0) a.slot_positions[a.slots[token]] = position;
    if (a.drawn[token] >= 0) a.ids[token] = max(a.drawn_ids[a.drawn[token]], 0);
}

Status cuda_begin_staged(CudaBackend *cuda, Error *error) {
    const DecoderShape *s = cuda->shape;
    const CudaStep *step = &cuda->step;
    BeginArguments a = {};
    a.positions = step->positions, a.slots = step->slots, a.n_evicted = step->n_evicted;
    a.rope_sets = step->rope_sets, a.drawn = step->drawn, a.drawn_ids = cuda->scratch.drawn;
    a.prefixes = s->rope.two_dimensional ? step->prefixes : NULL;
    a.ids = step->ids;
    a.inv_freq = cuda->device.inv_freq, a.n_pairs = s->rope.rotary_dim / 2;
    a.n_sets = rope_sets(&s->rope);
    a.magnitude[0] = (float)s->rope.magnitude, a.magnitude[1] = (float)s->rope.other_magnitude;
    a.rope_stride = (int64_t)cuda->max_tokens * a.n_pairs;
    a.rope = cuda->scratch.rope, a.sink_rope = step->sink_rope;
    a.slot_positions = step->slot_positions;
    begin_kernel<<<dim3(cuda->step.n_tokens, rope_tables(&s->rope)), 128, 0, cuda->device.stream>>>(a);
    return CUDA_LAUNCHED(error, "begin: %d tokens", cuda->step.n_tokens);
}

Status cuda_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    AttendHeads heads = {s->n_heads, s->n_kv_heads, s->head_dim};
    SplitPlan plan;
    Status status = cuda_check_step(cuda, step, error);
    if (!status) status = cuda_split_plan(cuda, step, &heads, kv, &plan, error);
    Staging staging = {step, NULL, &plan};
    if (!status) status = cuda_stage(cuda, &staging, error);
    if (!status) status = cuda_settle_upload(cuda, error);
    return status ? status : cuda_begin_staged(cuda, error);
}
