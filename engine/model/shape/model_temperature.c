// What queries are multiplied by as positions grow: the temperature of Llama 4 and Ministral 3.
#include "engine/model/config/rope_spec.h"

#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"

#include <limits.h>
#include <math.h>

// A switch that older files have as a number.
static Status read_tuning(const ParamSource *source, bool *tuned, Error *error) {
    const json_t *value = source->config ? json_object_get(source->config, "attn_temperature_tuning") : NULL;
    *tuned = true;
    if (!json_is_integer(value))
        return param_bool(source, (Key){"attn_temperature_tuning", NULL}, tuned, error);
    unread_take_key(source, NULL, "attn_temperature_tuning");
    *tuned = json_integer_value(value) != 0;
    return STATUS_OK;
}

// Of layers that turn nothing: 1 + attn_scale·ln(1 + floor((position + 1) / floor_scale)).
static Status read_unturned_temperature(Model *model, const ParamSource *source, Error *error) {
    bool tuned;
    double scale = 0.1;
    int64_t length = 8192;
    Status status = read_tuning(source, &tuned, error);
    if (!status) status = param_number(source, (Key){"attn_scale", NULL}, &scale, error);
    if (!status) status = param_integer(source, (Key){"floor_scale", NULL}, &length, error);
    if (status || !tuned || scale == 0) return status;
    if (!(scale > 0 && scale < 1e3) || length < 1 || length > INT32_MAX)
        return error_set(error, STATUS_FILE, "%s: attn_scale is %g, floor_scale %lld", source->path, scale,
                         (long long)length);
    model->shape.temperature_beta = (float)scale;
    model->shape.temperature_length = (int)length;
    model->shape.temperature_ahead = 1;
    model->shape.temperature_unturned = true;
    return STATUS_OK;
}

Status model_read_temperature(Model *model, const RopeSpec *spec, const ParamSource *source, Error *error) {
    double beta = spec->temperature_beta;
    if (source->architecture->temperature_unturned) return read_unturned_temperature(model, source, error);
    if (!source->architecture->temperature) return STATUS_OK;
    if (isnan(beta) && source->config)
        return error_set(error, STATUS_FILE, "%s: llama_4_scaling_beta is missing in rope_parameters",
                         source->path);
    if (beta == 0) return STATUS_OK;
    if (!(beta > 0 && beta < 1e3) || spec->original_context < 1)
        return error_set(error, STATUS_FILE, "%s: %s is %g, of a trained context of %lld", source->path,
                         source->config ? "llama_4_scaling_beta" : "attention.temperature_scale", beta,
                         (long long)spec->original_context);
    if (model->shape.latent.rank > 0 && model->shape.latent.q_rank == 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: queries without q_lora_rank that grow sharper far into a text", source->path);
    model->shape.temperature_beta = (float)beta;
    model->shape.temperature_length = (int)spec->original_context;
    return STATUS_OK;
}
