// Which kernel takes a step's splits, and what it is told.
#include "kernels/cuda/attention/split.cuh"

static int64_t cache_bytes(const KvLayer &kv, int64_t elements) {
    return kv.type == DTYPE_INT4   ? elements / 2
           : kv.type == DTYPE_INT8 ? elements
           : kv.type == DTYPE_F32  ? elements * 4
                                   : elements * 2;
}

// Of what splits hand to each other: `arrived` has at most one for each head.
static size_t parts_bytes(int n_splits, const AttendHeads *h) {
    return (size_t)n_splits * (size_t)h->n_heads * ((size_t)h->head_dim + 2) * sizeof(float);
}
static size_t arrived_bytes(int n_splits, const AttendHeads *h) {
    return (size_t)n_splits * (size_t)h->n_heads * sizeof(unsigned);
}

size_t split_bytes(int n_splits, const AttendHeads *heads) {
    return cuda_room_bytes(parts_bytes(n_splits, heads)) + cuda_room_bytes(arrived_bytes(n_splits, heads));
}

Status split_reserve(CudaBackend *cuda, const AttendHeads *heads, Error *error) {
    const char *what = "splits of attention";
    Status status = cuda_room(cuda, &cuda->parts, parts_bytes(cuda->n_splits, heads), false, what, error);
    return status ? status
                  : cuda_room(cuda, &cuda->arrived, arrived_bytes(cuda->n_splits, heads), false, what, error);
}

// Fills in what the scales need. False if the kernels have no code for them.
static bool describe_scales(SplitArguments *a) {
    const KvLayer &kv = a->l.a.kv;
    int size = kv.scale_type == DTYPE_F16 ? 2 : 4;
    if (kv.group < 8 || (kv.group & (kv.group - 1))) return false;
    a->group_shift = __builtin_ctz((unsigned)kv.group);
    a->scale_slot_bytes = (uint32_t)(kv.slot_stride / kv.group * size);
    a->scale_head_bytes = kv.head_stride / kv.group * size;
    return true;
}

bool scales_fit(const SplitArguments *a, int group, int bytes) {
    const KvLayer &kv = a->l.a.kv;
    uint64_t all = (uint64_t)a->scale_slot_bytes | (uint64_t)a->scale_head_bytes |
                   (uint64_t)(uintptr_t)kv.k_scale | (uint64_t)(uintptr_t)kv.v_scale;
    return kv.scale_type == DTYPE_F16 && kv.group == group && a->l.a.head_dim / group * 2 == bytes &&
           all % (uint64_t)(bytes < 16 ? bytes : 16) == 0;
}

cudaError_t attend_splits(CudaBackend *cuda, const SplitLaunch *launch) {
    const AttendArguments &t = launch->a;
    const KvLayer &kv = t.kv;
    SplitArguments a = {};
    a.l = *launch;
    a.split_tiles = cuda->split_tiles;
    a.new_slots = cuda->kind == STEP_DECODING ? cuda->slots : NULL;
    a.slot_bytes = (uint32_t)cache_bytes(kv, kv.slot_stride);
    a.head_bytes = cache_bytes(kv, kv.head_stride);
    size_t rows = (size_t)cuda->n_splits * (size_t)t.n_heads;
    a.sums = (float *)cuda->parts.memory;
    a.weights = (float2 *)(a.sums + rows * (size_t)t.head_dim);
    a.arrived = (unsigned *)cuda->arrived.memory;
    uint64_t all = (uint64_t)cache_bytes(kv, t.head_dim) | (uint64_t)a.slot_bytes | (uint64_t)a.head_bytes |
                   (uint64_t)(uintptr_t)kv.k | (uint64_t)(uintptr_t)kv.v;
    if (t.pages.shift < 0 || cache_bytes(kv, kv.slot_stride) > UINT32_MAX) return cudaErrorNotSupported;
    if (t.head_dim % 16 || t.head_dim > 256 || all % 16 || cuda->compute < 80) return cudaErrorNotSupported;
    switch (kv.type) {
    case DTYPE_F32:
        return split_launch<DTYPE_F32>(cuda, &a);
    case DTYPE_F16:
        return split_launch<DTYPE_F16>(cuda, &a);
    case DTYPE_BF16:
        return split_launch<DTYPE_BF16>(cuda, &a);
    case DTYPE_INT8:
        return describe_scales(&a) ? split_launch<DTYPE_INT8>(cuda, &a) : cudaErrorNotSupported;
    default:
        return describe_scales(&a) ? split_launch<DTYPE_INT4>(cuda, &a) : cudaErrorNotSupported;
    }
}
