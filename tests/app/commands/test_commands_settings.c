// Commands that set something: keys and their origins, files and profiles, the seed, the system prompt, the model.
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#define TALK BABBLER "|--seed=1|--max-tokens=6|--threads=1|--no-save"

static void expect_script(const char *input, const char *part) {
    program_says(TALK, input, 0, part);
}

static void expect_refusal(const char *input, const char *part) {
    program_refuses(TALK, input, part);
}

static void test_set_reset_and_origin(void **state) {
    (void)state;
    expect_script("/set\n", "[sampling]\ntemperature       = 0.8               (built in)\n");
    expect_script("/set\n", "seed              = 1                 (--seed)\n");
    Run section = program_script(TALK, "/set cache\n");
    expect_err(&section, "[cache]\ntype ");
    expect_no_err(&section, "[context]");
    expect_no_err(&section, "[model]");
    program_free(&section);
    expect_script("/set top_p 0.5\n", "sampling.top_p = 0.5  (/set)");
    expect_script("/set top-p=0.5\n", "sampling.top_p = 0.5  (/set)");
    expect_script("/set top_p 0.5\n/reset top_p\n", "sampling.top_p = 0.95  (built in)");
    expect_script("/set temperature\n", "0 to ");
    expect_script("/set stats on\nHello\n", "[turn 1: ");
    expect_refusal("/set tempertaure 1\n", "temperature");
    expect_refusal("/set temperature -1\n", "0 to");
    expect_refusal("/set temperature much\n", "temperature");
    expect_refusal("/set top_k -100\n", "sampling.top_k = -100: allowed is");
    expect_refusal("/set temperature 07:32:00\n", "sampling.temperature = a date or a time: allowed is");
    expect_refusal("/set device cuda\n", "counts at the start");
    expect_refusal("/set size 100\n", "--context");
    expect_refusal("/set weights int8\n", "model.weights counts at the start: palaver --weights");
    expect_refusal("/set color never\n", "counts at the start");
    expect_refusal("/set logit_bias nosuchtokenhere=1\n", "a bias needs one");
    expect_refusal("/set overflow shfit\n", "\"shift\"");
    expect_refusal("/reset\n", "needs a key");
    // What was refused is not in force.
    Run run;
    program_run(&run, TALK "|-k", "/set logit_bias nosuchtokenhere=1\n/set logit_bias\n");
    expect_err(&run, "sampling.logit_bias = {}");
    program_free(&run);
}

// However long a value is, it is shown whole, and kept.
static void test_a_long_value(void **state) {
    (void)state;
    char line[8000] = "/set logit_bias ", *end = line + strlen(line);
    for (int i = 0; i < 384; i++) end += sprintf(end, "%s%d=0.123456", i ? "," : "", i);
    strcpy(end, "\nHello\n/set\n");
    Run run = program_script(BABBLER "|--seed=1|--max-tokens=6", line);
    assert_int_equal(program_count(run.err, "\"382\" = 0.123456, \"383\" = 0.123456}  (/set)"), 2);
    program_free(&run);
    run = program_script(BABBLER "|--resume", "/set logit_bias\n");
    expect_err(&run, "\"382\" = 0.123456, \"383\" = 0.123456}  (");
    program_free(&run);
}

static void test_settings_count_at_once(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK "|--stats", "/set max_tokens 2\nHello\n/set max_tokens 3\nHello\n");
    expect_err(&run, " read, 2 said | ");
    expect_err(&run, " read, 3 said | ");
    program_free(&run);
}

static void test_config_files_and_profiles(void **state) {
    char path[200], line[300];
    static const char toml[] =
        "[sampling]\ntop_k = 7\n[model]\ntemplate = \"zephyr\"\n[profile.wild.sampling]\ntop_k = 99\n";
    snprintf(path, sizeof path, "%s/set.toml", (char *)*state);
    folder_write(*state, "set.toml", toml, sizeof toml - 1);
    Run run;
    snprintf(line, sizeof line, "/config %s\n/set top_k\n/config wild\n/set top_k\n", path);
    program_run(&run, TALK, line);
    expect_status(&run, 0);
    expect_err(&run, "sampling.top_k = 7");
    expect_err(&run, "model.template counts at the start");
    expect_err(&run, "sampling.top_k = 99");
    program_free(&run);
    folder_write(*state, "set.toml", "top_k = 1\n[sampling\n", 20);
    snprintf(line, sizeof line, "/config %s\n", path);
    expect_refusal(line, "set.toml:2:");
    expect_refusal("/config /no/such/file.toml\n", "/no/such/file.toml");
}

// A file that is named may be a pipe, or a device; one that is found is not waited for.
// A shell knows the ~ of no file of settings, nor of /set.
static void test_paths_below_the_home(void **state) {
    folder_write_text(*state, "s.json", "{\"type\": \"boolean\"}");
    folder_write_text(*state, "s.toml",
                      "sampling.json_schema = \"~/s.json\"\nmodel.template = \"~/t.jinja\"\n");
    folder_write_text(*state, "t.jinja", "{{ messages[-1].content }}");
    Run run = program_script(BABBLER "|--seed=1|--threads=1|--no-save|-c|~/s.toml", "Hello\n");
    assert_true(!strcmp(run.out, "true\n") || !strcmp(run.out, "false\n"));
    program_free(&run);
    run = program_script(BABBLER "|--seed=1|--threads=1|--no-save", "/set json_schema ~/s.json\nHello\n");
    assert_true(!strcmp(run.out, "true\n") || !strcmp(run.out, "false\n"));
    program_free(&run);
}

static void test_config_out_of_a_pipe(void **state) {
    (void)state;
    Run run;
    program_shell(&run, "mkfifo $HOME/pipe && { printf '[sampling]\\ntop_k = 7\\n' >$HOME/pipe & } && "
                        "$PALAVER config -c $HOME/pipe -c /dev/null");
    expect_status(&run, 0);
    expect_out(&run, "/pipe:2");
    program_free(&run);
    program_shell(&run,
                  "{ printf '[sampling]\\ntop_k = x\\n' >$HOME/pipe & } && $PALAVER config -c $HOME/pipe");
    expect_status(&run, 2);
    expect_err(&run, "/pipe:2:");
    program_free(&run);
    program_shell(&run, "{ printf '[sampling]\\ntop_k = 9\\n' >$HOME/pipe & } && "
                        "printf \"/config $HOME/pipe\\n/set top_k\\n\" | $PALAVER " BABBLER " --no-save");
    expect_status(&run, 0);
    expect_err(&run, "sampling.top_k = 9");
    program_free(&run);
    program_shell(&run,
                  "mkdir -p $XDG_CONFIG_HOME/palaver && mkfifo $XDG_CONFIG_HOME/palaver/palaver.toml && "
                  "timeout 20 $PALAVER config");
    expect_status(&run, 2);
    expect_err(&run, "/palaver.toml: not a regular file");
    program_free(&run);
}

static void test_seed_makes_replies_come_again(void **state) {
    (void)state;
    Run run;
    program_run(&run, TALK, "/seed 77\nHello\n/undo\n/seed 77\nHello\n");
    expect_status(&run, 0);
    expect_err(&run, "seed 77");
    size_t half = run.out_size / 2;
    assert_int_equal(run.out_size, 2 * half);
    assert_memory_equal(run.out, run.out + half, half);
    program_free(&run);
    program_run(&run, TALK, "Hello\n/seed random\n/seed\n");
    expect_no_err(&run, "seed 1\n");
    program_free(&run);
    expect_refusal("/seed -5\n", "seed");
}

static void test_system(void **state) {
    char path[200], line[300];
    expect_script("/system\n", "[no system prompt]");
    expect_script("/system Be brief.\n/system\n", "Be brief.");
    expect_script("/system Be brief.\nHello\n/view\n", "[system] Be brief.");
    expect_script("/system Be brief.\n/system \"\"\n/system\n", "[no system prompt]");
    expect_script("/system Be brief.\nHello\n/clear\n/view\n", "[system] Be brief.");
    snprintf(path, sizeof path, "%s/system.txt", (char *)*state);
    folder_write(*state, "system.txt", "From a file.\n", 13);
    snprintf(line, sizeof line, "/system @%s\n/system\n", path);
    expect_script(line, "From a file.");
    Run run;
    snprintf(line, sizeof line, TALK "|--system=@%s", path);
    program_run(&run, line, "/view\n");
    expect_err(&run, "[system] From a file.");
    program_free(&run);
    expect_refusal("/system @/no/such/file\n", "/no/such/file");
    expect_refusal("/system @\n", "/system: @ needs a file behind it");
    program_says(TALK "|--system=@", "", 2, "palaver: --system: @ needs a file behind it");
}

// Another model takes over: its own settings come, those of the one before go, the turns stay.
static void test_model(void **state) {
    char line[1000];
    Run run;
    snprintf(line, sizeof line,
             "cp -r " BABBLER " %s/other && printf '[sampling]\ntop_k = 7\n' >%s/other/palaver.toml && "
             "sed -i -e 's/\"\xc4\xa0"
             "cap\": 383/\"\xc4\xa0"
             "caq\": 383/' %s/other/tokenizer.json",
             (char *)*state, (char *)*state, (char *)*state);
    program_shell(&run, line);
    program_free(&run);
    // A piece that a merge makes is gone: this tokenizer is damaged, and the talk goes on with the model it has.
    snprintf(line, sizeof line, "Hello\n/model %s/other\n/set top_k\nAnd now?\n", (char *)*state);
    program_run(&run, TALK "|--stats|-k", line);
    expect_status(&run, 5);
    expect_err(&run, "top_k = 40");
    expect_err(&run, "[turn 2: ");
    program_free(&run);
    snprintf(line, sizeof line, "cp " BABBLER "/tokenizer.json %s/other/", (char *)*state);
    program_shell(&run, line);
    program_free(&run);
    snprintf(line, sizeof line,
             "Hello\n/model %s/other\n/set top_k\nAnd now?\n/model " BABBLER
             "\n/set top_k\nAgain?\n/model\n/tree\n",
             (char *)*state);
    program_run(&run, TALK "|--stats", line);
    expect_status(&run, 0);
    expect_err(&run, "/other\n");
    expect_err(&run, "sampling.top_k = 7  (");
    expect_err(&run, "sampling.top_k = 40  (");
    expect_err(&run, "[turn 3: ");
    expect_err(&run, "* 3.1  Again? -> ");
    expect_no_err(&run, "this conversation was with"); // the same weights and tokens
    program_free(&run);
    expect_refusal("/model /no/such/model\n", "/no/such/model");
}

// What a model's own template is told, where it asks; one that asks nothing says so.
static void test_thinking(void **state) {
    char line[600];
    Run run;
    snprintf(line, sizeof line,
             "cat >%s/own.jinja <<'END'\n{%% for m in messages %%}{{ '<|im_start|>' + m.role + '\\n' + "
             "m.content + "
             "'<|im_end|>\\n' }}{%% endfor %%}{{ '<|im_start|>assistant\\n' ~ ('' if enable_thinking else "
             "'Well: ') }}\nEND\n",
             (char *)*state);
    program_shell(&run, line);
    program_free(&run);
    snprintf(line, sizeof line, TALK "|--stats|--template=%s/own.jinja", (char *)*state);
    program_run(&run, line, "One\n/set thinking on\nTwo\n/view\n/set thinking off\n/set thinking\n");
    expect_status(&run, 0);
    expect_err(&run, "context.thinking = \"off\"  (/set)");
    program_free(&run);
    expect_refusal("/set thinking off\n", "the model's chat template does not ask whether to think");
    snprintf(line, sizeof line, TALK "|--template=%s/none.jinja", (char *)*state);
    program_run(&run, line, "One\n");
    assert_int_equal(program_count(run.err, "none.jinja"), 1);
    assert_true(run.status != 0);
    program_free(&run);
}

// What the weights are held in is told, and what they would take; nothing that was cached with others is used.
static void test_weights(void **state) {
    (void)state;
    Run run;
    program_run(&run, BABBLER "|--seed=1|--max-tokens=6|--weights=int8|--head=int8|--stats",
                "Hello\n/stats\n/set weights\n");
    expect_status(&run, 0);
    expect_err(&run, " read, 6 said | ");
    expect_err(&run, "weights       int8, head int8; --weights own 228 kB, f16 ");
    expect_err(&run, "\"own\", \"f16\", \"bf16\", \"int8\" or \"int4\"");
    program_free(&run);
    program_run(&run, "--resume|--seed=1|--max-tokens=6|--weights=own|--stats", "Hello\n");
    expect_status(&run, 0);
    expect_no_err(&run, " cached + ");
    program_free(&run);
    program_run(&run, "inspect|" BABBLER, "");
    expect_out(&run,
               "--weights     own 0.2 MB, f16 0.2 MB, bf16 0.2 MB, int8 0.1 MB, int4 0.1 MB; --head int8 ");
    program_free(&run);
    program_run(&run, TALK "|--weights=as-is", "Hello\n");
    expect_status(&run, 2);
    expect_err(&run, "allowed is \"own\", \"f16\", \"bf16\", \"int8\" or \"int4\"");
    program_free(&run);
}

int main(int argc, char **argv) {
#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_HOME(test_set_reset_and_origin),
        WITH_HOME(test_a_long_value),
        WITH_HOME(test_settings_count_at_once),
        WITH_HOME(test_config_files_and_profiles),
        WITH_HOME(test_paths_below_the_home),
        WITH_HOME(test_config_out_of_a_pipe),
        WITH_HOME(test_seed_makes_replies_come_again),
        WITH_HOME(test_system),
        WITH_HOME(test_model),
        WITH_HOME(test_thinking),
        WITH_HOME(test_weights),
    };
    return test_main("commands_settings", argc, argv, tests);
}
