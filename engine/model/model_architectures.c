// The table of architectures. What differs between them is said here, in values; nowhere else is there a name.
#include "engine/model/model_internal.h"
#include "engine/model/param.h"
#include "kernels/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// ---- names ---------------------------------------------------------------------------------------------

#define LLAMA_NAMES                                                                                          \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules = {                                                                                             \
        [MODULE_ATTN_NORM] = "input_layernorm",                                                              \
        [MODULE_Q] = "self_attn.q_proj",                                                                     \
        [MODULE_K] = "self_attn.k_proj",                                                                     \
        [MODULE_V] = "self_attn.v_proj",                                                                     \
        [MODULE_Q_NORM] = "self_attn.q_norm",                                                                \
        [MODULE_K_NORM] = "self_attn.k_norm",                                                                \
        [MODULE_O] = "self_attn.o_proj",                                                                     \
        [MODULE_FFN_NORM] = "post_attention_layernorm",                                                      \
        [MODULE_GATE] = "mlp.gate_proj",                                                                     \
        [MODULE_UP] = "mlp.up_proj",                                                                         \
        [MODULE_DOWN] = "mlp.down_proj",                                                                     \
        [MODULE_EMBEDDING] = "embed_tokens",                                                                 \
        [MODULE_NORM] = "norm",                                                                              \
        [MODULE_OUTPUT] = "lm_head",                                                                         \
    }

// As llama.cpp's converter writes them, for every architecture alike.
const char *const GGUF_MODULES[N_MODULES] = {
    [MODULE_ATTN_NORM] = "attn_norm",
    [MODULE_Q] = "attn_q",
    [MODULE_K] = "attn_k",
    [MODULE_V] = "attn_v",
    [MODULE_QKV] = "attn_qkv",
    [MODULE_Q_NORM] = "attn_q_norm",
    [MODULE_K_NORM] = "attn_k_norm",
    [MODULE_O] = "attn_output",
    [MODULE_FFN_NORM] = "ffn_norm",
    [MODULE_GATE] = "ffn_gate",
    [MODULE_UP] = "ffn_up",
    [MODULE_GATE_UP] = "ffn_up",
    [MODULE_DOWN] = "ffn_down",
    [MODULE_EMBEDDING] = "token_embd",
    [MODULE_EMBEDDING_NORM] = "token_embd_norm",
    [MODULE_NORM] = "output_norm",
    [MODULE_OUTPUT] = "output",
};

#define NO_ATTENTION_BIAS                                                                                    \
    { NULL, {"attention_bias"}, 0, "biases of attention" }
#define NO_MLP_BIAS                                                                                          \
    { NULL, {"mlp_bias"}, 0, "biases of the feed-forward part" }

// ---- architectures -------------------------------------------------------------------------------------

// Mistral's GGUF files say "llama". Sliding windows in a GGUF file count for every architecture that names
// them.
static const Architecture ARCHITECTURES[] = {
    {.name = "llama",
     .gguf = "llama",
     LLAMA_NAMES,
     .bias_keys = BIAS_QKV | BIAS_O | BIAS_FFN,
     .gguf_rope = ROPE_INTERLEAVED,
     .norm_eps = 1e-6,
     .default_context = 2048},
    {.name = "mistral",
     .gguf = "mistral",
     LLAMA_NAMES,
     .fixed = {NO_ATTENTION_BIAS, NO_MLP_BIAS},
     .gguf_rope = ROPE_INTERLEAVED,
     .window_rule = WINDOW_EVERY_LAYER,
     .norm_eps = 1e-6,
     .default_context = 131072,
     .default_window = 4096},
    {.name = "qwen2",
     .gguf = "qwen2",
     LLAMA_NAMES,
     .fixed = {NO_MLP_BIAS},
     .ignored = {"attention_bias"},
     .biases = BIAS_QKV,
     .window_rule = WINDOW_UPPER_LAYERS,
     .norm_eps = 1e-6,
     .default_context = 32768,
     .default_window = 4096},
    {.name = "qwen3",
     .gguf = "qwen3",
     LLAMA_NAMES,
     .fixed = {NO_MLP_BIAS},
     .bias_keys = BIAS_QKV | BIAS_O,
     .qk_norm = true,
     .window_rule = WINDOW_UPPER_LAYERS,
     .norm_eps = 1e-6,
     .default_context = 32768,
     .default_window = 4096,
     .default_head_dim = 128},
    // Phi-3, Phi-3.5 and Phi-4, "mini" and "medium".
    {.name = "phi3",
     .gguf = "phi3",
     .base = "model.",
     .layer = "layers.%d.",
     .modules = {[MODULE_ATTN_NORM] = "input_layernorm",
                 [MODULE_QKV] = "self_attn.qkv_proj",
                 [MODULE_O] = "self_attn.o_proj",
                 [MODULE_FFN_NORM] = "post_attention_layernorm",
                 [MODULE_GATE_UP] = "mlp.gate_up_proj",
                 [MODULE_DOWN] = "mlp.down_proj",
                 [MODULE_EMBEDDING] = "embed_tokens",
                 [MODULE_NORM] = "norm",
                 [MODULE_OUTPUT] = "lm_head"},
     .fixed = {NO_ATTENTION_BIAS,
               NO_MLP_BIAS,
               {NULL, {"full_attn_mod"}, 1, "layers of another attention"},
               {NULL, {"interpolate_factor"}, 1, "other positions"}},
     .partial_rotary = true,
     .longrope_alone = true,
     .window_rule = WINDOW_EVERY_LAYER,
     .windows_alike = true,
     .norm_eps = 1e-5,
     .default_context = 4096},

    // Attention and feed-forward share one norm and read the same x.
    {.name = "gptj",
     .base = "transformer.",
     .layer = "h.%d.",
     .modules = {[MODULE_ATTN_NORM] = "ln_1",
                 [MODULE_Q] = "attn.q_proj",
                 [MODULE_K] = "attn.k_proj",
                 [MODULE_V] = "attn.v_proj",
                 [MODULE_O] = "attn.out_proj",
                 [MODULE_UP] = "mlp.fc_in",
                 [MODULE_DOWN] = "mlp.fc_out",
                 [MODULE_EMBEDDING] = "wte",
                 [MODULE_NORM] = "ln_f",
                 [MODULE_OUTPUT] = "lm_head"},
     .aliases = {{"num_hidden_layers", "n_layer", true},
                 {"hidden_size", "n_embd", true},
                 {"num_attention_heads", "n_head", true},
                 {"intermediate_size", "n_inner", true},
                 {"max_position_embeddings", "n_positions", true},
                 {"hidden_act", "activation_function"},
                 {"layer_norm_eps", "layer_norm_epsilon"}},
     .fixed = {{NULL, {"rotary"}, 1, "positions other than rotary ones"},
               {NULL, {"scale_attn_weights"}, 1, "scores that are not scaled"}},
     .buffers = {".attn.bias", ".attn.masked_bias"},
     .biases = BIAS_FFN | BIAS_NORM | BIAS_OUTPUT,
     .norm = NORM_LAYER,
     .norm_eps = 1e-5,
     .activation = ACTIVATION_GELU_TANH,
     .parallel_residual = true,
     .hf_rope = ROPE_INTERLEAVED,
     .default_context = 2048,
     .default_rotary_dim = 64,
     .ffn_ratio = 4},
    {.name = "gpt_neox",
     .gguf = "gptneox",
     .base = "gpt_neox.",
     .layer = "layers.%d.",
     .modules = {[MODULE_ATTN_NORM] = "input_layernorm",
                 [MODULE_QKV] = "attention.query_key_value",
                 [MODULE_O] = "attention.dense",
                 [MODULE_FFN_NORM] = "post_attention_layernorm",
                 [MODULE_UP] = "mlp.dense_h_to_4h",
                 [MODULE_DOWN] = "mlp.dense_4h_to_h",
                 [MODULE_EMBEDDING] = "embed_in",
                 [MODULE_NORM] = "final_layer_norm",
                 [MODULE_OUTPUT] = "embed_out"},
     .aliases = {{"rope_theta", "rotary_emb_base"}, {"partial_rotary_factor", "rotary_pct"}},
     .fixed = {{NULL, {"mlp_bias"}, 1, "a feed-forward part without biases"}},
     .buffers = {".attention.bias", ".attention.masked_bias"},
     .qkv_by_head = true,
     .biases = BIAS_QKV | BIAS_O | BIAS_FFN | BIAS_NORM,
     .bias_keys = BIAS_QKV | BIAS_O,
     .parallel_key = true,
     .partial_rotary = true,
     .norm = NORM_LAYER,
     .norm_eps = 1e-5,
     .activation = ACTIVATION_GELU,
     .parallel_residual = true,
     .default_context = 2048,
     .default_rotary_part = 0.25},
    // Rows 0 and 1 of its positions are for padding.
    {.name = "opt",
     .base = "model.",
     .layer = "decoder.layers.%d.",
     .modules = {[MODULE_ATTN_NORM] = "self_attn_layer_norm",
                 [MODULE_Q] = "self_attn.q_proj",
                 [MODULE_K] = "self_attn.k_proj",
                 [MODULE_V] = "self_attn.v_proj",
                 [MODULE_O] = "self_attn.out_proj",
                 [MODULE_FFN_NORM] = "final_layer_norm",
                 [MODULE_UP] = "fc1",
                 [MODULE_DOWN] = "fc2",
                 [MODULE_EMBEDDING] = "decoder.embed_tokens",
                 [MODULE_POSITIONS] = "decoder.embed_positions",
                 [MODULE_NORM] = "decoder.final_layer_norm",
                 [MODULE_OUTPUT] = "lm_head"},
     .aliases = {{"intermediate_size", "ffn_dim", true},
                 {"hidden_act", "activation_function"},
                 {"attention_bias", "enable_bias"},
                 {"mlp_bias", "enable_bias"}},
     .fixed = {{NULL, {"do_layer_norm_before"}, 1, "norms after attention and feed-forward"},
               {NULL, {"layer_norm_elementwise_affine"}, 1, "norms without weights"},
               {NULL, {"_remove_final_layer_norm"}, 0, "a model without its last norm"},
               {NULL, {"learned_embeddings"}, 1, "positions that are not learned"},
               {NULL, {"scale_embeddings"}, 0, "scaled embeddings"}},
     .buffers = {"decoder.version"},
     .fixed_eps = true,
     .biases = BIAS_QKV | BIAS_O | BIAS_FFN | BIAS_NORM,
     .bias_keys = BIAS_QKV | BIAS_O | BIAS_FFN,
     .norm = NORM_LAYER,
     .norm_eps = 1e-5,
     .activation = ACTIVATION_RELU,
     .positions = POSITIONS_LEARNED,
     .position_offset = 2,
     .default_tied = true,
     .default_context = 2048},
    {.name = "bloom",
     .gguf = "bloom",
     .base = "transformer.",
     .layer = "h.%d.",
     .modules = {[MODULE_ATTN_NORM] = "input_layernorm",
                 [MODULE_QKV] = "self_attention.query_key_value",
                 [MODULE_O] = "self_attention.dense",
                 [MODULE_FFN_NORM] = "post_attention_layernorm",
                 [MODULE_UP] = "mlp.dense_h_to_4h",
                 [MODULE_DOWN] = "mlp.dense_4h_to_h",
                 [MODULE_EMBEDDING] = "word_embeddings",
                 [MODULE_EMBEDDING_NORM] = "word_embeddings_layernorm",
                 [MODULE_NORM] = "ln_f",
                 [MODULE_OUTPUT] = "lm_head"},
     .aliases = {{"num_hidden_layers", "n_layer", true},
                 {"num_attention_heads", "n_head", true},
                 {"hidden_size", "n_embed", true},
                 {"intermediate_size", "n_inner", true},
                 {"max_position_embeddings", "seq_length", true},
                 {"layer_norm_eps", "layer_norm_epsilon"}},
     .fixed =
         {{NULL, {"apply_residual_connection_post_layernorm"}, 0, "residuals that begin behind the norms"}},
     .fixed_act = true,
     .qkv_by_head = true,
     .biases = BIAS_QKV | BIAS_O | BIAS_FFN | BIAS_NORM,
     .norm = NORM_LAYER,
     .norm_eps = 1e-5,
     .activation = ACTIVATION_GELU_TANH,
     .positions = POSITIONS_ALIBI,
     .default_tied = true,
     .default_context = 2048,
     .ffn_ratio = 4},
    {.name = "mpt",
     .gguf = "mpt",
     .base = "transformer.",
     .layer = "blocks.%d.",
     .modules = {[MODULE_ATTN_NORM] = "norm_1",
                 [MODULE_QKV] = "attn.Wqkv",
                 [MODULE_O] = "attn.out_proj",
                 [MODULE_FFN_NORM] = "norm_2",
                 [MODULE_UP] = "ffn.up_proj",
                 [MODULE_DOWN] = "ffn.down_proj",
                 [MODULE_EMBEDDING] = "wte",
                 [MODULE_NORM] = "norm_f",
                 [MODULE_OUTPUT] = "lm_head"},
     .aliases = {{"num_hidden_layers", "n_layers", true},
                 {"num_attention_heads", "n_heads", true},
                 {"hidden_size", "d_model", true},
                 {"max_position_embeddings", "max_seq_len", true},
                 {"layer_norm_eps", "layer_norm_epsilon"}},
     .fixed = {{"attn_config", {"alibi"}, 1, "positions other than ALiBi's"},
               {"attn_config",
                {"alibi_bias_max", "attention.max_alibi_bias"},
                8,
                "another range of slopes than 8"},
               {"attn_config", {"clip_qkv", "attention.clamp_kqv"}, 0, "clipped queries, keys and values"},
               {"attn_config", {"qk_ln"}, 0, "norms of queries and keys"},
               {"attn_config", {"prefix_lm"}, 0, "attention to a prefix in both directions"},
               {"attn_config", {"softmax_scale"}, 0, "another scale of scores"},
               {"attn_config", {"rope"}, 0, "rotary positions"},
               {"attn_config", {"is_encoder_decoder"}, 0, "an encoder beside the decoder"},
               {"attn_config", {"attn_type"}, 0, "another attention", "multihead_attention"},
               {NULL, {"logit_scale"}, 0, "scaled logits"},
               {NULL, {"no_bias"}, 1, "biases"},
               {NULL, {"norm_type"}, 0, "other norms", "low_precision_layernorm"}},
     // ALiBi's models have learned positions in no file; attn_impl and its like say how it was trained.
     .ignored = {"learned_pos_emb", "expansion_ratio", "attn_impl", "attn_uses_sequence_id"},
     .fixed_act = true,
     .norm = NORM_LAYER,
     .norm_eps = 1e-5,
     .activation = ACTIVATION_GELU,
     .positions = POSITIONS_ALIBI,
     .default_tied = true,
     .default_context = 2048,
     .ffn_ratio = 4},
};

enum { N_ARCHITECTURES = sizeof ARCHITECTURES / sizeof *ARCHITECTURES };

// Whether `name` is that of transformers' class for text of the architecture; publishers write its letters large or
// small as they like ("MPTForCausalLM", "MptForCausalLM").
static bool is_class_of(const Architecture *a, const char *name) {
    for (const char *at = a->name; *at; at++) {
        if (*at == '_') continue;
        if (tolower((unsigned char)*name) != *at) return false;
        name++;
    }
    return strcmp(name, "ForCausalLM") == 0;
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
        if (!ok || is_class_of(source->architecture, name)) continue;
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

Status model_find_architecture(ParamSource *source, Error *error) {
    bool is_gguf = !source->config;
    char name[64] = "", known[256] = "";
    Status status =
        param_string(source, (Key){"model_type", ".general.architecture"}, name, sizeof name, error);
    if (!status) status = check_file_type(source, error);
    if (status) return status;
    if (name[0] == '\0') {
        return error_set(error, STATUS_FILE, "%s: does not name its architecture (%s)", source->path,
                         is_gguf ? "general.architecture" : "model_type");
    }
    for (size_t i = 0; i < N_ARCHITECTURES; i++) {
        const Architecture *a = &ARCHITECTURES[i];
        const char *called = is_gguf ? a->gguf : a->name;
        if (called && strcmp(called, name) == 0) {
            source->architecture = a;
            return check_class(source, error);
        }
        if (is_gguf && !a->gguf && strcmp(a->name, name) == 0) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: palaver reads %s models only as Hugging Face folders (config.json and "
                             "*.safetensors), not as GGUF files",
                             source->path, name);
        }
        size_t n = strlen(known);
        if (called) snprintf(known + n, sizeof known - n, "%s%s", n == 0 ? "" : ", ", called);
    }
    return error_set(error, STATUS_UNSUPPORTED, "%s: architecture \"%s\" is unknown to palaver; it knows %s",
                     source->path, name, known);
}
