// Which experts a token takes, and with which weights.
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

static void softmax(float *x, int n) {
    float most = x[0], sum = 0;
    for (int i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
    for (int i = 0; i < n; i++) sum += x[i] = expf(x[i] - most);
    for (int i = 0; i < n; i++) x[i] /= sum;
}

// The largest of those that are open, the first of equal ones.
static int largest(const float *x, const bool *closed, int first, int end) {
    int best = -1;
    for (int i = first; i < end; i++)
        if (!closed[i] && (best < 0 || x[i] > x[best])) best = i;
    return best;
}

// Closes the experts of groups that are not among the best.
static void choose_groups(const Experts *e, const float *x, bool *closed) {
    float sums[EXPERTS_MOST] = {0};
    bool taken[EXPERTS_MOST] = {false};
    const int size = e->n / e->n_groups;
    for (int g = 0; g < e->n_groups; g++) {
        int first = largest(x, closed, g * size, (g + 1) * size);
        closed[first] = true;
        int second = largest(x, closed, g * size, (g + 1) * size);
        closed[first] = false;
        sums[g] = x[first] + (second < 0 || e->groups_by_best ? 0 : x[second]);
    }
    for (int i = 0; i < e->n_active_groups; i++) taken[largest(sums, taken, 0, e->n_groups)] = true;
    for (int g = 0; g < e->n_groups; g++)
        for (int i = g * size; i < (g + 1) * size; i++) closed[i] = !taken[g];
}

// The first of two by SparseMixer, then the other among the rest.
static void choose_two(const Experts *e, const float *logits, int32_t *ids, float *weights) {
    bool closed[EXPERTS_MOST] = {false};
    for (int i = 0; i < e->n_active; i++) {
        const int best = largest(logits, closed, 0, e->n);
        const float most = logits[best];
        float sum = 0;
        for (int j = 0; j < e->n; j++)
            if (!closed[j] && most - logits[j] <= 2 * e->jitter * fmaxf(fabsf(logits[j]), most))
                sum += expf(logits[j] - most);
        ids[i] = best, weights[i] = 1 / sum;
        closed[best] = true;
    }
}

void route_choose(const Experts *e, float *logits, const float *bias, int32_t *ids, float *weights) {
    float choice[EXPERTS_MOST] = {0}, sum = e->guarded ? ROUTER_GUARD : 0;
    bool closed[EXPERTS_MOST] = {false};
    if (e->score == ROUTER_SPARSEMIXER) {
        choose_two(e, logits, ids, weights);
        return;
    }
    if (e->score == ROUTER_SOFTMAX)
        softmax(logits, e->n);
    else
        for (int i = 0; i < e->n; i++) logits[i] = 1 / (1 + expf(-logits[i]));
    for (int i = 0; i < e->n; i++) choice[i] = logits[i] + (bias ? bias[i] : 0);
    if (e->n_groups > 1) choose_groups(e, choice, closed);
    for (int i = 0; i < e->n_active; i++) {
        ids[i] = largest(choice, closed, 0, e->n);
        closed[ids[i]] = true;
        weights[i] = logits[ids[i]];
        sum += weights[i];
    }
    for (int i = 0; i < e->n_active; i++) weights[i] *= e->renormalise ? e->scale / sum : e->scale;
}

void cpu_route(CpuBackend *cpu, const Layer *layer) {
    const Experts *e = &cpu->shape->experts;
    CpuRoutes *r = &cpu->routes;
    memset(r->start, 0, (size_t)(e->n + 1) * sizeof *r->start);
    for (int64_t t = 0; t < cpu->n_tokens; t++) {
        float *logits = r->scores + t * e->n;
        for (int i = 0; layer->router_bias && i < e->n; i++) logits[i] += layer->router_bias[i];
        route_choose(e, logits, layer->choice_bias, r->chosen + t * e->n_active,
                     r->weights + t * e->n_active);
        for (int i = 0; i < e->n_active; i++) r->start[r->chosen[t * e->n_active + i] + 1]++;
    }
    r->n_used = 0;
    for (int i = 0; i < e->n; i++) {
        if (r->start[i + 1] > 0) r->used[r->n_used++] = i;
        r->start[i + 1] += r->start[i];
    }
    for (int64_t p = 0; p < (int64_t)cpu->n_tokens * e->n_active; p++) {
        int32_t at = r->start[r->chosen[p]]++; // for now; put back below
        r->tokens[at] = (int32_t)(p / e->n_active);
        r->weight[at] = r->weights[p] * (layer->expert_scale ? layer->expert_scale[r->chosen[p]] : 1);
    }
    for (int i = e->n; i > 0; i--) r->start[i] = r->start[i - 1];
    r->start[0] = 0;
}
