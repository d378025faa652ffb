// Of several processes one dies or hangs: the others end within ten seconds, with a message, and all that was finished is in
// the journal.
#include "kernels/base/clock.h"
#include "tests/support/files.h"
#include "tests/support/patience.h"
#include "tests/support/program.h"
#include "tests/support/ranks/rank_process.h"
#include "tests/support/ranks/ranks.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { KILLS = 20, READING_KILLS = 10, ROOM = 600, SOON = 10 };

typedef struct Kill {
    const char *more, *script;
    int after;      // turns; before the first they may not have met
    unsigned delay; // microseconds
    bool is_first;  // rank 0, else the other
} Kill;

// The other one ends with words, and what was finished is kept.
static void kill_one(const char *home, const Kill *k) {
    RankProcess first, other;
    rank_start_both(k->more, &first, &other);
    rank_tell(&first, k->script);
    (void)rank_read_turns(&first, k->after);
    usleep(k->delay);
    kill(k->is_first ? first.pid : other.pid, SIGKILL);
    const double killed = clock_seconds();
    const int first_status = rank_wait(&first, SOON), other_status = rank_wait(&other, SOON);
    assert_true(clock_seconds() - killed < patience(SOON));
    RankProcess *left = k->is_first ? &other : &first;
    assert_int_equal(k->is_first ? first_status : other_status, 128 + SIGKILL);
    if ((k->is_first ? other_status : first_status) == 0 || !strstr((char *)left->said.data, "lost"))
        fail_msg("killed %u us behind %d turns: %d\n%s", k->delay, k->after,
                 k->is_first ? other_status : first_status, (char *)left->said.data);
    const int told = program_count((char *)first.said.data, "[turn ");
    if (ranks_turns_kept(home) < told)
        fail_msg("killed %u us behind %d turns: %d were finished, %d are kept", k->delay, k->after, told,
                 ranks_turns_kept(home));
    rank_end(&first), rank_end(&other);
    ranks_forget(home);
}

// At twenty moments of a talk, one or the other.
static void one_is_killed(void **state) {
    uint32_t random = 20261123;
    for (int i = 0; i < KILLS; i++) {
        random = random * 1664525 + 1013904223;
        kill_one(*state, &(Kill){.more = "",
                                 .script = RANKS_SCRIPT,
                                 .after = 1 + (int)(random >> 8) % (RANKS_TURNS - 1),
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
static void expect_kept(const char *home, const RankProcess *first, const char *shown, size_t n) {
    Transcript *transcript = ranks_kept(home);
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
    const char *more = "|--ignore-eos|--max-tokens=100000";
    RankProcess first, other;
    rank_start_both(more, &first, &other);
    rank_tell_all(&first, "Write a very long story\n");
    size_t n = 0;
    for (ssize_t got; (got = read(first.out, said + n, sizeof said - 1 - n)) > 0;) {
        if (n < SHOWN && n + (size_t)got >= SHOWN) kill(other.pid, SIGKILL);
        n += (size_t)got;
    }
    assert_int_equal(rank_wait(&other, SOON), 128 + SIGKILL);
    assert_int_equal(rank_wait(&first, SOON), 1);
    if (!strstr((char *)first.said.data, "is lost")) fail_msg("%s", (char *)first.said.data);
    while (n && said[n - 1] == '\n') n--;
    assert_true(n >= SHOWN);
    expect_kept(*state, &first, said, n);
    rank_end(&first), rank_end(&other);
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

enum { PIPE = 4096, SAID = 1 << 16 };

// Nobody reads stdout, so that rank 0's thread waits to write, and cannot be told.
static void begin_stuck(RankProcess *first, RankProcess *other, const char *script) {
    rank_start_both("|--ignore-eos|--max-tokens=100000", first, other);
    const int room = fcntl(first->out, F_SETPIPE_SZ, PIPE);
    assert_in_range(room, PIPE, SAID);
    rank_tell_all(first, script);
    wait_until_full(first->out, room);
}

// Another thread ends the process, with these words, and keeps what was shown.
static void end_stuck(const char *home, RankProcess *first, RankProcess *other, const char *words) {
    static char said[SAID];
    kill(other->pid, SIGKILL);
    assert_int_equal(rank_wait(other, SOON), 128 + SIGKILL);
    assert_int_equal(rank_wait(first, SOON), 1);
    const ssize_t n = read(first->out, said, sizeof said);
    assert_true(n > 0);
    if (!strstr((char *)first->said.data, words)) fail_msg("%s", (char *)first->said.data);
    expect_kept(home, first, said, (size_t)n);
    rank_end(first), rank_end(other);
}

#define ARE_KEPT                                                                                             \
    "is lost: its process has ended; what was finished before, and this answer as far as it was shown, are " \
    "kept"

static void a_reply_that_is_stuck_is_kept(void **state) {
    RankProcess first, other;
    begin_stuck(&first, &other, "Write a very long story\n");
    end_stuck(*state, &first, &other, ARE_KEPT "\n");
}

// Meanwhile another program has put a file in the place of the journal.
static void a_reply_is_kept_under_another_name(void **state) {
    char path[ROOM];
    RankProcess first, other;
    begin_stuck(&first, &other, "/new pond\nWrite a very long story\n");
    snprintf(path, sizeof path, "%s/palaver/conversations/pond.jsonl", (char *)*state);
    assert_int_equal(unlink(path), 0);
    fclose(fopen(path, "w"));
    end_stuck(*state, &first, &other,
              ARE_KEPT "; the name pond is taken: this conversation is kept as pond-2\n");
}

// No word of the reply has come: the question waits to be asked again.
static void a_question_whose_reading_breaks_off_is_kept(void **state) {
    const char *more = "|--context=1024", *question = strchr(long_question(), '\n') + 1;
    RankProcess first, other;
    rank_start_both(more, &first, &other);
    rank_tell(&first, "Question 0.\n");
    assert_true(rank_read_turns(&first, 1));
    kill(other.pid, SIGSTOP); // its part of the prompt is never read
    rank_tell_all(&first, question);
    usleep(300000);
    kill(other.pid, SIGKILL);
    assert_int_equal(rank_wait(&first, SOON), 1);
    assert_int_equal(rank_wait(&other, SOON), 128 + SIGKILL);
    Transcript *transcript = ranks_kept(*state);
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
    rank_end(&first), rank_end(&other);
}

// It is there, and does nothing: while the first computes with it, or waits for a question.
static void one_hangs(void **state) {
    for (int reads = 0; reads < 2; reads++) {
        const char *more = reads ? "|--context=1024" : "";
        RankProcess first, other;
        rank_start_both(more, &first, &other);
        rank_tell(&first, "Question 0.\nQuestion 1.\n");
        assert_true(rank_read_turns(&first, 2));
        kill(other.pid, SIGSTOP);
        rank_tell(&first, reads ? long_question() : "Question 2.\n");
        const int status = rank_wait(&first, SOON);
        kill(other.pid, SIGCONT);
        assert_int_not_equal(rank_wait(&other, SOON), 0);
        assert_int_not_equal(status, 0);
        if (!strstr((char *)first.said.data, "has not been heard of"))
            fail_msg("%s", (char *)first.said.data);
        assert_true(ranks_turns_kept(*state) >= 2);
        rank_end(&first), rank_end(&other);
        ranks_forget(*state);
    }
}

static void one_dies_while_nobody_asks(void **state) {
    (void)state;
    RankProcess first, other;
    rank_start_both("", &first, &other);
    rank_tell(&first, "Question 0.\n");
    assert_true(rank_read_turns(&first, 1));
    kill(other.pid, SIGKILL);
    assert_int_not_equal(rank_wait(&first, SOON), 0);
    assert_int_equal(rank_wait(&other, SOON), 128 + SIGKILL);
    if (!strstr((char *)first.said.data, "its process has ended")) fail_msg("%s", (char *)first.said.data);
    rank_end(&first), rank_end(&other);
}

#define RANKS(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        RANKS(one_is_killed),
        RANKS(one_is_killed_while_it_reads),
        RANKS(a_reply_that_breaks_off_is_kept),
        RANKS(a_reply_that_is_stuck_is_kept),
        RANKS(a_reply_is_kept_under_another_name),
        RANKS(a_question_whose_reading_breaks_off_is_kept),
        RANKS(one_hangs),
        RANKS(one_dies_while_nobody_asks),
    };
    return test_main("ranks lost", argc, argv, tests);
}
