// The step ahead on the GPU: the same tokens, logs and logits, to the bit, as where each step waits for its token; by
// the persistent kernel and by graphs, in one page and in pages; and many conversations at once.
#include "engine/batch.h"
#include "engine/engine_internal.h"
#include "engine/model/model.h"
#include "engine/session/session_step.h"
#include "tests/gpu/engine/engine_tests.h"
#include "tests/support/acts.h"

#include <stdio.h>
#include <string.h>

enum { CONTEXT = 200, ACTS = 400, ROWS = 6, DRAWS = 90 };

static Status open_sides(const char *model, bool paged, Engine *engines[2], Error *error) {
    Status status = STATUS_OK;
    engines[0] = engines[1] = NULL;
    for (int i = 0; i < 2 && !status; i++) {
        Model *opened;
        EngineOptions options = {.device = "cuda",
                                 .context_size = CONTEXT,
                                 .cache = cache_options(DTYPE_F16),
                                 .n_rows = paged ? ROWS : 1,
                                 .chunk = 64,
                                 .no_steps_ahead = i == 1};
        options.cache.paged = paged;
        if (paged) options.cache.page_size = 64;
        options.cache.n_sequences = paged ? ROWS : 3;
        status = model_open(model, &opened, error);
        if (!status) status = engine_open_model(opened, &options, &engines[i], error);
    }
    return status;
}

// Rows that come and leave: the i-th begins at step 7·i, ends 40 draws later, and begins anew. Its draws, one behind
// the other, to ids.
typedef struct Row {
    Session *session;
    int32_t ids[DRAWS], pending;
    int n;
    bool decodes;
} Row;

// Puts a row's prompt, which is another one each time, in place of what it has.
static Status begin_row(Batch *batch, Row *row, int i, Error *error) {
    int32_t prompt[3 * ROWS + 2];
    int n = 2 + 3 * i;
    int64_t read;
    SampleParams params = {.temperature = 1, .top_p = 1, .typical_p = 1, .position = (uint64_t)row->n};
    for (int k = 0; k < n; k++) prompt[k] = (17 * i + 5 * k + row->n) % 100;
    session_clear(row->session);
    Status status = session_set(row->session, prompt, n, error);
    while (!status && session_pending(row->session) > 0)
        status = batch_read(batch, row->session, 4, &read, error);
    if (!status) status = batch_draw(batch, &params, &row->pending, error);
    if (status) return status;
    session_push(row->session, row->pending);
    row->ids[row->n++] = row->pending;
    row->decodes = true;
    return STATUS_OK;
}

static Status decode_rows(Batch *batch, Row *rows, Error *error) {
    Session *sessions[ROWS];
    SampleParams params[ROWS];
    int32_t ids[ROWS];
    int n = 0, of[ROWS];
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].decodes) continue;
        sessions[n] = rows[i].session, of[n] = i;
        params[n++] = (SampleParams){.temperature = 1,
                                     .top_p = 0.9f,
                                     .typical_p = 1,
                                     .seed = (uint64_t)i,
                                     .position = (uint64_t)rows[i].n};
    }
    if (n == 0) return STATUS_OK;
    Status status = batch_decode(batch, sessions, n, params, ids, error);
    for (int i = 0; i < n && !status; i++) {
        Row *row = &rows[of[i]];
        if (ids[i] == BATCH_JOINED) continue;
        status = forward_check_sampled(ids[i], error);
        if (status) break;
        session_push(row->session, ids[i]);
        row->ids[row->n++] = ids[i];
        row->decodes = row->n < DRAWS && row->n % 40 != 0;
    }
    return status;
}

static Status talk_in_rows(Engine *engine, Row rows[ROWS], Error *error) {
    Batch *batch = NULL;
    Status status = batch_open(engine, NULL, &batch, error);
    memset(rows, 0, ROWS * sizeof *rows);
    for (int i = 0; i < ROWS && !status; i++) {
        status = session_open(engine, &rows[i].session, error);
        if (!status) session_set_independent(rows[i].session);
    }
    for (int step = 0; step < 4 * DRAWS && !status; step++) {
        for (int i = 0; i < ROWS && !status; i++)
            if (step >= 7 * i && !rows[i].decodes && rows[i].n < DRAWS)
                status = begin_row(batch, &rows[i], i, error);
        if (!status) status = decode_rows(batch, rows, error);
    }
    for (int i = 0; i < ROWS; i++) session_close(rows[i].session);
    batch_close(batch);
    return status;
}

// How many rows drew other tokens, or not all.
static int rows_differ(Engine *const engines[2]) {
    static Row rows[2][ROWS];
    Error error;
    int wrong = 0;
    for (int e = 0; e < 2; e++) {
        Status status = talk_in_rows(engines[e], rows[e], &error);
        if (status) printf("FAILED rows: %s\n", error.message);
        wrong += status != STATUS_OK;
    }
    for (int i = 0; i < ROWS && !wrong; i++)
        wrong += rows[0][i].n != DRAWS || memcmp(rows[0][i].ids, rows[1][i].ids, sizeof rows[0][i].ids) != 0;
    return wrong;
}

void test_steps_ahead(const char *root, Report *report) {
    static const char *const MODELS[] = {"models/llama-f16", "models/qwen2-bf16", "architectures/gpt_neox",
                                         "architectures/llama-dynamic"};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++)
        for (int paged = 0; paged < 2; paged++) {
            Engine *engines[2];
            Error error;
            char model[400], first[200] = "";
            snprintf(model, sizeof model, "%s/%s", root, MODELS[m]);
            Status status = open_sides(model, paged, engines, &error);
            if (status) printf("FAILED %s: %s\n", model, error.message);
            int wrong = status ? 1 : acts_compare(engines, 31 + m, ACTS, first, sizeof first);
            if (*first) printf("FAILED %s: %s\n", model, first);
            report(MODELS[m], paged ? "ahead, paged" : "ahead", wrong, 0);
            if (paged && !status) report(MODELS[m], "rows ahead", rows_differ(engines), 0);
            engine_close(engines[0]);
            engine_close(engines[1]);
        }
}
