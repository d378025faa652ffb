#include "tests/program.h"

#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 40, BLOCK = 4096, PATIENCE = 120 }; // seconds

// ---- a home -----------------------------------------------------------------------------------------------

static int remove_entry(const char *path, const struct stat *facts, int type, struct FTW *walk) {
    (void)facts, (void)type, (void)walk;
    return remove(path);
}

int program_set_up(void **state) {
    static const char *const folders[] = {"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"};
    char *home = strdup("/tmp/palaver-home-XXXXXX");
    if (!home || !mkdtemp(home)) return 1;
    for (int i = 0; i < 4; i++) setenv(folders[i], home, 1);
    *state = home;
    return 0;
}

int program_tear_down(void **state) {
    char *home = *state;
    nftw(home, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(home);
    return 0;
}

// ---- a run ------------------------------------------------------------------------------------------------

typedef struct Child {
    pid_t pid;
    int in, out, err; // our ends
} Child;

static void start(Child *child, const char *arguments) {
    char *argv[MAX_ARGUMENTS + 2], *words = strdup(arguments);
    const char *program = getenv("PALAVER");
    int argc = 0, in[2], out[2], err[2];
    if (!program) program = "build/san/palaver";
    argv[argc++] = (char *)program;
    for (char *word = words, *end; *words && word && argc < MAX_ARGUMENTS; word = end) {
        if ((end = strchr(word, '|'))) *end++ = 0;
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
        fail_msg("pipe: %s", strerror(errno));
    if (!(child->pid = fork())) {
        dup2(in[0], 0), dup2(out[1], 1), dup2(err[1], 2);
        signal(SIGPIPE, SIG_DFL);
        execv(program, argv);
        fprintf(stderr, "%s: %s\n", program, strerror(errno));
        _exit(127);
    }
    close(in[0]), close(out[1]), close(err[1]);
    child->in = in[1], child->out = out[0], child->err = err[0];
    free(words);
}

// Adds what can be read; false at the end.
static int gather(int file, char **text, size_t *size) {
    *text = realloc(*text, *size + BLOCK + 1);
    ssize_t n = read(file, *text + *size, BLOCK);
    *size += n > 0 ? (size_t)n : 0;
    (*text)[*size] = 0;
    return n > 0;
}

static void serve(Child *child, Run *run, const char *input, size_t size, int signal_number, size_t after) {
    struct pollfd files[3] = {{child->in, POLLOUT, 0}, {child->out, POLLIN, 0}, {child->err, POLLIN, 0}};
    size_t given = 0;
    while (files[1].fd >= 0 || files[2].fd >= 0) {
        if (files[0].fd >= 0 && given == size && !signal_number) close(child->in), files[0].fd = -1;
        files[0].events = given < size ? POLLOUT : 0;
        if (poll(files, 3, PATIENCE * 1000) <= 0) {
            kill(child->pid, SIGKILL);
            fail_msg("the program does not end; stdout so far:\n%s\nstderr:\n%s", run->out, run->err);
        }
        if (files[0].fd >= 0 && files[0].revents && given < size) {
            ssize_t n = write(child->in, input + given, size - given);
            if (n < 0)
                given = size;
            else
                given += (size_t)n;
        }
        if (files[1].fd >= 0 && files[1].revents && !gather(child->out, &run->out, &run->out_size))
            files[1].fd = -1;
        if (files[2].fd >= 0 && files[2].revents && !gather(child->err, &run->err, &run->err_size))
            files[2].fd = -1;
        if (signal_number && run->out_size >= after) {
            kill(child->pid, signal_number);
            signal_number = 0;
        }
    }
    if (files[0].fd >= 0) close(child->in);
    close(child->out), close(child->err);
}

static void run_all(Run *run, const char *arguments, const char *input, size_t size, int signal_number,
                    size_t after) {
    Child child;
    int status;
    signal(SIGPIPE, SIG_IGN);
    *run = (Run){.out = calloc(1, 1), .err = calloc(1, 1)};
    start(&child, arguments);
    serve(&child, run, input, size, signal_number, after);
    waitpid(child.pid, &status, 0);
    run->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (strstr(run->err, "Sanitizer") || strstr(run->err, "runtime error:")) fail_msg("%s", run->err);
}

void program_run(Run *run, const char *arguments, const char *input) {
    run_all(run, arguments, input, strlen(input), 0, 0);
}

void program_run_bytes(Run *run, const char *arguments, const char *input, size_t size) {
    run_all(run, arguments, input, size, 0, 0);
}

void program_run_signal(Run *run, const char *arguments, const char *input, int signal, size_t after) {
    run_all(run, arguments, input, strlen(input), signal, after);
}

void program_free(Run *run) {
    free(run->out);
    free(run->err);
    *run = (Run){0};
}

// ---- expectations -----------------------------------------------------------------------------------------

static void unexpected(const Run *run, const char *what, const char *wanted) {
    fail_msg("%s \"%s\"; status %d\n--- stdout\n%s\n--- stderr\n%s", what, wanted, run->status, run->out,
             run->err);
}

void expect_status(const Run *run, int status) {
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%d", status);
    if (run->status != status) unexpected(run, "expected status", wanted);
}

void expect_err(const Run *run, const char *part) {
    if (!strstr(run->err, part)) unexpected(run, "expected on stderr", part);
}

void expect_out(const Run *run, const char *part) {
    if (!strstr(run->out, part)) unexpected(run, "expected on stdout", part);
}

void expect_no_err(const Run *run, const char *part) {
    if (strstr(run->err, part)) unexpected(run, "not expected on stderr", part);
}
