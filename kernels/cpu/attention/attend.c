// The op attend: what a step's queries see in a layer's cache, by the job of attention.c.
#include "kernels/cpu/cpu.h"
#include "kernels/kv_layout.h"

#include <string.h>

Status cpu_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const DecoderShape *shape = cpu->shape;
    const int head_dim = kv_layer_head_dim(shape, kv);
    const Rope rope = rope_of_table(&shape->rope, kv->rope);
    if (kv->convolves || kv->recurs) { // qkv() has done all there is to do
        const int64_t width = kv->recurs ? delta_width(&shape->delta) : (int64_t)shape->n_heads * head_dim;
        if (y != q) memcpy(y, q, sizeof(float) * (size_t)(cpu->n_tokens * width));
        return STATUS_OK;
    }
    if (kv_layer_check(kv, head_dim, error)) return error_prefix(error, "attend: ");
    const int64_t angles = kv->rope < 0 ? 0 : cpu_angles(cpu, kv);
    AttentionJob job = {.loops = cpu->loops,
                        .threads = cpu->threads,
                        .scratch = cpu->thread_scratch,
                        .thread_bytes = cpu->thread_bytes,
                        .q = q,
                        .y = y,
                        .n_heads = shape->n_heads,
                        .n_kv_heads = kv_layer_heads(shape, kv),
                        .head_dim = head_dim,
                        .window = window,
                        .scale = shape->attention_scale,
                        .cap = shape->attention_cap,
                        .slopes = shape->alibi ? cpu->slopes : NULL,
                        .positions = cpu->positions,
                        .tiles = cpu->tiles,
                        .n_tiles = cpu->n_tiles,
                        .sequences = cpu->sequences,
                        .page_size = cpu->page_size,
                        .kv = kv,
                        .slot_positions = cpu->slot_positions,
                        .rope = kv->rope < 0 ? NULL : &rope,
                        .pairs = shape->rope.rotary_dim / 2,
                        .sink_cos = cpu->sink_cos + angles,
                        .sink_sin = cpu->sink_sin + angles,
                        .counts = &cpu->counts};
    attention_run(&job);
    cpu_apply_gates(cpu, y, (int64_t)shape->n_heads * head_dim);
    return STATUS_OK;
}
