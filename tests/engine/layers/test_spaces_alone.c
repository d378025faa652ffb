// Models of which no layer attends (tests/golden/make_state_space.py) against Hugging Face transformers in float32: Mamba 2, whose
// layers are state spaces alone, and one of Granite's. The logits of a text read at once, in pieces and token by token, from both
// kinds of files, and the tokens that it goes on with; what files say; and a cache whose slots hold positions and nothing else.
#include "tests/support/files.h"
#include "tests/support/model/golden_check.h"
#include "tests/support/model/refusals.h"
#include "tests/support/test.h"
#include "engine/model/model.h"
#include "engine/session/snapshot.h"

#include <stdio.h>
#include <string.h>

// Two groups; as its makers' files have it.
static void mamba2(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "mamba2");
}
// One group, three taps, a large epsilon.
static void with_a_tied_head(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "mamba2-tied");
}
// Of products, and none in the convolution, whose first taps meet no biases of tokens before the text.
static void with_biases(void **state) {
    (void)state;
    golden_check_model(GOLDEN_STATE_SPACE, "mamba2-biased", "mamba2-biased", GOLDEN_LOOPS);
}
static void with_feed_forward_parts(void **state) {
    (void)state;
    golden_check_both(GOLDEN_STATE_SPACE, "granite4-h-none");
}

static void weights_are_converted(void **state) {
    (void)state;
    Engine *engine = golden_check_converted(GOLDEN_STATE_SPACE, "mamba2", "cpu", WEIGHTS_INT8);
    assert_int_equal(engine_model(engine)->layers[0].wv.type, DTYPE_W8);
    golden_check_distance(engine, GOLDEN_STATE_SPACE, "mamba2", "int8", 0.1);
    engine_close(engine);
    engine = golden_check_converted(GOLDEN_STATE_SPACE, "mamba2.gguf", "cpu:exact", WEIGHTS_F16);
    assert_int_equal(engine_model(engine)->layers[0].wv.type, DTYPE_F16);
    golden_check_distance(engine, GOLDEN_STATE_SPACE, "mamba2", "f16", 0.01);
    engine_close(engine);
}

// ---- sessions ------------------------------------------------------------------------------------------------------

enum { VOCAB = 56, WORDS = 7, BEFORE = 40, WHOLE = 52, OTHER = 30 };

static Session *open_session(Engine *engine) {
    Session *session = NULL;
    Error error = {0};
    if (session_open(engine, &session, &error)) fail_msg("%s", error.message);
    return session;
}

static void read_text(Session *session, const int32_t *ids, int n, float logits[VOCAB]) {
    Error error = {0};
    if (session_sync(session, ids, n, NULL, &error)) fail_msg("%s", error.message);
    if (session_logits(session, logits, &error)) fail_msg("%s", error.message);
}

static void texts(int32_t one[WHOLE], int32_t other[WHOLE]) {
    for (int i = 0; i < WHOLE; i++) one[i] = other[i] = 3 + i * 7 % 50;
    for (int i = OTHER; i < WHOLE; i++) other[i] = 3 + i * 11 % 50;
}

// What is kept of a text is its states alone; positions come back with them.
static void a_text_goes_on_from_a_file(void **state) {
    (void)state;
    char *folder = folder_new(), path[300];
    int32_t ids[WHOLE], other[WHOLE];
    float here[VOCAB], there[VOCAB];
    Error error = {0};
    Snapshot *snapshot = NULL;
    SnapshotRestored restored;
    snprintf(path, sizeof path, "%s/kept", folder);
    texts(ids, other);
    Engine *first = golden_check_open(GOLDEN_STATE_SPACE, "mamba2", "cpu:exact", 2, DTYPE_F16),
           *second = golden_check_open(GOLDEN_STATE_SPACE, "mamba2", "cpu:exact", 2, DTYPE_F16);
    Session *a = open_session(first), *b = open_session(second);
    read_text(a, ids, BEFORE, here);
    if (snapshot_take(a, WORDS, &snapshot, &error)) fail_msg("%s", error.message);
    assert_in_range(snapshot_bytes(snapshot), 3 * 4 * (3 * 160 + 96 * 16),
                    3 * 4 * (3 * 160 + 96 * 16) + 1024);
    if (snapshot_write(snapshot, path, NULL, &error)) fail_msg("%s", error.message);
    snapshot_free(snapshot);
    if (snapshot_restore(b, WORDS, path, &restored, &error)) fail_msg("%s", error.message);
    assert_int_equal(restored.n_tokens, BEFORE);
    read_text(a, ids, WHOLE, here), read_text(b, ids, WHOLE, there);
    assert_memory_equal(here, there, sizeof here);
    session_close(a), session_close(b);
    engine_close(first), engine_close(second);
    folder_remove(folder);
}

// To another end and back, beside another session.
static void a_text_is_taken_back(void **state) {
    (void)state;
    int32_t ids[WHOLE], other[WHOLE];
    float before[VOCAB], between[VOCAB], after[VOCAB];
    texts(ids, other);
    Engine *engine = golden_check_open(GOLDEN_STATE_SPACE, "mamba2", "cpu:exact", 2, DTYPE_F16);
    assert_int_equal(engine_token_bytes(engine), sizeof(int32_t));
    assert_non_null(engine_cannot_shift(engine));
    Session *session = open_session(engine);
    read_text(session, ids, WHOLE, before), read_text(session, other, WHOLE, between);
    assert_true(golden_distance(between, before, VOCAB) > 0.01);
    read_text(session, ids, WHOLE, after);
    assert_true(golden_distance(after, before, VOCAB) < 1e-5);
    session_close(session);
    session = open_session(engine);
    read_text(session, other, WHOLE, after);
    assert_true(golden_distance(after, between, VOCAB) < 1e-5);
    session_close(session);
    engine_close(engine);
}

// ---- what files say ------------------------------------------------------------------------------------------------

static void both_kinds_of_files_say_the_same(void **state) {
    (void)state;
    static const struct {
        const char *name;
        DeltaRule rule;
        bool tied, conv_bias, biases;
    } CASES[] = {
        {"mamba2", {2, 6, 16, 16, 4, false, true, 1e-5f, 0, 0}, false, true, false},
        {"mamba2.gguf", {2, 6, 16, 16, 4, false, true, 1e-5f, 0, 0}, false, true, false},
        {"mamba2-tied", {1, 4, 24, 24, 3, false, true, 0.01f, 0, 0}, true, true, false},
        {"mamba2-tied.gguf", {1, 4, 24, 24, 3, false, true, 0.01f, 0, 0}, true, true, false},
        {"mamba2-biased", {8, 8, 8, 12, 4, false, true, 1e-5f, 0, 0}, false, false, true},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Model *model = golden_check_file(GOLDEN_STATE_SPACE, CASES[i].name);
        const DecoderShape *s = &model->shape;
        const DeltaRule *d = &s->delta, *rule = &CASES[i].rule;
        assert_int_equal(d->n_key_heads, rule->n_key_heads);
        assert_int_equal(d->n_value_heads, rule->n_value_heads);
        assert_int_equal(d->key_dim, rule->key_dim);
        assert_int_equal(d->value_dim, rule->value_dim);
        assert_int_equal(d->taps, rule->taps);
        assert_true(d->adds && !d->keys_alternate && d->least_step == 0);
        assert_true(d->norm_eps == rule->norm_eps && s->norm_eps == rule->norm_eps);
        assert_int_equal(decoder_attending(s), 0);
        assert_int_equal(s->rope.rotary_dim, 0);
        assert_int_equal(model->context_length, 1 << 20);
        assert_int_equal(model->tied_head, CASES[i].tied);
        for (int l = 0; l < s->n_layers; l++) {
            const LayerHeads heads = layer_heads(s, l);
            const LayerWeights *w = &model->layers[l];
            assert_true(heads.recurs && heads.no_ffn && !heads.no_mixer);
            assert_true(w->skip.data && w->attn_gate.data && w->attn_norm.data && w->state_norm.data);
            assert_true(!w->w_up.data && !w->ffn_norm.data && !w->w_beta.data);
            assert_int_equal(w->conv_bias.data != NULL, CASES[i].conv_bias);
            const Matrix *biases[] = {&w->bq, &w->bk, &w->bv, &w->attn_gate_bias, &w->bo};
            for (int b = 0; b < 5; b++) assert_int_equal(biases[b]->data != NULL, CASES[i].biases);
        }
        model_close(model);
    }
}

static void a_config_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const ConfigRefusal CASES[] = {
        {"{\"n_groups\": 4}", "6 heads of values (num_heads) cannot share 4 of keys (n_groups) evenly"},
        {"{\"num_heads\": 5}",
         "5 heads of 16 (num_heads, head_dim) are not 2 times the hidden size of 48 (expand)"},
        {"{\"expand\": 3}",
         "6 heads of 16 (num_heads, head_dim) are not 3 times the hidden size of 48 (expand)"},
        {"{\"head_dim\": null}", "head_dim is null"},
        {"{\"head_dim\": \"auto\"}", "head_dim should be an integer"},
        {"{\"head_dim\": 0}", "head_dim is 0; palaver runs 1 to 256"},
        {"{\"num_heads\": null}", "num_heads is null"},
        {"{\"state_size\": 257}", "state_size is 257; palaver runs 1 to 256"},
        {"{\"conv_kernel\": 9}", "conv_kernel is 9; palaver runs 1 to 8"},
        {"{\"hidden_act\": \"gelu\"}",
         "hidden_act asks for another activation, which palaver cannot run: it is \"gelu\""},
        {"{\"hidden_act\": null}", "hidden_act is null"},
        {"{\"rms_norm\": false}",
         "rms_norm asks for states without norms, which palaver cannot run: it is false"},
        {"{\"rescale_prenorm_residual\": true}",
         "rescale_prenorm_residual asks for weights that its class divides"},
        {"{\"time_step_limit\": [0.0, 100.0]}", "time_step_limit asks for other limits than 0 and infinity, "
                                                "which palaver cannot run: it is [0.0, 100.0]"},
        {"{\"time_step_limit\": null}", "time_step_limit is null"},
        {"{\"layer_norm_epsilon\": -1}", "layer_norm_epsilon, the norm's epsilon, is -1"},
        {"{\"layer_norm_epsilon\": {\"__float__\": \"Infinity\"}}",
         "layer_norm_epsilon should be a number, not Infinity"},
        {"{\"layer_norm_epsilon\": {\"__float__\": \"a word\"}}",
         "layer_norm_epsilon should be a number, not an object"},
        {"{\"layer_types\": []}", "layer_types should name 3 layers, and names 0"},
        {"{\"layer_types\": null}", "layer_types is null"},
        {"{\"layer_types\": [\"mamba\", \"mamba\", \"mamba\"]}", "does not know what layer_types means"},
        {"{\"num_attention_heads\": 4}", "does not know what num_attention_heads means for a mamba2 model"},
        {"{\"mamba_d_state\": 17}", "does not know what mamba_d_state means for a mamba2 model"},
        {"{\"rope_theta\": 10000.0}", "does not know what rope_theta means for a mamba2 model"},
        {"{\"sliding_window\": 8}", "does not know what sliding_window means for a mamba2 model"},
    };
    refuse_configs(GOLDEN_STATE_SPACE "/mamba2", CASES, sizeof CASES / sizeof *CASES);
}

// A folder's config.json says something else than its weights.
static void tensors_that_are_missing_or_too_many_are_named(void **state) {
    (void)state;
    static const struct {
        const char *said, *instead, *fragment; // as long as what is said
    } CASES[] = {
        {"\"use_bias\": false", "\"use_bias\": true ",
         "tensor backbone.layers.0.mixer.in_proj.bias is missing"},
        {"\"use_conv_bias\": true", "\"use_conv_bias\":false", "mixer.conv1d.bias has no place"},
        {"_layers\": 3", "_layers\": 4", "tensor backbone.layers.3.norm.weight is missing"},
        {"_layers\": 3", "_layers\": 2", "tensor backbone.layers.2."},
        {"\"use_bias\": false", "\"use_bias\": false", NULL},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *folder = folder_new(), text[4096];
        Bytes config = bytes_of_file(GOLDEN_STATE_SPACE "/mamba2/config.json");
        snprintf(text, sizeof text, "%.*s", (int)config.size, (const char *)config.data);
        memcpy(strstr(text, CASES[i].said), CASES[i].instead, strlen(CASES[i].said));
        folder_write_text(folder, "config.json", text);
        folder_copy(folder, "model.safetensors", GOLDEN_STATE_SPACE "/mamba2/model.safetensors");
        Model *model = NULL;
        Error error = {0};
        const Status status = model_open(folder, &model, &error);
        if (CASES[i].fragment ? !status || !strstr(error.message, CASES[i].fragment) : status)
            fail_msg("%s: status %d, \"%s\"", CASES[i].instead, status, error.message);
        model_close(model);
        bytes_free(&config);
        folder_remove(folder);
    }
}

static void a_gguf_file_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const GgufRefusal CASES[] = {
        {"mamba2.ssm.group_count", GGUF_VALUE, 4,
         "6 heads of values (ssm.time_step_rank) cannot share 4 of keys (ssm.group_count) evenly"},
        {"mamba2.ssm.time_step_rank", GGUF_VALUE, 5,
         "mamba2.ssm.inner_size is 96, for 5 heads of values (ssm.time_step_rank)"},
        {"mamba2.ssm.inner_size", 0, 0, "mamba2.ssm.inner_size is missing"},
        {"mamba2.ssm.state_size", 0, 0, "mamba2.ssm.state_size is missing"},
        {"mamba2.ssm.conv_kernel", 0, 0, "mamba2.ssm.conv_kernel is missing"},
        {"mamba2.attention.head_count", GGUF_VALUE, 4,
         "attention.head_count asks for layers that attend, which palaver cannot run: it is 4"},
        {"mamba2.feed_forward_length", GGUF_VALUE, 96, "feed_forward_length asks for feed-forward parts"},
        {"mamba2.block_count", 0, 0, "mamba2.block_count is missing"},
        {"blk.0.ssm_a", 0, 0, "layer 0: tensor ssm_a is missing"},
        {"blk.2.ssm_d", 0, 0, "layer 2: tensor ssm_d is missing"},
        {"blk.1.ssm_conv1d.bias", 0, 0, "tensor blk.1.ssm_conv1d.bias is missing"},
        {"blk.2.ssm_dt.bias", 0, 0, "layer 2: tensor ssm_dt.bias is missing"},
        {"blk.2.ssm_in.weight", 0, 0, "tensor blk.2.ssm_in.weight is missing"},
        {"blk.1.ssm_norm.weight", 0, 0, "tensor blk.1.ssm_norm.weight is missing"},
        {"blk.1.ssm_out.weight", 0, 0, "tensor blk.1.ssm_out.weight is missing"},
        {"blk.1.attn_norm.weight", 0, 0, "tensor blk.1.attn_norm.weight is missing"},
    };
    refuse_ggufs(GOLDEN_STATE_SPACE "/mamba2.gguf", CASES, sizeof CASES / sizeof *CASES);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mamba2),
        cmocka_unit_test(with_a_tied_head),
        cmocka_unit_test(with_biases),
        cmocka_unit_test(with_feed_forward_parts),
        cmocka_unit_test(weights_are_converted),
        cmocka_unit_test(a_text_goes_on_from_a_file),
        cmocka_unit_test(a_text_is_taken_back),
        cmocka_unit_test(both_kinds_of_files_say_the_same),
        cmocka_unit_test(a_config_that_cannot_be_is_refused),
        cmocka_unit_test(tensors_that_are_missing_or_too_many_are_named),
        cmocka_unit_test(a_gguf_file_that_cannot_be_is_refused),
    };
    return test_main("state spaces alone", argc, argv, tests);
}
