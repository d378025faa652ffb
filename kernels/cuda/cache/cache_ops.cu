// copy_slots, shift_keys: what is done to a cache besides storing and attending.
#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/cache/store.cuh"
#include "kernels/cuda/rope.cuh"

#include <stdlib.h>
#include <string.h>

// The layers and slots of a call, on the device in the step's memory, which no step is using any more.
struct CacheCall {
    KvLayer *layers;
    int32_t *from, *to; // [n]; to NULL: not wanted
};

static Status upload_call(CudaBackend *cuda, const CacheSlots *s, const int32_t *to, CacheCall *call,
                          Error *error) {
    CudaScratch *scratch = &cuda->scratch;
    for (int l = 0; l < s->n_layers; l++) {
        Status status = kv_layer_check(&s->layers[l], kv_layer_head_dim(cuda->shape, &s->layers[l]), error);
        if (status) return status;
    }
    for (int i = 0; i < s->n; i++)
        if (s->slots[i] < 0 || (to && to[i] < 0))
            return error_set(error, STATUS_USAGE, "slot %d", s->slots[i] < 0 ? s->slots[i] : to[i]);
    size_t table = (size_t)s->n_layers * sizeof(KvLayer), slots = (size_t)s->n * sizeof(int32_t),
           bytes = table + (to ? 2 : 1) * slots;
    Status status = cuda_check(cudaEventSynchronize(scratch->staged), error, "slots of a cache");
    if (!status) status = cuda_room(cuda, &scratch->staging, bytes, true, "slots of a cache", error);
    if (!status) status = cuda_room(cuda, &scratch->step, bytes, false, "slots of a cache", error);
    if (status) return status;
    memcpy(scratch->staging.memory, s->layers, table);
    memcpy(scratch->staging.memory + table, s->slots, slots);
    if (to) memcpy(scratch->staging.memory + table + slots, to, slots);
    cudaError_t code = cudaMemcpyAsync(scratch->step.memory, scratch->staging.memory, bytes,
                                       cudaMemcpyHostToDevice, cuda->device.stream);
    if (code == cudaSuccess) code = cudaEventRecord(scratch->staged, cuda->device.stream);
    call->layers = (KvLayer *)scratch->step.memory;
    call->from = (int32_t *)(scratch->step.memory + table);
    call->to = to ? call->from + s->n : NULL;
    return cuda_check(code, error, "uploading %d slots", s->n);
}

// ---- copy_slots ----------------------------------------------------------------------------------------------

__device__ inline void copy_elements(char *plane, int64_t from, int64_t to, int bytes) {
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) plane[to + i] = plane[from + i];
}

// The heads of a layer whose cache does not say what they are.
struct UsualHeads {
    int n_kv_heads, head_dim;
    __device__ int heads_of(const KvLayer &kv) const {
        return kv.n_kv_heads > 0 ? kv.n_kv_heads : n_kv_heads;
    }
    __device__ int dim_of(const KvLayer &kv) const { return kv.head_dim > 0 ? kv.head_dim : head_dim; }
};

// The most heads that a layer has.
static int most_kv_heads(const DecoderShape *shape, const CacheSlots *s) {
    int most = 1;
    for (int l = 0; l < s->n_layers; l++) {
        const int n = kv_layer_heads(shape, &s->layers[l]);
        most = n > most ? n : most;
    }
    return most;
}

// A block a head of a slot in a layer: its key, value and scales, byte by byte. Grid: [n, the most KV heads, n_layers],
// block: 64.
__global__ void copy_slots_kernel(CacheCall call, UsualHeads usual, int32_t *slot_positions) {
    const KvLayer &kv = call.layers[blockIdx.z];
    const int head_dim = usual.dim_of(kv);
    if ((int)blockIdx.y >= usual.heads_of(kv)) return;
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

// Where no layer has slots these hold positions alone: a thread a slot.
__global__ void copy_positions_kernel(CacheCall call, int n, int32_t *slot_positions) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) slot_positions[call.to[i]] = slot_positions[call.from[i]];
}

Status cuda_copy_slots(Backend *backend, const CacheSlots *from, const int32_t *to, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    CacheCall call;
    if (from->n < 1) return STATUS_OK;
    Status status = upload_call(cuda, from, to, &call, error);
    if (status) return error_prefix(error, "copy_slots: ");
    if (from->n_layers < 1) {
        copy_positions_kernel<<<(unsigned)(from->n + 127) / 128, 128, 0, cuda->device.stream>>>(
            call, from->n, from->slot_positions);
        return CUDA_LAUNCHED(error, "copy_slots: positions of %d slots", from->n);
    }
    const DecoderShape *s = cuda->shape;
    dim3 grid((unsigned)from->n, (unsigned)most_kv_heads(s, from), (unsigned)from->n_layers);
    copy_slots_kernel<<<grid, 64, 0, cuda->device.stream>>>(call, UsualHeads{s->n_kv_heads, s->head_dim},
                                                            from->slot_positions);
    return CUDA_LAUNCHED(error, "copy_slots: %d slots of %d layers", from->n, from->n_layers);
}

// ---- shift_keys ----------------------------------------------------------------------------------------------

struct ShiftArguments {
    CacheCall call;
    const double *inv_freq;
    int64_t table_stride; // elements of inv_freq from one table to the next
    UsualHeads usual;
    int most_head_dim;
    int n_pairs[ROPE_MOST_TABLES]; // that a table turns
    int delta;
    bool interleaved;
    const int32_t *slot_positions;
};

// A warp a KV head of a slot in a layer, all heads of it in turn; the angles in shared memory, for they are the same
// everywhere. Grid: [n, n_layers], block: 128, shared memory: the turns of the first table, which has most, and 4 rows of
// store_row().
__global__ void __launch_bounds__(128) shift_keys_kernel(ShiftArguments a) {
    extern __shared__ float2 turns[];
    const KvLayer &kv = a.call.layers[blockIdx.y];
    const double *inv_freq = a.inv_freq + kv.rope * a.table_stride;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t slot = a.call.from[blockIdx.x];
    if (a.slot_positions[slot] < 0 || kv.rope < 0) return; // empty, or not turned
    const int n_pairs = a.n_pairs[kv.rope], head_dim = a.usual.dim_of(kv);
    float *v = (float *)(turns + (a.n_pairs[0] + 1) / 2 * 2) + warp * row_floats(a.most_head_dim);
    for (int i = threadIdx.x; i < n_pairs; i += blockDim.x) {
        double sine, cosine;
        sincos(a.delta * inv_freq[i], &sine, &cosine);
        turns[i] = make_float2((float)cosine, (float)sine);
    }
    __syncthreads();
    for (int head = warp; head < a.usual.heads_of(kv); head += 4) {
        int64_t at = slot * kv.slot_stride + head * kv.head_stride;
        for (int i = lane; i < head_dim; i += 32) v[i] = kv_at(kv, true, at + i);
        __syncwarp();
        if (kv.rotate_keys) warp_hadamard(v, head_dim); // its own inverse
        if (kv.key_balance)
            for (int i = lane; i < head_dim; i += 32) v[i] *= kv.key_balance[head * head_dim + i];
        __syncwarp();
        rope_head(turns, 2 * n_pairs, a.interleaved, 1, v, v);
        __syncwarp();
        store_row(kv, CacheRow{true, slot, head}, feedback_of(kv, head, head_dim), v, head_dim);
        __syncwarp();
    }
}

// After all layers, which look at the positions: a thread a slot.
__global__ void shift_positions_kernel(const int32_t *slots, int n, int delta, int32_t *slot_positions) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && slot_positions[slots[i]] >= 0) slot_positions[slots[i]] += delta;
}

// The positions lie on the device: they are read back, which the discarding that asks for this can afford.
static Status check_positions(CudaBackend *cuda, const CacheSlots *s, int32_t delta, Error *error) {
    int32_t last = 0;
    for (int i = 0; i < s->n; i++) last = s->slots[i] > last ? s->slots[i] : last;
    size_t bytes = ((size_t)last + 1) * sizeof(int32_t);
    int32_t *held = (int32_t *)malloc(bytes);
    if (!held) return error_set(error, STATUS_MEMORY, "shift_keys: no memory for %d positions", last + 1);
    cudaStream_t stream = cuda->device.stream;
    cudaError_t code = cudaMemcpyAsync(held, s->slot_positions, bytes, cudaMemcpyDeviceToHost, stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(stream);
    Status status = cuda_check(code, error, "shift_keys: reading positions");
    if (!status) status = kv_shift_check(held, s->slots, s->n, delta, error);
    free(held);
    return status;
}

Status cuda_shift_keys(Backend *backend, const CacheSlots *slots, int32_t delta, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    const int n = slots->n, n_layers = slots->n_layers;
    ShiftArguments a = {{},
                        cuda->device.inv_freq,
                        (int64_t)rope_sets(&s->rope) * (s->rope.rotary_dim / 2),
                        {s->n_kv_heads, s->head_dim},
                        decoder_most_head_dim(s),
                        {s->rope.rotary_dim / 2, rope_of_table(&s->rope, 1).rotary_dim / 2},
                        delta,
                        s->rope.kind == ROPE_INTERLEAVED,
                        slots->slot_positions};
    if (n < 1 || n_layers < 1) return STATUS_OK;
    Status status = upload_call(cuda, slots, NULL, &a.call, error);
    if (status) return error_prefix(error, "shift_keys: ");
    status = check_positions(cuda, slots, delta, error);
    if (status) return status;
    size_t shared = ((size_t)a.n_pairs[0] + 1) / 2 * 2 * sizeof(float2) +
                    4 * (size_t)row_floats(a.most_head_dim) * sizeof(float);
    shift_keys_kernel<<<dim3((unsigned)n, (unsigned)n_layers), 128, shared, cuda->device.stream>>>(a);
    status = CUDA_LAUNCHED(error, "shift_keys: %d slots of %d layers by %d", n, n_layers, delta);
    if (status) return status;
    shift_positions_kernel<<<(unsigned)(n + 127) / 128, 128, 0, cuda->device.stream>>>(a.call.from, n, delta,
                                                                                       slots->slot_positions);
    return CUDA_LAUNCHED(error, "shift_keys: %d slots of %d layers by %d", n, n_layers, delta);
}
