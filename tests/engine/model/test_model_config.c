// What a config.json means: values and defaults, in the styles of transformers 4 and 5.
#include "tests/support/model/base_config.h"
#include "tests/support/model/model_config.h"
#include "tests/support/test.h"
#include "engine/model/model.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void frequencies_equal_transformers(void **state) {
    (void)state;
    json_t *rows = json_load_file("tests/golden/models/rope.json", 0, NULL);
    assert_true(json_array_size(rows) >= 9);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *expected = json_object_get(row, "inv_freq");
        char *text = json_dumps(json_object_get(row, "config"), 0);
        Model *model;
        Error error = {0};
        if (model_from_config(text, strlen(text), NULL, 0, &model, &error) != STATUS_OK)
            fail_msg("%s", error.message);
        assert_int_equal(model->shape.rope.rotary_dim, 2 * json_array_size(expected));
        for (size_t j = 0; j < json_array_size(expected); j++) {
            double wanted = json_number_value(json_array_get(expected, j));
            if (!(fabs(model->inv_freq[j] / wanted - 1) < 2e-6)) { // theirs are float32
                fail_msg("%s: inv_freq[%zu] is %.9g, transformers has %.9g", text, j, model->inv_freq[j],
                         wanted);
            }
        }
        assert_true(fabs(model->shape.rope.magnitude - json_number_value(json_object_get(row, "magnitude"))) <
                    1e-12);
        model_close(model);
        free(text);
    }
    json_decref(rows);
}

static void reads_windows(void **state) {
    (void)state;
    static const struct {
        const char *changes;
        int windows[4];
    } CASES[] = {
        {"{\"sliding_window\": 512}", {0, 0, 0, 0}}, // LLaMA has none, and none is seen within its context
        {"{\"sliding_window\": 9, \"use_sliding_window\": false}", {0, 0, 0, 0}},
        {"{\"model_type\": \"mistral\", \"sliding_window\": 9, \"layer_types\": [\"full_attention\", "
         "\"sliding_attention\", \"full_attention\", \"sliding_attention\"]}",
         {0, 9, 0, 9}}, // as transformers' AutoConfig takes it
        {"{\"model_type\": \"mistral\", \"sliding_window\": 9}", {9, 9, 9, 9}},
        {"{\"model_type\": \"mistral\", \"sliding_window\": null}", {0, 0, 0, 0}},
        {"{\"model_type\": \"mistral\", \"sliding_window\": 9, \"use_sliding_window\": false}",
         {9, 9, 9, 9}}, // which its class does not look at
        {"{\"model_type\": \"mistral\"}", {4096, 4096, 4096, 4096}},
        {"{\"model_type\": \"qwen2\", \"sliding_window\": 9, \"max_window_layers\": 2}", {0, 0, 0, 0}},
        {"{\"model_type\": \"qwen2\", \"sliding_window\": 9, \"use_sliding_window\": true}", {0, 0, 0, 0}},
        {"{\"model_type\": \"qwen3\", \"sliding_window\": 9, \"use_sliding_window\": true, "
         "\"max_window_layers\": 2}",
         {0, 0, 9, 9}},
        {"{\"model_type\": \"qwen3\", \"sliding_window\": 9, \"use_sliding_window\": true, \"layer_types\": "
         "[\"full_attention\", \"sliding_attention\", \"full_attention\", \"sliding_attention\"]}",
         {0, 9, 0, 9}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = base_config_ok(CASES[i].changes, NULL);
        for (int layer = 0; layer < 4; layer++) {
            if (model->attention_windows[layer] != CASES[i].windows[layer]) {
                fail_msg("%s: layer %d has window %d", CASES[i].changes, layer,
                         model->attention_windows[layer]);
            }
        }
        model_close(model);
    }
}

static void reads_contexts_and_defaults(void **state) {
    (void)state;
    static const struct {
        const char *changes;
        int64_t context;
        double base;
        int head_dim, rotary_dim;
    } CASES[] = {
        {"{}", 512, 10000, 16, 16},
        {"{\"max_position_embeddings\": \"absent\"}", 2048, 10000, 16, 16},
        {"{\"model_type\": \"qwen3\"}", 512, 10000, 128, 128},
        {"{\"model_type\": \"seed_oss\", \"hidden_size\": 96, \"head_dim\": null}", 512, 10000, 24, 24},
        {"{\"model_type\": \"nemotron\", \"hidden_size\": 96}", 512, 10000, 24, 12},
        {"{\"model_type\": \"gpt_oss\"}", 131072, 150000, 64, 64},
        {"{\"model_type\": \"phi3\", \"head_dim\": 32, \"partial_rotary_factor\": 0.25}", 512, 10000, 32, 8},
        {"{\"architectures\": [\"LLaMAForCausalLM\"], \"num_key_value_heads\": null, \"head_dim\": null, "
         "\"rope_scaling\": null, \"rope_parameters\": null, \"sliding_window\": null, \"pad_token_id\": "
         "null, "
         "\"bos_token_id\": null, \"eos_token_id\": null, \"layer_types\": null, \"quantization_config\": "
         "null}",
         512, 10000, 16, 16},
        {"{\"architectures\": null, \"rope_scaling\": {\"rope_type\": \"yarn\", \"type\": \"yarn\", "
         "\"factor\": 4, "
         "\"attention_factor\": null, \"beta_fast\": null}}",
         512, 10000, 16, 16},
        {"{\"model_type\": \"gptj\", \"architectures\": [\"GPTJForCausalLM\"], \"n_inner\": null, "
         "\"rotary_dim\": "
         "8}",
         512, 10000, 16, 8},
        {"{\"model_type\": \"gpt_neox\", \"architectures\": [\"GPTNeoXForCausalLM\"]}", 512, 10000, 16, 4},
        {"{\"rope_theta\": 5000, \"rope_parameters\": {\"rope_theta\": 7000}}", 512, 7000, 16, 16},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}", 512, 10000, 16, 16},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}", 512, 10000, 16, 16},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 512}}",
         2048, 10000, 16, 16},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"original_max_position_embeddings\": 128}}", 512, 10000,
         16, 16},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = base_config_ok(CASES[i].changes, NULL);
        assert_int_equal(model->context_length, CASES[i].context);
        assert_true(model->rope_base == CASES[i].base);
        assert_int_equal(model->shape.head_dim, CASES[i].head_dim);
        assert_int_equal(model->shape.rope.rotary_dim, CASES[i].rotary_dim);
        assert_true(model->shape.n_kv_heads == 4 && model->bos_id == -1 && model->n_eos == 0);
        model_close(model);
    }
    Model *model = base_config_ok(
        "{\"rope_scaling\": {\"type\": \"yarn\", \"original_max_position_embeddings\": 128}}", NULL);
    assert_true(model->rope_factor == 4); // the lengths' ratio where no factor is given
    model_close(model);
}

// What distinguishes architectures, by their own keys and defaults.
static void reads_architectures(void **state) {
    (void)state;
    enum { QKV = 1, O = 2, FFN = 4, NORM = 8, OUTPUT = 16, TIED = 32, PARALLEL = 64, ALIBI = 128 };
    static const struct {
        const char *changes;
        int hidden, layers, intermediate, rotary, n_positions, flags;
        NormKind norm;
        Activation activation;
        RopeKind rope;
        double base;
    } CASES[] = {
        {"{\"hidden_act\": \"relu\", \"mlp_bias\": true}", 64, 4, 128, 16, 0, FFN, NORM_RMS, ACTIVATION_RELU,
         ROPE_HALF_SPLIT, 10000},
        {"{\"attention_bias\": true, \"tie_word_embeddings\": true}", 64, 4, 128, 16, 0, QKV | O | TIED,
         NORM_RMS, ACTIVATION_SILU, ROPE_HALF_SPLIT, 10000},
        {"{\"model_type\": \"qwen2\", \"attention_bias\": false}", 64, 4, 128, 16, 0, QKV, NORM_RMS,
         ACTIVATION_SILU, ROPE_HALF_SPLIT, 10000},
        {"{\"model_type\": \"gptj\", \"hidden_size\": \"absent\", \"n_embd\": 512, \"intermediate_size\": "
         "\"absent\", \"n_inner\": null, \"num_hidden_layers\": \"absent\", \"n_layer\": 3}",
         512, 3, 2048, 64, 0, FFN | NORM | OUTPUT | PARALLEL, NORM_LAYER, ACTIVATION_GELU_TANH,
         ROPE_INTERLEAVED, 10000},
        {"{\"model_type\": \"gptj\", \"rotary_dim\": 8, \"activation_function\": \"relu\"}", 64, 4, 128, 8, 0,
         FFN | NORM | OUTPUT | PARALLEL, NORM_LAYER, ACTIVATION_RELU, ROPE_INTERLEAVED, 10000},
        {"{\"model_type\": \"gpt_neox\", \"rotary_emb_base\": 25000}", 64, 4, 128, 4, 0,
         QKV | O | FFN | NORM | PARALLEL, NORM_LAYER, ACTIVATION_GELU, ROPE_HALF_SPLIT, 25000},
        {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": 1.0, \"attention_bias\": false, "
         "\"use_parallel_residual\": false, \"hidden_act\": \"gelu_fast\"}",
         64, 4, 128, 16, 0, FFN | NORM, NORM_LAYER, ACTIVATION_GELU_TANH, ROPE_HALF_SPLIT, 10000},
        {"{\"model_type\": \"opt\", \"intermediate_size\": \"absent\", \"ffn_dim\": 99}", 64, 4, 99, 0, 512,
         QKV | O | FFN | NORM | TIED, NORM_LAYER, ACTIVATION_RELU, ROPE_HALF_SPLIT, 0},
        {"{\"model_type\": \"bloom\", \"n_embed\": 96, \"hidden_size\": \"absent\", \"intermediate_size\": "
         "\"absent\", \"max_position_embeddings\": \"absent\", \"seq_length\": 99}",
         96, 4, 384, 0, 0, QKV | O | FFN | NORM | TIED | ALIBI, NORM_LAYER, ACTIVATION_GELU_TANH,
         ROPE_HALF_SPLIT, 0},
        {"{\"model_type\": \"mpt\", \"d_model\": 128, \"hidden_size\": \"absent\", \"attn_config\": "
         "{\"alibi\": "
         "true, \"alibi_bias_max\": 8, \"clip_qkv\": null}, \"tie_word_embeddings\": false}",
         128, 4, 128, 0, 0, ALIBI, NORM_LAYER, ACTIVATION_GELU, ROPE_HALF_SPLIT, 0},
        {"{\"model_type\": \"opt\", \"enable_bias\": false, \"activation_function\": \"gelu\"}", 64, 4, 128,
         0, 512, NORM | TIED, NORM_LAYER, ACTIVATION_GELU, ROPE_HALF_SPLIT, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = base_config_ok(CASES[i].changes, NULL);
        const DecoderShape *s = &model->shape;
        assert_int_equal(s->hidden_size, CASES[i].hidden);
        assert_int_equal(s->n_layers, CASES[i].layers);
        assert_int_equal(s->intermediate_size, CASES[i].intermediate);
        assert_int_equal(s->rope.rotary_dim, CASES[i].rotary);
        assert_int_equal(s->n_positions, CASES[i].n_positions);
        int flags = (model->qkv_bias ? QKV : 0) | (model->o_bias ? O : 0) | (model->ffn_bias ? FFN : 0) |
                    (model->norm_bias ? NORM : 0) | (model->output_bias ? OUTPUT : 0) |
                    (model->tied_head ? TIED : 0) | (s->parallel_residual ? PARALLEL : 0) |
                    (s->alibi ? ALIBI : 0);
        if (flags != CASES[i].flags) fail_msg("%s: flags %d", CASES[i].changes, flags);
        assert_int_equal(s->norm, CASES[i].norm);
        assert_int_equal(s->activation, CASES[i].activation);
        assert_int_equal(s->rope.kind, CASES[i].rope);
        assert_true(model->rope_base == CASES[i].base);
        assert_true(s->rope.magnitude == 1 && model->rope_factor == 1);
        model_close(model);
    }
}

// Sets of frequencies for texts of different lengths; tests/engine/test_forward.c compares what they do with
// transformers.
static void reads_frequencies_by_length(void **state) {
    (void)state;
    Model *model = base_config_ok("{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.5}}", NULL);
    const Rope *rope = &model->shape.rope;
    assert_int_equal(model->rope_scaling, ROPE_SCALING_DYNAMIC);
    assert_int_equal(model->context_length, 1280);
    assert_true(model->rope_factor == 2.5 && rope->magnitude == 1);
    assert_int_equal(rope->n_sets, 1); // until it is known how far they have to go
    Error error = {0};
    assert_int_equal(model_reach_context(model, 1000, &error), STATUS_OK);
    assert_int_equal(rope->n_sets, 489); // up to 512, for 513, for 514, …
    for (int set = 0; set < 489; set++) {
        int64_t length = 512 + set;
        double base = 10000 * pow(2.5 * (double)length / 512 - 1.5, 16.0 / 14);
        for (int i = 0; i < 8; i++)
            assert_true(fabs(rope->inv_freq[set * 8 + i] * pow(base, i / 8.0) - 1) < 1e-12);
        assert_int_equal(model_rope_set(model, length), set);
    }
    assert_true(model_rope_holds(model, 0, 512) && !model_rope_holds(model, 0, 513));
    assert_true(model_rope_holds(model, 4, 520) &&
                !model_rope_holds(model, 4, 521)); // it covers 2·4 tokens more
    assert_true(model_rope_holds(model, 288, 900) && !model_rope_holds(model, 288, 901)); // an eighth more
    assert_false(model_rope_holds(model, 288, 799));
    assert_int_equal(model_reach_context(model, 1 << 24, &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "with dynamic NTK this model goes up to 2097663"));
    assert_int_equal(model_rope_set(model, 0), 0);
    model_close(model);

    static const char SU[] =
        "{\"model_type\": \"phi3\", \"max_position_embeddings\": 512, \"original_max_position_embeddings\": "
        "64, \"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1, 2, 1, 1, 1, 1, 1, 1], "
        "\"long_factor\": [4, 4, 4, 4, 4, 4, 4, 9]%s}}";
    static const struct {
        const char *more;
        double magnitude;
    } CASES[] = {{"", 1.224744871391589}, // (1 + ln 8 / ln 64)^½
                 {", \"attention_factor\": 1.25", 1.25},
                 {", \"factor\": 1", 1}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[512];
        snprintf(text, sizeof text, SU, CASES[i].more);
        model = base_config_ok(text, NULL);
        rope = &model->shape.rope;
        assert_int_equal(model->rope_scaling, ROPE_SCALING_LONGROPE);
        assert_int_equal(model->context_length, 512);
        assert_int_equal(rope->n_sets, 2);
        assert_true(fabs(rope->magnitude - CASES[i].magnitude) < 1e-12);
        assert_true(fabs(rope->inv_freq[1] * 2 * pow(10000, 1 / 8.0) - 1) < 1e-12);
        assert_true(fabs(rope->inv_freq[15] * 9 * pow(10000, 7 / 8.0) - 1) < 1e-12);
        assert_int_equal(model_rope_set(model, 64), 0);
        assert_int_equal(model_rope_set(model, 65), 1);
        model_close(model);
    }
}

static void reads_generation_settings(void **state) {
    (void)state;
    Model *model = base_config_ok(
        "{\"bos_token_id\": 7, \"eos_token_id\": 5}",
        "{\"eos_token_id\": [6, 5, 100, -1], \"temperature\": 0.6, \"top_p\": 0.9, \"top_k\": 20, "
        "\"min_p\": 0.02, \"typical_p\": 0.5, \"repetition_penalty\": 1.05, \"do_sample\": true, "
        "\"max_new_tokens\": 512}");
    assert_int_equal(model->bos_id, 7);
    assert_int_equal(model->n_eos, 2); // ids beyond the vocabulary are none
    assert_true(model_is_eos(model, 5) && model_is_eos(model, 6) && !model_is_eos(model, 7) &&
                !model_is_eos(model, -1));
    assert_true(model_recommended(model, "temperature") == 0.6 && model_recommended(model, "top_p") == 0.9);
    assert_true(model_recommended(model, "top_k") == 20 && model_recommended(model, "min_p") == 0.02);
    assert_true(model_recommended(model, "typical_p") == 0.5);
    assert_true(model_recommended(model, "repeat_penalty") == 1.05);
    assert_true(model_recommended(model, "max_tokens") == 512);
    model_close(model);
    model = base_config_ok("{\"bos_token_id\": 100, \"temperature\": 3}",
                           "{\"temperature\": -1, \"top_p\": 7, \"top_k\": -1}");
    assert_int_equal(model->bos_id, -1);
    assert_true(isnan(model_recommended(model, "temperature")) && isnan(model_recommended(model, "top_p")));
    assert_true(isnan(model_recommended(model, "repeat_penalty")) &&
                isnan(model_recommended(model, "top_k")));
    assert_true(isnan(model_recommended(model, "seed")));
    model_close(model);
    model = base_config_ok("{}", "{\"do_sample\": false, \"temperature\": 0.6}");
    assert_true(model_recommended(model, "temperature") == 0); // greedy
    model_close(model);
    Error error = {0};
    assert_int_equal(base_config_with("{}", "{\"temperature\": \"hot\"}", &model, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "generation_config.json: temperature should be a number"));
    assert_int_equal(base_config_with("{}", "{\"do_sample\": 0}", &model, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "do_sample should be true or false, not the number 0"));
    assert_int_equal(base_config_with("{}", "{", &model, &error), STATUS_FILE);
}

// What generation_config.json asks for and palaver does not do is named; values that ask for nothing are not.
static void names_what_is_not_followed(void **state) {
    (void)state;
    static const struct {
        const char *generation, *expected;
    } CASES[] = {
        {"{}", ""},
        {"{\"temperature\": 0.6, \"eos_token_id\": [5], \"do_sample\": true, \"num_return_sequences\": 1}",
         ""},
        {"{\"no_repeat_ngram_size\": 0, \"num_beams\": 1, \"bad_words_ids\": null, \"suppress_tokens\": [], "
         "\"max_new_tokens\": null, \"guidance_scale\": 1.0, \"sequence_bias\": {}, \"forced_bos_token_id\": "
         "null}",
         ""},
        {"{\"no_repeat_ngram_size\": 3}", "no_repeat_ngram_size"},
        {"{\"temperature\": 1e30, \"top_p\": 5, \"top_k\": -1, \"min_p\": -1, \"repetition_penalty\": 0}",
         "temperature, top_p, repetition_penalty"},
        {"{\"forced_bos_token_id\": 0, \"num_beams\": 4, \"max_time\": 512, \"bad_words_ids\": [[5]], "
         "\"suppress_tokens\": [7], \"guidance_scale\": 1.5}",
         "max_time, num_beams, bad_words_ids, suppress_tokens, forced_bos_token_id, guidance_scale"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = base_config_ok("{}", CASES[i].generation);
        assert_string_equal(model->unfollowed, CASES[i].expected);
        model_close(model);
    }
    static const char LONG[] =
        "{\"exponential_decay_length_penalty\": [1, 2], \"encoder_no_repeat_ngram_size\": 2, \"max_time\": "
        "2, "
        "\"encoder_repetition_penalty\": 2, \"no_repeat_ngram_size\": 2, \"begin_suppress_tokens\": [1], "
        "\"forced_decoder_ids\": [[1, 2]], \"forced_eos_token_id\": 1, \"watermarking_config\": {\"a\": 1}, "
        "\"forced_bos_token_id\": 1, \"diversity_penalty\": 1, \"stop_strings\": [\"a\"], "
        "\"num_beam_groups\": "
        "2}";
    Model *model = base_config_ok("{}", LONG);
    size_t n = strlen(model->unfollowed);
    assert_true(n > 200 && strcmp(model->unfollowed + n - 5, ", ...") == 0);
    model_close(model);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_equal_transformers), cmocka_unit_test(reads_windows),
        cmocka_unit_test(reads_contexts_and_defaults),    cmocka_unit_test(reads_architectures),
        cmocka_unit_test(reads_frequencies_by_length),    cmocka_unit_test(reads_generation_settings),
        cmocka_unit_test(names_what_is_not_followed),
    };
    return test_main("model config", argc, argv, tests);
}
