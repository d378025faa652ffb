// Norms behind attention and the feed-forward part, beside those before them or in their place.
#include "engine/model/architectures/architectures.h"

#include <math.h>

#define ONLY_POST_NORM_NAMES                                                                                 \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules = {                                                                                             \
        LLAMA_ATTENTION,                                                                                     \
        [MODULE_Q_NORM] = "self_attn.q_norm",                                                                \
        [MODULE_K_NORM] = "self_attn.k_norm",                                                                \
        [MODULE_ATTN_POST_NORM] = "post_attention_layernorm",                                                \
        LLAMA_FEED_FORWARD,                                                                                  \
        [MODULE_FFN_POST_NORM] = "post_feedforward_layernorm",                                               \
        LLAMA_ENDS,                                                                                          \
    }

#define GLM4_NAMES                                                                                           \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules = {                                                                                             \
        [MODULE_ATTN_NORM] = "input_layernorm",                                                              \
        LLAMA_ATTENTION,                                                                                     \
        [MODULE_ATTN_POST_NORM] = "post_self_attn_layernorm",                                                \
        [MODULE_FFN_NORM] = "post_attention_layernorm",                                                      \
        [MODULE_GATE_UP] = "mlp.gate_up_proj",                                                               \
        [MODULE_DOWN] = "mlp.down_proj",                                                                     \
        [MODULE_FFN_POST_NORM] = "post_mlp_layernorm",                                                       \
        LLAMA_ENDS,                                                                                          \
    }

static const Architecture ROWS[] = {
    // OLMo 3's GGUF files say "olmo2" as well, and are those with a window.
    {.name = "olmo3",
     .gguf = "olmo2",
     ONLY_POST_NORM_NAMES,
     .bias_keys = BIAS_QKV | BIAS_O,
     .qk_norm = true,
     .qk_norm_rows = true,
     .window_rule = WINDOW_PERIODIC,
     .window_period = 4,
     .rope_rule = ROPE_BY_WINDOW,
     .default_base = 5e5,
     .norm_eps = 1e-5,
     .default_context = 2048,
     .default_window = 4096},
    {.name = "olmo2",
     ONLY_POST_NORM_NAMES,
     .bias_keys = BIAS_QKV | BIAS_O,
     .qk_norm = true,
     .qk_norm_rows = true,
     .norm_eps = 1e-5,
     .default_context = 2048},
    {.name = "exaone4",
     .gguf = "exaone4",
     ONLY_POST_NORM_NAMES,
     .qk_norm = true,
     .window_rule = WINDOW_PERIODIC,
     .window_period = 4,
     .period_key = true,
     .rope_rule = ROPE_IN_WINDOWS_IF_ANY,
     .norm_eps = 1e-5,
     .default_context = 2048,
     .default_window = 4096},
    // GLM-4.1V and 4.6V-Flash, whose GGUF files put pairs in halves.
    {.name = "glm4v_text",
     .gguf = "glm4",
     .with_meta = "rope.dimension_sections",
     .whole = "glm4v",
     .class_name = "glm4v",
     GLM4_NAMES,
     .fixed = {NO_MLP_BIAS},
     .ignored = {"attention_bias"},
     .ignored_rope = {"mrope_section"},
     .biases = BIAS_QKV,
     .partial_rotary = true,
     .sections = SECTIONS_IN_BLOCKS,
     .default_sections = 32,
     .hf_rope = ROPE_INTERLEAVED,
     .norm_eps = 1e-5,
     .default_context = 32768},
    // GLM-4-0414.
    {.name = "glm4",
     .gguf = "glm4",
     GLM4_NAMES,
     .biases = BIAS_QKV,
     .bias_keys = BIAS_QKV,
     .partial_rotary = true,
     .hf_rope = ROPE_INTERLEAVED,
     .gguf_rope = ROPE_INTERLEAVED,
     .norm_eps = 1.5625e-07,
     .default_context = 131072,
     .default_head_dim = 128,
     .default_rotary_part = 0.5},
    // HyperCLOVA X SEED Think: Granite with norms behind its parts, and logits that its scale multiplies.
    {.name = "hyperclovax",
     .base = "model.",
     .layer = "layers.%d.",
     .modules =
         {
             [MODULE_ATTN_NORM] = "input_layernorm",
             LLAMA_ATTENTION,
             [MODULE_ATTN_POST_NORM] = "post_norm1",
             [MODULE_FFN_NORM] = "post_attention_layernorm",
             LLAMA_FEED_FORWARD,
             [MODULE_FFN_POST_NORM] = "post_norm2",
             LLAMA_ENDS,
         },
     .aliases = {{"logit_scale", "logits_scaling"}},
     .fixed = {{NULL, {"use_post_norm"}, 1, "no norms behind its parts"}},
     .bias_keys = BIAS_QKV | BIAS_O | BIAS_FFN,
     .scales = {.attention = NAN, .embedding = 1, .residual = 1, .logits = 1},
     .norm_eps = 1e-6,
     .default_context = 2048},
};

const ArchitectureFamily architectures_post_norm = {ROWS, sizeof ROWS / sizeof *ROWS};
