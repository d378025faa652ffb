#include "tests/support/stores/hub.h"

#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char *hub_path(const Hub *hub, const char *tail) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", hub->home, tail);
    return path;
}

static void start(Hub *hub) {
    int in[2], out[2];
    char line[64] = "", log[4096];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    snprintf(log, sizeof log, "%s", hub_path(hub, "log"));
    if (!(hub->pid = fork())) {
        dup2(in[0], 0), dup2(out[1], 1);
        execlp("python3", "python3", "tests/support/stores/hub.py", log, "tests/golden", (char *)NULL);
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

int hub_set_up(void **state) {
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
    setenv("HF_HUB_CACHE", hub_path(hub, "hub"), 1);
    start(hub);
    *state = hub;
    return 0;
}

int hub_tear_down(void **state) {
    Hub *hub = *state;
    void *home = hub->home;
    int status;
    close(hub->in);
    waitpid(hub->pid, &status, 0);
    free(hub);
    return program_tear_down(&home);
}

void hub_pulls(const char *arguments, int status, const char *part) {
    Run run;
    char words[300];
    snprintf(words, sizeof words, "pull|%s", arguments);
    program_run(&run, words, "");
    expect_status(&run, status);
    expect_err(&run, part);
    assert_string_equal(run.out, "");
    program_free(&run);
}

int hub_asked(const Hub *hub, const char *part) {
    Bytes log = bytes_of_file(hub_path(hub, "log"));
    bytes_add(&log, "", 1);
    int n = 0;
    for (char *line = strtok((char *)log.data, "\n"); line; line = strtok(NULL, "\n"))
        n += strstr(line, part) != NULL;
    bytes_free(&log);
    return n;
}

void hub_has(const Hub *hub, const char *tail, bool there) {
    if (!access(hub_path(hub, tail), F_OK) != there) fail_msg("%s is %sthere", tail, there ? "not " : "");
}
