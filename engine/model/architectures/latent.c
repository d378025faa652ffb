// Latent attention: DeepSeek's, and what was built after it.
#include "engine/model/architectures/architectures.h"

#define LATENT_NAMES                                                                                         \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules = {[MODULE_ATTN_NORM] = "input_layernorm",                                                      \
                [MODULE_Q] = "self_attn.q_proj",                                                             \
                [MODULE_Q_DOWN] = "self_attn.q_a_proj",                                                      \
                [MODULE_Q_DOWN_NORM] = "self_attn.q_a_layernorm",                                            \
                [MODULE_Q_UP] = "self_attn.q_b_proj",                                                        \
                [MODULE_KV_DOWN] = "self_attn.kv_a_proj_with_mqa",                                           \
                [MODULE_LATENT_NORM] = "self_attn.kv_a_layernorm",                                           \
                [MODULE_KV_UP] = "self_attn.kv_b_proj",                                                      \
                [MODULE_O] = "self_attn.o_proj",                                                             \
                [MODULE_FFN_NORM] = "post_attention_layernorm",                                              \
                LLAMA_FEED_FORWARD,                                                                          \
                LLAMA_ENDS}

#define DEEPSEEK_EXPERTS                                                                                     \
    .there = true,                                                                                           \
    .names = {{.router = "mlp.gate",                                                                         \
               .choice_bias = "mlp.gate.e_score_correction_bias",                                            \
               .gate = "mlp.experts.%d.gate_proj.weight",                                                    \
               .up = "mlp.experts.%d.up_proj.weight",                                                        \
               .down = "mlp.experts.%d.down_proj.weight"},                                                   \
              {.router = "mlp.gate",                                                                         \
               .choice_bias = "mlp.gate.e_score_correction_bias",                                            \
               .gate_up = "mlp.experts.gate_up_proj",                                                        \
               .all_down = "mlp.experts.down_proj"}},                                                        \
    .size = "moe_intermediate_size", .shared_count = "n_shared_experts",                                     \
    .shared = {"mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj",                                 \
               "mlp.shared_experts.down_proj"},                                                              \
    .scale_key = true

// How they were trained, and sizes that follow from others.
#define DEEPSEEK_IGNORED "aux_loss_alpha", "seq_aux", "ep_size", "qk_head_dim"

#define SIGMOID_EXPERTS                                                                                      \
    DEEPSEEK_EXPERTS, .groups = true, .score = ROUTER_SIGMOID, .renormalise = true, .renormalise_key = true

#define DEEPSEEK_V3                                                                                          \
    LATENT_NAMES,                                                                                            \
        .latent = {512, 1536, 128, 64, 128}, .interleave_key = true,                                         \
        .aliases = {{"num_local_experts", "n_routed_experts", true}},                                        \
        .fixed = {NO_ATTENTION_BIAS,                                                                         \
                  {NULL, {"topk_method"}, 0, "another choice of experts", "noaux_tc"},                       \
                  {NULL, {"scoring_func"}, 0, "another router", "sigmoid"},                                  \
                  {NULL, {"moe_layer_freq"}, 1, "experts in other layers"}},                                 \
        .ignored = {DEEPSEEK_IGNORED, "num_nextn_predict_layers", "num_mtp_layers"},                         \
        .predicts_further = true, .hf_rope = ROPE_INTERLEAVED, .norm_eps = 1e-6, .default_context = 4096,    \
        .experts = {SIGMOID_EXPERTS, .n = 256, .n_active = 8, .layers = EXPERTS_BEHIND_DENSE, .dense = 3}

static const Architecture ROWS[] = {
    // V2 and V2-Lite. Its name in GGUF is that of all: what differs between them is said by keys there.
    {.name = "deepseek_v2",
     .gguf = "deepseek2",
     LATENT_NAMES,
     .latent = {512, 1536, 128, 64, 128},
     .aliases = {{"num_local_experts", "n_routed_experts"}},
     .fixed = {NO_ATTENTION_BIAS,
               NO_MLP_BIAS,
               {NULL, {"scoring_func"}, 0, "another router", "softmax"},
               {NULL, {"norm_topk_prob"}, 0, "renormalised weights, which transformers leaves out"},
               {NULL, {"moe_layer_freq"}, 1, "experts in other layers"}},
     .ignored = {DEEPSEEK_IGNORED},
     .hf_rope = ROPE_INTERLEAVED,
     .gguf_rope = ROPE_INTERLEAVED,
     .norm_eps = 1e-6,
     .default_context = 2048,
     .experts = {DEEPSEEK_EXPERTS, .n = 64, .groups = true, .groups_named = true,
                 .layers = EXPERTS_BEHIND_DENSE}},
    // V3, V3.1, R1.
    {.name = "deepseek_v3", DEEPSEEK_V3},
    {.name = "kimi_k2", .class_name = "deepseek_v3", DEEPSEEK_V3},
    // GLM-4.7-Flash.
    {.name = "glm4_moe_lite",
     LATENT_NAMES,
     .latent = {512, 768, 192, 64, 256},
     .interleave_key = true,
     .aliases = {{"num_local_experts", "n_routed_experts", true}},
     .fixed = {NO_ATTENTION_BIAS,
               {NULL, {"topk_method"}, 0, "another choice of experts", "noaux_tc"},
               {NULL, {"scoring_func"}, 0, "another router", "sigmoid"},
               {NULL, {"first_k_dense_replace"}, 1, "experts in other layers"}},
     .ignored = {DEEPSEEK_IGNORED, "num_nextn_predict_layers", "num_mtp_layers"},
     .predicts_further = true,
     .hf_rope = ROPE_INTERLEAVED,
     .norm_eps = 1e-5,
     .default_context = 202752,
     .experts = {SIGMOID_EXPERTS, .n = 64, .n_active = 4, .layers = EXPERTS_BY_TYPES}},
};

const ArchitectureFamily architectures_latent = {ROWS, sizeof ROWS / sizeof *ROWS};
