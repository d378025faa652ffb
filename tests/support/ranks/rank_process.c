#include "tests/support/ranks/rank_process.h"

#include "kernels/base/clock.h"
#include "tests/support/patience.h"
#include "tests/support/program.h"
#include "tests/support/ranks/ranks.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 600 };

const char RANKS_SCRIPT[] =
    "Question 0.\nQuestion 1.\nQuestion 2.\nQuestion 3.\nQuestion 4.\nQuestion 5.\n"
    "Question 6.\nQuestion 7.\nQuestion 8.\nQuestion 9.\nQuestion 10.\nQuestion 11.\n";

RankProcess rank_start(const char *more, int rank, const char *address) {
    int in[2], err[2], out[2];
    char arguments[ROOM];
    RankProcess c = {0};
    snprintf(arguments, sizeof arguments, RANKS_TALK "|--stats|--world=2|--rank=%d|--join=%s%s", rank,
             address, more);
    assert_int_equal(pipe(in) | pipe(err) | pipe(out), 0);
    for (int i = 0; i < 2; i++) { // of no other child
        fcntl(in[i], F_SETFD, FD_CLOEXEC), fcntl(err[i], F_SETFD, FD_CLOEXEC);
        fcntl(out[i], F_SETFD, FD_CLOEXEC);
    }
    char **argv = program_words(arguments);
    c.pid = fork();
    if (c.pid == 0) {
        dup2(in[0], 0), dup2(out[1], 1), dup2(err[1], 2);
        execv(argv[0], argv);
        _exit(127);
    }
    free(argv);
    close(in[0]), close(err[1]), close(out[1]);
    c.in = in[1], c.err = err[0], c.out = out[0];
    return c;
}

void rank_start_both(const char *more, RankProcess *first, RankProcess *other) {
    char address[64];
    ranks_address(address);
    *other = rank_start(more, 1, address), *first = rank_start(more, 0, address);
}

bool rank_read_turns(RankProcess *c, int n) {
    char block[512];
    for (;;) {
        bytes_add(&c->said, "", 1);
        c->said.size--;
        if (program_count((char *)c->said.data, "[turn ") >= n) return true;
        const ssize_t got = read(c->err, block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        bytes_add(&c->said, block, (size_t)got);
    }
}

int rank_wait(RankProcess *c, int seconds) {
    seconds = patience(seconds);
    const double until = clock_seconds() + seconds;
    int status;
    while (waitpid(c->pid, &status, WNOHANG) == 0) {
        if (clock_seconds() > until) {
            kill(c->pid, SIGKILL);
            waitpid(c->pid, &status, 0);
            (void)rank_read_turns(c, 1 << 20);
            fail_msg("a process has not ended within %d seconds\n%s", seconds, (char *)c->said.data);
        }
        usleep(2000);
    }
    (void)rank_read_turns(c, 1 << 20);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void rank_end(RankProcess *c) {
    if (c->in >= 0) close(c->in);
    close(c->err), close(c->out);
    bytes_free(&c->said);
}

void rank_tell(RankProcess *c, const char *text) {
    assert_int_equal(write(c->in, text, strlen(text)), strlen(text));
}

void rank_tell_all(RankProcess *c, const char *text) {
    rank_tell(c, text);
    close(c->in);
    c->in = -1;
}

Transcript *ranks_kept(const char *home) {
    char folder[ROOM], path[2 * ROOM];
    Transcript *transcript = NULL;
    snprintf(folder, sizeof folder, "%s/palaver/conversations", home);
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        Bytes bytes = bytes_of_file(path);
        Error error;
        bytes_add(&bytes, "", 1);
        if (bytes.size > 1) {
            assert_null(transcript);
            if (transcript_parse(path, (char *)bytes.data, bytes.size - 1, &transcript, &error))
                fail_msg("%s", error.message);
        }
        bytes_free(&bytes);
    }
    if (directory) closedir(directory);
    return transcript;
}

int ranks_turns_kept(const char *home) {
    Transcript *transcript = ranks_kept(home);
    const int n = transcript ? transcript_tree(transcript)->n : 0;
    transcript_free(transcript);
    return n;
}

void ranks_forget(const char *home) {
    char command[ROOM];
    Run run;
    snprintf(command, sizeof command, "rm -rf %s/palaver/conversations", home);
    program_shell(&run, command);
    program_free(&run);
}
