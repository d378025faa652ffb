// What an architecture's files must not ask for.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"

#include <string.h>

// What files of many architectures say of themselves, and what other architectures mean by it.
static const Fixed FIXED[] = {
    {NULL, {"is_causal", "attention.causal"}, 1, "attention to what comes later", NULL},
    {NULL, {"is_encoder_decoder", NULL}, 0, "an encoder beside the decoder", NULL},
    {NULL, {"add_cross_attention", NULL}, 0, "attention to an encoder", NULL},
    {NULL, {"rope_interleaved", NULL}, 0, "rotary pairs that lie otherwise", NULL},
    {NULL, {"rope_traditional", NULL}, 0, "rotary pairs that lie otherwise", NULL},
    {NULL, {"use_mrope", NULL}, 0, "positions of several dimensions", NULL},
    {NULL, {"lm_head_bias", NULL}, 0, "a bias of the head", NULL},
    {NULL, {NULL, "attention.scale"}, 0, "another scale of scores", NULL},
    {NULL, {NULL, "logit_scale"}, 1, "scaled logits", NULL},
    {NULL, {NULL, "embedding_scale"}, 1, "scaled embeddings", NULL},
    {NULL, {NULL, "residual_scale"}, 1, "scaled residuals", NULL},
    {NULL, {"attn_logit_softcapping", "attn_logit_softcapping"}, 0, "capped scores", NULL},
    {NULL, {NULL, "final_logit_softcapping"}, 0, "capped logits", NULL},
    {NULL, {NULL, "nextn_predict_layers"}, 0, "layers that predict further tokens", NULL},
    {NULL, {NULL, "pooling_type"}, 0, "a model of embeddings", NULL},
    {NULL, {NULL, "rope.scaling.yarn_ext_factor"}, 1, "another YaRN", NULL},
    {NULL, {NULL, "rope.scaling.yarn_attn_factor"}, 1, "another YaRN", NULL},
};

static Status refuse_fixed(const ParamSource *source, const Fixed *fixed, const char *name, const char *value,
                           Error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "%s: %s%s%s asks for %s, which palaver cannot run: it is %s",
                     source->path, fixed->object ? fixed->object : "", fixed->object ? "." : "", name,
                     fixed->other, value);
}

static Status check_fixed_meta(const ParamSource *source, const Fixed *fixed, Error *error) {
    char text[KEY_SIZE], told[VALUE_SIZE];
    const char *name = source_gguf_key(source, fixed->key.gguf, text);
    const MetaValue *value = checkpoint_meta(source->checkpoint, name);
    unread_take_meta(source, name);
    if (!value || (value->type == META_BOOL && value->flag == (fixed->value != 0)) ||
        ((value->type == META_INTEGER || value->type == META_NUMBER) && value->number == fixed->value))
        return STATUS_OK;
    return refuse_fixed(source, fixed, name, param_meta_text(value, told), error);
}

static Status check_fixed(const ParamSource *source, const Fixed *fixed, Error *error) {
    if ((source->config ? fixed->key.hf : fixed->key.gguf) == NULL) return STATUS_OK;
    if (!source->config) return check_fixed_meta(source, fixed, error);
    const json_t *object = source->config, *found;
    char told[VALUE_SIZE];
    if (fixed->object) object = json_object_get(object, fixed->object);
    found = json_object_get(object, fixed->key.hf);
    unread_take_key(source, fixed->object, fixed->key.hf);
    if (!found || json_is_null(found)) return STATUS_OK;
    if (fixed->word && json_is_string(found) && strcmp(json_string_value(found), fixed->word) == 0)
        return STATUS_OK;
    double value = json_is_boolean(found) ? json_is_true(found) : json_number_value(found);
    if (!fixed->word && (json_is_number(found) || json_is_boolean(found)) && value == fixed->value)
        return STATUS_OK;
    return refuse_fixed(source, fixed, fixed->key.hf, param_json_text(found, told), error);
}

// What a field of the architecture's gives a meaning of its own.
static bool is_asked_otherwise(const Architecture *a, const Fixed *fixed) {
    if (fixed->key.gguf && strcmp(fixed->key.gguf, "nextn_predict_layers") == 0) return a->predicts_further;
    if (fixed->key.gguf) return model_scales_have(a, fixed->key.gguf);
    return (a->bias_keys & BIAS_OUTPUT) && strcmp(fixed->key.hf, "lm_head_bias") == 0;
}

static Status check_all_fixed(const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    Status status = STATUS_OK;
    for (size_t i = 0; i < sizeof a->fixed / sizeof *a->fixed && !status; i++)
        status = check_fixed(source, &a->fixed[i], error);
    for (size_t i = 0; i < sizeof FIXED / sizeof *FIXED && !status; i++)
        if (!is_asked_otherwise(a, &FIXED[i])) status = check_fixed(source, &FIXED[i], error);
    return status;
}

Status model_check_refusals(const DecoderShape *shape, const ParamSource *source, Error *error) {
    int64_t embedded = shape->hidden_size;
    Status status = check_all_fixed(source, error);
    if (!status) status = param_integer(source, (Key){"word_embed_proj_dim", NULL}, &embedded, error);
    if (status) return status;
    if (embedded != shape->hidden_size) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: embeddings of %lld elements (word_embed_proj_dim), projected to a hidden size "
                         "of %d (%s), which palaver "
                         "cannot run",
                         source->path, (long long)embedded, shape->hidden_size,
                         model_size_key(source, "hidden_size"));
    }
    return STATUS_OK;
}
