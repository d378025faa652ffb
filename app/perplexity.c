#include "app/perplexity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 }; // positions whose logits are on the host at once

static double negative_log_likelihood(const float *logits, int n, int32_t id) {
    float most = logits[0];
    for (int i = 1; i < n; i++) most = logits[i] > most ? logits[i] : most;
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - (double)most);
    // cppcheck-suppress invalidFunctionArg; the greatest itself adds 1
    return log(sum) + (double)most - (double)logits[id];
}

// Scores window[from … n-1], each from the tokens before it.
static Status score(Session *session, const int32_t *window, int64_t n, int64_t from, int vocab,
                    float *logits, double *sum, Error *error) {
    for (int64_t i = from; i < n; i += BLOCK) {
        int64_t end = i + BLOCK < n ? i + BLOCK : n;
        Status status = session_logits_of(session, window, end - 1, i - 1, logits, error);
        if (status) return status;
        for (int64_t k = i; k < end; k++)
            *sum += negative_log_likelihood(logits + (k - i) * vocab, vocab, window[k]);
    }
    return STATUS_OK;
}

static Status score_all(Engine *engine, Session *session, const Tokens *text, int32_t *window, float *logits,
                        Progress progress, PerplexityReport *report, double *sum, Error *error) {
    const Tokenizer *tokenizer = engine_tokenizer(engine);
    int64_t bos = tokenizer_add_bos(tokenizer) && tokenizer_bos(tokenizer) >= 0;
    int64_t size = engine_context_size(engine) - bos, done = bos ? 0 : 1;
    Status status = STATUS_OK;
    while (done < text->n && !status) {
        int64_t begin = done > size / 2 ? done - size / 2 : 0;
        if (begin + size > text->n && text->n > size) begin = text->n - size < done ? text->n - size : begin;
        int64_t end = begin + size < text->n ? begin + size : text->n;
        if (bos) window[0] = tokenizer_bos(tokenizer);
        memcpy(window + bos, text->ids + begin, (size_t)(end - begin) * sizeof *window);
        status = score(session, window, bos + end - begin, bos + done - begin,
                       engine_model(engine)->shape.vocab_size, logits, sum, error);
        report->n_tokens += end - done;
        done = end;
        if (!status && progress.step && !progress.step(progress.user, "scoring", done, text->n))
            status = error_set(error, STATUS_INTERRUPTED, "interrupted");
    }
    return status;
}

Status perplexity_measure(Engine *engine, const char *text, size_t size, Progress progress,
                          PerplexityReport *report, Error *error) {
    *report = (PerplexityReport){0};
    Tokens tokens = {0};
    Session *session = NULL;
    double sum = 0;
    size_t vocab = (size_t)engine_model(engine)->shape.vocab_size;
    float *logits = malloc(BLOCK * vocab * sizeof *logits);
    int32_t *window = malloc((size_t)engine_context_size(engine) * sizeof *window);
    Status status = STATUS_OK;
    if (!logits || !window) status = error_set(error, STATUS_MEMORY, "no memory for logits");
    if (!status) status = tokenizer_encode(engine_tokenizer(engine), text, size, false, &tokens, error);
    if (!status && tokens.n < 2)
        status = error_set(error, STATUS_USAGE, "a text of at least two tokens is needed");
    if (!status) status = session_open(engine, &session, error);
    if (!status) status = score_all(engine, session, &tokens, window, logits, progress, report, &sum, error);
    if (!status) {
        report->perplexity = exp(sum / (double)report->n_tokens);
        report->bits_per_byte = sum / log(2) / (double)size;
    }
    session_close(session);
    tokens_free(&tokens);
    free(window);
    free(logits);
    return status;
}
