#include "kernels/cpu/arena.h"
#include "kernels/cpu/cpu.h"

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void lay_out_routes(CpuRoutes *r, const Experts *e, int64_t n, Arena *arena) {
    r->scores = arena_take(arena, n * e->n, sizeof *r->scores);
    r->chosen = arena_take(arena, n * e->n_active, sizeof *r->chosen);
    r->weights = arena_take(arena, n * e->n_active, sizeof *r->weights);
    r->start = arena_take(arena, e->n + 1, sizeof *r->start);
    r->used = arena_take(arena, e->n, sizeof *r->used);
    r->tokens = arena_take(arena, n * e->n_active, sizeof *r->tokens);
    r->weight = arena_take(arena, n * e->n_active, sizeof *r->weight);
}

int64_t cpu_scratch_layout(CpuBackend *cpu, int n_threads, char *base) {
    const DecoderShape *s = cpu->shape;
    Arena arena = {.base = base};
    int64_t n = cpu->max_tokens, rows = larger(n, cpu->max_logits);
    const int head_dim = decoder_most_head_dim(s);
    const int64_t heads_width = (int64_t)s->n_heads * head_dim, key_rows = decoder_key_rows(s),
                  token_width = (int64_t)s->n_layers * s->token_size;
    const int64_t expanded = larger(decoder_query_width(s), decoder_attended_width(s));
    int64_t wide = decoder_ffn_width(s),
            widest = larger(larger(s->hidden_size, wide), larger(heads_width, expanded));
    widest = larger(larger(widest, decoder_pass_width(s)), larger(s->latent.q_rank, s->token_size));
    // Of experts, a row for each that a token takes.
    int64_t taken = n * s->experts.n_active, pair = larger(s->hidden_size, s->experts.size);
    int64_t groups = larger(rows * (widest / QUANT_GROUP + 1), taken * (pair / QUANT_GROUP + 1)), quantized,
            paired;
    if (__builtin_mul_overflow(rows, widest, &quantized) || __builtin_mul_overflow(taken, pair, &paired))
        return -1;
    quantized = larger(quantized, paired);
    const int64_t pairs = (int64_t)rope_tables(&s->rope) * (s->rope.rotary_dim / 2);

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
    cpu->temperatures = arena_take(&arena, s->temperature_beta != 0 ? n : 0, sizeof *cpu->temperatures);
    cpu->shift_cos = arena_take(&arena, pairs, sizeof *cpu->shift_cos);
    cpu->shift_sin = arena_take(&arena, pairs, sizeof *cpu->shift_sin);
    cpu->slopes = arena_take(&arena, s->n_heads, sizeof *cpu->slopes);
    cpu->normed = arena_take(&arena, larger(rows, taken) * s->hidden_size, sizeof *cpu->normed);
    cpu->q = arena_take(&arena, quantized, sizeof *cpu->q);
    cpu->scale = arena_take(&arena, groups, sizeof *cpu->scale);
    cpu->sum = arena_take(&arena, groups, sizeof *cpu->sum);
    cpu->sums = arena_take(&arena, groups * 2, sizeof *cpu->sums);
    cpu->w8 = arena_take(&arena, larger(rows * w8_stride(widest), taken * w8_stride(pair)), sizeof *cpu->w8);
    cpu->w8_scale = arena_take(&arena, larger(rows, taken), sizeof *cpu->w8_scale);
    const int64_t fixed =
        cpu->loops->quantize_fixed ? larger(rows * fixed_stride(widest), taken * fixed_stride(pair)) : 0;
    cpu->fixed = arena_take(&arena, fixed, sizeof *cpu->fixed);
    cpu->fixed_scale = arena_take(&arena, fixed / FIXED_GROUP, sizeof *cpu->fixed_scale);
    cpu->ordered = arena_take(&arena, s->orders_inputs ? quantized : 0, sizeof *cpu->ordered);
    cpu->fp8 = arena_take(&arena, s->fp8_inputs ? quantized : 0, sizeof *cpu->fp8);
    cpu->k = arena_take(&arena, n * key_rows, sizeof *cpu->k);
    cpu->v = arena_take(&arena, n * key_rows, sizeof *cpu->v);
    if (s->latent.rank > 0) {
        cpu->of_heads_width = larger(s->latent.rank, s->latent.plain_dim);
        cpu->q_down = arena_take(&arena, n * s->latent.q_rank, sizeof *cpu->q_down);
        cpu->expanded = arena_take(&arena, n * expanded, sizeof *cpu->expanded);
        cpu->of_heads = arena_take(&arena, n * s->n_heads * cpu->of_heads_width, sizeof *cpu->of_heads);
    }
    if (s->heads_of_layers) {
        const DeltaRule *d = &s->delta;
        cpu->mixed = arena_take(&arena, n * delta_channels(d), sizeof *cpu->mixed);
        cpu->rates = arena_take(&arena, 2 * n * d->n_value_heads, sizeof *cpu->rates);
        cpu->deltas = arena_take(&arena, (int64_t)n_threads * d->value_dim, sizeof *cpu->deltas);
    }
    const int64_t gates = s->heads_of_layers || s->gates_attention ? decoder_pass_width(s) : 0;
    cpu->gates = arena_take(&arena, n * gates, sizeof *cpu->gates);
    cpu->of_tokens = arena_take(&arena, n * token_width, sizeof *cpu->of_tokens);
    const int64_t part =
        s->token_size || s->experts.beside || s->norms_experts ? larger(s->token_size, s->hidden_size) : 0;
    cpu->token_part = arena_take(&arena, 2 * n * part, sizeof *cpu->token_part);
    cpu->up = arena_take(&arena, n * wide, sizeof *cpu->up);
    lay_out_routes(&cpu->routes, &s->experts, n, &arena);

    int64_t attend = attention_thread_bytes(cpu->loops, s->n_heads, decoder_least_kv_heads(s), head_dim);
    cpu->thread_bytes = (larger(cpu->loops->gemm_scratch(widest), attend) + 63) & ~INT64_C(63);
    cpu->thread_scratch = arena_take(&arena, n_threads, cpu->thread_bytes);
    return arena.overflow ? -1 : arena.used;
}
