// Hostile grammars: the first byte chooses the language. What is compiled reads what follows the text's NUL, and is
// within its limits; what is refused is so with one line. The tokens that may come behind that text are those that fit
// if they are tried one by one.
#include "engine/grammar/grammar_internal.h"
#include "engine/grammar/matcher.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A length that is believed shows: allocations far beyond the input end the program.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "max_allocation_size_mb=256";
}

static void read_bytes(const Grammar *grammar, const uint8_t *bytes, size_t size) {
    States states;
    Error error;
    if (states_open(&grammar->net, &states, &error)) abort();
    uint32_t state = states_start(&states), before = state;
    for (size_t i = 0; i < size && i < 64 && state > STATES_DEAD; i++) {
        before = state;
        state = states_step(&states, state, bytes[i]);
    }
    if (!states.error.status) {
        // What was forgotten is found again.
        uint32_t *roots[] = {&before};
        bool may_end = states.states[before].may_end;
        uint32_t n = states.states[before].n;
        if (states_forget(&states, roots, 1, &error)) abort();
        if (states.states[before].may_end != may_end || states.states[before].n != n) abort();
    } else if (!*states.error.message) {
        abort();
    }
    states_close(&states);
}

static Vocabulary *vocabulary(void) {
    static Vocabulary *made; // there as long as the fuzzer
    static Tokenizer *tokenizer;
    Error error;
    if (!made && (tokenizer_open_folder("assets/parley-9m", &tokenizer, &error) ||
                  vocabulary_open(tokenizer, (int)tokenizer_size(tokenizer), &made, &error)))
        abort();
    return made;
}

// Some of the tokens behind `bytes`, by states of their own.
static void check_mask(const Grammar *grammar, const uint8_t *bytes, size_t size, const uint32_t *mask) {
    States states;
    Error error;
    if (states_open(&grammar->net, &states, &error)) abort();
    uint32_t behind = states_start(&states);
    for (size_t i = 0; i < size && behind > STATES_DEAD; i++) behind = states_step(&states, behind, bytes[i]);
    const Vocabulary *v = vocabulary();
    for (uint32_t i = (uint32_t)size % 31; i < v->nodes[v->n_nodes].token && behind > STATES_DEAD; i += 31) {
        size_t n;
        const int32_t id = v->tokens[i];
        const char *text = tokenizer_bytes(v->tokenizer, v->before, id, false, &n);
        uint32_t state = behind;
        for (size_t k = 0; k < n && state > STATES_DEAD; k++)
            state = states_step(&states, state, (uint8_t)text[k]);
        if (states.error.status) break;
        if ((mask[id / 32] >> (id % 32) & 1) != (state > STATES_DEAD)) abort();
    }
    states_close(&states);
}

static void find_tokens(Grammar *grammar, const uint8_t *bytes, size_t size) {
    Matcher *matcher;
    Error error;
    const uint32_t *mask;
    if (size > 16) size = 16;
    if (matcher_open(grammar, vocabulary(), NULL, 0, &matcher, &error)) return;
    if (!matcher_accept(matcher, (const char *)bytes, size, &error) &&
        !matcher_mask(matcher, vocabulary()->before, &mask, &error))
        check_mask(grammar, bytes, size, mask);
    matcher_close(matcher);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 4096) return 0;
    const char *text = (const char *)data + 1, *end = memchr(text, 0, size - 1);
    size_t n = end ? (size_t)(end - text) : size - 1;
    Grammar *grammar;
    Error error = {0};
    if (grammar_compile((GrammarKind)(data[0] % 3), text, n, &grammar, &error)) {
        if (!*error.message || strchr(error.message, '\n') || grammar) abort();
        return 0;
    }
    if (grammar->net.n > NET_MOST || grammar->net.n_classes < 1 || grammar->net.n_classes > 256) abort();
    if (end) read_bytes(grammar, (const uint8_t *)end + 1, size - 2 - n);
    if (end) find_tokens(grammar, (const uint8_t *)end + 1, size - 2 - n);
    grammar_close(grammar);
    return 0;
}
