// A first talk where nothing was fetched: palaver, started without a model, finds the one that comes with it, says so,
// and talks; what it says is what the most likely tokens say in transformers.
#include "tests/support/model/parley.h"
#include "tests/support/program.h"
#include "tests/support/terminal/pty.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TALKS = 16 };

static void test_without_a_model(void **state) {
    (void)state;
    const char *program = getenv("PALAVER") ? getenv("PALAVER") : "build/san/palaver";
    const char *const argv[] = {program, "--temperature=0", "--stats", NULL};
    const char *const env[] = {"NO_COLOR=1", NULL};
    Pty *pty = pty_start(&(const PtyOptions){.argv = argv, .env = env, .rows = 40, .cols = 120});
    pty_expect(
        pty, "this is parley-9m, the small model that comes with palaver; `make model` fetches a better one");
    pty_expect(pty, "parley-9m: llama, ");
    pty_expect(pty, "context 1024 tokens");
    pty_expect(pty, "template chatml");
    pty_expect(pty, "> ");
    pty_send(pty, "My name is Nora.\r");
    pty_expect(pty, " read, ");
    pty_expect(pty, "| eos]"); // it ends by itself
    pty_expect(pty, "> ");
    pty_send(pty, "What is my name?\r");
    pty_expect(pty, "Your name is Nora."); // it was listening
    pty_expect(pty, "[turn 2: ");
    pty_expect(pty, "| eos]");
    pty_expect(pty, "> ");
    pty_send(pty, "\004");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

// The talks of greedy.jsonl, and what they are asked for: their users' turns.
static int read_talks(json_t *talks[TALKS], char *lines, size_t room) {
    FILE *in = fopen(GOLDEN_PARLEY "/greedy.jsonl", "r");
    if (!in) fail_msg("no " GOLDEN_PARLEY "/greedy.jsonl");
    int n = 0;
    size_t size = 0;
    while (n < TALKS && (talks[n] = json_loadf(in, JSON_DISABLE_EOF_CHECK, NULL))) {
        json_t *turns = json_array(), *message;
        size_t i;
        json_array_foreach(json_object_get(talks[n], "messages"), i, message) {
            if (i % 2 == 0) json_array_append(turns, json_object_get(message, "content"));
        }
        json_t *asked = json_pack("{s:i, s:o}", "id", n, "turns", turns);
        char *line = json_dumps(asked, JSON_COMPACT);
        size += (size_t)snprintf(lines + size, room - size, "%s\n", line);
        assert_true(size < room);
        free(line);
        json_decref(asked);
        n++;
    }
    fclose(in);
    return n;
}

static void test_greedy_talks(void **state) {
    (void)state;
    json_t *talks[TALKS];
    char lines[8000], *rest;
    int n = read_talks(talks, lines, sizeof lines), answered = 0;
    assert_in_range(n, 6, TALKS - 1);
    Run run = program_script(PARLEY "|--jsonl|--ordered|--parallel=3|--temperature=0|--type=f32|--threads=2",
                             lines);
    for (char *line = strtok_r(run.out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), answered++) {
        json_t *answer = json_loads(line, 0, NULL);
        assert_in_range(answered, 0, n - 1);
        if (!json_equal(json_object_get(answer, "messages"), json_object_get(talks[answered], "messages"))) {
            char *expected = json_dumps(talks[answered], 0);
            fail_msg("%s\nexpected\n%s", line, expected);
        }
        assert_string_equal(json_string_value(json_object_get(answer, "finish")), "stop");
        json_decref(answer);
    }
    assert_int_equal(answered, n);
    for (int i = 0; i < n; i++) json_decref(talks[i]);
    program_free(&run);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_a_model, program_set_up, program_tear_down),
        cmocka_unit_test_setup_teardown(test_greedy_talks, program_set_up, program_tear_down),
    };
    return test_main("first_talk", argc, argv, tests);
}
