// Activations in the form that GEMMs want, and what every linear layer shares.
#include "kernels/cpu/cpu.h"

#define SERIAL_ELEMENTS 16384 // fewer activations than these are prepared faster than a second thread wakes

typedef struct Prepare {
    CpuBackend *cpu;
    const float *x;
    const int32_t *tokens;
    Norm norm; // no weight: x as it is
    bool quantize, quantize_w8, round_fp8, fix;
    bool exact;           // nothing is fixed
    const int32_t *order; // that the matrices have; NULL: none
    float fp8_scale;      // fixed, the largest of the matrices'; 0: none
    int64_t n, n_parts, cols;
} Prepare;

static void norm_row(const CpuBackend *cpu, Norm norm, float eps, const float *x, float *y) {
    const DecoderShape *s = cpu->shape;
    if (s->norm == NORM_LAYER)
        cpu->loops->layer_norm(x, norm.weight, norm.bias, s->hidden_size, eps, y);
    else
        cpu->loops->rms_norm(x, norm.weight, s->hidden_size, eps, y);
}

void cpu_norm_row(const CpuBackend *cpu, Norm norm, const float *x, float *y) {
    norm_row(cpu, norm, cpu->shape->norm_eps, x, y);
}

void cpu_norm_row_behind(const CpuBackend *cpu, Norm norm, const float *x, float *y) {
    norm_row(cpu, norm, decoder_post_norm_eps(cpu->shape), x, y);
}

static void prepare_row(const Prepare *p, int64_t i) {
    CpuBackend *cpu = p->cpu;
    const float *x = p->x + (p->tokens ? p->tokens[i] : i) * p->cols;
    if (p->norm.weight) {
        float *normed = cpu->normed + i * p->cols;
        cpu_norm_row(cpu, p->norm, x, normed);
        x = normed;
    }
    if (p->order) {
        float *ordered = cpu->ordered + i * p->cols;
        for (int64_t k = 0; k < p->cols; k++) ordered[k] = x[p->order[k]];
        x = ordered;
    }
    if (p->quantize_w8)
        cpu->w8_scale[i] = cpu->loops->quantize_w8(x, p->cols, cpu->w8 + i * w8_stride(p->cols));
    if (p->fix)
        cpu->loops->quantize_fixed(x, p->cols, cpu->fixed + i * fixed_stride(p->cols),
                                   cpu->fixed_scale + i * fixed_groups(p->cols));
    if (p->round_fp8) fp8_round_row(cpu->shape->fp8_inputs, p->fp8_scale, x, p->cols, cpu->fp8 + i * p->cols);
    if (!p->quantize) return;
    int64_t groups = p->cols / QUANT_GROUP;
    QuantRow row = {.q = cpu->q + i * p->cols,
                    .scale = cpu->scale + i * groups,
                    .sum = cpu->sum + i * groups,
                    .sums = cpu->sums + i * groups * 2};
    cpu->loops->quantize(x, p->cols, &row);
}

static void prepare_part(void *context, int64_t part, int thread) {
    const Prepare *p = context;
    (void)thread;
    int64_t first = cpu_part_start(p->n, p->n_parts, part), end = cpu_part_start(p->n, p->n_parts, part + 1);
    for (int64_t i = first; i < end; i++) prepare_row(p, i);
}

static Activations prepare(Prepare *p, const Matrix *const *w, int n_matrices) {
    CpuBackend *cpu = p->cpu;
    for (int i = 0; i < n_matrices; i++) {
        if (!w[i]->data) continue;
        p->quantize |= cpu->loops->quantized_activations && quant_is_type(w[i]->type);
        p->quantize_w8 |= w[i]->type == DTYPE_W8;
        p->fix |= !p->exact && cpu->loops->quantize_fixed && fixed_is_type(w[i]->type);
        p->round_fp8 |= w[i]->type == DTYPE_E4M3 && cpu->shape->fp8_inputs;
        if (w[i]->order) p->order = w[i]->order;
        if (w[i]->input_scale > p->fp8_scale) p->fp8_scale = w[i]->input_scale;
    }
    bool parallel = p->n > 1 && p->n * p->cols >= SERIAL_ELEMENTS;
    p->n_parts = parallel ? cpu_row_parts(cpu, p->n) : 1;
    if (p->norm.weight || p->quantize || p->quantize_w8 || p->round_fp8 || p->fix || p->order)
        threads_run(cpu->threads, p->n_parts, prepare_part, p);
    return (Activations){.n = p->n,
                         .cols = p->cols,
                         .x = p->order         ? cpu->ordered
                              : p->norm.weight ? cpu->normed
                                               : p->x,
                         .quantized = p->quantize,
                         .q = cpu->q,
                         .scale = cpu->scale,
                         .sum = cpu->sum,
                         .sums = cpu->sums,
                         .w8 = p->quantize_w8 ? cpu->w8 : NULL,
                         .w8_scale = cpu->w8_scale,
                         .fp8 = p->round_fp8 ? cpu->fp8 : NULL,
                         .fixed = p->fix ? cpu->fixed : NULL,
                         .fixed_scale = cpu->fixed_scale};
}

Activations cpu_activations(CpuBackend *cpu, const float *x, int64_t n, int64_t cols, const Matrix *const *w,
                            int n_matrices) {
    Prepare p = {.cpu = cpu, .x = x, .n = n, .cols = cols};
    return prepare(&p, w, n_matrices);
}

Activations cpu_normed(CpuBackend *cpu, const NormedRows *rows, const Matrix *const *w, int n_matrices) {
    Prepare p = {.cpu = cpu,
                 .x = rows->x,
                 .tokens = rows->tokens,
                 .norm = rows->norm,
                 .exact = rows->exact,
                 .n = rows->n,
                 .cols = cpu->shape->hidden_size};
    return prepare(&p, w, n_matrices);
}

// ---- rows in parts ------------------------------------------------------------------------------------

#define ROW_UNIT 16      // the loops compute so many rows at a time
#define PARTS_A_THREAD 4 // so that a thread that is held up does not hold up the others for long

int64_t cpu_row_parts(const CpuBackend *cpu, int64_t n) {
    int64_t units = (n + ROW_UNIT - 1) / ROW_UNIT, parts = threads_count(cpu->threads);
    parts = parts == 1 ? 1 : parts * PARTS_A_THREAD;
    return parts < units ? parts : units;
}

// Where there are enough rows (units half as many as parts squared: of fewer, several of the last parts would be empty) parts
// get smaller, as the square of how many are left: so a thread that the system held up is not waited for long at the end, and
// input is read less often than by many small parts.
int64_t cpu_part_start(int64_t n, int64_t n_parts, int64_t part) {
    const int64_t units = (n + ROW_UNIT - 1) / ROW_UNIT, left = n_parts - part;
    const int64_t unit = 2 * units < n_parts * n_parts ? units * part / n_parts
                                                       : units - units * left * left / (n_parts * n_parts);
    return unit * ROW_UNIT < n ? unit * ROW_UNIT : n;
}

void cpu_add_bias(const Gemm *p, const float *bias) {
    if (bias == NULL) return;
    for (int64_t t = 0; t < p->x->n; t++)
        for (int64_t r = p->first; r < p->end; r++) p->y[t * p->y_stride + r] += bias[r];
}

typedef struct AddLinear {
    CpuBackend *cpu;
    const AddedLinear *linear;
    const Activations *y;
    float *sums; // x, or what is normed before it is added
    float *x;
    int64_t n_parts;
} AddLinear;

static void add_linear_part(void *context, int64_t part, int thread) {
    const AddLinear *a = context;
    const Matrix *w = a->linear->w;
    Gemm gemm = {.w = w,
                 .x = a->y,
                 .first = cpu_part_start(w->rows, a->n_parts, part),
                 .end = cpu_part_start(w->rows, a->n_parts, part + 1),
                 .y = a->sums,
                 .y_stride = w->rows,
                 .add = a->sums == a->x};
    a->cpu->loops->gemm(&gemm, cpu_thread_scratch(a->cpu, thread));
    cpu_add_bias(&gemm, a->linear->bias);
}

static void add_normed_row(void *context, int64_t row, int thread) {
    const AddLinear *a = context;
    const int64_t n = a->linear->w->rows;
    float *sums = a->sums + row * n, *x = a->x + row * n;
    (void)thread;
    cpu_norm_row_behind(a->cpu, a->linear->norm, sums, sums);
    for (int64_t i = 0; i < n; i++) x[i] += sums[i];
}

void cpu_add_linear(CpuBackend *cpu, const AddedLinear *linear, const Activations *y, float *x) {
    const bool normed = linear->norm.weight != NULL; // the sums then lie where no activations of these ops do
    AddLinear a = {cpu, linear, y, normed ? cpu->normed : x, x, cpu_row_parts(cpu, linear->w->rows)};
    threads_run(cpu->threads, a.n_parts, add_linear_part, &a);
    if (normed) threads_run(cpu->threads, y->n, add_normed_row, &a);
}

// ---- y = W·x ---------------------------------------------------------------------------------------------

typedef struct Plain {
    CpuBackend *cpu;
    const Matrix *w;
    const Activations *x;
    float *y;
    int64_t n_parts;
} Plain;

static void plain_part(void *context, int64_t part, int thread) {
    const Plain *p = context;
    const Gemm gemm = {.w = p->w,
                       .x = p->x,
                       .first = cpu_part_start(p->w->rows, p->n_parts, part),
                       .end = cpu_part_start(p->w->rows, p->n_parts, part + 1),
                       .y = p->y,
                       .y_stride = p->w->rows};
    p->cpu->loops->gemm(&gemm, cpu_thread_scratch(p->cpu, thread));
}

void cpu_multiply(CpuBackend *cpu, const Matrix *w, const Activations *x, float *y) {
    Plain p = {cpu, w, x, y, cpu_row_parts(cpu, w->rows)};
    threads_run(cpu->threads, p.n_parts, plain_part, &p);
}
