// Models in GGUF files that the test writes: what metadata means, and what is refused.
#include "engine/files/checkpoint_internal.h"
#include "tests/support/model/model_config.h"
#include "tests/support/test.h"
#include "tests/support/files.h"
#include "tests/support/gguf.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One layer of 2 heads of 16, vocabulary of 8, f32; what a test changes about it.
typedef struct Tiny {
    const char *architecture; // NULL: llama
    const char *tensor;       // the one that is different
    uint32_t n_dims;          // 0: it is missing
    uint64_t dims[2];         // the contiguous one first
    uint32_t type;
    uint32_t block_count;       // 0: 1
    uint64_t n_meta;            // further metadata
    void (*meta)(Bytes *bytes); // writes it
    const char *extra;          // one more tensor, of `extra_size` f32 of `extra_value`
    uint64_t extra_size;
    float extra_value;
} Tiny;

static const struct {
    const char *name;
    uint64_t rows, cols; // rows 0: a vector
} TENSORS[] = {
    {"token_embd.weight", 8, 32},     {"output_norm.weight", 0, 32},        {"blk.0.attn_norm.weight", 0, 32},
    {"blk.0.attn_q.weight", 32, 32},  {"blk.0.attn_k.weight", 16, 32},      {"blk.0.attn_v.weight", 16, 32},
    {"blk.0.ffn_norm.weight", 0, 32}, {"blk.0.attn_output.weight", 32, 32}, {"blk.0.ffn_gate.weight", 64, 32},
    {"blk.0.ffn_up.weight", 64, 32},  {"blk.0.ffn_down.weight", 32, 64},
};
enum { N_TENSORS = sizeof TENSORS / sizeof *TENSORS, ROOM = 64 * 32 * 4 };

static Bytes tiny_bytes(const Tiny *tiny) {
    const char *architecture = tiny->architecture != NULL ? tiny->architecture : "llama";
    static const struct {
        const char *key;
        uint32_t value;
    } SIZES[] = {{"embedding_length", 32},
                 {"feed_forward_length", 64},
                 {"attention.head_count", 2},
                 {"attention.head_count_kv", 1},
                 {"context_length", 100}};
    bool missing = tiny->tensor != NULL && tiny->n_dims == 0;
    Bytes bytes = {0};
    char key[128];
    gguf_header(&bytes, 3, N_TENSORS - missing + (tiny->extra != NULL), 7 + tiny->n_meta);
    gguf_key_string(&bytes, "general.architecture", architecture);
    snprintf(key, sizeof key, "%s.block_count", architecture);
    gguf_key_u32(&bytes, key, tiny->block_count == 0 ? 1 : tiny->block_count - 1);
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        snprintf(key, sizeof key, "%s.%s", architecture, SIZES[i].key);
        gguf_key_u32(&bytes, key, SIZES[i].value);
    }
    if (tiny->meta != NULL) tiny->meta(&bytes);
    for (int i = 0; i < N_TENSORS; i++) {
        uint32_t n_dims = TENSORS[i].rows > 0 ? 2 : 1;
        uint64_t dims[2] = {TENSORS[i].cols, TENSORS[i].rows};
        bool other = tiny->tensor != NULL && strcmp(tiny->tensor, TENSORS[i].name) == 0;
        if (other && missing) continue;
        gguf_tensor(&bytes, TENSORS[i].name, other ? tiny->n_dims : n_dims, other ? tiny->dims : dims,
                    other ? tiny->type : 0, (uint64_t)i * ROOM);
    }
    if (tiny->extra != NULL) gguf_tensor(&bytes, tiny->extra, 1, &tiny->extra_size, 0, N_TENSORS * ROOM);
    gguf_pad(&bytes, 32);
    bytes_zeros(&bytes, N_TENSORS * ROOM);
    for (uint64_t i = 0; i < tiny->extra_size; i++) bytes_add(&bytes, &tiny->extra_value, sizeof(float));
    return bytes;
}

// `bytes` outlives the model.
static Status open_tiny(const Tiny *tiny, Bytes *bytes, Model **model, Error *error) {
    Checkpoint *checkpoint;
    *bytes = tiny_bytes(tiny);
    *model = NULL;
    Status status = checkpoint_from_gguf("tiny.gguf", bytes->data, bytes->size, &checkpoint, error);
    return status == STATUS_OK ? model_from_checkpoint(checkpoint, model, error) : status;
}

static void meta_experts(Bytes *bytes) {
    gguf_key_u32(bytes, "llama.expert_count", 8);
}

static void meta_bad_size(Bytes *bytes) {
    gguf_key_string(bytes, "llama.attention.key_length", "16");
}

static void meta_nine_tokens(Bytes *bytes) {
    gguf_key(bytes, "tokenizer.ggml.tokens", 9);
    bytes_u32(bytes, 8);
    bytes_u64(bytes, 9);
    for (int i = 0; i < 9; i++) gguf_string(bytes, "t");
}

// A list where one number is meant.
static void meta_head_sizes(Bytes *bytes) {
    gguf_key(bytes, "llama.attention.key_length", 9);
    bytes_u32(bytes, 4), bytes_u64(bytes, 1), bytes_u32(bytes, 16);
}

static void meta_short_pattern(Bytes *bytes) {
    gguf_key_u32(bytes, "llama.attention.sliding_window", 5);
    gguf_key(bytes, "llama.attention.sliding_window_pattern", 9);
    bytes_u32(bytes, 7);
    bytes_u64(bytes, 0);
}

static void meta_longrope(Bytes *bytes) {
    gguf_key_string(bytes, "llama.rope.scaling.type", "longrope");
}

static void key_f32(Bytes *bytes, const char *key, float value) {
    gguf_key(bytes, key, 6);
    bytes_add(bytes, &value, sizeof value);
}

static void meta_attention_scale(Bytes *bytes) {
    key_f32(bytes, "llama.attention.scale", 0.125f);
}

static void meta_logit_scale(Bytes *bytes) {
    key_f32(bytes, "llama.logit_scale", 0.0625f);
}

static void meta_not_causal(Bytes *bytes) {
    gguf_key(bytes, "llama.attention.causal", 7);
    bytes_add(bytes, "", 1);
}

static void meta_unknown(Bytes *bytes) {
    gguf_key_u32(bytes, "llama.attention.temperature_length", 8192);
}

static void meta_adapter(Bytes *bytes) {
    gguf_key_string(bytes, "general.type", "adapter");
}

static void meta_dynamic(Bytes *bytes) {
    gguf_key_string(bytes, "llama.rope.scaling.type", "dynamic");
}

static const struct {
    Tiny tiny;
    Status status;
    const char *fragment;
} REFUSED[] = {
    {{.architecture = "gemma9"},
     STATUS_UNSUPPORTED,
     "architecture \"gemma9\" (general.architecture) is unknown to palaver; it knows gemma, and others"},
    {{.meta = meta_adapter, .n_meta = 1},
     STATUS_UNSUPPORTED,
     "tiny.gguf: general.type is \"adapter\": the file"},
    {{.block_count = 1}, STATUS_FILE, "tiny.gguf: llama.block_count is 0; palaver takes 1 to 1024"},
    {{.block_count = 3}, STATUS_FILE, "tensor blk.1.attn_norm.weight is missing"},
    {{.tensor = "token_embd.weight"}, STATUS_FILE, "token_embd.weight is missing"},
    {{.tensor = "blk.0.ffn_up.weight"}, STATUS_FILE, "tensor blk.0.ffn_up.weight is missing"},
    {{.tensor = "blk.0.attn_q.weight", .n_dims = 2, .dims = {32, 16}, .type = 8},
     STATUS_FILE,
     "tiny.gguf: blk.0.attn_q.weight: expected [32, 32], file has [16, 32] q8_0"},
    {{.tensor = "blk.0.ffn_down.weight", .n_dims = 1, .dims = {2048}},
     STATUS_FILE,
     "blk.0.ffn_down.weight: expected [32, 64], file has [2048] f32"},
    {{.tensor = "output_norm.weight", .n_dims = 2, .dims = {32, 1}},
     STATUS_FILE,
     "output_norm.weight: expected [32], file has [1, 32] f32"},
    {{.tensor = "blk.0.attn_q.weight", .n_dims = 2, .dims = {32, 32}, .type = 9},
     STATUS_UNSUPPORTED,
     "tensor blk.0.attn_q.weight has type q8_1; palaver reads f32"},
    {{.tensor = "blk.0.attn_q.weight", .n_dims = 2, .dims = {32, 32}, .type = 9},
     STATUS_UNSUPPORTED,
     "iq4_nl, iq4_xs, mxfp4: take another variant of the model (q8_0 is nearest)"},
    {{.tensor = "blk.0.attn_norm.weight", .n_dims = 1, .dims = {32}, .type = 8},
     STATUS_UNSUPPORTED,
     "tensor blk.0.attn_norm.weight has type q8_0; a vector must be"},
    {{.n_meta = 1, .meta = meta_experts}, STATUS_FILE, "llama.expert_used_count is missing"},
    {{.n_meta = 1, .meta = meta_bad_size},
     STATUS_FILE,
     "llama.attention.key_length should be an integer, the file "
     "has a string"},
    {{.n_meta = 1, .meta = meta_nine_tokens},
     STATUS_FILE,
     "tokenizer.ggml.tokens has 9 tokens, but token_embd.weight has only 8 rows"},
    {{.n_meta = 2, .meta = meta_short_pattern},
     STATUS_FILE,
     "sliding_window_pattern has 0 elements for 1 layers"},
    {{.n_meta = 1, .meta = meta_longrope},
     STATUS_FILE,
     "rope: rope.scaling.original_context_length is missing"},
    {{.extra = "rope_freqs.weight", .extra_size = 4, .extra_value = 1},
     STATUS_FILE,
     "rope_freqs.weight: expected [8] f32, file has"},
    {{.extra = "rope_freqs.weight", .extra_size = 8, .extra_value = 0},
     STATUS_FILE,
     "rope_freqs.weight[0] is 0"},
    {{.n_meta = 1, .meta = meta_attention_scale},
     STATUS_UNSUPPORTED,
     "llama.attention.scale asks for another scale of scores"},
    {{.n_meta = 1, .meta = meta_logit_scale}, STATUS_UNSUPPORTED, "llama.logit_scale asks for scaled logits"},
    {{.n_meta = 1, .meta = meta_not_causal}, STATUS_UNSUPPORTED, "llama.attention.causal asks for"},
    {{.n_meta = 1, .meta = meta_unknown},
     STATUS_UNSUPPORTED,
     "palaver does not know what llama.attention.temperature_length means for a llama model"},
    {{.n_meta = 1, .meta = meta_dynamic},
     STATUS_UNSUPPORTED,
     "llama.rope.scaling.type is \"dynamic\"; GGUF files have"},
    {{.extra = "rope_factors_short.weight", .extra_size = 8, .extra_value = 1},
     STATUS_UNSUPPORTED,
     "tensor rope_factors_short.weight has no place in a llama model"},
    {{.extra = "blk.0.attn_q_norm.weight", .extra_size = 16, .extra_value = 1},
     STATUS_UNSUPPORTED,
     "tiny.gguf: tensor blk.0.attn_q_norm.weight has no place"},
    {{.extra = "blk.0.post_attention_norm.weight", .extra_size = 32, .extra_value = 1},
     STATUS_UNSUPPORTED,
     "tensor blk.0.post_attention_norm.weight has no place"},
    {{.extra = "blk.0.attn_sinks.weight", .extra_size = 2},
     STATUS_UNSUPPORTED,
     "tensor blk.0.attn_sinks.weight has no place"},
    {{.extra = "blk.0.attn_v.bias", .extra_size = 16},
     STATUS_UNSUPPORTED,
     "tensor blk.0.attn_v.bias has no place"},
    {{.extra = "blk.1.attn_q.bias", .extra_size = 32},
     STATUS_UNSUPPORTED,
     "tensor blk.1.attn_q.bias has no place"},
    {{.extra = "blk.0.attn_output.scale", .extra_size = 1},
     STATUS_UNSUPPORTED,
     "tensor blk.0.attn_output.scale has no place"},
    {{.extra = "blk.0.ffn_up.bias", .extra_size = 64},
     STATUS_FILE,
     "tensor blk.0.ffn_gate.bias is missing"}, // one announces all
    {{.architecture = "gptj"}, STATUS_UNSUPPORTED, "reads gptj models only as Hugging Face folders"},
    {{.architecture = "gemma4"}, STATUS_FILE, "tensor blk.0.attn_q_norm.weight is missing"},
    {{.architecture = "gptneox"},
     STATUS_FILE,
     "1 key-value heads (attention.head_count_kv) for 2 attention heads (attention.head_count)"},
    {{.n_meta = 1, .meta = meta_head_sizes},
     STATUS_FILE,
     "llama.attention.key_length should be an integer, the file has an array"},
    {{.extra = "output.bias", .extra_size = 8, .extra_value = 1},
     STATUS_UNSUPPORTED,
     "tensor output.bias has no place in a llama model"},
    {{.extra = "output.weight", .extra_size = 64},
     STATUS_FILE,
     "output.weight: expected [8, 32], file has [64] f32"},
    {{.architecture = "qwen2"},
     STATUS_FILE,
     "tensor blk.0.attn_q.bias is missing: the model is incomplete, or no "
     "qwen2 model"},
};

static void refuses_models_that_do_not_fit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        Bytes bytes;
        Model *model;
        Error error = {0};
        Status status = open_tiny(&REFUSED[i].tiny, &bytes, &model, &error);
        if (status != REFUSED[i].status || strstr(error.message, REFUSED[i].fragment) == NULL) {
            fail_msg("status %d, \"%s\"; wanted \"%s\"", status, error.message, REFUSED[i].fragment);
        }
        assert_null(model);
        bytes_free(&bytes);
    }
}

static void meta_everything(Bytes *bytes) {
    gguf_key_u32(bytes, "llama.attention.sliding_window", 5);
    gguf_key_string(bytes, "llama.rope.scaling.type", "yarn");
    key_f32(bytes, "llama.rope.scaling.factor", 4);
    key_f32(bytes, "llama.rope.scaling.attn_factor", 0.5f);
    gguf_key_u32(bytes, "llama.rope.scaling.original_context_length", 50);
    gguf_key_u32(bytes, "tokenizer.ggml.eos_token_id", 2);
    gguf_key_u32(bytes, "tokenizer.ggml.eot_token_id", 3);
    gguf_key_u32(bytes, "tokenizer.ggml.eom_token_id", 2);
    gguf_key_u32(bytes, "tokenizer.ggml.bos_token_id", 1);
    key_f32(bytes, "general.sampling.temp", 0.25f);
    gguf_key_u32(bytes, "general.sampling.top_k", 11);
}

static void meta_linear(Bytes *bytes) {
    key_f32(bytes, "llama.rope.scaling.factor", 2);
    key_f32(bytes, "llama.rope.scaling.attn_factor", 1.5f);
    gguf_key_u32(bytes, "llama.expert_count", 0);
    gguf_key_u32(bytes, "llama.vocab_size", 8);
    gguf_key_u32(bytes, "general.quantization_version", 2);
}

static void reads_gguf_settings(void **state) {
    (void)state;
    Bytes bytes;
    Model *model;
    Error error = {0};
    Tiny everything = {.n_meta = 11, .meta = meta_everything};
    if (open_tiny(&everything, &bytes, &model, &error) != STATUS_OK || model == NULL) {
        fail_msg("%s", error.message);
        return;
    }
    assert_int_equal(model->attention_windows[0], 5);
    assert_int_equal(model->rope_scaling, ROPE_SCALING_YARN);
    assert_int_equal(model->context_length, 200);
    assert_true(fabs(model->shape.rope.magnitude - 0.5 * (1 + 0.1 * log(4))) < 1e-12);
    assert_int_equal(model->n_eos, 2);
    assert_true(model_is_eos(model, 2) && model_is_eos(model, 3) && model->bos_id == 1);
    assert_true(model_recommended(model, "temperature") == 0.25 && model_recommended(model, "top_k") == 11);
    assert_true(model->tied_head && !model->qkv_bias);
    model_close(model);
    bytes_free(&bytes);
    // A factor without a type is linear, and the converter's divisors come on top; attn_factor is of every scheme.
    Tiny linear = {
        .n_meta = 5, .meta = meta_linear, .extra = "rope_freqs.weight", .extra_size = 8, .extra_value = 3};
    if (open_tiny(&linear, &bytes, &model, &error) != STATUS_OK || model == NULL) {
        fail_msg("%s", error.message);
        return;
    }
    assert_int_equal(model->rope_scaling, ROPE_SCALING_LINEAR);
    assert_true(model->shape.rope.magnitude == 1.5);
    for (int i = 0; i < 8; i++) assert_true(fabs(model->inv_freq[i] * 6 / pow(10000, -i / 8.0) - 1) < 1e-12);
    model_close(model);
    bytes_free(&bytes);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_models_that_do_not_fit),
        cmocka_unit_test(reads_gguf_settings),
    };
    return test_main("model gguf", argc, argv, tests);
}
