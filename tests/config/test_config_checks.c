// What is wrong with a setting, and where: messages, ranges, spellings that are taken, nearest names.
#include "tests/support/talk/settings.h"
#include "tests/support/test.h"

#include "kernels/base/text/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Error error;

// ---- checks ------------------------------------------------------------------------------------------

static void messages(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"[sampling]\ntemperature = 9", "talk.toml:2:1: sampling.temperature = 9: allowed is 0 to 5"},
        {"[sampling]\n\n  temperature = nan", "talk.toml:3:3: sampling.temperature = nan: allowed is 0 to 5"},
        {"sampling.top_k = 1.5",
         "talk.toml:1:10: sampling.top_k = 1.5: allowed is a whole number from 0 to 1000000"},
        {"[sampling]\ntemprature = 1", "talk.toml:2:1: unknown key \"sampling.temprature\"; did you mean "
                                       "sampling.temperature?"},
        {"[context]\ntop_k = 1", "talk.toml:2:1: unknown key \"context.top_k\"; top_k belongs in [sampling]"},
        {"[smapling]\n", "talk.toml:1:2: unknown section [smapling]; did you mean [sampling]?"},
        {"[sampling]\ntop-p = 0.5\ntop_p = 0.9",
         "talk.toml:3:1: top_p and top-p of line 2 are one key, sampling.top_p: keep one of them"},
        {"top_p = 0.5\n[profile.a]\ntop_p = 0.6\n[profile.b]\ntop-p = 0.6\n[profile.b.sampling]\ntop_p = 0.7",
         "talk.toml:7:1: top_p and top-p of line 5 are one key, sampling.top_p: keep one of them"},
        {"zzzzzzz = 1", "talk.toml:1:1: unknown key \"zzzzzzz\"; `palaver config` lists all keys"},
        {"sampling = 1",
         "talk.toml:1:1: sampling is a section: write [sampling], or a key such as sampling.NAME"},
        {"[context]\noverflow = \"shfit\"",
         "talk.toml:2:1: context.overflow = \"shfit\": allowed is \"reevaluate\", "
         "\"shift\", \"shift-inplace\" or \"stop\""},
        {"[context]\nkeep = \"all\"", "talk.toml:2:1: context.keep = \"all\": allowed is a whole number from "
                                      "0 to 16777216, or \"system\""},
        {"[context]\ndiscard = 1.0",
         "talk.toml:2:1: context.discard = 1.0: allowed is a fraction above 0 and below 1, "
         "or a whole number from 1 to 16777216"},
        {"[sampling]\nstop = [1]",
         "talk.toml:2:1: sampling.stop = 1: allowed is up to 32 strings of 1 to 256 bytes"},
        {"[sampling.logit_bias]\n\"5\" = 1000",
         "talk.toml:1:11: sampling.logit_bias = 1000: allowed is {\"id or "
         "piece\" = bias, ...} with -100 to 100 each, up to 1024"},
        {"[sampling]\ntop_k = 1e3",
         "talk.toml:2:1: sampling.top_k = 1000.0: allowed is a whole number from 0 to 1000000"},
        {"model.path = \"a\\u0000b\"",
         "talk.toml:1:7: model.path = \"a\\x00b\": no text may hold a zero byte"},
        {"[ui]\nstats = 3", "talk.toml:2:1: ui.stats = 3: allowed is true or false"},
        {"[backend]\ndevice = \"cuda:x\"",
         "talk.toml:2:1: backend.device = \"cuda:x\": allowed is \"auto\", \"cpu\", "
         "\"cpu:exact\", \"cpu:reference\", \"cuda\", \"cuda:N\" with N from 0 to 99, several as "
         "\"cuda:N,N\", or "
         "\"cuda:all\""},
        {"[profile.a]\ntop_kk = 1", "talk.toml:2:1: unknown key \"top_kk\"; did you mean sampling.top_k?"},
        {"profile = 1", "talk.toml:1:1: a profile is a section [profile.NAME]"},
        {"[profile]\na = 1", "talk.toml:2:1: a profile is a section [profile.NAME]; put a into one"},
        {"[sampling]\nseed = -1",
         "talk.toml:2:1: sampling.seed = -1: allowed is a whole number from 0 to 9223372036854775807, or "
         "\"random\""},
    };
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    char *before = settings_all(config);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(text, sizeof text, "%s\n", cases[i].text);
        assert_int_not_equal(settings_apply(config, text, &error), STATUS_OK);
        assert_string_equal(error.message, cases[i].message);
    }
    char *after = settings_all(config);
    assert_string_equal(before, after);
    free(before);
    free(after);
    config_free(config);
}

static void syntax_errors_have_a_place(void **state) {
    (void)state;
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    assert_int_equal(settings_apply(config, "[sampling]\ntop_k = 40\ntop_p = = 1\n", &error), STATUS_FILE);
    assert_int_equal(strncmp(error.message, "talk.toml:3:9: not valid TOML: ", 31), 0);
    assert_int_equal(settings_apply(config, "a = 1\na = 2\n", &error), STATUS_FILE);
    assert_int_equal(strncmp(error.message, "talk.toml:2:", 12), 0);
    assert_int_equal(settings_apply(config, "[ui]\n\n  [=]\n", &error), STATUS_FILE);
    assert_string_equal(error.message,
                        "talk.toml:3:4: not valid TOML: a key cannot begin with this character");
    assert_int_equal(settings_apply(config, "# ü\n'ü' = 1\n  ü = 1\n", &error), STATUS_FILE);
    assert_string_equal(error.message,
                        "talk.toml:3:3: not valid TOML: a character that needs quotes around it");
    assert_int_equal(config_apply_file(config, CONFIG_FILES, "no/such.toml", &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "no/such.toml: cannot be read: No such file"));
    assert_int_equal(config_apply_file(config, CONFIG_FILES, "tests", &error), STATUS_FILE);
    assert_int_equal(config_apply_file(config, CONFIG_FILES, "/dev/zero", &error), STATUS_FILE);
    config_free(config);
}

// A file fails as a whole, also when its first keys are good.
static void a_failing_file_changes_nothing(void **state) {
    (void)state;
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    assert_int_equal(settings_apply(config, "[sampling]\ntop_k = 7\nstop = [\"x\"]\n", &error), STATUS_OK);
    char *before = settings_all(config);
    assert_int_equal(settings_apply(config,
                                    "[sampling]\ntop_k = 8\nstop = [\"y\"]\ntop_p = 2\n[profile.q]\ntop_k=1",
                                    &error),
                     STATUS_USAGE);
    char *after = settings_all(config);
    assert_string_equal(before, after);
    assert_null(config_profile_name(config, 0));
    free(before);
    free(after);
    config_free(config);
}

static void typed_text(void **state) {
    (void)state;
    static const struct {
        const char *key, *text, *value; // NULL: refused
    } cases[] = {
        {"stats", "on", "true"},
        {"ui.stats", "NO", "false"},
        {"stats", "perhaps", NULL},
        {"temperature", ".5", "0.5"},
        {"temperature", "1", "1.0"},
        {"temperature", "1e-3", "0.001"},
        {"temperature", "1\ntop_k=2", NULL},
        {"temperature", "", NULL},
        {"temperature", "0.5x", NULL},
        {"top-k", "+20", "20"},
        {"top_k", "99999999999999999999", NULL},
        {"seed", "42", "42"},
        {"seed", "random", "\"random\""},
        {"max_tokens", "0", "\"unlimited\""},
        {"max_tokens", "unlimited", "\"unlimited\""},
        {"keep", "\"system\"", "\"system\""},
        {"discard", "0.25", "0.25"},
        {"discard", "128", "128"},
        {"overflow", "Shift", "\"shift\""},
        {"stop", "a, b", "[\"a\", \" b\"]"},
        {"stop", "\"a, b\"", "[\"a, b\"]"},
        {"stop", "\"a\", 'b, c'", "[\"a\", \"b, c\"]"},
        {"stats", "off ", "false"},
        {"logit_bias", "\"a, b\" = 1, 5 = -2", "{\"a, b\" = 1, \"5\" = -2}"},
        {"stop", "['\\n']", "[\"\\\\n\"]"},
        {"stop", "", "[]"},
        {"stop", "[[1]]", NULL},
        {"stop", "[\"a", NULL},
        {"stop", "[ 'a', ", NULL},
        {"stop", "[INST]", "[\"[INST]\"]"},
        {"stop", "[", "[\"[\"]"},
        {"stop", "[Hello", NULL},
        {"stop", "[Hello, world]", NULL},
        {"stop", "[INST],[/INST]", "[\"[INST]\", \"[/INST]\"]"},
        {"stop", "{\"name", "[\"{\\\"name\"]"},
        {"logit_bias", "{\"5\"=1", NULL},
        {"logit_bias", "{=1", "{\"{\" = 1}"},
        {"threads", "513", NULL},
        {"threads", "512", "512"},
        {"logit_bias", "15043=-1.5, x=y=2", "{\"15043\" = -1.5, \" x=y\" = 2}"},
        {"logit_bias", " a=1", "{\" a\" = 1}"},
        {"logit_bias", "{ \"a b\" = 1 }", "{\"a b\" = 1}"},
        {"logit_bias", "5", NULL},
        {"logit_bias", "5=inf", NULL},
        {"path", "/tmp/it's a model", "\"/tmp/it's a model\""},
        {"path", "\"quoted\"", "\"quoted\""},
        {"path", "\xff", NULL},
        {"path", "\xed\xa0\x80", NULL},
        {"path", "\xf0\x9f\x98", NULL},
        {"path", "é😀", "\"é😀\""},
        {"template", "", NULL},
        {"device", "cuda:1", "\"cuda:1\""},
    };
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Status status = config_set(config, CONFIG_SESSION, cases[i].key, cases[i].text, &error);
        if (!cases[i].value) assert_int_equal(status, STATUS_USAGE);
        if (cases[i].value && status) fail_msg("%s %s: %s", cases[i].key, cases[i].text, error.message);
        if (cases[i].value) assert_string_equal(settings_value(config, cases[i].key), cases[i].value);
    }
    assert_int_equal(config_set(config, CONFIG_FLAGS, "top-p", "7", &error), STATUS_USAGE);
    assert_string_equal(error.message, "--top-p: sampling.top_p = 7: allowed is 0 to 1");
    config_free(config);
}

// "1=0,2=0, …": n parts, in `text`.
static char *join(char *text, int n, const char *format) {
    char *end = text;
    for (int i = 1; i <= n; i++) {
        if (i > 1) *end++ = ',';
        end += sprintf(end, format, i);
    }
    return text;
}

static void long_lists_are_whole_or_refused(void **state) {
    (void)state;
    static char text[20000];
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    if (config_set(config, CONFIG_SESSION, "logit_bias", join(text, 1024, "%d=0.5"), &error))
        fail_msg("%s", error.message);
    assert_int_equal(settings.sampling.logit_bias.count, 1024);
    assert_string_equal(settings.sampling.logit_bias.items[1023].token, "1024");
    assert_int_equal(config_set(config, CONFIG_FLAGS, "logit_bias", join(text, 1025, "%d=0.5"), &error),
                     STATUS_USAGE);
    assert_string_equal(error.message, "--logit-bias: sampling.logit_bias: more than 1024 biases");
    assert_int_equal(config_set(config, CONFIG_FLAGS, "stop", join(text, 33, "%d"), &error), STATUS_USAGE);
    assert_string_equal(error.message, "--stop: sampling.stop: more than 32 texts");
    config_free(config);
}

// ---- nearest names -----------------------------------------------------------------------------------

static void distances(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        size_t distance;
    } cases[] = {{"", "", 0},           {"", "abc", 3},        {"abc", "abc", 0},
                 {"ab", "ba", 1},       {"abcd", "acbd", 1},   {"ca", "abc", 3},
                 {"top_p", "top-p", 0}, {"TOP_K", "top_k", 0}, {"kitten", "sitting", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(nearest_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(nearest_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
    const char *names[] = {"help", "quit", "clear", "system", "continue"};
    assert_int_equal(nearest_name("hlep", names, 5), 0);
    assert_int_equal(nearest_name("clera", names, 5), 2);
    assert_int_equal(nearest_name("cont", names, 5), 4);
    assert_int_equal(nearest_name("qiut", names, 5), 1);
    assert_int_equal(nearest_name("banana", names, 5), -1);
    assert_int_equal(nearest_name("x", names, 5), -1);
    assert_int_equal(nearest_name("", names, 5), -1);
    char long_name[300];
    memset(long_name, 'a', sizeof long_name);
    long_name[299] = 0;
    assert_int_equal(nearest_name(long_name, names, 5), -1);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages),
        cmocka_unit_test(syntax_errors_have_a_place),
        cmocka_unit_test(a_failing_file_changes_nothing),
        cmocka_unit_test(typed_text),
        cmocka_unit_test(long_lists_are_whole_or_refused),
        cmocka_unit_test(distances),
    };
    return test_main("config_checks", argc, argv, tests);
}
