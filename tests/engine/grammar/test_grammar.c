// Grammars: which texts fit, by tables; which tokens may come, against every token tried by itself; what is refused.
#include "engine/grammar/grammar_internal.h"
#include "engine/grammar/matcher.h"
#include "tests/support/test.h"

#define PCRE2_CODE_UNIT_WIDTH 8

#include <jansson.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#define PARLEY "assets/parley-9m"

static Grammar *compile(GrammarKind kind, const char *text) {
    Error error = {0};
    Grammar *grammar;
    if (grammar_compile(kind, text, strlen(text), &grammar, &error)) fail_msg("%s: %s", text, error.message);
    return grammar;
}

static bool fits(GrammarKind kind, const char *grammar, const char *text) {
    Grammar *g = compile(kind, grammar);
    Error error;
    States states;
    assert_int_equal(states_open(&g->net, &states, &error), STATUS_OK);
    uint32_t state = states_start(&states);
    for (; *text && state > STATES_DEAD; text++) state = states_step(&states, state, (uint8_t)*text);
    assert_int_equal(states.error.status, STATUS_OK);
    bool may_end = state > STATES_DEAD && states.states[state].may_end;
    states_close(&states);
    grammar_close(g);
    return may_end;
}

typedef struct Fit {
    const char *grammar;
    const char *fit[6], *unfit[6]; // up to a NULL
} Fit;

static void check_fits(GrammarKind kind, const Fit *fit, size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 6 && fit[i].fit[k]; k++)
            if (!fits(kind, fit[i].grammar, fit[i].fit[k]))
                fail_msg("%s: does not fit: %s", fit[i].grammar, fit[i].fit[k]);
        for (size_t k = 0; k < 6 && fit[i].unfit[k]; k++)
            if (fits(kind, fit[i].grammar, fit[i].unfit[k]))
                fail_msg("%s: fits: %s", fit[i].grammar, fit[i].unfit[k]);
    }
}

#define ARITHMETIC                                                                                           \
    "root ::= (expr \"=\" ws term \"\\n\")+ # sums\n"                                                        \
    "expr ::= term ([-+*/] term)*\nterm ::= ident | num |\n \"(\" ws expr \")\" ws\n"                        \
    "ident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*\n"
#define JSON                                                                                                 \
    "root ::= value\nvalue ::= object | array | string | [0-9]+ | \"true\"\n"                                \
    "object ::= \"{\" (string \":\" value (\",\" string \":\" value)*)? \"}\"\n"                             \
    "array ::= \"[\" ( value ( \",\" value )* )? \"]\"\nstring ::= \"\\\"\" [^\"\\\\]* \"\\\"\"\n"

static void gbnf(void **state) {
    (void)state;
    static const Fit all[] = {
        {ARITHMETIC, {"a=1\n", "(x1 +2)*3 = y\n", "1=1\n2=2\n"}, {"", "a=1", "=1\n", "(a=1\n", "A=1\n"}},
        {JSON, {"{}", "[[[]],{\"ä\":[1,true]}]", "\"\""}, {"{", "[1,]", "{1:2}", "\"\\\"", "[[]"}},
        {"root ::= (\"- \" [^\\r\\n] + \"\\n\"){2,3}",
         {"- a\n- b\n", "- a\n- b\n- c\n"},
         {"- a\n", "a\n", "- a\n- \n"}},
        {"root ::= \"\\x41\\u00e4\\U0001F600\" .?", {"Aä😀", "Aä😀\n", "Aä😀é"}, {"Aä", "Aä😀ab"}},
        {"root ::= [а-я]{2,} [^а-я]", {"дад.", "да€"}, {"д.", "дад", "ab."}},
        {"root ::= \"ab\"* \"c\"{2} | ()", {"", "cc", "ababcc"}, {"abcc ", "ac", "c", "abb"}},
        {"root ::= a\na ::= \"(\" a \")\" | \"\"", {"", "()", "((()))"}, {"(", "())"}},
        {"root ::= x x\nx ::= (\"a\"*)* | \"b\"", {"", "aaa", "bb", "ab"}, {"bbb", "c"}},
    };
    check_fits(GRAMMAR_GBNF, all, sizeof all / sizeof *all);
}

static void regex(void **state) {
    (void)state;
    static const Fit all[] = {
        {"[a-c]+\\d{2,3}?", {"a12", "cab123"}, {"12", "a1", "a1234", "a12 "}},
        {"^(yes|no)$", {"yes", "no"}, {"", "yesno", "yes\n"}},
        {"a|b*|^c$", {"", "a", "bbb", "c"}, {"ab", "cc"}},
        {"(?:x|(?P<n>y){2})(?<m>z)?", {"x", "yy", "xz", "yyz"}, {"y", "z"}},
        {".\\.[^.]", {"a.b", "ä.€", "..\n"}, {"a..", "\n.a", "a.bc"}},
        {"[\\w-]+@\\S\\s[]a]", {"a-b@x ]", "_@. a"}, {"@x a", "a@  a", "a@x b"}},
        {"\\x41\\u00e4\\t\\/\\{2}", {"Aä\t/{2}"}, {"Aä\t/{{"}},
        {"(((a{0,3}){2}){2})?", {"", "aaaaaaaaaaaa"}, {"aaaaaaaaaaaaa"}},
    };
    check_fits(GRAMMAR_REGEX, all, sizeof all / sizeof *all);
}

static void schema(void **state) {
    (void)state;
    static const Fit all[] = {
        {"{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"const\": null}}, "
         "\"required\": "
         "[\"b\"]}",
         {"{\"a\":1,\"b\":null}", "{\"b\": null}"},
         {"{}", "{\"a\":1}", "{\"b\":null,\"a\":1}", "{\"b\":null,}", "{\"a\":01,\"b\":null}"}},
        {"{\"type\": \"integer\", \"minimum\": -7, \"maximum\": 102}",
         {"-7", "-1", "0", "9", "99", "102"},
         {"-8", "103", "-0", "00", "110", "1."}},
        {"{\"type\": \"number\", \"exclusiveMinimum\": 0, \"maximum\": 1.5}",
         {"1.5", "0.001", "1", "1.499"},
         {"0", "0.0", "1.501", "-1", "2", "1e0"}},
        {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
         {"\"ab\"", "\"\\n\\\"ä\"", "\"\\ud83d\\ude00a\""},
         {"\"a\"", "\"abcd\"", "\"\\ud83d\"", "ab", "\"a\nb\""}},
        {"{\"type\": \"string\", \"pattern\": \"^\\\\\\\\x+$\"}",
         {"\"\\\\x\"", "\"\\\\xx\""},
         {"\"\\x\"", "\"x\""}},
        {"{\"pattern\": \"b\"}", {"\"b\"", "\"abc\"", "\"\\\"b\\n\""}, {"\"\"", "\"a\"", "\"b"}},
        {"{\"prefixItems\": [{\"const\": 1}], \"items\": {\"type\": \"boolean\"}, \"minItems\": 1, "
         "\"maxItems\": 3}",
         {"[1]", "[1,true, false]"},
         {"[]", "[true]", "[1,1]", "[1,true,true,true]"}},
        {"{\"properties\": {\"ab\": {\"const\": 1}}, \"additionalProperties\": {\"const\": 2}}",
         {"{}", "{\"ab\":1}", "{\"ab\":1,\"a\":2}", "{\"abc\":2, \"\":2}", "{\"ac\":2}"},
         {"{\"ab\":2}", "{\"ab\":1,\"ab\":2}", "{\"a\":1}", "{\"\\u0061b\":2}"}},
        {"{\"$ref\": \"#/$defs/t\", \"$defs\": {\"t\": {\"type\": \"array\", \"items\": {\"$ref\": "
         "\"#/$defs/t\"}}}}",
         {"[]", "[[],[[]]]"},
         {"[", "[1]", "[[]"}},
        {"{\"allOf\": [{\"type\": [\"integer\", \"string\"], \"minimum\": 3}, {\"type\": \"number\", "
         "\"maximum\": 5}]}",
         {"3", "5"},
         {"2", "6", "\"\"", "3.5"}},
        {"{\"oneOf\": [{\"type\": \"null\"}, {\"enum\": [\"a\", {\"b\": []}]}]}",
         {"null", "\"a\"", "{\"b\":[]}"},
         {"{\"b\": 1}", "\"b\""}},
        {"{\"type\": \"string\", \"format\": \"date\"}",
         {"\"2024-02-28\"", "\"1999-12-31\""},
         {"\"2023-02-29\"", "\"2023-13-01\"", "\"0000-01-01\"", "\"2023-04-31\""}},
        {"{\"type\": \"integer\", \"multipleOf\": 12}",
         {"0", "12", "-144", "1008"},
         {"1", "00", "-0", "13", "120.0"}},
        {"{\"multipleOf\": 5, \"minimum\": -5, \"exclusiveMaximum\": 15}",
         {"-5", "0", "5", "10"},
         {"-10", "15", "3"}},
        {"{\"patternProperties\": {\"^[a-z]$\": {\"const\": 1}}}",
         {"{}", "{\"a\":1, \"b\":1}"},
         {"{\"ab\":1}", "{\"a\":2}"}},
        {"{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": true}, \"patternProperties\": {\"a\": "
         "{\"minimum\": 5}}}",
         {"{\"a\":7, \"b\":[]}"},
         {"{\"a\":4}"}},
        {"{\"propertyNames\": {\"maxLength\": 2}, \"additionalProperties\": {\"const\": 0}, "
         "\"maxProperties\": 2}",
         {"{}", "{\"ab\":0, \"c\":0}"},
         {"{\"abc\":0}", "{\"a\":0,\"b\":0,\"c\":0}"}},
        {"{\"propertyNames\": {\"enum\": [\"a\"]}, \"properties\": {\"a\": {\"const\": 1}, \"b\": true}}",
         {"{}", "{\"a\":1}"},
         {"{\"b\":1}"}},
        {"{\"oneOf\": [{\"type\": \"integer\", \"maximum\": 3}, {\"type\": \"number\", \"exclusiveMinimum\": "
         "3}]}",
         {"3", "3.5", "4"},
         {"2.5"}},
        {"{\"oneOf\": [{\"oneOf\": [{\"const\": 1}, {\"const\": 2}]}, {\"anyOf\": [{\"const\": 3}, "
         "{\"type\": \"null\"}]}]}",
         {"1", "2", "3", "null"},
         {"4"}},
        {"{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {\"a\": {\"const\": 1}, "
         "\"b\": {\"const\": "
         "2}}, \"oneOf\": [{\"required\": [\"a\"], \"properties\": {\"b\": false}}, {\"required\": "
         "[\"b\"]}]}",
         {"{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}"},
         {"{}"}},
        {"{\"allOf\": [{\"anyOf\": [{\"const\": 1}, {\"const\": 2}]}, {\"anyOf\": [{\"const\": 2}, "
         "{\"const\": 3}]}]}",
         {"2"},
         {"1", "3"}},
        {"{\"type\": \"string\", \"enum\": [\"ab\", \"abc\", \"b\"], \"pattern\": \"^a\", "
         "\"contentEncoding\": \"x\"}",
         {"\"ab\"", "\"abc\""},
         {"\"b\""}},
        {"{\"pattern\": \"^[a-z]+(-[a-z]+)*$\", \"minLength\": 3, \"maxLength\": 5}",
         {"\"abc\"", "\"a-bcd\""},
         {"\"ab\"", "\"a-\"", "\"abcdef\"", "\"-ab\""}},
        {"{\"pattern\": \"^[a-zé]+$\", \"minLength\": 2, \"maxLength\": 4}",
         {"\"aé\"", "\"abcd\""},
         {"\"a\"", "\"abcde\"", "\"A\""}},
        {"{\"pattern\": \"^\\\\d{3,5}$\", \"maxLength\": 4}",
         {"\"123\"", "\"1234\""},
         {"\"12\"", "\"12345\""}},
        {"{\"pattern\": \"^a|b+$\", \"maxLength\": 2}", {"\"a\"", "\"ax\"", "\"bb\""}, {"\"axx\"", "\"x\""}},
        {"{\"pattern\": \"^$|^b+$\", \"maxLength\": 2}", {"\"\"", "\"bb\""}, {"\"bbb\"", "\"a\""}},
        {"{\"allOf\": [{\"pattern\": \"a\"}, {\"pattern\": \"é$\"}, {\"maxLength\": 4}]}",
         {"\"aé\"", "\"\\n\\naé\""},
         {"\"a\"", "\"é\"", "\"\\n\\n\\naé\""}},
        {"{\"format\": \"date\", \"pattern\": \"^20\", \"maxLength\": 10}",
         {"\"2024-02-28\""},
         {"\"1999-12-31\"", "\"20\""}},
        {"{\"$ref\": \"#/$defs/a%25%20b\", \"$defs\": {\"a% b\": {\"const\": 1}}}", {"1"}, {"2"}},
        {"true", {"null", "[{\"a\": -1.5e+10}]"}, {"", "nul", "[,]"}},
    };
    check_fits(GRAMMAR_JSON_SCHEMA, all, sizeof all / sizeof *all);
}

static void refused(void **state) {
    (void)state;
    static const struct {
        GrammarKind kind;
        const char *text, *why;
    } all[] = {
        {GRAMMAR_GBNF, "", "no rule named root"},
        {GRAMMAR_GBNF, "root ::= a", "no rule named a"},
        {GRAMMAR_GBNF, "root ::= \"a\n\"", "line 1: a text that is not closed"},
        {GRAMMAR_GBNF, "root ::= \"a\"\nroot ::= \"b\"", "line 2: a rule that is there already"},
        {GRAMMAR_GBNF, "root ::= [b-a]", "range"},
        {GRAMMAR_GBNF, "root ::= ([a]", ") is missing"},
        {GRAMMAR_GBNF, "root ::= \"a\" root \"b\"", "no text fits"},
        {GRAMMAR_GBNF, "root ::= root \"a\" | \"b\"", "left recursion"},
        {GRAMMAR_GBNF, "root ::= e x\ne ::= \"\"?\nx ::= e x \"a\" | \"b\"", "left recursion"},
        {GRAMMAR_GBNF,
         "root ::= a a a\na ::= [a]{60000} [b]{60000} [c]{60000} [d]{60000} [e]{60000} [f]{60000} [g]{60000} "
         "[h]{60000} "
         "[i]{60000}",
         "too large"},
        {GRAMMAR_GBNF, "root ::= \"a\"{99999999999}", "a repetition of more than"},
        {GRAMMAR_REGEX, "a(b", "character 4: a ) is missing"},
        {GRAMMAR_REGEX, "(a)\\1", "a reference back"},
        {GRAMMAR_REGEX, "a(?=b)", "looking around"},
        {GRAMMAR_REGEX, "a$b", "^ and $"},
        {GRAMMAR_REGEX, "*a", "nothing to repeat"},
        {GRAMMAR_REGEX, "a)", ") without ("},
        {GRAMMAR_JSON_SCHEMA, "{", "line 1"},
        {GRAMMAR_JSON_SCHEMA, "{\"not\": {}}", "#/not: "},
        {GRAMMAR_JSON_SCHEMA, "{\"properties\": {\"a\": {\"type\": \"strin\"}}}", "#/properties/a: type is"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"contains\": true}}", "#/items/contains: "},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\": \"http://x.org/y\"}", "#/$ref: only references within"},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\": \"#/$defs/x\"}", "#/$ref: it leads nowhere"},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\": \"#\"}", "left recursion"},
        {GRAMMAR_JSON_SCHEMA, "{\"allOf\": [{\"$ref\": \"#\"}]}", "nest too deeply"},
        {GRAMMAR_JSON_SCHEMA, "{\"oneOf\": [{\"type\": \"number\"}, {\"type\": \"integer\"}]}",
         "#/oneOf/1: a value may fit"},
        {GRAMMAR_JSON_SCHEMA, "{\"oneOf\": [{\"required\": [\"a\"]}, {\"required\": [\"b\"]}]}",
         "#/oneOf/1: a value may fit"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"pattern\": [\"a\"]}}", "#/items/pattern: it is a string"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"pattern\": \"a.*b.*c\", \"maxLength\": 9000}}",
         "#/items: pattern, format"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"pattern\": \"^[a$\", \"maxLength\": 2}}",
         "#/items/pattern: the pattern's"},
        {GRAMMAR_JSON_SCHEMA, "{\"pattern\": \"^a{3}$\", \"maxLength\": 2}", "no text fits"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"oneOf\": []}}", "#/items: anyOf and oneOf are lists"},
        {GRAMMAR_JSON_SCHEMA, "{\"anyOf\": 7}", "#: anyOf and oneOf are lists"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"multipleOf\": 0}}", "#/items/multipleOf: only multiples"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"multipleOf\": 0.01}}", "#/items/multipleOf: only multiples"},
        {GRAMMAR_JSON_SCHEMA, "{\"patternProperties\": {\"a\": {}, \"b\": {}}}",
         "#/patternProperties: only one pattern"},
        {GRAMMAR_JSON_SCHEMA, "{\"allOf\": [{}, {\"not\": {}}]}", "#/allOf/1/not: "},
        {GRAMMAR_JSON_SCHEMA,
         "{\"allOf\": [{\"patternProperties\": {\"a\": true}}, {\"additionalProperties\": {\"type\": "
         "\"null\"}}]}",
         "#/allOf/1: patternProperties and additionalProperties"},
        {GRAMMAR_JSON_SCHEMA, "{\"format\": \"color\"}", "#/format: no format that palaver knows"},
        {GRAMMAR_REGEX, "\\ud800a", "half a character"},
        {GRAMMAR_JSON_SCHEMA, "false", "no text fits"},
        {GRAMMAR_JSON_SCHEMA, "{\"pattern\": \"(?=a)\"}",
         "#/pattern: the pattern's character 4: looking around"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}",
         "no text fits"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        Error error = {0};
        Grammar *grammar;
        if (!grammar_compile(all[i].kind, all[i].text, strlen(all[i].text), &grammar, &error))
            fail_msg("%s: was taken", all[i].text);
        if (!strstr(error.message, all[i].why))
            fail_msg("%s: %s, not %s", all[i].text, error.message, all[i].why);
        assert_null(grammar);
    }
}

// What a hostile schema would compare or write out without end is refused soon, with one line. `piece` is repeated with
// numbers for its %d.
static void hostile(void **state) {
    (void)state;
    static const struct {
        const char *begin, *piece, *end, *why;
        int n;
    } all[] = {
        {"{\"required\": [", "\"%d\",", "\"\"]}", "too many names or values to be compared", 60000},
        {"{\"allOf\": [{\"required\": [\"\"]}, {\"required\": [", "\"%d\",", "\"\"]}]}", "too many", 60000},
        {"{\"oneOf\": [", "{\"const\": %d},", "true]}", "too many schemas to be told apart", 10000},
        {"{\"oneOf\": [", "{\"enum\": [%d, \"a\"]},", "true]}", "#/oneOf/1: a value may fit", 200},
        {"{\"anyOf\": [", "{\"const\": %d},", "true]}", "or there are too many", 20000},
        {"{\"allOf\": [", "{\"anyOf\": [{\"minLength\": %d}, {\"maxLength\": 9}]},", "true]}",
         "anyOf: it is asked for twice", 40},
        {"{\"properties\": {", "\"a%d\": {\"maxLength\": 60000},", "\"\": {}}}", "too large", 60},
        {"", "{\"items\": ", "", "line 1", 3000},
        {"{\"pattern\": \"", "(a{0,%d}", "\"}", "too many groups", 1000},
        {"{\"pattern\": \"^[^", "\\\\u{1%04d}", "]\"}", "too many characters", 9999},
        {"{\"pattern\": \"", "\\\\p{L%d}", "\"}", "this escape", 1},
        {"{\"pattern\": \"", "\xff%d", "\"}", "not UTF-8", 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *text = malloc(1 << 20);
        assert_non_null(text);
        size_t n = (size_t)sprintf(text, "%s", all[i].begin);
        for (int k = 0; k < all[i].n; k++) n += (size_t)snprintf(text + n, 128, all[i].piece, k);
        n += (size_t)sprintf(text + n, "%s", all[i].end);
        Error error = {0};
        Grammar *grammar;
        if (!grammar_compile(GRAMMAR_JSON_SCHEMA, text, n, &grammar, &error))
            fail_msg("%s%s: was taken", all[i].begin, all[i].piece);
        if (!strstr(error.message, all[i].why))
            fail_msg("%s%s: %s", all[i].begin, all[i].piece, error.message);
        free(text);
    }
}

// ---- masks --------------------------------------------------------------------------------------------------------

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
        {GRAMMAR_GBNF, ARITHMETIC},
        {GRAMMAR_GBNF, JSON},
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
        Grammar *grammar = compile(all[i].kind, all[i].text);
        for (int k = 0; k < 2; k++) {
            char *text = draw_text(&talk, grammar, 40);
            if (!text) continue;
            n_ended++;
            assert_true(fits(all[i].kind, all[i].text, text));
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
        Grammar *grammar = compile(GRAMMAR_REGEX, pattern);
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
        Grammar *g = compile(GRAMMAR_REGEX, pattern);
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
    Grammar *g = compile(GRAMMAR_REGEX, "(.*a.{0,10000}){2}|x");
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
        cmocka_unit_test(gbnf),
        cmocka_unit_test(regex),
        cmocka_unit_test(schema),
        cmocka_unit_test(refused),
        cmocka_unit_test(hostile),
        cmocka_unit_test(masks_are_tokens_that_fit),
        {"masks_without_classes", masks_are_tokens_that_fit, NULL, NULL, &without_classes},
        cmocka_unit_test(masks_of_any_pattern),
        {"masks_of_any_pattern_without_classes", masks_of_any_pattern, NULL, NULL, &without_classes},
        cmocka_unit_test(patterns_as_elsewhere),
        cmocka_unit_test(too_many_ways),
    };
    return test_main("grammar", argc, argv, tests);
}
