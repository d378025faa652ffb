// A model over several processes of this host: they say what one says, refuse whom they do not know, and if one of them
// dies or hangs the other ends within ten seconds, with a message, and with all that was finished in the journal.
#include "app/record/transcript.h"
#include "kernels/base/clock.h"
#include "tests/support/files.h"
#include "tests/support/patience.h"
#include "tests/support/program.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TALK BABBLER "|--seed=1|--max-tokens=4|--threads=1|--device=cpu|--context=512"

#define MANY_AT_ONCE                                                                                         \
    BABBLER "|--seed=1|--max-tokens=4|--threads=1|--device=cpu|--context=64|--jsonl|--ordered|--parallel=3"

enum { KILLS = 20, READING_KILLS = 10, TURNS = 12, ROOM = 600, SOON = 10 };

static const char SCRIPT[] =
    "Question 0.\nQuestion 1.\nQuestion 2.\nQuestion 3.\nQuestion 4.\nQuestion 5.\n"
    "Question 6.\nQuestion 7.\nQuestion 8.\nQuestion 9.\nQuestion 10.\nQuestion 11.\n";

// ---- two processes --------------------------------------------------------------------------------------------------

// One of them: what it is told on stdin, and what it says on stderr, and on stdout.
typedef struct Child {
    pid_t pid;
    int in, err, out;
    Bytes said; // on stderr
} Child;

static Child start(const char *more, int rank, const char *address) {
    int in[2], err[2], out[2];
    char arguments[ROOM];
    Child c = {0};
    snprintf(arguments, sizeof arguments, TALK "|--stats|--world=2|--rank=%d|--join=%s%s", rank, address,
             more);
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

// Reads its stderr until it has told of so many turns, or ends.
static bool read_turns(Child *c, int n) {
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

// Its exit status, or 128 and the signal; it has so many seconds to end in.
static int wait_for(Child *c, int seconds) {
    seconds = patience(seconds);
    const double until = clock_seconds() + seconds;
    int status;
    while (waitpid(c->pid, &status, WNOHANG) == 0) {
        if (clock_seconds() > until) {
            kill(c->pid, SIGKILL);
            waitpid(c->pid, &status, 0);
            (void)read_turns(c, 1 << 20);
            fail_msg("a process has not ended within %d seconds\n%s", seconds, (char *)c->said.data);
        }
        usleep(2000);
    }
    (void)read_turns(c, 1 << 20);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void end(Child *c) {
    if (c->in >= 0) close(c->in);
    close(c->err), close(c->out);
    bytes_free(&c->said);
}

static void tell(Child *c, const char *text) {
    assert_int_equal(write(c->in, text, strlen(text)), strlen(text));
}

static void tell_all(Child *c, const char *text) {
    tell(c, text);
    close(c->in);
    c->in = -1;
}

// The only journal there is; NULL: there is none.
static Transcript *kept(const char *home) {
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

// Turns in the only journal there is; 0: there is none.
static int turns_kept(const char *home) {
    Transcript *transcript = kept(home);
    const int n = transcript ? transcript_tree(transcript)->n : 0;
    transcript_free(transcript);
    return n;
}

static void forget(const char *home) {
    char command[ROOM];
    Run run;
    snprintf(command, sizeof command, "rm -rf %s/palaver/conversations", home);
    program_shell(&run, command);
    program_free(&run);
}

// ---- what they say ------------------------------------------------------------------------------------------------

static void they_say_what_one_says(void **state) {
    (void)state;
    char address[64], said[4096];
    Run alone;
    program_run(&alone, TALK, SCRIPT);
    expect_status(&alone, 0);
    ranks_address(address);
    Child other = start("", 1, address), first = start("", 0, address);
    tell_all(&first, SCRIPT);
    size_t n = 0;
    for (ssize_t got; (got = read(first.out, said + n, sizeof said - 1 - n)) > 0;) n += (size_t)got;
    said[n] = 0;
    assert_int_equal(wait_for(&first, SOON), 0);
    assert_int_equal(wait_for(&other, SOON), 0);
    assert_string_equal(said, alone.out);
    assert_int_equal(other.said.size, 0);
    end(&first), end(&other);
    program_free(&alone);
}

// What differs from run to run.
static void drop_seconds(char *text) {
    static const char NAME[] = "\"seconds\": ";
    for (char *at = text; (at = strstr(at, NAME)) != NULL; at++) {
        char *number = at + strlen(NAME);
        const size_t n = strspn(number, "0123456789.e-");
        memmove(number, number + n, strlen(number + n) + 1);
    }
}

// Many conversations at once, which share pages.
static void they_answer_many_at_once(void **state) {
    (void)state;
    static const char MANY[] = "{\"turns\": [\"a\", \"b\"]}\n{\"turns\": [\"c\"]}\n"
                               "{\"turns\": [\"a\", \"d\", \"e\"]}\n{\"turns\": [\"f\"]}\n";
    char address[64], arguments[ROOM];
    Run alone, both;
    program_run(&alone, MANY_AT_ONCE, MANY);
    expect_status(&alone, 0);
    ranks_address(address);
    Child other = start("", 1, address);
    snprintf(arguments, sizeof arguments, MANY_AT_ONCE "|--world=2|--rank=0|--join=%s", address);
    program_run(&both, arguments, MANY);
    expect_status(&both, 0);
    assert_int_equal(wait_for(&other, SOON), 0);
    drop_seconds(both.out), drop_seconds(alone.out);
    assert_string_equal(both.out, alone.out);
    end(&other);
    program_free(&alone), program_free(&both);
}

static void who_is_another_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *first, *other; // more arguments
        const char *told, *heard;  // by the first and the other
    } CASES[] = {
        {"", "|--join-key=another", NULL, "another key"},
        {"", "|--world=3", "rank 1 of 3, of 2 here", "rank 1 of 3, of 2 here"},
        {"", "|assets/parley-9m", "its model is another one", "its model is another one"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char address[64];
        ranks_address(address);
        Child first = start(CASES[i].first, 0, address), other;
        if (i == 2) { // an operand takes the place of another
            Run run;
            char arguments[ROOM];
            snprintf(arguments, sizeof arguments,
                     "assets/parley-9m|--device=cpu|--world=2|--rank=1|--join=%s", address);
            program_run(&run, arguments, "");
            expect_status(&run, 2);
            expect_err(&run, CASES[i].heard);
            program_free(&run);
        } else {
            other = start(CASES[i].other, 1, address);
            assert_int_not_equal(wait_for(&other, SOON), 0);
            if (!strstr((char *)other.said.data, CASES[i].heard)) fail_msg("%s", (char *)other.said.data);
            end(&other);
        }
        if (CASES[i].told) {
            assert_int_not_equal(wait_for(&first, SOON), 0);
            if (!strstr((char *)first.said.data, CASES[i].told)) fail_msg("%s", (char *)first.said.data);
        } else { // it waits for one who knows the key
            other = start("", 1, address);
            tell_all(&first, "Hello.\n");
            assert_int_equal(wait_for(&first, SOON), 0);
            assert_int_equal(wait_for(&other, SOON), 0);
            end(&other);
        }
        end(&first);
    }
}

// One bit of a weight that it uses, behind what is compared when they meet: both say which.
static void a_file_with_another_byte_is_refused(void **state) {
    enum { AT = 176640 + 600 }; // of the data: in the first eighth of the weight that is named below
    char address[64], folder[ROOM], arguments[2 * ROOM];
    Run run;
    snprintf(arguments, sizeof arguments, "cp -r " BABBLER " %s/", (char *)*state);
    program_shell(&run, arguments);
    expect_status(&run, 0);
    program_free(&run);
    snprintf(folder, sizeof folder, "%s/babbler/model.safetensors", (char *)*state);
    Bytes bytes = bytes_of_file(folder);
    uint64_t header;
    memcpy(&header, bytes.data, sizeof header);
    bytes.data[sizeof header + header + AT] ^= 1;
    FILE *file = fopen(folder, "wb");
    assert_true(file && fwrite(bytes.data, 1, bytes.size, file) == bytes.size && fclose(file) == 0);
    bytes_free(&bytes);
    ranks_address(address);
    Child first = start("", 0, address);
    snprintf(arguments, sizeof arguments, "%s/babbler|--device=cpu|--world=2|--rank=1|--join=%s",
             (char *)*state, address);
    program_run(&run, arguments, "");
    expect_status(&run, 3);
    expect_err(&run, "has refused this rank: its model file is another one than rank 0's: "
                     "model.layers.1.self_attn.o_proj.weight has other bytes");
    program_free(&run);
    assert_int_equal(wait_for(&first, SOON), 3);
    if (!strstr((char *)first.said.data, "rank 1 (127.0.0.1): its model file is another one than rank 0's: "
                                         "model.layers.1.self_attn.o_proj.weight has other bytes"))
        fail_msg("%s", (char *)first.said.data);
    end(&first);
}

static void what_is_missing_is_said(void **state) {
    (void)state;
    program_says(TALK "|--world=2|--rank=0", "", 2, "--join HOST:PORT");
    program_says(TALK "|--world=2", "", 2, "--world 2: --rank is missing");
    program_says(TALK "|--rank=0", "", 2, "--rank 0: --world is missing");
    program_says(TALK "|--rank=1|--join=localhost:1", "", 2, "--rank 1: --world is missing");
    program_says(TALK "|--world=2|--rank=2|--join=localhost:1", "", 2, "ranks from 0 on");
    program_says(TALK "|--world=1|--rank=1", "", 2, "ranks from 0 on");
    program_says(TALK "|--world=3|--rank=0|--join=localhost:1", "", 3, "3 ranks: the model has 2 layers");
}

static void an_address_that_cannot_be_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *join, *says;
    } CASES[] = {
        {"localhost", "expected HOST:PORT"},
        {":7000", "expected HOST:PORT"},
        {"[::1", "expected HOST:PORT"},
        {"[::1]", "expected HOST:PORT"},
        {"127.0.0.1:", "port: 1 to 65535"},
        {"127.0.0.1:0", "port: 1 to 65535"},
        {"127.0.0.1:65536", "port: 1 to 65535"},
        {"127.0.0.1:99999", "port: 1 to 65535"},
        {"127.0.0.1:12345678", "port: 1 to 65535"},
        {"127.0.0.1:18446744073709551617", "port: 1 to 65535"},
        {"127.0.0.1:+7000", "port: 1 to 65535"},
        {"127.0.0.1:-1", "port: 1 to 65535"},
        {"127.0.0.1: 7000", "port: 1 to 65535"},
        {"127.0.0.1:7000 ", "port: 1 to 65535"},
        {"127.0.0.1:7000x", "port: 1 to 65535"},
        {"[::1]:0", "port: 1 to 65535"},
        {"[::1]:99999", "port: 1 to 65535"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char arguments[ROOM];
        snprintf(arguments, sizeof arguments, TALK "|--world=2|--rank=%d|--join=%s", (int)(i % 2),
                 CASES[i].join);
        program_says(arguments, "", 2, CASES[i].says);
    }
}

// ---- who is lost --------------------------------------------------------------------------------------------------

typedef struct Kill {
    const char *more, *script;
    int after;      // turns; before the first they may not have met
    unsigned delay; // microseconds
    bool is_first;  // rank 0, else the other
} Kill;

// The other one ends with words, and what was finished is kept.
static void kill_one(const char *home, const Kill *k) {
    char address[64];
    ranks_address(address);
    Child other = start(k->more, 1, address), first = start(k->more, 0, address);
    tell(&first, k->script);
    (void)read_turns(&first, k->after);
    usleep(k->delay);
    kill(k->is_first ? first.pid : other.pid, SIGKILL);
    const double killed = clock_seconds();
    const int first_status = wait_for(&first, SOON), other_status = wait_for(&other, SOON);
    assert_true(clock_seconds() - killed < patience(SOON));
    Child *left = k->is_first ? &other : &first;
    assert_int_equal(k->is_first ? first_status : other_status, 128 + SIGKILL);
    if ((k->is_first ? other_status : first_status) == 0 || !strstr((char *)left->said.data, "lost"))
        fail_msg("killed %u us behind %d turns: %d\n%s", k->delay, k->after,
                 k->is_first ? other_status : first_status, (char *)left->said.data);
    const int told = program_count((char *)first.said.data, "[turn ");
    if (turns_kept(home) < told)
        fail_msg("killed %u us behind %d turns: %d were finished, %d are kept", k->delay, k->after, told,
                 turns_kept(home));
    end(&first), end(&other);
    forget(home);
}

// At twenty moments of a talk, one or the other.
static void one_is_killed(void **state) {
    uint32_t random = 20261123;
    for (int i = 0; i < KILLS; i++) {
        random = random * 1664525 + 1013904223;
        kill_one(*state, &(Kill){.more = "",
                                 .script = SCRIPT,
                                 .after = 1 + (int)(random >> 8) % (TURNS - 1),
                                 .delay = (random >> 16) % 4000,
                                 .is_first = i % 4 == 3});
    }
}

// A question whose prompt is read in pieces, of which each rank has one in hand.
static const char *long_question(void) {
    enum { LONG = 850 };
    static char text[LONG + 40] = "Question 0.\n";
    size_t n = strlen(text);
    while (n < LONG) text[n] = "many words "[n % 11], n++;
    text[n] = '\n';
    return text;
}

static void one_is_killed_while_it_reads(void **state) {
    uint32_t random = 57;
    for (int i = 0; i < READING_KILLS; i++) {
        random = random * 1664525 + 1013904223;
        kill_one(*state, &(Kill){.more = "|--context=1024",
                                 .script = long_question(),
                                 .after = 1,
                                 .delay = (random >> 8) % 60000,
                                 .is_first = i % 2});
    }
}

// One turn, whose reply was cut: it begins with the n bytes that were shown.
static void expect_kept(const char *home, const Child *first, const char *shown, size_t n) {
    Transcript *transcript = kept(home);
    if (!transcript) fail_msg("nothing is kept\n%s", (char *)first->said.data);
    assert_int_equal(transcript_tree(transcript)->n, 1);
    assert_null(transcript_asked(transcript));
    const TranscriptNode *node = transcript_node(transcript, 0);
    assert_string_equal(node->text, "Write a very long story");
    assert_true(node->reply.interrupted);
    if (node->reply.size < n) fail_msg("%zu bytes were shown, %zu are kept", n, node->reply.size);
    assert_memory_equal(node->reply.text, shown, n);
    transcript_free(transcript);
}

// The first turn's reply is on its way, and stdout has some of it: the question and what was shown are kept.
static void a_reply_that_breaks_off_is_kept(void **state) {
    enum { SHOWN = 200 };
    static char said[1 << 16];
    char address[64];
    const char *more = "|--ignore-eos|--max-tokens=100000";
    ranks_address(address);
    Child other = start(more, 1, address), first = start(more, 0, address);
    tell_all(&first, "Write a very long story\n");
    size_t n = 0;
    for (ssize_t got; (got = read(first.out, said + n, sizeof said - 1 - n)) > 0;) {
        if (n < SHOWN && n + (size_t)got >= SHOWN) kill(other.pid, SIGKILL);
        n += (size_t)got;
    }
    assert_int_equal(wait_for(&other, SOON), 128 + SIGKILL);
    assert_int_equal(wait_for(&first, SOON), 1);
    if (!strstr((char *)first.said.data, "is lost")) fail_msg("%s", (char *)first.said.data);
    while (n && said[n - 1] == '\n') n--;
    assert_true(n >= SHOWN);
    expect_kept(*state, &first, said, n);
    end(&first), end(&other);
}

// Waits until who writes to a pipe, pieces of a few bytes each, has to wait, for nobody reads it. A pause alone does not say
// so: reading again what a full context keeps takes seconds on a slow machine.
static void wait_until_full(int pipe, int room) {
    enum { PIECE = 64 };
    const double until = clock_seconds() + patience(60);
    for (int n = 0, before = -1; n != before || n <= room - PIECE; usleep((useconds_t)patience(1) * 500000)) {
        before = n;
        assert_int_equal(ioctl(pipe, FIONREAD, &n), 0);
        if (clock_seconds() > until) fail_msg("%d of %d bytes are written", n, room);
    }
}

// Nobody reads stdout, so that rank 0's thread waits to write, and cannot be told: another one ends the process, and keeps
// what was shown.
static void a_reply_that_is_stuck_is_kept(void **state) {
    enum { PIPE = 4096 };
    static char said[1 << 16];
    char address[64];
    const char *more = "|--ignore-eos|--max-tokens=100000";
    ranks_address(address);
    Child other = start(more, 1, address), first = start(more, 0, address);
    const int room = fcntl(first.out, F_SETPIPE_SZ, PIPE);
    assert_in_range(room, PIPE, sizeof said);
    tell_all(&first, "Write a very long story\n");
    wait_until_full(first.out, room);
    kill(other.pid, SIGKILL);
    assert_int_equal(wait_for(&other, SOON), 128 + SIGKILL);
    assert_int_equal(wait_for(&first, SOON), 1);
    const ssize_t n = read(first.out, said, sizeof said);
    assert_true(n > 0);
    if (!strstr((char *)first.said.data,
                "is lost: its process has ended; what was finished before, and this answer "
                "as far as it was shown, are kept"))
        fail_msg("%s", (char *)first.said.data);
    expect_kept(*state, &first, said, (size_t)n);
    end(&first), end(&other);
}

// No word of the reply has come: the question waits to be asked again.
static void a_question_whose_reading_breaks_off_is_kept(void **state) {
    char address[64];
    const char *more = "|--context=1024", *question = strchr(long_question(), '\n') + 1;
    ranks_address(address);
    Child other = start(more, 1, address), first = start(more, 0, address);
    tell(&first, "Question 0.\n");
    assert_true(read_turns(&first, 1));
    kill(other.pid, SIGSTOP); // its part of the prompt is never read
    tell_all(&first, question);
    usleep(300000);
    kill(other.pid, SIGKILL);
    assert_int_equal(wait_for(&first, SOON), 1);
    assert_int_equal(wait_for(&other, SOON), 128 + SIGKILL);
    Transcript *transcript = kept(*state);
    assert_non_null(transcript);
    assert_int_equal(transcript_tree(transcript)->n, 1);
    const char *asked = transcript_asked(transcript);
    if (!asked) {
        fail_msg("the question is not kept\n%s", (char *)first.said.data);
        return;
    }
    assert_int_equal(strlen(asked), strcspn(question, "\n"));
    assert_memory_equal(asked, question, strlen(asked));
    transcript_free(transcript);
    end(&first), end(&other);
}

// It is there, and does nothing: while the first computes with it, or waits for a question.
static void one_hangs(void **state) {
    for (int reads = 0; reads < 2; reads++) {
        char address[64];
        const char *more = reads ? "|--context=1024" : "";
        ranks_address(address);
        Child other = start(more, 1, address), first = start(more, 0, address);
        tell(&first, "Question 0.\nQuestion 1.\n");
        assert_true(read_turns(&first, 2));
        kill(other.pid, SIGSTOP);
        tell(&first, reads ? long_question() : "Question 2.\n");
        const int status = wait_for(&first, SOON);
        kill(other.pid, SIGCONT);
        assert_int_not_equal(wait_for(&other, SOON), 0);
        assert_int_not_equal(status, 0);
        if (!strstr((char *)first.said.data, "has not been heard of"))
            fail_msg("%s", (char *)first.said.data);
        assert_true(turns_kept(*state) >= 2);
        end(&first), end(&other);
        forget(*state);
    }
}

static void one_dies_while_nobody_asks(void **state) {
    (void)state;
    char address[64];
    ranks_address(address);
    Child other = start("", 1, address), first = start("", 0, address);
    tell(&first, "Question 0.\n");
    assert_true(read_turns(&first, 1));
    kill(other.pid, SIGKILL);
    assert_int_not_equal(wait_for(&first, SOON), 0);
    assert_int_equal(wait_for(&other, SOON), 128 + SIGKILL);
    if (!strstr((char *)first.said.data, "its process has ended")) fail_msg("%s", (char *)first.said.data);
    end(&first), end(&other);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
#define RANKS(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        RANKS(they_say_what_one_says),
        RANKS(they_answer_many_at_once),
        RANKS(who_is_another_is_refused),
        RANKS(a_file_with_another_byte_is_refused),
        RANKS(what_is_missing_is_said),
        RANKS(an_address_that_cannot_be_is_refused),
        RANKS(one_is_killed),
        RANKS(one_is_killed_while_it_reads),
        RANKS(a_reply_that_breaks_off_is_kept),
        RANKS(a_reply_that_is_stuck_is_kept),
        RANKS(a_question_whose_reading_breaks_off_is_kept),
        RANKS(one_hangs),
        RANKS(one_dies_while_nobody_asks),
    };
    return test_main("ranks", argc, argv, tests);
}
