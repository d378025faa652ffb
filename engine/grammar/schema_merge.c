// References and allOf: schemas put together before anything is made of them.
#include "engine/grammar/schema_internal.h"

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
    EQUAL,          // two can only stand together where they are the same
    RESOLVED,       // $ref, allOf, const
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
    {"pattern", EQUAL},
    {"format", EQUAL},
    {"minimum", MERGED_MOST},
    {"exclusiveMinimum", MERGED_MOST},
    {"maximum", MERGED_LEAST},
    {"exclusiveMaximum", MERGED_LEAST},
    {"multipleOf", EQUAL},
    {"anyOf", EQUAL},
    {"oneOf", EQUAL},
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

// Takes a new value over: the schema's own from now on.
static json_t *keep(Schema *s, json_t *made) {
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
        for (char *from = name; *from; from++) { // ~1 is /, ~0 is ~
            bool tilde = *from == '~' && (from[1] == '0' || from[1] == '1');
            *to++ = tilde ? "~/"[*++from - '0'] : *from;
        }
        *to = 0;
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10)) : json_object_get(at, name);
    }
    free(copy);
    if (!at) schema_wrong(s, "it leads nowhere");
    schema_leave(s, path);
    return at;
}

// ---- two keywords --------------------------------------------------------------------------------------------------------

static bool type_allows(const json_t *types, const char *type) {
    const char *word = json_string_value(types);
    if (word) return !strcmp(word, type) || (!strcmp(word, "number") && !strcmp(type, "integer"));
    for (size_t i = 0; i < json_array_size(types); i++)
        if (type_allows(json_array_get(types, i), type)) return true;
    return false;
}

static json_t *both_types(json_t *one, json_t *other) {
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

static bool has(const json_t *list, json_t *value) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value)) return true;
    return false;
}

static json_t *both_lists(json_t *one, json_t *other, bool all) {
    json_t *both = all ? json_copy(one) : json_array();
    for (size_t i = 0; i < json_array_size(other); i++)
        if (has(one, json_array_get(other, i)) != all) json_array_append(both, json_array_get(other, i));
    return both;
}

static json_t *both_schemas(json_t *one, json_t *other) {
    return json_pack("{s:[O,O]}", "allOf", one, other);
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

// What a keyword becomes that both have; NULL: it cannot be, or there is no memory.
static json_t *both_values(Schema *s, const char *name, json_t *one, json_t *other) {
    double a = json_number_value(one), b = json_number_value(other);
    switch (keyword_of(name)) {
    case MERGED_MOST:
        return json_incref(a >= b ? one : other);
    case MERGED_LEAST:
        return json_incref(a <= b ? one : other);
    case MERGED_TYPES:
        return both_types(one, other);
    case MERGED_NAMES:
        return both_lists(one, other, true);
    case MERGED_VALUES:
        return both_lists(one, other, false);
    case MERGED_PROPERTIES:
        return both_properties(one, other);
    case MERGED_SCHEMAS:
        return both_schemas(one, other);
    case IGNORED:
        return json_incref(one);
    default:
        if (json_equal(one, other)) return json_incref(one);
        schema_enter(s, name, NULL);
        schema_refuse(s, "it is asked for twice, and differs");
        return NULL;
    }
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

json_t *schema_merge(Schema *s, json_t *one, json_t *other) {
    one = schema_flat(s, one);
    other = schema_flat(s, other);
    if (!one || !other) return NULL;
    if (json_is_false(one) || json_is_true(other)) return one;
    if (json_is_false(other) || json_is_true(one)) return other;
    bool prefix = json_object_get(one, "prefixItems") || json_object_get(other, "prefixItems");
    if (prefix && json_object_get(one, "items") != json_object_get(other, "items") &&
        !json_equal(json_object_get(one, "prefixItems"), json_object_get(other, "prefixItems")))
        schema_refuse(s, "prefixItems and items of schemas that must both fit");
    json_t *made = keep(s, json_copy(one)), *value;
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

// ---- one schema -----------------------------------------------------------------------------------------------------------

static void check_keywords(Schema *s, const json_t *json) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json, name, value) {
        if (keyword_of(name) || !strncmp(name, "x-", 2)) continue;
        schema_enter(s, name, NULL);
        schema_refuse(s, "palaver cannot write by this keyword");
        return;
    }
}

// The keywords that stand for themselves.
static json_t *own_keywords(Schema *s, json_t *json) {
    json_t *made = keep(s, json_object()), *value;
    const char *name;
    if (!made) return NULL;
    json_object_foreach(json, name, value) {
        Keyword keyword = keyword_of(name);
        if (keyword != IGNORED && keyword != RESOLVED && keyword && json_object_set(made, name, value))
            return no_memory(s);
    }
    json_t *only = json_object_get(json, "const"), *values = json_object_get(json, "enum");
    if (only && values && !has(values, only)) return json_false();
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
        size_t path = schema_enter(s, "allOf", NULL);
        made = schema_merge(s, made, json_array_get(all, i));
        schema_leave(s, path);
    }
    s->depth--;
    return schema_failed(s) ? NULL : made;
}

// ---- whether schemas exclude each other ----------------------------------------------------------------------------------

static const char *type_name(const json_t *value) {
    static const char *const names[] = {"object", "array",   "string",  "number",
                                        "number", "boolean", "boolean", "null"};
    return names[json_typeof(value)];
}

// The types that values of a flat schema have, or NULL: it does not say.
static json_t *types_of(Schema *s, const json_t *json) {
    json_t *values = json_object_get(json, "enum"), *types = json_object_get(json, "type");
    if (!values) return types;
    json_t *made = keep(s, json_array());
    for (size_t i = 0; made && i < json_array_size(values); i++)
        json_array_append_new(made, json_string(type_name(json_array_get(values, i))));
    return made;
}

static bool types_exclude(json_t *one, json_t *other) {
    if (!one || !other) return false;
    json_t *both = both_types(one, other);
    bool none = json_array_size(both) == 0;
    json_decref(both);
    return none;
}

static bool values_exclude(const json_t *one, const json_t *other) {
    const json_t *a = json_object_get(one, "enum"), *b = json_object_get(other, "enum");
    if (!a || !b) return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++) {
            const json_t *x = json_array_get(a, i), *y = json_array_get(b, k);
            if (json_equal(x, y) || (json_is_number(x) && json_is_number(y))) return false;
        }
    return true;
}

bool schema_disjoint(Schema *s, json_t *one, json_t *other) {
    if (!one || !other || schema_failed(s)) return false;
    if (json_is_false(one) || json_is_false(other)) return true;
    if (types_exclude(types_of(s, one), types_of(s, other)) || values_exclude(one, other)) return true;
    const json_t *a = json_object_get(one, "type"), *b = json_object_get(other, "type");
    if (!a || !b || !json_equal((json_t *)a, (json_t *)b) || !json_is_string(a) ||
        strcmp(json_string_value(a), "object") != 0)
        return false;
    json_t *names = json_object_get(one, "required");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        json_t *x = name ? json_object_get(json_object_get(one, "properties"), name) : NULL;
        json_t *y = name ? json_object_get(json_object_get(other, "properties"), name) : NULL;
        if (!x || !y || !has(json_object_get(other, "required"), json_array_get(names, i))) continue;
        x = schema_flat(s, x), y = schema_flat(s, y);
        if (x && y && (types_exclude(types_of(s, x), types_of(s, y)) || values_exclude(x, y))) return true;
    }
    return false;
}
