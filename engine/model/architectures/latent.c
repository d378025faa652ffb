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

// How they were trained, and sizes that follow from others.
#define DEEPSEEK_IGNORED "aux_loss_alpha", "seq_aux", "ep_size", "qk_head_dim"

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
        .experts = {SIGMOID_EXPERTS, .n = 256, .n_active = 8, .scale = 2.5, .layers = EXPERTS_BEHIND_DENSE,  \
                    .dense = 3}

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
     .experts = {SIGMOID_EXPERTS, .n = 64, .n_active = 4, .scale = 1.8, .layers = EXPERTS_BY_TYPES,
                 .dense = 1}},
    // Mistral Small 4: queries are sharper far into a text.
    {.name = "mistral4",
     .whole = "mistral3",
     LATENT_NAMES,
     .latent = {256, 1024, 64, 64, 128},
     .interleave_key = true,
     .aliases = {{"num_local_experts", "n_routed_experts", true}},
     .fixed = {NO_ATTENTION_BIAS,
               {NULL, {"n_group"}, 1, "experts in groups"},
               {NULL, {"topk_group"}, 1, "experts in groups"}},
     .ignored = {DEEPSEEK_IGNORED},
     .ignored_rope = {"max_position_embeddings"},
     .partial_rotary = true,
     .temperature = true,
     .hf_rope = ROPE_INTERLEAVED,
     .gguf_rope = ROPE_INTERLEAVED,
     .norm_eps = 1e-6,
     .default_context = 1048576,
     .experts = {DEEPSEEK_EXPERTS, .n = 128, .n_active = 4, .layers = EXPERTS_BEHIND_DENSE,
                 .renormalise = true, .renormalise_key = true, .gguf_renormalise = true}},
    // MiniCPM 3, dense.
    {.name = "minicpm3",
     .gguf = "minicpm3",
     LATENT_NAMES,
     .latent = {256, 768, 64, 32, 0},
     .aliases = {{"embedding_multiplier", "scale_emb"}},
     .fixed = {NO_ATTENTION_BIAS, NO_MLP_BIAS},
     .ignored = {"qk_head_dim"},
     .scales = {.embedding = 12, .depth = 1.4, .width = 256},
     .gguf_silent = true,
     .norm_eps = 1e-5,
     .default_tied = true,
     .default_context = 32768},
    // Youtu-LLM, dense.
    {.name = "youtu",
     LATENT_NAMES,
     .latent = {512, 1536, 128, 64, 128},
     .interleave_key = true,
     .fixed = {NO_ATTENTION_BIAS},
     .ignored = {"qk_head_dim", "embedding_initializer_range"},
     .hf_rope = ROPE_INTERLEAVED,
     .norm_eps = 1e-6,
     .default_tied = true,
     .default_context = 131072},
};

const ArchitectureFamily architectures_latent = {ROWS, sizeof ROWS / sizeof *ROWS};
