// Mixtures of experts whose router scores by sigmoids, as DeepSeek-V3's does, beside attention of the usual kind.
#include "engine/model/architectures/architectures.h"

// What every file of such says, and no class reads.
#define OTHER_ROUTERS                                                                                        \
    {NULL, {"route_norm"}, 1, "weights of experts that do not sum up to 1"}, {                               \
        NULL, {"score_func"}, 0, "another router", "sigmoid"                                                 \
    }

// Ling 2 and Ring 2.
#define BAILING_NAMES                                                                                        \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules = {[MODULE_ATTN_NORM] = "input_layernorm",                                                      \
                [MODULE_QKV] = "attention.query_key_value",                                                  \
                [MODULE_Q_NORM] = "attention.query_layernorm",                                               \
                [MODULE_K_NORM] = "attention.key_layernorm",                                                 \
                [MODULE_O] = "attention.dense",                                                              \
                [MODULE_FFN_NORM] = "post_attention_layernorm",                                              \
                LLAMA_FEED_FORWARD,                                                                          \
                [MODULE_EMBEDDING] = "word_embeddings",                                                      \
                [MODULE_NORM] = "norm",                                                                      \
                [MODULE_OUTPUT] = "lm_head"},                                                                \
    .aliases = {{"num_local_experts", "num_experts"}},                                                       \
    .fixed = {{NULL, {"use_bias"}, 0, "biases"},                                                             \
              {NULL, {"use_qkv_bias"}, 0, "biases of attention"},                                            \
              {NULL, {"use_rmsnorm"}, 1, "other norms"},                                                     \
              {NULL, {"use_qk_norm"}, 1, "queries and keys without norms"},                                  \
              {NULL, {"norm_head"}, 0, "a head of rows of length 1"},                                        \
              {NULL, {"score_function"}, 0, "another router", "sigmoid"},                                    \
              {NULL, {"moe_router_enable_expert_bias"}, 1, "a router without biases that choose"}},          \
    .ignored = {"router_dtype",                                                                              \
                "output_dropout",                                                                            \
                "moe_shared_expert_intermediate_size",                                                       \
                "num_nextn_predict_layers",                                                                  \
                "mtp_loss_scaling_factor",                                                                   \
                "max_window_layers",                                                                         \
                "use_sliding_window"}

#define BAILING_EXPERTS                                                                                      \
    .there = true, .names = {{.router = "mlp.gate", .choice_bias = "mlp.gate.expert_bias", ONE_BY_ONE}},     \
    .size = "moe_intermediate_size", .shared_count = "num_shared_experts", SHARED_EXPERTS,                   \
    .layers = EXPERTS_BEHIND_DENSE, .scale_key = true, .scale = 2.5, .groups = true,                         \
    .score = ROUTER_SIGMOID, .renormalise = true, .renormalise_key = true

#define BAILING                                                                                              \
    .class_name = "bailingmoev2", BAILING_NAMES, .predicts_further = true, .qk_norm = true,                  \
    .partial_rotary = true, .default_rotary_part = 0.5, .default_base = 6e5, .norm_eps = 1e-6,               \
    .default_context = 16384, .experts = {BAILING_EXPERTS, .n = 256, .n_active = 8}

static const Architecture ROWS[] = {
    // GLM-4.5V and 4.6V.
    {.name = "glm4v_moe_text",
     .gguf = "glm4moe",
     .with_meta = "rope.dimension_sections",
     .whole = "glm4v_moe",
     .class_name = "glm4vmoe",
     LLAMA_NAMES,
     .gguf_modules = {[MODULE_FFN_NORM] = "post_attention_norm"},
     .aliases = {{"num_local_experts", "n_routed_experts", true}},
     .fixed = {NO_MLP_BIAS, {NULL, {"use_qk_norm"}, 0, "norms of queries and keys"}},
     .ignored = {"num_nextn_predict_layers", "num_mtp_layers"},
     .ignored_rope = {"mrope_section"},
     .predicts_further = true,
     .biases = BIAS_QKV,
     .bias_keys = BIAS_QKV,
     .partial_rotary = true,
     .sections = SECTIONS_IN_BLOCKS,
     .default_sections = 32,
     .norm_eps = 1e-5,
     .default_context = 65536,
     .default_rotary_part = 0.5,
     .experts = {SIGMOID_EXPERTS, .n = 128, .n_active = 8, .layers = EXPERTS_BEHIND_DENSE, .dense = 1}},
    // GLM-4.5 and 4.6, Air and whole.
    {.name = "glm4_moe",
     .gguf = "glm4moe",
     LLAMA_NAMES,
     .gguf_modules = {[MODULE_FFN_NORM] = "post_attention_norm"},
     .aliases = {{"num_local_experts", "n_routed_experts", true}},
     .fixed = {NO_MLP_BIAS},
     .ignored = {"num_nextn_predict_layers", "num_mtp_layers"},
     .predicts_further = true,
     .bias_keys = BIAS_QKV,
     .partial_rotary = true,
     .qk_norm_key = true,
     .norm_eps = 1e-5,
     .default_context = 131072,
     .default_rotary_part = 0.5,
     .experts = {SIGMOID_EXPERTS, .n = 128, .n_active = 8, .layers = EXPERTS_BEHIND_DENSE, .dense = 1}},
    // Every layer has experts: there is no other size.
    {.name = "solar_open",
     LLAMA_NAMES,
     .aliases = {{"num_local_experts", "n_routed_experts", true},
                 {"intermediate_size", "moe_intermediate_size"}},
     .fixed = {NO_MLP_BIAS},
     .ignored = {"intermediate_size"},
     .bias_keys = BIAS_QKV,
     .default_base = 1e6,
     .norm_eps = 1e-5,
     .default_context = 131072,
     .default_head_dim = 128,
     .experts = {SIGMOID_EXPERTS, .n = 128, .n_active = 8}},
    // dots.llm1.
    {.name = "dots1",
     .gguf = "dots1",
     LLAMA_NAMES,
     .aliases = {{"num_local_experts", "n_routed_experts", true}},
     .fixed = {NO_MLP_BIAS, {NULL, {"moe_layer_freq"}, 1, "experts in other layers"}},
     .ignored = {"aux_loss_alpha", "seq_aux", "ep_size", "scoring_func", "topk_method",
                 "num_nextn_predict_layers", "use_sliding_window"},
     .bias_keys = BIAS_QKV | BIAS_O,
     .qk_norm = true,
     .window_rule = WINDOW_UPPER_LAYERS,
     .unasked_window_layers = 62,
     .norm_eps = 1e-6,
     .default_context = 2048,
     .default_window = 4096,
     .experts = {DEEPSEEK_EXPERTS, .layers = EXPERTS_BEHIND_DENSE, .groups = true, .score = ROUTER_SIGMOID,
                 .renormalise_key = true}},
    // M2 and its like. Files say much of M1 that it does not have.
    {.name = "minimax_m2",
     .gguf = "minimax-m2",
     LLAMA_NAMES,
     .fixed = {NO_ATTENTION_BIAS,
               NO_MLP_BIAS,
               {NULL, {"use_qk_norm"}, 1, "queries and keys without norms"},
               {NULL, {"qk_norm_type"}, 0, "other norms of queries and keys", "per_layer"},
               {NULL, {"use_routing_bias"}, 1, "a router without biases that choose"},
               {NULL, {"scoring_func"}, 0, "another router", "sigmoid"},
               {NULL, {"shared_intermediate_size"}, 0, "an expert that every token takes"}},
     .ignored = {"attn_type_list", "layernorm_full_attention_beta", "layernorm_linear_attention_beta",
                 "layernorm_mlp_beta", "mlp_intermediate_size", "mtp_transformer_layers", "num_mtp_modules",
                 "use_mtp", "shared_moe_mode"},
     .qk_norm = true,
     .qk_norm_rows = true,
     .partial_rotary = true,
     .rotary_dim_key = true,
     .default_base = 5e6,
     .norm_eps = 1e-6,
     .default_context = 196608,
     .default_head_dim = 128,
     .experts = {.there = true,
                 .n = 256,
                 .n_active = 8,
                 .names = {{BLOCK_SPARSE_NAMES, .choice_bias = "block_sparse_moe.e_score_correction_bias"},
                           {.router = "mlp.gate", .choice_bias = "mlp.e_score_correction_bias", PACKED}},
                 .score = ROUTER_SIGMOID,
                 .renormalise = true,
                 .gguf_renormalise = true}},
    // Hunyuan 3.
    {.name = "hy_v3",
     .gguf = "hy_v3",
     LLAMA_NAMES,
     .aliases = {{"num_local_experts", "num_experts", true},
                 {"routed_scaling_factor", "router_scaling_factor"}},
     .fixed = {NO_MLP_BIAS, OTHER_ROUTERS},
     .ignored = {"enable_moe_fp32_combine", "num_nextn_predict_layers", "num_mtp_layers"},
     .predicts_further = true,
     .bias_keys = BIAS_QKV | BIAS_O,
     .qk_norm = true,
     .default_base = 11158840,
     .norm_eps = 1e-5,
     .default_context = 131072,
     .default_head_dim = 128,
     .experts = {.there = true,
                 .n = 192,
                 .n_active = 8,
                 .names = {{.router = "mlp.router.gate", .choice_bias = "mlp.expert_bias", ONE_BY_ONE}},
                 .size = "moe_intermediate_size",
                 .shared_count = "num_shared_experts",
                 .shared = {"mlp.shared_mlp.gate_proj", "mlp.shared_mlp.up_proj", "mlp.shared_mlp.down_proj"},
                 .layers = EXPERTS_BY_TYPES,
                 .dense = 1,
                 .scale_key = true,
                 .scale = 2.826,
                 .score = ROUTER_SIGMOID,
                 .renormalise = true,
                 .gguf_renormalise = true}},
    // K-EXAONE.
    {.name = "exaone_moe",
     .gguf = "exaone-moe",
     LLAMA_NAMES,
     .aliases = {{"num_local_experts", "num_experts"}},
     .ignored = {"num_nextn_predict_layers", "num_mtp_layers"},
     .predicts_further = true,
     .further = "mtp.",
     .qk_norm = true,
     .window_rule = WINDOW_PERIODIC,
     .window_period = 4,
     .period_key = true,
     .rope_rule = ROPE_IN_WINDOWS_IF_ANY,
     .norm_eps = 1e-5,
     .default_context = 2048,
     .default_window = 4096,
     .experts = {.there = true,
                 .n = 64,
                 .n_active = 8,
                 .names = {{.router = "mlp.gate", .choice_bias = "mlp.e_score_correction_bias", ONE_BY_ONE},
                           {.router = "mlp.gate", .choice_bias = "mlp.gate.e_score_correction_bias", PACKED}},
                 .size = "moe_intermediate_size",
                 .shared_count = "num_shared_experts",
                 SHARED_EXPERTS,
                 .layers = EXPERTS_BY_TYPES,
                 .dense = 1,
                 .scale_key = true,
                 .scale = 2.5,
                 .groups = true,
                 .score = ROUTER_SIGMOID,
                 .renormalise = true,
                 .renormalise_key = true}},
    // Arcee's Trinity: what attention gives has a gate; GGUF files do not say that embeddings are scaled.
    {.name = "afmoe",
     .gguf = "afmoe",
     .base = "model.",
     .layer = "layers.%d.",
     .modules =
         {
             NORMED_LAYER,
             [MODULE_ATTN_GATE] = "self_attn.gate_proj",
             [MODULE_FFN_NORM] = "pre_mlp_layernorm",
             [MODULE_FFN_POST_NORM] = "post_mlp_layernorm",
             LLAMA_ENDS,
         },
     .aliases = {{"num_local_experts", "num_experts"},
                 {"first_k_dense_replace", "num_dense_layers"},
                 {"routed_scaling_factor", "route_scale"},
                 {"sliding_window_pattern", "global_attn_every_n_layers"}},
     .fixed = {OTHER_ROUTERS,
               {NULL, {"n_group"}, 1, "experts in groups"},
               {NULL, {"topk_group"}, 1, "experts in groups"},
               {NULL, {"num_expert_groups"}, 1, "experts in groups"},
               {NULL, {"num_limited_groups"}, 1, "experts in groups"}},
     .ignored = {"load_balance_coeff", "use_grouped_mm"},
     .bias_keys = BIAS_QKV | BIAS_O,
     .qk_norm = true,
     .window_rule = WINDOW_PERIODIC,
     .window_period = 4,
     .period_key = true,
     .rope_rule = ROPE_IN_WINDOWS,
     .embedding_root = true,
     .embedding_root_key = "mup_enabled",
     .norm_eps = 1e-5,
     .default_context = 16384,
     .default_head_dim = 128,
     .default_window = 1024,
     .experts = {.there = true,
                 .n = 64,
                 .n_active = 6,
                 .names = {{.router = "mlp.router.gate", .choice_bias = "mlp.expert_bias", ONE_BY_ONE},
                           {.router = "mlp.router.gate", .choice_bias = "mlp.expert_bias", PACKED}},
                 .size = "moe_intermediate_size",
                 .shared_count = "num_shared_experts",
                 SHARED_EXPERTS,
                 .layers = EXPERTS_BEHIND_DENSE,
                 .dense = 1,
                 .scale_key = true,
                 .score = ROUTER_SIGMOID,
                 .renormalise = true,
                 .gguf_renormalise = true}},
    {.name = "bailing_moe", .gguf = "bailingmoe2", BAILING},
    {.name = "bailing_moe_v2", BAILING},
    // Sarvam: Ling 2 whose heads turn as a whole.
    {.name = "sarvam_moe",
     BAILING_NAMES,
     .class_name = "sarvammoe",
     .predicts_further = true,
     .qk_norm = true,
     .partial_rotary = true,
     .default_base = 8e6,
     .norm_eps = 1e-6,
     .default_context = 131072,
     .default_head_dim = 64,
     .experts = {BAILING_EXPERTS, .n = 128, .n_active = 6, .dense = 1}},
};

const ArchitectureFamily architectures_sigmoid_experts = {ROWS, sizeof ROWS / sizeof *ROWS};
