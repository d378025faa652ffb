// copy_slots() and shift_keys(): slots of all layers, a layer a part of the work.
#include "kernels/cpu/cache/kv.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops/rope.h"

#include <string.h>

static Status check_slots(const CpuBackend *cpu, const char *op, const CacheSlots *s, const int32_t *slots,
                          Error *error) {
    for (int l = 0; l < s->n_layers; l++)
        if (kv_layer_check(&s->layers[l], kv_layer_head_dim(cpu->shape, &s->layers[l]), error))
            return error_prefix(error, "%s: ", op);
    for (int i = 0; i < s->n; i++)
        if (slots[i] < 0) return error_set(error, STATUS_DEVICE, "%s: slot %d", op, slots[i]);
    return STATUS_OK;
}

// ---- copy_slots -------------------------------------------------------------------------------------------

typedef struct Copy {
    const DecoderShape *shape;
    const CacheSlots *from;
    const int32_t *to; // [from->n]
} Copy;

// n elements of `type`, from one to another.
static void copy_elements(DType type, void *values, int64_t from, int64_t to, int64_t n) {
    char *bytes = values;
    memcpy(bytes + dtype_row_bytes(type, to), bytes + dtype_row_bytes(type, from),
           (size_t)dtype_row_bytes(type, n));
}

static void copy_layer(void *context, int64_t layer, int thread) {
    const Copy *c = context;
    const KvLayer *kv = &c->from->layers[layer];
    const int head_dim = kv_layer_head_dim(c->shape, kv), n_heads = kv_layer_heads(c->shape, kv);
    (void)thread;
    for (int i = 0; i < c->from->n; i++)
        for (int h = 0; h < n_heads; h++) {
            int64_t from = c->from->slots[i] * kv->slot_stride + h * kv->head_stride;
            int64_t to = c->to[i] * kv->slot_stride + h * kv->head_stride;
            copy_elements(kv->type, kv->k, from, to, head_dim);
            copy_elements(kv->type, kv->v, from, to, head_dim);
            if (!kv->group) continue;
            copy_elements(kv->scale_type, kv->k_scale, from / kv->group, to / kv->group,
                          head_dim / kv->group);
            copy_elements(kv->scale_type, kv->v_scale, from / kv->group, to / kv->group,
                          head_dim / kv->group);
        }
}

Status cpu_copy_slots(Backend *backend, const CacheSlots *from, const int32_t *to, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    Status status = check_slots(cpu, "copy_slots", from, from->slots, error);
    if (!status) status = check_slots(cpu, "copy_slots", from, to, error);
    if (status) return status;
    Copy c = {cpu->shape, from, to};
    threads_run(cpu->threads, from->n_layers, copy_layer, &c);
    for (int i = 0; i < from->n; i++) from->slot_positions[to[i]] = from->slot_positions[from->slots[i]];
    return STATUS_OK;
}

// ---- shift_keys -------------------------------------------------------------------------------------------

typedef struct Shift {
    CpuBackend *cpu;
    const CacheSlots *slots;
    float *cos, *sin; // [n_tables, rotary_dim/2] of delta
} Shift;

static void shift_layer(void *context, int64_t layer, int thread) {
    const Shift *c = context;
    const CacheSlots *s = c->slots;
    const DecoderShape *shape = c->cpu->shape;
    const KvLayer *kv = &s->layers[layer];
    const int64_t angles = kv->rope * (int64_t)(shape->rope.rotary_dim / 2);
    const int head_dim = kv_layer_head_dim(shape, kv);
    const Rope rope = rope_of_table(&shape->rope, kv->rope);
    float *key = cpu_thread_scratch(c->cpu, thread);
    if (kv->rope < 0) return;
    for (int i = 0; i < s->n; i++) {
        if (s->slot_positions[s->slots[i]] < 0) continue; // empty
        for (int h = 0; h < kv_layer_heads(shape, kv); h++) {
            kv_load_key(kv, s->slots[i], h, head_dim, key);
            rope_turn(&rope, c->cos + angles, c->sin + angles, key);
            kv_store(c->cpu->loops, kv, &(KvRow){KV_KEYS, s->slots[i], h, head_dim}, key);
        }
    }
}

Status cpu_shift_keys(Backend *backend, const CacheSlots *s, int32_t delta, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    Status status = check_slots(cpu, "shift_keys", s, s->slots, error);
    if (!status) status = kv_shift_check(s->slot_positions, s->slots, s->n, delta, error);
    if (status) return status;
    Shift c = {cpu, s, cpu->shift_cos, cpu->shift_sin};
    const Rope *rope = &cpu->shape->rope;
    for (int table = 0; table < rope_tables(rope); table++) {
        const int64_t first = table * (int64_t)(rope->rotary_dim / 2);
        rope_angles(rope, rope_row(rope, table, 0), delta, 1, c.cos + first, c.sin + first);
    }
    if (rope->rotary_dim > 0) threads_run(cpu->threads, s->n_layers, shift_layer, &c);
    for (int i = 0; i < s->n; i++)
        if (s->slot_positions[s->slots[i]] >= 0) s->slot_positions[s->slots[i]] += delta;
    return STATUS_OK;
}
