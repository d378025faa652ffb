// The model that comes with palaver: as Hugging Face transformers and sentencepiece read it, and what a trained model
// makes of text in every type of cache and under every overflow policy.
#include "tests/support/model/chat_golden.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/model/parley.h"
#include "tests/support/engine/stream.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGES = 16, STREAM = 256, CONTEXT = 96 };
#define TRAINED 5.0 // perplexity; a guess among all pieces has 6,144

// 1e-4 is what we promise, 1e-5 what we see.
static void logits_are_those_of_transformers(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu:reference", "cpu:exact", "cpu"};
    GoldenSet set;
    Error error = {0};
    if (golden_model_read(GOLDEN, "parley", &set, &error)) fail_msg("%s", error.message);
    assert_int_equal(set.n, 1);
    const GoldenCase *c = &set.cases[0];
    size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    for (int i = 0; i < 3; i++) {
        Engine *engine = NULL;
        if (golden_model_open(".", PARLEY, devices[i], DTYPE_F32, &engine, &error) ||
            golden_model_evaluate(engine, c, c->n, logits, &error))
            fail_msg("%s", error.message);
        double distance = golden_distance(logits, c->expected, count);
        print_message("%s: relative error %.1e\n", devices[i], distance);
        assert_true(distance <= (i < 2 ? 1e-5 : golden_fixed_bound(c)));
        engine_close(engine);
    }
    free(logits);
    golden_model_free(&set);
}

// ---- talks ------------------------------------------------------------------------------------------------

static void check_talk(const ChatTemplate *chat_template, const Tokenizer *tokenizer, const json_t *talk) {
    const json_t *messages = json_object_get(talk, "messages"), *ids = json_object_get(talk, "ids");
    Message list[MAX_MESSAGES] = {0};
    ChatSpan spans[MAX_MESSAGES];
    int n = (int)json_array_size(messages);
    assert_in_range(n, 1, MAX_MESSAGES);
    for (int i = 0; i < n; i++) {
        const json_t *m = json_array_get(messages, (size_t)i);
        const char *text = json_string_value(json_object_get(m, "content"));
        const char *role = json_string_value(json_object_get(m, "role"));
        list[i] = (Message){.role = (ChatRole)chat_role_find(role), .text = text, .size = strlen(text)};
    }
    bool prompt = json_is_true(json_object_get(talk, "prompt"));
    Tokens tokens = chat_ids(chat_template, tokenizer, list, n, prompt, spans);
    chat_check_spans(spans, n, &tokens);
    assert_int_equal(tokens.n, json_array_size(ids));
    for (int64_t i = 0; i < tokens.n; i++)
        if (tokens.ids[i] != json_integer_value(json_array_get(ids, (size_t)i)))
            fail_msg("'%s' of %d messages: id %d is %d", list[0].text, n, (int)i, tokens.ids[i]);
    tokens_free(&tokens);
}

// What is typed never becomes a control token, bytes and emoji come through.
static void talks_have_the_ids_of_sentencepiece(void **state) {
    (void)state;
    json_error_t why;
    json_t *talks = json_load_file(GOLDEN_PARLEY "/talks.json", 0, &why), *talk;
    if (!talks) fail_msg("%s", why.text);
    Engine *engine;
    ChatTemplate *chat_template;
    Error error = {0};
    EngineOptions options = {
        .model = PARLEY, .device = "cpu", .context_size = 128, .cache = cache_options(DTYPE_F16)};
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.message);
    const Tokenizer *tokenizer = engine_tokenizer(engine);
    if (chat_template_recognise(engine_jinja_template(engine), tokenizer, &chat_template, &error))
        fail_msg("%s", error.message);
    assert_null(chat_template_notice(chat_template));
    assert_string_equal(chat_template_name(chat_template), "chatml");
    size_t i;
    json_array_foreach(talks, i, talk) {
        check_talk(chat_template, tokenizer, talk);
    }
    assert_true(i >= 20);
    chat_template_close(chat_template);
    engine_close(engine);
    json_decref(talks);
}

// ---- perplexity -------------------------------------------------------------------------------------------

static double perplexity(const Stream *stream, int context, DType cache, OverflowPolicy policy) {
    float *logits = stream_logits(stream, context, cache, policy);
    double loss = stream_loss(stream, logits, 0, stream->n - 1);
    print_message("context %d, %s, %s: perplexity %.3f\n", context, dtype_name(cache),
                  overflow_policy_name(policy), exp(loss));
    free(logits);
    return exp(loss);
}

static void perplexity_of_caches(void **state) {
    (void)state;
    Stream stream = stream_open(PARLEY, GOLDEN_PARLEY "/stream.bin", STREAM);
    double exact = perplexity(&stream, STREAM, DTYPE_F32, OVERFLOW_STOP);
    assert_true(exact > 1 && exact < TRAINED);
    static const struct {
        DType type;
        double worst;
    } caches[] = {{DTYPE_F16, 0.001}, {DTYPE_INT8, 0.01}, {DTYPE_INT4, 0.05}};
    for (int i = 0; i < 3; i++) {
        double p = perplexity(&stream, STREAM, caches[i].type, OVERFLOW_STOP);
        assert_true(fabs(p / exact - 1) <= caches[i].worst);
    }
    stream_close(&stream);
}

static void perplexity_of_overflow_policies(void **state) {
    (void)state;
    Stream stream = stream_open(PARLEY, GOLDEN_PARLEY "/stream.bin", STREAM);
    double again = perplexity(&stream, CONTEXT, DTYPE_F16, OVERFLOW_REEVALUATE);
    double shift = perplexity(&stream, CONTEXT, DTYPE_F16, OVERFLOW_SHIFT);
    double inplace = perplexity(&stream, CONTEXT, DTYPE_F16, OVERFLOW_SHIFT_INPLACE);
    assert_true(again > 1 && again < TRAINED);
    assert_true(fabs(shift / again - 1) <= 0.08); // what stays had seen what left
    assert_true(fabs(inplace / shift - 1) <= 0.005);
    stream_close(&stream);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_transformers),
        cmocka_unit_test(talks_have_the_ids_of_sentencepiece),
        cmocka_unit_test(perplexity_of_caches),
        cmocka_unit_test(perplexity_of_overflow_policies),
    };
    return test_main("parley", argc, argv, tests);
}
