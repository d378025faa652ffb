// Settings: the documented file, precedence and origins, environment and files, the table of keys.
#include "tests/support/talk/settings.h"
#include "tests/support/test.h"

#include "engine/talk/sampler.h"
#include "kernels/base/text/nearest.h"
#include "kernels/base/text/toml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static Error error;

// ---- the documented file -----------------------------------------------------------------------------

static void built_in_values(void **state) {
    (void)state;
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    assert_true(settings.talk.sampler.temperature == 0.8f && settings.talk.sampler.top_p == 0.95f &&
                settings.talk.sampler.top_k == 40);
    assert_true(settings.talk.sampler.min_p == 0.05f && settings.talk.sampler.typical_p == 1);
    assert_true(settings.talk.sampler.repeat_penalty == 1 && settings.talk.sampler.repeat_last == 64);
    assert_int_equal(settings.sampling.seed, SETTINGS_SEED_RANDOM);
    assert_int_equal(settings.talk.max_tokens, 0);
    assert_int_equal(settings.sampling.stop.count, 0);
    assert_int_equal(settings.sampling.logit_bias.count, 0);
    assert_false(settings.talk.sampler.ignore_eos);
    assert_int_equal(settings.engine.context_size, 0);
    assert_int_equal(settings.talk.overflow.reserve, 1024);
    assert_int_equal(settings.talk.overflow.policy, OVERFLOW_REEVALUATE);
    assert_int_equal(settings.talk.overflow.keep, OVERFLOW_KEEP_SYSTEM);
    assert_true(settings.talk.overflow.discard == 0.5 && settings.talk.overflow.low_water == 0.5);
    assert_int_equal(settings.talk.overflow.by_token, 0);
    assert_int_equal(settings.engine.cache.type, DTYPE_F16);
    assert_int_equal(settings.engine.weights, WEIGHTS_OWN);
    assert_int_equal(settings.engine.head, WEIGHTS_OWN);
    assert_string_equal(settings.model.path, "");
    assert_string_equal(settings.model.template, "auto");
    assert_string_equal(settings.engine.device, "auto");
    assert_int_equal(settings.ui.color, SCREEN_COLOR_AUTO);
    assert_true(settings.ui.gauge && settings.ui.history && !settings.ui.stats);
    assert_string_equal(settings_origin(config, "temperature"), "built in");
    // What the engine does by itself is what palaver does by itself.
    SamplerSettings engine = sampler_default_settings();
    assert_memory_equal(&engine, &settings.talk.sampler, sizeof engine);
    config_free(config);
}

// What it says a number may be is what it may be.
static void default_file_has_the_ranges(void **state) {
    (void)state;
    char *text = config_default_text(settings_table()), range[64];
    size_t count;
    const ConfigKey *keys = settings_keys(&count);
    for (char *end; (end = strstr(text, "\n# "));) memmove(end, end + 2, strlen(end + 2) + 1);
    for (size_t i = 0; i < count; i++) {
        if (keys[i].type != CONFIG_NUMBER && (keys[i].type != CONFIG_INTEGER || keys[i].words)) continue;
        snprintf(range, sizeof range, "%.15g to %.15g", keys[i].min, keys[i].max);
        if (!strstr(text, range)) fail_msg("%s: %s is not told", keys[i].name, range);
    }
    free(text);
}

// default.toml names every key and nothing else, under the value that is built in.
static void default_file_is_whole(void **state) {
    (void)state;
    TomlNode *root;
    assert_int_equal(toml_parse_file("config/default.toml", &root, &error), STATUS_OK);
    size_t count, in_file = 0;
    const ConfigKey *keys = settings_keys(&count);
    for (size_t i = 0; i < root->n_children; i++) in_file += root->children[i].n_children;
    assert_int_equal(in_file, count);
    toml_free(root);

    Settings built_in = settings_fresh(), read = settings_fresh();
    assert_int_equal(config_apply_file(&read.config, CONFIG_FILES, "config/default.toml", &error), STATUS_OK);
    char a[512], b[512];
    for (size_t i = 0; i < count; i++) {
        config_print_value(&built_in.config, &keys[i], a, sizeof a);
        config_print_value(&read.config, &keys[i], b, sizeof b);
        assert_string_equal(a, b);
        assert_int_equal(strncmp(config_origin(&read.config, &keys[i]), "config/default.toml:", 20), 0);
    }
    settings_free(&built_in);
    settings_free(&read);
}

// What `palaver config --default` prints pins nothing, so that the model's own values still count.
static void printed_default_changes_nothing(void **state) {
    (void)state;
    char *text = config_default_text(settings_table());
    assert_non_null(text);
    assert_non_null(strstr(text, "\n#temperature = 0.8\n"));
    assert_non_null(strstr(text, "\n[sampling]\n"));
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    char *before = settings_all(config);
    assert_int_equal(settings_apply(config, text, &error), STATUS_OK);
    char *after = settings_all(config);
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(text);
    config_free(config);
}

static void every_value_reads_back(void **state) {
    (void)state;
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    assert_int_equal(settings_apply(config,
                                    "[sampling]\n"
                                    "stop = [\"a\\\"\\\\\\n\\u0001\", \"\\u00fc,\"]\n"
                                    "logit_bias = {\"15043\" = -100, \" may=be,\" = 0.1}\n"
                                    "temperature = 0.30000000000000004\nseed = 9223372036854775807\n"
                                    "[context]\ndiscard = 100\n[model]\npath = \"a b\\t#\"\n",
                                    &error),
                     STATUS_OK);
    size_t count;
    const ConfigKey *keys = settings_keys(&count);
    Settings twin = settings_fresh();
    Config *copy = &twin.config;
    for (size_t i = 0; i < count; i++) {
        char text[1024], again[1024];
        config_print_value(config, &keys[i], text, sizeof text);
        if (config_set(copy, CONFIG_SESSION, keys[i].name, text, &error))
            fail_msg("%s = %s: %s", keys[i].name, text, error.message);
        config_print_value(copy, &keys[i], again, sizeof again);
        assert_string_equal(text, again);
    }
    assert_string_equal(settings_value(copy, "temperature"), "0.30000000000000004");
    assert_int_equal(twin.sampling.seed, INT64_MAX);
    assert_string_equal(twin.sampling.stop.items[0], "a\"\\\n\x01");
    assert_string_equal(twin.sampling.logit_bias.items[1].token, " may=be,");
    config_free(config);
    config_free(copy);
}

// ---- precedence --------------------------------------------------------------------------------------

static void layers_in_order(void **state) {
    (void)state;
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    char *environment[] = {"PALAVER_SAMPLING_TOP_K=5", "HOME=/", "PALAVER=build/palaver", NULL};
    const char *values[] = {"40", "1", "3", "4", "5", "6", "7"};
    const char *origins[] = {"built in",    "generation_config.json", "b.toml:2",
                             "talk.toml:2", "PALAVER_SAMPLING_TOP_K", "--top-k",
                             "/set"};
    // From the highest to the lowest, so that only the layer decides.
    assert_int_equal(config_set(config, CONFIG_SESSION, "top_k", "7", &error), STATUS_OK);
    assert_int_equal(config_set(config, CONFIG_FLAGS, "top-k", "6", &error), STATUS_OK);
    assert_int_equal(config_apply_environment(config, environment, &error), STATUS_OK);
    assert_int_equal(settings_apply(config, "[profile.p]\ntop_k = 4\n", &error), STATUS_OK);
    assert_int_equal(config_apply_profile(config, CONFIG_PROFILE, "p", &error), STATUS_OK);
    assert_int_equal(settings_apply(config, "[sampling]\ntop_k = 2\n", &error), STATUS_OK);
    const char *b = "[sampling]\ntop_k = 3";
    assert_int_equal(settings_apply_named(config, "b.toml", b, &error), STATUS_OK);
    assert_int_equal(config_set(config, CONFIG_MODEL, "top_k", "1", &error), STATUS_OK);
    for (int layer = CONFIG_SESSION; layer >= CONFIG_BUILTIN; layer--) {
        assert_string_equal(settings_value(config, "top_k"), values[layer]);
        assert_string_equal(settings_origin(config, "top_k"), origins[layer]);
        assert_int_equal(config_origin_layer(config, settings_key("top_k")), layer);
        config_clear(config, (ConfigLayer)layer);
    }
    assert_int_equal(settings.talk.sampler.top_k, 40);
    config_free(config);
}

static void reset_takes_back_the_session(void **state) {
    (void)state;
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    assert_int_equal(config_set(config, CONFIG_FLAGS, "temperature", "0.5", &error), STATUS_OK);
    assert_int_equal(config_set(config, CONFIG_SESSION, "temperature", "1.5", &error), STATUS_OK);
    assert_int_equal(config_set(config, CONFIG_SESSION, "temperature", "1.6", &error), STATUS_OK);
    assert_int_equal(config_set(config, CONFIG_SESSION, "top_p", ".5", &error), STATUS_OK);
    assert_true(settings.talk.sampler.temperature == 1.6f);
    assert_int_equal(config_reset(config, "sampling.temperature", &error), STATUS_OK);
    assert_true(settings.talk.sampler.temperature == 0.5f && settings.talk.sampler.top_p == 0.5f);
    assert_int_equal(config_reset(config, "temperatur", &error), STATUS_USAGE);
    config_free(config);
}

// What is typed where texts are wanted is taken as it is, blanks and brackets too, unless it is quoted.
static void texts_are_taken_as_they_are(void **state) {
    static const char *const cases[][3] = {
        {"stop", " glad", "[\" glad\"]"},
        {"stop", "\"a\", \" b\"", "[\"a\", \" b\"]"},
        {"regex", " a ", "\" a \""},
        {"regex", "[123]", "\"[123]\""},
        {"json_schema", "{}", "\"{}\""},
        {"regex", " \"q\"", "\"q\""},
        {"logit_bias", " {\"a\" = 1}", "{\"a\" = 1}"},
        {"top_k", " 7 ", "7"},
    };
    (void)state;
    Settings settings = settings_fresh();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(config_set(&settings.config, CONFIG_SESSION, cases[i][0], cases[i][1], &error),
                         STATUS_OK);
        assert_string_equal(settings_value(&settings.config, cases[i][0]), cases[i][2]);
    }
    config_free(&settings.config);
}

static void copies_are_apart(void **state) {
    (void)state;
    Settings settings = settings_fresh(), twin;
    Config *config = &settings.config, *copy = &twin.config;
    assert_int_equal(settings_apply(config, "[sampling]\nstop = [\"one\"]\n[profile.p]\nseed = 5", &error),
                     STATUS_OK);
    assert_int_equal(settings_copy(&twin, &settings, &error), STATUS_OK);
    assert_int_equal(config_set(config, CONFIG_SESSION, "stop", "two,three", &error), STATUS_OK);
    assert_int_equal(config_apply_profile(copy, CONFIG_SESSION, "p", &error), STATUS_OK);
    assert_string_equal(settings_value(config, "stop"), "[\"two\", \"three\"]");
    config_free(config);
    assert_string_equal(settings_value(copy, "stop"), "[\"one\"]");
    assert_string_equal(settings_origin(copy, "stop"), "talk.toml:2");
    assert_int_equal(twin.sampling.seed, 5);
    config_free(copy);
}

static void profiles(void **state) {
    (void)state;
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    assert_int_equal(config_apply_profile(config, CONFIG_PROFILE, "x", &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "no file that was read has a [profile.NAME] section"));
    assert_int_equal(settings_apply(config,
                                    "[profile.creative]\ntemperature = 1.2\nsampling.top_k = 9\n"
                                    "[profile.creative.context]\nreserve = 2048\n"
                                    "[profile.sober.sampling]\ntemperature = 0.1\n",
                                    &error),
                     STATUS_OK);
    assert_true(settings.talk.sampler.temperature == 0.8f);
    assert_string_equal(config_profile_name(config, 0), "creative");
    assert_string_equal(config_profile_name(config, 1), "sober");
    assert_null(config_profile_name(config, 2));
    assert_int_equal(config_apply_profile(config, CONFIG_PROFILE, "creative", &error), STATUS_OK);
    assert_true(settings.talk.sampler.temperature == 1.2f && settings.talk.sampler.top_k == 9 &&
                settings.talk.overflow.reserve == 2048);
    assert_string_equal(settings_origin(config, "reserve"), "talk.toml:5");
    assert_int_equal(config_apply_profile(config, CONFIG_PROFILE, "sober", &error), STATUS_OK);
    assert_true(settings.talk.sampler.temperature == 0.1f && settings.talk.sampler.top_k == 40 &&
                settings.talk.overflow.reserve == 1024);
    assert_int_equal(config_apply_profile(config, CONFIG_PROFILE, "creativ", &error), STATUS_USAGE);
    assert_string_equal(error.message, "no profile \"creativ\"; did you mean \"creative\"?");
    assert_true(settings.talk.sampler.temperature == 0.1f);
    // Picked in the chat, a profile is above flags.
    assert_int_equal(config_set(config, CONFIG_FLAGS, "temperature", "0.7", &error), STATUS_OK);
    assert_int_equal(config_apply_profile(config, CONFIG_SESSION, "creative", &error), STATUS_OK);
    assert_true(settings.talk.sampler.temperature == 1.2f);
    config_free(config);
}

// ---- environment, files, keys -----------------------------------------------------------------------

static void environment(void **state) {
    (void)state;
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    char *good[] = {"PALAVER_SAMPLING_TEMPERATURE=0.3", "PALAVER_UI_STATS=on",
                    "PALAVER_SAMPLING_TOP_P=", "PALAVER_CUDA_LIBRARY=x", NULL};
    assert_int_equal(config_apply_environment(config, good, &error), STATUS_OK);
    assert_true(settings.talk.sampler.temperature == 0.3f && settings.ui.stats &&
                settings.talk.sampler.top_p == 0.95f);
    char *near[] = {"PALAVER_SAMPLING_TEMPRATURE=0.3", NULL};
    assert_int_equal(config_apply_environment(config, near, &error), STATUS_USAGE);
    assert_string_equal(error.message, "PALAVER_SAMPLING_TEMPRATURE: unknown variable; did you mean "
                                       "PALAVER_SAMPLING_TEMPERATURE?");
    char *bare[] = {"PALAVER_SAMPLING_TOP_K=3", "PALAVER_TEMPERATURE=0.3", NULL};
    assert_int_equal(config_apply_environment(config, bare, &error), STATUS_USAGE);
    assert_int_equal(settings.talk.sampler.top_k, 40);
    char *range[] = {"PALAVER_SAMPLING_TOP_P=5", NULL};
    assert_int_equal(config_apply_environment(config, range, &error), STATUS_USAGE);
    assert_string_equal(error.message, "PALAVER_SAMPLING_TOP_P: sampling.top_p = 5: allowed is 0 to 1");
    config_free(config);
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
    Settings settings = settings_fresh();
    Config *config = &settings.config;
    assert_int_equal(config_apply_user_files(config, &error), STATUS_OK); // neither is there
    snprintf(path, sizeof path, "%s/palaver/palaver.toml", folder);
    write_file(path, "[sampling]\ntop_k = 1\nmin_p = 0.25\n");
    write_file("palaver.toml", "[sampling]\ntop_k = 2\n");
    assert_int_equal(config_apply_user_files(config, &error), STATUS_OK);
    assert_true(settings.talk.sampler.top_k == 2 && settings.talk.sampler.min_p == 0.25f);
    assert_string_equal(settings_origin(config, "top_k"), "palaver.toml:2");
    assert_int_equal(strncmp(settings_origin(config, "min_p"), path, strlen(path)), 0);
    write_file("palaver.toml", "[sampling]\ntop_k = -2\n");
    assert_int_equal(config_apply_user_files(config, &error), STATUS_USAGE);
    unlink("palaver.toml");
    unlink(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
    assert_int_equal(chdir(back), 0);
    rmdir(folder);
    unsetenv("XDG_CONFIG_HOME");
    config_free(config);
}

static void keys_speak(void **state) {
    (void)state;
    size_t count;
    const ConfigKey *keys = settings_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char text[300];
        assert_ptr_equal(settings_key(keys[i].name), &keys[i]); // bare names are unique
        snprintf(text, sizeof text, "%s.%s", keys[i].section, keys[i].name);
        assert_ptr_equal(settings_key(text), &keys[i]);
        assert_true(strlen(keys[i].doc) > 5);
        assert_true((size_t)config_key_allowed(&keys[i], text, sizeof text) < 160);
        assert_true((size_t)config_key_environment(&keys[i], text, sizeof text) < NEAREST_NAME_MAX);
    }
    assert_null(settings_key("context.top_k"));
    assert_null(settings_key(""));
    assert_null(settings_key("sampling."));
    assert_ptr_equal(settings_key("repeat-penalty"), settings_key("sampling.repeat_penalty"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_values),
        cmocka_unit_test(default_file_has_the_ranges),
        cmocka_unit_test(default_file_is_whole),
        cmocka_unit_test(printed_default_changes_nothing),
        cmocka_unit_test(every_value_reads_back),
        cmocka_unit_test(layers_in_order),
        cmocka_unit_test(reset_takes_back_the_session),
        cmocka_unit_test(texts_are_taken_as_they_are),
        cmocka_unit_test(copies_are_apart),
        cmocka_unit_test(profiles),
        cmocka_unit_test(environment),
        cmocka_unit_test(user_files),
        cmocka_unit_test(keys_speak),
    };
    return test_main("config", argc, argv, tests);
}
