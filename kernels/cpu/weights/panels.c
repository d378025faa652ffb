// Panels (loops/fixed.h) of a layer's 16-bit floats, made while it is loaded: a token that is decoded then reads weights
// one after the other, from large pages where the system has them, and converts none; many tokens do not wait for it.
//
// They take the room that weights have in the plan of memory: the file's own pages are the system's to take back (weights
// that were converted or made up are there twice). These may be wanted too, by a card that layers visit (kernels/split), so
// that half of all memory is left to them and to others. Where that is not enough a layer has no panels, and they are made
// of the file's rows whenever they are wanted, to the same results.
#include "kernels/base/machine/memory.h"
#include "kernels/cpu/cpu.h"

#include <stddef.h>

#define SPARED_SHARE 2 // of all memory, that stays free
#define PANELS_A_PART 8

// What is multiplied with activations as cpu_activations() gives them; routers and what latents have are multiplied
// exactly.
static const size_t LINEAR[] = {
    offsetof(LayerWeights, wq),        offsetof(LayerWeights, wk),
    offsetof(LayerWeights, wv),        offsetof(LayerWeights, wo),
    offsetof(LayerWeights, w_gate),    offsetof(LayerWeights, w_up),
    offsetof(LayerWeights, w_down),    offsetof(LayerWeights, shared_gate),
    offsetof(LayerWeights, shared_up), offsetof(LayerWeights, shared_down),
    offsetof(LayerWeights, q_down),    offsetof(LayerWeights, token_gate),
    offsetof(LayerWeights, token_up),
};
enum { MATRICES = sizeof LINEAR / sizeof *LINEAR };

static Matrix *matrix_at(LayerWeights *w, int i) {
    return (Matrix *)(void *)((char *)w + LINEAR[i]);
}

static bool are_experts(const LayerWeights *w, int i) {
    return w->router.data && LINEAR[i] >= offsetof(LayerWeights, w_gate) &&
           LINEAR[i] <= offsetof(LayerWeights, w_down);
}

static int64_t bytes_of(const Matrix *one) {
    return fixed_panels(one->rows) * fixed_panel_bytes(one->cols);
}

Matrix cpu_expert_matrix(const Matrix *all, int expert, int n) {
    Matrix one = matrix_of_expert(all, expert, n);
    if (all->fixed) one.fixed = (const char *)all->fixed + expert * bytes_of(&one);
    return one;
}

// Panels of one matrix, or of one expert's.
typedef struct Making {
    const CpuBackend *cpu;
    Matrix w;
    char *to;
} Making;

static void make_part(void *context, int64_t part, int thread) {
    const Making *m = context;
    const int64_t n = fixed_panels(m->w.rows), first = part * PANELS_A_PART,
                  end = first + PANELS_A_PART < n ? first + PANELS_A_PART : n;
    (void)thread;
    for (int64_t i = first; i < end; i++)
        m->cpu->loops->fill_fixed(&m->w, i, m->to + i * fixed_panel_bytes(m->w.cols));
}

// How many matrices one below the other this is, and of how many bytes of panels each; 0: it has no panels.
static int count_of(const CpuBackend *cpu, LayerWeights *w, int i, int64_t *bytes) {
    const Matrix *m = matrix_at(w, i);
    if (!m->data || !fixed_is_type(m->type)) return 0;
    const int n = are_experts(w, i) ? cpu->shape->experts.n : 1;
    const Matrix one = matrix_of_expert(m, 0, n);
    *bytes = bytes_of(&one);
    return n;
}

static bool has_room(int64_t bytes) {
    int64_t total, available;
    memory_available("", &total, &available);
    return total == 0 || bytes < available - total / SPARED_SHARE;
}

void cpu_make_panels(CpuBackend *cpu, Layer *layer) {
    LayerWeights *w = &layer->weights;
    int64_t all = 0, bytes;
    for (int i = 0; i < MATRICES; i++) matrix_at(w, i)->fixed = NULL;
    for (int i = 0; cpu->loops->fill_fixed && i < MATRICES; i++) {
        const int n = count_of(cpu, w, i, &bytes);
        if (n > 0) all += n * bytes;
    }
    if (all == 0 || !has_room(all)) return;
    char *next = layer->panels = memory_of_large_pages(all);
    if (!next) return;
    for (int i = 0; i < MATRICES; i++) {
        const int n = count_of(cpu, w, i, &bytes);
        if (n > 0) matrix_at(w, i)->fixed = next;
        for (int e = 0; e < n; e++, next += bytes) {
            Making m = {cpu, matrix_of_expert(matrix_at(w, i), e, n), next};
            threads_run(cpu->threads, (fixed_panels(m.w.rows) + PANELS_A_PART - 1) / PANELS_A_PART, make_part,
                        &m);
        }
    }
}
