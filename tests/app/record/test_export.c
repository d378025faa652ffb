// What /export writes is read again: by /load, and by --jsonl.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1"

// The messages of an export on one line.
static char *messages_of(const char *home, const char *name) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", home, name);
    Bytes bytes = bytes_of_file(path);
    bytes_add(&bytes, "", 1);
    char *messages = strstr((char *)bytes.data, "\"messages\":");
    assert_non_null(messages);
    messages = strdup(messages);
    bytes_free(&bytes);
    return messages;
}

// A talk of every kind of turn: a reply, one without a question, one without a reply, a system message between them.
static const char TURNS[] = "/system Be brief.\nHello there.\n/say assistant More \"words\"\\\nof mine.\n"
                            "/say system From here on, be long.\nAnd of Italy?\n/say user A last question\n";

static void test_load_reads_exports(void **state) {
    static const char *const forms[] = {"json", "jsonl"};
    char script[2000];
    Run before, after;
    for (int i = 0; i < 2; i++) {
        char *home = *state, before_name[20], after_name[20];
        sprintf(before_name, "before%d", i), sprintf(after_name, "after%d", i);
        snprintf(script, sizeof script, "%s/export jsonl %s/%s\n/export %s %s/talk.%s\n", TURNS, home,
                 before_name, forms[i], home, forms[i]);
        program_run(&before, TALK, script);
        expect_status(&before, 0);
        snprintf(script, sizeof script, "/load %s/talk.%s\n/export jsonl %s/%s\n/tree\n", home, forms[i],
                 home, after_name);
        program_run(&after, TALK, script);
        expect_status(&after, 0);
        expect_err(&after, "[5 turns loaded from ");
        char *wanted = messages_of(home, before_name), *found = messages_of(home, after_name);
        assert_string_equal(found, wanted);
        free(wanted);
        free(found);
        program_free(&before);
        program_free(&after);
        // It goes on, is kept, and comes back.
        snprintf(script, sizeof script, "/load %s/talk.%s\n/continue\nWell?\n/save %s/saved%d\n",
                 (char *)*state, forms[i], (char *)*state, i);
        program_run(&after, TALK "|--stats", script);
        expect_status(&after, 0);
        expect_err(&after, "[turn 6: ");
        program_free(&after);
    }
}

static void test_jsonl_reads_exports(void **state) {
    static const char *const forms[] = {"json", "jsonl"};
    char script[2000];
    Run run;
    for (int i = 0; i < 4; i++) { // with and without something to answer
        const char *form = forms[i % 2];
        snprintf(script, sizeof script, "%s%s/export %s %s/%d.%s\n", TURNS, i < 2 ? "" : "/continue\n", form,
                 (char *)*state, i, form);
        program_run(&run, TALK, script);
        expect_status(&run, 0);
        program_free(&run);
        snprintf(script, sizeof script, "$PALAVER " BABBLER " --seed 1 --max-tokens 6 --jsonl < %s/%d.%s",
                 (char *)*state, i, form);
        program_shell(&run, script);
        expect_status(&run, 0);
        expect_err(&run, "[1 answered; ");
        expect_out(&run, i < 2 ? "\"finish\": \"length\"" : "\"finish\": \"complete\"");
        expect_out(&run, "\"content\": \"More \\\"words\\\"\\nof mine.\"");
        expect_no_err(&run, "model");
        program_free(&run);
    }
}

static void test_what_cannot_be_loaded(void **state) {
    static const struct {
        const char *text, *why;
    } WRONG[] = {
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n{\"messages\": []}\n",
         "one a file can be loaded"},
        {"{\"messages\": [{\"role\": \"robot\", \"content\": \"a\"}]}\n", "messages[0]: the role is"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": []}\n",
         "unknown key \"tools\""},
        {"# a talk\n\n## user 1.1\n\nHello\n", "what /export does as json or jsonl"},
        {"{\"messages\": [", "not a JSON object: it ends before all is closed that was begun"},
    };
    char script[400];
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        folder_write_text(*state, "wrong", WRONG[i].text);
        snprintf(script, sizeof script, "/load %s/wrong\n", (char *)*state);
        program_refuses(TALK, script, WRONG[i].why);
    }
    // Of another model's, the texts count, and it is told.
    folder_write_text(
        *state, "other",
        "{\"model\": \"gpt\", \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
        "\"text\": \"a\"}]}, {\"role\": \"assistant\", \"content\": \"b\"}]}");
    snprintf(script, sizeof script, "/load %s/other\n/view\n", (char *)*state);
    Run run = program_script(TALK, script);
    expect_err(&run, "[this conversation was with gpt; its replies are read as text]");
    expect_err(&run, "[assistant] b");
    program_free(&run);
}

// A model is called what the banner calls it, whatever its file says of itself; an export is not of another one's.
static void test_a_model_has_one_name(void **state) {
    char script[1000];
    folder_write_text(*state, "saved",
                      "{\"record\":\"palaver\",\"format\":2,\"model\":{\"name\":\"Fine 1B 8k Mix1 Ep2\","
                      "\"path\":\"/m/Fine-1B.Q4_0.gguf\",\"fingerprint\":\"x\",\"template\":\"chatml\"},"
                      "\"seed\":1,\"stream\":1}\n"
                      "{\"record\":\"turn\",\"node\":\"1.1\",\"parent\":\"0\",\"why\":\"ask\",\"user\":\"a\","
                      "\"reply\":\"b\",\"finish\":\"end\",\"seed\":1,\"position\":0,\"next\":0}\n");
    snprintf(script, sizeof script, "/load %s/saved\n/view\n", (char *)*state);
    Run run = program_script(TALK, script);
    expect_err(&run, "[this conversation was with Fine-1B (template chatml); ");
    expect_err(&run, "[assistant] b");
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_load_reads_exports),
        WITH_HOME(test_jsonl_reads_exports),
        WITH_HOME(test_what_cannot_be_loaded),
        WITH_HOME(test_a_model_has_one_name),
    };
    return test_main("export", argc, argv, tests);
}
