#include "kernels/cpu/cpu.h"
#include "kernels/kv_layout.h"

Status cpu_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const DecoderShape *shape = cpu->shape;
    if (kv_layer_check(kv, shape->head_dim, error)) return error_prefix(error, "attend: ");
    const int64_t angles = kv->rope < 0 ? 0 : cpu_angles(cpu, kv);
    AttentionJob job = {.loops = cpu->loops,
                        .threads = cpu->threads,
                        .scratch = cpu->thread_scratch,
                        .thread_bytes = cpu->thread_bytes,
                        .q = q,
                        .y = y,
                        .n_heads = shape->n_heads,
                        .n_kv_heads = shape->n_kv_heads,
                        .head_dim = shape->head_dim,
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
                        .rope = kv->rope < 0 ? NULL : &shape->rope,
                        .sink_cos = cpu->sink_cos + angles,
                        .sink_sin = cpu->sink_sin + angles,
                        .counts = &cpu->counts};
    attention_run(&job);
    return STATUS_OK;
}
