#include "engine/grammar/grammar_internal.h"

#include "engine/grammar/gbnf.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema/schema.h"
#include "kernels/base/text/utf8.h"

#include <stdlib.h>
#include <string.h>

static void build(GrammarKind kind, Builder *builder, const char *text, size_t size) {
    switch (kind) {
    case GRAMMAR_GBNF:
        gbnf_read(builder, text, size);
        break;
    case GRAMMAR_REGEX: {
        int root = expr_rule(builder, "regex", 5);
        expr_define(builder, root, regex_read(builder, text, size, REGEX_WHOLE));
        break;
    }
    case GRAMMAR_JSON_SCHEMA:
        schema_read(builder, text, size);
        break;
    }
}

Status grammar_compile(GrammarKind kind, const char *text, size_t size, Grammar **out, Error *error) {
    *out = NULL;
    if (size > GRAMMAR_MOST_BYTES)
        return error_set(error, STATUS_UNSUPPORTED, "it is longer than %d KB", GRAMMAR_MOST_BYTES >> 10);
    size_t valid = utf8_valid_run(text, size);
    if (valid < size) return error_set(error, STATUS_USAGE, "byte %zu is not UTF-8", valid + 1);
    Grammar *g = calloc(1, sizeof *g);
    char *copy = malloc(size + 1);
    if (!g || !copy) {
        free(g);
        free(copy);
        return error_no_memory(error, "a grammar");
    }
    memcpy(copy, text, size);
    copy[size] = 0;
    *g = (Grammar){.kind = kind, .text = copy, .size = size, .references = 1};
    Builder builder;
    expr_open(&builder);
    build(kind, &builder, copy, size);
    Status status = net_make(&builder, &g->net, error);
    expr_close(&builder);
    if (!status && !regions_find(&g->net, &g->regions)) status = error_no_memory(error, "a grammar");
    if (status)
        grammar_close(g);
    else
        *out = g;
    return status;
}

Grammar *grammar_share(Grammar *g) {
    if (g) g->references++;
    return g;
}

bool grammar_no_memory(Grammar *g) {
    g->states.error.status = error_no_memory(&g->states.error, "a grammar");
    return false;
}

void grammar_free_room(Grammar *g) {
    free(g->line);
    free(g->found);
    free(g->left);
    free(g->ended);
    free(g->places);
    free(g->based);
    g->line = g->found = g->left = g->ended = NULL;
    g->places = NULL;
    g->based = NULL;
}

void grammar_close(Grammar *g) {
    if (!g || --g->references > 0) return;
    if (g->vocabulary) states_close(&g->states);
    vocabulary_close(g->vocabulary);
    net_free(&g->net);
    grammar_free_room(g);
    regions_free(&g->regions);
    for (size_t i = 0; i < g->n_units; i++) free(g->units[i].unit);
    free(g->units);
    free(g->text);
    free(g);
}

bool grammar_is(const Grammar *g, GrammarKind kind, const char *text, size_t size) {
    return g && g->kind == kind && g->size == size && !memcmp(g->text, text, size);
}
