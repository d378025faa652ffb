#include "tests/support/runs/batch.h"

#include "tests/support/patience.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    AT_ONCE = 64,
    SHOWN = 12 /* wrong runs, of all others a line */,
    TIMEOUT = 120 /* seconds */,
    PATH = 512
};

typedef struct Running {
    pid_t pid; // 0: free
    const char *set;
    char folder[PATH];
} Running;

static int remove_entry(const char *path, const struct stat *facts, int type, struct FTW *walk) {
    (void)facts, (void)type, (void)walk;
    return remove(path);
}

// stdin, stdout and stderr are files of the folder, which is everything else as well.
static void become(const Batch *batch, const Running *run, char *const *argv) {
    static const char *const homes[] = {"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"};
    static const char *const names[] = {"in", "out", "err"};
    for (int i = 0; i < 4; i++) setenv(homes[i], run->folder, 1);
    if (*run->set) putenv((char *)run->set);
    bool ok = !chdir(run->folder);
    for (int i = 0; i < 3 && ok; i++) {
        int file = open(names[i], i ? O_WRONLY | O_CREAT | O_APPEND : O_RDONLY, 0600);
        ok = file >= 0 && dup2(file, i) >= 0;
        if (file > 2) close(file);
    }
    alarm((unsigned)patience(TIMEOUT)); // not reset by exec: whoever hangs is killed
    if (ok) execv(batch->program, argv);
    _exit(127);
}

static void start(const Batch *batch, Running *run, const char *set) {
    run->set = set;
    strcpy(run->folder, "/tmp/palaver-batch-XXXXXX");
    assert_non_null(mkdtemp(run->folder));
    char path[PATH + 8];
    snprintf(path, sizeof path, "%s/in", run->folder);
    FILE *input = fopen(path, "we");
    assert_non_null(input);
    assert_true(fputs(batch->input, input) >= 0 && !fclose(input));
    if (batch->prepare) batch->prepare(batch->user, run->folder);
    char **argv = program_words(batch->arguments);
    argv[0] = (char *)batch->program;
    fflush(stdout);
    run->pid = fork();
    if (!run->pid) become(batch, run, argv);
    assert_true(run->pid > 0);
    free(argv);
}

static char *text_of(const char *folder, const char *name, size_t *size) {
    char path[PATH + 8], *text = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    *size = 0;
    FILE *file = fopen(path, "rbe"), *all = open_memstream(&text, size);
    assert_non_null(all);
    for (int c; file && (c = getc(file)) != EOF;) putc(c, all);
    if (file) fclose(file);
    fclose(all);
    return text;
}

// Judges a run that has ended; true: it is wrong.
static bool finish(const Batch *batch, Running *run, int ended, int n_wrong) {
    BatchRun done = {.folder = run->folder, .set = run->set};
    size_t size;
    done.status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    done.out = text_of(run->folder, "out", &done.out_size);
    done.err = text_of(run->folder, "err", &size);
    const char *why = strstr(done.err, "Sanitizer") || strstr(done.err, "runtime error:")
                          ? "a sanitizer's report"
                      : done.status == 128 + SIGALRM ? "it does not end"
                                                     : NULL;
    if (!why) why = batch->judge(batch->user, &done);
    if (why && n_wrong < SHOWN)
        fprintf(stderr, "%s: %s; status %d\n--- stdout\n%s\n--- stderr\n%s\n", run->set, why, done.status,
                done.out, done.err);
    else if (why)
        fprintf(stderr, "%s: %s; status %d\n", run->set, why, done.status);
    free(done.out);
    free(done.err);
    nftw(run->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    run->pid = 0;
    return why != NULL;
}

int batch_run(const Batch *batch, const char *const *settings, int n) {
    Running running[AT_ONCE] = {0};
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN), at_once = cores < 1         ? 1
                                                              : cores < AT_ONCE ? cores
                                                                                : AT_ONCE;
    int given = 0, ended = 0, n_wrong = 0;
    while (ended < n) {
        for (int i = 0; i < at_once && given < n; i++)
            if (!running[i].pid) start(batch, &running[i], settings[given++]);
        int status, slot = 0;
        pid_t pid = waitpid(-1, &status, 0);
        assert_true(pid > 0);
        while (slot < at_once && running[slot].pid != pid) slot++;
        if (slot == at_once) continue; // somebody else's child
        n_wrong += finish(batch, &running[slot], status, n_wrong);
        ended++;
    }
    return n_wrong;
}
