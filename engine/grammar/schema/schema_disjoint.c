// Whether two schemas exclude each other: what oneOf needs.
#include "engine/grammar/schema/schema_internal.h"

#include <math.h>
#include <string.h>

// The types that values of a flat schema have, or NULL: it does not say.
static json_t *types_of(Schema *s, const json_t *json) {
    static const char *const names[] = {"object", "array",   "string",  "number",
                                        "number", "boolean", "boolean", "null"};
    json_t *values = json_object_get(json, "enum"), *types = json_object_get(json, "type");
    if (!values) return types;
    json_t *made = schema_keep(s, json_array());
    for (size_t i = 0; made && i < json_array_size(values); i++)
        json_array_append_new(made, json_string(names[json_typeof(json_array_get(values, i))]));
    return made;
}

static bool types_exclude(json_t *one, json_t *other) {
    if (!one || !other) return false;
    json_t *both = schema_both_types(one, other);
    const bool none = json_array_size(both) == 0;
    json_decref(both);
    return none;
}

// Whether two values may be the same: numbers are by what they say, also within lists, where it is not looked.
static bool may_equal(const json_t *x, const json_t *y) {
    if (json_is_number(x) && json_is_number(y)) return json_number_value(x) == json_number_value(y);
    if (json_typeof(x) != json_typeof(y)) return false;
    return json_is_object(x) || json_is_array(x) || json_equal((json_t *)x, (json_t *)y);
}

static bool values_exclude(Schema *s, const json_t *one, const json_t *other) {
    const json_t *a = json_object_get(one, "enum"), *b = json_object_get(other, "enum");
    if (!a || !b || !schema_spend(s, json_array_size(a) * json_array_size(b))) return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++)
            if (may_equal(json_array_get(a, i), json_array_get(b, k))) return false;
    return true;
}

// ---- bounds -------------------------------------------------------------------------------------------------------

// Whether all values have one of these types, so that bounds of them are bounds of all.
static bool only(const json_t *types, const char *name, const char *also) {
    const char *word = json_string_value(types);
    if (word) return !strcmp(word, name) || (also && !strcmp(word, also));
    for (size_t i = 0; i < json_array_size(types); i++)
        if (!only(json_array_get(types, i), name, also)) return false;
    return json_array_size(types) > 0;
}

static double number_or(const json_t *json, const char *keyword, double otherwise) {
    const json_t *value = json_object_get(json, keyword);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

// Whether what `low` asks for at least is more than `high` allows.
static bool counts_exclude(const json_t *low, const json_t *high, const char *least, const char *most) {
    return number_or(low, least, 0) > number_or(high, most, INFINITY);
}

static bool numbers_exclude(const json_t *low, const json_t *high) {
    const double least = number_or(low, "minimum", -INFINITY),
                 above = number_or(low, "exclusiveMinimum", -INFINITY);
    const double most = number_or(high, "maximum", INFINITY),
                 below = number_or(high, "exclusiveMaximum", INFINITY);
    return least > most || least >= below || above >= most || above >= below;
}

static bool bounds_exclude(const json_t *types, const json_t *low, const json_t *high) {
    if (only(types, "number", "integer")) return numbers_exclude(low, high);
    if (only(types, "string", NULL)) return counts_exclude(low, high, "minLength", "maxLength");
    if (only(types, "array", NULL)) return counts_exclude(low, high, "minItems", "maxItems");
    return only(types, "object", NULL) && counts_exclude(low, high, "minProperties", "maxProperties");
}

// ---- objects ------------------------------------------------------------------------------------------------------

// Whether objects of a schema never have a property.
static bool forbids(const json_t *json, const char *name) {
    const json_t *listed = json_object_get(json_object_get(json, "properties"), name);
    if (listed || json_object_get(json, "patternProperties")) return json_is_false(listed);
    return json_is_false(json_object_get(json, "additionalProperties"));
}

// Whether a property that objects of `one` must have tells those of the other apart.
static bool properties_exclude(Schema *s, const json_t *one, const json_t *other) {
    const json_t *names = json_object_get(one, "required");
    for (size_t i = 0; i < json_array_size(names) && !schema_failed(s); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name) continue;
        if (forbids(other, name)) return true;
        json_t *x = json_object_get(json_object_get(one, "properties"), name);
        json_t *y = json_object_get(json_object_get(other, "properties"), name);
        if (!x || !y || s->depth >= SCHEMA_DEEPEST) continue;
        s->depth++;
        const bool apart = schema_disjoint(s, schema_flat(s, x), schema_flat(s, y));
        s->depth--;
        if (apart) return true;
    }
    return false;
}

// Whether each schema of `one`'s anyOf or oneOf excludes the other.
static bool choices_exclude(Schema *s, json_t *one, json_t *other) {
    json_t *list = json_object_get(one, "anyOf");
    if (!list) list = json_object_get(one, "oneOf");
    const size_t n = s->depth < SCHEMA_DEEPEST ? json_array_size(list) : 0;
    bool apart = n > 0;
    s->depth++;
    for (size_t i = 0; i < n && apart; i++)
        apart = schema_spend(s, 16) && schema_disjoint(s, schema_flat(s, json_array_get(list, i)), other);
    s->depth--;
    return apart;
}

bool schema_disjoint(Schema *s, json_t *one, json_t *other) {
    if (!one || !other || schema_failed(s)) return false;
    if (json_is_false(one) || json_is_false(other)) return true;
    json_t *a = types_of(s, one), *b = types_of(s, other);
    if (types_exclude(a, b) || values_exclude(s, one, other)) return true;
    json_t *both = a && b ? schema_both_types(a, b) : json_incref(a ? a : b);
    bool apart = both && (bounds_exclude(both, one, other) || bounds_exclude(both, other, one));
    if (!apart && only(both, "object", NULL))
        apart = properties_exclude(s, one, other) || properties_exclude(s, other, one);
    json_decref(both);
    return apart || choices_exclude(s, one, other) || choices_exclude(s, other, one);
}
