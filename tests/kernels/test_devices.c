// Which device is used, why not another, and what becomes of a conversation when one is lost. The GPU is a plug-in for
// tests (tests/plugin/faulty.c) beside a palaver of its own, in the folder `faulty` beside the tested one.
#include "tests/support/terminal/prompt.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALK BABBLER "|--max-tokens|8|--seed|1"

static char plain_program[300]; // the tested one, without a plug-in

// From here on the palaver that has a GPU, or seems to.
static void take_gpu(const char *fault) {
    char path[400];
    const char *slash = strrchr(plain_program, '/');
    snprintf(path, sizeof path, "%.*s/faulty/palaver", slash ? (int)(slash - plain_program) : 1,
             slash ? plain_program : ".");
    setenv("PALAVER", path, 1);
    setenv("FAULTY", fault, 1);
}

static void run_with_gpu(Run *run, const char *fault, const char *arguments, const char *input) {
    take_gpu(fault);
    program_run(run, arguments, input);
    setenv("PALAVER", plain_program, 1);
}

static void without_a_plugin(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK "|--device|cuda", "Hello\n");
    expect_status(&run, 3);
    expect_err(&run, "no CUDA plug-in beside palaver");
    program_free(&run);
    program_run(&run, TALK, "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_err(&run, "cpu: ");
    expect_err(&run, "(no CUDA plug-in");
    program_free(&run);
    program_run(&run, "--version", "");
    expect_out(&run, "backends: cpu (no CUDA plug-in");
    program_free(&run);
    program_run(&run, TALK "|--device|cpu", "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_no_err(&run, "plug-in"); // nobody asked
    program_free(&run);
}

static void without_a_driver(void **state) {
    (void)state;
    Run run;
    run_with_gpu(&run, "no-driver", TALK "|--device|cuda", "Hello\n");
    expect_status(&run, 3);
    expect_err(&run, "no NVIDIA GPU\n");
    assert_int_equal(run.out_size, 0);
    program_free(&run);
    run_with_gpu(&run, "no-driver", TALK, "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_err(&run, "cpu: ");
    expect_err(&run, "(no NVIDIA GPU)");
    program_free(&run);
    run_with_gpu(&run, "no-driver", "--version", "");
    expect_status(&run, 0);
    expect_out(&run, "backends: cpu; cuda: no NVIDIA GPU (none on the PCI bus, and no driver)\n");
    program_free(&run);
}

// An error where a GPU is asked for, the CPU and the reason where it is not.
static void expect_refused(const char *fault, const char *device, const char *why) {
    Run run;
    char arguments[300], note[300];
    snprintf(arguments, sizeof arguments, TALK "|--device|%s", device);
    snprintf(note, sizeof note, "(%s)", why);
    run_with_gpu(&run, fault, arguments, "Hello\n");
    expect_status(&run, 3);
    expect_err(&run, why);
    assert_int_equal(run.out_size, 0);
    program_free(&run);
    run_with_gpu(&run, fault, TALK, "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_err(&run, "cpu: ");
    expect_err(&run, note);
    program_free(&run);
}

static void an_old_driver(void **state) {
    (void)state;
    Run run;
    static const char why[] =
        "the NVIDIA driver knows CUDA 12.4 only, palaver needs 13.0: update the driver to 580 or newer";
    expect_refused("old-driver", "cuda", why);
    run_with_gpu(&run, "old-driver", "--version", "");
    expect_out(&run, why);
    program_free(&run);
}

static void an_old_card(void **state) {
    (void)state;
    Run run;
    expect_refused(
        "old-card", "cuda:0",
        "Paper Cat has compute capability 7.5, palaver needs 8.0 (RTX 30, A100 or newer): --device "
        "cpu does without");
    run_with_gpu(&run, "old-card", "--version", "");
    expect_out(&run, "backends: cpu; cuda:0 Paper Cat, 0 GB (compute capability 7.5: too old)\n");
    program_free(&run);
}

// At the prompt it is told before the first word, where there is a GPU, or layers are to lie on one. Who has none is not
// told so every day.
static void the_banner_says_why(void **state) {
    (void)state;
    static const struct {
        const char *fault, *arguments, *said;
    } cases[] = {{"no-driver", TALK, NULL},
                 {"no-driver", TALK "|--gpu-layers=1", "not on the GPU: no NVIDIA GPU\r\n"},
                 {"old-driver", TALK "|--gpu-layers=2", "not on the GPU: the NVIDIA driver knows CUDA 12.4"},
                 {"old-card", TALK, "not on the GPU: Paper Cat has compute capability 7.5"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        take_gpu(cases[i].fault);
        Pty *pty = prompt_start(cases[i].arguments, NULL);
        pty_expect(pty, "cpu: ");
        if (cases[i].said) pty_expect(pty, cases[i].said);
        pty_expect(pty, "> ");
        if (!cases[i].said) assert_null(strstr(pty_transcript(pty), "GPU"));
        prompt_say(pty, "/model", "babbler"); // the banner again
        assert_true((strstr(pty_transcript(pty), "GPU") != NULL) == (cases[i].said != NULL));
        prompt_say(pty, "/stats", "backend       cpu: ");
        prompt_leave(pty);
    }
    setenv("PALAVER", plain_program, 1);
}

// The one that is asked for, else the first that will do.
static void two_cards(void **state) {
    (void)state;
    static const char *const well[] = {TALK, TALK "|--device|cuda", TALK "|--device|cuda:1"};
    Run run;
    for (int i = 0; i < 3; i++) {
        run_with_gpu(&run, "two-cards", well[i], "Hello\n/stats\n");
        expect_status(&run, 0);
        expect_err(&run, "cuda: ");
        program_free(&run);
    }
    run_with_gpu(&run, "two-cards", TALK "|--device|cuda:0", "Hello\n");
    expect_status(&run, 3);
    expect_err(&run, "or newer): take cuda:1, Paper Tiger");
    program_free(&run);
    run_with_gpu(&run, "two-cards", TALK "|--device|cuda:2", "Hello\n");
    assert_int_not_equal(run.status, 0);
    expect_err(&run, "device \"cuda:2\": there are 2, cuda:0 and on");
    program_free(&run);
    run_with_gpu(&run, "two-cards", "--version", "");
    expect_out(&run,
               "; cuda:0 Paper Cat, 0 GB (compute capability 7.5: too old); cuda:1 Paper Tiger, 1 GB\n");
    program_free(&run);
}

static void memory_that_others_take(void **state) {
    (void)state;
    Run run;
    run_with_gpu(&run, "filled", TALK "|--device|cuda", "Hello\n");
    expect_status(&run, 3);
    expect_err(&run, "another program filled the GPU's memory while palaver loaded (");
    expect_err(&run, " is needed, 900 MB was free): close it (nvidia-smi lists them), or use --device cpu\n");
    assert_int_equal(run.out_size, 0);
    program_free(&run);
    run_with_gpu(&run, "filled", TALK, "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_err(&run, "cpu: ");
    expect_err(&run, "(another program filled the GPU's memory");
    program_free(&run);
}

static void with_a_gpu(void **state) {
    (void)state;
    Run run;
    run_with_gpu(&run, "", "--version", "");
    expect_out(&run, "backends: cpu; cuda:0 Paper Tiger, 1 GB\n");
    program_free(&run);
    run_with_gpu(&run, "", TALK, "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_err(&run, "cuda: ");
    program_free(&run);
    run_with_gpu(&run, "", TALK "|--device|cpu", "Hello\n/stats\n");
    expect_err(&run, "cpu: ");
    program_free(&run);
}

static void too_little_memory(void **state) {
    (void)state;
    Run run;
    run_with_gpu(&run, "memory", TALK "|--device|cuda", "Hello\n");
    expect_status(&run, 3);
    expect_err(&run, " is needed (weights ");
    expect_err(&run, "1.0 MB is free");
    program_free(&run);
    run_with_gpu(&run, "memory", TALK, "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_err(&run, "cpu: ");
    expect_err(&run, "1.0 MB is free");
    program_free(&run);
}

// What steps take is counted for the rows and the context that are chosen.
static void steps_of_rows_take_memory(void **state) {
    (void)state;
    Run run;
    run_with_gpu(&run, "steps", TALK "|--device|cuda|--context|8192", "Hello\n");
    expect_status(&run, 3);
    expect_err(&run, " is needed (weights ");
    program_free(&run);
    run_with_gpu(&run, "steps", TALK "|--device|cuda|--context|1024", "Hello\n");
    expect_status(&run, 0);
    program_free(&run);
    run_with_gpu(&run, "steps", TALK "|--device|cuda|--context|1024|--jsonl|--parallel|8", "");
    expect_status(&run, 3);
    program_free(&run);
    run_with_gpu(&run, "steps", TALK "|--device|cuda|--context|512|--jsonl|--parallel|8", "");
    expect_status(&run, 0);
    program_free(&run);
}

static void expect_in_journal(const char *part, int times) {
    Run run;
    program_shell(&run, "cat $XDG_STATE_HOME/palaver/conversations/*.jsonl");
    assert_int_equal(program_count(run.out, part), times);
    program_free(&run);
}

// What was said before the device was lost is in the journal, and so is what was asked; nothing is tried after it.
static void a_lost_device(void **state) {
    (void)state;
    Run run, again;
    run_with_gpu(&run, "fatal", TALK "|--keep-going", "First question\nSecond question\nThird question\n");
    expect_status(&run, 1);
    expect_err(&run, "stdin:2: ");
    expect_err(&run, "illegal memory access");
    expect_no_err(&run, "stdin:3: ");
    program_free(&run);
    expect_in_journal("\"asked\"", 1);
    expect_in_journal("Second question", 1);
    program_run(&again, "--resume|--max-tokens|4", "/stats\n");
    expect_status(&again, 0);
    expect_err(&again, "1 turn");
    program_free(&again);
}

// In the first turn of all: the reply so far ends as a Ctrl-C ends it, and goes on where the device is there again.
static void a_device_lost_in_a_reply(void **state) {
    (void)state;
    static const char *const ways[] = {TALK "|--ignore-eos|--stats",
                                       TALK "|--ignore-eos|--stats|-p|A question"};
    for (int i = 0; i < 2; i++) {
        Run run, again;
        run_with_gpu(&run, "halfway", ways[i], i ? "" : "A question\n");
        expect_status(&run, 1);
        expect_err(&run, "illegal memory access");
        expect_err(&run, " read, 5 said | ");
        assert_true(run.out_size > 1);
        program_free(&run);
        expect_in_journal("\"asked\"", 0);
        expect_in_journal("\"interrupted\":true", 1);
        program_run(&again, "--resume|--max-tokens|4", "/stats\n/continue\n");
        expect_status(&again, 0);
        expect_err(&again, "1 turn");
        program_free(&again);
        program_shell(&run, "rm $XDG_STATE_HOME/palaver/conversations/*");
        program_free(&run);
    }
}

// Of many conversations those that are answered are written, the others named.
static void a_lost_device_under_many(void **state) {
    (void)state;
    Run run;
    run_with_gpu(&run, "fatal", TALK "|--jsonl|--parallel|2",
                 "{\"id\": 1, \"turns\": [\"First\"]}\n{\"id\": 2, \"turns\": [\"Second\"]}\n{\"id\": 3, "
                 "\"turns\": [\"Third\"]}\n");
    expect_status(&run, 1);
    expect_err(&run, "illegal memory access");
    expect_err(&run, "not answered: line");
    expect_no_err(&run, "[3 answered");
    program_free(&run);
}

// Where weights are uploaded, one layer's room serves all, and the text is that of the CPU, which keeps each layer's.
static void converted_weights(void **state) {
    (void)state;
    static const char *const types[] = {"f16", "bf16", "int8"};
    for (int i = 0; i < 3; i++) {
        Run cpu, run;
        char arguments[200];
        snprintf(arguments, sizeof arguments, TALK "|--weights=%s|--head=int8|--device", types[i]);
        char on_cpu[240], on_gpu[240];
        snprintf(on_cpu, sizeof on_cpu, "%s|cpu", arguments);
        snprintf(on_gpu, sizeof on_gpu, "%s|cuda", arguments);
        program_run(&cpu, on_cpu, "Hello\n");
        run_with_gpu(&run, "", on_gpu, "Hello\n");
        expect_status(&cpu, 0);
        expect_status(&run, 0);
        assert_string_equal(run.out, cpu.out);
        program_free(&cpu);
        program_free(&run);
    }
}

// A card without kernels for them: an error where it is asked for, else the CPU, and why.
static void a_card_without_int8(void **state) {
    (void)state;
    Run run;
    run_with_gpu(&run, "no-w8", TALK "|--device|cuda|--weights=int8", "Hello\n");
    expect_status(&run, 3);
    expect_err(&run,
               "cuda has no kernels for int8 weights; take weights and head = \"own\", or another device");
    assert_int_equal(run.out_size, 0);
    program_free(&run);
    run_with_gpu(&run, "no-w8", TALK "|--weights=int8", "Hello\n/stats\n");
    expect_status(&run, 0);
    expect_err(&run, "cpu: ");
    expect_err(&run, "(cuda has no kernels for int8 weights");
    program_free(&run);
    run_with_gpu(&run, "no-w8", TALK "|--device|cuda|--weights=f16", "Hello\n");
    expect_status(&run, 0);
    program_free(&run);
}

int main(int argc, char **argv) {
    snprintf(plain_program, sizeof plain_program, "%s",
             getenv("PALAVER") ? getenv("PALAVER") : "build/san/palaver");
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(without_a_plugin),
        WITH_HOME(without_a_driver),
        WITH_HOME(an_old_driver),
        WITH_HOME(an_old_card),
        WITH_HOME(the_banner_says_why),
        WITH_HOME(two_cards),
        WITH_HOME(memory_that_others_take),
        WITH_HOME(with_a_gpu),
        WITH_HOME(too_little_memory),
        WITH_HOME(steps_of_rows_take_memory),
        WITH_HOME(a_lost_device),
        WITH_HOME(a_device_lost_in_a_reply),
        WITH_HOME(a_lost_device_under_many),
        WITH_HOME(converted_weights),
        WITH_HOME(a_card_without_int8),
    };
    return test_main("devices", argc, argv, tests);
}
