// Which architecture a model's files are of: a row of the table in architectures/.
//
// A new architecture is a row in the file of its family (architectures/llama.c, gemma.c, …); a new family also stands in
// architectures.h and in FAMILIES below. What no field of Architecture says yet is a new property: a field there, its
// formula in kernels/decoder_shape.h, and a test in tests/golden.
#include "engine/model/architectures/architectures.h"
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "kernels/base/text/nearest.h"
#include "kernels/base/text/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// As llama.cpp's converter writes them, for every architecture alike.
const char *const GGUF_MODULES[N_MODULES] = {
    [MODULE_ATTN_NORM] = "attn_norm",
    [MODULE_Q] = "attn_q",
    [MODULE_K] = "attn_k",
    [MODULE_V] = "attn_v",
    [MODULE_QKV] = "attn_qkv",
    [MODULE_Q_NORM] = "attn_q_norm",
    [MODULE_K_NORM] = "attn_k_norm",
    [MODULE_ATTN_GATE] = "attn_gate",
    [MODULE_O] = "attn_output",
    [MODULE_ATTN_POST_NORM] = "post_attention_norm",
    [MODULE_FFN_NORM] = "ffn_norm",
    [MODULE_GATE] = "ffn_gate",
    [MODULE_UP] = "ffn_up",
    [MODULE_GATE_UP] = "ffn_up",
    [MODULE_DOWN] = "ffn_down",
    [MODULE_FFN_POST_NORM] = "post_ffw_norm",
    [MODULE_Q_DOWN] = "attn_q_a",
    [MODULE_Q_DOWN_NORM] = "attn_q_a_norm",
    [MODULE_Q_UP] = "attn_q_b",
    [MODULE_KV_DOWN] = "attn_kv_a_mqa",
    [MODULE_LATENT_NORM] = "attn_kv_a_norm",
    [MODULE_KV_UP] = "attn_kv_b",
    [MODULE_K_UP] = "attn_k_b",
    [MODULE_V_UP] = "attn_v_b",
    [MODULE_CONV_IN] = "shortconv.in_proj",
    [MODULE_CONV] = "shortconv.conv",
    [MODULE_CONV_OUT] = "shortconv.out_proj",
    [MODULE_DELTA_QKV] = "attn_qkv",
    [MODULE_DELTA_GATE] = "attn_gate",
    [MODULE_DELTA_QKV_GATE] = "ssm_in",
    [MODULE_DELTA_BETA] = "ssm_beta",
    [MODULE_DELTA_DECAY] = "ssm_alpha",
    [MODULE_DELTA_BETA_DECAY] = "ssm_ba",
    [MODULE_DELTA_CONV] = "ssm_conv1d",
    [MODULE_DELTA_NORM] = "ssm_norm",
    [MODULE_DELTA_OUT] = "ssm_out",
    [MODULE_DELTA_RATES] = "ssm_a",
    [MODULE_DELTA_BIAS] = "ssm_dt.bias",
    [MODULE_DELTA_SKIP] = "ssm_d",
    [MODULE_TOKEN_GATE] = "inp_gate",
    [MODULE_TOKEN_UP] = "proj",
    [MODULE_TOKEN_NORM] = "post_norm",
    [MODULE_TOKEN_EMBEDDING] = "per_layer_token_embd",
    [MODULE_TOKEN_PROJECTION] = "per_layer_model_proj",
    [MODULE_TOKEN_HEAD_NORM] = "per_layer_proj_norm",
    [MODULE_EMBEDDING] = "token_embd",
    [MODULE_POSITIONS] = "position_embd",
    [MODULE_EMBEDDING_NORM] = "token_embd_norm",
    [MODULE_NORM] = "output_norm",
    [MODULE_OUTPUT] = "output",
};

static const ArchitectureFamily *const FAMILIES[] = {
    &architectures_llama, &architectures_experts,     &architectures_latent,
    &architectures_gemma, &architectures_post_norm,   &architectures_layer_norm,
    &architectures_first, &architectures_gpt,         &architectures_convolution,
    &architectures_delta, &architectures_state_space, &architectures_sigmoid_experts,
    &architectures_vision};

enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

// Whether `name` is that of transformers' class for text of the architecture; publishers write its letters large or
// small as they like ("MPTForCausalLM", "MptForCausalLM"). The whole of several parts is of another class.
static bool is_class_of(const Architecture *a, const char *whole, const char *name) {
    for (int i = 0; i < 2 && a->other_classes[i]; i++)
        if (strcmp(a->other_classes[i], name) == 0) return true;
    const char *at = whole ? a->whole : a->class_name ? a->class_name : a->name;
    for (; *at; at++) {
        if (*at == '_') continue;
        while (*name == '_') name++;
        if (tolower((unsigned char)*name) != *at) return false;
        name++;
    }
    return strcmp(name, whole ? "ForConditionalGeneration" : "ForCausalLM") == 0;
}

// A model of another class has another head, or other layers than model_type says. Files need not name one.
static Status check_class(const ParamSource *source, Error *error) {
    const json_t *classes = json_object_get(source->config, "architectures");
    if (!classes || json_is_null(classes)) return STATUS_OK;
    bool ok = json_is_array(classes);
    for (size_t i = 0; i < json_array_size(classes) && ok; i++) {
        const char *name = json_string_value(json_array_get(classes, i));
        char shown[96];
        ok = name != NULL;
        if (!ok || is_class_of(source->architecture, source->whole, name)) continue;
        text_copy_printable(shown, sizeof shown, name, strlen(name));
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: architectures names %s, which is not the class of a %s model that writes text; "
                         "palaver runs no other",
                         source->path, shown, source->architecture->name);
    }
    return ok ? STATUS_OK
              : error_set(error, STATUS_FILE, "%s: architectures should be a list of names", source->path);
}

// GGUF files hold adapters, projectors and statistics as well.
static Status check_file_type(const ParamSource *source, Error *error) {
    char type[64] = "model";
    Status status = param_string(source, (Key){NULL, ".general.type"}, type, sizeof type, error);
    if (status || strcmp(type, "model") == 0) return status;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: general.type is \"%s\": the file does not hold a whole model, which alone palaver "
                     "can run",
                     source->path, type);
}

// Whether the conditions of a row hold, of several of one name.
static bool is_meant(const ParamSource *source, const Architecture *a) {
    if (!source->config) {
        char key[KEY_SIZE];
        snprintf(key, sizeof key, "%s.block_count", a->gguf);
        const MetaValue *layers = checkpoint_meta(source->checkpoint, key);
        if (a->when_layers > 0 &&
            (!layers || layers->type != META_INTEGER || layers->integer != a->when_layers))
            return false;
        snprintf(key, sizeof key, "%s.%s", a->gguf, a->with_meta ? a->with_meta : "");
        if (a->with_meta && !checkpoint_meta(source->checkpoint, key)) return false;
        return !a->when_tensor || checkpoint_find(source->checkpoint, a->when_tensor);
    }
    if (a->without_key && json_object_get(source->config, a->without_key)) return false;
    if (a->with_key && !json_member(source->config, a->with_key)) return false;
    for (size_t i = 0; i < sizeof a->when / sizeof *a->when && a->when[i].key; i++) {
        const json_t *value = json_object_get(source->config, a->when[i].key);
        double number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
        if (number != a->when[i].value) return false;
    }
    return true;
}

// GGUF files call a LLaMA and a Mixtral by the same name.
static bool mixes_experts(const ParamSource *source, const char *architecture) {
    char key[KEY_SIZE];
    snprintf(key, sizeof key, "%s.expert_count", architecture);
    const MetaValue *experts = checkpoint_meta(source->checkpoint, key);
    return experts && experts->number > 0;
}

const Architecture *model_architecture_at(int i) {
    for (int f = 0; f < N_FAMILIES; i -= FAMILIES[f++]->n)
        if (i < FAMILIES[f]->n) return &FAMILIES[f]->rows[i];
    return NULL;
}

// Many are known under several names; the nearest one says whether the file is of a newer version or of another kind.
static Status refuse_name(const ParamSource *source, const char *name, Error *error) {
    enum { MOST = 256 };
    const bool is_gguf = !source->config;
    const char *key = is_gguf ? "general.architecture" : "model_type", *names[MOST];
    size_t n = 0;
    for (int i = 0; n < MOST && model_architecture_at(i); i++) {
        const Architecture *a = model_architecture_at(i);
        const char *called = is_gguf ? a->gguf : a->name;
        if (called) names[n++] = called;
    }
    const int nearest = nearest_name(name, names, n);
    if (nearest >= 0)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: architecture \"%s\" (%s) is unknown to palaver; it knows %s, and others that its "
            "README lists",
            source->path, name, key, names[nearest]);
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: architecture \"%s\" (%s) is unknown to palaver; its README lists those that it knows",
        source->path, name, key);
}

Status model_find_architecture(ParamSource *source, Error *error) {
    bool is_gguf = !source->config;
    char name[64] = "";
    Status status =
        param_string(source, (Key){"model_type", ".general.architecture"}, name, sizeof name, error);
    if (!status) status = check_file_type(source, error);
    if (status) return status;
    if (name[0] == '\0') {
        return error_set(error, STATUS_FILE, "%s: does not name its architecture (%s)", source->path,
                         is_gguf ? "general.architecture" : "model_type");
    }
    const Architecture *other = NULL; // with experts where the file has none, or without
    bool only_folders = false;
    for (int i = 0; model_architecture_at(i); i++) {
        const Architecture *a = model_architecture_at(i);
        const char *called = is_gguf ? a->gguf : a->name;
        bool same = called && strcmp(called, name) == 0 && is_meant(source, a);
        if (same && is_gguf && a->experts.there != mixes_experts(source, name)) {
            if (!other) other = a;
        } else if (same) {
            if (source->whole && (!a->whole || strcmp(a->whole, source->whole) != 0))
                return error_set(error, STATUS_UNSUPPORTED,
                                 "%s: a %s model (model_type) around a %s model "
                                 "(text_config.model_type), whose parts palaver does not know",
                                 source->path, source->whole, name);
            source->architecture = a;
            return check_class(source, error);
        }
        const bool is_named =
            (a->name && strcmp(a->name, name) == 0) || (a->whole && strcmp(a->whole, name) == 0);
        only_folders |= is_gguf && !a->gguf && is_named;
    }
    if (other) {
        source->architecture = other;
        return STATUS_OK;
    }
    if (only_folders)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: palaver reads %s models only as Hugging Face folders (config.json and "
                         "*.safetensors), not as GGUF files",
                         source->path, name);
    return refuse_name(source, name, error);
}
