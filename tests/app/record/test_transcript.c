// The conversation as it is kept: what is written is what is read; torn and hostile logs.
#include "tests/support/test.h"
#include "tests/support/talk/transcripts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Transcript *reread(const Transcript *from) {
    size_t size, again;
    const char *log = transcript_log(from, &size);
    Transcript *transcript;
    ok(transcript_parse("log", log, size, &transcript, error));
    const char *second = transcript_log(transcript, &again);
    assert_int_equal(size, again);
    assert_memory_equal(log, second, size);
    return transcript;
}

static void expect_name(const Transcript *transcript, int index, const char *name) {
    char text[TREE_NAME_ROOM];
    tree_name(transcript_tree(transcript), index, text);
    assert_string_equal(text, name);
}

static void refuse(const char *text, size_t size, Status status, const char *words) {
    Error error = {0};
    Transcript *transcript = (Transcript *)1;
    Status got = transcript_parse("file.jsonl", text, size, &transcript, &error);
    if (got != status) fail_msg("status %d, not %d: %s", got, status, error.message);
    assert_null(transcript);
    if (!strstr(error.message, words)) fail_msg("\"%s\" lacks \"%s\"", error.message, words);
}

// ---- the tree ---------------------------------------------------------------------------------------------

static void test_nodes_are_named_by_turn_and_attempt(void **state) {
    (void)state;
    Transcript *t = transcript_fresh();
    const Tree *tree = transcript_tree(t);
    assert_int_equal(tree_depth(tree), 0);
    transcript_say(t, TREE_START, "ask", "one", "1");
    transcript_say(t, 0, "ask", "two", "2");
    transcript_say(t, 0, "retry", "two", "zwei");
    transcript_say(t, TREE_START, "edit", "uno", "I");
    transcript_say(t, 3, "ask", "due", "II");
    expect_name(t, 0, "1.1");
    expect_name(t, 1, "2.1");
    expect_name(t, 2, "2.2");
    expect_name(t, 3, "1.2");
    expect_name(t, 4, "2.3");
    expect_name(t, TREE_START, "0");
    assert_int_equal(tree->head, 4);
    assert_int_equal(tree_depth(tree), 2);
    assert_int_equal(tree_at(tree, 1), 3);
    ok(transcript_set_head(t, 1, "goto", error));
    assert_int_equal(tree_at(tree, 1), 0);
    Transcript *again = reread(t);
    assert_int_equal(transcript_tree(again)->head, 1);
    assert_int_equal(transcript_tree(again)->n, 5);
    transcript_free(again);
    transcript_free(t);
}

static void test_everything_of_a_reply_is_read_back(void **state) {
    (void)state;
    Transcript *t = transcript_fresh();
    int32_t ids[] = {0, 17, INT32_MAX};
    TranscriptOverflow overflow = {
        .event = {.first_turn = 1, .last_turn = 1, .n_evicted = 612, .n_cached = 410, .seconds = 0.25},
        .partly = {{{2, 2}, 4}, {{3, 3}, TREE_REPLY}},
        .n_partly = 2};
    transcript_say(t, TREE_START, "ask", "left", "gone");
    TranscriptReply reply = {.text = "a\0b \"quoted\" \xf0\x9f\x91\x8d\n",
                             .size = 18,
                             .ids = ids,
                             .n_ids = 3,
                             .n_evicted = 1,
                             .interrupted = true,
                             .seed = 123456789,
                             .position = 99,
                             .report = {.cached = 5,
                                        .read = 6,
                                        .n_reply = 4,
                                        .used = 15,
                                        .context_size = 64,
                                        .first_token_seconds = 0.5,
                                        .decode_seconds = 1.25,
                                        .finish = FINISH_INTERRUPTED},
                             .overflow = &overflow,
                             .n_overflow = 1};
    TranscriptNode turn = {.role = CHAT_USER, .text = "line\nline", .size = 9, .reply = reply};
    ok(transcript_add_turn(t, 0, "ask", &turn, error));
    Transcript *again = reread(t);
    const TranscriptNode *node = transcript_node(again, 1);
    assert_int_equal(node->role, CHAT_USER);
    assert_int_equal(node->size, 9);
    assert_string_equal(node->text, "line\nline");
    assert_int_equal(node->reply.size, 18);
    assert_memory_equal(node->reply.text, reply.text, 18);
    assert_int_equal(node->reply.n_ids, 3);
    assert_memory_equal(node->reply.ids, ids, sizeof ids);
    assert_int_equal(node->reply.n_evicted, 1);
    assert_true(node->reply.interrupted);
    assert_int_equal(node->reply.seed, 123456789);
    assert_int_equal(node->reply.position, 99);
    assert_int_equal(node->reply.report.n_reply, 4);
    assert_int_equal(node->reply.report.used, 15);
    assert_int_equal(node->reply.report.finish, FINISH_INTERRUPTED);
    assert_true(node->reply.report.decode_seconds == 1.25);
    TreeEvicted left[2];
    tree_find_evicted(transcript_tree(again), 1, left);
    assert_true(left[0].whole && !left[1].whole);
    assert_int_equal(left[1].n_evicted, 4);
    assert_int_equal(transcript_tree(again)->nodes[1].evictions[2].n_evicted, TREE_REPLY);
    tree_find_evicted(transcript_tree(again), 0, left);
    assert_false(left[0].whole); // there it had not left yet
    transcript_free(again);
    transcript_free(t);
}

static void test_a_continued_reply_replaces_the_first(void **state) {
    (void)state;
    Transcript *t = transcript_fresh();
    transcript_say(t, TREE_START, "ask", "count", "1 2");
    ok(transcript_set_reply(t, 0, &(TranscriptReply){.text = "1 2 3", .size = 5}, error));
    Transcript *again = reread(t);
    assert_int_equal(transcript_tree(again)->n, 1);
    assert_string_equal(transcript_node(again, 0)->reply.text, "1 2 3");
    transcript_free(again);
    transcript_free(t);
}

static void test_header_system_and_settings(void **state) {
    (void)state;
    Transcript *t = transcript_fresh();
    size_t before, after;
    TranscriptSetting settings[] = {{"temperature", "0.5", true}, {"stop", "[\"a\"]", false}};
    ok(transcript_set_system(t, "be brief", error));
    ok(transcript_set_settings(t, settings, 2, error));
    transcript_log(t, &before);
    ok(transcript_set_system(t, "be brief", error)); // nothing new: no record
    ok(transcript_set_settings(t, settings, 2, error));
    transcript_log(t, &after);
    assert_int_equal(before, after);
    Transcript *again = reread(t);
    TranscriptHeader header = transcript_header(again);
    assert_string_equal(header.model.name, "a model");
    assert_string_equal(header.model.path, "/models/a.gguf");
    assert_string_equal(header.model.fingerprint, "llama-1-2-abc");
    assert_string_equal(header.model.chat_template, "chatml");
    assert_int_equal(header.seed, 42);
    assert_int_equal(header.stream, 3);
    assert_string_equal(transcript_system(again), "be brief");
    assert_int_equal(transcript_n_settings(again), 2);
    assert_string_equal(transcript_setting(again, 0).key, "temperature");
    assert_true(transcript_setting(again, 0).session);
    assert_false(transcript_setting(again, 1).session);
    transcript_free(again);
    transcript_free(t);
}

static void test_another_model_voids_the_ids(void **state) {
    (void)state;
    Transcript *t = transcript_fresh();
    int32_t ids[] = {1, 2};
    TranscriptNode turn = {.role = CHAT_USER,
                           .text = "q",
                           .size = 1,
                           .reply = {.text = "x", .size = 1, .ids = ids, .n_ids = 2, .n_evicted = 1}};
    ok(transcript_add_turn(t, TREE_START, "ask", &turn, error));
    TranscriptModel other = TRANSCRIPT_HEADER.model;
    other.path = "/elsewhere/a.gguf";
    ok(transcript_set_model(t, &other, error));
    assert_int_equal(transcript_node(t, 0)->reply.n_ids, 2); // the same model in another place
    other.fingerprint = "another";
    ok(transcript_set_model(t, &other, error));
    assert_null(transcript_node(t, 0)->reply.ids);
    assert_int_equal(transcript_node(t, 0)->reply.n_evicted, 0);
    transcript_free(reread(t));
    transcript_free(t);
}

static void test_text_that_is_no_utf8_is_refused_whole(void **state) {
    (void)state;
    Transcript *t = transcript_fresh();
    Error error;
    size_t before, after;
    transcript_log(t, &before);
    TranscriptNode turn = {.role = CHAT_USER, .text = "q", .size = 1, .reply = {.text = "\xff", .size = 1}};
    assert_int_equal(transcript_add_turn(t, TREE_START, "ask", &turn, &error), STATUS_MEMORY);
    turn = (TranscriptNode){.role = CHAT_USER, .text = "\xff", .size = 1};
    assert_int_equal(transcript_add_turn(t, TREE_START, "say", &turn, &error), STATUS_MEMORY);
    transcript_log(t, &after);
    assert_int_equal(before, after);
    assert_int_equal(transcript_tree(t)->n, 0);
    transcript_free(t);
}

// ---- damaged logs -----------------------------------------------------------------------------------------

// A log with every kind of record.
static Transcript *rich(void) {
    Transcript *t = transcript_fresh();
    TranscriptSetting setting = {"temperature", "0.5", true};
    TranscriptNode said = {.role = CHAT_SYSTEM, .text = "be odd", .size = 6};
    TranscriptOverflow overflow = {
        .event = {.first_turn = 1, .last_turn = 1}, .partly = {{{2, 2}, 3}}, .n_partly = 1};
    TranscriptModel other = TRANSCRIPT_HEADER.model;
    transcript_say(t, TREE_START, "ask", "first question", "first reply");
    ok(transcript_set_settings(t, &setting, 1, error));
    transcript_say(t, 0, "ask", "second question", "second reply");
    ok(transcript_set_system(t, "be brief", error));
    ok(transcript_set_head(t, 0, "undo", error));
    transcript_say(t, 0, "ask", "another second question", "another second reply");
    ok(transcript_forget(t, (TreeRange){1, 1}, 12, error));
    ok(transcript_add_turn(t, 2, "say", &said, error));
    ok(transcript_set_reply(
        t, 2, &(TranscriptReply){.text = "longer", .size = 6, .overflow = &overflow, .n_overflow = 1},
        error));
    ok(transcript_set_seed(t, 9, 3, error));
    other.path = "/elsewhere";
    ok(transcript_set_model(t, &other, error));
    ok(transcript_set_head(t, 1, "goto", error));
    return t;
}

static void expect_same_tree(const Transcript *a, const Transcript *b) {
    const Tree *x = transcript_tree(a), *y = transcript_tree(b);
    TreeEvicted left_x[8], left_y[8];
    assert_int_equal(x->n, y->n);
    assert_int_equal(x->head, y->head);
    assert_int_equal(x->first, y->first);
    for (int i = 0; i < x->n; i++) {
        const TranscriptNode *p = transcript_node(a, i), *q = transcript_node(b, i);
        assert_int_equal(x->nodes[i].parent, y->nodes[i].parent);
        assert_int_equal(x->nodes[i].next, y->nodes[i].next);
        assert_int_equal(x->nodes[i].forgotten, y->nodes[i].forgotten);
        assert_string_equal(p->text, q->text);
        assert_int_equal(!p->reply.text, !q->reply.text);
        if (p->reply.text) assert_string_equal(p->reply.text, q->reply.text);
        tree_find_evicted(x, i, left_x);
        tree_find_evicted(y, i, left_y);
        for (int turn = 0; turn < tree_turn(x, i); turn++)
            assert_int_equal(left_x[turn].n_evicted, left_y[turn].n_evicted);
    }
    assert_string_equal(transcript_system(a), transcript_system(b));
    assert_int_equal(transcript_position(a), transcript_position(b));
}

// However the file is cut, what was whole before the cut is there, and nothing else.
static void test_every_truncation_keeps_the_whole_records(void **state) {
    (void)state;
    Transcript *t = rich(), *line_by_line, *cut;
    size_t size;
    const char *log = transcript_log(t, &size);
    size_t header = (size_t)((const char *)memchr(log, '\n', size) - log), whole = header + 1;
    ok(transcript_blank(&line_by_line, error));
    ok(transcript_take_line(line_by_line, log, header, error)); // it may lack its end, the others not
    for (size_t n = 0; n <= size; n++) {
        char *copy = malloc(n ? n : 1); // of exactly this size, for the sanitizer
        memcpy(copy, log, n);
        Error error;
        Status status = transcript_parse("cut", copy, n, &cut, &error);
        if (n < header) {
            assert_int_equal(status, STATUS_FILE);
            assert_null(cut);
        } else {
            size_t taken;
            assert_int_equal(status, STATUS_OK);
            if (n > whole && n < size && log[n] == '\n') { // it is whole without its line break, too
                ok(transcript_take_line(line_by_line, log + whole, n - whole, error));
                whole = n + 1;
            }
            const char *kept = transcript_log(cut, &taken);
            assert_int_equal(taken, whole);
            assert_memory_equal(kept, log, taken);
            expect_same_tree(cut, line_by_line);
        }
        transcript_free(cut);
        free(copy);
    }
    expect_same_tree(t, line_by_line);
    assert_int_equal(transcript_tree(t)->n, 4);
    transcript_free(line_by_line);
    transcript_free(t);
}

static void test_garbage_at_the_end_is_a_torn_line(void **state) {
    (void)state;
    Transcript *t = transcript_fresh();
    transcript_say(t, TREE_START, "ask", "q", "r");
    size_t size;
    const char *log = transcript_log(t, &size);
    char text[4096];
    memcpy(text, log, size);
    static const char zeros[20] = {0};
    memcpy(text + size, zeros, 19); // what some file systems leave after a crash
    text[size + 19] = '\n';
    Transcript *again;
    ok(transcript_parse("x", text, size + 20, &again, error));
    assert_int_equal(transcript_tree(again)->n, 1);
    transcript_free(again);
    transcript_free(t);
}

#define HEADER_LINE "{\"record\":\"palaver\",\"format\":1,\"model\":{}}\n"

static void refuse_line(const char *line, Status status, const char *words) {
    char text[1000];
    int n = snprintf(text, sizeof text, HEADER_LINE "%s\n", line);
    refuse(text, (size_t)n, status, words);
}

static void test_hostile_records_are_named_and_refused(void **state) {
    (void)state;
    refuse("", 0, STATUS_FILE, "empty");
    refuse("hello\n", 6, STATUS_FILE, "file.jsonl:1");
    refuse("{\"record\":\"turn\"}\n", 18, STATUS_FILE, "header is missing");
    refuse("{\"record\":\"palaver\",\"format\":99,\"model\":{}}\n", 44, STATUS_UNSUPPORTED, "format 99");
    refuse("{\"record\":\"palaver\",\"format\":1}\n", 32, STATUS_FILE, "\"model\"");
    refuse_line(HEADER_LINE, STATUS_FILE, "second header");
    refuse_line("{\"record\":7}", STATUS_FILE, "file.jsonl:2: \"record\"");
    refuse_line("{}", STATUS_FILE, "\"record\"");
    refuse_line("{\"record\":\"turn\",\"parent\":\"9.9\"}", STATUS_FILE, "no node 9.9");
    refuse_line("{\"record\":\"turn\",\"parent\":0}", STATUS_FILE, "\"parent\"");
    refuse_line("{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.2\"}", STATUS_FILE, "expected \"1.1\"");
    refuse_line("{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.1\",\"user\":1}", STATUS_FILE,
                "\"user\"");
    refuse_line("{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.1\"}", STATUS_FILE, "\"user\"");
    refuse_line("{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.1\",\"user\":\"\",\"reply\":7}",
                STATUS_FILE, "\"reply\"");
    refuse_line("{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.1\",\"system\":7}", STATUS_FILE,
                "\"system\"");
    // Random numbers could not go on from there.
    refuse_line("{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.1\",\"user\":\"\",\"reply\":\"\","
                "\"next\":9223372036854775807}",
                STATUS_FILE, "file.jsonl:2: \"next\": expected a number below 2^62");
    refuse_line("{\"record\":\"seed\",\"seed\":1,\"position\":4611686018427387904}", STATUS_FILE,
                "\"position\"");
    refuse("{\"record\":\"palaver\",\"format\":1,\"model\":{},\"stream\":9223372036854775807}\n", 80,
           STATUS_FILE, "\"stream\": expected a number below 2^62");
    refuse_line("{\"record\":\"forget\",\"node\":\"1.1\",\"first\":1}", STATUS_FILE, "no node 1.1");
    refuse_line("{\"record\":\"forget\",\"node\":\"0\",\"first\":-1}", STATUS_FILE, "\"first\"");
    refuse_line(
        "{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.1\",\"user\":\"\",\"reply\":\"\",\"ids\":[1,-1]}",
        STATUS_FILE, "\"ids\"");
    refuse_line("{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.1\",\"user\":\"\",\"reply\":\"\",\"ids\":"
                "[4294967296]}",
                STATUS_FILE, "\"ids\"");
    refuse_line("{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.1\",\"user\":\"\",\"reply\":\"\",\"ids\":"
                "[1],\"gone\":2}",
                STATUS_FILE, "\"gone\"");
    refuse_line("{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.1\",\"user\":\"\",\"reply\":\"\","
                "\"overflow\":[{\"first\":-1}]}",
                STATUS_FILE, "\"first\"");
    refuse_line("{\"record\":\"turn\",\"parent\":\"0\",\"node\":\"1.1\",\"user\":\"\",\"reply\":\"\","
                "\"position\":-9}",
                STATUS_FILE, "\"position\"");
    refuse_line("{\"record\":\"reply\",\"node\":\"0\",\"reply\":\"\"}", STATUS_FILE, "\"node\"");
    refuse_line("{\"record\":\"head\",\"node\":\"1.1\"}", STATUS_FILE, "no node 1.1");
    refuse_line("{\"record\":\"settings\",\"values\":[]}", STATUS_FILE, "\"values\"");
    refuse_line("{\"record\":\"settings\",\"values\":{\"seed\":1}}", STATUS_FILE, "\"values\"");
    refuse_line("{\"record\":\"system\"}", STATUS_FILE, "\"text\"");
    refuse_line("not json\n{\"record\":\"head\",\"node\":\"0\"}", STATUS_FILE,
                "file.jsonl:2: not a JSON object");
}

static void test_records_of_later_versions_are_skipped(void **state) {
    (void)state;
    const char *text = HEADER_LINE
        "{\"record\":\"fork\",\"name\":\"x\"}\n{\"record\":\"system\",\"text\":\"s\",\"more\":1}\n";
    Transcript *t;
    ok(transcript_parse("x", text, strlen(text), &t, error));
    assert_string_equal(transcript_system(t), "s");
    transcript_free(t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_are_named_by_turn_and_attempt),
        cmocka_unit_test(test_everything_of_a_reply_is_read_back),
        cmocka_unit_test(test_a_continued_reply_replaces_the_first),
        cmocka_unit_test(test_header_system_and_settings),
        cmocka_unit_test(test_another_model_voids_the_ids),
        cmocka_unit_test(test_text_that_is_no_utf8_is_refused_whole),
        cmocka_unit_test(test_every_truncation_keeps_the_whole_records),
        cmocka_unit_test(test_garbage_at_the_end_is_a_torn_line),
        cmocka_unit_test(test_hostile_records_are_named_and_refused),
        cmocka_unit_test(test_records_of_later_versions_are_skipped),
    };
    return test_main("transcript", argc, argv, tests);
}
