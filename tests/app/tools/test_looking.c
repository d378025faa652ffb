// The subcommands that look at a model, and at what is set.
#include "tests/support/program.h"
#include "tests/support/terminal/prompt.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

static void test_inspect(void **state) {
    (void)state;
    Run run;
    program_run(&run, "inspect|" BABBLER, "");
    expect_status(&run, 0);
    expect_out(&run, "architecture  llama");
    program_free(&run);
    program_run(&run, "inspect|" BABBLER "|--device|cpu|--context|64", "");
    expect_status(&run, 0);
    expect_out(&run, "plan          cpu: ");
    expect_out(&run, "; context 64 tokens (");
    expect_out(&run, "layers        all 2: weights ");
    program_free(&run);
    program_run(&run, "inspect|" BABBLER "|--device|cpu|--gpu-layers|1", "");
    expect_status(&run, 0);
    expect_out(&run, "layers        the last 1 and the head on the device: weights ");
    expect_out(&run, "              the first 1 on the CPU: weights ");
    program_free(&run);
    program_run(&run, "inspect|" BABBLER "|--device|cpu|--expert-layers|1", "");
    expect_err(&run, "no experts that could lie apart");
    program_free(&run);
    program_run(&run, "inspect|tests/golden/models/blocks.gguf", "");
    expect_status(&run, 3);
    expect_out(&run, "blocks.gguf (GGUF, 1 file)");
    expect_out(&run, "  q4_k [3, 512] q4_k ");
    expect_out(&run, "  q2_k [3, 512] q2_k ");
    expect_out(&run, "  mxfp4 [3, 512] mxfp4 ");
    expect_err(&run, "blocks");
    program_free(&run);
    program_run(&run, "inspect|/no/such/model", "");
    expect_status(&run, 3);
    program_free(&run);
}

// Layers are counted as the files count them, of which each may be two here; and told apart.
static void test_inspect_layers(void **state) {
    static const struct {
        const char *model, *layers, *kinds;
    } CASES[] = {
        {"falcon_h1", "falcon_h1: 2 layers, ", "layers        all recur as a state space beside attending: "},
        {"granite4-h", "granitemoehybrid: 4 layers, ",
         "layers        3 of 4 recur as a state space instead of attending: "},
        {"mamba2", "mamba2: 3 layers, hidden 48, none attends",
         "layers        3 of 3 recur as a state space instead of attending: "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char command[80];
        Run run;
        snprintf(command, sizeof command, "inspect|tests/golden/state_space/%s", CASES[i].model);
        program_run(&run, command, "");
        expect_out(&run, CASES[i].layers);
        expect_out(&run, CASES[i].kinds);
        program_free(&run);
    }
}

static void test_tokenize(void **state) {
    (void)state;
    Run run;
    program_run(&run, "tokenize|" BABBLER "|Hello there.", "");
    expect_status(&run, 0);
    expect_out(&run, "Hell");
    program_free(&run);
    program_run(&run, "tokenize|" BABBLER, "Hello there.");
    expect_status(&run, 0);
    expect_out(&run, "Hell");
    program_free(&run);
}

// At a terminal it says what it waits for, and one Ctrl-D is the end.
static void test_tokenize_at_a_terminal(void **state) {
    (void)state;
    Pty *pty = prompt_start("tokenize|" BABBLER, NULL);
    pty_expect(pty, "[the text is read from the terminal; Ctrl-D in an empty line ends it]");
    pty_send(pty, "Hello\n");
    pty_expect(pty, "Hello");
    pty_send(pty, "\004");
    pty_expect_exit(pty, 0);
    assert_non_null(strstr(pty_transcript(pty), "\tnormal\t"));
    pty_end(pty);
}

// Who has seen enough of it need not wait for the rest.
static void test_tokenize_can_be_left(void **state) {
    (void)state;
    Run run;
    program_shell(&run,
                  "yes Hello | head -50000 >$HOME/words; mkfifo $HOME/pieces; $PALAVER tokenize " BABBLER
                  " <$HOME/words >$HOME/pieces & exec 3<$HOME/pieces; head -c 10 <&3 >$HOME/seen; "
                  "kill -TERM $!; cat <&3 >$HOME/seen; wait $!; echo status $?");
    expect_out(&run, "status 143");
    expect_err(&run, "palaver: interrupted");
    program_free(&run);
}

static void test_perplexity(void **state) {
    char path[200], arguments[400];
    Run run;
    snprintf(path, sizeof path, "%s/text", (char *)*state);
    FILE *file = fopen(path, "w");
    fputs("The quick brown fox jumps over the lazy dog.\n", file);
    fclose(file);
    snprintf(arguments, sizeof arguments, "perplexity|" BABBLER "|%s", path);
    program_run(&run, arguments, "");
    expect_status(&run, 0);
    expect_out(&run, "perplexity ");
    program_free(&run);
    file = fopen(path, "a");
    for (int i = 0; i < 9; i++) fputs("The quick brown fox jumps over the lazy dog.\n", file);
    fclose(file);
    snprintf(arguments, sizeof arguments,
             "perplexity|" BABBLER "|%s|--context=64|--overflow=shift|--against=%s", path, "reevaluate");
    program_run(&run, arguments, "");
    expect_status(&run, 0);
    expect_out(&run, "by tenths ");
    expect_out(&run, "against    reevaluate: KL ");
    program_free(&run);
    snprintf(arguments, sizeof arguments, "perplexity|" BABBLER "|%s|--against=stop", path);
    program_run(&run, arguments, "");
    expect_status(&run, 2);
    program_free(&run);
    program_run(&run, "perplexity|" BABBLER, "");
    expect_status(&run, 2);
    program_free(&run);
    program_says("perplexity|" BABBLER "|/dev/null", "", 1,
                 "/dev/null: a text of at least two tokens is needed");
    program_run(&run, "perplexity|" BABBLER "|/no/such/text", "");
    expect_status(&run, 1); // not 3: the model is there
    program_free(&run);
    program_says("perplexity|" BABBLER "|/dev/null", "", 1, "/dev/null: a text of at least two tokens");
}

static void test_bench_past_the_context(void **state) {
    (void)state;
    char arguments[400];
    Run run;
    snprintf(arguments, sizeof arguments, "bench|" BABBLER "|--context=64|--prefill=8|--decode=8|--stream=%d",
             80);
    program_run(&run, arguments, "");
    expect_status(&run, 0);
    expect_out(&run, "80 tokens past 64 by reevaluate: ");
    program_free(&run);
}

// Prompts that are profiled are read, though the same benchmark has read as many before: no branch has them.
static void test_bench_profile(void **state) {
    (void)state;
    Run run;
    program_run(&run, "bench|" BABBLER "|--device=cpu|--context=4096|--prefill=256|--decode=4|--profile", "");
    expect_status(&run, 0);
    expect_out(&run, "prefill of 256 tokens, op by op (mean of 5)\n");
    expect_out(&run, "a token at 1 tokens, op by op, ");
    program_free(&run);
}

static void test_config_can_be_read_again(void **state) {
    char path[200], arguments[300];
    Run run, again;
    program_run(&run, "config|--temperature=0.5|--stop=[\"a\", \"b\"]|--context=512", "");
    expect_status(&run, 0);
    expect_out(&run, "[sampling]");
    expect_out(&run, "# --temperature");
    expect_out(&run, "# --context");
    assert_null(strstr(run.out, "--size"));
    snprintf(path, sizeof path, "%s/all.toml", (char *)*state);
    FILE *file = fopen(path, "w");
    fputs(run.out, file);
    fclose(file);
    snprintf(arguments, sizeof arguments, "config|-c|%s", path);
    program_run(&again, arguments, "");
    expect_status(&again, 0);
    expect_out(&again, "all.toml:");
    expect_out(&again, "[\"a\", \"b\"]");
    program_free(&again);
    program_free(&run);
    program_run(&run, "config|--default", "");
    expect_status(&run, 0);
    expect_out(&run, "temperature");
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_inspect),
        WITH_HOME(test_inspect_layers),
        WITH_HOME(test_tokenize),
        WITH_HOME(test_tokenize_can_be_left),
        WITH_HOME(test_tokenize_at_a_terminal),
        WITH_HOME(test_perplexity),
        WITH_HOME(test_bench_past_the_context),
        WITH_HOME(test_bench_profile),
        WITH_HOME(test_config_can_be_read_again),
    };
    return test_main("looking", argc, argv, tests);
}
