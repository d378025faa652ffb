#include "app/tools/perplexity.h"
#include "app/settings/settings_tell.h"
#include "app/terminal/encoding.h"
#include "tokenizer/tokenizer.h"
#include "engine/model/model.h"
#include "kernels/base/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PERPLEXITY_PARTS = 10 };

typedef struct PerplexitySettings {
    OverflowSettings overflow; // for a full context; with OVERFLOW_STOP the text ends there
    bool compare;              // with the same text streamed by another policy: the cache has room for two
    OverflowPolicy against;
    Progress progress;
} PerplexitySettings;

typedef struct PerplexityReport {
    int64_t n_tokens;               // predicted
    int64_t n_left_out;             // at the text's end: the context was full, and the policy OVERFLOW_STOP
    double perplexity;              // exp of the mean negative log-likelihood, natural logarithm
    double bits_per_byte;           // of the text: comparable between tokenizers
    double parts[PERPLEXITY_PARTS]; // perplexity of each tenth of the text, in order
    double divergence;              // mean KL(against || this), in nats
    double agreement;               // share of tokens that both find most probable
} PerplexityReport;

enum { BLOCK = 64 }; // positions whose logits are on the host at once

// One stream over the text, and the logits of the block in hand.
typedef struct Stream {
    Session *session;
    OverflowSettings overflow;
    float *logits; // [BLOCK, vocab]
} Stream;

typedef struct Measure {
    const PerplexitySettings *settings;
    Stream streams[2]; // what is measured, and what it is compared with
    int vocab;
    int64_t n_text; // tokens of the whole stream
    double sum, part_sums[PERPLEXITY_PARTS], divergence;
    int64_t n, part_counts[PERPLEXITY_PARTS], n_agree;
} Measure;

// The logarithm of the sum of exponentials.
static double log_sum(const float *logits, int n, int *largest) {
    int at = 0;
    for (int i = 1; i < n; i++) at = logits[i] > logits[at] ? i : at;
    double sum = 0, most = (double)logits[at];
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - most);
    *largest = at;
    // cppcheck-suppress invalidFunctionArg; the greatest itself adds 1
    return log(sum) + most;
}

// The logits after token `at` predict the next one, `id`.
static void score(Measure *m, int row, int64_t at, int32_t id) {
    const float *a = m->streams[0].logits + (int64_t)row * m->vocab;
    int best, other;
    double sum = log_sum(a, m->vocab, &best), loss = sum - (double)a[id];
    int part = (int)(at * PERPLEXITY_PARTS / m->n_text);
    m->sum += loss;
    m->part_sums[part] += loss;
    m->part_counts[part]++;
    m->n++;
    if (!m->settings->compare) return;
    const float *b = m->streams[1].logits + (int64_t)row * m->vocab;
    double sum_b = log_sum(b, m->vocab, &other);
    for (int i = 0; i < m->vocab; i++) {
        double log_p = (double)b[i] - sum_b;
        m->divergence += exp(log_p) * (log_p - ((double)a[i] - sum));
    }
    m->n_agree += best == other;
}

static Status stream_all(Measure *m, const Tokens *stream, Error *error) {
    const Progress *progress = &m->settings->progress;
    int n_streams = m->settings->compare ? 2 : 1;
    for (int64_t at = 0; at < m->n_text; at += BLOCK) {
        int64_t n = m->n_text - at < BLOCK ? m->n_text - at : BLOCK;
        for (int i = 0; i < n_streams; i++) {
            Stream *s = &m->streams[i];
            Status status = session_stream(s->session, stream->ids + at, n, &s->overflow, s->logits, error);
            if (status) return status;
        }
        for (int64_t k = 0; k < n && at + k + 1 < m->n_text; k++)
            score(m, (int)k, at + k, stream->ids[at + k + 1]);
        if (progress->step && !progress->step(progress->user, "scoring", at + n, m->n_text))
            return error_set(error, STATUS_INTERRUPTED, "interrupted");
    }
    return STATUS_OK;
}

static void fill_report(const Measure *m, size_t size, int64_t n_whole, PerplexityReport *report) {
    report->n_tokens = m->n;
    report->n_left_out = n_whole - m->n_text;
    report->perplexity = exp(m->sum / (double)m->n);
    // Of a part of the text, as many bytes as its share of the tokens.
    report->bits_per_byte = m->sum / log(2) / ((double)size * (double)m->n_text / (double)n_whole);
    for (int i = 0; i < PERPLEXITY_PARTS; i++)
        report->parts[i] = m->part_counts[i] ? exp(m->part_sums[i] / (double)m->part_counts[i]) : NAN;
    report->divergence = m->divergence / (double)m->n;
    report->agreement = (double)m->n_agree / (double)m->n;
}

static Status open_streams(Measure *m, Engine *engine, Error *error) {
    Status status = STATUS_OK;
    for (int i = 0; i < (m->settings->compare ? 2 : 1) && !status; i++) {
        Stream *s = &m->streams[i];
        s->overflow = m->settings->overflow;
        if (i == 1) s->overflow.policy = m->settings->against;
        s->logits = malloc((size_t)BLOCK * (size_t)m->vocab * sizeof *s->logits);
        status = s->logits ? session_open(engine, &s->session, error)
                           : error_set(error, STATUS_MEMORY, "no memory for logits");
        if (!status) session_expect(s->session, m->n_text);
    }
    return status;
}

// Streams the text [size], after BOS if the model wants it, through one session: each token but the first is predicted
// once, from what is in the window then, with the frequencies of the whole text's length.
static Status measure(Engine *engine, const char *text, size_t size, const PerplexitySettings *settings,
                      PerplexityReport *report, Error *error) {
    *report = (PerplexityReport){0};
    const Tokenizer *tokenizer = engine_tokenizer(engine);
    Measure m = {.settings = settings, .vocab = engine_model(engine)->shape.vocab_size};
    Tokens stream = {0};
    Status status = STATUS_OK;
    if (tokenizer_add_bos(tokenizer) && tokenizer_bos(tokenizer) >= 0)
        status = tokens_push(&stream, tokenizer_bos(tokenizer), error);
    if (!status) status = tokenizer_encode(tokenizer, text, size, false, &stream, error);
    if (!status && stream.n < 2)
        status = error_set(error, STATUS_USAGE, "a text of at least two tokens is needed");
    m.n_text = stream.n;
    if (settings->overflow.policy == OVERFLOW_STOP && m.n_text > engine_context_size(engine))
        m.n_text = engine_context_size(engine);
    if (!status) status = open_streams(&m, engine, error);
    if (!status) status = stream_all(&m, &stream, error);
    if (!status) fill_report(&m, size, stream.n, report);
    for (int i = 0; i < 2; i++) {
        session_close(m.streams[i].session);
        free(m.streams[i].logits);
    }
    tokens_free(&stream);
    return status;
}

// The report in lines; `settings` as measured.
// unshifted: why the model cannot be shifted; NULL: it can.
static void print_report(const PerplexityReport *report, const PerplexitySettings *settings,
                         const char *unshifted, FILE *out) {
    fprintf(out, "perplexity %.4f over %" PRId64 " tokens, %.4f bits per byte\n", report->perplexity,
            report->n_tokens, report->bits_per_byte);
    if (report->n_left_out)
        fprintf(out,
                "left out   the last %" PRId64
                " tokens: overflow = \"stop\" ends the text where the context does\n",
                report->n_left_out);
    fputs("by tenths ", out);
    for (int i = 0; i < PERPLEXITY_PARTS; i++)
        if (!isnan(report->parts[i])) fprintf(out, " %.2f", report->parts[i]);
    fputc('\n', out);
    if (settings->compare)
        fprintf(out, "against    %s: KL %.5f nats a token, the same first choice for %.2f%%\n",
                overflow_policy_name(settings->against), report->divergence, 100 * report->agreement);
    if (settings->compare && settings->against != OVERFLOW_REEVALUATE && unshifted)
        fprintf(out, "           nothing was shifted, but read again: %s\n", unshifted);
}

// ---- the command --------------------------------------------------------------------------------------------

static Status read_settings(Program *program, PerplexitySettings *settings, Error *error) {
    const char *against = program->options.against;
    *settings = (PerplexitySettings){.overflow = program->settings.talk.overflow,
                                     .compare = against != NULL,
                                     .progress = load_progress(program->screen)};
    while (against && strcmp(overflow_policy_name(settings->against), against) != 0)
        if (++settings->against == OVERFLOW_STOP)
            return error_set(error, STATUS_USAGE,
                             "--against %s: allowed are reevaluate, shift and shift-inplace", against);
    return STATUS_OK;
}

static Status measure_file(Program *program, const PerplexitySettings *settings, Error *error) {
    char *text;
    size_t size;
    PerplexityReport report;
    Status status = file_read(program->options.argument, PROGRAM_TEXT_LIMIT, &text, &size, error);
    if (status) return status;
    status = encoding_take(program->options.argument, program->settings.ui.encoding, &text, &size, error);
    if (!status) status = measure(program->engine, text, size, settings, &report, error);
    if (status == STATUS_USAGE) error_prefix(error, "%s: ", program->options.argument);
    if (!status && isnan(report.perplexity))
        status = error_set(error, STATUS_FILE, "a logit is not a number: the model or its file is damaged");
    screen_progress_end(program->screen);
    free(text);
    if (!status) print_report(&report, settings, engine_cannot_shift(program->engine), stdout);
    return status;
}

int perplexity_main(Program *program) {
    Error error;
    if (program_find_model(program, NULL, &error)) return program_fail(program, &error, EXIT_MODEL);
    if (!program->options.argument) {
        error_set(&error, STATUS_USAGE, "perplexity needs a text: palaver perplexity MODEL FILE");
        return program_fail(program, &error, EXIT_USAGE);
    }
    PerplexitySettings settings;
    if (read_settings(program, &settings, &error)) return program_fail(program, &error, EXIT_USAGE);
    Status status = program_load_model(program, &error);
    if (status) return program_fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    settings_tell_of_window(&program->settings, program->engine, program->screen, &(SettingsTold){0});
    status = measure_file(program, &settings, &error);
    return status ? program_fail(program, &error, EXIT_RUNTIME)
                  : program_finish(program, status, &error); // the text is at fault
}
