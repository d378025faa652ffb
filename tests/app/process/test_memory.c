// No line of a journal and no answer is ever not JSON, whichever allocation fails: it is written as always, or the
// program ends and says so.
#include "tests/support/test.h"
#include "tests/support/talk/transcripts.h"

#include "app/modes/jsonl/jsonl_line.h"
#include "app/modes/modes.h"
#include "app/process/json_memory.h"
#include "app/record/export.h"
#include "tests/support/talk/settings.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 1 << 16 };

// How many allocations go well before one fails, and whether all that follow fail as well; -1: none fails.
static long left = -1;
static bool for_good;
static long n_allocated;

static void *fail_at_times(size_t size) {
    n_allocated++;
    if (left == 0) {
        if (!for_good) left = -1;
        return NULL;
    }
    if (left > 0) left--;
    return malloc(size);
}

// A conversation, and what is written of it. To free().
static char *write_all(void) {
    static const char LINE[] =
        "{\"id\": \"a\", \"messages\": [{\"role\": \"user\", \"content\": \"Where?\"}], "
        "\"sampling\": {\"stop\": \"x\", \"temperature\": 0.5}}";
    Transcript *transcript = transcript_fresh(), *again;
    TranscriptSetting setting = {"temperature", "0.5", true};
    TranscriptOverflow overflow = {.event = {.first_turn = 1, .last_turn = 1, .n_evicted = 7},
                                   .partly = {{{2, 2}, 3}, {{1, 1}, TREE_REPLY}},
                                   .n_partly = 2};
    TranscriptNode turn = {.role = CHAT_USER, .text = "Ask", .size = 3};
    turn.reply = (TranscriptReply){.text = "Answer",
                                   .size = 6,
                                   .ids = (int32_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9},
                                   .n_ids = 9,
                                   .overflow = &overflow,
                                   .n_overflow = 1};
    size_t size;
    char *text = calloc(1, ROOM), *exported;
    ok(transcript_set_system(transcript, "Be brief.", error));
    ok(transcript_set_settings(transcript, &setting, 1, error));
    transcript_say(transcript, TREE_START, "ask", "A question", "A reply");
    ok(transcript_add_turn(transcript, 0, "ask", &turn, error));
    const char *log = transcript_log(transcript, &size);
    ok(transcript_parse("log", log, size, &again, error));
    snprintf(text, ROOM, "%.*s", (int)size, log);
    ok(export_branch(again, (ExportNames){"branch", "model"}, EXPORT_JSON, &exported, &size, error));
    snprintf(text + strlen(text), ROOM - strlen(text), "%s", exported);
    free(exported);
    Settings settings = settings_fresh();
    JsonlLine *line = jsonl_line_read(LINE, strlen(LINE), &settings, NULL);
    char *answer = jsonl_line_answer(line);
    snprintf(text + strlen(text), ROOM - strlen(text), "%s", answer ? answer : "none");
    free(answer);
    jsonl_line_free(line);
    settings_free(&settings);
    transcript_free(transcript);
    transcript_free(again);
    return text;
}

// Writes it in a process of its own, where JSON's allocation number `n` fails.
typedef struct Outcome {
    int status; // exit status, or -1: a signal
    char out[ROOM], err[ROOM];
} Outcome;

static void gather(int file, char *text) {
    size_t size = 0;
    for (ssize_t n; (n = read(file, text + size, ROOM - 1 - size)) > 0;) size += (size_t)n;
    text[size] = 0;
    close(file);
}

static Outcome *write_apart(long n, bool persistent) {
    static Outcome outcome;
    int out[2], err[2], status;
    assert_int_equal(pipe(out) | pipe(err), 0);
    pid_t pid = fork();
    if (!pid) {
        dup2(err[1], STDERR_FILENO);
        json_memory_guard(fail_at_times);
        left = n;
        for_good = persistent;
        char *text = write_all();
        ssize_t wrote = write(out[1], text, strlen(text));
        _exit(wrote == (ssize_t)strlen(text) ? 0 : 9);
    }
    close(out[1]), close(err[1]);
    gather(out[0], outcome.out);
    gather(err[0], outcome.err);
    waitpid(pid, &status, 0);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return &outcome;
}

static long count(void) {
    json_memory_guard(fail_at_times);
    n_allocated = 0;
    free(write_all());
    return n_allocated;
}

// The answer tells the time that it took, and the log the time of day: both are cut off.
static void without_times(char *text) {
    for (char *at = text; (at = strstr(at, "\"created\":\""));) memset(at, '*', 32), at += 32;
}

static void a_short_want_of_memory_changes_nothing(void **state) {
    (void)state;
    const long n = count();
    char *whole = write_all();
    without_times(whole);
    assert_in_range(n, 100, 10000);
    for (long i = 0; i < n; i += 5) {
        Outcome *o = write_apart(i, false);
        without_times(o->out);
        assert_int_equal(o->status, 0);
        assert_string_equal(o->out, whole);
        assert_string_equal(o->err, "");
    }
    free(whole);
}

static void a_lasting_one_ends_with_a_word(void **state) {
    (void)state;
    const long n = count();
    for (long i = 0; i < n; i += 3) {
        Outcome *o = write_apart(i, true);
        if (strncmp(o->err, "palaver: out of memory", 22) != 0) fail_msg("allocation %ld: %s", i, o->err);
        assert_int_equal(o->status, EXIT_RUNTIME);
        assert_string_equal(o->out, "");
        assert_ptr_equal(strchr(o->err, '\n'), o->err + strlen(o->err) - 1); // one line, and no more
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_want_of_memory_changes_nothing),
        cmocka_unit_test(a_lasting_one_ends_with_a_word),
    };
    return test_main("memory", argc, argv, tests);
}
