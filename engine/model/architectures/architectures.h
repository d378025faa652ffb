// The table of architectures, a file a family. What differs between them is said there, in values; nowhere else is
// there a name. A new family's rows are declared here and entered in FAMILIES of model_architectures.c.
#ifndef PALAVER_ENGINE_ARCHITECTURES_H
#define PALAVER_ENGINE_ARCHITECTURES_H

#include "engine/model/architecture.h"

#include <math.h>

typedef struct ArchitectureFamily {
    const Architecture *rows; // [n]
    int n;
} ArchitectureFamily;

extern const ArchitectureFamily architectures_llama, architectures_experts, architectures_latent,
    architectures_gemma, architectures_post_norm, architectures_layer_norm, architectures_first,
    architectures_gpt, architectures_sigmoid_experts, architectures_vision, architectures_convolution,
    architectures_delta, architectures_state_space;

// ---- what many rows say ------------------------------------------------------------------------------------

// Names of modules as LLaMA has them; of its norms each family says where they stand.
#define LLAMA_ATTENTION                                                                                      \
    [MODULE_Q] = "self_attn.q_proj", [MODULE_K] = "self_attn.k_proj", [MODULE_V] = "self_attn.v_proj",       \
    [MODULE_O] = "self_attn.o_proj"
#define LLAMA_FEED_FORWARD                                                                                   \
    [MODULE_GATE] = "mlp.gate_proj", [MODULE_UP] = "mlp.up_proj", [MODULE_DOWN] = "mlp.down_proj"
#define LLAMA_ENDS [MODULE_EMBEDDING] = "embed_tokens", [MODULE_NORM] = "norm", [MODULE_OUTPUT] = "lm_head"
#define LLAMA_NAMES                                                                                          \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules = {                                                                                             \
        [MODULE_ATTN_NORM] = "input_layernorm",                                                              \
        LLAMA_ATTENTION,                                                                                     \
        [MODULE_Q_NORM] = "self_attn.q_norm",                                                                \
        [MODULE_K_NORM] = "self_attn.k_norm",                                                                \
        [MODULE_FFN_NORM] = "post_attention_layernorm",                                                      \
        LLAMA_FEED_FORWARD,                                                                                  \
        LLAMA_ENDS,                                                                                          \
    }

// The same without a gate in the feed-forward part.
#define UNGATED_NAMES                                                                                        \
    .base = "model.", .layer = "layers.%d.",                                                                 \
    .modules = {                                                                                             \
        [MODULE_ATTN_NORM] = "input_layernorm",                                                              \
        LLAMA_ATTENTION,                                                                                     \
        [MODULE_FFN_NORM] = "post_attention_layernorm",                                                      \
        [MODULE_UP] = "mlp.up_proj",                                                                         \
        [MODULE_DOWN] = "mlp.down_proj",                                                                     \
        LLAMA_ENDS,                                                                                          \
    }

// Experts one by one, or packed as transformers 5 holds them; and one that every token takes.
#define ONE_BY_ONE                                                                                           \
    .gate = "mlp.experts.%d.gate_proj.weight", .up = "mlp.experts.%d.up_proj.weight",                        \
    .down = "mlp.experts.%d.down_proj.weight"
#define PACKED .gate_up = "mlp.experts.gate_up_proj", .all_down = "mlp.experts.down_proj"
#define SHARED_EXPERTS                                                                                       \
    .shared = {"mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj"}

#define QWEN_EXPERTS                                                                                         \
    .there = true, .names = {{.router = "mlp.gate", ONE_BY_ONE}, {.router = "mlp.gate", PACKED}}
#define QWEN_SHARED_EXPERT                                                                                   \
    .shared_size = "shared_expert_intermediate_size",                                                        \
    .shared = {"mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj",    \
               "mlp.shared_expert_gate"}

// Mixtral's own files.
#define BLOCK_SPARSE_NAMES                                                                                   \
    .router = "block_sparse_moe.gate", .gate = "block_sparse_moe.experts.%d.w1.weight",                      \
    .up = "block_sparse_moe.experts.%d.w3.weight", .down = "block_sparse_moe.experts.%d.w2.weight"

// DeepSeek's, one by one or packed; the choice of V3 goes by scores and a bias for each.
#define DEEPSEEK_EXPERTS                                                                                     \
    .there = true,                                                                                           \
    .names = {{.router = "mlp.gate", .choice_bias = "mlp.gate.e_score_correction_bias", ONE_BY_ONE},         \
              {.router = "mlp.gate", .choice_bias = "mlp.gate.e_score_correction_bias", PACKED}},            \
    .size = "moe_intermediate_size", .shared_count = "n_shared_experts", SHARED_EXPERTS, .scale_key = true

#define SIGMOID_EXPERTS                                                                                      \
    DEEPSEEK_EXPERTS, .groups = true, .score = ROUTER_SIGMOID, .renormalise = true, .renormalise_key = true

// What multiplies in all of Granite's, and its experts, as its own files and transformers 5 hold them.
#define GRANITE_SCALES .scales = {.attention = 1, .embedding = 1, .residual = 1, .logits_over = 1}
#define GRANITE_EXPERTS                                                                                      \
    .there = true, .n = 8, .n_active = 2,                                                                    \
    .names = {{.router = "block_sparse_moe.router.layer",                                                    \
               .gate_up = "block_sparse_moe.input_linear.weight",                                            \
               .all_down = "block_sparse_moe.output_linear.weight"},                                         \
              {.router = "block_sparse_moe.router",                                                          \
               .gate_up = "block_sparse_moe.experts.gate_up_proj",                                           \
               .all_down = "block_sparse_moe.experts.down_proj"}},                                           \
    .renormalise = true, .gguf_renormalise = true

// Granite's with a learned sink for each head, and windows in all layers but the first of four; layers may turn nothing.
#define GRANITE_WINDOWS                                                                                      \
    GRANITE_SCALES, .sinks = "self_attn.sinks", .window_rule = WINDOW_PERIODIC, .window_period = 4,          \
                    .window_behind = true, .rope_rule = ROPE_BY_BASES, .default_context = 8192,              \
                    .default_window = 128

// Hunyuan's modules; its files repeat much, and tell of images what their text does not have.
#define HUNYUAN_MODULES                                                                                      \
    [MODULE_ATTN_NORM] = "input_layernorm", LLAMA_ATTENTION, [MODULE_Q_NORM] = "self_attn.query_layernorm",  \
    [MODULE_K_NORM] = "self_attn.key_layernorm", [MODULE_FFN_NORM] = "post_attention_layernorm",             \
    LLAMA_FEED_FORWARD, LLAMA_ENDS
#define HUNYUAN_FIXED                                                                                        \
    NO_MLP_BIAS, {NULL, {"use_cla"}, 0, "layers that share keys and values"},                                \
        {NULL, {"use_qk_norm"}, 1, "queries and keys without norms"},                                        \
        {NULL, {"use_rotary_pos_emb"}, 1, "other positions"},                                                \
        {NULL, {"add_classification_head"}, 0, "another head"}, {                                            \
        NULL, {"norm_type"}, 0, "other norms", "rms"                                                         \
    }
#define HUNYUAN_IGNORED                                                                                      \
    "attention_head_dim", "cla_share_factor", "class_num", "dense_list", "eod_token_id", "org_vocab_size",   \
        "pad_id", "pool_type", "skip_cls_token", "mask_init_id", "im_start_id", "im_end_id",                 \
        "im_newline_id", "text_start_id", "text_end_id"

// What GGUF files say of layers that recur where none does.
#define OF_STATE_SPACES                                                                                      \
    "ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank", "ssm.group_count"

// In its GGUF files this says whether heads turn at all; those that have layers of another kind may not.
#define GRANITE_TURNS                                                                                        \
    { NULL, {NULL, "rope.scaling.finetuned"}, 1, "heads that do not turn" }

// Norms of queries and keys, and those of what a part adds, under the names of those that have all of them.
#define NORMED_LAYER                                                                                         \
    [MODULE_ATTN_NORM] = "input_layernorm", LLAMA_ATTENTION, [MODULE_Q_NORM] = "self_attn.q_norm",           \
    [MODULE_K_NORM] = "self_attn.k_norm", [MODULE_ATTN_POST_NORM] = "post_attention_layernorm",              \
    LLAMA_FEED_FORWARD

// In config.json any number clips: 0 would clip all.
#define NOT_CLIPPED                                                                                          \
    {NULL, {"clip_qkv"}, NAN, "clipped queries, keys and values"}, {                                         \
        NULL, {NULL, "attention.clamp_kqv"}, 0, "clipped queries, keys and values"                           \
    }

#define NO_ATTENTION_BIAS                                                                                    \
    { NULL, {"attention_bias"}, 0, "biases of attention" }
#define NO_MLP_BIAS                                                                                          \
    { NULL, {"mlp_bias"}, 0, "biases of the feed-forward part" }

#endif
