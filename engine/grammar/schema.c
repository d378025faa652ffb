#include "engine/grammar/schema.h"

#include "engine/grammar/regex.h"
#include "engine/grammar/schema_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool schema_failed(const Schema *s) {
    return s->builder->error.status != STATUS_OK;
}

// The path, as an error shows it: a long one without its middle.
static void fail_at(Schema *s, Status status, const char *what) {
    enum { BEGINNING = 80, END = 40 };
    const char *first = s->path_size > 2 * BEGINNING ? strchr(s->path + BEGINNING, '/') : NULL;
    const char *last = first ? strchr(s->path + s->path_size - END, '/') : NULL;
    if (last)
        expr_fail(s->builder, status, "#%.*s/…%s: %s", (int)(first - s->path), s->path, last, what);
    else
        expr_fail(s->builder, status, "#%s: %s", s->path, what);
}

void schema_wrong(Schema *s, const char *what) {
    fail_at(s, STATUS_USAGE, what);
}

void schema_refuse(Schema *s, const char *what) {
    fail_at(s, STATUS_UNSUPPORTED, what);
}

bool schema_spend(Schema *s, size_t steps) {
    s->steps += steps;
    if (s->steps > SCHEMA_MOST_STEPS) schema_refuse(s, "too many names or values to be compared");
    return !schema_failed(s);
}

size_t schema_enter(Schema *s, const char *keyword, const char *name) {
    size_t before = s->path_size, room = sizeof s->path - before;
    int n = snprintf(s->path + before, room, name ? "/%s/%s" : "/%s", keyword, name);
    s->path_size += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
    return before;
}

void schema_leave(Schema *s, size_t path_size) {
    if (schema_failed(s)) return; // the error has told it
    s->path[path_size] = 0;
    s->path_size = path_size;
}

Expr schema_word(Schema *s, const char *text) {
    return expr_text(s->builder, text, strlen(text));
}

Expr schema_literal(Schema *s, json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    Expr literal = EXPR_NOTHING;
    if (text)
        literal = schema_word(s, text);
    else
        expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
    free(text);
    return literal;
}

int schema_count(Schema *s, const json_t *json, const char *keyword, int otherwise) {
    const json_t *value = json_object_get(json, keyword);
    if (!value) return otherwise;
    double count = json_is_number(value) ? json_number_value(value) : -1;
    size_t path = schema_enter(s, keyword, NULL);
    if (count < 0 || count != (double)(long long)count) schema_wrong(s, "it is a whole number from 0 on");
    if (count > EXPR_MOST_REPEATS) schema_refuse(s, "it is too large");
    schema_leave(s, path);
    return schema_failed(s) ? otherwise : (int)count;
}

// ---- what all have in common --------------------------------------------------------------------------------------

static Expr by_pattern(Schema *s, const char *pattern) {
    return regex_read(s->builder, pattern, strlen(pattern), REGEX_WHOLE);
}

// A character of a JSON string, or its escape; surrogates come in pairs.
static Expr make_character(Schema *s) {
    return by_pattern(s, "[^\"\\\\\\x00-\\x1f\\x7f]|\\\\([\"\\\\/"
                         "bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|"
                         "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))");
}

// { } with any properties or [ ] with any elements; `member` is one of them.
static Expr make_list(Schema *s, const char *open, Expr member, const char *close) {
    Builder *b = s->builder;
    Expr more = expr_seq(b, schema_word(s, ","), expr_seq(b, expr_optional(b, schema_word(s, " ")), member));
    Expr members = expr_optional(b, expr_seq(b, member, expr_repeat(b, more, 0, -1)));
    return expr_seq(b, schema_word(s, open), expr_seq(b, members, schema_word(s, close)));
}

static Expr make_value(Schema *s) {
    Builder *b = s->builder;
    Expr value = schema_common(s, SCHEMA_VALUE), string = schema_common(s, SCHEMA_STRING);
    Expr colon = expr_seq(b, schema_word(s, ":"), expr_optional(b, schema_word(s, " ")));
    Expr any = make_list(s, "{", expr_seq(b, string, expr_seq(b, colon, value)), "}");
    any = expr_alt(b, any, make_list(s, "[", value, "]"));
    any = expr_alt(b, any, string);
    any = expr_alt(b, any, schema_common(s, SCHEMA_NUMBER));
    return expr_alt(b, any, by_pattern(s, "true|false|null"));
}

Expr schema_common(Schema *s, SchemaRule which) {
    static const char *const names[] = {"a value", "a string", "a character", "a number", "an integer"};
    Builder *b = s->builder;
    if (schema_failed(s)) return EXPR_NOTHING;
    if (s->common[which]) return expr_call(b, s->common[which] - 1);
    int rule = expr_rule(b, names[which], strlen(names[which]));
    s->common[which] = rule + 1;
    Expr body = EXPR_NOTHING;
    switch (which) {
    case SCHEMA_VALUE:
        body = make_value(s);
        break;
    case SCHEMA_STRING:
        body = expr_seq(b, schema_word(s, "\""), expr_repeat(b, make_character(s), 0, -1));
        body = expr_seq(b, body, schema_word(s, "\""));
        break;
    case SCHEMA_CHARACTER:
        body = make_character(s);
        break;
    case SCHEMA_NUMBER:
        body = by_pattern(s, "-?(0|[1-9][0-9]{0,15})(\\.[0-9]{1,16})?([eE][+-]?[0-9]{1,2})?");
        break;
    default:
        body = by_pattern(s, "-?(0|[1-9][0-9]{0,15})");
    }
    expr_define(b, rule, body);
    return expr_call(b, rule);
}

Expr schema_rule(Schema *s, json_t *json) {
    char name[32];
    if (schema_failed(s)) return EXPR_NOTHING;
    snprintf(name, sizeof name, "%p", (void *)json);
    const json_t *known = json_object_get(s->rules, name);
    if (known) return expr_call(s->builder, (int)json_integer_value(known));
    int rule = expr_rule(s->builder, s->path, strlen(s->path));
    if (json_object_set_new(s->rules, name, json_integer(rule)))
        expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
    expr_define(s->builder, rule, schema_value(s, json));
    return expr_call(s->builder, rule);
}

// ---- a schema -----------------------------------------------------------------------------------------------------

static bool says(const json_t *json, const char *const *words) {
    for (; *words; words++)
        if (json_object_get(json, *words)) return true;
    return false;
}

static Expr of_type(Schema *s, json_t *json, const char *type) {
    if (!strcmp(type, "object")) return schema_object(s, json);
    if (!strcmp(type, "array")) return schema_array(s, json);
    if (!strcmp(type, "string")) return schema_string(s, json);
    if (!strcmp(type, "number") || !strcmp(type, "integer")) return schema_number(s, json, *type == 'i');
    if (!strcmp(type, "boolean"))
        return expr_alt(s->builder, schema_word(s, "true"), schema_word(s, "false"));
    if (!strcmp(type, "null")) return schema_word(s, "null");
    schema_wrong(s, "type is null, boolean, object, array, number, integer, string, or a list of them");
    return EXPR_NOTHING;
}

static Expr untyped(Schema *s, json_t *json) {
    static const char *const of_object[] = {
        "properties",    "required",          "additionalProperties", "minProperties",
        "maxProperties", "patternProperties", "propertyNames",        NULL};
    static const char *const of_array[] = {"items", "prefixItems", "minItems", "maxItems", NULL};
    static const char *const of_string[] = {"pattern", "format", "minLength", "maxLength", NULL};
    static const char *const of_number[] = {"minimum",          "maximum",    "exclusiveMinimum",
                                            "exclusiveMaximum", "multipleOf", NULL};
    if (says(json, of_object)) return schema_object(s, json);
    if (says(json, of_array)) return schema_array(s, json);
    if (says(json, of_string)) return schema_string(s, json);
    if (says(json, of_number)) return schema_number(s, json, false);
    return schema_common(s, SCHEMA_VALUE);
}

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

static Expr of_enum(Schema *s, json_t *json, const json_t *values) {
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
    json_t *rest = says(json, alone) ? schema_keep(s, json_copy(json)) : NULL;
    if (rest && json_object_del(rest, "enum"))
        expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
    const size_t n_values = json_array_size(values);
    char **words = calloc(n_values + 1, sizeof *words);
    size_t n = 0;
    if (!words) expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
    for (size_t i = 0; i < n_values && !schema_failed(s); i++) {
        json_t *value = json_array_get(values, i);
        if (!has_one_type(value, json_object_get(json, "type"))) continue;
        if (rest && (json_is_object(value) || json_is_array(value) || json_is_real(value)))
            schema_refuse(s,
                          "of enum and const only words and whole numbers can stand beside other keywords");
        if (rest && !schema_fits(s, rest, value)) continue;
        words[n] = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
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

// anyOf or oneOf: each with all that stands beside it.
static Expr of_choice(Schema *s, json_t *json, const char *keyword) {
    json_t *list = json_object_get(json, keyword), *rest = schema_keep(s, json_copy(json));
    const size_t n = json_array_size(list);
    const bool one = !strcmp(keyword, "oneOf");
    Expr whole = EXPR_NEVER;
    if (!n) schema_wrong(s, "anyOf and oneOf are lists of schemas");
    if (one && n > SCHEMA_MOST_PAIRS / n) schema_refuse(s, "too many schemas to be told apart");
    json_t **flat = calloc(n + 1, sizeof *flat);
    if (!flat || !rest || json_object_del(rest, keyword))
        expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
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

static Expr of_flat(Schema *s, json_t *json) {
    const json_t *types = json_object_get(json, "type"), *values = json_object_get(json, "enum");
    if (json_is_true(json)) return schema_common(s, SCHEMA_VALUE);
    if (json_is_false(json)) return EXPR_NEVER;
    if (values) return of_enum(s, json, values);
    if (json_object_get(json, "anyOf")) return of_choice(s, json, "anyOf");
    if (json_object_get(json, "oneOf")) return of_choice(s, json, "oneOf");
    if (!types) return untyped(s, json);
    if (json_is_string(types)) return of_type(s, json, json_string_value(types));
    Expr whole = EXPR_NEVER;
    if (!json_is_array(types)) schema_wrong(s, "type is a word or a list of words");
    for (size_t i = 0; i < json_array_size(types) && !schema_failed(s); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        whole = expr_alt(s->builder, whole, of_type(s, json, type ? type : ""));
    }
    return whole;
}

// Where nothing stands beside a reference, it is a rule: so recursion comes to an end.
static json_t *lone_reference(const json_t *json) {
    static const char *const annotations[] = {"title",    "description", "default",
                                              "examples", "$comment",    NULL};
    size_t n = 1;
    for (const char *const *word = annotations; *word; word++) n += json_object_get(json, *word) != NULL;
    json_t *reference = json_object_get(json, "$ref");
    return reference && json_object_size(json) == n ? reference : NULL;
}

Expr schema_value(Schema *s, json_t *json) {
    if (schema_failed(s)) return EXPR_NOTHING;
    if (++s->count > SCHEMA_MOST || s->depth >= SCHEMA_DEEPEST) {
        schema_refuse(s, "schemas nest too deeply, or there are too many");
        return EXPR_NOTHING;
    }
    s->depth++;
    json_t *reference = lone_reference(json), *target = NULL, *flat = NULL;
    Expr value = EXPR_NOTHING;
    if (reference) {
        target = schema_target(s, reference);
        if (target) value = schema_rule(s, target);
    } else if ((flat = schema_flat(s, json)) != NULL) {
        value = of_flat(s, flat);
    }
    s->depth--;
    return value;
}

void schema_read(Builder *builder, const char *text, size_t size) {
    Schema s = {.builder = builder,
                .rules = json_object(),
                .made = json_array(),
                .together = json_string("together")};
    json_error_t why;
    s.root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    int root = expr_rule(builder, "#", 1);
    if (!s.rules || !s.made || !s.together)
        expr_fail(builder, STATUS_MEMORY, "no memory for a grammar");
    else if (!s.root)
        expr_fail(builder, STATUS_USAGE, "line %d, column %d: %s", why.line, why.column, why.text);
    else
        expr_define(builder, root, schema_value(&s, s.root));
    json_decref(s.root);
    json_decref(s.rules);
    json_decref(s.made);
    json_decref(s.together);
}
