// What multiplies or caps embeddings, residuals, scores and logits.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const struct {
    Key key;
    size_t offset; // of a double in Scales
} SCALES[] = {
    {{"query_pre_attn_scalar", NULL}, offsetof(Scales, query)},
    {{"attention_multiplier", "attention.scale"}, offsetof(Scales, attention)},
    {{"qk_scale_factor", NULL}, offsetof(Scales, normed_queries)},
    {{"embedding_multiplier", "embedding_scale"}, offsetof(Scales, embedding)},
    {{"residual_multiplier", "residual_scale"}, offsetof(Scales, residual)},
    {{"logit_scale", "logit_scale"}, offsetof(Scales, logits)},
    {{"logits_scaling", "logit_scale"}, offsetof(Scales, logits_over)},
    {{"attn_logit_softcapping", "attn_logit_softcapping"}, offsetof(Scales, attention_cap)},
    {{"final_logit_softcapping", "final_logit_softcapping"}, offsetof(Scales, logit_cap)},
    {{"scale_depth", NULL}, offsetof(Scales, depth)},
    {{"dim_model_base", NULL}, offsetof(Scales, width)},
};

enum { N_SCALES = sizeof SCALES / sizeof *SCALES };

static double *scale_at(Scales *scales, size_t i) {
    return (double *)(void *)((char *)scales + SCALES[i].offset);
}

bool model_scales_have(const Architecture *architecture, const char *gguf) {
    Scales scales = architecture->scales;
    for (size_t i = 0; i < N_SCALES; i++)
        if (*scale_at(&scales, i) != 0 && SCALES[i].key.gguf && strcmp(SCALES[i].key.gguf, gguf) == 0)
            return true;
    return false;
}

// Reads one; `value` holds the default. NAN: there is none.
static Status read_scale(const ParamSource *source, Key key, double *value, Error *error) {
    bool has_default = !isnan(*value);
    if (!source->config && key.gguf && !source->architecture->gguf_silent)
        *value = NAN; // the defaults are those of configuration classes
    if (source->config && json_is_null(json_object_get(source->config, source_config_key(source, key.hf))))
        *value = NAN;
    Status status = param_number(source, key, value, error);
    if (status || isnan(*value) || (*value == 0 && !source->config)) {
        *value = NAN;
        return status;
    }
    if (*value > 0 && *value < 1e9) return STATUS_OK;
    char text[KEY_SIZE];
    return error_set(error, STATUS_FILE, "%s: %s is %g; it must be positive%s", source->path,
                     source_key(source, key, text), *value, has_default ? "" : ", or null");
}

static double or_one(double value) {
    return isnan(value) || value == 0 ? 1 : value;
}

static double or_none(double value) {
    return isnan(value) ? 0 : value;
}

static double attention_scale(const DecoderShape *shape, const ParamSource *source, const Scales *scales) {
    bool wide = !source->config && source->architecture->gguf_wide_layers == shape->n_layers;
    if (source->architecture->unit_scores) return 1;
    if (scales->attention > 0) return scales->attention;
    if (source->config && scales->query > 0) return 1 / sqrt(scales->query);
    if (shape->latent.rank > 0) return 1 / sqrt(shape->latent.plain_dim + shape->rope.rotary_dim);
    return 1 / sqrt(wide ? (double)shape->hidden_size / shape->n_heads : shape->head_dim);
}

// Norms do not see how large x is, but for their epsilon, and only they read x: x over the residuals' scale becomes
// what x would, and nothing has to be scaled in the layers.
static Status keep_divided(Model *model, const ParamSource *source, double residual, Key key, Error *error) {
    model->residual_scale = residual;
    model->shape.embedding_scale = (float)((double)model->shape.embedding_scale / residual);
    model->shape.norm_eps = (float)((double)model->shape.norm_eps / (residual * residual));
    if (residual == 1 || !model->qk_norm) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: scaled residuals (%s) beside norms of queries and keys, which palaver cannot run",
                     source->path, source_short_key(source, key));
}

Status model_read_scales(Model *model, const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    DecoderShape *shape = &model->shape;
    Scales scales = a->scales;
    Status status = STATUS_OK;
    for (size_t i = 0; i < N_SCALES && !status; i++)
        if (*scale_at(&scales, i) != 0)
            status = read_scale(source, SCALES[i].key, scale_at(&scales, i), error);
    if (status) return status;
    if (a->logits_capped && source->config && isnan(scales.logit_cap))
        return param_refuse_null(source, NULL, "final_logit_softcapping", error);
    double residual = or_one(scales.residual), over = or_one(scales.logits_over);
    const bool of_class = source->config || a->gguf_silent;
    if (of_class && scales.depth > 0) residual = scales.depth / sqrt(shape->n_layers);
    if (of_class && scales.width > 0) over = shape->hidden_size / scales.width;
    bool root = a->embedding_root && (!source->config || !a->embedding_root_key);
    if (a->embedding_root_key) {
        status = param_bool(source, (Key){a->embedding_root_key, NULL}, &root, error);
        if (status) return status;
    }
    shape->embedding_scale = (float)(root ? sqrt(shape->hidden_size) : or_one(scales.embedding));
    const double queries = source->config ? or_one(scales.normed_queries) : 1;
    shape->attention_scale = (float)(attention_scale(shape, source, &scales) * queries);
    shape->attention_cap = (float)or_none(scales.attention_cap);
    shape->logit_cap = (float)or_none(scales.logit_cap);
    shape->logit_scale = (float)(or_one(scales.logits) / over);
    if (a->modules[MODULE_ATTN_POST_NORM] && residual != 1) // the norms of what is added have it
        model->multipliers.post_norms = residual, residual = 1;
    status = model_read_multipliers(model, source, &residual, error);
    const Key key = {source->config && scales.depth > 0 ? "scale_depth" : "residual_multiplier",
                     "residual_scale"};
    return status ? status : keep_divided(model, source, residual, key, error);
}
