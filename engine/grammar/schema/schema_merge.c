// References and allOf: schemas put together before anything is made of them.
#include "engine/grammar/schema/schema_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum Keyword {
    IGNORED = 1, // asks for nothing
    MERGED_MOST, // of two the larger counts
    MERGED_LEAST,
    MERGED_TYPES,
    MERGED_NAMES,  // a list: all of both
    MERGED_VALUES, // a list: what is in both
    MERGED_PROPERTIES,
    MERGED_SCHEMAS, // both must fit
    MERGED_TEXTS,   // a text, or a list of them: all of both
    MERGED_CHOICES, // a list: each of one with each of the other
    MERGED_MULTIPLES,
    EQUAL,    // two can only stand together where they are the same
    RESOLVED, // $ref, allOf, const
} Keyword;

static const struct {
    const char *name;
    Keyword keyword;
} keywords[] = {
    {"title", IGNORED},
    {"description", IGNORED},
    {"default", IGNORED},
    {"examples", IGNORED},
    {"deprecated", IGNORED},
    {"readOnly", IGNORED},
    {"writeOnly", IGNORED},
    {"$schema", IGNORED},
    {"$id", IGNORED},
    {"$comment", IGNORED},
    {"contentMediaType", IGNORED},
    {"contentEncoding", IGNORED},
    {"contentSchema", IGNORED},
    {"$defs", IGNORED},
    {"definitions", IGNORED},
    {"type", MERGED_TYPES},
    {"enum", MERGED_VALUES},
    {"properties", MERGED_PROPERTIES},
    {"required", MERGED_NAMES},
    {"additionalProperties", MERGED_SCHEMAS},
    {"items", MERGED_SCHEMAS},
    {"prefixItems", EQUAL},
    {"minItems", MERGED_MOST},
    {"maxItems", MERGED_LEAST},
    {"minProperties", MERGED_MOST},
    {"maxProperties", MERGED_LEAST},
    {"minLength", MERGED_MOST},
    {"maxLength", MERGED_LEAST},
    {"patternProperties", EQUAL},
    {"propertyNames", MERGED_SCHEMAS},
    {"pattern", MERGED_TEXTS},
    {"format", MERGED_TEXTS},
    {"minimum", MERGED_MOST},
    {"exclusiveMinimum", MERGED_MOST},
    {"maximum", MERGED_LEAST},
    {"exclusiveMaximum", MERGED_LEAST},
    {"multipleOf", MERGED_MULTIPLES},
    {"anyOf", MERGED_CHOICES},
    {"oneOf", MERGED_CHOICES},
    {"$ref", RESOLVED},
    {"allOf", RESOLVED},
    {"const", RESOLVED},
};

static Keyword keyword_of(const char *name) {
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (!strcmp(keywords[i].name, name)) return keywords[i].keyword;
    return 0;
}

static json_t *no_memory(Schema *s) {
    expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
    return NULL;
}

json_t *schema_keep(Schema *s, json_t *made) {
    if (!made || json_array_append_new(s->made, made)) return no_memory(s);
    return made;
}

json_t *schema_target(Schema *s, const json_t *reference) {
    const char *text = json_string_value(reference);
    size_t path = schema_enter(s, "$ref", NULL);
    json_t *at = s->root;
    if (!text || (*text && *text != '#'))
        schema_refuse(s, "only references within the schema (#/…) are followed");
    if (text && *text == '#' && text[1] && text[1] != '/')
        schema_refuse(s, "anchors are not followed: #/… is");
    if (!text || schema_failed(s)) return NULL;
    char *copy = strdup(*text ? text + 1 : "");
    if (!copy) return no_memory(s);
    char *rest = copy, *name;
    for (strsep(&rest, "/"); at && (name = strsep(&rest, "/")) != NULL;) {
        char *to = name;
        for (const char *from = name; *from; from++) { // ~1 is /, ~0 is ~, behind %XX's byte
            uint32_t byte = (unsigned char)*from;
            const char *digits = from + 1;
            if (byte == '%' && expr_hex(&digits, digits + strnlen(digits, 2), 2, &byte) == 2)
                from = digits - 1;
            bool tilde = byte == '~' && (from[1] == '0' || from[1] == '1');
            *to++ = tilde ? "~/"[*++from - '0'] : (char)byte;
        }
        *to = 0;
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10)) : json_object_get(at, name);
    }
    free(copy);
    if (!at) schema_wrong(s, "it leads nowhere");
    schema_leave(s, path);
    return at;
}

// ---- two keywords -------------------------------------------------------------------------------------------------

static bool type_allows(const json_t *types, const char *type) {
    const char *word = json_string_value(types);
    if (word) return !strcmp(word, type) || (!strcmp(word, "number") && !strcmp(type, "integer"));
    for (size_t i = 0; i < json_array_size(types); i++)
        if (type_allows(json_array_get(types, i), type)) return true;
    return false;
}

json_t *schema_both_types(json_t *one, json_t *other) {
    static const char *const all[] = {"null", "boolean", "object", "array", "number", "integer", "string"};
    json_t *both = json_array();
    bool number = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!type_allows(one, all[i]) || !type_allows(other, all[i])) continue;
        if (!number || strcmp(all[i], "integer") != 0) json_array_append_new(both, json_string(all[i]));
        number |= !strcmp(all[i], "number");
    }
    return both;
}

bool schema_has(Schema *s, const json_t *list, json_t *value) {
    if (!schema_spend(s, json_array_size(list))) return false;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value)) return true;
    return false;
}

static json_t *both_lists(Schema *s, json_t *one, json_t *other, bool all) {
    json_t *both = all ? json_copy(one) : json_array();
    for (size_t i = 0; i < json_array_size(other); i++)
        if (schema_has(s, one, json_array_get(other, i)) != all)
            json_array_append(both, json_array_get(other, i));
    return both;
}

static json_t *both_schemas(json_t *one, json_t *other) {
    return json_pack("{s:[O,O]}", "allOf", one, other);
}

static json_t *both_texts(Schema *s, json_t *one, json_t *other) {
    json_t *a = json_is_array(one) ? json_incref(one) : json_pack("[O,O]", s->together, one);
    json_t *b = json_is_array(other) ? json_incref(other) : json_pack("[O,O]", s->together, other);
    json_t *both = both_lists(s, a, b, true);
    json_decref(a);
    json_decref(b);
    if (json_array_size(both) > 2) return both;
    json_decref(both);
    return json_incref(one);
}

static json_t *both_properties(json_t *one, json_t *other) {
    json_t *both = json_copy(one), *value;
    const char *name;
    json_object_foreach(other, name, value) {
        json_t *known = json_object_get(one, name);
        json_object_set_new(both, name, known ? both_schemas(known, value) : json_incref(value));
    }
    return both;
}

// NULL: there would be too many.
static json_t *both_choices(json_t *one, json_t *other) {
    if (json_equal(one, other)) return json_incref(one);
    const size_t n = json_array_size(one), m = json_array_size(other);
    if (!n || !m || n > SCHEMA_MOST_PAIRS / m) return NULL;
    json_t *both = json_array();
    for (size_t i = 0; i < n * m; i++)
        json_array_append_new(both, both_schemas(json_array_get(one, i / m), json_array_get(other, i % m)));
    return both;
}

// The least common multiple of whole numbers; NULL: it is too large, or they are none.
static json_t *both_multiples(json_t *one, json_t *other) {
    if (json_equal(one, other)) return json_incref(one);
    json_int_t a = json_integer_value(one), b = json_integer_value(other), x = a, y = b;
    if (a <= 0 || b <= 0 || a > INT32_MAX || b > INT32_MAX) return NULL;
    while (y) {
        const json_int_t rest = x % y;
        x = y;
        y = rest;
    }
    return json_integer(a / x * b);
}

// What a keyword becomes that both have; NULL: it cannot be, or there is no memory.
static json_t *both_values(Schema *s, const char *name, json_t *one, json_t *other) {
    double a = json_number_value(one), b = json_number_value(other);
    json_t *both;
    switch (keyword_of(name)) {
    case MERGED_MOST:
        return json_incref(a >= b ? one : other);
    case MERGED_LEAST:
        return json_incref(a <= b ? one : other);
    case MERGED_TYPES:
        return schema_both_types(one, other);
    case MERGED_NAMES:
        return both_lists(s, one, other, true);
    case MERGED_VALUES:
        return both_lists(s, one, other, false);
    case MERGED_PROPERTIES:
        return both_properties(one, other);
    case MERGED_SCHEMAS:
        return both_schemas(one, other);
    case IGNORED:
        return json_incref(one);
    case MERGED_TEXTS:
        both = both_texts(s, one, other);
        break;
    case MERGED_CHOICES:
        both = both_choices(one, other);
        break;
    case MERGED_MULTIPLES:
        both = both_multiples(one, other);
        break;
    default:
        both = json_equal(one, other) ? json_incref(one) : NULL;
    }
    if (both) return both;
    schema_enter(s, name, NULL);
    schema_refuse(s, "it is asked for twice, and differs");
    return NULL;
}

// Properties that only `from` lists are, for `to`, additional ones.
static void limit_properties(json_t *made, const json_t *from, const json_t *to) {
    json_t *extra = json_object_get(to, "additionalProperties"), *value;
    const json_t *own = json_object_get(to, "properties");
    json_t *all = json_object_get(made, "properties");
    const char *name;
    if (!extra || json_is_true(extra)) return;
    json_object_foreach(json_object_get(from, "properties"), name, value) {
        if (!json_object_get(own, name)) json_object_set_new(all, name, both_schemas(value, extra));
    }
}

// Whether names that one has patterns for are, for the other, additional ones that it asks something of.
static bool mixes_patterns(const json_t *one, const json_t *other) {
    const json_t *extra = json_object_get(other, "additionalProperties");
    return json_object_get(one, "patternProperties") && extra && !json_is_true(extra) &&
           !json_equal(json_object_get(one, "patternProperties"),
                       json_object_get(other, "patternProperties"));
}

json_t *schema_merge(Schema *s, json_t *one, json_t *other) {
    one = schema_flat(s, one);
    other = schema_flat(s, other);
    if (!one || !other) return NULL;
    if (json_is_false(one) || json_is_true(other)) return one;
    if (json_is_false(other) || json_is_true(one)) return other;
    if (mixes_patterns(one, other) || mixes_patterns(other, one))
        schema_refuse(s, "patternProperties and additionalProperties of schemas that must both fit");
    bool prefix = json_object_get(one, "prefixItems") || json_object_get(other, "prefixItems");
    if (prefix && json_object_get(one, "items") != json_object_get(other, "items") &&
        !json_equal(json_object_get(one, "prefixItems"), json_object_get(other, "prefixItems")))
        schema_refuse(s, "prefixItems and items of schemas that must both fit");
    json_t *made = schema_keep(s, json_copy(one)), *value;
    const char *name;
    if (!made) return NULL;
    json_object_foreach(other, name, value) {
        json_t *known = json_object_get(made, name);
        json_t *both = known ? both_values(s, name, known, value) : json_incref(value);
        if (!both || json_object_set_new(made, name, both)) return schema_failed(s) ? NULL : no_memory(s);
    }
    json_t *properties = json_object_get(made, "properties");
    if (properties) { // a copy of its own, to be changed
        if (json_object_set_new(made, "properties", json_copy(properties))) return no_memory(s);
        limit_properties(made, one, other);
        limit_properties(made, other, one);
    }
    return schema_failed(s) ? NULL : made;
}

// ---- one schema ---------------------------------------------------------------------------------------------------

// Keywords that only speak beside another one, or of what is not asked for.
static bool asks_nothing(const json_t *json, const char *name, const json_t *value) {
    if (!strcmp(name, "uniqueItems")) return json_is_false(value);
    if (!strcmp(name, "unevaluatedItems") || !strcmp(name, "unevaluatedProperties"))
        return json_is_true(value);
    if (!strcmp(name, "minContains") || !strcmp(name, "maxContains"))
        return !json_object_get(json, "contains");
    if (!strcmp(name, "then") || !strcmp(name, "else")) return !json_object_get(json, "if");
    return !strcmp(name, "if") && !json_object_get(json, "then") && !json_object_get(json, "else");
}

static void check_keywords(Schema *s, const json_t *json) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json, name, value) {
        if (keyword_of(name) || !strncmp(name, "x-", 2) || asks_nothing(json, name, value)) continue;
        schema_enter(s, name, NULL);
        schema_refuse(s, "palaver cannot write by this keyword");
        return;
    }
}

// The keywords that stand for themselves.
static json_t *own_keywords(Schema *s, json_t *json) {
    json_t *made = schema_keep(s, json_object()), *value;
    const char *name;
    if (!made) return NULL;
    json_object_foreach(json, name, value) {
        Keyword keyword = keyword_of(name);
        if (keyword == MERGED_TEXTS && !json_is_string(value) && json_array_get(value, 0) != s->together) {
            const size_t path = schema_enter(s, name, NULL);
            schema_wrong(s, "it is a string");
            schema_leave(s, path);
            return NULL;
        }
        if (keyword != IGNORED && keyword != RESOLVED && keyword && json_object_set(made, name, value))
            return no_memory(s);
    }
    json_t *only = json_object_get(json, "const"), *values = json_object_get(json, "enum");
    if (only && values && !schema_has(s, values, only)) return json_false();
    if (only && json_object_set_new(made, "enum", json_pack("[O]", only))) return no_memory(s);
    return made;
}

json_t *schema_flat(Schema *s, json_t *json) {
    if (schema_failed(s)) return NULL;
    if (json_is_boolean(json)) return json;
    if (!json_is_object(json)) return schema_wrong(s, "a schema is an object, true or false"), NULL;
    if (++s->count > SCHEMA_MOST || s->depth >= SCHEMA_DEEPEST)
        return schema_refuse(s, "schemas nest too deeply, or there are too many"), NULL;
    s->depth++;
    check_keywords(s, json);
    json_t *made = own_keywords(s, json), *reference = json_object_get(json, "$ref");
    json_t *all = json_object_get(json, "allOf");
    if (reference && made) {
        json_t *target = schema_target(s, reference);
        made = target ? schema_merge(s, target, made) : NULL;
    }
    if (all && !json_array_size(all)) schema_wrong(s, "allOf is a list of schemas");
    for (size_t i = 0; i < json_array_size(all) && made; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        size_t path = schema_enter(s, "allOf", name);
        made = schema_merge(s, made, json_array_get(all, i));
        schema_leave(s, path);
    }
    s->depth--;
    return schema_failed(s) ? NULL : made;
}
