// Gemma: weights of norms less by 1, embeddings times the root of their size, windows in most layers.
#include "engine/model/architectures/architectures.h"

#include <math.h>

#define GEMMA_VALUES                                                                                         \
    .fixed = {{NULL, {"use_bidirectional_attention"}, 0, "attention to what comes later"}},                  \
    .bias_keys = BIAS_QKV | BIAS_O, .offset_norms = true, .norm_eps = 1e-6,                                  \
    .activation = ACTIVATION_GELU_TANH, .embedding_root = true, .default_tied = true,                        \
    .default_head_dim = 256

#define GEMMA_NORMED_LAYER                                                                                   \
    [MODULE_ATTN_NORM] = "input_layernorm",                                                                  \
    LLAMA_ATTENTION, [MODULE_Q_NORM] = "self_attn.q_norm", [MODULE_K_NORM] = "self_attn.k_norm",             \
    [MODULE_ATTN_POST_NORM] = "post_attention_layernorm", [MODULE_FFN_NORM] = "pre_feedforward_layernorm",   \
    LLAMA_FEED_FORWARD, [MODULE_FFN_POST_NORM] = "post_feedforward_layernorm"

#define GEMMA_NORMED_NAMES                                                                                   \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules = {                                                                                             \
        GEMMA_NORMED_LAYER,                                                                                  \
        LLAMA_ENDS,                                                                                          \
    }

#define GEMMA4_NAMES                                                                                         \
    .whole = "gemma4", .class_name = "gemma4", .base = "model.", .layer = "layers.%d.",                      \
    .modules = {                                                                                             \
        GEMMA_NORMED_LAYER,                                                                                  \
        [MODULE_TOKEN_GATE] = "per_layer_input_gate",                                                        \
        [MODULE_TOKEN_UP] = "per_layer_projection",                                                          \
        [MODULE_TOKEN_NORM] = "post_per_layer_input_norm",                                                   \
        [MODULE_TOKEN_EMBEDDING] = "embed_tokens_per_layer",                                                 \
        [MODULE_TOKEN_PROJECTION] = "per_layer_model_projection",                                            \
        [MODULE_TOKEN_HEAD_NORM] = "per_layer_projection_norm",                                              \
        LLAMA_ENDS,                                                                                          \
    }

#define GEMMA4_FIXED                                                                                         \
    {NULL, {"use_bidirectional_attention"}, 0, "attention to what comes later", "vision"}, NO_ATTENTION_BIAS

#define GEMMA4_VALUES                                                                                        \
    .default_proportional = 0.25, .norm_eps = 1e-6, .activation = ACTIVATION_GELU_TANH,                      \
    .embedding_root = true, .default_tied = true, .default_head_dim = 256, .qk_norm = true,                  \
    .heads_by_window = true, .unit_scores = true, .value_norm = true, .x_scale = "layer_scalar",             \
    .partial_rotary = true, .window_rule = WINDOW_PERIODIC, .window_period = 6, .rope_rule = ROPE_BY_WINDOW, \
    .ropes_of_kinds = true, .default_base = 1e6, .default_window_base = 1e4, .scales = {.logit_cap = NAN}

static const Architecture ROWS[] = {
    // Its first files say "gelu" and mean the approximation; hidden_activation is what others have for it.
    {.name = "gemma",
     .gguf = "gemma",
     LLAMA_NAMES,
     GEMMA_VALUES,
     .ignored = {"hidden_activation"},
     .gelu_is_tanh = true,
     .default_context = 8192},
    {.name = "gemma2",
     .gguf = "gemma2",
     GEMMA_NORMED_NAMES,
     GEMMA_VALUES,
     .aliases = {{"hidden_act", "hidden_activation"}},
     .window_rule = WINDOW_PERIODIC,
     .window_period = 2,
     .scales = {.query = 256, .attention_cap = 50, .logit_cap = 30},
     .gguf_wide_layers = 46,
     .default_context = 8192,
     .default_window = 4096},
    // Gemma 2 with gates behind attention, norms without weights of queries, keys and embeddings, and a last norm that is not
    // less by 1.
    {.name = "muse_glimmer_text",
     .gguf = "muse-glimmer",
     .whole = "muse_glimmer",
     .class_name = "museglimmer",
     .base = "model.",
     .layer = "layers.%d.",
     .modules =
         {
             GEMMA_NORMED_LAYER,
             [MODULE_ATTN_GATE] = "self_attn.gate_proj",
             LLAMA_ENDS,
         },
     .aliases = {{"hidden_act", "hidden_activation"}, {"logit_scale", "output_multiplier"}},
     .bias_keys = BIAS_QKV | BIAS_O,
     .offset_norms = true,
     .last_norm_whole = true,
     .unit_norms = UNIT_NORMS_ALL,
     .embedding_unit_norm = true,
     .post_norm_eps = 1e-8,
     .norm_eps = 1e-5,
     .window_rule = WINDOW_PERIODIC,
     .window_period = 4,
     .periods_from_last = true,
     .rope_rule = ROPE_BY_BASES,
     .scales = {.normed_queries = 3.87, .logits = 0.19611613513818404, .logit_cap = 20},
     .logits_capped = true,
     .default_head_dim = 128,
     .default_context = 131072,
     .default_window = 2048},
    // Gemma 2 without norms behind its parts.
    {.name = "vaultgemma",
     .base = "model.",
     .layer = "layers.%d.",
     .modules =
         {
             [MODULE_ATTN_NORM] = "input_layernorm",
             LLAMA_ATTENTION,
             [MODULE_FFN_NORM] = "pre_feedforward_layernorm",
             LLAMA_FEED_FORWARD,
             LLAMA_ENDS,
         },
     GEMMA_VALUES,
     .aliases = {{"hidden_act", "hidden_activation"}},
     .window_rule = WINDOW_PERIODIC,
     .window_period = 2,
     .scales = {.query = 256, .attention_cap = 50, .logit_cap = 30},
     .default_context = 8192,
     .default_window = 4096},
    {.name = "gemma3_text",
     .gguf = "gemma3",
     .whole = "gemma3",
     .class_name = "gemma3",
     GEMMA_NORMED_NAMES,
     GEMMA_VALUES,
     .aliases = {{"hidden_act", "hidden_activation"}},
     .ignored = {"_sliding_window_pattern"},
     .qk_norm = true,
     .window_rule = WINDOW_PERIODIC,
     .window_period = 6,
     .period_key = true,
     .rope_rule = ROPE_BY_WINDOW,
     .default_base = 1e6,
     .default_window_base = 1e4,
     .scales = {.query = 256, .logit_cap = NAN},
     .gguf_wide_layers = 62,
     .default_context = 131072,
     .default_window = 4096},
    // Of two sizes of heads; 26B-A4B has experts beside its dense part.
    {.name = "gemma4_text",
     .gguf = "gemma4",
     .when = {{"enable_moe_block", 1}},
     GEMMA4_NAMES,
     GEMMA4_VALUES,
     .default_context = 131072,
     .default_window = 512,
     .aliases = {{"hidden_act", "hidden_activation"},
                 {"num_local_experts", "num_experts"},
                 {"num_experts_per_tok", "top_k_experts"}},
     .fixed = {GEMMA4_FIXED, {NULL, {"enable_moe_block"}, 1, "no experts"}},
     .experts = {.there = true,
                 .names = {{.router = "router.proj",
                            .gate_up = "experts.gate_up_proj",
                            .all_down = "experts.down_proj"}},
                 .size = "moe_intermediate_size",
                 .shared_size = "intermediate_size",
                 .shared = {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"},
                 .beside = {"router.scale", "pre_feedforward_layernorm_2.weight",
                            "post_feedforward_layernorm_1.weight", "post_feedforward_layernorm_2.weight",
                            "router.per_expert_scale"},
                 .renormalise = true,
                 .gguf_renormalise = true}},
    {.name = "gemma4_text",
     .gguf = "gemma4",
     GEMMA4_NAMES,
     GEMMA4_VALUES,
     .default_context = 131072,
     .default_window = 512,
     .aliases = {{"hidden_act", "hidden_activation"}},
     .fixed = {GEMMA4_FIXED, {NULL, {"enable_moe_block"}, 0, "experts beside a dense feed-forward part"}},
     .ignored = {"num_experts", "top_k_experts", "moe_intermediate_size"}},
    // 12B, whose images and sounds are put in without a tower; its GGUF files say "gemma4".
    {.name = "gemma4_unified_text",
     .whole = "gemma4_unified",
     .class_name = "gemma4unified",
     GEMMA_NORMED_NAMES,
     GEMMA4_VALUES,
     .aliases = {{"hidden_act", "hidden_activation"}},
     .fixed = {GEMMA4_FIXED},
     .default_context = 262144,
     .default_window = 1024},
};

const ArchitectureFamily architectures_gemma = {ROWS, sizeof ROWS / sizeof *ROWS};
