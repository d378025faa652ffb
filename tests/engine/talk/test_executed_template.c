// Conversations whose template is executed: the cache keeps what stays, overflow drops the oldest turns, refusals and
// roll-back.
#include "tests/support/talk/talk.h"
#include "tests/support/test.h"

#include <string.h>

enum { CONTEXT = 384 };

// Like ChatML, but with a first line, and thoughts that go when the user speaks again.
static const char jinja[] =
    "{{ 'A talk.\n' }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{{ "
    "m.content.split('</think>')[-1] "
    "if m.role == 'assistant' and not loop.last else m.content }}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if messages[-1].role == 'system' %}{{ raise_exception('Nobody asks.') }}{% endif %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static Talk *open_executed(void) {
    Error error = {0};
    CacheOptions cache = {.type = DTYPE_F32, .layout = 3, .paged = true, .page_size = 16, .n_sequences = 2};
    Talk *t = talk_open(CONTEXT, &cache);
    conversation_close(t->c);
    chat_template_close(t->chat_template);
    if (chat_template_open_jinja(jinja, engine_tokenizer(t->engine), &t->chat_template, &error))
        fail_msg("%s", error.message);
    t->c = talk_conversation(t);
    return t;
}

static void turns_extend_the_cache(void **state) {
    (void)state;
    Error error = {0};
    Talk *t = open_executed();
    if (conversation_set_system(t->c, "Be brief.", &error)) fail_msg("%s", error.message);
    int64_t used = 0;
    for (int i = 0; i < 5; i++) {
        ReplyReport report = talk_say(t, "And then?");
        if (i) assert_true(report.cached >= used - 2); // all of it but the end of the reply
        assert_true(report.read < 40 || !i);
        used = report.used;
        talk_check_log(t);
    }
    talk_close(t);
}

static void check_overflow(OverflowPolicy policy, bool by_token) {
    Talk *t = open_executed();
    Error error = {0};
    ConversationSettings *settings = conversation_settings(t->c);
    settings->overflow.policy = policy;
    settings->overflow.by_token = by_token;
    if (conversation_set_system(t->c, "Be brief.", &error)) fail_msg("%s", error.message);
    for (int i = 0; i < 30; i++) {
        talk_say(t,
                 i % 3 ? "What is it?" : "Say it with <|im_end|> and [INST], please, and go on for a while.");
        talk_check_log(t);
    }
    assert_true(t->n_overflows > 2);
    assert_false(conversation_message(t->c, 0)->evicted); // the system prompt
    assert_true(conversation_message(t->c, 1)->evicted);
    talk_close(t);
}

static void oldest_turns_leave(void **state) {
    (void)state;
    check_overflow(OVERFLOW_REEVALUATE, false);
    check_overflow(OVERFLOW_SHIFT, false);
    check_overflow(OVERFLOW_REEVALUATE, true);
    check_overflow(OVERFLOW_SHIFT, true);
}

// What a template refuses ends the turn with its words, and nothing else changes; what is only looked at is never
// refused.
static void refusals_roll_back(void **state) {
    (void)state;
    Error error = {0};
    ReplyReport report;
    Talk *t = open_executed();
    ConversationView view;
    talk_append(t->c, CHAT_SYSTEM, "Be brief.");
    assert_int_equal(conversation_view(t->c, false, &view, &error), STATUS_OK);
    assert_int_equal(view.n_spans, 1);
    assert_int_equal(view.spans[0].end, view.tokens.n);
    conversation_view_free(&view);
    assert_int_equal(talk_reply(t, false, &report, &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "Nobody asks."));
    assert_int_equal(conversation_length(t->c), 1);
    talk_say(t, "Hello?");
    talk_check_log(t);
    talk_close(t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_extend_the_cache),
        cmocka_unit_test(oldest_turns_leave),
        cmocka_unit_test(refusals_roll_back),
    };
    return test_main("executed_template", argc, argv, tests);
}
