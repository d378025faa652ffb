// State spaces (Mamba 2) among layers that attend: Granite 4 H, dense and with experts. Some of its models have layers that
// attend only.
#include "engine/model/architectures/architectures.h"

#define STATE_SPACE_NAMES                                                                                    \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules = {[MODULE_ATTN_NORM] = "input_layernorm",                                                      \
                LLAMA_ATTENTION,                                                                             \
                [MODULE_DELTA_QKV_GATE] = "mamba.in_proj",                                                   \
                [MODULE_DELTA_CONV] = "mamba.conv1d",                                                        \
                [MODULE_DELTA_NORM] = "mamba.norm",                                                          \
                [MODULE_DELTA_OUT] = "mamba.out_proj",                                                       \
                [MODULE_DELTA_RATES] = "mamba.A_log",                                                        \
                [MODULE_DELTA_BIAS] = "mamba.dt_bias",                                                       \
                [MODULE_DELTA_SKIP] = "mamba.D",                                                             \
                [MODULE_FFN_NORM] = "post_attention_layernorm",                                              \
                [MODULE_GATE_UP] = "shared_mlp.input_linear",                                                \
                [MODULE_DOWN] = "shared_mlp.output_linear",                                                  \
                LLAMA_ENDS}

#define STATE_SPACE_VALUES                                                                                   \
    .fixed = {NO_MLP_BIAS,                                                                                   \
              {NULL, {"hidden_act"}, 0, "another activation", "silu"},                                       \
              {NULL, {"normalization_function"}, 0, "another norm", "rmsnorm"},                              \
              {NULL, {"mamba_proj_bias"}, 0, "biases of layers that recur"}},                                \
    .recurs = true, .state_space = true, .gguf_gate_apart = true, .bias_keys = BIAS_QKV | BIAS_O,            \
    .fixed_act = true, .head_dim_told = true, .gguf_rope = ROPE_INTERLEAVED, .rope_rule = ROPE_SWITCHED,     \
    GRANITE_SCALES, .norm_eps = 1e-6, .default_context = 2048

// How it is computed, and how weights began.
#define STATE_SPACE_IGNORED "mamba_chunk_size", "init_method"

static const Architecture ROWS[] = {
    // The part that stands beside experts is then all of the feed-forward part.
    {.name = "granitemoehybrid",
     .gguf = "granitehybrid",
     .when = {{"num_local_experts", 0}},
     .with_key = "num_local_experts",
     STATE_SPACE_NAMES,
     .aliases = {{"intermediate_size", "shared_intermediate_size"},
                 {"layer_types", "layers_block_type", true}},
     .ignored = {STATE_SPACE_IGNORED, "intermediate_size", "num_experts_per_tok"},
     STATE_SPACE_VALUES},
    {.name = "granitemoehybrid",
     .gguf = "granitehybrid",
     STATE_SPACE_NAMES,
     .aliases = {{"layer_types", "layers_block_type", true}},
     .ignored = {STATE_SPACE_IGNORED},
     STATE_SPACE_VALUES,
     .experts = {GRANITE_EXPERTS, .shared_size = "shared_intermediate_size",
                 .shared = {NULL, "shared_mlp.input_linear", "shared_mlp.output_linear"}}},
};

const ArchitectureFamily architectures_state_space = {ROWS, sizeof ROWS / sizeof *ROWS};
