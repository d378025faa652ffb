// Layers of experts: gate_up routes, brings the tokens in the order of their experts and computes activation(gate)·up
// times the expert's weight for each pair of them (with scales_input: of weight·gate and weight·up, which is the same as to
// give the expert weight·h); down adds up what the experts make of it.
//
// g [n_tokens·n_active, size] has a row for each pair, in the order of cpu->routes; behind them lie the shared expert's
// [n_tokens, shared_size]. Only the experts that were chosen are read.
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

typedef struct ExpertsRun {
    CpuBackend *cpu;
    const Layer *layer;
    Activations in; // of the pairs; of one token its row, which is every pair's
    bool one_row;
    float *g, *x;
    int64_t n_parts; // of an expert's rows
} ExpertsRun;

static Activations some_rows(const Activations *all, int64_t first, int64_t n) {
    const int64_t groups = all->cols / QUANT_GROUP;
    Activations rows = *all;
    rows.n = n;
    rows.x += first * all->cols;
    rows.q += first * all->cols;
    rows.scale += first * groups;
    rows.sum += first * groups;
    rows.sums += first * groups * 2;
    if (rows.w8) rows.w8 += first * w8_stride(all->cols);
    rows.w8_scale += first;
    if (rows.fp8) rows.fp8 += first * all->cols;
    if (rows.fixed) rows.fixed += first * fixed_stride(all->cols);
    rows.fixed_scale += first * fixed_groups(all->cols);
    return rows;
}

static const float *bias_of(const float *all, int expert, int64_t n) {
    return all ? all + expert * n : NULL;
}

// ---- gate_up ----------------------------------------------------------------------------------------------

static void scale_row(float *row, int64_t n, float by) {
    for (int64_t i = 0; i < n; i++) row[i] *= by;
}

// The expert that all tokens take.
static void shared_gate_up(CpuBackend *cpu, const LayerWeights *w, const Activations *h, float *g) {
    const GatedLinear both = {w->shared_gate, w->shared_up, NULL, NULL, NULL};
    const int64_t wide = cpu->shape->experts.shared_size;
    cpu_gated(cpu, &both, h, g);
    if (!w->shared_router.data) return;
    const Activations exact = cpu_exact(*h);
    cpu_multiply(cpu, &w->shared_router, &exact, cpu->up);
    for (int64_t t = 0; t < h->n; t++) scale_row(g + t * wide, wide, 1 / (1 + expf(-cpu->up[t])));
}

static void gate_up_part(void *context, int64_t part, int thread) {
    const ExpertsRun *run = context;
    CpuBackend *cpu = run->cpu;
    const Experts *e = &cpu->shape->experts;
    const CpuRoutes *r = &cpu->routes;
    const LayerWeights *w = &run->layer->weights;
    const int expert = r->used[part / run->n_parts];
    const int64_t first = r->start[expert], n = r->start[expert + 1] - first, size = e->size;
    const GatedLinear both = {
        cpu_expert_matrix(&w->w_gate, expert, e->n), cpu_expert_matrix(&w->w_up, expert, e->n),
        bias_of(run->layer->b_gate, expert, size), bias_of(run->layer->b_up, expert, size), NULL};
    const Activations h = some_rows(&run->in, run->one_row ? 0 : first, n);
    const GatedRows rows = {.h = &h,
                            .first = cpu_part_start(size, run->n_parts, part % run->n_parts),
                            .end = cpu_part_start(size, run->n_parts, part % run->n_parts + 1),
                            .g = run->g + first * size,
                            .up = cpu->up + first * size,
                            .scales = e->scales_input ? r->weight + first : NULL};
    cpu_gated_rows(cpu, &both, &rows, cpu_thread_scratch(cpu, thread));
    for (int64_t i = 0; i < n && !e->scales_input; i++)
        scale_row(rows.g + i * size + rows.first, rows.end - rows.first, r->weight[first + i]);
}

void cpu_experts_gate_up(CpuBackend *cpu, const Layer *layer, const float *x, float *g) {
    const Experts *e = &cpu->shape->experts;
    const LayerWeights *w = &layer->weights;
    const int64_t n = cpu->n_tokens, n_pairs = n * e->n_active;
    const Matrix *all[] = {&w->router,    &w->shared_router, &w->shared_gate,
                           &w->shared_up, &w->w_gate,        &w->w_up};
    ExpertsRun run = {.cpu = cpu, .layer = layer, .g = g, .one_row = n == 1};
    run.in =
        cpu_normed(cpu, &(NormedRows){x, NULL, n, e->beside ? layer->router_norm : layer->ffn_norm, false},
                   all, e->beside ? 1 : 6);
    const Activations exact = cpu_exact(run.in);
    cpu_multiply(cpu, &w->router, &exact, cpu->routes.scores);
    cpu_route(cpu, layer);
    if (e->beside) run.in = cpu_normed(cpu, &(NormedRows){x, NULL, n, layer->ffn_norm, false}, all + 2, 2);
    if (w->shared_up.data) shared_gate_up(cpu, w, &run.in, g + n_pairs * e->size);
    const NormedRows rows = {x, run.one_row ? NULL : cpu->routes.tokens, run.one_row ? 1 : n_pairs,
                             e->beside ? layer->expert_norm : layer->ffn_norm, false};
    if (!run.one_row || e->beside) run.in = cpu_normed(cpu, &rows, all + 4, 2);
    run.n_parts = cpu_row_parts(cpu, e->size);
    threads_run(cpu->threads, cpu->routes.n_used * run.n_parts, gate_up_part, &run);
}

// ---- down -------------------------------------------------------------------------------------------------

// Some rows of every expert that was chosen, in their order: each element of x is added to by one thread.
static void down_part(void *context, int64_t part, int thread) {
    const ExpertsRun *run = context;
    CpuBackend *cpu = run->cpu;
    const Experts *e = &cpu->shape->experts;
    const CpuRoutes *r = &cpu->routes;
    const int64_t hidden = cpu->shape->hidden_size;
    for (int i = 0; i < r->n_used; i++) {
        const int expert = r->used[i];
        const int64_t start = r->start[expert];
        const Matrix w = cpu_expert_matrix(&run->layer->weights.w_down, expert, e->n);
        const Activations in = some_rows(&run->in, start, r->start[expert + 1] - start);
        const Gemm gemm = {.w = &w,
                           .x = &in,
                           .first = cpu_part_start(hidden, run->n_parts, part),
                           .end = cpu_part_start(hidden, run->n_parts, part + 1),
                           .y = run->x,
                           .y_stride = hidden,
                           .add = true,
                           .to = r->tokens + start};
        const float *bias = bias_of(run->layer->b_down, expert, hidden);
        cpu->loops->gemm(&gemm, cpu_thread_scratch(cpu, thread));
        for (int64_t t = 0; bias && t < in.n; t++)
            for (int64_t j = gemm.first; j < gemm.end; j++)
                gemm_row(&gemm, t)[j] += r->weight[start + t] * bias[j];
    }
}

// x += norm(norm(dense) + norm(experts)), both [n_tokens, hidden_size] and overwritten.
static void add_both(const CpuBackend *cpu, const Layer *layer, float *dense, float *experts, float *x) {
    const int64_t hidden = cpu->shape->hidden_size;
    for (int64_t t = 0; t < cpu->n_tokens; t++, dense += hidden, experts += hidden, x += hidden) {
        cpu_norm_row(cpu, layer->shared_post_norm, dense, dense);
        cpu_norm_row(cpu, layer->expert_post_norm, experts, experts);
        for (int64_t i = 0; i < hidden; i++) dense[i] += experts[i];
        cpu_norm_row(cpu, layer->ffn_post_norm, dense, dense);
        for (int64_t i = 0; i < hidden; i++) x[i] += dense[i];
    }
}

// x += norm(sums), [n_tokens, hidden_size] and overwritten.
static void add_normed(const CpuBackend *cpu, Norm norm, float *sums, float *x) {
    const int64_t hidden = cpu->shape->hidden_size;
    for (int64_t t = 0; t < cpu->n_tokens; t++, sums += hidden, x += hidden) {
        cpu_norm_row_behind(cpu, norm, sums, sums);
        for (int64_t i = 0; i < hidden; i++) x[i] += sums[i];
    }
}

void cpu_experts_down(CpuBackend *cpu, const Layer *layer, const float *g, float *x) {
    const Experts *e = &cpu->shape->experts;
    const LayerWeights *w = &layer->weights;
    const int64_t all = (int64_t)cpu->n_tokens * cpu->shape->hidden_size;
    const Norm none = {0}, behind = e->beside ? none : cpu_norm_behind(cpu, layer->ffn_post_norm);
    const bool apart = e->beside || behind.weight;
    float *dense = apart ? cpu->token_part : x, *experts = e->beside ? dense + all : dense;
    if (apart) memset(dense, 0, (size_t)(e->beside ? 2 * all : all) * sizeof *dense);
    const int64_t n_pairs = (int64_t)cpu->n_tokens * e->n_active;
    const Matrix *down = &w->w_down, *shared = &w->shared_down;
    if (shared->data) {
        Activations in =
            cpu_activations(cpu, g + n_pairs * e->size, cpu->n_tokens, e->shared_size, &shared, 1);
        cpu_add_linear(cpu, &(AddedLinear){.w = shared}, &in, dense);
    }
    ExpertsRun run = {
        .cpu = cpu, .layer = layer, .x = experts, .n_parts = cpu_row_parts(cpu, cpu->shape->hidden_size)};
    run.in = cpu_activations(cpu, g, n_pairs, e->size, &down, 1);
    threads_run(cpu->threads, run.n_parts, down_part, &run);
    if (e->beside) add_both(cpu, layer, dense, experts, x);
    if (behind.weight) add_normed(cpu, behind, dense, x);
}
