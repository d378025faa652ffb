// Attention: a part of the work is a tile of tokens and the query heads of one KV head, so that each key and
// value is read once for all of them.
#include "kernels/cpu/cpu.h"

typedef struct Attend {
    CpuBackend *cpu;
    const float *q;
    const KvLayer *kv;
    int window;
    float *y;
    int parts_a_group; // parts into which the heads of a KV head are cut, where there are too few for the
                       // threads
} Attend;

static void attend_part(void *context, int64_t part, int thread) {
    const Attend *c = context;
    const DecoderShape *s = c->cpu->shape;
    int units = s->n_kv_heads * c->parts_a_group, unit = (int)(part % units);
    const TokenTile *tokens = &c->cpu->tiles[c->cpu->n_tiles - 1 - part / units]; // the longest first
    const StepSequence *sequence = &c->cpu->sequences[tokens->sequence];
    int group = s->n_heads / s->n_kv_heads, kv_head = unit / c->parts_a_group,
        piece = unit % c->parts_a_group;
    int first = group * piece / c->parts_a_group, end = group * (piece + 1) / c->parts_a_group;
    int64_t width = (int64_t)s->n_heads * s->head_dim;
    int64_t offset = tokens->first_token * width + (kv_head * (int64_t)group + first) * s->head_dim;
    AttendTile tile = {.q = c->q + offset,
                       .y = c->y + offset,
                       .q_stride = width,
                       .n_tokens = tokens->n_tokens,
                       .n_heads = end - first,
                       .head_dim = s->head_dim,
                       .positions = c->cpu->positions + tokens->first_token,
                       .kv = c->kv,
                       .kv_head = kv_head,
                       .window = c->window,
                       .first_slot = sequence->pages[0],
                       .n_slots = sequence->n_slots,
                       .slot_positions = c->cpu->slot_positions,
                       .scale = s->attention_scale};
    c->cpu->loops->attend(&tile, cpu_thread_scratch(c->cpu, thread));
}

Status cpu_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    if (kv->type != DTYPE_F32 && kv->type != DTYPE_F16)
        return error_set(error, STATUS_UNSUPPORTED,
                         "attend: the cpu backend reads a cache of f32 or f16, not %s", dtype_name(kv->type));
    Attend c = {.cpu = cpu, .q = q, .kv = kv, .window = window, .y = y, .parts_a_group = 1};
    int64_t units = (int64_t)cpu->n_tiles * cpu->shape->n_kv_heads;
    int group = cpu->shape->n_heads / cpu->shape->n_kv_heads, wanted = 2 * threads_count(cpu->threads);
    while (c.parts_a_group < group && units * c.parts_a_group < wanted) c.parts_a_group++;
    threads_run(cpu->threads, units * c.parts_a_group, attend_part, &c);
    return STATUS_OK;
}
