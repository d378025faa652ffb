// Objects and arrays.
#include "engine/grammar/schema/schema_internal.h"

#include "kernels/base/text/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct Property {
    const char *name;
    Expr pair; // "name": value
    bool required;
} Property;

static bool is_required(Schema *s, const json_t *json, const char *name) {
    const json_t *list = json_object_get(json, "required");
    if (!schema_spend(s, json_array_size(list))) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));
        if (one && !strcmp(one, name)) return true;
    }
    return false;
}

static Expr comma(Schema *s) {
    return expr_seq(s->builder, schema_word(s, ","), expr_optional(s->builder, schema_word(s, " ")));
}

static Expr pair_of(Schema *s, Expr key, Expr value) {
    Expr colon = expr_seq(s->builder, schema_word(s, ":"), expr_optional(s->builder, schema_word(s, " ")));
    return expr_seq(s->builder, key, expr_seq(s->builder, colon, value));
}

// ---- what is asked of names ---------------------------------------------------------------------------------------

// The only pattern of patternProperties and its schema; NULL: there is none, or it failed.
static const char *pattern_of(Schema *s, const json_t *json, json_t **value) {
    json_t *patterns = json_object_get(json, "patternProperties");
    void *first = json_object_iter(patterns);
    *value = first ? json_object_iter_value(first) : NULL;
    if (!patterns) return NULL;
    if (!json_is_object(patterns) || json_object_size(patterns) > 1) {
        schema_enter(s, "patternProperties", NULL);
        schema_refuse(s, "only one pattern can be written by");
    }
    return schema_failed(s) || !first ? NULL : json_object_iter_key(first);
}

// Whether a name matches; a pattern that cannot be written by is refused at its place.
static bool matches(Schema *s, const char *pattern, const char *name) {
    json_t *test = schema_keep(s, json_pack("{s:s,s:s}", "type", "string", "pattern", pattern));
    json_t *value = json_string(name);
    const size_t path = schema_enter(s, "patternProperties", NULL);
    const bool fits = test && value && schema_fits(s, test, value);
    schema_leave(s, path);
    json_decref(value);
    return fits;
}

// The schema of a property's value: `value` and that of the pattern which its name matches. false: its name is not
// allowed. NULL: it failed.
static json_t *value_of_name(Schema *s, const json_t *json, const char *name, json_t *value, bool listed) {
    json_t *of_pattern, *of_names = json_object_get(json, "propertyNames");
    const char *pattern = pattern_of(s, json, &of_pattern);
    if (of_names) {
        json_t *asked = schema_keep(s, json_pack("{s:[{s:s},O]}", "allOf", "type", "string", of_names));
        json_t *text = json_string(name);
        const size_t path = schema_enter(s, "propertyNames", NULL);
        const bool fits = asked && text && schema_fits(s, asked, text);
        schema_leave(s, path);
        json_decref(text);
        if (!fits) return schema_failed(s) ? NULL : json_false();
    }
    if (!pattern || !matches(s, pattern, name)) return schema_failed(s) ? NULL : value;
    return listed ? schema_keep(s, json_pack("{s:[O,O]}", "allOf", value, of_pattern)) : of_pattern;
}

static Property read_property(Schema *s, json_t *json, const char *name, json_t *value, bool listed) {
    Property property = {.name = name, .required = is_required(s, json, name)};
    value = value_of_name(s, json, name, value, listed);
    size_t path = schema_enter(s, "properties", name);
    json_t *key = json_string(name);
    if (key && value) property.pair = pair_of(s, schema_literal(s, key), schema_value(s, value));
    json_decref(key);
    schema_leave(s, path);
    return property;
}

// The listed properties in their order, then those that are only required. [*n], malloc'ed.
static Property *read_properties(Schema *s, json_t *json, size_t *n) {
    json_t *listed = json_object_get(json, "properties"), *names = json_object_get(json, "required"), *value;
    json_t *extra = json_object_get(json, "additionalProperties"), *any = json_true();
    const char *name;
    *n = 0;
    if (listed && !json_is_object(listed)) schema_wrong(s, "properties is an object");
    if (names && !json_is_array(names)) schema_wrong(s, "required is a list of names");
    Property *all = calloc(json_object_size(listed) + json_array_size(names) + 1, sizeof *all);
    if (!all) expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
    if (!all || schema_failed(s)) return all;
    json_object_foreach(listed, name, value) {
        if (schema_failed(s)) break;
        all[(*n)++] = read_property(s, json, name, value, true);
    }
    for (size_t i = 0; i < json_array_size(names); i++) {
        bool known = false;
        name = json_string_value(json_array_get(names, i));
        if (!name) schema_wrong(s, "required is a list of names");
        if (!schema_spend(s, *n)) break;
        for (size_t k = 0; name && k < *n; k++) known |= !strcmp(all[k].name, name);
        if (name && !known) all[(*n)++] = read_property(s, json, name, extra ? extra : any, false);
    }
    return all;
}

// ---- names that are not listed ------------------------------------------------------------------------------------

typedef struct Names {
    const Property *all; // [n], sorted by name
    Expr rest;           // any characters, to the end
} Names;

static int by_name(const void *a, const void *b) {
    return strcmp(((const Property *)a)->name, ((const Property *)b)->name);
}

// Characters that behind the first `at` bytes, which names [first, end) share, lead to none of them. Characters stand
// for themselves here: a name with an escape might be a listed one.
static Expr other_names(Schema *s, const Names *names, size_t first, size_t end, size_t at, int depth) {
    Builder *b = s->builder;
    ExprCodes *codes = malloc((end - first + 4) * sizeof *codes);
    Expr whole = EXPR_NEVER;
    size_t n = 0;
    if (!codes || depth > 256) {
        if (codes) schema_refuse(s, "a property's name is too long to be told from others");
        if (!codes) expr_fail(b, STATUS_MEMORY, "no memory for a grammar");
        free(codes);
        return EXPR_NOTHING;
    }
    codes[n++] = (ExprCodes){0, 31}, codes[n++] = (ExprCodes){'"', '"'}, codes[n++] = (ExprCodes){'\\', '\\'};
    bool may_end = first == end || names->all[first].name[at] != 0;
    if (first < end && !names->all[first].name[at]) first++;
    while (first < end && !schema_failed(s)) {
        uint32_t code, other;
        const char *name = names->all[first].name;
        int length = utf8_next(name + at, strlen(name + at), &code);
        size_t last = first + 1, bytes = length > 0 ? (size_t)length : 1;
        while (last < end &&
               utf8_next(names->all[last].name + at, strlen(names->all[last].name + at), &other) > 0 &&
               other == code)
            last++;
        codes[n++] = (ExprCodes){code, code};
        Expr deeper = other_names(s, names, first, last, at + bytes, depth + 1);
        if (code >= 32 && code != '"' && code != '\\')
            whole = expr_alt(b, whole, expr_seq(b, expr_text(b, name + at, bytes), deeper));
        first = last;
    }
    whole = expr_alt(b, whole, expr_seq(b, expr_codes(b, codes, n, true), names->rest));
    free(codes);
    return may_end ? expr_alt(b, whole, EXPR_NOTHING) : whole;
}

static Expr plain_text(Schema *s) {
    ExprCodes codes[] = {{0, 31}, {'"', '"'}, {'\\', '\\'}};
    Expr text = expr_repeat(s->builder, expr_codes(s->builder, codes, 3, true), 0, -1);
    int rule = expr_rule(s->builder, "a name", 6);
    expr_define(s->builder, rule, text);
    return expr_call(s->builder, rule);
}

// A name that is none of the listed ones, as propertyNames and patternProperties ask.
static Expr other_name(Schema *s, json_t *json, const Property *all, size_t n, const char *pattern) {
    json_t *names = json_object_get(json, "propertyNames");
    if (n == 0 && (names || pattern)) {
        json_t *asked = schema_keep(s, names ? json_pack("{s:[{s:s},O]}", "allOf", "type", "string", names)
                                             : json_pack("{s:s,s:s}", "type", "string", "pattern", pattern));
        if (names && pattern)
            schema_refuse(s, "of propertyNames and patternProperties only one can be written by");
        const size_t path = schema_enter(s, names ? "propertyNames" : "patternProperties", NULL);
        const Expr name = asked ? schema_value(s, asked) : EXPR_NOTHING;
        schema_leave(s, path);
        return name;
    }
    if (names) schema_refuse(s, "propertyNames beside properties that are listed, and others");
    Property *sorted = malloc((n + 1) * sizeof *sorted);
    if (!sorted) {
        expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
        return EXPR_NEVER;
    }
    if (n) memcpy(sorted, all, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_name);
    Names tree = {.all = sorted, .rest = plain_text(s)};
    const Expr name = n ? other_names(s, &tree, 0, n, 0, 0) : tree.rest;
    free(sorted);
    return expr_seq(s->builder, schema_word(s, "\""), expr_seq(s->builder, name, schema_word(s, "\"")));
}

// "name": value of a property that is not listed, as a rule; EXPR_NEVER: there is none.
static Expr other_pair(Schema *s, json_t *json, const Property *all, size_t n) {
    json_t *extra = json_object_get(json, "additionalProperties"), *of_pattern;
    const char *pattern = pattern_of(s, json, &of_pattern);
    if (schema_failed(s) || (!extra && n > 0)) return EXPR_NEVER;
    if (json_is_false(extra) && (!pattern || n > 0)) return EXPR_NEVER;
    const Expr name = other_name(s, json, all, n, pattern);
    // Beside listed names any other may match the pattern: then both are asked for.
    json_t *asked = extra ? extra : json_true();
    if (pattern)
        asked = n == 0 ? of_pattern : schema_keep(s, json_pack("{s:[O,O]}", "allOf", asked, of_pattern));
    const size_t path =
        schema_enter(s, pattern && n == 0 ? "patternProperties" : "additionalProperties", NULL);
    const Expr value = asked ? schema_value(s, asked) : EXPR_NEVER;
    schema_leave(s, path);
    if (value == EXPR_NEVER || name == EXPR_NEVER) return EXPR_NEVER;
    const int rule = expr_rule(s->builder, "a property", 10);
    expr_define(s->builder, rule, pair_of(s, name, value));
    return expr_call(s->builder, rule);
}

// ---- objects ------------------------------------------------------------------------------------------------------

// How many properties that are not listed may come; −1: any number. What the counts ask beyond that is refused.
static int most_others(Schema *s, json_t *json, const Property *all, size_t n, bool others) {
    int n_required = 0, least = schema_count(s, json, "minProperties", 0);
    const int most = schema_count(s, json, "maxProperties", -1);
    for (size_t i = 0; i < n; i++) n_required += all[i].required;
    if (least > n_required) schema_refuse(s, "minProperties is more than are required");
    if (most >= 0 && n > 0 && (others || (size_t)most < n))
        schema_refuse(s, "maxProperties is less than may come");
    return most;
}

Expr schema_object(Schema *s, json_t *json) {
    Builder *b = s->builder;
    size_t n;
    Property *all = read_properties(s, json, &n);
    if (schema_failed(s)) {
        free(all);
        return EXPR_NOTHING;
    }
    Expr other = other_pair(s, json, all, n);
    const int most = most_others(s, json, all, n, other != EXPR_NEVER);
    if (most == 0) other = EXPR_NEVER;
    // From behind: what may follow where something came before, and where nothing did. Each is a rule, for both lead to
    // the same rest.
    Expr more = expr_repeat(b, expr_seq(b, comma(s), other), 0, most > 0 ? most - 1 : -1);
    Expr after = more, begin = expr_optional(b, expr_seq(b, other, more));
    for (size_t i = n; i-- > 0 && !schema_failed(s);) {
        int rule = expr_rule(b, all[i].name, strlen(all[i].name));
        expr_define(b, rule, after);
        Expr rest = expr_call(b, rule), pair = all[i].pair;
        if (pair != EXPR_NEVER) {
            rule = expr_rule(b, all[i].name, strlen(all[i].name));
            expr_define(b, rule, pair);
            pair = expr_call(b, rule);
        }
        Expr here = expr_seq(b, pair, rest), following = expr_seq(b, comma(s), here);
        begin = all[i].required ? here : expr_alt(b, here, begin);
        after = all[i].required ? following : expr_alt(b, following, rest);
    }
    free(all);
    return expr_seq(b, schema_word(s, "{"), expr_seq(b, begin, schema_word(s, "}")));
}

// ---- arrays -------------------------------------------------------------------------------------------------------

Expr schema_array(Schema *s, json_t *json) {
    Builder *b = s->builder;
    json_t *prefix = json_object_get(json, "prefixItems"), *items = json_object_get(json, "items");
    if (prefix && !json_array_size(prefix)) schema_wrong(s, "prefixItems is a list of schemas");
    int n_prefix = (int)json_array_size(prefix), least = schema_count(s, json, "minItems", 0);
    int most = schema_count(s, json, "maxItems", -1);
    if (schema_failed(s)) return EXPR_NOTHING;
    if (most >= 0 && most < least) return EXPR_NEVER;
    size_t path = schema_enter(s, "items", NULL);
    Expr item = most < 0 || most > n_prefix
                    ? (items ? schema_value(s, items) : schema_common(s, SCHEMA_VALUE))
                    : EXPR_NEVER;
    schema_leave(s, path);
    if (item != EXPR_NEVER) {
        int rule = expr_rule(b, "items", 5);
        expr_define(b, rule, item);
        item = expr_call(b, rule);
    }
    // Behind the k-th element, from behind; those after the prefix first.
    int from = n_prefix > 0 ? n_prefix : 1, needed = least > from ? least - from : 0;
    Expr rest = expr_repeat(b, expr_seq(b, comma(s), item), needed,
                            most < 0      ? -1
                            : most > from ? most - from
                                          : 0);
    for (int k = from; k-- > 0 && !schema_failed(s);) {
        char name[16];
        snprintf(name, sizeof name, "%d", k);
        path = schema_enter(s, "prefixItems", name);
        bool beyond = most >= 0 && k >= most;
        Expr element = beyond         ? EXPR_NEVER
                       : k < n_prefix ? schema_value(s, json_array_get(prefix, (size_t)k))
                                      : item;
        schema_leave(s, path);
        Expr here = expr_seq(b, k > 0 ? expr_seq(b, comma(s), element) : element, rest);
        rest = k >= least ? expr_optional(b, here) : here;
    }
    return expr_seq(b, schema_word(s, "["), expr_seq(b, rest, schema_word(s, "]")));
}
