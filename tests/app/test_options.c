// The command line: flags, subcommands, what is refused and with which words.
#include "tests/support/test.h"
#include "app/options/flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGUMENTS = 16 };

typedef struct Parsed {
    char *argv[MAX_ARGUMENTS + 2];
    Options options;
    Error error;
    Status status;
} Parsed;

// Parses a line of words that are separated by '|'.
static void parse(Parsed *p, const char *line) {
    static char copy[1000];
    memset(p, 0, sizeof *p);
    snprintf(copy, sizeof copy, "%s", line);
    int argc = 0;
    p->argv[argc++] = (char *)"palaver";
    for (char *word = copy, *end; *copy && word && argc < MAX_ARGUMENTS; word = end) {
        if ((end = strchr(word, '|'))) *end++ = 0;
        p->argv[argc++] = word;
    }
    p->status = options_parse(argc, p->argv, &p->options, &p->error);
}

static void expect(Parsed *p, const char *line) {
    parse(p, line);
    if (p->status) fail_msg("%s: %s", line, p->error.message);
}

static void refuse(const char *line, Status status, const char *words) {
    Parsed p;
    parse(&p, line);
    if (p.status != status) fail_msg("%s: status %d, not %d: %s", line, p.status, status, p.error.message);
    if (!strstr(p.error.message, words)) fail_msg("%s: \"%s\" lacks \"%s\"", line, p.error.message, words);
    assert_null(strchr(p.error.message, '\n'));
    options_free(&p.options);
}

static void test_nothing_is_the_default_chat(void **state) {
    (void)state;
    Parsed p;
    expect(&p, "");
    assert_int_equal(p.options.command, COMMAND_CHAT);
    assert_null(p.options.model);
    assert_null(p.options.prompt);
    assert_false(p.options.resume);
    assert_int_equal(p.options.n_settings, 0);
    options_free(&p.options);
}

static void test_model_and_flags_in_any_order(void **state) {
    (void)state;
    Parsed p;
    expect(&p, "--echo|model.gguf|-c|a.toml|-p|a question|--config=b.toml|--no-save|--plain");
    assert_string_equal(p.options.model, "model.gguf");
    assert_string_equal(p.options.prompt, "a question");
    assert_int_equal(p.options.n_files, 2);
    assert_string_equal(p.options.files[0], "a.toml");
    assert_string_equal(p.options.files[1], "b.toml");
    assert_true(p.options.echo && p.options.no_save && p.options.plain);
    options_free(&p.options);
    expect(&p, "-k|model.gguf");
    assert_true(p.options.keep_going);
    options_free(&p.options);
    expect(&p, "--|--odd.gguf");
    assert_string_equal(p.options.model, "--odd.gguf");
    options_free(&p.options);
}

static void test_resume_with_and_without_name(void **state) {
    (void)state;
    Parsed p;
    expect(&p, "--resume");
    assert_true(p.options.resume);
    assert_null(p.options.resume_name);
    options_free(&p.options);
    expect(&p, "--resume=2026-11-21-071533|model");
    assert_string_equal(p.options.resume_name, "2026-11-21-071533");
    assert_string_equal(p.options.model, "model");
    options_free(&p.options);
}

static void test_subcommands(void **state) {
    (void)state;
    static const struct {
        const char *name;
        Command command;
    } cases[] = {
        {"inspect", COMMAND_INSPECT}, {"tokenize", COMMAND_TOKENIZE}, {"perplexity", COMMAND_PERPLEXITY},
        {"bench", COMMAND_BENCH},     {"tune", COMMAND_TUNE},         {"config", COMMAND_CONFIG}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Parsed p;
        char line[100];
        snprintf(line, sizeof line, "%s|model", cases[i].name);
        expect(&p, line);
        assert_int_equal(p.options.command, cases[i].command);
        assert_string_equal(p.options.model, "model");
        options_free(&p.options);
    }
    Parsed p;
    expect(&p, "tokenize|model|some text");
    assert_string_equal(p.options.argument, "some text");
    options_free(&p.options);
    expect(&p, "config|--default");
    assert_true(p.options.print_default);
    options_free(&p.options);
    // Behind bench --profile is no name of settings.
    expect(&p, "bench|--profile|model");
    assert_true(p.options.profile_ops && !p.options.profile);
    assert_string_equal(p.options.model, "model");
    options_free(&p.options);
    expect(&p, "--profile|settings|bench|model");
    assert_string_equal(p.options.profile, "settings");
    assert_false(p.options.profile_ops);
    options_free(&p.options);
    expect(&p, "./inspect");
    assert_int_equal(p.options.command, COMMAND_CHAT);
    options_free(&p.options);
}

// Each key of the configuration is a flag with a value; each switch has its negative.
static void test_every_key_is_a_flag(void **state) {
    (void)state;
    size_t n;
    const ConfigKey *keys = settings_keys(&n);
    assert_true(n > 20);
    for (size_t i = 0; i < n; i++) {
        Parsed p;
        char flag[100], line[220];
        snprintf(flag, sizeof flag, "%s", keys[i].name);
        for (char *c = flag; *c; c++)
            if (*c == '_') *c = '-';
        snprintf(line, sizeof line, "--%s=7", flag);
        expect(&p, line);
        assert_int_equal(p.options.n_settings, 1);
        assert_ptr_equal(p.options.settings[0].key, &keys[i]);
        assert_string_equal(p.options.settings[0].text, "7");
        options_free(&p.options);
        if (keys[i].type != CONFIG_BOOL) continue;
        snprintf(line, sizeof line, "--no-%s|--%s", flag, flag);
        expect(&p, line);
        assert_int_equal(p.options.n_settings, 2);
        assert_string_equal(p.options.settings[0].text, "false");
        assert_string_equal(p.options.settings[1].text, "true");
        options_free(&p.options);
    }
}

static void test_context_and_history_have_their_names(void **state) {
    (void)state;
    Parsed p;
    expect(&p, "--context|4096|--no-history|--presence-penalty|-1");
    assert_string_equal(p.options.settings[0].key->section, "context");
    assert_string_equal(p.options.settings[0].key->name, "size");
    assert_string_equal(p.options.settings[0].text, "4096");
    assert_string_equal(p.options.settings[1].key->name, "history");
    assert_string_equal(p.options.settings[1].text, "false");
    assert_string_equal(p.options.settings[2].text, "-1");
    options_free(&p.options);
}

static void test_unknown_names_offer_the_nearest(void **state) {
    (void)state;
    refuse("--tempertaure=1", STATUS_USAGE, "did you mean --temperature?");
    refuse("--xyzzyplugh", STATUS_USAGE, "unknown flag --xyzzyplugh");
    refuse("-x", STATUS_USAGE, "unknown flag -x");
    refuse("--echo|-xy", STATUS_USAGE, "unknown flag -x");
    refuse("-r=v", STATUS_USAGE, "= goes with a flag's long name: --resume=NAME");
    refuse("inpsect|model", STATUS_USAGE, "did you mean \"palaver inspect\"?");
    refuse("--to", STATUS_USAGE, "may mean");
    assert_string_equal(options_nearest_command("lst"), "list");
    assert_string_equal(options_nearest_command("hlep"), "help");
    assert_string_equal(options_nearest_command("tokenise"), "tokenize");
    static const char *const others[] = {"./lst", "lst.gguf", "qwen3", "llama"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_null(options_nearest_command(others[i]));
}

// What others call them: understood where only `_` differs, else the flag is named.
static void test_flags_of_other_programs(void **state) {
    (void)state;
    refuse("-m|x", STATUS_USAGE, "palaver MODEL: the model needs no flag");
    refuse("-t|1", STATUS_USAGE, "--threads, or --temperature");
    refuse("-n|5", STATUS_USAGE, "--max-tokens");
    refuse("--temp|1", STATUS_USAGE, "here it is --temperature");
    refuse("--n-predict=5", STATUS_USAGE, "here it is --max-tokens");
    refuse("--plot=x.svg", STATUS_USAGE, "--plot belongs to palaver bench");
    Parsed p;
    expect(&p, "--top_p|0.5|--repeat_penalty=1.1|-p|--top_p");
    assert_int_equal(p.options.n_settings, 2);
    assert_string_equal(p.options.settings[0].text, "0.5");
    assert_string_equal(p.options.settings[1].text, "1.1");
    assert_string_equal(p.options.prompt, "--top_p"); // a value stays what it is
    options_free(&p.options);
}

static void test_values_where_they_belong(void **state) {
    (void)state;
    refuse("--temperature", STATUS_USAGE, "--temperature needs a value");
    refuse("-p", STATUS_USAGE, "-p needs a value");
    refuse("--echo=1", STATUS_USAGE, "--echo takes no value");
    refuse("model|question", STATUS_USAGE, "question is one operand too many");
    refuse("inspect|a|b", STATUS_USAGE, "b is one operand too many");
    refuse("inspect|", STATUS_USAGE, "MODEL is empty: name one");
    refuse("|-p|hello", STATUS_USAGE, "MODEL is empty: name one, or leave it out for the default model");
    refuse("--default", STATUS_USAGE, "palaver config --default");
    refuse("bench|model|-p|x", STATUS_USAGE, "--prompt has no meaning for palaver bench");
}

static void test_many_conversations_at_once(void **state) {
    (void)state;
    Parsed p;
    parse(&p, "model|--jsonl|--parallel|4|--ordered");
    assert_int_equal(p.status, STATUS_OK);
    assert_true(p.options.jsonl && p.options.ordered);
    assert_int_equal(p.options.parallel, 4);
    options_free(&p.options);
    parse(&p, "bench|model|--parallel|64|--shared|9");
    assert_int_equal(p.status, STATUS_OK);
    assert_int_equal(p.options.parallel, 64);
    assert_int_equal(p.options.shared, 9);
    options_free(&p.options);
    refuse("--parallel=4", STATUS_USAGE, "--parallel belongs to --jsonl and to palaver bench");
    refuse("--jsonl|--parallel=0", STATUS_USAGE, "allowed is 1 to 256");
    refuse("list|--names|--json", STATUS_USAGE, "--json and --names: one of the two");
    refuse("--ordered", STATUS_USAGE, "--ordered belongs to --jsonl");
    refuse("--jsonl|--resume", STATUS_USAGE, "--resume has no meaning with --jsonl");
    refuse("bench|model|--shared|9", STATUS_USAGE, "--shared N needs --parallel N");
    refuse("bench|model|--jsonl", STATUS_USAGE, "--jsonl has no meaning for palaver bench");
}

static char *print(void (*function)(FILE *file)) {
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    function(file);
    fclose(file);
    return text;
}

// Whether a flag stands in a text, and not only as the beginning of another.
static bool shows(const char *text, const char *flag) {
    const size_t n = strlen(flag);
    for (const char *at = text; (at = strstr(at, flag)) != NULL; at += n)
        if (!strchr("abcdefghijklmnopqrstuvwxyz-_", at[n])) return true;
    return false;
}

// What completes flags in a shell reads them here.
static void check_all_flags(const char *help) {
    Flags flags;
    Error error;
    assert_int_equal(flags_open(&flags, false, &error), STATUS_OK);
    for (size_t i = 0; i < flags.n; i++) {
        const ConfigKey *key = flags.keys[i];
        char flag[100];
        snprintf(flag, sizeof flag, "--%s", flags.options[i].name);
        const bool left_out = flags.uses[i] == FLAG_KEY_NO || (key && !strcmp(key->section, "colors"));
        if (!left_out && !shows(help, flag)) fail_msg("--help lacks %s", flag);
    }
    flags_close(&flags);
}

static void test_help_is_one_screen(void **state) {
    (void)state;
    Parsed p;
    expect(&p, "help");
    assert_int_equal(p.options.command, COMMAND_HELP);
    options_free(&p.options);
    expect(&p, "inspect|--help");
    assert_int_equal(p.options.command, COMMAND_HELP);
    options_free(&p.options);
    char *help = print(options_print_help);
    int lines = 0, column = 0;
    for (const char *c = help; *c; c++) {
        column = *c == '\n' ? 0 : column + 1;
        lines += *c == '\n';
        if (column > 80) fail_msg("line %d of --help is too long", lines + 1);
    }
    assert_in_range(lines, 20, 60);
    check_all_flags(help);
    assert_non_null(strstr(help, "--repeat-penalty"));
    assert_non_null(strstr(help, "--resume"));
    assert_non_null(strstr(help, "130 interrupted, 143 by SIGTERM"));
    free(help);
}

static void test_version_names_build_and_backends(void **state) {
    (void)state;
    Parsed p;
    expect(&p, "-V");
    assert_int_equal(p.options.command, COMMAND_VERSION);
    options_free(&p.options);
    char *version = print(options_print_version);
    assert_non_null(strstr(version, "palaver " PALAVER_VERSION));
    assert_non_null(strstr(version, "backends: cpu"));
    free(version);
}

// A flag that would change nothing is refused, wherever that is known from the command line alone.
static void test_flags_that_nobody_looks_at(void **state) {
    (void)state;
    refuse("inspect|model|--temperature|0", STATUS_USAGE, "--temperature has no meaning for palaver inspect");
    refuse("tokenize|model|x|--context=64", STATUS_USAGE, "--context has no meaning for palaver tokenize");
    refuse("perplexity|model|file|--reserve=9", STATUS_USAGE,
           "--reserve has no meaning for palaver perplexity");
    refuse("perplexity|model|file|--by=turn", STATUS_USAGE,
           "--by turn has no meaning for palaver perplexity");
    refuse("perplexity|model|file|--template=chatml", STATUS_USAGE, "--template has no meaning for");
    refuse("bench|model|--overflow=shift", STATUS_USAGE,
           "--overflow has no meaning for palaver bench without --stream");
    refuse("inspect|model|--weights=int8", STATUS_USAGE, "--weights has no meaning for palaver inspect");
    refuse("bench|--shape=x|model", STATUS_USAGE, "--shape x makes a model up: leave it or model out");
    refuse("tune|model|--shape=x", STATUS_USAGE, "--shape x makes a model up: leave it or model out");
    refuse("bench|--shape=x|--head=int8", STATUS_USAGE, "--head has no meaning for palaver bench --shape");
    refuse("bench|model|--decode=1", STATUS_USAGE, "--decode 1: allowed is 2 to");
    refuse("model|--jsonl|--stats", STATUS_USAGE, "--stats has no meaning with --jsonl");
    refuse("model|-p|x|--keep-going", STATUS_USAGE, "--keep-going has no meaning with -p");
    refuse("config|--default|--top-k=3", STATUS_USAGE, "prints the built-in values, whatever else is set");
    static const char *const good[] = {
        "perplexity|model|file|--overflow=shift|--discard=1|--keep=4|--by=token|--type=int8|--against=shift",
        "bench|model|--stream=9|--overflow=shift|--by=token",
        "bench|--shape=x|--weights=bf16|--context=64|--stream=9|--discard=1",
        "bench|--shape=x|--device=cpu|--gpu-layers=3|--expert-layers=auto|--threads=2",
        "inspect|model|--device=cuda|--gpu-layers=auto|--context=4096|--type=int8",
        "model|--jsonl|--temperature=0|--overflow=shift|--reserve=9|--system=x",
        "bench|model|--weights=int8|--head=int8",
        "perplexity|model|file|--weights=int4",
        "model|-p|x|--template=chatml|--low-water=0.4|--color=never",
        "config|model|--temperature=0|--device=cpu",
        "inspect|model|--color=never",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        Parsed p;
        expect(&p, good[i]);
        options_free(&p.options);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_the_default_chat),
        cmocka_unit_test(test_model_and_flags_in_any_order),
        cmocka_unit_test(test_resume_with_and_without_name),
        cmocka_unit_test(test_subcommands),
        cmocka_unit_test(test_every_key_is_a_flag),
        cmocka_unit_test(test_context_and_history_have_their_names),
        cmocka_unit_test(test_unknown_names_offer_the_nearest),
        cmocka_unit_test(test_values_where_they_belong),
        cmocka_unit_test(test_many_conversations_at_once),
        cmocka_unit_test(test_flags_that_nobody_looks_at),
        cmocka_unit_test(test_flags_of_other_programs),
        cmocka_unit_test(test_help_is_one_screen),
        cmocka_unit_test(test_version_names_build_and_backends),
    };
    return test_main("options", argc, argv, tests);
}
