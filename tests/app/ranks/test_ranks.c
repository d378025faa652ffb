// A model over several processes of this host: they say what one says, and refuse whom they do not know.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/ranks/rank_process.h"
#include "tests/support/ranks/ranks.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY_AT_ONCE                                                                                         \
    BABBLER "|--seed=1|--max-tokens=4|--threads=1|--device=cpu|--context=64|--jsonl|--ordered|--parallel=3"

enum { ROOM = 600, SOON = 10 };

static void they_say_what_one_says(void **state) {
    (void)state;
    char said[4096];
    Run alone;
    program_run(&alone, RANKS_TALK, RANKS_SCRIPT);
    expect_status(&alone, 0);
    RankProcess first, other;
    rank_start_both("", &first, &other);
    rank_tell_all(&first, RANKS_SCRIPT);
    size_t n = 0;
    for (ssize_t got; (got = read(first.out, said + n, sizeof said - 1 - n)) > 0;) n += (size_t)got;
    said[n] = 0;
    assert_int_equal(rank_wait(&first, SOON), 0);
    assert_int_equal(rank_wait(&other, SOON), 0);
    assert_string_equal(said, alone.out);
    assert_int_equal(other.said.size, 0);
    rank_end(&first), rank_end(&other);
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
    RankProcess other = rank_start("", 1, address);
    snprintf(arguments, sizeof arguments, MANY_AT_ONCE "|--world=2|--rank=0|--join=%s", address);
    program_run(&both, arguments, MANY);
    expect_status(&both, 0);
    assert_int_equal(rank_wait(&other, SOON), 0);
    drop_seconds(both.out), drop_seconds(alone.out);
    assert_string_equal(both.out, alone.out);
    rank_end(&other);
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
        RankProcess first = rank_start(CASES[i].first, 0, address), other;
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
            other = rank_start(CASES[i].other, 1, address);
            assert_int_not_equal(rank_wait(&other, SOON), 0);
            if (!strstr((char *)other.said.data, CASES[i].heard)) fail_msg("%s", (char *)other.said.data);
            rank_end(&other);
        }
        if (CASES[i].told) {
            assert_int_not_equal(rank_wait(&first, SOON), 0);
            if (!strstr((char *)first.said.data, CASES[i].told)) fail_msg("%s", (char *)first.said.data);
        } else { // it waits for one who knows the key
            other = rank_start("", 1, address);
            rank_tell_all(&first, "Hello.\n");
            assert_int_equal(rank_wait(&first, SOON), 0);
            assert_int_equal(rank_wait(&other, SOON), 0);
            rank_end(&other);
        }
        rank_end(&first);
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
    RankProcess first = rank_start("", 0, address);
    snprintf(arguments, sizeof arguments, "%s/babbler|--device=cpu|--world=2|--rank=1|--join=%s",
             (char *)*state, address);
    program_run(&run, arguments, "");
    expect_status(&run, 3);
    expect_err(&run, "has refused this rank: its model file is another one than rank 0's: "
                     "model.layers.1.self_attn.o_proj.weight has other bytes");
    program_free(&run);
    assert_int_equal(rank_wait(&first, SOON), 3);
    if (!strstr((char *)first.said.data, "rank 1 (127.0.0.1): its model file is another one than rank 0's: "
                                         "model.layers.1.self_attn.o_proj.weight has other bytes"))
        fail_msg("%s", (char *)first.said.data);
    rank_end(&first);
}

static void what_is_missing_is_said(void **state) {
    (void)state;
    program_says(RANKS_TALK "|--world=2|--rank=0", "", 2, "--join HOST:PORT");
    program_says(RANKS_TALK "|--world=2", "", 2, "--world 2: --rank is missing");
    program_says(RANKS_TALK "|--rank=0", "", 2, "--rank 0: --world is missing");
    program_says(RANKS_TALK "|--rank=1|--join=localhost:1", "", 2, "--rank 1: --world is missing");
    program_says(RANKS_TALK "|--world=2|--rank=2|--join=localhost:1", "", 2, "ranks from 0 on");
    program_says(RANKS_TALK "|--world=1|--rank=1", "", 2, "ranks from 0 on");
    program_says(RANKS_TALK "|--world=3|--rank=0|--join=localhost:1", "", 3,
                 "3 ranks: the model has 2 layers");
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
        snprintf(arguments, sizeof arguments, RANKS_TALK "|--world=2|--rank=%d|--join=%s", (int)(i % 2),
                 CASES[i].join);
        program_says(arguments, "", 2, CASES[i].says);
    }
}

#define RANKS(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        RANKS(they_say_what_one_says),    RANKS(they_answer_many_at_once),
        RANKS(who_is_another_is_refused), RANKS(a_file_with_another_byte_is_refused),
        RANKS(what_is_missing_is_said),   RANKS(an_address_that_cannot_be_is_refused),
    };
    return test_main("ranks", argc, argv, tests);
}
