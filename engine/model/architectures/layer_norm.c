// Of today, with layer norms.
#include "engine/model/architectures/architectures.h"

// Attention and feed-forward share one norm.
#define COHERE_MODULES [MODULE_ATTN_NORM] = "input_layernorm", LLAMA_ATTENTION, LLAMA_FEED_FORWARD, LLAMA_ENDS

#define COHERE_VALUES                                                                                        \
    .bias_keys = BIAS_QKV | BIAS_O, .norm = NORM_LAYER, .norm_eps = 1e-5, .parallel_residual = true,         \
    .hf_rope = ROPE_INTERLEAVED, .gguf_rope = ROPE_INTERLEAVED, .scales = {.logits = 0.0625},                \
    .default_tied = true, .default_context = 8192

#define STABLELM_MODULES                                                                                     \
    [MODULE_ATTN_NORM] = "input_layernorm", LLAMA_ATTENTION,                                                 \
    [MODULE_Q_NORM] = "self_attn.q_layernorm.norms.%d", [MODULE_K_NORM] = "self_attn.k_layernorm.norms.%d",  \
    LLAMA_FEED_FORWARD, LLAMA_ENDS

#define STABLELM_VALUES                                                                                      \
    .aliases = {{"attention_bias", "use_qkv_bias"}, {"use_qk_norm", "qk_layernorm"}}, .biases = BIAS_NORM,   \
    .bias_keys = BIAS_QKV, .partial_rotary = true, .qk_norm_key = true, .head_layer_norms = true,            \
    .norm = NORM_LAYER, .norm_eps = 1e-5, .default_context = 4096, .default_rotary_part = 0.25

static const Architecture ROWS[] = {
    // Command R, and Command R+, which has norms of heads.
    {.name = "cohere",
     .gguf = "command-r",
     .base = "model.",
     .layer = "layers.%d.",
     .modules = {COHERE_MODULES, [MODULE_Q_NORM] = "self_attn.q_norm", [MODULE_K_NORM] = "self_attn.k_norm"},
     COHERE_VALUES,
     .qk_norm_key = true,
     .head_layer_norms = true,
     .default_base = 5e5},
    // Command R7B. Only layers with a window turn anything.
    {.name = "cohere2",
     .gguf = "cohere2",
     .base = "model.",
     .layer = "layers.%d.",
     .modules = {COHERE_MODULES},
     COHERE_VALUES,
     .fixed = {{NULL, {"use_embedding_sharing"}, 1, "another head"},
               {NULL, {"use_gated_activation"}, 1, "a feed-forward part without gates"},
               {NULL, {"use_parallel_block"}, 1, "parts one after the other"},
               {NULL, {"use_parallel_embedding"}, 0, "other embeddings"},
               {NULL, {"use_qk_norm"}, 0, "layer norms of queries and keys"},
               {NULL, {"rotary_pct"}, 1, "heads that are turned in part"},
               {NULL, {"order_of_interleaved_layers"}, 0, "another order of layers", "local_attn_first"},
               {NULL, {"layer_switch"}, 4, "another order of layers"},
               {NULL, {"position_embedding_type"}, 0, "other positions", "rope_gptj"}},
     .ignored = {"_sliding_window_pattern"},
     .window_rule = WINDOW_PERIODIC,
     .window_period = 4,
     .period_key = true,
     .rope_rule = ROPE_IN_WINDOWS,
     .default_window = 4096},
    // StableLM 2; 12B has one norm before both parts, and norms of heads.
    {.name = "stablelm",
     .gguf = "stablelm",
     .when = {{"use_parallel_residual", 0}},
     .when_tensor = "blk.0.ffn_norm.weight",
     .base = "model.",
     .layer = "layers.%d.",
     .modules = {STABLELM_MODULES, [MODULE_FFN_NORM] = "post_attention_layernorm"},
     .fixed = {{NULL, {"use_parallel_residual", "use_parallel_residual"}, 0, "parts side by side"},
               {NULL, {"rope_pct"}, 0, "an older file"}},
     STABLELM_VALUES},
    {.name = "stablelm",
     .gguf = "stablelm",
     .base = "model.",
     .layer = "layers.%d.",
     .modules = {STABLELM_MODULES},
     .fixed = {{NULL, {"use_parallel_residual", "use_parallel_residual"}, 1, "parts one after the other"},
               {NULL, {"rope_pct"}, 0, "an older file"}},
     .parallel_residual = true,
     STABLELM_VALUES},
    {.name = "starcoder2",
     .gguf = "starcoder2",
     .base = "model.",
     .layer = "layers.%d.",
     .modules =
         {
             [MODULE_ATTN_NORM] = "input_layernorm",
             LLAMA_ATTENTION,
             [MODULE_FFN_NORM] = "post_attention_layernorm",
             [MODULE_UP] = "mlp.c_fc",
             [MODULE_DOWN] = "mlp.c_proj",
             LLAMA_ENDS,
         },
     .aliases = {{"layer_norm_eps", "norm_epsilon"},
                 {"attention_bias", "use_bias"},
                 {"mlp_bias", "use_bias"}},
     .fixed = {{NULL, {"mlp_type"}, 0, "another feed-forward part", "default"},
               {NULL, {"norm_type"}, 0, "other norms", "layer_norm"}},
     .ignored = {"residual_dropout"},
     .biases = BIAS_QKV | BIAS_O | BIAS_FFN | BIAS_NORM,
     .bias_keys = BIAS_QKV | BIAS_O | BIAS_FFN,
     .norm = NORM_LAYER,
     .norm_eps = 1e-5,
     .activation = ACTIVATION_GELU_TANH,
     .window_rule = WINDOW_EVERY_LAYER,
     .windows_alike = true,
     .default_tied = true,
     .default_context = 4096},
    // Phi-1, 1.5 and 2.
    {.name = "phi",
     .gguf = "phi2",
     .base = "model.",
     .layer = "layers.%d.",
     .modules = {[MODULE_ATTN_NORM] = "input_layernorm",
                 [MODULE_Q] = "self_attn.q_proj",
                 [MODULE_K] = "self_attn.k_proj",
                 [MODULE_V] = "self_attn.v_proj",
                 [MODULE_O] = "self_attn.dense",
                 [MODULE_UP] = "mlp.fc1",
                 [MODULE_DOWN] = "mlp.fc2",
                 [MODULE_EMBEDDING] = "embed_tokens",
                 [MODULE_NORM] = "final_layernorm",
                 [MODULE_OUTPUT] = "lm_head"},
     .fixed = {{NULL, {"qk_layernorm"}, 0, "layer norms of queries and keys"}},
     .biases = BIAS_QKV | BIAS_O | BIAS_FFN | BIAS_NORM | BIAS_OUTPUT,
     .partial_rotary = true,
     .norm = NORM_LAYER,
     .norm_eps = 1e-5,
     .activation = ACTIVATION_GELU_TANH,
     .parallel_residual = true,
     .default_context = 2048,
     .default_rotary_part = 0.5},
    {.name = "nemotron",
     .gguf = "nemotron",
     UNGATED_NAMES,
     .aliases = {{"layer_norm_eps", "norm_eps"}},
     .biases = BIAS_NORM,
     .bias_keys = BIAS_QKV | BIAS_O | BIAS_FFN,
     .partial_rotary = true,
     .offset_norms = true,
     .norm = NORM_LAYER,
     .norm_eps = 1e-5,
     .activation = ACTIVATION_RELU2,
     .default_context = 4096,
     .default_rotary_part = 0.5},
    {.name = "jais2",
     .gguf = "jais2",
     UNGATED_NAMES,
     .biases = BIAS_QKV | BIAS_O | BIAS_FFN | BIAS_NORM,
     .bias_keys = BIAS_QKV | BIAS_O | BIAS_FFN,
     .norm = NORM_LAYER,
     .norm_eps = 1e-5,
     .activation = ACTIVATION_RELU2,
     .default_context = 8192},
};

const ArchitectureFamily architectures_layer_norm = {ROWS, sizeof ROWS / sizeof *ROWS};
