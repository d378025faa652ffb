// Constants, and schemas of which any or one must fit.
#include "engine/grammar/schema/schema_internal.h"
#include "kernels/base/text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_type(const json_t *value, const char *type) {
    double number = json_number_value(value);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return !strcmp(type, "object");
    case JSON_ARRAY:
        return !strcmp(type, "array");
    case JSON_STRING:
        return !strcmp(type, "string");
    case JSON_NULL:
        return !strcmp(type, "null");
    case JSON_TRUE:
    case JSON_FALSE:
        return !strcmp(type, "boolean");
    default:
        return !strcmp(type, "number") ||
               (!strcmp(type, "integer") && (json_is_integer(value) || number == (double)(long long)number));
    }
}

static bool has_one_type(const json_t *value, const json_t *types) {
    if (!types) return true;
    if (json_is_string(types)) return has_type(value, json_string_value(types));
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type && has_type(value, type)) return true;
    }
    return false;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// One of words [n], sorted, which share their first `at` bytes: what more of them share is written once, so that few
// places are open at a time.
static Expr of_words(Schema *s, char **words, size_t n, size_t at, int depth) {
    Builder *b = s->builder;
    Expr whole = EXPR_NEVER;
    if (depth > SCHEMA_DEEPEST_WORDS) { // as it is
        for (size_t i = 0; i < n; i++) whole = expr_alt(b, whole, schema_word(s, words[i] + at));
        return whole;
    }
    size_t end;
    for (size_t i = 0; i < n && !schema_failed(s); i = end) {
        size_t shared = strlen(words[i]);
        for (end = i + 1; end < n && words[end][at] && words[end][at] == words[i][at]; end++)
            for (size_t k = at; k < shared; k++)
                if (words[end][k] != words[i][k]) shared = k;
        while (end < n && !strcmp(words[end], words[i])) end++; // the same again
        Expr word = expr_text(b, words[i] + at, shared - at);
        if (end > i + 1 && shared > at)
            word = expr_seq(b, word, of_words(s, words + i, end - i, shared, depth + 1));
        whole = expr_alt(b, whole, word);
    }
    return whole;
}

Expr schema_enum(Schema *s, json_t *json, const json_t *values) {
    static const char *const alone[] = {"anyOf",
                                        "oneOf",
                                        "properties",
                                        "required",
                                        "additionalProperties",
                                        "items",
                                        "prefixItems",
                                        "minItems",
                                        "maxItems",
                                        "pattern",
                                        "format",
                                        "minLength",
                                        "maxLength",
                                        "minimum",
                                        "maximum",
                                        "exclusiveMinimum",
                                        "exclusiveMaximum",
                                        "multipleOf",
                                        "minProperties",
                                        "maxProperties",
                                        "patternProperties",
                                        "propertyNames",
                                        NULL};
    if (!json_is_array(values)) schema_wrong(s, "enum is a list");
    json_t *rest = schema_says(json, alone) ? schema_keep(s, json_copy(json)) : NULL;
    if (rest && json_object_del(rest, "enum"))
        expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
    const size_t n_values = json_array_size(values);
    char **words = calloc(n_values + 1, sizeof *words);
    size_t n = 0;
    if (!words) {
        expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
        return EXPR_NEVER;
    }
    for (size_t i = 0; i < n_values && !schema_failed(s); i++) {
        json_t *value = json_array_get(values, i);
        if (!has_one_type(value, json_object_get(json, "type"))) continue;
        if (rest && (json_is_object(value) || json_is_array(value) || json_is_real(value)))
            schema_refuse(s,
                          "of enum and const only words and whole numbers can stand beside other keywords");
        if (rest && !schema_fits(s, rest, value)) continue;
        words[n] = json_compact(value);
        if (!words[n++]) expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
    }
    Expr whole = EXPR_NEVER;
    if (!schema_failed(s)) {
        qsort(words, n, sizeof *words, by_text);
        whole = of_words(s, words, n, 0, 0);
    }
    for (size_t i = 0; i < n; i++) free(words[i]);
    free(words);
    return whole;
}

// Refuses oneOf where a value may fit the i-th schema and one before it.
static void tell_apart(Schema *s, json_t **flat, size_t i) {
    for (size_t k = 0; k < i && !schema_failed(s); k++)
        if (!schema_disjoint(s, flat[i], flat[k]))
            schema_refuse(s, "a value may fit it and another one of oneOf: that cannot be decided as text is "
                             "written (anyOf can)");
}

Expr schema_choice(Schema *s, json_t *json, const char *keyword) {
    json_t *list = json_object_get(json, keyword), *rest = schema_keep(s, json_copy(json));
    const size_t n = json_array_size(list);
    const bool one = !strcmp(keyword, "oneOf");
    Expr whole = EXPR_NEVER;
    if (!n) {
        schema_wrong(s, "anyOf and oneOf are lists of schemas");
        return EXPR_NEVER;
    }
    if (one && n > SCHEMA_MOST_PAIRS / n) schema_refuse(s, "too many schemas to be told apart");
    json_t **flat = calloc(n + 1, sizeof *flat);
    if (!flat || !rest || json_object_del(rest, keyword)) {
        expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
        free(flat);
        return EXPR_NEVER;
    }
    for (size_t i = 0; i < n && !schema_failed(s); i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        const size_t path = schema_enter(s, keyword, name);
        const bool beside = json_object_size(rest) > 0;
        if (one || beside) flat[i] = schema_merge(s, rest, json_array_get(list, i));
        if (one) tell_apart(s, flat, i);
        // A reference that stands alone stays one, so that recursion comes to an end.
        json_t *with = beside ? flat[i] : json_array_get(list, i);
        if (!schema_failed(s)) whole = expr_alt(s->builder, whole, schema_value(s, with));
        schema_leave(s, path);
    }
    free(flat);
    return whole;
}
