// Which tokens may come, against every token tried by itself; patterns drawn at random, against PCRE2.
#include "engine/grammar/grammar_internal.h"
#include "engine/grammar/matcher.h"
#include "tests/support/grammars.h"
#include "tests/support/test.h"

#define PCRE2_CODE_UNIT_WIDTH 8

#include <jansson.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARLEY "assets/parley-9m"

typedef struct Talk {
    Tokenizer *tokenizer;
    Vocabulary *vocabulary;
    int32_t end;
    uint64_t random;
} Talk;

static uint32_t next_random(Talk *t) {
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->random >> 33);
}

// Each token by itself, from the state as it is.
static bool token_fits(Talk *t, Grammar *g, uint32_t state, int32_t previous, int32_t id) {
    size_t size;
    const char *bytes = tokenizer_bytes(t->tokenizer, previous, id, false, &size);
    TokenKind kind = tokenizer_kind(t->tokenizer, id);
    if (!size || kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN || kind == TOKEN_UNUSED) return false;
    for (size_t i = 0; i < size && state > STATES_DEAD; i++)
        state = states_step(&g->states, state, (uint8_t)bytes[i]);
    return state > STATES_DEAD;
}

// A text of random tokens, the mask looked at before each. The text is malloc'ed; NULL: it did not end in time.
static char *draw_text(Talk *t, Grammar *grammar, int most) {
    Error error;
    Matcher *m, *other;
    States alone;
    char text[8192] = "";
    size_t n = 0;
    int32_t previous = -1;
    Grammar beside = {
        .net = grammar->net}; // states of its own: masks must not depend on what was looked at before
    assert_int_equal(states_open(&grammar->net, &alone, &error), STATUS_OK);
    beside.states = alone;
    uint32_t state = states_start(&beside.states);
    assert_int_equal(matcher_open(grammar, t->vocabulary, &t->end, 1, &m, &error), STATUS_OK);
    assert_int_equal(matcher_open(grammar, t->vocabulary, &t->end, 1, &other, &error), STATUS_OK);
    bool ended = false;
    for (int step = 0; step < most && !ended; step++) {
        const uint32_t *mask;
        if (matcher_mask(m, previous, &mask, &error)) fail_msg("%s behind %s", error.message, text);
        int32_t chosen = -1, n_allowed = 0;
        for (int32_t id = 0; id < t->vocabulary->n_ids; id++) {
            bool allowed = mask[id / 32] >> (id % 32) & 1;
            bool fit = id == t->end
                           ? beside.states.states[state].may_end
                           : id < tokenizer_size(t->tokenizer) && token_fits(t, &beside, state, previous, id);
            if (allowed != fit)
                fail_msg("%s: token %d is %d, not %d, behind %s", grammar->text, id, allowed, fit, text);
            if (allowed && next_random(t) % (uint32_t)++n_allowed == 0) chosen = id;
        }
        assert_true(chosen >= 0);
        if (step + 60 > most && matcher_may_end(m)) chosen = t->end;
        if ((ended = chosen == t->end)) break;
        size_t size;
        const char *bytes = tokenizer_bytes(t->tokenizer, previous, chosen, false, &size);
        assert_true(n + size < sizeof text);
        memcpy(text + n, bytes, size);
        text[n += size] = 0;
        assert_int_equal(matcher_accept(m, bytes, size, &error), STATUS_OK);
        for (size_t i = 0; i < size; i++) state = states_step(&beside.states, state, (uint8_t)bytes[i]);
        previous = chosen;
        if (step % 7 == 6)
            grammar->states.bytes = STATES_SOFT_BYTES; // what was kept is forgotten now and then
    }
    matcher_close(m);
    matcher_close(other);
    states_close(&beside.states);
    return ended ? strdup(text) : NULL;
}

static void open_talk(Talk *t) {
    Error error;
    *t = (Talk){.random = 7};
    assert_int_equal(tokenizer_open_folder(PARLEY, &t->tokenizer, &error), STATUS_OK);
    t->end = tokenizer_eos(t->tokenizer);
    int n_ids = (int)tokenizer_size(t->tokenizer) + 5; // a model's table may be longer
    assert_int_equal(vocabulary_open(t->tokenizer, n_ids, &t->vocabulary, &error), STATUS_OK);
}

static int without_classes; // a test's state: masks are found without trees of classes

static void masks_are_tokens_that_fit(void **state) {
    static const struct {
        GrammarKind kind;
        const char *text;
    } all[] = {
        {GRAMMAR_GBNF, GRAMMARS_ARITHMETIC},
        {GRAMMAR_GBNF, GRAMMARS_JSON},
        {GRAMMAR_GBNF, "root ::= a\na ::= \"(\" a \")\" b | [a-z]+\nb ::= \"\" | \" \" a"},
        {GRAMMAR_GBNF, "root ::= \"the\" (\" \" [^ ]+)* | .* \"!\""},
        {GRAMMAR_REGEX, "([A-Z][a-z]{1,9}( |, |\\. )){3,6}é?"},
        {GRAMMAR_REGEX, "[^ ]{0,30} x|.{0,20}!"},
        {GRAMMAR_REGEX, ".{3,9}"},
        {GRAMMAR_REGEX, "((\\w|é){2,5}[ ,]){2,8}[.]{3}"},
        {GRAMMAR_REGEX, "([^,]*,){0,4}[^,]{40}|(a|an|[a-z])*x*"},
        {GRAMMAR_REGEX, "([a-z ]{1,30}[.]? ?)+"},
        {GRAMMAR_REGEX, "([a-z]{1,12} ?){1,60}"},
        {GRAMMAR_REGEX, "(([a-z]{0,9}[a-m]){0,3} ){3,5}|([a-z ]{2,9}){4,7}"},
        {GRAMMAR_JSON_SCHEMA, "{\"pattern\": \"^[a-z]+( [a-z]+)*$\", \"maxLength\": 30, \"minLength\": 12}"},
        {GRAMMAR_JSON_SCHEMA, "{\"minLength\": 20, \"maxLength\": 40}"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"maxLength\": 9}, \"maxItems\": 5}"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\": \"object\"}"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"properties\": {\"name\": {\"maxLength\": 20}, \"next\": {\"$ref\": \"#\"}}, "
         "\"additionalProperties\": {\"type\": \"array\"}}"},
    };
    Talk talk;
    int n_ended = 0;
    open_talk(&talk);
    if (*state == &without_classes) talk.vocabulary->most_classes = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        Grammar *grammar = grammars_compile(all[i].kind, all[i].text);
        for (int k = 0; k < 2; k++) {
            char *text = draw_text(&talk, grammar, 40);
            if (!text) continue;
            n_ended++;
            assert_true(grammars_fit(all[i].kind, all[i].text, text));
            json_t *json =
                all[i].kind == GRAMMAR_JSON_SCHEMA ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null();
            if (!json) fail_msg("no JSON: %s", text);
            json_decref(json);
            free(text);
        }
        grammar_close(grammar);
    }
    assert_true(n_ended > 3);
    vocabulary_close(talk.vocabulary);
    tokenizer_close(talk.tokenizer);
}

// A pattern of pieces that overlap, repeat within each other and count: whatever way masks are found, they are the
// same.
static size_t draw_pattern(Talk *t, char *text, size_t n, int depth) {
    static const char *const pieces[] = {"[a-z]", ".", "[^,]", "\\w", " ",    "(a|an|[a-z])",
                                         "[A-Z]", ",", "é",    "the", "[^ ]", "\\d"};
    static const char *const counts[] = {"", "", "*", "+", "?", "{3}", "{0,7}", "{2,30}", "{1,}", "{20,40}"};
    for (uint32_t i = 1 + next_random(t) % 3; i-- > 0;) {
        const bool group = depth > 0 && next_random(t) % 2;
        if (group) {
            text[n++] = '(';
            n = draw_pattern(t, text, n, depth - 1);
            if (next_random(t) % 3 == 0) text[n++] = '|', n = draw_pattern(t, text, n, 0);
            text[n++] = ')';
        } else {
            n += (size_t)sprintf(text + n, "%s", pieces[next_random(t) % 12]);
        }
        n += (size_t)sprintf(text + n, "%s", counts[next_random(t) % 10]);
    }
    text[n] = 0;
    return n;
}

static void masks_of_any_pattern(void **state) {
    Talk talk;
    char pattern[4096];
    open_talk(&talk);
    if (*state == &without_classes) talk.vocabulary->most_classes = 0;
    for (int i = 0; i < 16; i++) {
        draw_pattern(&talk, pattern, 0, 2);
        Grammar *grammar = grammars_compile(GRAMMAR_REGEX, pattern);
        free(draw_text(&talk, grammar, 12));
        grammar_close(grammar);
    }
    vocabulary_close(talk.vocabulary);
    tokenizer_close(talk.tokenizer);
}

// A text that the grammar takes, byte by byte; false: it did not end in time.
static bool write_text(Talk *t, States *states, char *text, size_t most) {
    static const char usual[] = "aan the,xQ7 \xC3\xA9z";
    uint32_t at = states_start(states);
    for (size_t n = 0; n < most; n++) {
        text[n] = 0;
        if (states->states[at].may_end && (states->states[at].n == 0 || next_random(t) % 9 == 0)) return true;
        uint32_t next = STATES_DEAD;
        for (int tries = 0; next <= STATES_DEAD && tries < 200; tries++) {
            const uint32_t random = next_random(t);
            text[n] = tries < 100 ? usual[random % (sizeof usual - 1)] : (char)(1 + random % 255);
            next = states_step(states, at, (uint8_t)text[n]);
        }
        if (next <= STATES_DEAD) return false;
        at = next;
    }
    return false;
}

// Changes a character of ASCII: leaves it out, doubles it, or puts another one there.
static void change_text(Talk *t, char *text) {
    const size_t n = strlen(text), at = n ? next_random(t) % n : 0;
    if (n == 0 || (unsigned char)text[at] >= 0x80) return;
    switch (next_random(t) % 3) {
    case 0:
        memmove(text + at, text + at + 1, n - at);
        break;
    case 1:
        memmove(text + at + 1, text + at, n - at + 1);
        break;
    default:
        text[at] = "ae ,X7"[next_random(t) % 6];
    }
}

// Which texts fit, against PCRE2: also where repetitions count within each other.
static void patterns_as_elsewhere(void **state) {
    (void)state;
    Talk t = {.random = 11};
    Error error;
    char pattern[4096], text[512];
    size_t compared = 0, matched = 0;
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    assert_non_null(limits);
    pcre2_set_match_limit(limits, 20000);
    for (int i = 0; i < 200; i++) {
        draw_pattern(&t, pattern, 0, 2);
        int code;
        PCRE2_SIZE offset;
        pcre2_code *other =
            pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED, &code, &offset, NULL);
        if (!other) continue; // it is too large there
        pcre2_match_data *data = pcre2_match_data_create_from_pattern(other, NULL);
        Grammar *g = grammars_compile(GRAMMAR_REGEX, pattern);
        States states;
        assert_int_equal(states_open(&g->net, &states, &error), STATUS_OK);
        for (int k = 0; k < 12; k++) {
            if (!write_text(&t, &states, text, sizeof text - 8)) continue;
            for (int changes = 0; changes < 6; changes++, change_text(&t, text)) {
                uint32_t at = states_start(&states);
                for (const char *c = text; *c && at > STATES_DEAD; c++)
                    at = states_step(&states, at, (uint8_t)*c);
                const bool ours = at > STATES_DEAD && states.states[at].may_end;
                const int found = pcre2_match(other, (PCRE2_SPTR)text, strlen(text), 0, 0, data, limits);
                if (found < PCRE2_ERROR_NOMATCH) continue; // it takes too long there
                if (ours != (found >= 0)) fail_msg("%s: %s: %d, elsewhere %d", pattern, text, ours, found);
                compared++, matched += ours;
            }
        }
        states_close(&states);
        grammar_close(g);
        pcre2_match_data_free(data);
        pcre2_code_free(other);
    }
    pcre2_match_context_free(limits);
    assert_true(compared > 1000 && matched > 300 && compared - matched > 300);
}

// What would take more memory than there may be ends with an error, and the next text begins as if nothing had been.
static void too_many_ways(void **state) {
    (void)state;
    Talk talk;
    Error error;
    Matcher *m;
    const uint32_t *mask;
    open_talk(&talk);
    Grammar *g = grammars_compile(GRAMMAR_REGEX, "(.*a.{0,10000}){2}|x");
    Status status = matcher_open(g, talk.vocabulary, &talk.end, 1, &m, &error);
    for (int i = 0; i < 400 && !status; i++) {
        status = matcher_mask(m, 10, &mask, &error);
        if (!status) status = matcher_accept(m, "aab", 3, &error);
    }
    assert_true(status == STATUS_OK || status == STATUS_UNSUPPORTED);
    matcher_close(m);
    assert_int_equal(matcher_open(g, talk.vocabulary, &talk.end, 1, &m, &error), STATUS_OK);
    assert_int_equal(matcher_accept(m, "x", 1, &error), STATUS_OK);
    assert_true(matcher_may_end(m) && !matcher_must_end(m));
    matcher_close(m);
    grammar_close(g);
    vocabulary_close(talk.vocabulary);
    tokenizer_close(talk.tokenizer);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_tokens_that_fit),
        {"masks_without_classes", masks_are_tokens_that_fit, NULL, NULL, &without_classes},
        cmocka_unit_test(masks_of_any_pattern),
        {"masks_of_any_pattern_without_classes", masks_of_any_pattern, NULL, NULL, &without_classes},
        cmocka_unit_test(patterns_as_elsewhere),
        cmocka_unit_test(too_many_ways),
    };
    return test_main("masks", argc, argv, tests);
}
