// The tree of turns and the messages that the model sees tell one thing, also when there is no memory to follow the
// head.
#include "app/chat/way.h"
#include "app/commands/commands.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

// A message too large for any memory is a failure here, not the end.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

typedef struct Fixture {
    Options options;
    Settings settings;
    Screen *screen;
    Chat *chat;
} Fixture;

static Fixture *fixture_open(void) {
    Error error = {0};
    Fixture *f = calloc(1, sizeof *f);
    f->options.no_save = true;
    EngineOptions options = {.model = BABBLER,
                             .device = "cpu",
                             .n_threads = 1,
                             .context_size = 512,
                             .cache = cache_options(DTYPE_F16)};
    ChatOpening with = {.options = &f->options, .settings = &f->settings, .model = BABBLER};
    if (screen_open(&(const ScreenOptions){.plain = true, .quiet = true}, &f->screen, &error) ||
        settings_init(&f->settings, &error) || engine_open(&options, &with.engine, &error))
        fail_msg("%s", error.message);
    with.screen = f->screen;
    if (chat_open(&with, &f->chat, &error)) fail_msg("%s", error.message);
    return f;
}

static void fixture_close(Fixture *f) {
    chat_close(f->chat);
    screen_close(f->screen);
    settings_free(&f->settings);
    free(f);
}

static void say(Chat *chat, const char *question, const char *reply) {
    Error error = {0};
    if (chat_turn_say(chat, CHAT_USER, question, &error) ||
        chat_turn_say(chat, CHAT_ASSISTANT, reply, &error))
        fail_msg("%s", error.message);
}

// The messages are those of the way to the head: system, then each turn's.
static void expect_one_thing(Chat *chat) {
    const Tree *tree = chat_tree(chat);
    int path[16], message = *transcript_system(chat_transcript(chat)) ? 1 : 0;
    if (message)
        assert_string_equal(conversation_message(chat_conversation(chat), 0)->text,
                            transcript_system(chat_transcript(chat)));
    tree_path(tree, tree->head, path);
    for (int i = 0; i < tree_depth(tree); i++) {
        const TranscriptNode *node = transcript_node(chat_transcript(chat), path[i]);
        assert_string_equal(conversation_message(chat_conversation(chat), message++)->text, node->text);
        assert_string_equal(conversation_message(chat_conversation(chat), message++)->text, node->reply.text);
    }
    assert_int_equal(conversation_length(chat_conversation(chat)), message);
    WayTurn *turns;
    Error error = {0};
    assert_int_equal(way_turns(chat, tree->head, NULL, &turns, &error), STATUS_OK);
    free(turns);
}

// A reply of the second turn that cannot be copied.
static TranscriptNode *make_huge(Chat *chat, size_t *size) {
    int index = tree_find(chat_tree(chat), "2.1");
    TranscriptNode *node = (TranscriptNode *)transcript_node(chat_transcript(chat), index);
    *size = node->reply.size;
    node->reply.size = (size_t)1 << 60;
    return node;
}

static void nothing_is_half_done(void **state) {
    (void)state;
    static const char *const commands[] = {"/redo 2", "/goto 3.1", "/goto 2.1"};
    Fixture *f = fixture_open();
    Chat *chat = f->chat;
    Error error = {0};
    size_t size;
    say(chat, "one", "first");
    say(chat, "two", "second");
    say(chat, "three", "third");
    assert_int_equal(commands_run(chat, "/system Be brief.", &error), STATUS_OK);
    expect_one_thing(chat);
    assert_int_equal(commands_run(chat, "/undo 2", &error), STATUS_OK);
    expect_one_thing(chat);
    TranscriptNode *node = make_huge(chat, &size);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(commands_run(chat, commands[i], &error), STATUS_MEMORY);
        assert_int_equal(tree_depth(chat_tree(chat)), 1);
        expect_one_thing(chat);
    }
    node->reply.size = size;
    assert_int_equal(commands_run(chat, "/redo 2", &error), STATUS_OK);
    expect_one_thing(chat);
    make_huge(chat, &size);
    static const char *const others[] = {"/system Be long.", "/system \"\"", "/undo", "/forget",
                                         "/say user four"};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(commands_run(chat, others[i], &error), STATUS_MEMORY);
        assert_string_equal(transcript_system(chat_transcript(chat)), "Be brief.");
        node->reply.size = size;
        expect_one_thing(chat);
        make_huge(chat, &size);
    }
    node->reply.size = size;
    assert_int_equal(commands_run(chat, "/clear", &error), STATUS_OK);
    expect_one_thing(chat);
    fixture_close(f);
}

// What was forgotten and is gone to is seen again, as the tree says.
static void forgotten_turns(void **state) {
    (void)state;
    Fixture *f = fixture_open();
    Chat *chat = f->chat;
    Error error = {0};
    say(chat, "one", "first");
    say(chat, "two", "second");
    say(chat, "three", "third");
    assert_int_equal(commands_run(chat, "/forget 2", &error), STATUS_OK);
    for (int i = 0; i < 6; i++)
        assert_int_equal(conversation_message(chat_conversation(chat), i)->evicted, i < 4);
    assert_int_equal(commands_run(chat, "/goto 2.1", &error), STATUS_OK);
    for (int i = 0; i < 4; i++) assert_false(conversation_message(chat_conversation(chat), i)->evicted);
    assert_int_equal(commands_run(chat, "/redo", &error), STATUS_OK);
    for (int i = 0; i < 6; i++) assert_false(conversation_message(chat_conversation(chat), i)->evicted);
    fixture_close(f);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_half_done, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(forgotten_turns, program_set_up, program_tear_down),
    };
    return test_main("way", argc, argv, tests);
}
