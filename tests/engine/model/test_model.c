// Models described as data: where weights are found in either kind of file, what the values are.
#include "tests/support/test.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN "tests/golden/models/"

static Model *open_ok(const char *path) {
    Model *model;
    Error error = {0};
    if (model_open(path, &model, &error) != STATUS_OK) fail_msg("%s", error.message);
    return model;
}

// ---- golden models -----------------------------------------------------------------------------------------

enum { TIED = 1, QKV = 2, O_BIAS = 4, QK_NORM = 8, HALF = ROPE_HALF_SPLIT, PAIRS = ROPE_INTERLEAVED };
static const struct {
    const char *path, *architecture;
    int n_layers, n_heads, n_kv_heads, head_dim, vocab, flags, kind, scaling;
    int windows[2];
    DType type;
    int64_t parameters;
} MODELS[] = {
    {"llama", "llama", 2, 4, 4, 12, 128, TIED, HALF, ROPE_SCALING_NONE, {0, 0}, DTYPE_F32, 43248},
    {"llama-linear", "llama", 1, 4, 2, 12, 128, 0, HALF, ROPE_SCALING_LINEAR, {0}, DTYPE_F32, 28560},
    {"llama3", "llama", 2, 6, 2, 8, 320, 0, HALF, ROPE_SCALING_LLAMA3, {0, 0}, DTYPE_F32, 61680},
    {"llama3.gguf", "llama", 2, 6, 2, 8, 320, 0, PAIRS, ROPE_SCALING_FACTORS, {0, 0}, DTYPE_F32, 61680},
    {"llama-yarn", "llama", 2, 3, 1, 16, 128, 0, HALF, ROPE_SCALING_YARN, {0, 0}, DTYPE_F32, 43248},
    {"mistral", "mistral", 2, 4, 2, 12, 128, 0, HALF, ROPE_SCALING_NONE, {7, 7}, DTYPE_F32, 44784},
    {"qwen2", "qwen2", 2, 4, 2, 12, 128, TIED | QKV, HALF, ROPE_SCALING_NONE, {0, 0}, DTYPE_F32, 38832},
    {"qwen2.gguf", "qwen2", 2, 4, 2, 12, 128, TIED | QKV, HALF, ROPE_SCALING_NONE, {0, 0}, DTYPE_F32, 38832},
    {"qwen3", "qwen3", 2, 4, 2, 16, 128, TIED | QK_NORM, HALF, ROPE_SCALING_NONE, {0, 8}, DTYPE_F32, 43312},
    {"llama-sharded", "llama", 1, 4, 2, 12, 128, QKV | O_BIAS, HALF, 0, {0}, DTYPE_F32, 28704},
    {"llama-f16", "llama", 2, 4, 2, 12, 128, 0, HALF, ROPE_SCALING_NONE, {0, 0}, DTYPE_F16, 44784},
    {"llama-bf16", "llama", 2, 4, 2, 12, 128, 0, HALF, ROPE_SCALING_NONE, {0, 0}, DTYPE_BF16, 44784},
};

static void describes_golden_models(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        char path[256];
        snprintf(path, sizeof path, GOLDEN "%s", MODELS[i].path);
        Model *model = open_ok(path);
        const DecoderShape *shape = &model->shape;
        const LayerWeights *last = &model->layers[shape->n_layers - 1];
        assert_string_equal(model->architecture, MODELS[i].architecture);
        assert_int_equal(shape->n_layers, MODELS[i].n_layers);
        assert_int_equal(shape->hidden_size, 48);
        assert_int_equal(shape->intermediate_size, 64);
        assert_int_equal(shape->n_heads, MODELS[i].n_heads);
        assert_int_equal(shape->n_kv_heads, MODELS[i].n_kv_heads);
        assert_int_equal(shape->head_dim, MODELS[i].head_dim);
        assert_int_equal(shape->vocab_size, MODELS[i].vocab);
        assert_true(fabs(shape->norm_eps - 1e-5) < 1e-12);
        assert_true(fabs(shape->attention_scale - 1 / sqrt(MODELS[i].head_dim)) < 1e-7);
        assert_true(shape->norm_offset == 0 && shape->embedding_scale == 1);
        assert_int_equal(shape->activation, ACTIVATION_SILU);
        assert_int_equal(shape->rope.kind, MODELS[i].kind);
        assert_int_equal(shape->rope.rotary_dim, MODELS[i].head_dim);
        assert_ptr_equal(shape->rope.inv_freq, model->inv_freq);
        assert_int_equal(model->rope_scaling, MODELS[i].scaling);
        assert_int_equal(model->context_length, 256);
        for (int layer = 0; layer < MODELS[i].n_layers; layer++)
            assert_int_equal(model->attention_windows[layer], MODELS[i].windows[layer]);
        assert_int_equal(model->tied_head, (MODELS[i].flags & TIED) != 0);
        assert_int_equal(model->head.output.data == model->head.embedding.data,
                         (MODELS[i].flags & TIED) != 0);
        assert_int_equal(model->qkv_bias, (MODELS[i].flags & QKV) != 0);
        assert_int_equal(last->bk.data != NULL, (MODELS[i].flags & QKV) != 0);
        assert_int_equal(model->o_bias, (MODELS[i].flags & O_BIAS) != 0);
        assert_int_equal(last->bo.data != NULL, (MODELS[i].flags & O_BIAS) != 0);
        assert_int_equal(model->qk_norm, (MODELS[i].flags & QK_NORM) != 0);
        assert_int_equal(last->k_norm.data != NULL, (MODELS[i].flags & QK_NORM) != 0);
        assert_int_equal(model->layers[0].wk.rows, MODELS[i].n_kv_heads * MODELS[i].head_dim);
        assert_int_equal(model->layers[0].wk.cols, 48);
        assert_int_equal(model->layers[0].attn_norm.rows, 1);
        assert_int_equal(model_main_type(model), MODELS[i].type);
        assert_int_equal(model->n_parameters, MODELS[i].parameters);
        assert_int_equal(model_weight_bytes(model), MODELS[i].parameters * dtype_block_bytes(MODELS[i].type));
        model_close(model);
    }
}

// Modules that an architecture has not, has twice, or has in one tensor with others.
static void describes_other_architectures(void **state) {
    (void)state;
    static const struct {
        const char *path, *architecture;
        int64_t parameters;
        int embedding_norm, positions, qkv_bias, output_bias, one_norm, gathered;
    } CASES[] = {
        {"gptj", "gptj", 33408, 0, 0, 0, 1, 1, 0},
        {"gpt_neox", "gpt_neox", 47200, 0, 0, 1, 0, 0, 1},
        {"gpt_neox.gguf", "gpt_neox", 47200, 0, 0, 1, 0, 0, 0},
        {"gpt_neox-sequential", "gpt_neox", 17376, 0, 0, 0, 0, 0, 1},
        {"opt", "opt", 45744, 0, 128, 1, 0, 0, 0},
        {"bloom", "bloom", 62880, 1, 0, 1, 0, 0, 1},
        {"bloom.gguf", "bloom", 62880, 1, 0, 1, 0, 0, 0},
        {"mpt", "mpt", 28832, 0, 0, 0, 0, 0, 0},
        {"mpt.gguf", "mpt", 28832, 0, 0, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char path[256];
        snprintf(path, sizeof path, "tests/golden/architectures/%s", CASES[i].path);
        Model *model = open_ok(path);
        const DecoderShape *s = &model->shape;
        const LayerWeights *last = &model->layers[s->n_layers - 1];
        assert_string_equal(model->architecture, CASES[i].architecture);
        assert_int_equal(model->n_parameters, CASES[i].parameters);
        assert_int_equal(s->norm, NORM_LAYER);
        assert_null(last->w_gate.data);
        assert_int_equal(last->wv.rows, s->n_kv_heads * s->head_dim);
        assert_int_equal(last->wv.cols, s->hidden_size);
        assert_int_equal(last->bv.data != NULL, CASES[i].qkv_bias);
        assert_int_equal(last->bv.cols, CASES[i].qkv_bias ? s->n_kv_heads * s->head_dim : 0);
        assert_int_equal(last->ffn_norm.data == last->attn_norm.data, CASES[i].one_norm);
        assert_int_equal(last->ffn_norm_bias.data != NULL, model->norm_bias);
        assert_int_equal(model->head.embedding_norm_bias.data != NULL, CASES[i].embedding_norm);
        assert_int_equal(model->head.positions.rows, CASES[i].positions);
        assert_int_equal(model->head.output_bias.data != NULL, CASES[i].output_bias);
        assert_int_equal(model->gathered != NULL, CASES[i].gathered);
        model_close(model);
    }
}

// The same weights and frequencies out of both kinds of file, Q and K permuted.
static void gguf_equals_hugging_face(void **state) {
    (void)state;
    Model *hf = open_ok(GOLDEN "llama3"), *gguf = open_ok(GOLDEN "llama3.gguf");
    const float *a = hf->layers[0].wk.data, *b = gguf->layers[0].wk.data;
    for (int row = 0; row < 8; row++) { // row i of a head's first half is row 2i, of its second 2i + 1
        int permuted = row < 4 ? 2 * row : 2 * (row - 4) + 1;
        assert_memory_equal(a + row * 48, b + permuted * 48, 48 * sizeof *a);
    }
    assert_memory_equal(hf->layers[1].w_down.data, gguf->layers[1].w_down.data, 48 * 64 * sizeof *a);
    for (int i = 0; i < 4; i++) assert_true(fabs(hf->inv_freq[i] / gguf->inv_freq[i] - 1) < 1e-7);
    assert_string_equal(gguf->name, "palaver golden llama3");
    model_close(hf);
    model_close(gguf);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_golden_models),
        cmocka_unit_test(describes_other_architectures),
        cmocka_unit_test(gguf_equals_hugging_face),
    };
    return test_main("model", argc, argv, tests);
}
