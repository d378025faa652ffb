// Whether a value fits a schema: asked of names and constants while a grammar is made.
#include "engine/grammar/schema/schema_internal.h"
#include "engine/grammar/states.h"
#include "kernels/base/text/json.h"

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

// A grammar of its own, of the same schema: what it may be is counted together.
static Status make_net(Schema *s, json_t *json, Net *net, Error *error) {
    Builder builder, *own = s->builder;
    int common[SCHEMA_N_RULES];
    json_t *rules = s->rules;
    expr_open(&builder);
    memcpy(common, s->common, sizeof common);
    memset(s->common, 0, sizeof s->common);
    s->builder = &builder;
    s->rules = json_object();
    const int root = expr_rule(&builder, "#", 1);
    expr_define(&builder, root, schema_value(s, json));
    json_decref(s->rules);
    s->rules = rules;
    s->builder = own;
    memcpy(s->common, common, sizeof common);
    if (builder.error.status) expr_fail(own, builder.error.status, "%s", builder.error.message);
    const Status status = net_make(&builder, net, error);
    expr_close(&builder);
    return status;
}

bool schema_net(Schema *s, json_t *json, Net *net) {
    Error error;
    if (schema_failed(s)) return false;
    const Status status = make_net(s, json, net, &error);
    if (status && status != STATUS_USAGE)
        expr_fail(s->builder, status, "%s", error.message); // else no text fits
    return !status;
}

bool schema_fits(Schema *s, json_t *json, json_t *value) {
    Net net;
    if (!schema_net(s, json, &net)) return false;
    char *text = json_compact(value);
    const bool fits = text && accepts(s, &net, text);
    if (!text) expr_fail(s->builder, STATUS_MEMORY, "no memory for a grammar");
    free(text);
    net_free(&net);
    return fits;
}
