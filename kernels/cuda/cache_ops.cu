// copy_slots, shift_keys: what is done to a cache besides storing and attending.
#include "kernels/cuda/cache.cuh"

#include <stdlib.h>
#include <string.h>

// The layers and slots of a call, on the device in the step's memory, which no step is using any more.
struct CacheCall {
    KvLayer *layers;
    int32_t *from, *to; // [n]; to NULL: not wanted
};

static Status upload_call(CudaBackend *cuda, const KvLayer *layers, int n_layers, const int32_t *from,
                          const int32_t *to, int n, CacheCall *call, Error *error) {
    for (int l = 0; l < n_layers; l++) {
        Status status = kv_layer_check(&layers[l], cuda->shape->head_dim, error);
        if (status) return status;
    }
    for (int i = 0; i < n; i++)
        if (from[i] < 0 || (to && to[i] < 0))
            return error_set(error, STATUS_USAGE, "slot %d", from[i] < 0 ? from[i] : to[i]);
    size_t table = (size_t)n_layers * sizeof(KvLayer), slots = (size_t)n * sizeof(int32_t),
           bytes = table + (to ? 2 : 1) * slots;
    Status status = cuda_check(cudaEventSynchronize(cuda->staged), error, "slots of a cache");
    if (!status) status = cuda_room(cuda, &cuda->staging, bytes, true, "slots of a cache", error);
    if (!status) status = cuda_room(cuda, &cuda->step, bytes, false, "slots of a cache", error);
    if (status) return status;
    memcpy(cuda->staging.memory, layers, table);
    memcpy(cuda->staging.memory + table, from, slots);
    if (to) memcpy(cuda->staging.memory + table + slots, to, slots);
    cudaError_t code =
        cudaMemcpyAsync(cuda->step.memory, cuda->staging.memory, bytes, cudaMemcpyHostToDevice, cuda->stream);
    if (code == cudaSuccess) code = cudaEventRecord(cuda->staged, cuda->stream);
    call->layers = (KvLayer *)cuda->step.memory;
    call->from = (int32_t *)(cuda->step.memory + table);
    call->to = to ? call->from + n : NULL;
    return cuda_check(code, error, "uploading %d slots", n);
}

// ---- copy_slots ----------------------------------------------------------------------------------------------

__device__ inline void copy_elements(char *plane, int64_t from, int64_t to, int bytes) {
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) plane[to + i] = plane[from + i];
}

// A block a head of a slot in a layer: its key, value and scales, byte by byte. Grid: [n, n_kv_heads, n_layers], block: 64.
__global__ void copy_slots_kernel(CacheCall call, int head_dim, int32_t *slot_positions) {
    const KvLayer &kv = call.layers[blockIdx.z];
    int64_t from = call.from[blockIdx.x] * kv.slot_stride + blockIdx.y * kv.head_stride,
            to = call.to[blockIdx.x] * kv.slot_stride + blockIdx.y * kv.head_stride;
    int bits = kv.type == DTYPE_F32 ? 32 : kv.type == DTYPE_INT8 ? 8 : kv.type == DTYPE_INT4 ? 4 : 16;
    copy_elements((char *)kv.k, from * bits / 8, to * bits / 8, head_dim * bits / 8);
    copy_elements((char *)kv.v, from * bits / 8, to * bits / 8, head_dim * bits / 8);
    if (is_quantised(kv)) {
        int size = kv.scale_type == DTYPE_F16 ? 2 : 4, n = head_dim / kv.group * size;
        copy_elements((char *)kv.k_scale, from / kv.group * size, to / kv.group * size, n);
        copy_elements((char *)kv.v_scale, from / kv.group * size, to / kv.group * size, n);
    }
    if (blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0)
        slot_positions[call.to[blockIdx.x]] = slot_positions[call.from[blockIdx.x]];
}

Status cuda_copy_slots(Backend *backend, const KvLayer *layers, int n_layers, const int32_t *from,
                       const int32_t *to, int n, int32_t *slot_positions, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    CacheCall call;
    if (n < 1 || n_layers < 1) return STATUS_OK;
    Status status = upload_call(cuda, layers, n_layers, from, to, n, &call, error);
    if (status) return error_prefix(error, "copy_slots: ");
    dim3 grid((unsigned)n, (unsigned)cuda->shape->n_kv_heads, (unsigned)n_layers);
    copy_slots_kernel<<<grid, 64, 0, cuda->stream>>>(call, cuda->shape->head_dim, slot_positions);
    return CUDA_LAUNCHED(error, "copy_slots: %d slots of %d layers", n, n_layers);
}

// ---- shift_keys ----------------------------------------------------------------------------------------------

struct ShiftArguments {
    CacheCall call;
    const double *inv_freq;
    int head_dim, n_pairs, n_kv_heads, delta;
    bool interleaved;
    const int32_t *slot_positions;
};

// A warp a KV head of a slot in a layer, all heads of it in turn; the angles in shared memory, for they are the same
// everywhere. Grid: [n, n_layers], block: 128, shared memory: n_pairs turns and 4 rows of store_row().
__global__ void __launch_bounds__(128) shift_keys_kernel(ShiftArguments a) {
    extern __shared__ float2 turns[];
    const KvLayer &kv = a.call.layers[blockIdx.y];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t slot = a.call.from[blockIdx.x];
    if (a.slot_positions[slot] < 0) return; // empty
    float *v = (float *)(turns + (a.n_pairs + 1) / 2 * 2) + warp * row_floats(a.head_dim);
    for (int i = threadIdx.x; i < a.n_pairs; i += blockDim.x) {
        double sine, cosine;
        sincos(a.delta * a.inv_freq[i], &sine, &cosine);
        turns[i] = make_float2((float)cosine, (float)sine);
    }
    __syncthreads();
    for (int head = warp; head < a.n_kv_heads; head += 4) {
        int64_t at = slot * kv.slot_stride + head * kv.head_stride;
        for (int i = lane; i < a.head_dim; i += 32) v[i] = kv_at(kv, true, at + i);
        __syncwarp();
        if (kv.rotate_keys) warp_hadamard(v, a.head_dim); // its own inverse
        if (kv.key_balance)
            for (int i = lane; i < a.head_dim; i += 32) v[i] *= kv.key_balance[head * a.head_dim + i];
        __syncwarp();
        for (int i = lane; i < a.n_pairs; i += 32) {
            int first = a.interleaved ? 2 * i : i, second = a.interleaved ? 2 * i + 1 : i + a.n_pairs;
            float x = v[first], y = v[second];
            v[first] = x * turns[i].x - y * turns[i].y;
            v[second] = x * turns[i].y + y * turns[i].x;
        }
        __syncwarp();
        store_row(kv, true, slot, head, feedback_of(kv, head, a.head_dim), v, a.head_dim);
        __syncwarp();
    }
}

// After all layers, which look at the positions: a thread a slot.
__global__ void shift_positions_kernel(const int32_t *slots, int n, int delta, int32_t *slot_positions) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && slot_positions[slots[i]] >= 0) slot_positions[slots[i]] += delta;
}

// The positions lie on the device: they are read back, which the discarding that asks for this can afford.
static Status check_positions(CudaBackend *cuda, const int32_t *slots, int n, int32_t delta,
                              const int32_t *slot_positions, Error *error) {
    int32_t last = 0;
    for (int i = 0; i < n; i++) last = slots[i] > last ? slots[i] : last;
    size_t bytes = ((size_t)last + 1) * sizeof(int32_t);
    int32_t *held = (int32_t *)malloc(bytes);
    if (!held) return error_set(error, STATUS_MEMORY, "shift_keys: no memory for %d positions", last + 1);
    Status status =
        cuda_check(cudaMemcpyAsync(held, slot_positions, bytes, cudaMemcpyDeviceToHost, cuda->stream), error,
                   "shift_keys: reading positions");
    if (!status)
        status = cuda_check(cudaStreamSynchronize(cuda->stream), error, "shift_keys: reading positions");
    if (!status) status = kv_shift_check(held, slots, n, delta, error);
    free(held);
    return status;
}

Status cuda_shift_keys(Backend *backend, const KvLayer *layers, int n_layers, const int32_t *slots, int n,
                       int32_t delta, int32_t *slot_positions, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    ShiftArguments a = {{},
                        cuda->inv_freq,
                        s->head_dim,
                        s->rope.rotary_dim / 2,
                        s->n_kv_heads,
                        delta,
                        s->rope.kind == ROPE_INTERLEAVED,
                        slot_positions};
    if (n < 1 || n_layers < 1) return STATUS_OK;
    Status status = upload_call(cuda, layers, n_layers, slots, NULL, n, &a.call, error);
    if (status) return error_prefix(error, "shift_keys: ");
    status = check_positions(cuda, slots, n, delta, slot_positions, error);
    if (status) return status;
    size_t shared = ((size_t)a.n_pairs + 1) / 2 * 2 * sizeof(float2) +
                    4 * (size_t)row_floats(s->head_dim) * sizeof(float);
    shift_keys_kernel<<<dim3((unsigned)n, (unsigned)n_layers), 128, shared, cuda->stream>>>(a);
    status = CUDA_LAUNCHED(error, "shift_keys: %d slots of %d layers by %d", n, n_layers, delta);
    if (status) return status;
    shift_positions_kernel<<<(unsigned)(n + 127) / 128, 128, 0, cuda->stream>>>(a.call.from, n, delta,
                                                                                slot_positions);
    return CUDA_LAUNCHED(error, "shift_keys: %d slots of %d layers by %d", n, n_layers, delta);
}
