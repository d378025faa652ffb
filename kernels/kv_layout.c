#include "kernels/kv_layout.h"

// Elements of the whole cache; -1 beyond int64.
static int64_t elements_of(const KvLayout *l) {
    int64_t n = kv_layout_planes(l);
    if (__builtin_mul_overflow(n, l->n_layers, &n) || __builtin_mul_overflow(n, l->n_kv_heads, &n) ||
        __builtin_mul_overflow(n, l->head_dim, &n) || __builtin_mul_overflow(n, l->n_slots, &n))
        return -1;
    return n <= INT64_MAX / 8 ? n : -1;
}

Status kv_layout_check(const KvLayout *l, Error *error) {
    if (l->layout < 0 || l->layout > 3)
        return error_set(error, STATUS_USAGE, "cache layout %d: there are 0, 1, 2 and 3", l->layout);
    if (l->n_layers < (l->n_recurring > 0 ? 0 : 1) || l->n_kv_heads < 1 || l->head_dim < 1 || l->n_slots < 1)
        return error_set(error, STATUS_USAGE, "cache of %d layers, %d KV heads of %d, %lld slots",
                         l->n_layers, l->n_kv_heads, l->head_dim, (long long)l->n_slots);
    bool quantised = l->type == DTYPE_INT8 || l->type == DTYPE_INT4;
    if (!quantised && l->type != DTYPE_F32 && l->type != DTYPE_F16 && l->type != DTYPE_BF16)
        return error_set(error, STATUS_USAGE, "cache type %s: there are f32, f16, bf16, int8 and int4",
                         dtype_name(l->type));
    if (quantised && l->one_plane)
        return error_set(error, STATUS_USAGE,
                         "a cache of type %s: one of latents is kept in f16 or f32 ([cache] type)",
                         dtype_name(l->type));
    if (quantised && (l->group < 2 || l->group % 2 || l->head_dim % l->group))
        return error_set(error, STATUS_USAGE, "cache group %d: an even number that divides the head size, %d",
                         l->group, l->head_dim);
    if (quantised && l->scale_type != DTYPE_F32 && l->scale_type != DTYPE_F16)
        return error_set(error, STATUS_USAGE, "cache scales in %s: there are f32 and f16",
                         dtype_name(l->scale_type));
    int64_t states;
    if (l->n_recurring > 0 && (__builtin_mul_overflow(l->state_floats, l->n_states, &states) ||
                               states > INT64_MAX / 8 / l->n_recurring))
        return error_set(error, STATUS_USAGE, "%d states of %lld numbers are beyond counting", l->n_states,
                         (long long)l->state_floats);
    if (elements_of(l) < 0)
        return error_set(error, STATUS_USAGE, "a cache of %lld slots is beyond counting",
                         (long long)l->n_slots);
    return STATUS_OK;
}

int64_t kv_layout_bytes(const KvLayout *l) {
    return dtype_row_bytes(l->type, elements_of(l));
}

int64_t kv_layout_scale_bytes(const KvLayout *l) {
    return l->group ? dtype_row_bytes(l->scale_type, elements_of(l) / l->group) : 0;
}

int64_t kv_layout_states_bytes(const KvLayout *l) {
    return l->n_recurring ? (int64_t)sizeof(float) * l->state_floats * l->n_states : 0;
}

int64_t kv_layout_state_bytes(const KvLayout *l) {
    return (int64_t)sizeof(float) * l->state_floats * l->n_recurring;
}

KvLayer kv_layout_layer(const KvLayout *l, void *cache, void *scale, int layer) {
    int64_t token = (int64_t)l->n_kv_heads * l->head_dim; // elements of a token's keys in a layer
    const int planes = kv_layout_planes(l);
    int64_t first = planes * token * l->n_slots * layer, values = token * l->n_slots;
    KvLayer kv = {.type = l->type,
                  .slot_stride = token,
                  .head_stride = l->head_dim,
                  .group = l->group,
                  .scale_type = l->scale_type};
    switch (l->layout) {
    case 0:
        kv.slot_stride = planes * token * l->n_layers;
        first = planes * token * layer;
        values = token;
        break;
    case 1:
        kv.slot_stride = planes * token;
        values = token;
        break;
    case 2:
        break;
    default:
        kv.slot_stride = l->head_dim;
        kv.head_stride = l->n_slots * l->head_dim;
    }
    if (l->one_plane) values = 0;
    kv.k = (char *)cache + dtype_row_bytes(l->type, first);
    kv.v = (char *)cache + dtype_row_bytes(l->type, first + values);
    if (l->group) {
        kv.k_scale = (char *)scale + dtype_row_bytes(l->scale_type, first / l->group);
        kv.v_scale = (char *)scale + dtype_row_bytes(l->scale_type, (first + values) / l->group);
    }
    return kv;
}

Status kv_layer_check(const KvLayer *kv, int head_dim, Error *error) {
    bool quantised = kv->type == DTYPE_INT8 || kv->type == DTYPE_INT4;
    if (!quantised && kv->type != DTYPE_F32 && kv->type != DTYPE_F16 && kv->type != DTYPE_BF16)
        return error_set(error, STATUS_UNSUPPORTED, "a cache of type %s", dtype_name(kv->type));
    if (!kv->key_balance != !kv->key_feedback ||
        (kv->key_balance && (!quantised || !kv->rotate_keys || head_dim % 4 || (head_dim & -head_dim) > 256)))
        return error_set(error, STATUS_UNSUPPORTED,
                         "a cache of type %s, heads of %d, whose keys are balanced, but not quantised, "
                         "turned and fed back",
                         dtype_name(kv->type), head_dim);
    if (!quantised) return STATUS_OK;
    if (kv->group < 2 || kv->group % 2 || head_dim % kv->group || kv->slot_stride % kv->group ||
        kv->head_stride % kv->group)
        return error_set(error, STATUS_UNSUPPORTED, "a cache in groups of %d, with heads of %d", kv->group,
                         head_dim);
    if (!kv->k_scale || !kv->v_scale || (kv->scale_type != DTYPE_F32 && kv->scale_type != DTYPE_F16))
        return error_set(error, STATUS_UNSUPPORTED, "a cache of type %s without scales in f32 or f16",
                         dtype_name(kv->type));
    return STATUS_OK;
}

Status kv_shift_check(const int32_t *slot_positions, const int32_t *slots, int n, int32_t delta,
                      Error *error) {
    for (int i = 0; i < n; i++) {
        int64_t position = slot_positions[slots[i]], moved = position + delta;
        if (position >= 0 && (moved < 0 || moved > INT32_MAX))
            return error_set(error, STATUS_DEVICE,
                             "shift_keys: slot %d holds position %lld, which cannot move by %d", slots[i],
                             (long long)position, delta);
    }
    return STATUS_OK;
}
