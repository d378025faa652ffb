#include "kernels/cpu/cpu.h"

typedef struct Arena {
    char *base; // NULL: only count
    int64_t used;
    bool overflow;
} Arena;

static void *take(Arena *arena, int64_t count, int64_t size) {
    int64_t bytes, start = arena->used;
    arena->overflow |= __builtin_mul_overflow(count, size, &bytes);
    arena->overflow |= __builtin_add_overflow(bytes, 63, &bytes);
    arena->overflow |= __builtin_add_overflow(start, bytes & ~INT64_C(63), &arena->used);
    return arena->base ? arena->base + start : NULL;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int64_t cpu_scratch_layout(CpuBackend *cpu, int n_threads, char *base) {
    const DecoderShape *s = cpu->shape;
    Arena arena = {.base = base};
    int64_t n = cpu->max_tokens, rows = larger(n, cpu->max_logits);
    int64_t heads_width = (int64_t)s->n_heads * s->head_dim, kv_width = (int64_t)s->n_kv_heads * s->head_dim;
    int64_t widest = larger(larger(s->hidden_size, s->intermediate_size), heads_width);
    int64_t groups = widest / QUANT_GROUP + 1, quantized;
    if (__builtin_mul_overflow(rows, widest, &quantized)) return -1;

    cpu->ids = take(&arena, n, sizeof *cpu->ids);
    cpu->positions = take(&arena, n, sizeof *cpu->positions);
    cpu->slots = take(&arena, n, sizeof *cpu->slots);
    cpu->before = take(&arena, n, sizeof *cpu->before);
    cpu->sequences = take(&arena, n, sizeof *cpu->sequences);
    cpu->tiles = take(&arena, n, sizeof *cpu->tiles);
    cpu->cos = take(&arena, n * s->rope.rotary_dim / 2, sizeof *cpu->cos);
    cpu->sin = take(&arena, n * s->rope.rotary_dim / 2, sizeof *cpu->sin);
    cpu->kept_cos = take(&arena, n * s->rope.rotary_dim / 2, sizeof *cpu->kept_cos);
    cpu->kept_sin = take(&arena, n * s->rope.rotary_dim / 2, sizeof *cpu->kept_sin);
    cpu->slopes = take(&arena, s->n_heads, sizeof *cpu->slopes);
    cpu->normed = take(&arena, rows * s->hidden_size, sizeof *cpu->normed);
    cpu->q = take(&arena, quantized, sizeof *cpu->q);
    cpu->scale = take(&arena, rows * groups, sizeof *cpu->scale);
    cpu->sum = take(&arena, rows * groups, sizeof *cpu->sum);
    cpu->sums = take(&arena, rows * groups * 2, sizeof *cpu->sums);
    cpu->k = take(&arena, n * kv_width, sizeof *cpu->k);
    cpu->v = take(&arena, n * kv_width, sizeof *cpu->v);
    cpu->up = take(&arena, n * s->intermediate_size, sizeof *cpu->up);

    int64_t attend = attend_thread_bytes(cpu->loops, s->n_heads, s->n_kv_heads, s->head_dim);
    cpu->thread_bytes = (larger(cpu->loops->product_scratch(widest), attend) + 63) & ~INT64_C(63);
    cpu->thread_scratch = take(&arena, n_threads, cpu->thread_bytes);
    return arena.overflow ? -1 : arena.used;
}
