// palaver pull against a hub on loopback (tests/support/stores/hub.py): what comes is whole, lies where other programs look
// for it, goes on after kill -9, and whatever a server does wrong is one line.
#include "tests/support/files.h"
#include "tests/support/stores/hub.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- what is fetched ----------------------------------------------------------------------------------------------

static void test_folder(void **state) {
    const Hub *hub = *state;
    char link[200];
    Run run;
    hub_pulls("acme/babbler", 0, "snapshots/" COMMIT " is here: palaver acme/babbler");
    hub_has(hub, "hub/models--acme--babbler/snapshots/" COMMIT "/tokenizer.json", true);
    hub_has(hub, "hub/models--acme--babbler/snapshots/" COMMIT "/README.md", false);
    hub_has(hub, "hub/models--acme--babbler/snapshots/" COMMIT "/onnx", false);
    hub_has(hub, "escaped.gguf", false);
    Bytes ref = bytes_of_file(hub_path(hub, "hub/models--acme--babbler/refs/main"));
    assert_int_equal(ref.size, 40);
    assert_memory_equal(ref.data, COMMIT, 40);
    bytes_free(&ref);
    ssize_t n = readlink(hub_path(hub, "hub/models--acme--babbler/snapshots/" COMMIT "/model.safetensors"),
                         link, 199);
    assert_true(n > 0);
    link[n] = 0;
    assert_int_equal(n, strlen("../../blobs/") + 64);
    assert_memory_equal(link, "../../blobs/", 12);
    // It is a model now, by its name; a second time nothing is fetched.
    program_run(&run, "acme/babbler|--seed=1|--max-tokens=6|--threads=1|-p|Hello there.|--no-save", "");
    expect_status(&run, 0);
    Run other;
    program_run(&other, BABBLER "|--seed=1|--max-tokens=6|--threads=1|-p|Hello there.|--no-save", "");
    assert_string_equal(run.out, other.out);
    program_free(&run);
    program_free(&other);
    int before = hub_asked(hub, "files ");
    hub_pulls("acme/babbler@v1", 0, "is here");
    assert_int_equal(hub_asked(hub, "files "), before);
    hub_has(hub, "hub/models--acme--babbler/refs/v1", true);
}

static void test_choice(void **state) {
    const Hub *hub = *state;
    Run run;
    hub_pulls("acme/quants", 0, "[Q8_0, 157 kB: of 5 files the one that suits memory");
    hub_has(hub, "hub/models--acme--quants/snapshots/" COMMIT "/q-Q8_0.gguf", true);
    hub_has(hub, "hub/models--acme--quants/snapshots/" COMMIT "/q-F16.gguf", false);
    hub_pulls("acme/quants:q4_k_m", 0, "q-Q4_K_M.gguf is here");
    hub_pulls("acme/quants:Q6_K", 0, "/Q6_K/q-Q6_K-00001-of-00002.gguf is here");
    hub_has(hub, "hub/models--acme--quants/snapshots/" COMMIT "/Q6_K/q-Q6_K-00002-of-00002.gguf", true);
    hub_pulls("acme/quants:q-F16.gguf", 0, "q-F16.gguf is here");
    hub_pulls("acme/quants:Q3_K_S", 2, "there is no Q3_K_S here, but Q4_K_M, Q8_0, IQ2_XS, F16, Q6_K");
    hub_pulls("acme/nothing", 1, "nothing that palaver reads");
    hub_pulls("acme/unreadable", 1, "has a type that palaver reads");
    program_run(&run, "list|--names|quants", "");
    expect_out(&run, "acme/quants:F16\nacme/quants:Q4_K_M\nacme/quants:Q6_K\nacme/quants:Q8_0\n");
    program_free(&run);
}

// The file is what the hub has.
static void expect_large(const Hub *hub, const char *repository) {
    char command[600];
    Run run;
    snprintf(command, sizeof command,
             "sha256sum < %s/hub/models--acme--%s/snapshots/" COMMIT "/large-Q8_0.gguf | cut -c1-64; "
             "basename $(readlink %s/hub/models--acme--%s/snapshots/" COMMIT "/large-Q8_0.gguf); "
             "ls %s/hub/models--acme--%s/blobs | wc -l",
             hub->home, repository, hub->home, repository, hub->home, repository);
    program_shell(&run, command);
    assert_memory_equal(run.out, run.out + 65, 64);
    assert_string_equal(run.out + 130, "1\n"); // and nothing is left beside it
    program_free(&run);
}

static void test_parts(void **state) {
    const Hub *hub = *state;
    hub_pulls("acme/large", 0, "is here");
    expect_large(hub, "large");
    assert_int_equal(hub_asked(hub, "files "), 4); // of 8 MiB each
    hub_pulls("acme/whole", 0, "is here");         // which knows no ranges
    expect_large(hub, "whole");
    hub_pulls("acme/breaking", 0, "is here"); // whose connections break
    expect_large(hub, "breaking");
}

// What lies there is whole only if its digest says so: a damaged file of the same length is fetched again, alone.
static void test_damaged_on_disk(void **state) {
    const Hub *hub = *state;
    hub_pulls("acme/large", 0, "is here");
    int before = hub_asked(hub, "files ");
    FILE *blob = fopen(hub_path(hub, "hub/models--acme--large/snapshots/" COMMIT "/large-Q8_0.gguf"), "r+");
    assert_non_null(blob);
    assert_int_equal(fseek(blob, 1000000, SEEK_SET), 0);
    int byte = fgetc(blob);
    assert_int_equal(fseek(blob, 1000000, SEEK_SET), 0);
    fputc(byte ^ 1, blob);
    fclose(blob);
    hub_pulls("acme/large", 0, "[large-Q8_0.gguf is damaged on this disk: it is fetched again]");
    expect_large(hub, "large");
    assert_int_equal(hub_asked(hub, "files "), 2 * before);
    hub_pulls("acme/large", 0, "is here");
    assert_int_equal(hub_asked(hub, "files "), 2 * before);
}

// At a terminal it is seen how far it is, and for how long still.
static void test_progress(void **state) {
    (void)state;
    Pty *pty = prompt_start("pull|acme/slow", &(const PtyOptions){.rows = 24, .cols = 100});
    pty_expect(pty, "fetching █");
    pty_expect(pty, "% ");
    pty_expect(pty, " of 28 MB  ");
    pty_expect(pty, " MB/s");
    pty_expect(pty, "is here: palaver acme/slow");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

// ---- what is interrupted ------------------------------------------------------------------------------------------

// Ends it by a signal once the first part is there. In the background a shell has Ctrl-C ignored.
static void end_it(const Hub *hub, const char *signal, int status, const char *part) {
    char command[800];
    Run run;
    snprintf(command, sizeof command,
             "env --default-signal=INT $PALAVER pull acme/slow & p=$!; while ! grep -q \"$(printf '\\001')\" "
             "%s/hub/models--acme--slow/blobs/*.palaver-parts 2>/dev/null; do sleep 0.05; done; kill -%s $p; "
             "wait $p; echo $?",
             hub->home, signal);
    program_shell(&run, command);
    assert_int_equal(atoi(run.out), status);
    expect_err(&run, part);
    program_free(&run);
}

static void test_killed(void **state) {
    const Hub *hub = *state;
    end_it(hub, "KILL", 128 + SIGKILL, "");
    hub_has(hub, "hub/models--acme--slow/snapshots", false);
    hub_has(hub, "hub/models--acme--slow/refs", false);
    hub_pulls("acme/slow", 0, "is here");
    expect_large(hub, "slow");
    // The first part was there: it was asked for once, here and where the hub sent us.
    assert_int_equal(hub_asked(hub, "bytes=0-"), 2);
}

static void test_stopped(void **state) {
    const Hub *hub = *state;
    end_it(hub, "INT", 130, "stopped; the same command goes on where this one ended");
    hub_pulls("acme/slow", 0, "is here");
    expect_large(hub, "slow");
}

static void test_disk(void **state) {
    const Hub *hub = *state;
    Run run;
    program_shell(&run, "ulimit -f 2000; $PALAVER pull acme/large");
    expect_status(&run, 1);
    expect_err(&run, "File too large");
    assert_int_equal(program_count(run.err, "\n"), 2);
    program_free(&run);
    hub_pulls("acme/huge", 1, "are free on this disk");
    hub_pulls("acme/large", 0, "is here");
    expect_large(hub, "large");
}

#define test(name) cmocka_unit_test_setup_teardown(test_##name, hub_set_up, hub_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(folder),   test(choice), test(parts),   test(damaged_on_disk),
        test(progress), test(killed), test(stopped), test(disk),
    };
    return test_main("pull", argc, argv, tests);
}
