// `bench --profile`: the ops of a prompt and of a token, each by itself.
#include "app/tools/bench/bench_internal.h"

#include "engine/model/model.h"
#include "engine/profile.h"
#include "engine/session/session_step.h"

#include <stdlib.h>

double bench_matrix_bytes(const Matrix *m) {
    return m->data ? (double)(m->rows * dtype_row_bytes(m->type, m->cols)) : 0;
}

static double matrix_elements(const Matrix *m) {
    return m->data ? (double)m->rows * (double)m->cols : 0;
}

// Of the matrices that an op multiplies, all layers together: `measure` of each.
static double weights_of(const Model *model, ProfileOp op, double (*measure)(const Matrix *)) {
    double sum = op == PROFILE_LOGITS ? measure(&model->head.output) : 0;
    for (int l = 0; l < model->shape.n_layers; l++) {
        const LayerWeights *w = &model->layers[l];
        if (op == PROFILE_QKV) sum += measure(&w->wq) + measure(&w->wk) + measure(&w->wv);
        if (op == PROFILE_OUT) sum += measure(&w->wo);
        // Of experts what a token takes.
        const Experts *e = &model->shape.experts;
        const double part = w->router.data ? (double)e->n_active / e->n : 1;
        if (op == PROFILE_GATE_UP)
            sum += part * (measure(&w->w_gate) + measure(&w->w_up)) + measure(&w->router) +
                   measure(&w->shared_gate) + measure(&w->shared_up);
        if (op == PROFILE_DOWN) sum += part * measure(&w->w_down) + measure(&w->shared_down);
    }
    return sum;
}

// One line an op: its time in a pass over `n_tokens` tokens, its share, and how fast it went through its weights (one
// token) or through arithmetic (many).
static void print_profile(const Model *model, const Profile *p, int passes, int n_tokens, FILE *out) {
    double total = 0;
    for (int op = 0; op < PROFILE_N_OPS; op++) total += p->seconds[op];
    for (int op = 0; op < PROFILE_N_OPS; op++) {
        if (!p->calls[op]) continue;
        double seconds = p->seconds[op] / passes;
        fprintf(out, "  %-8s %9.3f ms %5.1f%% %8.1f us a call", profile_op_name((ProfileOp)op), 1e3 * seconds,
                100 * p->seconds[op] / total, 1e6 * p->seconds[op] / (double)p->calls[op]);
        double bytes = weights_of(model, (ProfileOp)op, bench_matrix_bytes);
        // Logits are the last token's only, and where a step was narrowed, what its last layer does behind attention.
        const bool behind = op >= PROFILE_OUT && op <= PROFILE_DOWN;
        const double narrowed = p->narrowed && behind ? 1.0 / model->shape.n_layers : 0;
        double rows = op == PROFILE_LOGITS ? 1 : n_tokens * (1 - narrowed) + narrowed;
        if (bytes > 0 && n_tokens == 1) fprintf(out, " %8.1f GB/s", bytes / seconds / 1e9);
        if (bytes > 0 && n_tokens > 1)
            fprintf(out, " %8.2f TFLOP/s",
                    2 * rows * weights_of(model, (ProfileOp)op, matrix_elements) / seconds / 1e12);
        fputc('\n', out);
    }
    fprintf(out, "  %-8s %9.3f ms\n", "all", 1e3 * total / passes);
    if (*p->kernels) fprintf(out, "  kernels: %s\n", p->kernels);
}

// Prompts that nobody has asked for yet: those of time_prefill() are branches by now, and would be found again.
static Status profile_prefill(Session *session, int32_t *ids, const BenchSettings *b, int vocab,
                              Profile *profile, Error *error) {
    Status status = STATUS_OK;
    for (int run = 0; run <= b->repeat && !status; run++) { // the first warms up
        SyncReport report;
        if (run == 1) *profile = (Profile){0};
        bench_make_ids(ids, b->prefill, vocab, b->repeat + 1 + run);
        status = session_sync(session, ids, b->prefill, &report, error);
        if (!status && report.cached > 0)
            status = error_set(error, STATUS_UNSUPPORTED,
                               "%lld of the %d tokens whose prefill is to be profiled were cached",
                               (long long)report.cached, b->prefill);
    }
    return status;
}

static Status profile_decode(Session *session, int32_t *ids, const BenchSettings *b, int vocab,
                             Profile *profile, Error *error) {
    bench_make_ids(ids, b->depth, vocab, 0);
    Status status = session_sync(session, ids, b->depth, NULL, error);
    for (int i = 0; i < b->decode && !status; i++) {
        if (i == 1) *profile = (Profile){0}; // the first has its logits
        SampleParams params = bench_sampling(i);
        int32_t id;
        status = session_sample(session, &params, &id, error);
    }
    return status;
}

Status bench_profile(Engine *engine, Session *session, int32_t *ids, const BenchSettings *b, FILE *out,
                     Error *error) {
    const Model *model = engine_model(engine);
    Profile *profile = calloc(1, sizeof *profile);
    if (!profile) return error_set(error, STATUS_MEMORY, "no memory for a profile");
    engine_set_profile(engine, profile);
    Status status = profile_prefill(session, ids, b, model->shape.vocab_size, profile, error);
    if (!status) {
        fprintf(out, "prefill of %d tokens, op by op (mean of %d)\n", b->prefill, b->repeat);
        print_profile(model, profile, b->repeat, b->prefill, out);
        status = profile_decode(session, ids, b, model->shape.vocab_size, profile, error);
    }
    if (!status) {
        fprintf(out, "a token at %d tokens, op by op, each launched by itself (mean of %d)\n", b->depth,
                b->decode - 1);
        print_profile(model, profile, b->decode - 1, 1, out);
    }
    engine_set_profile(engine, NULL);
    free(profile);
    return status;
}
