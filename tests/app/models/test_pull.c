// palaver pull against a hub on loopback (tests/support/hub.py): what comes is whole, lies where other programs look
// for it, goes on after kill -9, and whatever a server does wrong is one line.
#include "tests/support/files.h"
#include "tests/support/model/prompt.h"
#include "tests/support/program.h"
#include "tests/support/test.h"
#include "app/models/hub.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

typedef struct Hub {
    char *home;
    pid_t pid;
    int in; // its stdin: it ends with it
    int port, proxy, secure, stranger;
} Hub;

static char *below(const Hub *hub, const char *tail) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", hub->home, tail);
    return path;
}

static void start(Hub *hub) {
    int in[2], out[2];
    char line[64] = "", log[4096];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    snprintf(log, sizeof log, "%s", below(hub, "log"));
    if (!(hub->pid = fork())) {
        dup2(in[0], 0), dup2(out[1], 1);
        execlp("python3", "python3", "tests/support/hub.py", log, "tests/golden", (char *)NULL);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    hub->in = in[1];
    for (size_t n = 0; n < sizeof line - 1 && !strchr(line, '\n'); n++)
        if (read(out[0], line + n, 1) != 1) break;
    close(out[0]);
    if (sscanf(line, "%d %d %d %d", &hub->port, &hub->proxy, &hub->secure, &hub->stranger) != 4)
        fail_msg("the hub does not start: %s", line);
    snprintf(line, sizeof line, "http://127.0.0.1:%d/", hub->port);
    setenv("HF_ENDPOINT", line, 1);
}

static int set_up(void **state) {
    static const char *const unset[] = {"HF_HOME",
                                        "HUGGINGFACE_HUB_CACHE",
                                        "HF_TOKEN",
                                        "XDG_CACHE_HOME",
                                        "http_proxy",
                                        "https_proxy",
                                        "all_proxy",
                                        "OLLAMA_MODELS",
                                        "ALL_PROXY",
                                        "HTTPS_PROXY",
                                        "HF_HUB_OFFLINE",
                                        "SSL_CERT_FILE",
                                        "CURL_CA_BUNDLE",
                                        "REQUESTS_CA_BUNDLE",
                                        "HF_HUB_DOWNLOAD_TIMEOUT"};
    void *home;
    if (program_set_up(&home)) return 1;
    Hub *hub = calloc(1, sizeof *hub);
    assert_non_null(hub);
    hub->home = home;
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) unsetenv(unset[i]);
    setenv("HF_HUB_CACHE", below(hub, "hub"), 1);
    start(hub);
    *state = hub;
    return 0;
}

static int tear_down(void **state) {
    Hub *hub = *state;
    void *home = hub->home;
    int status;
    close(hub->in);
    waitpid(hub->pid, &status, 0);
    free(hub);
    return program_tear_down(&home);
}

// ---- what is fetched ----------------------------------------------------------------------------------------------

static void pull(const char *arguments, int status, const char *part) {
    Run run;
    char words[300];
    snprintf(words, sizeof words, "pull|%s", arguments);
    program_run(&run, words, "");
    expect_status(&run, status);
    expect_err(&run, part);
    assert_string_equal(run.out, "");
    program_free(&run);
}

// Lines of the log that have `part`.
static int asked(const Hub *hub, const char *part) {
    Bytes log = bytes_of_file(below(hub, "log"));
    bytes_add(&log, "", 1);
    int n = 0;
    for (char *line = strtok((char *)log.data, "\n"); line; line = strtok(NULL, "\n"))
        n += strstr(line, part) != NULL;
    bytes_free(&log);
    return n;
}

static void has(const Hub *hub, const char *tail, bool there) {
    if (!access(below(hub, tail), F_OK) != there) fail_msg("%s is %sthere", tail, there ? "not " : "");
}

static void test_folder(void **state) {
    const Hub *hub = *state;
    char link[200];
    Run run;
    pull("acme/babbler", 0, "snapshots/" COMMIT " is here: palaver acme/babbler");
    has(hub, "hub/models--acme--babbler/snapshots/" COMMIT "/tokenizer.json", true);
    has(hub, "hub/models--acme--babbler/snapshots/" COMMIT "/README.md", false);
    has(hub, "hub/models--acme--babbler/snapshots/" COMMIT "/onnx", false);
    has(hub, "escaped.gguf", false);
    Bytes ref = bytes_of_file(below(hub, "hub/models--acme--babbler/refs/main"));
    assert_int_equal(ref.size, 40);
    assert_memory_equal(ref.data, COMMIT, 40);
    bytes_free(&ref);
    ssize_t n =
        readlink(below(hub, "hub/models--acme--babbler/snapshots/" COMMIT "/model.safetensors"), link, 199);
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
    int before = asked(hub, "files ");
    pull("acme/babbler@v1", 0, "is here");
    assert_int_equal(asked(hub, "files "), before);
    has(hub, "hub/models--acme--babbler/refs/v1", true);
}

static void test_choice(void **state) {
    const Hub *hub = *state;
    Run run;
    pull("acme/quants", 0, "[Q8_0, 157 kB: of 5 files the one that suits memory");
    has(hub, "hub/models--acme--quants/snapshots/" COMMIT "/q-Q8_0.gguf", true);
    has(hub, "hub/models--acme--quants/snapshots/" COMMIT "/q-F16.gguf", false);
    pull("acme/quants:q4_k_m", 0, "q-Q4_K_M.gguf is here");
    pull("acme/quants:Q6_K", 0, "/Q6_K/q-Q6_K-00001-of-00002.gguf is here");
    has(hub, "hub/models--acme--quants/snapshots/" COMMIT "/Q6_K/q-Q6_K-00002-of-00002.gguf", true);
    pull("acme/quants:q-F16.gguf", 0, "q-F16.gguf is here");
    pull("acme/quants:Q3_K_S", 2, "there is no Q3_K_S here, but Q4_K_M, Q8_0, IQ2_XS, F16, Q6_K");
    pull("acme/nothing", 1, "nothing that palaver reads");
    pull("acme/unreadable", 1, "has a type that palaver reads");
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
    pull("acme/large", 0, "is here");
    expect_large(hub, "large");
    assert_int_equal(asked(hub, "files "), 4); // of 8 MiB each
    pull("acme/whole", 0, "is here");          // which knows no ranges
    expect_large(hub, "whole");
    pull("acme/breaking", 0, "is here"); // whose connections break
    expect_large(hub, "breaking");
}

// What lies there is whole only if its digest says so: a damaged file of the same length is fetched again, alone.
static void test_damaged_on_disk(void **state) {
    const Hub *hub = *state;
    pull("acme/large", 0, "is here");
    int before = asked(hub, "files ");
    FILE *blob = fopen(below(hub, "hub/models--acme--large/snapshots/" COMMIT "/large-Q8_0.gguf"), "r+");
    assert_non_null(blob);
    assert_int_equal(fseek(blob, 1000000, SEEK_SET), 0);
    int byte = fgetc(blob);
    assert_int_equal(fseek(blob, 1000000, SEEK_SET), 0);
    fputc(byte ^ 1, blob);
    fclose(blob);
    pull("acme/large", 0, "[large-Q8_0.gguf is damaged on this disk: it is fetched again]");
    expect_large(hub, "large");
    assert_int_equal(asked(hub, "files "), 2 * before);
    pull("acme/large", 0, "is here");
    assert_int_equal(asked(hub, "files "), 2 * before);
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
    has(hub, "hub/models--acme--slow/snapshots", false);
    has(hub, "hub/models--acme--slow/refs", false);
    pull("acme/slow", 0, "is here");
    expect_large(hub, "slow");
    // The first part was there: it was asked for once, here and where the hub sent us.
    assert_int_equal(asked(hub, "bytes=0-"), 2);
}

static void test_stopped(void **state) {
    const Hub *hub = *state;
    end_it(hub, "INT", 130, "stopped; the same command goes on where this one ended");
    pull("acme/slow", 0, "is here");
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
    pull("acme/huge", 1, "are free on this disk");
    pull("acme/large", 0, "is here");
    expect_large(hub, "large");
}

// ---- what hubs say ------------------------------------------------------------------------------------------------

// One line besides what is fetched.
static void refuses(const char *arguments, const char *part) {
    Run run;
    char words[300];
    snprintf(words, sizeof words, "pull|%s", arguments);
    program_run(&run, words, "");
    expect_status(&run, 1);
    expect_err(&run, part);
    assert_in_range(program_count(run.err, "\n"), 1, 2);
    program_free(&run);
}

static void test_refused(void **state) {
    (void)state;
    refuses("acme/none", "acme/none: 404, the hub has nothing of this name (what is private needs HF_TOKEN)");
    refuses("acme/babbler@nope", "404");
    refuses("acme/forbidden", "403, not for you");
    refuses("acme/gated", "401, there is none of this name, or it needs a token: set HF_TOKEN");
    refuses("acme/gone", "small-Q8_0.gguf: 404");
    refuses("acme/always429", "429, the hub has had too many requests");
    refuses("acme/always503", "the server answers 503: it is out of order");
    refuses("acme/badlist", "acme/badlist: line 1, column 1: not valid JSON");
    refuses("acme/nolist", "the hub's answer is no list of files");
    refuses("acme/endlesslist", "the answer does not end where it should");
    refuses("acme/circle", "round in circles");
    refuses("acme/away", "which is no web address");
    refuses("acme/nowhere", "elsewhere, but not where");
    refuses("acme/endless", "the server sends more than it said");
    refuses("acme/otherpart", "the server sends another part than was asked for");
    refuses("acme/othersize", "the server says another size than the hub");
    refuses("acme/damaged", "it came damaged");
    pull("acme/damaged", 0, "is here"); // the second time it does not
    pull("acme/twice", 0, "is here");   // 503 and 500 twice each
}

static void test_short(void **state) {
    (void)state;
    refuses("acme/short", "the connection broke");
}

// A server that says nothing more is given up and asked again; one that never does, is told of.
static void test_silence(void **state) {
    const Hub *hub = *state;
    setenv("HF_HUB_DOWNLOAD_TIMEOUT", "1", 1);
    pull("acme/falters", 0, "is here");
    assert_int_equal(asked(hub, "files /acme/falters"), 2);
    refuses("acme/silent", "small-Q8_0.gguf: the server has gone silent");
    setenv("HF_HUB_DOWNLOAD_TIMEOUT", "soon", 1);
    pull("acme/babbler", 2, "HF_HUB_DOWNLOAD_TIMEOUT=soon: expected seconds, 1 to 3600");
    unsetenv("HF_HUB_DOWNLOAD_TIMEOUT");
}

// Behind TLS only who is trusted, and is who it says; and nobody is sent from there to where all can read it.
static void test_certificates(void **state) {
    const Hub *hub = *state;
    char secure[64], stranger[64];
    snprintf(secure, sizeof secure, "https://127.0.0.1:%d", hub->secure);
    snprintf(stranger, sizeof stranger, "https://127.0.0.1:%d", hub->stranger);
    setenv("HF_ENDPOINT", secure, 1);
    refuses("acme/babbler", "the connection is not safe");
    setenv("SSL_CERT_FILE", below(hub, "log.pem.cert"), 1);
    setenv("HF_TOKEN", "secret", 1);
    pull("acme/gated", 0, "is here");
    assert_int_equal(asked(hub, "sealed /acme/gated"), 1); // which refuses whoever has a token with him
    unsetenv("HF_TOKEN");
    refuses("acme/opens", "the server sends us from https to http://127.0.0.1");
    setenv("HF_ENDPOINT", stranger, 1);
    setenv("SSL_CERT_FILE", below(hub, "log.other.pem.cert"), 1);
    refuses("acme/babbler", "the connection is not safe");
    setenv("HF_ENDPOINT", secure, 1);
    setenv("SSL_CERT_FILE", "/no/such/file", 1);
    refuses("acme/babbler", "the certificates to trust cannot be read");
    unsetenv("SSL_CERT_FILE");
}

static void test_token(void **state) {
    const Hub *hub = *state;
    setenv("HF_TOKEN", "secret", 1);
    pull("acme/gated", 0, "is here");
    assert_true(asked(hub, "Bearer secret") >= 2);
    assert_true(asked(hub, "files ") >= 1);               // another host, as its port is another
    assert_int_equal(asked(hub, "files /acme/gated"), 1); // which refuses whoever has a token with him
    setenv("HF_TOKEN", "wrong", 1);
    refuses("acme/gated", "403, not for you");
    setenv("HF_TOKEN", "two words", 1);
    pull("acme/gated", 2, "HF_TOKEN is no token");
    unsetenv("HF_TOKEN");
}

static void test_proxy(void **state) {
    const Hub *hub = *state;
    char address[64];
    snprintf(address, sizeof address, "http://127.0.0.1:%d", hub->proxy);
    setenv("http_proxy", address, 1);
    setenv("HF_ENDPOINT", "http://hub.invalid", 1); // whose name only the proxy knows
    setenv("HF_TOKEN", "secret", 1);
    pull("acme/gated", 0,
         "[HF_TOKEN goes to http://hub.invalid unencrypted: whoever is on the way can read it]");
    assert_int_equal(asked(hub, "proxy http://hub.invalid/"), 2); // the list, and where the file is
    assert_int_equal(asked(hub, "proxy http://127.0.0.1:"), 1);
    unsetenv("http_proxy");
    unsetenv("HF_TOKEN");
}

static void test_offline(void **state) {
    const Hub *hub = *state;
    setenv("HF_HUB_OFFLINE", "1", 1);
    refuses("acme/babbler", "HF_HUB_OFFLINE is set: nothing is fetched");
    setenv("HF_HUB_OFFLINE", "True", 1);
    refuses("acme/babbler", "HF_HUB_OFFLINE is set: nothing is fetched");
    has(hub, "log", false); // nobody was asked anything
    setenv("HF_HUB_OFFLINE", "0", 1);
    pull("acme/babbler", 0, "is here");
    unsetenv("HF_HUB_OFFLINE");
}

static void test_in_clear(void **state) {
    (void)state;
    static const char *const clear[] = {"http://hub", "HTTP://10.0.0.1:80/x", "http://127.example.org",
                                        "http://localhost.org"};
    static const char *const fine[] = {"https://hub", "http://127.0.0.1:8080/", "http://localhost:1",
                                       "http://[::1]:80/", "http://LOCALHOST"};
    for (size_t i = 0; i < sizeof clear / sizeof *clear; i++) assert_true(hub_is_in_clear(clear[i]));
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) assert_false(hub_is_in_clear(fine[i]));
}

static void test_addresses(void **state) {
    (void)state;
    pull("hf.co/acme/babbler", 0, "is here: palaver acme/babbler");
    pull("https://huggingface.co/acme/babbler", 0, "is here: palaver acme/babbler");
    pull("https://example.org/acme/babbler", 2, "palaver pull wants ORG/NAME");
}

static void test_no_way(void **state) {
    const Hub *hub = *state;
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "https://127.0.0.1:%d", hub->port);
    setenv("HF_ENDPOINT", endpoint, 1);
    refuses("acme/babbler", "the connection is not safe");
    setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1);
    refuses("acme/babbler", "no way there");
    setenv("http_proxy", "http://no-such-proxy.invalid:3128", 1);
    refuses("acme/babbler", "no such proxy");
    unsetenv("http_proxy");
    setenv("HF_ENDPOINT", "ftp://example.org", 1);
    pull("acme/babbler", 2, "HF_ENDPOINT=ftp://example.org: expected https://HOST");
}

static void test_names(void **state) {
    (void)state;
    static const char *const wrong[] = {"babbler",        "acme/",           "/babbler",
                                        "acme/bab/bler",  "acme/../babbler", "a b/c",
                                        "acme/bab--bler", "acme/x@../y",     "acme/x@"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        pull(wrong[i], 2, "palaver pull wants ORG/NAME");
    program_says("pull", "", 2, "which model?");
    program_says("pull|", "", 2, "which model?");
    program_says("pull|a/b|--temperature=1", "", 2, "--temperature has no meaning for palaver pull");
    program_says("inspect|acme/unheard-of", "", 3, "palaver pull acme/unheard-of fetches it from a hub");
}

#define test(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(folder),  test(choice),  test(parts),    test(damaged_on_disk), test(killed),
        test(stopped), test(disk),    test(refused),  test(short),           test(token),
        test(proxy),   test(no_way),  test(offline),  test(in_clear),        test(addresses),
        test(names),   test(silence), test(progress), test(certificates),
    };
    return test_main("pull", argc, argv, tests);
}
