#include "tokenizer/split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text_buffer.h"

enum { MAX_STEPS = 16, MAX_SPACE = 8 };

typedef struct SplitStep {
    pcre2_code *code; // NULL: a prefix step
    SplitBehavior behavior;
    bool invert;
    SplitPrefix prefix;
    char space[MAX_SPACE];
    size_t space_size;
} SplitStep;

struct SplitRules {
    SplitStep steps[MAX_STEPS];
    int n;
};

// What one run needs: PCRE2's scratch is not shared between threads.
typedef struct SplitRun {
    const SplitRules *rules;
    SplitWord word;
    void *context;
    pcre2_match_data *match[MAX_STEPS];
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
} SplitRun;

Status split_rules_open(SplitRules **out, Error *error) {
    *out = calloc(1, sizeof **out);
    return *out ? STATUS_OK : error_set(error, STATUS_MEMORY, "no memory for split rules");
}

void split_rules_close(SplitRules *rules) {
    if (!rules) return;
    for (int i = 0; i < rules->n; i++) pcre2_code_free(rules->steps[i].code);
    free(rules);
}

static Status step_room(const SplitRules *rules, Error *error) {
    if (rules->n < MAX_STEPS) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "more than %d split rules", MAX_STEPS);
}

static Status add_compiled(SplitRules *rules, const char *pattern, size_t size, SplitStep step,
                           Error *error) {
    // Oniguruma in Ruby's syntax: ^ and $ are those of lines, \n alone ends one.
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    int code = 0;
    PCRE2_SIZE at = 0;
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        step.code = pcre2_compile((PCRE2_SPTR)pattern, size, options, &code, &at, context);
        pcre2_compile_context_free(context);
    }
    if (!step.code) {
        char why[160] = "no memory";
        if (code) pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return error_set(error, STATUS_UNSUPPORTED, "the split pattern '%.*s' cannot be used: %s (at %zu)",
                         (int)(size < 200 ? size : 200), pattern, why, (size_t)at);
    }
    pcre2_jit_compile(step.code, PCRE2_JIT_COMPLETE); // where there is no JIT the interpreter does the same
    rules->steps[rules->n++] = step;
    return STATUS_OK;
}

Status split_rules_add_regex(SplitRules *rules, const char *pattern, size_t size, SplitBehavior behavior,
                             bool invert, Error *error) {
    char *translated;
    size_t translated_size;
    Status status = step_room(rules, error);
    if (!status) status = split_pattern_translate(pattern, size, &translated, &translated_size, error);
    if (status) return status;
    SplitStep step = {.behavior = behavior, .invert = invert};
    status = add_compiled(rules, translated, translated_size, step, error);
    free(translated);
    return status;
}

Status split_rules_add_literal(SplitRules *rules, const char *text, size_t size, SplitBehavior behavior,
                               bool invert, Error *error) {
    TextBuffer pattern = {0};
    Status status = step_room(rules, error);
    if (!status && (size == 0 || size > 1000)) {
        status =
            error_set(error, STATUS_UNSUPPORTED, "a split text of %zu bytes; 1 to 1000 can be used", size);
    }
    for (size_t i = 0; i < size && !status; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!plain) status = text_buffer_append(&pattern, "\\", 1, error);
        if (!status) status = text_buffer_append(&pattern, text + i, 1, error);
    }
    SplitStep step = {.behavior = behavior, .invert = invert};
    if (!status) status = add_compiled(rules, pattern.data, pattern.n, step, error);
    text_buffer_free(&pattern);
    return status;
}

Status split_rules_add_prefix(SplitRules *rules, const char *space, size_t size, SplitPrefix when,
                              Error *error) {
    Status status = step_room(rules, error);
    if (status) return status;
    if (size == 0 || size > MAX_SPACE) {
        return error_set(error, STATUS_UNSUPPORTED, "a space that is spelled with %zu bytes", size);
    }
    SplitStep step = {.prefix = when, .space_size = size};
    memcpy(step.space, space, size);
    rules->steps[rules->n++] = step;
    return STATUS_OK;
}

// ---- running ----------------------------------------------------------------------------------------------------

static Status run_step(SplitRun *run, int index, const char *text, size_t size, SplitPlace place,
                       Error *error);

// Cuts that wait for their neighbour, as the step's behaviour wants.
typedef struct Cutter {
    SplitRun *run;
    const char *text;
    int index;
    SplitPlace place;
    size_t start, stop; // the cut that waits; empty: none
    bool match;         // whether that one is a match
} Cutter;

static Status cutter_flush(Cutter *cutter, Error *error) {
    size_t start = cutter->start, stop = cutter->stop;
    cutter->start = cutter->stop;
    if (start == stop) return STATUS_OK;
    SplitPlace place = start == 0 ? cutter->place : SPLIT_AFTER_TOKENS;
    return run_step(cutter->run, cutter->index + 1, cutter->text + start, stop - start, place, error);
}

static Status cutter_take(Cutter *cutter, size_t start, size_t stop, bool match, Error *error) {
    const SplitStep *step = &cutter->run->rules->steps[cutter->index];
    if (start == stop) return STATUS_OK;
    match ^= step->invert;
    if (step->behavior == SPLIT_REMOVED && match) return STATUS_OK;
    bool waits = cutter->start < cutter->stop, join = false;
    if (waits && step->behavior == SPLIT_CONTIGUOUS) join = match == cutter->match;
    if (waits && step->behavior == SPLIT_MERGED_WITH_PREVIOUS) join = match && !cutter->match;
    if (waits && step->behavior == SPLIT_MERGED_WITH_NEXT) join = !match && cutter->match;
    Status status = join ? STATUS_OK : cutter_flush(cutter, error);
    if (!join) cutter->start = start;
    cutter->stop = stop;
    cutter->match = match;
    return status;
}

// The next match in [from, size): false at the end; a match that is empty is passed over.
static Status next_match(SplitRun *run, int index, const char *text, size_t size, size_t *from, size_t *start,
                         size_t *stop, bool *found, Error *error) {
    const pcre2_code *code = run->rules->steps[index].code;
    pcre2_match_data *data = run->match[index];
    uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int rc = pcre2_match(code, (PCRE2_SPTR)text, size, *from, options, data, run->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        rc = pcre2_match(code, (PCRE2_SPTR)text, size, *from, options | PCRE2_NO_JIT, data, run->limits);
    }
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH) return STATUS_OK;
    if (rc < 0) {
        char why[160] = "";
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        return error_set(error, STATUS_UNSUPPORTED, "a split pattern of the tokenizer fails on this text: %s",
                         why);
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(data);
    *start = ends[0];
    *stop = ends[1];
    if (*start < *from || *stop <= *start) {
        return error_set(error, STATUS_UNSUPPORTED, "a split pattern of the tokenizer matches backwards");
    }
    *from = *stop;
    return STATUS_OK;
}

static Status run_regex(SplitRun *run, int index, const char *text, size_t size, SplitPlace place,
                        Error *error) {
    Cutter cutter = {.run = run, .text = text, .index = index, .place = place};
    size_t done = 0;
    bool found = true;
    Status status = STATUS_OK;
    while (!status && done < size) {
        size_t start = size, stop = size, from = done;
        status = next_match(run, index, text, size, &from, &start, &stop, &found, error);
        if (status || !found) break;
        status = cutter_take(&cutter, done, start, false, error);
        if (!status) status = cutter_take(&cutter, start, stop, true, error);
        done = stop;
    }
    if (!status) status = cutter_take(&cutter, done, size, false, error);
    return status ? status : cutter_flush(&cutter, error);
}

static Status run_prefix(SplitRun *run, int index, const char *text, size_t size, SplitPlace place,
                         Error *error) {
    const SplitStep *step = &run->rules->steps[index];
    TextBuffer out = {0};
    bool wanted = (step->prefix == SPLIT_PREFIX_ALWAYS && place != SPLIT_INSIDE_TEXT) ||
                  (step->prefix == SPLIT_PREFIX_FIRST && place == SPLIT_AT_START);
    bool there = text[0] == ' ' || (size >= step->space_size && !memcmp(text, step->space, step->space_size));
    Status status = STATUS_OK;
    if (wanted && !there) status = text_buffer_append(&out, step->space, step->space_size, error);
    for (size_t i = 0; i < size && !status;) {
        const char *space = memchr(text + i, ' ', size - i);
        size_t stop = space ? (size_t)(space - text) : size;
        status = text_buffer_append(&out, text + i, stop - i, error);
        if (space && !status) status = text_buffer_append(&out, step->space, step->space_size, error);
        i = stop + 1;
    }
    if (!status) status = run_step(run, index + 1, out.data, out.n, place, error);
    text_buffer_free(&out);
    return status;
}

// Steps are few (MAX_STEPS), so their recursion is shallow.
static Status run_step(SplitRun *run, int index, const char *text, size_t size, SplitPlace place,
                       Error *error) {
    if (index == run->rules->n) return run->word(run->context, text, size, error);
    if (!run->rules->steps[index].code) return run_prefix(run, index, text, size, place, error);
    return run_regex(run, index, text, size, place, error);
}

static Status run_prepare(SplitRun *run, Error *error) {
    bool missing = false;
    for (int i = 0; i < run->rules->n; i++) {
        if (!run->rules->steps[i].code) continue;
        run->match[i] = pcre2_match_data_create(1, NULL);
        missing |= !run->match[i];
    }
    run->limits = pcre2_match_context_create(NULL);
    run->stack = pcre2_jit_stack_create(1 << 15, 1 << 20, NULL);
    if (missing || !run->limits) return error_set(error, STATUS_MEMORY, "no memory to split a text");
    pcre2_set_match_limit(run->limits, 10 * 1000 * 1000);
    pcre2_set_heap_limit(run->limits, 64 * 1024); // KiB, of the interpreter
    if (run->stack) pcre2_jit_stack_assign(run->limits, NULL, run->stack);
    return STATUS_OK;
}

Status split_rules_run(const SplitRules *rules, const char *text, size_t size, SplitPlace place,
                       SplitWord word, void *context, Error *error) {
    if (size == 0) return STATUS_OK;
    SplitRun run = {.rules = rules, .word = word, .context = context};
    Status status = rules->n ? run_prepare(&run, error) : STATUS_OK;
    if (!status) status = run_step(&run, 0, text, size, place, error);
    for (int i = 0; i < rules->n; i++) pcre2_match_data_free(run.match[i]);
    pcre2_match_context_free(run.limits);
    pcre2_jit_stack_free(run.stack);
    return status;
}
