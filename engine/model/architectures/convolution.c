// Layers that convolve among layers that attend: LFM 2, dense and with experts.
#include "engine/model/architectures/architectures.h"

#define LFM2_PARTS                                                                                           \
    [MODULE_ATTN_NORM] = "operator_norm", [MODULE_Q] = "self_attn.q_proj", [MODULE_K] = "self_attn.k_proj",  \
    [MODULE_V] = "self_attn.v_proj", [MODULE_CONV_IN] = "conv.in_proj", [MODULE_CONV] = "conv.conv",         \
    [MODULE_CONV_OUT] = "conv.out_proj", [MODULE_FFN_NORM] = "ffn_norm", [MODULE_GATE] = "feed_forward.w1",  \
    [MODULE_UP] = "feed_forward.w3", [MODULE_DOWN] = "feed_forward.w2", [MODULE_EMBEDDING] = "embed_tokens", \
    [MODULE_NORM] = "embedding_norm", /* of the last layer's x, for all its name */                          \
        [MODULE_OUTPUT] = "lm_head"

#define LFM2_NAMES                                                                                           \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules =                                                                                               \
        {                                                                                                    \
            LFM2_PARTS,                                                                                      \
            [MODULE_Q_NORM] = "self_attn.q_layernorm",                                                       \
            [MODULE_K_NORM] = "self_attn.k_layernorm",                                                       \
            [MODULE_O] = "self_attn.out_proj",                                                               \
    },                                                                                                       \
    .gguf_modules = {[MODULE_NORM] = "token_embd_norm"}

// Keys of the makers' own files that their class does not read, and what they say twice.
#define LFM2_IGNORED                                                                                         \
    "block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_xavier_init",  \
        "conv_dim", "conv_dim_out", "conv_use_xavier_init", "num_heads", "theta", "tie_word_embeddings"

#define LFM2_VALUES                                                                                          \
    .convolves = true, .fixed_act = true, .qk_norm = true, .default_tied = true, .norm_eps = 1e-5,           \
    .default_base = 1e6, .default_context = 128000

static const Architecture ROWS[] = {
    {.name = "lfm2",
     .gguf = "lfm2",
     .whole = "lfm2_vl",
     LFM2_NAMES,
     .aliases = {{"rms_norm_eps", "norm_eps"},
                 {"intermediate_size", "block_ff_dim", true},
                 {"tie_word_embeddings", "tie_embedding", true}},
     .fixed = {{NULL, {"block_use_swiglu"}, 1, "another feed-forward part"},
               {NULL, {"use_pos_enc"}, 1, "attention without positions"}},
     .ignored = {LFM2_IGNORED, "intermediate_size"},
     LFM2_VALUES,
     .ffn_adjusted = true},
    {.name = "lfm2_moe",
     .gguf = "lfm2moe",
     LFM2_NAMES,
     .aliases = {{"rms_norm_eps", "norm_eps"},
                 {"num_local_experts", "num_experts"},
                 {"first_k_dense_replace", "num_dense_layers"},
                 {"tie_word_embeddings", "tie_embedding", true}},
     .fixed = {{NULL, {"use_expert_bias"}, 1, "a router without biases that choose"},
               {NULL, {"use_pos_enc"}, 1, "attention without positions"}},
     .ignored = {LFM2_IGNORED},
     LFM2_VALUES,
     .experts = {.there = true,
                 .n = 32,
                 .n_active = 4,
                 .names = {{.router = "feed_forward.gate",
                            .choice_bias = "feed_forward.expert_bias",
                            .gate = "feed_forward.experts.%d.w1.weight",
                            .up = "feed_forward.experts.%d.w3.weight",
                            .down = "feed_forward.experts.%d.w2.weight"},
                           {.router = "feed_forward.gate",
                            .choice_bias = "feed_forward.expert_bias",
                            .gate_up = "feed_forward.experts.gate_up_proj",
                            .all_down = "feed_forward.experts.down_proj"}},
                 .size = "moe_intermediate_size",
                 .layers = EXPERTS_BEHIND_DENSE,
                 .dense = 2,
                 .scale_key = true,
                 .score = ROUTER_SIGMOID,
                 .renormalise = true,
                 .renormalise_key = true,
                 .guarded = true,
                 .gguf_renormalise = true}},
    // With windows in every other layer that attends, gates of heads, and norms around parts.
    {.name = "lfm3",
     .whole = "lfm3_vl",
     .base = "model.",
     .layer = "layers.%d.",
     .modules =
         {
             LFM2_PARTS,
             [MODULE_Q_NORM] = "self_attn.q_norm",
             [MODULE_K_NORM] = "self_attn.k_norm",
             [MODULE_ATTN_GATE] = "self_attn.gate_proj",
             [MODULE_O] = "self_attn.o_proj",
             [MODULE_ATTN_POST_NORM] = "post_operator_norm",
             [MODULE_FFN_POST_NORM] = "post_ffn_norm",
         },
     .aliases = {{"rms_norm_eps", "norm_eps"}},
     .fixed = {NO_ATTENTION_BIAS,
               {NULL, {"use_sandwich_norm"}, 1, "parts without norms behind them"},
               {NULL, {"use_attention_gate"}, 1, "attention without gates"}},
     LFM2_VALUES,
     .head_gates = true,
     .default_taps = 7,
     .default_head_dim = 128,
     .default_window = 256,
     .rope_rule = ROPE_BY_WINDOW,
     .ropes_of_kinds = true,
     .unscaled_whole = true,
     .partial_rotary = true,
     .default_proportional = 0.5,
     .default_window_base = 1e4},
};

const ArchitectureFamily architectures_convolution = {ROWS, sizeof ROWS / sizeof *ROWS};
