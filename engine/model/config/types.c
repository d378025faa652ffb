#include "engine/model/config/types.h"

#include "kernels/base/text/text.h"

#include <stdio.h>

static const JsonTyped TYPED[] = {
    {"text_config", JSON_AN_OBJECT},
    {"rope_scaling", JSON_AN_OBJECT},
    {"rope_parameters", JSON_AN_OBJECT},
    {"attn_config", JSON_AN_OBJECT},
    {"per_layer_config", JSON_AN_OBJECT},
    {"layer_types", JSON_STRINGS},
    {"layers_block_type", JSON_STRINGS},
    {"hybrid_override_pattern", JSON_A_STRING},
    {"mlp_layer_types", JSON_STRINGS},
    {"full_attn_idxs", JSON_INTEGERS},
    {"mlp_only_layers", JSON_INTEGERS},
    {"moe_layers", JSON_INTEGERS},
    {"no_rope_layers", JSON_INTEGERS},
    {"decoder_sparse_step", JSON_AN_INTEGER},
    {"first_k_dense_replace", JSON_AN_INTEGER},
    {"interleave_moe_layer_step", JSON_AN_INTEGER},
    {"moe_layer_start_index", JSON_AN_INTEGER},
    {"moe_layer_end_index", JSON_AN_INTEGER},
    {"moe_layer_interval", JSON_AN_INTEGER},
    {"num_dense_layers", JSON_AN_INTEGER},
    // By these the row of architectures/ is chosen.
    {"alibi", JSON_A_FLAG | JSON_AN_INTEGER},
    {"enable_moe_block", JSON_A_FLAG | JSON_AN_INTEGER},
    {"new_decoder_architecture", JSON_A_FLAG | JSON_AN_INTEGER},
    {"num_ln_in_parallel_attn", JSON_AN_INTEGER},
    {"position_encoding_2d", JSON_A_FLAG | JSON_AN_INTEGER},
    {"shared_intermediate_size", JSON_AN_INTEGER},
    {"use_parallel_residual", JSON_A_FLAG | JSON_AN_INTEGER},
};

// Where layers differ in their rope, an object for each kind of them.
static Status check_kinds(const ParamSource *source, Error *error) {
    json_t *all = json_object_get(source->config, "rope_parameters"), *value;
    const char *kind;
    char what[512];
    snprintf(what, sizeof what, "%.400s: rope_parameters", source->path);
    json_object_foreach(all, kind, value) {
        const JsonTyped typed = {kind, JSON_AN_OBJECT};
        if (text_has_suffix(kind, "_attention") && json_check_type(all, what, &typed, error))
            return error->status;
    }
    return STATUS_OK;
}

// Gemma 4's layers: what each says of its own heads.
static Status check_layers(const ParamSource *source, Error *error) {
    static const JsonTyped OF_HEADS[] = {{"head_dim", JSON_AN_INTEGER},
                                         {"num_key_value_heads", JSON_AN_INTEGER}};
    json_t *all = json_object_get(source->config, "per_layer_config"), *value;
    const char *layer;
    char what[512];
    json_object_foreach(all, layer, value) {
        snprintf(what, sizeof what, "%.400s: per_layer_config.%.40s", source->path, layer);
        for (int i = 0; i < 2; i++)
            if (json_check_type(value, what, &OF_HEADS[i], error)) return error->status;
    }
    return STATUS_OK;
}

Status types_check(const ParamSource *source, Error *error) {
    if (!source->config) return STATUS_OK;
    for (size_t i = 0; i < sizeof TYPED / sizeof *TYPED; i++)
        if (json_check_type(source->config, source->path, &TYPED[i], error)) return error->status;
    Status status = check_kinds(source, error);
    return status ? status : check_layers(source, error);
}
