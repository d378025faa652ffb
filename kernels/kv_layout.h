// The four layouts of a KV cache as strides: L layers of MaxT slots, H KV heads of Dh elements, keys before values.
//
//   0: [MaxT, L, 2, H, Dh]   1: [L, MaxT, 2, H, Dh]   2: [L, 2, MaxT, H, Dh]   3: [L, 2, H, MaxT, Dh]
//
// Scales of int8 and int4 lie likewise, with Dh/group in the place of Dh. Where keys are values (latents) there is 1
// instead of 2. Layers that recur have no slots: their states lie apart, [n_recurring, n_states, state_floats].
#ifndef PALAVER_KERNELS_KV_LAYOUT_H
#define PALAVER_KERNELS_KV_LAYOUT_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct KvLayout {
    int layout;                         // 0 … 3
    int n_layers, n_kv_heads, head_dim; // n_layers 0: all layers recur, and slots are of no bytes
    int64_t n_slots;
    DType type;
    int group;        // int8, int4; elsewhere 0
    DType scale_type; // int8, int4
    bool one_plane;   // values are the keys: of latents, in a type that is not quantised
    int n_recurring;  // layers besides, that recur; 0: the following mean nothing
    int n_states;
    int64_t state_floats; // of one state of a layer (delta_state_floats)
} KvLayout;

// Keys and values, or 1 where these are those.
static inline int kv_layout_planes(const KvLayout *layout) {
    return layout->one_plane ? 1 : 2;
}

// Checks a layout: known types, a group that divides head_dim, is even and at least 2, sizes that fit in int64.
Status kv_layout_check(const KvLayout *layout, Error *error);

// Bytes of the cache and of its scales (0 without a group), for a layout that was checked.
int64_t kv_layout_bytes(const KvLayout *layout);
int64_t kv_layout_scale_bytes(const KvLayout *layout);
// Of all states of one layer that recurs, and of one state of all of them.
int64_t kv_layout_states_bytes(const KvLayout *layout);
int64_t kv_layout_state_bytes(const KvLayout *layout);

// One layer of the cache that begins at `cache`, its scales at `scale` (NULL without a group).
KvLayer kv_layout_layer(const KvLayout *layout, void *cache, void *scale, int layer);

// Whether heads of head_dim elements can lie in kv: its type, and with a group that, its strides and its scales.
// STATUS_UNSUPPORTED if not: what every backend asks before it stores or attends.
Status kv_layer_check(const KvLayer *kv, int head_dim, Error *error);

// Whether what `slots` [n] hold can move by `delta`: positions (slot_positions, host memory; -1: empty, and left so)
// stay within those of an int32. STATUS_DEVICE, naming the slot, if not: what every backend asks before it shifts keys.
Status kv_shift_check(const int32_t *slot_positions, const int32_t *slots, int n, int32_t delta,
                      Error *error);

#ifdef __cplusplus
}
#endif
#endif
