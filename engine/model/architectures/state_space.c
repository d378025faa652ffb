// State spaces (Mamba 2) among layers that attend: Granite 4 H, dense and with experts, of whose models some have layers that
// attend only; Nemotron-H, dense and with experts, whose layers are one part alone each; and Falcon-H1, whose layers have both.
// And Mamba 2 itself, which has nothing else.
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
    .recurs = true, .state_space = true,                                                                     \
    .usual_space = {.n_key_heads = 1, .n_value_heads = 128, .key_dim = 256, .taps = 4},                      \
    .gguf_gate_apart = true, .bias_keys = BIAS_QKV | BIAS_O, .fixed_act = true, .head_dim_told = true,       \
    .gguf_rope = ROPE_INTERLEAVED, .rope_rule = ROPE_SWITCHED, GRANITE_SCALES, .norm_eps = 1e-6,             \
    .default_context = 2048

// How it is computed, and how weights began.
#define STATE_SPACE_IGNORED "mamba_chunk_size", "init_method"

// Its keys of config.json, some of which had other names.
#define NEMOTRON_ALIASES                                                                                     \
    {"rms_norm_eps", "layer_norm_epsilon"}, {"hidden_act", "mlp_hidden_act"},                                \
        {"layer_types", "layers_block_type", true}, {"head_dim", "attention_head_dim", true},                \
        {"mamba_n_groups", "n_groups", true}, {"mamba_n_heads", "mamba_num_heads"},                          \
        {"mamba_d_head", "mamba_head_dim"}, {"mamba_d_state", "ssm_state_size"},                             \
        {"mamba_d_conv", "conv_kernel", true}, {"mamba_conv_bias", "use_conv_bias", true}, {                 \
        "num_local_experts", "n_routed_experts", true                                                        \
    }

#define NEMOTRON_NAMES                                                                                       \
    .base = "backbone.", .layer = "layers.%d.",                                                              \
    .modules = {[MODULE_ATTN_NORM] = "norm",                                                                 \
                [MODULE_Q] = "mixer.q_proj",                                                                 \
                [MODULE_K] = "mixer.k_proj",                                                                 \
                [MODULE_V] = "mixer.v_proj",                                                                 \
                [MODULE_O] = "mixer.o_proj",                                                                 \
                [MODULE_DELTA_QKV_GATE] = "mixer.in_proj",                                                   \
                [MODULE_DELTA_CONV] = "mixer.conv1d",                                                        \
                [MODULE_DELTA_NORM] = "mixer.norm",                                                          \
                [MODULE_DELTA_OUT] = "mixer.out_proj",                                                       \
                [MODULE_DELTA_RATES] = "mixer.A_log",                                                        \
                [MODULE_DELTA_BIAS] = "mixer.dt_bias",                                                       \
                [MODULE_DELTA_SKIP] = "mixer.D",                                                             \
                [MODULE_UP] = "mixer.up_proj",                                                               \
                [MODULE_DOWN] = "mixer.down_proj",                                                           \
                [MODULE_EMBEDDING] = "embeddings",                                                           \
                [MODULE_NORM] = "norm_f",                                                                    \
                [MODULE_OUTPUT] = "lm_head"}

// How it is computed, how weights began, what its class does not read, and what layers that predict further tokens are like.
#define NEMOTRON_VALUES                                                                                      \
    .aliases = {NEMOTRON_ALIASES},                                                                           \
    .fixed = {NO_ATTENTION_BIAS,                                                                             \
              NO_MLP_BIAS,                                                                                   \
              {NULL, {"use_bias"}, 0, "biases of layers that recur"},                                        \
              {NULL, {"mamba_proj_bias"}, 0, "biases of layers that recur"},                                 \
              {NULL, {"mamba_hidden_act"}, 0, "another activation of layers that recur", "silu"},            \
              {NULL, {"sliding_window", "attention.sliding_window"}, -1, "windows"},                         \
              {NULL, {"n_shared_experts"}, 1, "another number of experts that every token takes"},           \
              {NULL, {"moe_latent_size", "moe_latent_size"}, -1, "experts of latents"}},                     \
    .ignored = {"chunk_size",                                                                                \
                "mamba_chunk_size",                                                                          \
                "expand",                                                                                    \
                "mamba_expand",                                                                              \
                "mamba_ssm_cache_dtype",                                                                     \
                "moe_shared_expert_overlap",                                                                 \
                "mtp_hybrid_override_pattern",                                                               \
                "mtp_layers_block_type",                                                                     \
                "num_logits_to_keep",                                                                        \
                "num_nextn_predict_layers",                                                                  \
                "num_query_groups",                                                                          \
                "rescale_prenorm_residual",                                                                  \
                "residual_in_fp32",                                                                          \
                "rms_norm_eps",                                                                              \
                "time_step_floor",                                                                           \
                "time_step_max",                                                                             \
                "use_mamba_kernels"},                                                                        \
    .ignored_gguf = {"expert_shared_count", "attention.layer_norm_epsilon"}, .predicts_further = true,       \
    .further = "mtp.", .recurs = true, .state_space = true, .one_part = true,                                \
    .usual_space = {.n_key_heads = 8, .n_value_heads = 128, .key_dim = 128, .value_dim = 64, .taps = 4},     \
    .least_step = 0.001, .activation = ACTIVATION_RELU2, .rope_rule = ROPE_NEVER, .norm_eps = 1e-5,          \
    .default_context = 4096, .default_head_dim = 128

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
    // Whether there are experts its layers say; GGUF files say it in their names.
    {.name = "nemotron_h",
     .gguf = "nemotron_h_moe",
     NEMOTRON_NAMES,
     NEMOTRON_VALUES,
     .experts = {.there = true,
                 .ungated = true,
                 .n = 8,
                 .n_active = 2,
                 .names = {{.router = "mixer.gate",
                            .choice_bias = "mixer.gate.e_score_correction_bias",
                            .up = "mixer.experts.%d.up_proj.weight",
                            .down = "mixer.experts.%d.down_proj.weight"}},
                 .size = "moe_intermediate_size",
                 .shared_size = "moe_shared_expert_intermediate_size",
                 .shared = {NULL, "mixer.shared_experts.up_proj", "mixer.shared_experts.down_proj"},
                 .layers = EXPERTS_ALONE,
                 .scale_key = true,
                 .groups = true,
                 .score = ROUTER_SIGMOID,
                 .renormalise = true,
                 .renormalise_key = true,
                 .gguf_renormalise = true}},
    {.name = "nemotron_h", .gguf = "nemotron_h", NEMOTRON_NAMES, NEMOTRON_VALUES},
    {.name = "falcon_h1",
     .gguf = "falcon-h1",
     .base = "model.",
     .layer = "layers.%d.",
     .modules = {[MODULE_ATTN_NORM] = "input_layernorm",
                 LLAMA_ATTENTION,
                 [MODULE_DELTA_QKV_GATE] = "mamba.in_proj",
                 [MODULE_DELTA_CONV] = "mamba.conv1d",
                 [MODULE_DELTA_NORM] = "mamba.norm",
                 [MODULE_DELTA_OUT] = "mamba.out_proj",
                 [MODULE_DELTA_RATES] = "mamba.A_log",
                 [MODULE_DELTA_BIAS] = "mamba.dt_bias",
                 [MODULE_DELTA_SKIP] = "mamba.D",
                 [MODULE_FFN_NORM] = "pre_ff_layernorm",
                 [MODULE_GATE] = "feed_forward.gate_proj",
                 [MODULE_UP] = "feed_forward.up_proj",
                 [MODULE_DOWN] = "feed_forward.down_proj",
                 [MODULE_EMBEDDING] = "embed_tokens",
                 [MODULE_NORM] = "final_layernorm",
                 [MODULE_OUTPUT] = "lm_head"},
     .aliases = {{"logit_scale", "lm_head_multiplier"}},
     .fixed = {NO_ATTENTION_BIAS,
               NO_MLP_BIAS,
               {NULL, {"hidden_act"}, 0, "another activation", "silu"},
               {NULL, {"mamba_proj_bias"}, 0, "biases of layers that recur"},
               {NULL, {"projectors_bias"}, 0, "biases of layers that recur"},
               {NULL, {"mamba_use_mlp"}, 1, "layers without a feed-forward part"},
               {NULL, {"attn_layer_indices"}, -1, "layers that do not attend"}},
     .ignored = {"mamba_chunk_size", "mlp_expansion_factor", "num_logits_to_keep"},
     .recurs = true,
     .state_space = true,
     .paired = true,
     .usual_space = {.n_key_heads = 1, .n_value_heads = 128, .key_dim = 256, .taps = 4},
     .fixed_act = true,
     .scales = {.embedding = 1, .logits = 1},
     .norm_eps = 1e-5,
     .default_context = 8192},
    // Its class norms what the gate was multiplied with, whatever norm_before_gate says, and has no least step of time: what its
    // files say of steps is how weights began. A text may be of any length; the context is what llama.cpp's converter says.
    {.name = "mamba2",
     .gguf = "mamba2",
     .base = "backbone.",
     .layer = "layers.%d.",
     .modules = {[MODULE_ATTN_NORM] = "norm",
                 [MODULE_DELTA_QKV_GATE] = "mixer.in_proj",
                 [MODULE_DELTA_CONV] = "mixer.conv1d",
                 [MODULE_DELTA_NORM] = "mixer.norm",
                 [MODULE_DELTA_OUT] = "mixer.out_proj",
                 [MODULE_DELTA_RATES] = "mixer.A_log",
                 [MODULE_DELTA_BIAS] = "mixer.dt_bias",
                 [MODULE_DELTA_SKIP] = "mixer.D",
                 [MODULE_EMBEDDING] = "embeddings",
                 [MODULE_NORM] = "norm_f",
                 [MODULE_OUTPUT] = "lm_head"},
     .aliases = {{"rms_norm_eps", "layer_norm_epsilon"},
                 {"mamba_n_groups", "n_groups"},
                 {"mamba_n_heads", "num_heads"},
                 {"mamba_d_head", "head_dim"},
                 {"mamba_d_state", "state_size"},
                 {"mamba_d_conv", "conv_kernel"},
                 {"mamba_expand", "expand"},
                 {"mamba_conv_bias", "use_conv_bias"},
                 {"mamba_proj_bias", "use_bias"}},
     .fixed = {{NULL, {"hidden_act"}, 0, "another activation", "silu"},
               {NULL, {"rms_norm"}, 1, "states without norms"},
               {NULL, {"rescale_prenorm_residual"}, 0, "weights that its class divides while it loads them"},
               {NULL, {NULL, "attention.head_count"}, 0, "layers that attend"},
               {NULL, {NULL, "feed_forward_length"}, 0, "feed-forward parts"}},
     .ignored = {"chunk_size", "intermediate_size", "norm_before_gate", "residual_in_fp32", "time_step_floor",
                 "time_step_init_scheme", "time_step_max", "time_step_min", "time_step_rank",
                 "time_step_scale"},
     .recurs = true,
     .state_space = true,
     .spaces_alone = true,
     .usual_space = {.n_key_heads = 8, .n_value_heads = 128, .key_dim = 128, .value_dim = 64, .taps = 4},
     .fixed_act = true,
     .positions = POSITIONS_OF_STATES,
     .norm_eps = 1e-5,
     .default_context = 1 << 20},
};

const ArchitectureFamily architectures_state_space = {ROWS, sizeof ROWS / sizeof *ROWS};
