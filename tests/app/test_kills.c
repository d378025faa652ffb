// kill -9 at any moment: what was finished and said to be finished is in the journal, and the talk goes on from there.
#include "app/record/transcript/transcript.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TALK BABBLER "|--seed=1|--max-tokens=4|--threads=1|--context=512"

enum { KILLS = 50, TURNS = 20, ROOM = 600 };

static uint32_t random_number(uint32_t *state) { // xorshift
    *state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
    return *state;
}

// Runs the script and kills it some microseconds after it has told of `n_turns` turns. Returns all that it said on
// stderr.
static char *run_and_kill(const char *script, int n_turns, unsigned delay) {
    int said[2];
    assert_int_equal(pipe(said), 0);
    char **argv = program_words(TALK "|--stats");
    pid_t pid = fork();
    if (pid == 0) {
        int in = open(script, O_RDONLY), out = open("/dev/null", O_WRONLY);
        dup2(in, 0), dup2(out, 1), dup2(said[1], 2);
        close(said[0]), close(said[1]);
        execv(argv[0], argv);
        _exit(127);
    }
    free(argv);
    close(said[1]);
    Bytes err = {0};
    char block[512];
    bool killed = false;
    for (;;) {
        bytes_add(&err, "", 1);
        err.size--;
        if (!killed && program_count((char *)err.data, "[turn ") >= n_turns) {
            usleep(delay);
            kill(pid, SIGKILL);
            killed = true;
        }
        ssize_t n = read(said[0], block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        bytes_add(&err, block, (size_t)n);
    }
    close(said[0]);
    waitpid(pid, NULL, 0);
    return (char *)err.data;
}

// The turns of a saved conversation that ends whole, or is torn in its last line; -1: there is none.
static int turns_of(const char *path) {
    if (access(path, F_OK)) return -1;
    Bytes bytes = bytes_of_file(path);
    Transcript *transcript;
    Error error;
    bytes_add(&bytes, "", 1);
    if (bytes.size == 1) { // made, and nothing in it yet
        bytes_free(&bytes);
        return 0;
    }
    if (transcript_parse(path, (char *)bytes.data, bytes.size - 1, &transcript, &error))
        fail_msg("%s\n%s", error.message, (char *)bytes.data);
    int n = transcript_tree(transcript)->n;
    transcript_free(transcript);
    bytes_free(&bytes);
    return n;
}

static int turns_of_journal(const char *home) {
    char folder[ROOM], path[2 * ROOM];
    int n = -1;
    snprintf(folder, sizeof folder, "%s/palaver/conversations", home);
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (n >= 0) fail_msg("a second journal: %s", path);
        n = turns_of(path);
    }
    if (directory) closedir(directory);
    return n;
}

static void write_script(const char *home, char *script) {
    char saved[ROOM];
    snprintf(script, ROOM, "%s/script", home);
    snprintf(saved, ROOM, "%s/saved.jsonl", home);
    FILE *file = fopen(script, "w");
    assert_non_null(file);
    for (int i = 0; i < TURNS; i++)
        fprintf(file, "Question %d.\n%s%s\n", i, i % 3 == 2 ? "/save " : "/set seed 5",
                i % 3 == 2 ? saved : "");
    fclose(file);
}

static void test_kills(void **state) {
    uint32_t random = 20261122;
    char command[ROOM], script[ROOM], saved[ROOM];
    for (int i = 0; i < KILLS; i++) {
        Run run;
        int after = (int)(random_number(&random) % TURNS);
        unsigned delay = random_number(&random) % 4000;
        write_script(*state, script);
        char *err = run_and_kill(script, after, delay);
        int told = program_count(err, "[turn "), kept = turns_of_journal(*state);
        if (told > 0 && kept < told)
            fail_msg("kill %d: %d turns were finished, %d are kept\n%s", i, told, kept, err);
        snprintf(saved, sizeof saved, "%s/saved.jsonl", (char *)*state);
        int n_saved = program_count(err, " saved to ");
        if (n_saved > 0) assert_in_range(turns_of(saved), 3 * n_saved, told + 1);
        free(err);
        if (kept > 0) {
            program_run(&run, TALK "|--resume|--stats", "And now?\n");
            expect_status(&run, 0);
            snprintf(command, sizeof command, "[turn %d: ", kept + 1);
            expect_err(&run, command);
            program_free(&run);
        }
        snprintf(command, sizeof command, "rm -rf %s/palaver %s/saved.jsonl*", (char *)*state,
                 (char *)*state);
        program_shell(&run, command);
        program_free(&run);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kills, program_set_up, program_tear_down)};
    return test_main("kills", argc, argv, tests);
}
