// Whether a value fits a schema: asked of names and constants while a grammar is made.
#include "engine/grammar/schema_internal.h"
#include "engine/grammar/states.h"

#include <stdlib.h>
#include <string.h>

static bool accepts(Schema *s, const Net *net, const char *text) {
    States states;
    Error error;
    if (states_open(net, &states, &error))
        return expr_fail(s->builder, error.status, "%s", error.message), false;
    uint32_t state = states_start(&states);
    for (; *text && state > STATES_DEAD; text++) state = states_step(&states, state, (uint8_t)*text);
    const bool fits = state > STATES_DEAD && states.states[state].may_end;
    if (states.error.status) expr_fail(s->builder, states.error.status, "%s", states.error.message);
    states_close(&states);
    return fits;
}

bool schema_fits(Schema *s, json_t *json, json_t *value) {
    if (schema_failed(s)) return false;
    // A grammar of its own, of the same schema: what it may be is counted together.
    Builder builder, *own = s->builder;
    int common[SCHEMA_N_RULES];
    json_t *rules = s->rules;
    Net net;
    bool fits = false;
    expr_open(&builder);
    memcpy(common, s->common, sizeof common);
    memset(s->common, 0, sizeof s->common);
    s->builder = &builder;
    s->rules = json_object();
    const int root = expr_rule(&builder, "#", 1);
    const Expr whole = schema_value(s, json);
    expr_define(&builder, root, whole);
    json_decref(s->rules);
    s->rules = rules;
    s->builder = own;
    memcpy(s->common, common, sizeof common);
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    Error error;
    if (builder.error.status)
        expr_fail(own, builder.error.status, "%s", builder.error.message);
    else if (!text)
        expr_fail(own, STATUS_MEMORY, "no memory for a grammar");
    else if (whole != EXPR_NEVER && !net_make(&builder, &net, &error)) {
        fits = accepts(s, &net, text);
        net_free(&net);
    } else if (whole != EXPR_NEVER && error.status != STATUS_USAGE) { // else no text fits
        expr_fail(own, error.status, "%s", error.message);
    }
    free(text);
    expr_close(&builder);
    return fits;
}
