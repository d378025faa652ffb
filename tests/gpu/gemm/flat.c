// Steps of a few tokens, by flat GEMMs: every type of weights with numbers of rows around the sizes that they are
// padded to, over columns that end within a step and a chunk, and rows that end within a tile; with every epilogue.
#include "tests/gpu/model/side.h"

#include <stdio.h>
#include <string.h>

// Heads that end in registers, gates, and sums that are added; the first with 5 and a half tiles of rows in qkv and
// gate_up, 352 and 192 columns; then what has super-blocks of 256. Then biases, an activation without a gate, heads
// that are stored first.
static const Case SHAPES[] = {
#define PLAIN .past = 65, .kv = DTYPE_F16
#define BIASED                                                                                               \
    .layer_norm = true, .no_gate = true, .bias = true, .out_bias = true, .ffn_bias = true,                   \
    .activation = ACTIVATION_GELU, .output_bias = true, PLAIN
    {"q8_0", DTYPE_Q8_0, 352, 3, 1, 64, 2144, 203, PLAIN},
    {"q4_0", DTYPE_Q4_0, 352, 3, 1, 64, 4128, 203, PLAIN},
    {"q4_1", DTYPE_Q4_1, 352, 3, 1, 64, 4384, 203, PLAIN},
    {"q5_0", DTYPE_Q5_0, 352, 3, 1, 64, 4384, 203, PLAIN},
    {"q5_1", DTYPE_Q5_1, 352, 3, 1, 64, 4128, 203, PLAIN},
    {"q4_k", DTYPE_Q4_K, 768, 4, 1, 64, 4352, 203, .qk_norm = true, PLAIN},
    {"q5_k", DTYPE_Q5_K, 768, 4, 1, 64, 4352, 203, .qk_norm = true, PLAIN},
    {"q6_k", DTYPE_Q6_K, 768, 4, 1, 64, 4352, 203, .qk_norm = true, PLAIN},
    {"bf16", DTYPE_BF16, 360, 3, 1, 64, 1032, 203, PLAIN},
    {"f16", DTYPE_F16, 360, 2, 1, 128, 1032, 203, PLAIN},
    {"iq4_nl", DTYPE_IQ4_NL, 352, 3, 1, 64, 4384, 203, PLAIN},
    {"iq4_xs", DTYPE_IQ4_XS, 768, 4, 1, 64, 4352, 203, .qk_norm = true, PLAIN},
    {"mxfp4", DTYPE_MXFP4, 352, 3, 1, 64, 4128, 203, PLAIN},
    {"q2_k", DTYPE_Q2_K, 768, 4, 1, 64, 4352, 203, .qk_norm = true, PLAIN},
    {"q3_k", DTYPE_Q3_K, 4352, 4, 1, 64, 768, 203, .qk_norm = true, PLAIN},
    {"e4m3", DTYPE_E4M3, 352, 3, 1, 64, 2208, 203, PLAIN},
    {"nf4", DTYPE_NF4, 320, 2, 1, 128, 4288, 203, PLAIN},
    {"e4m3 with biases", DTYPE_E4M3, 352, 2, 1, 80, 1056, 203, BIASED},
    {"q8_0 with biases", DTYPE_Q8_0, 352, 3, 1, 64, 1056, 203, BIASED},
    {"q4_0 with biases", DTYPE_Q4_0, 352, 2, 1, 80, 1056, 203, BIASED},
    {"q4_k and q6_k", DTYPE_Q4_K, 768, 4, 2, 128, 2304, 203, .v_type = DTYPE_Q6_K, .down_type = DTYPE_Q6_K,
     PLAIN},
    {"bf16 with biases", DTYPE_BF16, 360, 2, 1, 80, 1032, 203, BIASED},
};
static const int TOKENS[] = {1, 2, 7, 8, 9, 16, 17, 32, 33, 64};

void test_flat(const Ops *cuda, const char *only, void (*test)(const Ops *, const Case *)) {
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        for (size_t j = 0; j < sizeof TOKENS / sizeof *TOKENS; j++) {
            char name[80];
            Case c = SHAPES[i];
            snprintf(name, sizeof name, "flat: %s, %d tokens", SHAPES[i].name, TOKENS[j]);
            c.name = name, c.n_tokens = TOKENS[j];
            if (only && strcmp(only, "flat") != 0 && !strstr(name, only)) continue;
            test(cuda, &c);
        }
}
