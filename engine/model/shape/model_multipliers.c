// Numbers that multiply parts of a layer (Falcon-H1, whose makers scale by width: Yang et al., arXiv:2203.03466), and where they
// go, so that nothing has to be multiplied in the layers. GGUF's converter has multiplied them into matrices.
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"
#include "engine/model/model_internal.h"

#include <math.h>
#include <string.h>

enum { SEGMENTS = 5 }; // gate, values, keys, queries, steps of time: z, x, B, C, dt

typedef struct Told {
    double key, attention_in, attention_out, state_in, state_out;
    double feed_forward[2];    // of gates, of what is added
    double segments[SEGMENTS]; // of what the state space's input becomes
} Told;

static Status check(const ParamSource *source, const char *key, double value, Error *error) {
    if (value > 1e-9 && value < 1e9) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: %s is %g; palaver runs models whose multipliers are positive", source->path, key,
                     value);
}

// values [n], which are 1 without it.
static Status read_list(const ParamSource *source, const char *key, double *values, size_t n, Error *error) {
    const json_t *list = json_object_get(source->config, key);
    Status status = STATUS_OK;
    unread_take_key(source, NULL, key);
    for (size_t i = 0; i < n; i++) values[i] = 1;
    if (!list || json_is_null(list)) return STATUS_OK;
    if (json_array_size(list) != n)
        return error_set(error, STATUS_FILE, "%s: %s should be a list of %zu numbers", source->path, key, n);
    for (size_t i = 0; i < n && !status; i++) {
        if (!json_is_number(json_array_get(list, i)))
            return error_set(error, STATUS_FILE, "%s: %s should be a list of %zu numbers", source->path, key,
                             n);
        values[i] = json_number_value(json_array_get(list, i));
        status = check(source, key, values[i], error);
    }
    return status;
}

static Status read_number(const ParamSource *source, const char *key, double *value, Error *error) {
    *value = 1;
    if (json_is_null(json_object_get(source->config, key)))
        return param_refuse_null(source, NULL, key, error);
    Status status = param_number(source, (Key){key, NULL}, value, error);
    return status ? status : check(source, key, *value, error);
}

static Status read_told(const ParamSource *source, Told *t, Error *error) {
    Status status = read_number(source, "key_multiplier", &t->key, error);
    if (!status) status = read_number(source, "attention_in_multiplier", &t->attention_in, error);
    if (!status) status = read_number(source, "attention_out_multiplier", &t->attention_out, error);
    if (!status) status = read_number(source, "ssm_in_multiplier", &t->state_in, error);
    if (!status) status = read_number(source, "ssm_out_multiplier", &t->state_out, error);
    if (!status) status = read_list(source, "mlp_multipliers", t->feed_forward, 2, error);
    return status ? status : read_list(source, "ssm_multipliers", t->segments, SEGMENTS, error);
}

// Norms before a part multiply all that it reads. So gates are right, and with them ups too large, by as much as what is added
// is then too little: that is kept as the residuals' own scale, by which x is divided (model_scales.c), and what the mixers add with it.
// Queries and keys are as large as values have to be; scores do not show it. Of a state space the norm makes its gates right, taps
// and w_decay the rest.
Status model_read_multipliers(Model *model, const ParamSource *source, double *residual, Error *error) {
    Multipliers *m = &model->multipliers;
    Told t;
    if (!source->config || !source->architecture->paired) return STATUS_OK;
    Status status = read_told(source, &t, error);
    if (status) return status;
    const double added = t.feed_forward[1] / t.feed_forward[0], gates = t.segments[0];
    *residual *= added;
    m->ffn_norm = t.feed_forward[0];
    m->attention_norm = t.attention_in * t.attention_out / added;
    m->scores = t.key * (added / t.attention_out) * (added / t.attention_out);
    m->state_norm = t.state_in * gates;
    m->values = t.segments[1] / gates, m->keys = t.segments[2] / gates, m->queries = t.segments[3] / gates;
    m->decay = t.segments[4] / gates;
    m->state = t.state_out / added;
    model->shape.attention_scale = (float)((double)model->shape.attention_scale * m->scores);
    return STATUS_OK;
}
