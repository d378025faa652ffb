#include "kernels/cpu/arena.h"
#include "kernels/cpu/cpu.h"

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int64_t cpu_scratch_layout(CpuBackend *cpu, int n_threads, char *base) {
    const DecoderShape *s = cpu->shape;
    Arena arena = {.base = base};
    int64_t n = cpu->max_tokens, rows = larger(n, cpu->max_logits);
    int64_t heads_width = (int64_t)s->n_heads * s->head_dim, kv_width = (int64_t)s->n_kv_heads * s->head_dim;
    int64_t widest = larger(larger(s->hidden_size, s->intermediate_size), heads_width);
    const int64_t pairs = (int64_t)rope_tables(&s->rope) * (s->rope.rotary_dim / 2);
    int64_t groups = widest / QUANT_GROUP + 1, quantized;
    if (__builtin_mul_overflow(rows, widest, &quantized)) return -1;

    cpu->ids = arena_take(&arena, n, sizeof *cpu->ids);
    cpu->positions = arena_take(&arena, n, sizeof *cpu->positions);
    cpu->slots = arena_take(&arena, n, sizeof *cpu->slots);
    cpu->before = arena_take(&arena, n, sizeof *cpu->before);
    cpu->sequences = arena_take(&arena, n, sizeof *cpu->sequences);
    cpu->tiles = arena_take(&arena, n, sizeof *cpu->tiles);
    cpu->cos = arena_take(&arena, n * pairs, sizeof *cpu->cos);
    cpu->sin = arena_take(&arena, n * pairs, sizeof *cpu->sin);
    cpu->sink_cos = arena_take(&arena, n * pairs, sizeof *cpu->sink_cos);
    cpu->sink_sin = arena_take(&arena, n * pairs, sizeof *cpu->sink_sin);
    cpu->shift_cos = arena_take(&arena, pairs, sizeof *cpu->shift_cos);
    cpu->shift_sin = arena_take(&arena, pairs, sizeof *cpu->shift_sin);
    cpu->slopes = arena_take(&arena, s->n_heads, sizeof *cpu->slopes);
    cpu->normed = arena_take(&arena, rows * s->hidden_size, sizeof *cpu->normed);
    cpu->q = arena_take(&arena, quantized, sizeof *cpu->q);
    cpu->scale = arena_take(&arena, rows * groups, sizeof *cpu->scale);
    cpu->sum = arena_take(&arena, rows * groups, sizeof *cpu->sum);
    cpu->sums = arena_take(&arena, rows * groups * 2, sizeof *cpu->sums);
    cpu->w8 = arena_take(&arena, rows * w8_stride(widest), sizeof *cpu->w8);
    cpu->w8_scale = arena_take(&arena, rows, sizeof *cpu->w8_scale);
    cpu->k = arena_take(&arena, n * kv_width, sizeof *cpu->k);
    cpu->v = arena_take(&arena, n * kv_width, sizeof *cpu->v);
    cpu->up = arena_take(&arena, n * s->intermediate_size, sizeof *cpu->up);

    int64_t attend = attention_thread_bytes(cpu->loops, s->n_heads, s->n_kv_heads, s->head_dim);
    cpu->thread_bytes = (larger(cpu->loops->gemm_scratch(widest), attend) + 63) & ~INT64_C(63);
    cpu->thread_scratch = arena_take(&arena, n_threads, cpu->thread_bytes);
    return arena.overflow ? -1 : arena.used;
}
