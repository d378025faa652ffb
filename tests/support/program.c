#include "tests/support/program.h"

#include "tests/support/patience.h"
#include "tests/support/test.h"

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

enum { MAX_ARGUMENTS = 40, BLOCK = 4096, TIMEOUT = 120 }; // seconds

// ---- a home -----------------------------------------------------------------------------------------------

static int remove_entry(const char *path, const struct stat *facts, int type, struct FTW *walk) {
    (void)facts, (void)type, (void)walk;
    return remove(path);
}

int program_set_up(void **state) {
    static const char *const folders[] = {"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"};
    char *home = strdup("/tmp/palaver-home-XXXXXX");
    if (!home || !mkdtemp(home)) {
        free(home);
        return 1;
    }
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

static void start(Child *child, char *const *argv) {
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    for (int i = 0; i < 3; i++)
        if (pipe2(pipes[i], O_CLOEXEC)) fail_msg("pipe: %s", strerror(errno));
    if (!(child->pid = fork())) {
        dup2(pipes[0][0], 0), dup2(pipes[1][1], 1), dup2(pipes[2][1], 2);
        signal(SIGPIPE, SIG_DFL);
        execv(argv[0], argv);
        fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    close(pipes[0][0]), close(pipes[1][1]), close(pipes[2][1]);
    child->in = pipes[0][1], child->out = pipes[1][0], child->err = pipes[2][0];
}

const char *program_path(void) {
    return getenv("PALAVER") ? getenv("PALAVER") : "build/san/palaver";
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
        if (signal_number && run->out_size >= after) {
            kill(child->pid, signal_number);
            signal_number = 0;
        }
        if (poll(files, 3, patience(TIMEOUT) * 1000) <= 0) {
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
    }
    if (files[0].fd >= 0) close(child->in);
    close(child->out), close(child->err);
}

// What is given to a program, and when a signal is sent to it.
typedef struct Plan {
    const char *input;
    size_t size;
    int signal_number;
    size_t after;
} Plan;

static void run_all(Run *run, char *const *argv, const Plan *plan) {
    Child child;
    int status;
    signal(SIGPIPE, SIG_IGN);
    *run = (Run){.out = calloc(1, 1), .err = calloc(1, 1)};
    start(&child, argv);
    serve(&child, run, plan->input, plan->size, plan->signal_number, plan->after);
    waitpid(child.pid, &status, 0);
    run->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (strstr(run->err, "Sanitizer") || strstr(run->err, "runtime error:")) fail_msg("%s", run->err);
}

char **program_words(const char *arguments) {
    // The pointers, and behind them the words.
    char **argv = calloc(1, (MAX_ARGUMENTS + 2) * sizeof *argv + strlen(arguments) + 1);
    char *words = strcpy((char *)(argv + MAX_ARGUMENTS + 2), arguments);
    int argc = 0;
    argv[argc++] = (char *)program_path();
    for (char *word = words, *end; word && *words && argc < MAX_ARGUMENTS; word = end) {
        if ((end = strchr(word, '|'))) *end++ = 0;
        argv[argc++] = word;
    }
    return argv;
}

static void run_words(Run *run, const char *arguments, const Plan *plan) {
    char **argv = program_words(arguments);
    run_all(run, argv, plan);
    free(argv);
}

void program_run(Run *run, const char *arguments, const char *input) {
    run_words(run, arguments, &(Plan){.input = input, .size = strlen(input)});
}

void program_run_bytes(Run *run, const char *arguments, const char *input, size_t size) {
    run_words(run, arguments, &(Plan){.input = input, .size = size});
}

void program_run_signal(Run *run, const char *arguments, const char *input, int signal, size_t after) {
    run_words(run, arguments, &(Plan){input, strlen(input), signal, after});
}

void program_shell(Run *run, const char *command) {
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)command, NULL};
    setenv("PALAVER", program_path(), 1);
    run_all(run, argv, &(Plan){.input = ""});
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

Run program_script(const char *arguments, const char *input) {
    Run run;
    program_run(&run, arguments, input);
    expect_status(&run, 0);
    return run;
}

void program_says(const char *arguments, const char *input, int status, const char *part) {
    Run run;
    program_run(&run, arguments, input);
    expect_status(&run, status);
    expect_err(&run, part);
    program_free(&run);
}

void program_refuses(const char *arguments, const char *input, const char *part) {
    Run run;
    program_run(&run, arguments, input);
    expect_status(&run, 5);
    expect_err(&run, part);
    assert_string_equal(run.out, "");
    program_free(&run);
}

int program_count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}
