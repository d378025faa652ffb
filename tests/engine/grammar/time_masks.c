// What a grammar costs a token: the mask and taking the token, on one core. Prints a table as
// engine/grammar/MEASUREMENTS.md has it.
//
//     make build/time-masks && build/time-masks FOLDER      a folder with a tokenizer (tokenizer.json …)
//
// Each text is written token by token three times: by a vocabulary that knows nothing yet, by the grammar compiled anew
// (what was found for the vocabulary is known), and by that grammar again.
#include "engine/grammar/matcher.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROSE                                                                                                  \
    "The harbour was quiet when the ship came in, and nobody on the quay had expected her before the "         \
    "spring tide. "                                                                                            \
    "She had lost a mast somewhere south of the islands; her sails were patched with whatever the crew "       \
    "could find: "                                                                                             \
    "blankets, sacks, even a painted banner from some forgotten feast. Mrs O'Neill, who kept the customs "     \
    "house, "                                                                                                  \
    "counted 17 barrels, 204 crates (three of them open) and one very old goat. Café owners - Müller among " \
    "them - "                                                                                                  \
    "offered soup."
#define LETTERS                                                                                              \
    "the harbour was quiet when the ship came in and nobody on the quay had expected her before the spring " \
    "tide "                                                                                                  \
    "she had lost a mast somewhere south of the islands her sails were patched with whatever the crew "      \
    "could find"
#define RECORD                                                                                               \
    "{\"name\": \"Mathilda O'Neill-Fernandez\", \"age\": 57, \"rank\": \"captain\", \"since\": "             \
    "\"1987-03-14T09:26:53Z\", \"notes\": [\"never late\", \"speaks Dutch, some Malay and a little "         \
    "Portuguese\", \"keeps a goat\"]}"
#define DOCUMENT                                                                                             \
    "{\"ship\": {\"name\": \"Aurora\", \"masts\": [{\"height\": 31.5, \"sails\": [\"fore\", \"top\"]}, "     \
    "{\"height\": "                                                                                          \
    "28, \"sails\": []}], \"lost\": null}, \"crew\": [\"Ann\", \"Bo\", \"Cid\"], \"log\": \"Left "           \
    "\\\"home\\\" at "                                                                                       \
    "dawn.\\nWind from the west; rain.\", \"paid\": true, \"sum\": -1.25e+10}"

typedef struct Case {
    const char *name;
    GrammarKind kind;
    const char *grammar, *text;
} Case;

static const Case cases[] = {
    {"`{\"type\": \"object\"}`, any JSON", GRAMMAR_JSON_SCHEMA, "{\"type\": \"object\"}", DOCUMENT},
    {"schema: strings, integers, enum, date-time, list", GRAMMAR_JSON_SCHEMA,
     "{\"properties\": {\"name\": {\"type\": \"string\"}, \"age\": {\"type\": \"integer\", \"minimum\": 0, "
     "\"maximum\": "
     "150}, \"rank\": {\"enum\": [\"mate\", \"captain\", \"cook\"]}, \"since\": {\"format\": \"date-time\"}, "
     "\"notes\": "
     "{\"items\": {\"type\": \"string\", \"maxLength\": 60}, \"maxItems\": 5}}, \"required\": [\"name\", "
     "\"age\", "
     "\"rank\", \"since\"], \"additionalProperties\": false}",
     RECORD},
    {"schema: string, `maxLength` 1,000", GRAMMAR_JSON_SCHEMA, "{\"type\": \"string\", \"maxLength\": 1000}",
     "\"" PROSE "\""},
    {"schema: string, `minLength` 440, `maxLength` 448", GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"string\", \"minLength\": 440, \"maxLength\": 448}", "\"" PROSE "\""},
    {"schema: `pattern` `^[a-z ]{10,220}$`", GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"string\", \"pattern\": \"^[a-z ]{10,220}$\"}", "\"" LETTERS "\""},
    {"schema: `pattern` `^[a-z ]+$` with `maxLength` 250", GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"string\", \"pattern\": \"^[a-z ]+$\", \"maxLength\": 250}", "\"" LETTERS "\""},
    {"schema: `pattern` `^[a-z]+( [a-z]+)*$` with `maxLength` 250", GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"string\", \"pattern\": \"^[a-z]+( [a-z]+)*$\", \"maxLength\": 250}", "\"" LETTERS "\""},
    {"regex `.{0,600}`", GRAMMAR_REGEX, ".{0,600}", PROSE},
    {"regex `([A-Za-z]+[,.;]? ?)+`", GRAMMAR_REGEX, "([A-Za-z]+[,.;]? ?)+", LETTERS},
    {"regex `([a-z]{1,12} ?){1,60}`", GRAMMAR_REGEX, "([a-z]{1,12} ?){1,60}", LETTERS},
    {"regex `[a-z]+( [a-z]+){0,60}`", GRAMMAR_REGEX, "[a-z]+( [a-z]+){0,60}", LETTERS},
    {"GBNF, lines of any text", GRAMMAR_GBNF, "root ::= (\"- \" [^\\n]+ \"\\n\"){1,9}",
     "- " PROSE "\n- " LETTERS "\n- " PROSE "\n"},
    {"GBNF, arithmetic", GRAMMAR_GBNF,
     "root ::= (expr \"=\" ws expr \"\\n\")+\nexpr ::= term ([-+*/] ws term)*\nterm ::= ident | num | \"(\" "
     "ws "
     "expr \")\" "
     "ws\nident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*\n",
     "(price + tax) * 12 - (12 * rebate_per_item) / (a1 + b2) = total\nsum * (sum - 144) = zero\n"},
};

static _Noreturn void stop(const char *what, const Error *error) {
    fprintf(stderr, "%s: %s\n", what, error->message);
    exit(1);
}

// What this thread has computed, whoever else has the core meanwhile.
static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

// Writes the text; prints what getting ready took, the median, the mean, the 99th
// percentile and the most in microseconds.
static void time_text(const Case *c, Grammar *grammar, Vocabulary *v, const Tokens *tokens, bool again) {
    Matcher *matcher;
    Error error;
    const uint32_t *mask;
    int32_t end = tokenizer_eos(v->tokenizer);
    double times[4096], begin = seconds();
    size_t n = 0;
    if (matcher_open(grammar, v, &end, end >= 0, &matcher, &error)) stop(c->name, &error);
    if (!again) printf(" | %.0f", 1e6 * (seconds() - begin));
    begin = seconds();
    for (int64_t i = 0; i < tokens->n && n < 4096; i++) {
        const int32_t previous = i ? tokens->ids[i - 1] : -1, id = tokens->ids[i];
        size_t size;
        const char *bytes = tokenizer_bytes(v->tokenizer, previous, id, false, &size);
        if (matcher_mask(matcher, previous, &mask, &error)) stop(c->name, &error);
        bool fits = mask[id / 32] >> (id % 32) & 1;
        if (matcher_accept(matcher, bytes, size, &error)) stop(c->name, &error);
        const double now = seconds();
        times[n++] = 1e6 * (now - begin);
        begin = now;
        if (!fits) printf("token %d does not fit\n", id);
    }
    if (!matcher_may_end(matcher)) printf("the text does not end\n");
    matcher_close(matcher);
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += times[i];
    qsort(times, n, sizeof *times, by_value);
    printf(" | %.1f, %.0f, %.0f, %.0f", times[n / 2], sum / (double)n, times[(n * 99 - 1) / 100],
           times[n - 1]);
}

int main(int argc, char **argv) {
    Tokenizer *tokenizer;
    Error error;
    if (argc != 2) return fprintf(stderr, "usage: time-masks FOLDER\n"), 2;
    if (tokenizer_open_folder(argv[1], &tokenizer, &error)) stop(argv[1], &error);
    printf("microseconds of one core a token: median, mean, 99th percentile, most; %lld tokens\n\n"
           "| grammar | tokens | compiling | ready | nothing known | ready | compiled anew | again "
           "|\n|---|---|---|---|---|---|---|---|\n",
           (long long)tokenizer_size(tokenizer));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        Tokens tokens = {0};
        Vocabulary *v;
        Grammar *grammar;
        if (tokenizer_encode(tokenizer, c->text, strlen(c->text), false, &tokens, &error) ||
            vocabulary_open(tokenizer, (int)tokenizer_size(tokenizer), &v, &error))
            stop(c->name, &error);
        printf("| %s | %lld", c->name, (long long)tokens.n);
        for (int again = 0; again < 2; again++) {
            const double begin = seconds();
            if (grammar_compile(c->kind, c->grammar, strlen(c->grammar), &grammar, &error))
                stop(c->name, &error);
            if (!again) printf(" | %.0f", 1e6 * (seconds() - begin));
            time_text(c, grammar, v, &tokens, false);
            if (again) time_text(c, grammar, v, &tokens, true);
            grammar_close(grammar);
        }
        printf(" |\n");
        vocabulary_close(v);
        free(tokens.ids);
    }
    tokenizer_close(tokenizer);
    return 0;
}
