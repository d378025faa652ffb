// What the parts of the JSON Schema compiler share.
#ifndef PALAVER_ENGINE_GRAMMAR_SCHEMA_INTERNAL_H
#define PALAVER_ENGINE_GRAMMAR_SCHEMA_INTERNAL_H

#include "engine/grammar/expr.h"

#include <jansson.h>

enum {
    SCHEMA_DEEPEST = 64,         // schemas in each other, references included
    SCHEMA_MOST = 1 << 14,       // schemas that are looked at
    SCHEMA_MOST_PAIRS = 1 << 16, // pairs of two lists' schemas
    SCHEMA_MOST_STEPS = 1 << 24, // comparisons of names and values
    SCHEMA_MOST_MULTIPLE = 1000,
    SCHEMA_MOST_BOTH = 4,       // patterns, formats and lengths of a string, together
    SCHEMA_DEEPEST_WORDS = 200, // words that others begin with, in each other
};

// Rules that every schema may need, made when the first does.
typedef enum SchemaRule {
    SCHEMA_VALUE,
    SCHEMA_STRING,
    SCHEMA_CHARACTER,
    SCHEMA_NUMBER,
    SCHEMA_INTEGER,
    SCHEMA_N_RULES
} SchemaRule;

struct Net;

typedef struct Schema {
    Builder *builder;
    json_t *root;
    json_t *rules;              // of the schemas that references lead to, by address
    json_t *made;               // schemas that were put together: an array that owns them
    json_t *together;           // the first of lists of texts that were made of two: no schema has it
    int common[SCHEMA_N_RULES]; // 1 + the rule; 0: not yet
    int depth, count;
    size_t steps;   // comparisons so far
    char path[512]; // of the schema in hand, for errors
    size_t path_size;
} Schema;

// ---- schema.c
bool schema_failed(const Schema *schema);
void schema_wrong(Schema *schema, const char *what);  // STATUS_USAGE, at the path
void schema_refuse(Schema *schema, const char *what); // STATUS_UNSUPPORTED, likewise
// Whether so many comparisons more may be made; else it has failed.
bool schema_spend(Schema *schema, size_t steps);
// The path with one step more; returns what schema_leave() takes it back by.
size_t schema_enter(Schema *schema, const char *keyword, const char *name);
void schema_leave(Schema *schema, size_t path_size);
Expr schema_value(Schema *schema, json_t *json); // any schema
Expr schema_rule(Schema *schema, json_t *json);  // likewise, through a rule of its own
Expr schema_literal(Schema *schema, json_t *value);
Expr schema_common(Schema *schema, SchemaRule rule);
Expr schema_word(Schema *schema, const char *text);
bool schema_says(const json_t *json, const char *const *words); // one of those words, up to a NULL
// A keyword's whole number from 0 on, or `otherwise`.
int schema_count(Schema *schema, const json_t *json, const char *keyword, int otherwise);

// ---- schema_choice.c: by a flat schema
Expr schema_enum(Schema *schema, json_t *json, const json_t *values);
// anyOf or oneOf: each with all that stands beside it.
Expr schema_choice(Schema *schema, json_t *json, const char *keyword);

// ---- schema_merge.c
// What a $ref leads to within the schema. NULL: it failed.
json_t *schema_target(Schema *schema, const json_t *reference);
// A schema without $ref and allOf, const as an enum: an object, or true or false. NULL: it failed.
json_t *schema_flat(Schema *schema, json_t *json);
// One that asks for both; as schema_flat().
json_t *schema_merge(Schema *schema, json_t *one, json_t *other);
json_t *schema_both_types(json_t *one, json_t *other); // the types that both allow, a new list
bool schema_has(Schema *schema, const json_t *list, json_t *value);
// Takes a new value over: the schema's own from now on. NULL: there was none, or no memory.
json_t *schema_keep(Schema *schema, json_t *made);

// ---- schema_disjoint.c
// Whether no value can fit both flat schemas, as far as types, constants, bounds and properties tell.
bool schema_disjoint(Schema *schema, json_t *one, json_t *other);

// ---- schema_fits.c
// A schema's texts as a net of their own. False: none fits, or it failed.
bool schema_net(Schema *schema, json_t *json, struct Net *net);
// Whether a value fits a schema, as palaver would write it. Also false: it failed.
bool schema_fits(Schema *schema, json_t *json, json_t *value);

// ---- schema_both.c
// The texts that fit all of the schemas [n], which are of no recursion; they are put into another order.
Expr schema_both(Schema *schema, json_t **schemas, int n);

// ---- schema_object.c, schema_scalar.c: by a flat schema
Expr schema_object(Schema *schema, json_t *json);
Expr schema_array(Schema *schema, json_t *json);
Expr schema_string(Schema *schema, json_t *json);
Expr schema_number(Schema *schema, json_t *json, bool integer);

#endif
