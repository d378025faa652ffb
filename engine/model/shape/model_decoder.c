// The decoder's shape: its sizes, norms, activation and biases.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static Status read_norm(DecoderShape *shape, const ParamSource *source, Error *error) {
    static const Key KEYS[] = {[NORM_RMS] = {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
                               [NORM_LAYER] = {"layer_norm_eps", "attention.layer_norm_epsilon"}};
    const Key key = KEYS[source->architecture->norm];
    double eps = source->architecture->norm_eps;
    char text[KEY_SIZE];
    Status status = STATUS_OK;
    if (!source->config || !source->architecture->fixed_eps) status = param_number(source, key, &eps, error);
    double behind = source->architecture->post_norm_eps;
    static const Key BEHIND = {"post_norm_eps", NULL};
    const bool apart = behind > 0;
    if (!status && apart) status = param_number(source, BEHIND, &behind, error);
    if (status) return status;
    const bool in_order = eps >= 0 && eps < 1;
    if (!in_order || (apart && !(behind > 0 && behind < 1))) {
        return error_set(error, STATUS_FILE,
                         "%s: %s, the norm's epsilon, is %g; it must be small and positive", source->path,
                         source_key(source, in_order ? BEHIND : key, text), in_order ? behind : eps);
    }
    shape->norm = source->architecture->norm;
    shape->norm_eps = (float)eps;
    shape->post_norm_eps = (float)behind;
    shape->norm_offset = source->config && source->architecture->offset_norms ? 1 : 0;
    shape->last_norm_whole = source->architecture->last_norm_whole;
    return STATUS_OK;
}

static Status read_activation(DecoderShape *shape, const ParamSource *source, Error *error) {
    static const struct {
        const char *name;
        Activation activation;
    } NAMES[] = {{"silu", ACTIVATION_SILU},          {"swish", ACTIVATION_SILU},
                 {"gelu", ACTIVATION_GELU},          {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
                 {"gelu_new", ACTIVATION_GELU_TANH}, {"gelu_fast", ACTIVATION_GELU_TANH},
                 {"relu", ACTIVATION_RELU},          {"relu2", ACTIVATION_RELU2},
                 {"xielu", ACTIVATION_XIELU}};
    static const char SILENT[] = "\n"; // no file's string is read as one
    char name[64];
    snprintf(name, sizeof name, "%s", SILENT);
    shape->activation = source->architecture->activation;
    if (source->architecture->fixed_act) return STATUS_OK;
    Status status = param_string(source, (Key){"hidden_act", NULL}, name, sizeof name, error);
    if (status) return status;
    if (strcmp(name, SILENT) == 0) return STATUS_OK;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const bool has_none = NAMES[i].activation == ACTIVATION_XIELU && !source->architecture->xielu;
        if (strcmp(NAMES[i].name, name) != 0 || has_none) continue;
        shape->activation = NAMES[i].activation;
        if (source->architecture->gelu_is_tanh && shape->activation == ACTIVATION_GELU)
            shape->activation = ACTIVATION_GELU_TANH;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: %s \"%s\"; palaver knows silu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, relu, "
                     "relu2, and Apertus's xielu",
                     source->path, source_config_key(source, "hidden_act"), name);
}

// Of the first layer, or where layers may recur of any, as the first that attends is another.
static unsigned biases_of_gguf(const Checkpoint *checkpoint, int n_layers) {
    static const struct {
        const char *tensor;
        unsigned biases;
    } SIGNS[] = {{"attn_q", BIAS_QKV},
                 {"attn_qkv", BIAS_QKV},
                 {"attn_output", BIAS_O},
                 {"ffn_up", BIAS_FFN},
                 {"attn_norm", BIAS_NORM}};
    unsigned biases = checkpoint_find(checkpoint, "output.bias") ? BIAS_OUTPUT : 0;
    for (int l = 0; l < n_layers; l++)
        for (size_t i = 0; i < sizeof SIGNS / sizeof *SIGNS; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.bias", l, SIGNS[i].tensor);
            if (checkpoint_find(checkpoint, name) != NULL) biases |= SIGNS[i].biases;
        }
    return biases;
}

// Biases that an architecture leaves open are announced by config.json; in a GGUF file they are simply there.
static Status read_biases(Model *model, const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    unsigned biases = a->biases;
    model->qk_norm = a->qk_norm || (a->unit_norms == UNIT_NORMS_ALL && !source->config);
    if (!source->config) {
        if (a->qk_norm_key)
            model->qk_norm = checkpoint_find(source->checkpoint, "blk.0.attn_q_norm.weight") != NULL;
        model->tied_head = checkpoint_find(source->checkpoint, "output.weight") == NULL;
        const unsigned there = biases_of_gguf(source->checkpoint, a->recurs ? model->shape.n_layers : 1);
        // That of a head that has none is a tensor like any other that nobody knows.
        biases |= (a->biases | a->bias_keys) & BIAS_OUTPUT ? there : there & ~(unsigned)BIAS_OUTPUT;
    } else {
        const Key keys[] = {{"attention_bias", NULL}, {"mlp_bias", NULL}, {"lm_head_bias", NULL}};
        const unsigned of_key[] = {a->bias_keys & (BIAS_QKV | BIAS_O), a->bias_keys & BIAS_FFN,
                                   a->bias_keys & BIAS_OUTPUT};
        Status status = STATUS_OK;
        model->tied_head = a->default_tied;
        for (int i = 0; i < 3 && !status; i++) {
            bool there = biases & of_key[i];
            if (of_key[i] != 0) status = param_bool(source, keys[i], &there, error);
            biases = there ? biases | of_key[i] : biases & ~of_key[i];
        }
        if (!status)
            status = param_bool(source, (Key){"tie_word_embeddings", NULL}, &model->tied_head, error);
        if (!status && a->qk_norm_key)
            status = param_bool(source, (Key){"use_qk_norm", NULL}, &model->qk_norm, error);
        if (status) return status;
    }
    model->qkv_bias = biases & BIAS_QKV;
    model->o_bias = biases & BIAS_O;
    model->ffn_bias = biases & BIAS_FFN;
    model->norm_bias = biases & BIAS_NORM;
    model->output_bias = biases & BIAS_OUTPUT;
    return STATUS_OK;
}

Status model_read_shape(Model *model, const ParamSource *source, Error *error) {
    DecoderShape *shape = &model->shape;
    const Architecture *a = source->architecture;
    Status status = model_read_sizes(model, source, error);
    if (!status) status = read_activation(shape, source, error);
    if (!status) status = read_biases(model, source, error);
    if (!status) status = read_norm(shape, source, error);
    if (!status) status = model_check_refusals(shape, source, error);
    shape->parallel_residual = a->parallel_residual;
    if (a->deep_norm) shape->normed_residual = sqrtf(2.0f * (float)shape->n_layers);
    shape->norms_turned = a->norms_turned;
    shape->norms_experts = a->experts.there && !a->experts.beside[0] && a->modules[MODULE_FFN_POST_NORM];
    shape->head_gates = a->head_gates;
    shape->gates_attention = a->query_gates || a->modules[MODULE_ATTN_GATE];
    shape->head_layer_norms = a->head_layer_norms && model->qk_norm;
    if (!status && a->parallel_key) {
        status = param_bool(source, (Key){"use_parallel_residual", "use_parallel_residual"},
                            &shape->parallel_residual, error);
    }
    if (status) return status;
    if (shape->vocab_size == 0)
        return error_set(error, STATUS_FILE, "%s: vocab_size is missing", source->path);
    return model_read_scales(model, source, error);
}
