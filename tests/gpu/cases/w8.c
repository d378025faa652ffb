// W8A8.
#include "tests/gpu/cases/cases.h"

static const Case CASES[] = {
// W8A8, around the edges of flat GEMMs and tiles; rows that are no multiple of 16 bytes, and heads of every kind.
#define W8(n) DTYPE_W8, 512, 8, 2, 64, 1056, 300, .past = 20, .n_tokens = (n), F16KV
    {"w8 1 row", W8(1)},
    {"w8 2 rows", W8(2)},
    {"w8 7 rows", W8(7)},
    {"w8 8 rows", W8(8)},
    {"w8 9 rows", W8(9)},
    {"w8 16 rows", W8(16)},
    {"w8 17 rows", W8(17)},
    {"w8 63 rows", W8(63)},
    {"w8 64 rows", W8(64)},
    {"w8 65 rows", W8(65)},
    {"w8 127 rows", W8(127)},
    {"w8 128 rows", W8(128)},
    {"w8 129 rows", W8(129)},
    {"w8 300 rows", W8(300)},
    {"w8 small", DTYPE_W8, 24, 1, 1, 24, 40, 33, .past = 3, .n_tokens = 2, F16KV},
    {"w8 padded", DTYPE_W8, 1000, 5, 5, 40, 1048, 515, .tied = true, .past = 9, .n_tokens = 70, F16KV},
    {"w8 llama2", DTYPE_W8, 1024, 8, 8, 128, 2752, 2000, .past = 1000, .n_tokens = 130, F16KV},
    {"w8 tiles", DTYPE_W8, 608, 28, 14, 64, 1824, 300, .gelu = true, .past = 40, .n_tokens = 1020, F16KV},
    {"w8 head 256 gemma", DTYPE_W8, 512, 4, 1, 256, 1024, 515, .gelu = true, .tied = true, .past = 90,
     .n_tokens = 71, .window = 40, F16KV},
    {"w8 qwen2", DTYPE_W8, 896, 14, 2, 64, 4864, 1000, .bias = true, .out_bias = true, .past = 333,
     .n_tokens = 73, F16KV},
    {"w8 qwen3 int8 cache", DTYPE_W8, 512, 8, 2, 128, 1024, 515, .qk_norm = true, .past = 200, .n_tokens = 75,
     INT8(32)},
    {"w8 gated with biases", DTYPE_W8, 512, 8, 2, 64, 1056, 300, .ffn_bias = true, .learned = true, .past = 3,
     .n_tokens = 66, F16KV},
    {"w8 gpt-neox", DTYPE_W8, 1024, 16, 16, 64, 4096, 515, .rotary_dim = 16, BEYOND,
     .activation = ACTIVATION_GELU, .bias = true, .out_bias = true, .ffn_bias = true, .parallel = true,
     .past = 70, .n_tokens = 77, F16KV},
    {"w8 wide", DTYPE_W8, 8200, 2, 1, 64, 17408, 64, .past = 3, .n_tokens = 3, F16KV},
};

const CaseList CASES_OF_W8 = {CASES, sizeof CASES / sizeof *CASES};
