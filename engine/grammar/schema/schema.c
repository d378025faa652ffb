#include "engine/grammar/schema/schema.h"

#include "engine/grammar/regex.h"
#include "engine/grammar/schema/schema_internal.h"
#include "kernels/base/text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool schema_failed(const Schema *s) {
    return s->builder->error.status != STATUS_OK;
}

// The path, as an error shows it: a long one without its middle.
static void say_at(const Schema *s, Error *error, Status status, const char *what) {
    enum { BEGINNING = 80, END = 40 };
    const char *first = s->path_size > 2 * BEGINNING ? strchr(s->path + BEGINNING, '/') : NULL;
    const char *last = first ? strchr(s->path + s->path_size - END, '/') : NULL;
    if (last)
        error_set(error, status, "#%.*s/…%s: %s", (int)(first - s->path), s->path, last, what);
    else
        error_set(error, status, "#%s: %s", s->path, what);
}

static void fail_at(Schema *s, Status status, const char *what) {
    Error error;
    say_at(s, &error, status, what);
    expr_fail(s->builder, status, "%s", error.message);
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
    char *text = json_compact(value);
    Expr literal = EXPR_NOTHING;
    if (text)
        literal = schema_word(s, text);
    else
        expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
    free(text);
    return literal;
}

bool schema_says(const json_t *json, const char *const *words) {
    for (; *words; words++)
        if (json_object_get(json, *words)) return true;
    return false;
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
    if (schema_says(json, of_object)) return schema_object(s, json);
    if (schema_says(json, of_array)) return schema_array(s, json);
    if (schema_says(json, of_string)) return schema_string(s, json);
    if (schema_says(json, of_number)) return schema_number(s, json, false);
    return schema_common(s, SCHEMA_VALUE);
}

static Expr of_flat(Schema *s, json_t *json) {
    const json_t *types = json_object_get(json, "type"), *values = json_object_get(json, "enum");
    if (json_is_true(json)) return schema_common(s, SCHEMA_VALUE);
    if (json_is_false(json)) return EXPR_NEVER;
    if (values) return schema_enum(s, json, values);
    if (json_object_get(json, "anyOf")) return schema_choice(s, json, "anyOf");
    if (json_object_get(json, "oneOf")) return schema_choice(s, json, "oneOf");
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
        // false is often meant: that a property is not there.
        if (value == EXPR_NEVER && !json_is_false(flat) && !s->builder->never.status)
            say_at(s, &s->builder->never, STATUS_USAGE, "no text fits");
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
        expr_fail(builder, STATUS_USAGE, "line %d, column %d: %s", why.line, why.column, json_problem(&why));
    else
        expr_define(builder, root, schema_value(&s, s.root));
    json_decref(s.root);
    json_decref(s.rules);
    json_decref(s.made);
    json_decref(s.together);
}
