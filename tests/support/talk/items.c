#include "tests/support/talk/items.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SYSTEM[] = "You are a quiet helper who answers in few words.";
static const char *const STOPS[] = {"e", "zz"};

ChatTemplate *items_template(void) {
    Error error = {0};
    ChatTemplate *chat_template;
    if (chat_template_open("vicuna-lines", &chat_template, &error)) fail_msg("%s", error.message);
    return chat_template;
}

Engine *items_engine(int n_rows, int n_windows, int context_size, DType cache) {
    Error error = {0};
    Engine *engine = NULL;
    EngineOptions options = {.model = "tests/golden/babbler",
                             .device = "cpu",
                             .n_threads = 1,
                             .context_size = context_size,
                             .cache = cache_options(cache),
                             .n_rows = n_rows};
    options.cache.paged = n_rows > 0;
    options.cache.page_size = 16;
    options.cache.n_sequences = n_windows;
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

enum { KINDS = 125 };

static void make_item(TestItem *t, int i, const OverflowSettings *overflow) {
    SchedulerItem *item = &t->item;
    int n = 0;
    if (i % 3 == 0) t->messages[n++] = (Message){.role = CHAT_SYSTEM, .text = SYSTEM, .size = strlen(SYSTEM)};
    for (int k = 0; k < 4; k++)
        snprintf(t->texts[k], sizeof t->texts[k], "%d: %.*s", i * 31 % 97 + k, i * 13 % 24 * (k == 0),
                 "What do you think of the sea, of ships, and of those who sail?");
    if (i % 5 == 0) {
        t->turns[0] = t->texts[0], t->turns[1] = t->texts[1];
        item->turns = t->turns;
        item->n_turns = 2;
    } else {
        if (i % 4 == 0) {
            t->messages[n++] = (Message){.role = CHAT_USER, .text = t->texts[2], .size = strlen(t->texts[2])};
            t->messages[n++] =
                (Message){.role = CHAT_ASSISTANT, .text = t->texts[3], .size = strlen(t->texts[3])};
        }
        n = n == 3 ? 2 : n; // no more than three with the question
        t->messages[n++] = (Message){.role = CHAT_USER, .text = t->texts[0], .size = strlen(t->texts[0])};
    }
    item->messages = t->messages;
    item->n_messages = n;
    item->settings = (ConversationSettings){.sampler = sampler_default_settings(),
                                            .seed = 42,
                                            .stream = (uint64_t)i,
                                            .max_tokens = 1 + i * 7 % 12,
                                            .overflow = *overflow};
    if (i % 2 == 0) item->settings.sampler.temperature = 0;
    if (i % 4 == 1)
        item->settings.sampler.repeat_penalty = 1.2f, item->settings.sampler.frequency_penalty = 0.3f;
    if (i % 7 == 0 || i % 10 == 0) item->settings.stop = STOPS, item->settings.n_stop = 2;
}

void items_answer_alone(Engine *engine, const ChatTemplate *chat_template, const SchedulerItem *item,
                        SchedulerItem *alone) {
    Conversation *c;
    ReplyReport report = {0};
    if (conversation_open(engine, chat_template, &item->settings, &c, &alone->error))
        fail_msg("%s", alone->error.message);
    for (int i = 0; i < item->n_messages; i++)
        assert_int_equal(conversation_append(c, &item->messages[i], &alone->error), STATUS_OK);
    for (int turn = 0; turn == 0 || turn < item->n_turns; turn++) {
        if (item->n_turns) {
            Message user = {.role = CHAT_USER, .text = item->turns[turn], .size = strlen(item->turns[turn])};
            assert_int_equal(conversation_append(c, &user, &alone->error), STATUS_OK);
        }
        alone->status = conversation_reply(c, false, NULL, &report, &alone->error);
        if (alone->status) break;
        const Message *reply = conversation_message(c, conversation_length(c) - 1);
        assert_int_equal(message_list_add(&alone->replies, reply, &alone->error), STATUS_OK);
        alone->finish = report.finish;
        alone->n_reply += report.n_reply;
    }
    conversation_close(c);
}

TestItem *items_make(int n, const OverflowSettings *overflow, int context_size, DType cache) {
    TestItem *items = calloc((size_t)n, sizeof *items);
    Engine *engine = items_engine(0, 1, context_size, cache);
    ChatTemplate *chat_template = items_template();
    for (int i = 0; i < n; i++) {
        make_item(&items[i], i % KINDS, overflow);
        if (i < KINDS)
            items_answer_alone(engine, chat_template, &items[i].item, &items[i].alone);
        else
            items[i].alone = items[i - KINDS].alone;
    }
    chat_template_close(chat_template);
    engine_close(engine);
    return items;
}

void items_reset(TestItem *items, int n) {
    for (int i = 0; i < n; i++) {
        SchedulerItem *item = &items[i].item;
        scheduler_item_clear(item);
        item->n_prompt = item->n_cached = item->n_reply = 0;
        items[i].n_finished = 0;
    }
}

void items_free(TestItem *items, int n) {
    items_reset(items, n);
    for (int i = 0; i < n && i < KINDS; i++) scheduler_item_clear(&items[i].alone);
    free(items);
}

static void check_reply(int i, int k, const Message *a, const Message *b) {
    size_t bytes = (size_t)a->n_ids * sizeof *a->ids;
    bool equal = a->n_ids == b->n_ids && !a->ids == !b->ids && strcmp(a->text, b->text) == 0 &&
                 (!a->ids || !b->ids || memcmp(a->ids, b->ids, bytes) == 0);
    if (!equal) fail_msg("item %d, reply %d: \"%s\" instead of \"%s\"", i, k, a->text, b->text);
}

void items_check_one(int i, const SchedulerItem *got, const SchedulerItem *want) {
    if (got->status != want->status || got->replies.n != want->replies.n)
        fail_msg("item %d: status %d, %d replies (%s); expected %d, %d (%s)", i, got->status, got->replies.n,
                 got->status ? got->error.message : "", want->status, want->replies.n,
                 want->status ? want->error.message : "");
    assert_int_equal(got->finish, want->finish);
    assert_int_equal(got->n_reply, want->n_reply);
    for (int k = 0; k < got->replies.n; k++)
        check_reply(i, k, &got->replies.messages[k], &want->replies.messages[k]);
}

void items_check(const TestItem *items, int n) {
    for (int i = 0; i < n; i++) {
        if (items[i].n_finished != 1) fail_msg("item %d was finished %d times", i, items[i].n_finished);
        items_check_one(i, &items[i].item, &items[i].alone);
    }
}
