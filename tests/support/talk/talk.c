#include "tests/support/talk/talk.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static void on_text(void *user, const char *text, size_t size) {
    Talk *t = user;
    assert_true(t->size + size < sizeof t->text);
    memcpy(t->text + t->size, text, size);
    t->size += size;
    t->text[t->size] = 0;
    if (t->stop_after > 0 && --t->stop_after == 0) t->stop = 1;
}

static void on_overflow(void *user, const OverflowEvent *event) {
    Talk *t = user;
    t->last = *event;
    t->n_overflows++;
}

Conversation *talk_conversation(Talk *t) {
    Error error = {0};
    Conversation *c = NULL;
    ConversationSettings settings = {
        .sampler = sampler_default_settings(),
        .seed = 42,
        .max_tokens = 24,
        .overflow = {.keep = OVERFLOW_KEEP_SYSTEM, .reserve = 64, .low_water = 0.5},
    };
    if (conversation_open(t->engine, t->chat_template, &settings, &c, &error)) fail_msg("%s", error.message);
    session_set_interrupt(conversation_session(c), &t->stop);
    return c;
}

Talk *talk_open(int context_size, const CacheOptions *cache) {
    return talk_open_model("tests/golden/babbler", "chatml", context_size, cache);
}

Talk *talk_open_model(const char *model, const char *chat_template, int context_size,
                      const CacheOptions *cache) {
    Error error = {0};
    Talk *t = calloc(1, sizeof *t);
    EngineOptions options = {
        .model = model, .device = "cpu", .n_threads = 1, .context_size = context_size, .cache = *cache};
    if (engine_open(&options, &t->engine, &error)) fail_msg("%s", error.message);
    if (chat_template_open(chat_template, &t->chat_template, &error)) fail_msg("%s", error.message);
    t->c = talk_conversation(t);
    return t;
}

void talk_close(Talk *t) {
    conversation_close(t->c);
    chat_template_close(t->chat_template);
    engine_close(t->engine);
    free(t);
}

int talk_turns(const Talk *talk) {
    int turns = 0;
    for (int i = 0; i < conversation_length(talk->c); i++)
        turns += conversation_message(talk->c, i)->role == CHAT_USER;
    return turns;
}

const char *talk_remember(Talk *t) {
    return memcpy(t->kept, t->text, sizeof t->kept);
}

void talk_append(Conversation *c, ChatRole role, const char *text) {
    Error error = {0};
    Message m = {.role = role, .text = text, .size = strlen(text)};
    if (conversation_append(c, &m, &error)) fail_msg("%s", error.message);
}

Status talk_reply(Talk *t, bool resume, ReplyReport *report, Error *error) {
    ConversationEvents events = {.user = t, .text = on_text, .overflow = on_overflow};
    t->size = 0;
    t->text[0] = 0;
    return conversation_reply(t->c, resume, &events, report, error);
}

ReplyReport talk_say(Talk *t, const char *text) {
    Error error = {0};
    ReplyReport report;
    talk_append(t->c, CHAT_USER, text);
    if (talk_reply(t, false, &report, &error)) fail_msg("%s", error.message);
    const Message *m = conversation_message(t->c, conversation_length(t->c) - 1);
    assert_int_equal(m->role, CHAT_ASSISTANT);
    assert_int_equal(m->size, t->size);
    assert_memory_equal(m->text, t->text, t->size);
    return report;
}

void talk_check_log(Talk *t) {
    Error error = {0};
    ConversationView view;
    assert_int_equal(conversation_view(t->c, false, &view, &error), STATUS_OK);
    const Session *session = conversation_session(t->c);
    const int32_t *log = session_tokens(session);
    int64_t n = session_length(session);
    assert_true(n > 0);
    assert_true(view.spans[view.n_spans - 1].text_end <=
                n); // what the template says after it is not evaluated yet
    // Models have several tokens that end a reply; the template writes its own.
    if (chat_template_is_end(t->chat_template, engine_tokenizer(t->engine), log[n - 1])) n--;
    if (n > view.tokens.n) n = view.tokens.n;
    assert_memory_equal(log, view.tokens.ids, (size_t)n * sizeof *log);
    conversation_view_free(&view);
}
