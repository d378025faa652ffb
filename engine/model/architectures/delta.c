// Layers that recur among layers that attend: Qwen3-Next, Qwen 3.5 and 3.6, dense and with experts.
#include "engine/model/architectures/architectures.h"

#define DELTA_MODULES                                                                                        \
    [MODULE_ATTN_NORM] = "input_layernorm",                                                                  \
    LLAMA_ATTENTION, [MODULE_Q_NORM] = "self_attn.q_norm", [MODULE_K_NORM] = "self_attn.k_norm",             \
    [MODULE_DELTA_CONV] = "linear_attn.conv1d", [MODULE_DELTA_NORM] = "linear_attn.norm",                    \
    [MODULE_DELTA_OUT] = "linear_attn.out_proj", [MODULE_DELTA_RATES] = "linear_attn.A_log",                 \
    [MODULE_DELTA_BIAS] = "linear_attn.dt_bias", [MODULE_FFN_NORM] = "post_attention_layernorm",             \
    LLAMA_FEED_FORWARD, LLAMA_ENDS

// Qwen 3.5 has each matrix by itself.
#define QWEN35_NAMES                                                                                         \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules = {                                                                                             \
        DELTA_MODULES,                                                                                       \
        [MODULE_DELTA_QKV] = "linear_attn.in_proj_qkv",                                                      \
        [MODULE_DELTA_GATE] = "linear_attn.in_proj_z",                                                       \
        [MODULE_DELTA_BETA] = "linear_attn.in_proj_b",                                                       \
        [MODULE_DELTA_DECAY] = "linear_attn.in_proj_a",                                                      \
    }

#define DELTA_FIXED                                                                                          \
    NO_MLP_BIAS, {NULL, {"hidden_act"}, 0, "another activation", "silu"},                                    \
        {NULL, {"attn_output_gate"}, 1, "attention without a gate"},                                         \
        {NULL, {"output_gate_type"}, 0, "another gate of what recurs", "swish"}, {                           \
        NULL, {"use_sliding_window"}, 0, "windows"                                                           \
    }

// What says how exactly to compute, and what layers that predict further tokens are like.
#define DELTA_IGNORED "mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"

#define DELTA_VALUES                                                                                         \
    /* by which of three positions pairs turn, which in a text are all the same */                           \
    .sections = SECTIONS_IN_TURN, .ignored_rope = {"mrope_section", "mrope_interleaved"},                    \
    .gguf_modules = {[MODULE_FFN_NORM] = "post_attention_norm"}, .recurs = true, .query_gates = true,        \
    .predicts_further = true, .further = "mtp.", .bias_keys = BIAS_QKV | BIAS_O, .fixed_act = true,          \
    .qk_norm = true, .offset_norms = true, .norm_eps = 1e-6, .partial_rotary = true,                         \
    .default_rotary_part = 0.25, .default_context = 32768, .default_head_dim = 256

static const Architecture ROWS[] = {
    // It has the rows of each key's head together.
    {.name = "qwen3_next",
     .gguf = "qwen3next",
     .base = "model.",
     .layer = "layers.%d.",
     .modules =
         {
             DELTA_MODULES,
             [MODULE_DELTA_QKV_GATE] = "linear_attn.in_proj_qkvz",
             [MODULE_DELTA_BETA_DECAY] = "linear_attn.in_proj_ba",
         },
     .aliases = {{"num_local_experts", "num_experts"}},
     .fixed = {DELTA_FIXED},
     .ignored = {DELTA_IGNORED},
     DELTA_VALUES,
     .experts = {QWEN_EXPERTS, .n = 512, .n_active = 10, .size = "moe_intermediate_size", QWEN_SHARED_EXPERT,
                 .layers = EXPERTS_SPARSE, .renormalise = true, .renormalise_key = true,
                 .gguf_renormalise = true}},
    {.name = "qwen3_5_text",
     .gguf = "qwen35",
     .whole = "qwen3_5",
     .class_name = "qwen3_5",
     .other_classes = {"Qwen3_5ForCausalLM"},
     QWEN35_NAMES,
     .fixed = {DELTA_FIXED},
     .ignored = {DELTA_IGNORED},
     DELTA_VALUES,
     .gguf_keys_alternate = true},
    {.name = "qwen3_5_moe_text",
     .gguf = "qwen35moe",
     .whole = "qwen3_5_moe",
     .class_name = "qwen3_5_moe",
     .other_classes = {"Qwen3_5MoeForCausalLM"},
     QWEN35_NAMES,
     // Every layer has experts: there is no other size.
     .aliases = {{"num_local_experts", "num_experts"}, {"intermediate_size", "moe_intermediate_size"}},
     .fixed = {DELTA_FIXED,
               {NULL, {"norm_topk_prob"}, 1, "weights of experts that do not sum up to 1"},
               {NULL, {"decoder_sparse_step"}, 1, "layers without experts"}},
     .ignored = {DELTA_IGNORED, "intermediate_size"},
     DELTA_VALUES,
     .gguf_keys_alternate = true,
     .experts = {QWEN_EXPERTS, .n = 256, .n_active = 8, .size = "moe_intermediate_size", QWEN_SHARED_EXPERT,
                 .renormalise = true, .gguf_renormalise = true}},
};

const ArchitectureFamily architectures_delta = {ROWS, sizeof ROWS / sizeof *ROWS};
