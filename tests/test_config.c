// Settings: the documented file, precedence, origins, checks and messages.
#include "tests/test.h"

#include "config/config.h"
#include "config/nearest.h"
#include "config/toml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static Error error;

static Config fresh(void) {
    Config config;
    assert_int_equal(config_init(&config, &error), STATUS_OK);
    return config;
}

static Status apply(Config *config, const char *text) {
    return config_apply_text(config, CONFIG_FILES, "talk.toml", text, strlen(text), &error);
}

static const char *shown(const Config *config, const char *name) {
    static char text[8192];
    const ConfigKey *key = config_key_find(name);
    assert_non_null(key);
    assert_true((size_t)config_print_value(config, key, text, sizeof text) < sizeof text);
    return text;
}

static const char *origin(const Config *config, const char *name) {
    return config_origin(config, config_key_find(name));
}

// Every key in effect as one text, to see that nothing changed.
static char *everything(const Config *config) {
    char *all = NULL;
    size_t size, count;
    FILE *out = open_memstream(&all, &size);
    const ConfigKey *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s = %s # %s\n", keys[i].name, shown(config, keys[i].name),
                config_origin(config, &keys[i]));
    fclose(out);
    return all;
}

// ---- the documented file -----------------------------------------------------------------------------

static void built_in_values(void **state) {
    (void)state;
    Config config = fresh();
    assert_true(config.sampling.temperature == 0.8 && config.sampling.top_p == 0.95 &&
                config.sampling.top_k == 40);
    assert_true(config.sampling.min_p == 0.05 && config.sampling.typical_p == 1);
    assert_true(config.sampling.repeat_penalty == 1 && config.sampling.repeat_last == 64);
    assert_int_equal(config.sampling.seed, CONFIG_SEED_RANDOM);
    assert_int_equal(config.sampling.max_tokens, CONFIG_TOKENS_UNLIMITED);
    assert_int_equal(config.sampling.stop.count, 0);
    assert_int_equal(config.sampling.logit_bias.count, 0);
    assert_false(config.sampling.ignore_eos);
    assert_int_equal(config.context.size, CONFIG_SIZE_MODEL);
    assert_int_equal(config.context.reserve, 1024);
    assert_int_equal(config.context.overflow, CONFIG_OVERFLOW_REEVALUATE);
    assert_int_equal(config.context.keep, CONFIG_KEEP_SYSTEM);
    assert_true(config.context.discard == 0.5 && config.context.low_water == 0.5);
    assert_int_equal(config.context.by, CONFIG_BY_TURN);
    assert_int_equal(config.cache.type, CONFIG_CACHE_F16);
    assert_int_equal(config.model.weights, CONFIG_WEIGHTS_AS_IS);
    assert_string_equal(config.model.path, "");
    assert_string_equal(config.model.template, "auto");
    assert_string_equal(config.backend.device, "auto");
    assert_int_equal(config.ui.color, CONFIG_COLOR_AUTO);
    assert_true(config.ui.gauge && config.ui.history && !config.ui.stats);
    assert_string_equal(origin(&config, "temperature"), "built in");
    config_free(&config);
}

// default.toml names every key and nothing else, under the value that is built in.
static void default_file_is_whole(void **state) {
    (void)state;
    TomlNode *root;
    assert_int_equal(toml_parse_file("config/default.toml", &root, &error), STATUS_OK);
    size_t count, in_file = 0;
    const ConfigKey *keys = config_keys(&count);
    for (size_t i = 0; i < root->n_children; i++) in_file += root->children[i].n_children;
    assert_int_equal(in_file, count);
    toml_free(root);

    Config built_in = fresh(), read = fresh();
    assert_int_equal(config_apply_file(&read, CONFIG_FILES, "config/default.toml", &error), STATUS_OK);
    char a[512], b[512];
    for (size_t i = 0; i < count; i++) {
        config_print_value(&built_in, &keys[i], a, sizeof a);
        config_print_value(&read, &keys[i], b, sizeof b);
        assert_string_equal(a, b);
        assert_int_equal(strncmp(config_origin(&read, &keys[i]), "config/default.toml:", 20), 0);
    }
    config_free(&built_in);
    config_free(&read);
}

// What `palaver config --default` prints pins nothing, so that the model's own values still count.
static void printed_default_changes_nothing(void **state) {
    (void)state;
    char *text = config_default_text();
    assert_non_null(text);
    assert_non_null(strstr(text, "\n#temperature = 0.8\n"));
    assert_non_null(strstr(text, "\n[sampling]\n"));
    Config config = fresh();
    char *before = everything(&config);
    assert_int_equal(apply(&config, text), STATUS_OK);
    char *after = everything(&config);
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(text);
    config_free(&config);
}

static void every_value_reads_back(void **state) {
    (void)state;
    Config config = fresh();
    assert_int_equal(apply(&config, "[sampling]\n"
                                    "stop = [\"a\\\"\\\\\\n\\u0001\", \"\\u00fc,\"]\n"
                                    "logit_bias = {\"15043\" = -100, \" may=be,\" = 0.1}\n"
                                    "temperature = 0.30000000000000004\nseed = 9223372036854775807\n"
                                    "[context]\ndiscard = 100\n[model]\npath = \"a b\\t#\"\n"),
                     STATUS_OK);
    size_t count;
    const ConfigKey *keys = config_keys(&count);
    Config copy = fresh();
    for (size_t i = 0; i < count; i++) {
        char text[1024], again[1024];
        config_print_value(&config, &keys[i], text, sizeof text);
        if (config_set(&copy, CONFIG_SESSION, keys[i].name, text, &error))
            fail_msg("%s = %s: %s", keys[i].name, text, error.message);
        config_print_value(&copy, &keys[i], again, sizeof again);
        assert_string_equal(text, again);
    }
    assert_true(copy.sampling.temperature == 0.30000000000000004);
    assert_int_equal(copy.sampling.seed, INT64_MAX);
    assert_string_equal(copy.sampling.stop.items[0], "a\"\\\n\x01");
    assert_string_equal(copy.sampling.logit_bias.items[1].token, " may=be,");
    config_free(&config);
    config_free(&copy);
}

// ---- precedence --------------------------------------------------------------------------------------

static void layers_in_order(void **state) {
    (void)state;
    Config config = fresh();
    char *environment[] = {"PALAVER_SAMPLING_TOP_K=5", "HOME=/", "PALAVER=build/palaver", NULL};
    const char *values[] = {"40", "1", "3", "4", "5", "6", "7"};
    const char *origins[] = {"built in",    "generation_config.json", "b.toml:2",
                             "talk.toml:2", "PALAVER_SAMPLING_TOP_K", "--top-k",
                             "/set"};
    // From the highest to the lowest, so that only the layer decides.
    assert_int_equal(config_set(&config, CONFIG_SESSION, "top_k", "7", &error), STATUS_OK);
    assert_int_equal(config_set(&config, CONFIG_FLAGS, "top-k", "6", &error), STATUS_OK);
    assert_int_equal(config_apply_environment(&config, environment, &error), STATUS_OK);
    assert_int_equal(apply(&config, "[profile.p]\ntop_k = 4\n"), STATUS_OK);
    assert_int_equal(config_apply_profile(&config, CONFIG_PROFILE, "p", &error), STATUS_OK);
    assert_int_equal(apply(&config, "[sampling]\ntop_k = 2\n"), STATUS_OK);
    const char *b = "[sampling]\ntop_k = 3";
    assert_int_equal(config_apply_text(&config, CONFIG_FILES, "b.toml", b, strlen(b), &error), STATUS_OK);
    assert_int_equal(config_set(&config, CONFIG_MODEL, "top_k", "1", &error), STATUS_OK);
    for (int layer = CONFIG_SESSION; layer >= CONFIG_BUILTIN; layer--) {
        assert_string_equal(shown(&config, "top_k"), values[layer]);
        assert_string_equal(origin(&config, "top_k"), origins[layer]);
        assert_int_equal(config_origin_layer(&config, config_key_find("top_k")), layer);
        config_clear(&config, (ConfigLayer)layer);
    }
    assert_int_equal(config.sampling.top_k, 40);
    config_free(&config);
}

static void reset_takes_back_the_session(void **state) {
    (void)state;
    Config config = fresh();
    assert_int_equal(config_set(&config, CONFIG_FLAGS, "temperature", "0.5", &error), STATUS_OK);
    assert_int_equal(config_set(&config, CONFIG_SESSION, "temperature", "1.5", &error), STATUS_OK);
    assert_int_equal(config_set(&config, CONFIG_SESSION, "temperature", "1.6", &error), STATUS_OK);
    assert_int_equal(config_set(&config, CONFIG_SESSION, "top_p", ".5", &error), STATUS_OK);
    assert_true(config.sampling.temperature == 1.6);
    assert_int_equal(config_reset(&config, "sampling.temperature", &error), STATUS_OK);
    assert_true(config.sampling.temperature == 0.5 && config.sampling.top_p == 0.5);
    assert_int_equal(config_reset(&config, "temperatur", &error), STATUS_USAGE);
    config_free(&config);
}

static void copies_are_apart(void **state) {
    (void)state;
    Config config = fresh(), copy;
    assert_int_equal(apply(&config, "[sampling]\nstop = [\"one\"]\n[profile.p]\nseed = 5"), STATUS_OK);
    assert_int_equal(config_copy(&copy, &config, &error), STATUS_OK);
    assert_int_equal(config_set(&config, CONFIG_SESSION, "stop", "two,three", &error), STATUS_OK);
    assert_int_equal(config_apply_profile(&copy, CONFIG_SESSION, "p", &error), STATUS_OK);
    assert_string_equal(shown(&config, "stop"), "[\"two\", \"three\"]");
    config_free(&config);
    assert_string_equal(shown(&copy, "stop"), "[\"one\"]");
    assert_string_equal(origin(&copy, "stop"), "talk.toml:2");
    assert_int_equal(copy.sampling.seed, 5);
    config_free(&copy);
}

static void profiles(void **state) {
    (void)state;
    Config config = fresh();
    assert_int_equal(config_apply_profile(&config, CONFIG_PROFILE, "x", &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "no file that was read has a [profile.NAME] section"));
    assert_int_equal(apply(&config, "[profile.creative]\ntemperature = 1.2\nsampling.top_k = 9\n"
                                    "[profile.creative.context]\nreserve = 2048\n"
                                    "[profile.sober.sampling]\ntemperature = 0.1\n"),
                     STATUS_OK);
    assert_true(config.sampling.temperature == 0.8);
    assert_string_equal(config_profile_name(&config, 0), "creative");
    assert_string_equal(config_profile_name(&config, 1), "sober");
    assert_null(config_profile_name(&config, 2));
    assert_int_equal(config_apply_profile(&config, CONFIG_PROFILE, "creative", &error), STATUS_OK);
    assert_true(config.sampling.temperature == 1.2 && config.sampling.top_k == 9 &&
                config.context.reserve == 2048);
    assert_string_equal(origin(&config, "reserve"), "talk.toml:5");
    assert_int_equal(config_apply_profile(&config, CONFIG_PROFILE, "sober", &error), STATUS_OK);
    assert_true(config.sampling.temperature == 0.1 && config.sampling.top_k == 40 &&
                config.context.reserve == 1024);
    assert_int_equal(config_apply_profile(&config, CONFIG_PROFILE, "creativ", &error), STATUS_USAGE);
    assert_string_equal(error.message, "no profile \"creativ\"; did you mean \"creative\"?");
    assert_true(config.sampling.temperature == 0.1);
    // Picked in the chat, a profile is above flags.
    assert_int_equal(config_set(&config, CONFIG_FLAGS, "temperature", "0.7", &error), STATUS_OK);
    assert_int_equal(config_apply_profile(&config, CONFIG_SESSION, "creative", &error), STATUS_OK);
    assert_true(config.sampling.temperature == 1.2);
    config_free(&config);
}

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
        {"zzzzzzz = 1", "talk.toml:1:1: unknown key \"zzzzzzz\"; `palaver config` lists all keys"},
        {"sampling = 1",
         "talk.toml:1:1: sampling is a section: write [sampling], or a key such as sampling.NAME"},
        {"[context]\noverflow = \"shfit\"",
         "talk.toml:2:1: context.overflow = \"shfit\": allowed is \"reevaluate\", "
         "\"shift\", \"shift-inplace\" or \"stop\""},
        {"[context]\nkeep = \"all\"",
         "talk.toml:2:1: context.keep = \"all\": allowed is 0 to 16777216 or \"system\""},
        {"[context]\ndiscard = 1.0",
         "talk.toml:2:1: context.discard = 1: allowed is a fraction above 0 and below 1, "
         "or a whole number from 1 to 16777216"},
        {"[sampling]\nstop = [1]",
         "talk.toml:2:1: sampling.stop = 1: allowed is up to 32 strings of 1 to 256 bytes"},
        {"[sampling.logit_bias]\n\"5\" = 1000",
         "talk.toml:1:11: sampling.logit_bias = 1000: allowed is {\"id or "
         "piece\" = bias, ...} with -100 to 100 each, up to 1024"},
        {"[ui]\nstats = 3", "talk.toml:2:1: ui.stats = 3: allowed is true or false"},
        {"[backend]\ndevice = \"cuda:x\"",
         "talk.toml:2:1: backend.device = \"cuda:x\": allowed is \"auto\", \"cpu\", "
         "\"cpu:reference\", \"cuda\" or \"cuda:N\" with N from 0 to 99"},
        {"[profile.a]\ntop_kk = 1", "talk.toml:2:1: unknown key \"top_kk\"; did you mean sampling.top_k?"},
        {"profile = 1", "talk.toml:1:1: a profile is a section [profile.NAME]"},
        {"[profile]\na = 1", "talk.toml:2:1: a profile is a section [profile.NAME]; put a into one"},
        {"[sampling]\nseed = -1", "talk.toml:2:1: sampling.seed = -1: allowed is 0 to 9223372036854775807 or "
                                  "\"random\""},
    };
    Config config = fresh();
    char *before = everything(&config);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(text, sizeof text, "%s\n", cases[i].text);
        assert_int_not_equal(apply(&config, text), STATUS_OK);
        assert_string_equal(error.message, cases[i].message);
    }
    char *after = everything(&config);
    assert_string_equal(before, after);
    free(before);
    free(after);
    config_free(&config);
}

static void syntax_errors_have_a_place(void **state) {
    (void)state;
    Config config = fresh();
    assert_int_equal(apply(&config, "[sampling]\ntop_k = 40\ntop_p = = 1\n"), STATUS_FILE);
    assert_int_equal(strncmp(error.message, "talk.toml:3:9: not valid TOML: ", 31), 0);
    assert_int_equal(apply(&config, "a = 1\na = 2\n"), STATUS_FILE);
    assert_int_equal(strncmp(error.message, "talk.toml:2:", 12), 0);
    assert_int_equal(apply(&config, "[ui]\n\n  [=]\n"), STATUS_FILE);
    assert_string_equal(error.message,
                        "talk.toml:3:4: not valid TOML: a key cannot begin with this character");
    assert_int_equal(apply(&config, "# ü\n'ü' = 1\n  ü = 1\n"), STATUS_FILE);
    assert_string_equal(error.message,
                        "talk.toml:3:3: not valid TOML: a character that needs quotes around it");
    assert_int_equal(config_apply_file(&config, CONFIG_FILES, "no/such.toml", &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "no/such.toml: cannot be read: No such file"));
    assert_int_equal(config_apply_file(&config, CONFIG_FILES, "tests", &error), STATUS_FILE);
    assert_int_equal(config_apply_file(&config, CONFIG_FILES, "/dev/zero", &error), STATUS_FILE);
    config_free(&config);
}

// A file fails as a whole, also when its first keys are good.
static void a_failing_file_changes_nothing(void **state) {
    (void)state;
    Config config = fresh();
    assert_int_equal(apply(&config, "[sampling]\ntop_k = 7\nstop = [\"x\"]\n"), STATUS_OK);
    char *before = everything(&config);
    assert_int_equal(apply(&config, "[sampling]\ntop_k = 8\nstop = [\"y\"]\ntop_p = 2\n[profile.q]\ntop_k=1"),
                     STATUS_USAGE);
    char *after = everything(&config);
    assert_string_equal(before, after);
    assert_null(config_profile_name(&config, 0));
    free(before);
    free(after);
    config_free(&config);
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
        {"logit_bias", "\"a, b\" = 1, 5 = -2", "{\"a, b\" = 1.0, \"5\" = -2.0}"},
        {"stop", "['\\n']", "[\"\\\\n\"]"},
        {"stop", "", "[]"},
        {"stop", "[[1]]", NULL},
        {"logit_bias", "15043=-1.5, x=y=2", "{\"15043\" = -1.5, \" x=y\" = 2.0}"},
        {"logit_bias", "{ \"a b\" = 1 }", "{\"a b\" = 1.0}"},
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
    Config config = fresh();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Status status = config_set(&config, CONFIG_SESSION, cases[i].key, cases[i].text, &error);
        if (!cases[i].value) assert_int_equal(status, STATUS_USAGE);
        if (cases[i].value && status) fail_msg("%s %s: %s", cases[i].key, cases[i].text, error.message);
        if (cases[i].value) assert_string_equal(shown(&config, cases[i].key), cases[i].value);
    }
    assert_int_equal(config_set(&config, CONFIG_FLAGS, "top-p", "7", &error), STATUS_USAGE);
    assert_string_equal(error.message, "--top-p: sampling.top_p = 7: allowed is 0 to 1");
    config_free(&config);
}

static void environment(void **state) {
    (void)state;
    Config config = fresh();
    char *good[] = {"PALAVER_SAMPLING_TEMPERATURE=0.3", "PALAVER_UI_STATS=on",
                    "PALAVER_SAMPLING_TOP_P=", "PALAVER_CUDA_LIBRARY=x", NULL};
    assert_int_equal(config_apply_environment(&config, good, &error), STATUS_OK);
    assert_true(config.sampling.temperature == 0.3 && config.ui.stats && config.sampling.top_p == 0.95);
    char *near[] = {"PALAVER_SAMPLING_TEMPRATURE=0.3", NULL};
    assert_int_equal(config_apply_environment(&config, near, &error), STATUS_USAGE);
    assert_string_equal(error.message, "PALAVER_SAMPLING_TEMPRATURE: unknown variable; did you mean "
                                       "PALAVER_SAMPLING_TEMPERATURE?");
    char *bare[] = {"PALAVER_SAMPLING_TOP_K=3", "PALAVER_TEMPERATURE=0.3", NULL};
    assert_int_equal(config_apply_environment(&config, bare, &error), STATUS_USAGE);
    assert_int_equal(config.sampling.top_k, 40);
    char *range[] = {"PALAVER_SAMPLING_TOP_P=5", NULL};
    assert_int_equal(config_apply_environment(&config, range, &error), STATUS_USAGE);
    assert_string_equal(error.message, "PALAVER_SAMPLING_TOP_P: sampling.top_p = 5: allowed is 0 to 1");
    config_free(&config);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void user_files(void **state) {
    (void)state;
    char folder[] = "/tmp/palaver-config-XXXXXX", path[200], back[4096];
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(back, sizeof back));
    snprintf(path, sizeof path, "%s/palaver", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    setenv("XDG_CONFIG_HOME", folder, 1);
    assert_int_equal(chdir(folder), 0);
    Config config = fresh();
    assert_int_equal(config_apply_user_files(&config, &error), STATUS_OK); // neither is there
    snprintf(path, sizeof path, "%s/palaver/palaver.toml", folder);
    write_file(path, "[sampling]\ntop_k = 1\nmin_p = 0.25\n");
    write_file("palaver.toml", "[sampling]\ntop_k = 2\n");
    assert_int_equal(config_apply_user_files(&config, &error), STATUS_OK);
    assert_true(config.sampling.top_k == 2 && config.sampling.min_p == 0.25);
    assert_string_equal(origin(&config, "top_k"), "palaver.toml:2");
    assert_int_equal(strncmp(origin(&config, "min_p"), path, strlen(path)), 0);
    write_file("palaver.toml", "[sampling]\ntop_k = -2\n");
    assert_int_equal(config_apply_user_files(&config, &error), STATUS_USAGE);
    unlink("palaver.toml");
    unlink(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
    assert_int_equal(chdir(back), 0);
    rmdir(folder);
    unsetenv("XDG_CONFIG_HOME");
    config_free(&config);
}

static void keys_speak(void **state) {
    (void)state;
    size_t count;
    const ConfigKey *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char text[300];
        assert_ptr_equal(config_key_find(keys[i].name), &keys[i]); // bare names are unique
        snprintf(text, sizeof text, "%s.%s", keys[i].section, keys[i].name);
        assert_ptr_equal(config_key_find(text), &keys[i]);
        assert_true(strlen(keys[i].doc) > 5);
        assert_true((size_t)config_key_allowed(&keys[i], text, sizeof text) < 160);
        assert_true((size_t)config_key_environment(&keys[i], text, sizeof text) < NEAREST_NAME_MAX);
    }
    assert_null(config_key_find("context.top_k"));
    assert_null(config_key_find(""));
    assert_null(config_key_find("sampling."));
    assert_ptr_equal(config_key_find("repeat-penalty"), config_key_find("sampling.repeat_penalty"));
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
        assert_int_equal(name_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(name_distance(cases[i].b, cases[i].a), cases[i].distance);
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

// ---- TOML --------------------------------------------------------------------------------------------

static void toml_tree(void **state) {
    (void)state;
    const char *text = "b = [1, 2.5, 'x']\na = {k = true}\nd = 1979-05-27\ns = \"nul\\u0000in\"\n";
    TomlNode *root;
    assert_int_equal(toml_parse("t", text, strlen(text), &root, &error), STATUS_OK);
    assert_int_equal(root->n_children, 4);
    const TomlNode *b = &root->children[0];
    assert_string_equal(b->key, "b");
    assert_int_equal(b->n_children, 3);
    assert_int_equal(b->children[1].line, 1);
    assert_int_equal(b->children[1].column, 9);
    assert_true(b->children[1].number == 2.5 && b->children[0].integer == 1 && b->children[0].number == 1);
    assert_true(toml_child(toml_child(root, "a"), "k")->boolean);
    assert_int_equal(toml_child(root, "d")->type, TOML_DATE);
    assert_int_equal(toml_child(root, "s")->length, 6);
    assert_null(toml_child(root, "nothing"));
    toml_free(root);
    assert_int_equal(toml_parse("t", "\"a\\u0000b\" = 1", 14, &root, &error), STATUS_FILE);
    assert_null(root);
    assert_int_equal(toml_parse("t", "a = \"\xff\"", 7, &root, &error), STATUS_FILE);
}

static void toml_depth_is_bounded(void **state) {
    (void)state;
    size_t size = 600000;
    char *text = malloc(size + 1);
    TomlNode *root;
    for (int kind = 0; kind < 4; kind++) {
        for (size_t i = 0; i < size; i++) text[i] = "a.[[{a=a."[kind * 2 + (kind == 2 ? i % 3 : i % 2)];
        text[size] = 0;
        assert_int_equal(toml_parse("t", text, size, &root, &error), STATUS_FILE);
    }
    // Dots that are not depth: in strings, comments and numbers.
    for (size_t i = 0; i < 300; i++) text[i] = '.';
    text[300] = 0;
    char *document = NULL;
    assert_true(asprintf(&document,
                         "# %s\na = \"%s\\\"%s\"\nb = '''%s\n%s'''\nc = \"\"\"\n%s\"\"\"\"\"\nd = 'ü'\n",
                         text, text, text, text, text, text) > 0);
    assert_int_equal(toml_parse("t", document, strlen(document), &root, &error), STATUS_OK);
    toml_free(root);
    free(document);
    free(text);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_values),
        cmocka_unit_test(default_file_is_whole),
        cmocka_unit_test(printed_default_changes_nothing),
        cmocka_unit_test(every_value_reads_back),
        cmocka_unit_test(layers_in_order),
        cmocka_unit_test(reset_takes_back_the_session),
        cmocka_unit_test(copies_are_apart),
        cmocka_unit_test(profiles),
        cmocka_unit_test(messages),
        cmocka_unit_test(syntax_errors_have_a_place),
        cmocka_unit_test(a_failing_file_changes_nothing),
        cmocka_unit_test(typed_text),
        cmocka_unit_test(environment),
        cmocka_unit_test(user_files),
        cmocka_unit_test(keys_speak),
        cmocka_unit_test(distances),
        cmocka_unit_test(toml_tree),
        cmocka_unit_test(toml_depth_is_bounded),
    };
    return test_main("config", argc, argv, tests);
}
