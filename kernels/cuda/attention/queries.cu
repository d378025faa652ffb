// Queries as the cache wants them: turned back for the sinks, and by the Hadamard matrix where keys are.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/attention/attend.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/rope.cuh"

struct QueryArguments {
    int n_heads, head_dim, rotary_dim, rope_stride; // rope_stride: turns of a token
    bool interleaved, rotate;                       // rotate: by the Hadamard matrix
    const float *balance; // of keys, of KV heads that `group` heads share; NULL: none
    int group;
    const float2 *sink_rope; // NULL: no token was evicted
};

// A warp puts v [dim], in shared memory, in the form of the cache's keys.
__device__ inline void turn_query(const QueryArguments &a, int head, float *v) {
    const float *balance = a.balance + head / a.group * a.head_dim;
    for (int i = threadIdx.x % 32; a.balance && i < a.head_dim; i += 32) v[i] *= balance[i];
    __syncwarp();
    if (a.rotate) warp_hadamard(v, a.head_dim);
}

// One warp a head of a token. Grid: [n_tokens, heads / 4], block: 128, shared memory: 4 heads of float32. The sinks
// query first: what comes after may overwrite q.
template <class T>
__global__ void __launch_bounds__(128) queries_kernel(QueryArguments a, const T *q, T *turned, T *sinks) {
    extern __shared__ float heads[];
    int token = blockIdx.x, head = blockIdx.y * 4 + threadIdx.x / 32, lane = threadIdx.x % 32,
        dim = a.head_dim;
    if (head >= a.n_heads) return;
    let_next_begin();
    kernels_before();
    float *v = heads + threadIdx.x / 32 * dim;
    int64_t row = ((int64_t)token * a.n_heads + head) * dim;
    if (a.sink_rope) {
        for (int i = lane; i < dim; i += 32) v[i] = to_float(q[row + i]);
        __syncwarp();
        int pairs = a.rotary_dim / 2;
        for (int i = lane; i < pairs; i += 32) {
            const RopePlace at(i, a.rotary_dim, a.interleaved);
            const float2 turn = a.sink_rope[(int64_t)token * a.rope_stride + i];
            float x = v[at.first], y = v[at.second];
            rope_pair(x, y, make_float2(turn.x, -turn.y), v[at.first], v[at.second]); // backwards
        }
        __syncwarp();
        turn_query(a, head, v);
        for (int i = lane; i < dim; i += 32) sinks[row + i] = from_float<T>(v[i]);
        __syncwarp();
    }
    if (!a.rotate) return;
    for (int i = lane; i < dim; i += 32) v[i] = to_float(q[row + i]);
    __syncwarp();
    turn_query(a, head, v);
    for (int i = lane; i < dim; i += 32) turned[row + i] = from_float<T>(v[i]);
}

template <class T>
static cudaError_t launch(CudaBackend *cuda, const AttendCall *call, const QueryArguments &a,
                          Queries *queries) {
    int64_t n = (int64_t)cuda->step.n_tokens * a.n_heads * a.head_dim;
    T *turned = (T *)cuda->scratch.wide, *sinks = turned + n;
    dim3 grid(cuda->step.n_tokens, (a.n_heads + 3) / 4);
    queries->recent = a.rotate ? turned : call->q;
    queries->sinks = a.sink_rope ? sinks : queries->recent;
    return launch_dependent(cuda, queries_kernel<T>, grid, 128, 4 * (size_t)a.head_dim * sizeof(float), a,
                            (const T *)call->q, turned, sinks);
}

cudaError_t cuda_queries(CudaBackend *cuda, const AttendCall *call, Queries *queries) {
    const Rope *rope = &cuda->shape->rope, own = rope_of_table(rope, call->kv->rope);
    const AttendHeads *h = &call->heads;
    QueryArguments a = {h->n_heads,
                        h->head_dim,
                        own.rotary_dim,
                        rope->rotary_dim / 2,
                        rope->kind == ROPE_INTERLEAVED,
                        call->kv->rotate_keys,
                        call->kv->key_balance,
                        h->n_heads / h->n_kv_heads,
                        cuda->step.evicted ? cuda_sink_turns(cuda, call->kv) : NULL};
    *queries = Queries{call->q, call->q};
    if (!a.rotate && !a.sink_rope) return cudaSuccess;
    cudaError_t code;
    WITH_TYPE(call->type, (code = launch<T>(cuda, call, a, queries)));
    return code;
}
