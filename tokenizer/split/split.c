#include "tokenizer/split/split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/text.h"
#include "kernels/base/text/utf8.h"
#include "tokenizer/byte_level.h"

enum { MAX_STEPS = 16, MAX_SPACE = 8 };

typedef enum StepKind { STEP_REGEX, STEP_PREFIX, STEP_BYTE_LEVEL } StepKind;

typedef struct SplitStep {
    StepKind kind;
    pcre2_code *code; // of a STEP_REGEX
    SplitBehavior behavior;
    bool invert;
    SplitPrefix prefix;
    char space[MAX_SPACE];
    size_t space_size;
} SplitStep;

struct SplitRules {
    SplitStep steps[MAX_STEPS];
    int n;
    bool byte_level; // words are stand-ins of bytes at the end
};

// What one run needs: PCRE2's scratch is not shared between threads.
typedef struct SplitRun {
    const SplitRules *rules;
    SplitBudget *budget;
    size_t at; // where the last try of a pattern's part began
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
    // Oniguruma in Ruby's syntax: ^ and $ are those of lines, \n alone ends one. The callouts count steps.
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT;
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
    Text pattern = {0};
    Status status = step_room(rules, error);
    if (!status && (size == 0 || size > 1000)) {
        status =
            error_set(error, STATUS_UNSUPPORTED, "a split text of %zu bytes; 1 to 1000 can be used", size);
    }
    for (size_t i = 0; i < size && !status; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!plain) status = text_append(&pattern, "\\", 1, error);
        if (!status) status = text_append(&pattern, text + i, 1, error);
    }
    SplitStep step = {.behavior = behavior, .invert = invert};
    if (!status) status = add_compiled(rules, pattern.bytes, pattern.size, step, error);
    text_free(&pattern);
    return status;
}

Status split_rules_add_prefix(SplitRules *rules, const char *space, size_t size, SplitPrefix when,
                              Error *error) {
    Status status = step_room(rules, error);
    if (status) return status;
    if (size == 0 || size > MAX_SPACE) {
        return error_set(error, STATUS_UNSUPPORTED, "a space that is spelled with %zu bytes", size);
    }
    SplitStep step = {.kind = STEP_PREFIX, .prefix = when, .space_size = size};
    memcpy(step.space, space, size);
    rules->steps[rules->n++] = step;
    return STATUS_OK;
}

Status split_rules_add_byte_level(SplitRules *rules, Error *error) {
    Status status = step_room(rules, error);
    if (status) return status;
    if (rules->byte_level) return error_set(error, STATUS_UNSUPPORTED, "bytes are spelled out twice");
    rules->byte_level = true;
    rules->steps[rules->n++] = (SplitStep){.kind = STEP_BYTE_LEVEL};
    return STATUS_OK;
}

bool split_rules_byte_level(const SplitRules *rules) {
    return rules->byte_level;
}

// ---- the budget -------------------------------------------------------------------------------------------------

// What a short text may take in any case, what each byte adds, and how often the interrupt is looked at: some
// milliseconds apart, so that a split of ordinary length never sees it.
static const uint64_t FREE_STEPS = 1 << 20, STEPS_PER_BYTE = 4096, STEPS_PER_POLL = 1 << 20;

SplitBudget split_budget(const atomic_int *interrupt) {
    return (SplitBudget){.interrupt = interrupt, .left = FREE_STEPS, .next_poll = STEPS_PER_POLL};
}

void split_budget_add(SplitBudget *budget, size_t bytes) {
    budget->left += bytes < SIZE_MAX / STEPS_PER_BYTE ? bytes * STEPS_PER_BYTE : SIZE_MAX / 2;
}

// Before each try of a pattern's part: what was gone over since the last one is paid for.
static int count_steps(pcre2_callout_block *block, void *context) {
    SplitRun *run = context;
    SplitBudget *budget = run->budget;
    size_t now = block->current_position;
    uint64_t steps = 1 + (now > run->at ? now - run->at : run->at - now);
    run->at = now;
    if (steps > budget->left) return PCRE2_ERROR_MATCHLIMIT;
    budget->left -= steps;
    if (steps < budget->next_poll) {
        budget->next_poll -= steps;
        return 0;
    }
    budget->next_poll = STEPS_PER_POLL;
    return budget->interrupt && *budget->interrupt ? PCRE2_ERROR_CALLOUT : 0;
}

// ---- running ----------------------------------------------------------------------------------------------------

// A stretch of text on its way through the steps.
typedef struct Stretch {
    const char *text;
    size_t size;
    SplitPlace place;
} Stretch;

static Status run_step(SplitRun *run, int index, const Stretch *stretch, Error *error);

// Cuts that wait for their neighbour, as the step's behaviour wants.
typedef struct Cutter {
    SplitRun *run;
    const Stretch *stretch;
    int index;
    bool waits;         // whether there is a cut that waits: it may be empty, where a pattern matched nothing
    size_t start, stop; // that cut
    bool match;         // whether that one is a match
} Cutter;

static Status cutter_flush(Cutter *cutter, Error *error) {
    size_t start = cutter->start, stop = cutter->stop;
    if (!cutter->waits || start == stop) return STATUS_OK;
    SplitPlace place = start == 0 ? cutter->stretch->place : SPLIT_AFTER_TOKENS;
    const Stretch cut = {cutter->stretch->text + start, stop - start, place};
    return run_step(cutter->run, cutter->index + 1, &cut, error);
}

static Status cutter_take(Cutter *cutter, size_t start, size_t stop, bool match, Error *error) {
    const SplitStep *step = &cutter->run->rules->steps[cutter->index];
    match ^= step->invert;
    if (step->behavior == SPLIT_REMOVED && match) return STATUS_OK;
    bool join = false;
    if (cutter->waits && step->behavior == SPLIT_CONTIGUOUS) join = match == cutter->match;
    if (cutter->waits && step->behavior == SPLIT_MERGED_WITH_PREVIOUS) join = match && !cutter->match;
    if (cutter->waits && step->behavior == SPLIT_MERGED_WITH_NEXT) join = !match && cutter->match;
    Status status = join ? STATUS_OK : cutter_flush(cutter, error);
    if (!join) cutter->start = start;
    cutter->stop = stop;
    cutter->match = match;
    cutter->waits = true;
    return status;
}

static Status match_error(int code, Error *error) {
    if (code == PCRE2_ERROR_CALLOUT)
        return error_set(error, STATUS_INTERRUPTED, "interrupted while a text was split");
    char why[160] = "it takes too many steps";
    if (code != PCRE2_ERROR_MATCHLIMIT) pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return error_set(error, STATUS_UNSUPPORTED,
                     "a split pattern of the tokenizer fails on this text: %s; the text without its longest "
                     "runs of like characters may pass",
                     why);
}

typedef struct Match {
    size_t start, stop;
    bool found;
} Match;

// The next match at or after `from`.
static Status next_match(SplitRun *run, int index, const Stretch *stretch, size_t from, Match *match,
                         Error *error) {
    const pcre2_code *code = run->rules->steps[index].code;
    pcre2_match_data *data = run->match[index];
    PCRE2_SPTR text = (PCRE2_SPTR)stretch->text;
    uint32_t options = PCRE2_NO_UTF_CHECK;
    run->at = from;
    int rc = pcre2_match(code, text, stretch->size, from, options, data, run->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        rc = pcre2_match(code, text, stretch->size, from, options | PCRE2_NO_JIT, data, run->limits);
    }
    match->found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH) return STATUS_OK;
    if (rc < 0) return match_error(rc, error);
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(data);
    match->start = ends[0];
    match->stop = ends[1];
    if (match->start >= from && match->stop >= match->start) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "a split pattern of the tokenizer matches backwards");
}

// Matches as the tokenizers package finds them: an empty one cuts as well, but not right behind the last match, where
// the search goes on after one character.
static Status run_regex(SplitRun *run, int index, const Stretch *stretch, Error *error) {
    Cutter cutter = {.run = run, .stretch = stretch, .index = index};
    size_t done = 0, from = 0;
    bool matched = false;
    Status status = STATUS_OK;
    while (!status && from <= stretch->size) {
        Match match = {0};
        status = next_match(run, index, stretch, from, &match, error);
        if (status || !match.found) break;
        if (match.start == match.stop && matched && match.stop == done) {
            if (from == stretch->size) break;
            uint32_t code;
            int length = utf8_next(stretch->text + from, stretch->size - from, &code);
            from += length > 0 ? (size_t)length : 1;
            continue;
        }
        if (done < match.start) status = cutter_take(&cutter, done, match.start, false, error);
        if (!status) status = cutter_take(&cutter, match.start, match.stop, true, error);
        done = from = match.stop;
        matched = true;
    }
    if (!status && done < stretch->size) status = cutter_take(&cutter, done, stretch->size, false, error);
    return status ? status : cutter_flush(&cutter, error);
}

static Status run_prefix(SplitRun *run, int index, const Stretch *stretch, Error *error) {
    const SplitStep *step = &run->rules->steps[index];
    const char *text = stretch->text;
    size_t size = stretch->size;
    Text out = {0};
    bool wanted = (step->prefix == SPLIT_PREFIX_ALWAYS && stretch->place != SPLIT_INSIDE_TEXT) ||
                  (step->prefix == SPLIT_PREFIX_FIRST && stretch->place == SPLIT_AT_START);
    bool there = text[0] == ' ' || (size >= step->space_size && !memcmp(text, step->space, step->space_size));
    Status status = STATUS_OK;
    if (wanted && !there) status = text_append(&out, step->space, step->space_size, error);
    for (size_t i = 0; i < size && !status;) {
        const char *space = memchr(text + i, ' ', size - i);
        size_t stop = space ? (size_t)(space - text) : size;
        status = text_append(&out, text + i, stop - i, error);
        if (space && !status) status = text_append(&out, step->space, step->space_size, error);
        i = stop + 1;
    }
    const Stretch spaced = {out.bytes, out.size, stretch->place};
    if (!status) status = run_step(run, index + 1, &spaced, error);
    text_free(&out);
    return status;
}

// A stand-in for each byte: two bytes at most.
static Status run_byte_level(SplitRun *run, int index, const Stretch *stretch, Error *error) {
    Text out = {0};
    Status status = text_grow(&out, 2 * stretch->size, error);
    for (size_t i = 0; i < stretch->size && !status; i++) {
        out.size +=
            (size_t)utf8_write(byte_level_char((unsigned char)stretch->text[i]), out.bytes + out.size);
    }
    const Stretch spelled = {out.bytes, out.size, stretch->place};
    if (!status) status = run_step(run, index + 1, &spelled, error);
    text_free(&out);
    return status;
}

// A word of stand-ins back to its bytes.
static Status give_bytes(SplitRun *run, const Stretch *stretch, Error *error) {
    Text out = {0};
    Status status = text_grow(&out, stretch->size, error);
    for (size_t i = 0; i < stretch->size && !status;) {
        uint32_t code;
        i += (size_t)utf8_next(stretch->text + i, stretch->size - i, &code);
        out.bytes[out.size++] = (char)byte_level_byte(code);
    }
    if (!status) status = run->word(run->context, out.bytes, out.size, error);
    text_free(&out);
    return status;
}

// Steps are few (MAX_STEPS), so their recursion is shallow.
static Status run_step(SplitRun *run, int index, const Stretch *stretch, Error *error) {
    if (index == run->rules->n && run->rules->byte_level) return give_bytes(run, stretch, error);
    if (index == run->rules->n) return run->word(run->context, stretch->text, stretch->size, error);
    switch (run->rules->steps[index].kind) {
    case STEP_PREFIX:
        return run_prefix(run, index, stretch, error);
    case STEP_BYTE_LEVEL:
        return run_byte_level(run, index, stretch, error);
    case STEP_REGEX:
        break;
    }
    return run_regex(run, index, stretch, error);
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
    pcre2_set_callout(run->limits, count_steps, run);
    pcre2_set_match_limit(run->limits,
                          UINT32_MAX); // counts differently with and without JIT: the budget bounds
    pcre2_set_heap_limit(run->limits, 64 * 1024); // KiB, of the interpreter
    if (run->stack) pcre2_jit_stack_assign(run->limits, NULL, run->stack);
    return STATUS_OK;
}

Status split_rules_run(const SplitRules *rules, const SplitText *text, SplitWord word, void *context,
                       Error *error) {
    if (text->size == 0) return STATUS_OK;
    SplitRun run = {.rules = rules, .budget = text->budget, .word = word, .context = context};
    const Stretch whole = {text->text, text->size, text->place};
    Status status = rules->n ? run_prepare(&run, error) : STATUS_OK;
    if (!status) status = run_step(&run, 0, &whole, error);
    for (int i = 0; i < rules->n; i++) pcre2_match_data_free(run.match[i]);
    pcre2_match_context_free(run.limits);
    pcre2_jit_stack_free(run.stack);
    return status;
}
