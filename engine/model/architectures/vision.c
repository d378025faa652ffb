// What writes text in models that see images, where it is not an architecture of its own: Qwen's. Deeper layers take what is seen,
// and nothing where nothing is.
#include "engine/model/architectures/architectures.h"

#define QWEN2_VL(GGUF)                                                                                       \
    .gguf = GGUF, LLAMA_NAMES, .fixed = {NO_MLP_BIAS}, .ignored = {"attention_bias", "head_dim"},            \
    .biases = BIAS_QKV, .sections = SECTIONS_IN_BLOCKS, .default_sections = 64,                              \
    .ignored_rope = {"mrope_section"}, .window_rule = WINDOW_UPPER_LAYERS, .default_base = 1e6,              \
    .norm_eps = 1e-5, .default_context = 32768, .default_window = 4096

#define QWEN3_VL                                                                                             \
    LLAMA_NAMES, .sections = SECTIONS_IN_TURN, .ignored_rope = {"mrope_section", "mrope_interleaved"},       \
                 .ignored_gguf = {"n_deepstack_layers"}, .bias_keys = BIAS_QKV | BIAS_O, .qk_norm = true,    \
                 .default_base = 5e5, .norm_eps = 1e-6, .default_context = 128000

static const Architecture ROWS[] = {
    // With a text_config, and as their makers wrote them.
    {.name = "qwen2_vl_text", .whole = "qwen2_vl", .class_name = "qwen2vl", QWEN2_VL("qwen2vl")},
    {.name = "qwen2_vl",
     .parts_beside = true,
     .other_classes = {"Qwen2VLForConditionalGeneration"},
     QWEN2_VL(NULL)},
    {.name = "qwen2_5_vl_text", .whole = "qwen2_5_vl", .class_name = "qwen25vl", QWEN2_VL(NULL)},
    {.name = "qwen2_5_vl",
     .parts_beside = true,
     .other_classes = {"Qwen2_5_VLForConditionalGeneration"},
     QWEN2_VL(NULL)},
    {.name = "qwen3_vl_text",
     .gguf = "qwen3vl",
     .whole = "qwen3_vl",
     .class_name = "qwen3vl",
     .fixed = {NO_MLP_BIAS},
     QWEN3_VL,
     .default_head_dim = 128},
    {.name = "qwen3_vl_moe_text",
     .gguf = "qwen3vlmoe",
     .whole = "qwen3_vl_moe",
     .class_name = "qwen3vlmoe",
     .aliases = {{"num_local_experts", "num_experts", true}},
     .fixed = {NO_MLP_BIAS, {NULL, {"norm_topk_prob"}, 1, "weights of experts that do not sum up to 1"}},
     QWEN3_VL,
     .experts =
         {.there = true,
          .n = 60,
          .n_active = 4,
          .names = {{.router = "mlp.gate", PACKED, .transposed = true, .halves = true, .either_way = true}},
          .size = "moe_intermediate_size",
          .layers = EXPERTS_SPARSE,
          .renormalise = true,
          .gguf_renormalise = true}},
};

const ArchitectureFamily architectures_vision = {ROWS, sizeof ROWS / sizeof *ROWS};
