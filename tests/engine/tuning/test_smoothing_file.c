// By what channels of int8 layers are divided, as the first load measured it: kept, read again, and measured anew where the
// file is anything else than was written of the same, or the model's files are others.
#include "engine/engine_internal.h"
#include "engine/model/model.h"
#include "engine/smoothing.h"
#include "engine/tuning/smoothing_file.h"
#include "kernels/base/checksum.h"
#include "kernels/base/file.h"
#include "kernels/base/text/toml.h"
#include "tests/support/files.h"
#include "tests/support/kernels/random.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAYERS = 3 };
#define BEGIN(smoothed) "version = 2\nof = \"this\"\nsmoothed = " smoothed "\n"
#define LAYER(index, scales) "[[layer]]\nindex = " index "\nscales = '" scales "'\n"

static Error error;

static void forget(float **scales, int n) {
    for (int l = 0; l < n; l++) free(scales[l]), scales[l] = NULL;
}

// Layers of 4 and 6 channels, and one of experts between them.
static SmoothingFile file_of_three(LayerWeights *layers) {
    memset(layers, 0, LAYERS * sizeof *layers);
    layers[0].w_down.cols = layers[1].w_down.cols = 4, layers[2].w_down.cols = 6;
    layers[1].router.data = layers;
    return (SmoothingFile){.of = "this", .path = "FILE", .n_layers = LAYERS, .layers = layers};
}

static void only_what_was_written_is_read(void **state) {
    (void)state;
    static const struct {
        const char *text, *found; // of each layer its first channel's letter or '-'; NULL: it is no such file
    } CASES[] = {
        {BEGIN("0"), "---"},
        {BEGIN("1") LAYER("0", "PPPP"), "P--"},
        {BEGIN("2") LAYER("0", "@P`Q") LAYER("2", "PP\\PPP"), "@-P"},
        {BEGIN("2") LAYER("0", "@P`Q") LAYER("0", "PPPP"), NULL},
        {BEGIN("2") LAYER("2", "PPPPPP") LAYER("0", "PPPP"), NULL},
        {BEGIN("1") LAYER("1", "PPPP"), NULL}, // experts
        {BEGIN("1") LAYER("3", "PPPP"), NULL},
        {BEGIN("1") LAYER("-1", "PPPP"), NULL},
        {BEGIN("1") LAYER("0", "PPP"), NULL},
        {BEGIN("1") LAYER("0", "PPPPP"), NULL},
        {BEGIN("1") LAYER("0", "PPP?"), NULL},
        {BEGIN("1") LAYER("0", "PPPa"), NULL},
        {BEGIN("1") LAYER("0", "PP\xc3\xa4"), NULL},
        {BEGIN("2") LAYER("0", "PPPP") LAYER("2", "PPPPP"), NULL},
        {BEGIN("1") LAYER("0", "PPPP") "more = 1\n", NULL},
        {BEGIN("1") LAYER("0", "PPPP") "[more]\n", NULL},
        {BEGIN("1") "layer = 1\n", NULL},
        {BEGIN("1") "layer = [1]\n", NULL},
        {BEGIN("1") "[[layer]]\nindex = 0\n", NULL},
        {BEGIN("1") "[[layer]]\nindex = 0.0\nscales = 'PPPP'\n", NULL},
        {BEGIN("1") "[[layer]]\nindex = 0\nscales = 1\n", NULL},
        {BEGIN("0") LAYER("0", "PPPP"), NULL},
        {BEGIN("2") LAYER("0", "PPPP"), NULL},
        {BEGIN("-1"), NULL},
        {BEGIN("\"0\""), NULL},
        {"version = 2\nof = \"this\"\n", NULL},
        {"version = 1\nof = \"this\"\nsmoothed = 0\n", NULL},
        {"version = 3\nof = \"this\"\nsmoothed = 0\n", NULL},
        {"version = 2\nof = \"that\"\nsmoothed = 0\n", NULL},
        {"version = 2\nof = \"this\\u0000\"\nsmoothed = 0\n", NULL},
        {"version = 2\nsmoothed = 0\n", NULL},
        {"version = 2\n", NULL},
        {"version = 2\nof = \"this", NULL},
        {"", NULL},
    };
    LayerWeights layers[LAYERS];
    const SmoothingFile file = file_of_three(layers);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        float *scales[LAYERS] = {NULL};
        char text[512];
        const int length = snprintf(text, sizeof text, "digest = \"%016" PRIx64 "\"\n%s",
                                    checksum_of(CASES[i].text, strlen(CASES[i].text)), CASES[i].text);
        const bool good = smoothing_file_parse(&file, text, (size_t)length, scales);
        if (good != (CASES[i].found != NULL)) fail_msg("%s", CASES[i].text);
        for (int l = 0; l < LAYERS; l++) {
            const char letter = good ? CASES[i].found[l] : '-';
            if ((scales[l] != NULL) != (letter != '-')) fail_msg("layer %d: %s", l, CASES[i].text);
            if (scales[l]) assert_float_equal(scales[l][0], letter == '@' ? 1.0f / 65536 : 1, 0);
        }
        forget(scales, LAYERS);
    }
}

// Puts `to` in the place of the first `from`.
static void replace(char *text, const char *from, const char *to) {
    char rest[1024], *at = strstr(text, from);
    assert_non_null(at);
    snprintf(rest, sizeof rest, "%s", at + strlen(from));
    sprintf(at, "%s%s", to, rest);
}

// Each is a text that would do, were it not for the digest: scales of another measurement, or of other layers.
static void damage_is_seen(void **state) {
    static const struct {
        const char *from, *to; // NULL: the text ends before `from`
    } CASES[] = {
        {"PPQP", "PPRP"},
        {"PPQP", "PQPP"},
        {"index = 2", "index = 3"},
        {"index = 0", "index = 1"},
        {"'PPQP'\n[[layer]]\nindex = 2\nscales = 'PPQPOP'",
         "'PPQPOP'\n[[layer]]\nindex = 2\nscales = 'PPQP'"},
        {"[[layer]]\nindex = 2", NULL},
        {"[[layer]]\nindex = 0", NULL},
        {"[[layer]]\nindex = 0\nscales = 'PPQP'\n", ""},
        {"# ", "#  "},
        {"digest = \"", "digest = \"0"},
        {"digest = ", "#"},
        {"version", "\nversion"},
    };
    LayerWeights layers[LAYERS];
    SmoothingFile file = file_of_three(layers);
    float few[] = {1, 1, 2, 1}, many[] = {1, 1, 2, 1, 0.5f, 1}, *const scales[] = {few, NULL, many};
    float *read[LAYERS] = {NULL};
    layers[1].router.data = NULL; // it could be smoothed as layer 0 is
    snprintf(file.path, sizeof file.path, "%s/smoothing.toml", (const char *)*state);
    assert_ok(smoothing_file_write(&file, scales, &error), &error);
    Bytes whole = bytes_of_file(file.path);
    assert_true(whole.size < 1024);
    assert_true(smoothing_file_read(&file, read));
    forget(read, LAYERS);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[1024 + 64] = {0};
        memcpy(text, whole.data, whole.size);
        if (CASES[i].to)
            replace(text, CASES[i].from, CASES[i].to);
        else
            *strstr(text, CASES[i].from) = 0;
        if (smoothing_file_parse(&file, text, strlen(text), read)) fail_msg("%s", text);
        for (int l = 0; l < LAYERS; l++) assert_null(read[l]);
    }
    bytes_free(&whole);
}

// What is more than a TOML file has room for is not written.
static void all_that_is_written_can_be_read(void **state) {
    static LayerWeights layers[2];
    SmoothingFile file = {.of = "this", .n_layers = 2, .layers = layers};
    float *scales[2], *read[2] = {NULL};
    snprintf(file.path, sizeof file.path, "%s/new/smoothing.toml", (const char *)*state);
    for (int n = 28672; n <= 1 << 20; n *= 4) {
        layers[0].w_down.cols = layers[1].w_down.cols = n;
        for (int l = 0; l < 2; l++) {
            scales[l] = malloc((size_t)n * sizeof **scales);
            for (int i = 0; i < n; i++)
                scales[l][i] = (float)(i % 33 < 16 ? 1.0 / (1 << i % 33) : 1 << (i % 33 - 16));
        }
        const bool fits = 2 * n + 1024 < TOML_MAX_BYTES;
        const Status status = smoothing_file_write(&file, scales, &error);
        assert_int_equal(status, fits ? STATUS_OK : STATUS_UNSUPPORTED);
        if (fits) {
            assert_true(smoothing_file_read(&file, read));
            for (int l = 0; l < 2; l++) assert_memory_equal(read[l], scales[l], (size_t)n * sizeof **scales);
            forget(read, 2);
        }
        forget(scales, 2);
    }
}

// ---- loads ------------------------------------------------------------------------------------------------------

// A load of the folder's model, as int8; the caller closes it.
static Engine *load(const char *folder, bool keeps, SmoothingFile *file) {
    Engine *engine;
    Model *model;
    const EngineOptions options = {.device = "cpu",
                                   .n_threads = 1,
                                   .context_size = 64,
                                   .cache = cache_options(DTYPE_F32),
                                   .weights = WEIGHTS_INT8,
                                   .keeps_trials = keeps};
    assert_ok(model_open(folder, &model, &error), &error);
    assert_ok(engine_open_model(model, &options, &engine, &error), &error);
    assert_ok(smoothing_file_of(engine_model(engine), file, &error), &error);
    return engine;
}

static void copy_model(const char *folder) {
    static const char *const FILES[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        char from[200];
        snprintf(from, sizeof from, "%s/llama/%s", GOLDEN_MODELS, FILES[i]);
        folder_copy(folder, FILES[i], from);
    }
}

// A scale that no measurement finds, to see where a load has it from.
static bool is_planted(Engine *engine) {
    const float *s = engine_model(engine)->smoothing[1];
    return s && s[3] == 65536;
}

static void plant(const SmoothingFile *file) {
    float *scales[8] = {NULL};
    const size_t n = (size_t)file->layers[1].w_down.cols;
    assert_true(file->n_layers <= 8);
    scales[1] = malloc(n * sizeof **scales);
    for (size_t i = 0; i < n; i++) scales[1][i] = i == 3 ? 65536 : 1;
    assert_ok(smoothing_file_write(file, scales, &error), &error);
    forget(scales, 8);
}

static void the_first_load_measures(void **state) {
    SmoothingFile file, other;
    char *folder = folder_new(), path[PATH_ROOM];
    float *scales[8] = {NULL};
    setenv("XDG_CACHE_HOME", *state, 1);
    copy_model(folder);
    engine_close(load(folder, false, &file));
    struct stat s;
    assert_int_not_equal(stat(file.path, &s), 0); // nothing was to be kept
    Engine *engine = load(folder, true, &file);
    assert_int_equal(stat(file.path, &s), 0);
    assert_true(smoothing_file_read(&file, scales)); // none of them has outliers, which is kept as well
    for (int l = 0; l < file.n_layers; l++) assert_null(scales[l]);
    plant(&file);
    engine_close(engine);

    engine = load(folder, true, &file);
    assert_true(is_planted(engine));
    engine_close(engine);
    engine = load(folder, false, &file);
    assert_false(is_planted(engine));
    engine_close(engine);
    static const char *const WRONG[] = {"", "version = 9\n", "version = 2\nof = \"another\"\n"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) { // made again
        assert_ok(file_write(file.path, WRONG[i], strlen(WRONG[i]), 0644, &error), &error);
        engine = load(folder, true, &file);
        assert_false(is_planted(engine));
        assert_true(smoothing_file_read(&file, scales));
        plant(&file);
        engine_close(engine);
    }
    // The same bytes at another time are another model.
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    engine = load(folder, true, &other);
    assert_string_not_equal(file.path, other.path);
    assert_false(is_planted(engine));
    engine_close(engine);
    folder_remove(folder);
}

// Writes into the file in place, and sets its time back.
static void write_unseen(const char *path) {
    struct stat before, after;
    char byte;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &before), 0);
    assert_int_equal(pread(fd, &byte, 1, before.st_size - 100), 1);
    assert_int_equal(pwrite(fd, &byte, 1, before.st_size - 100), 1); // no sample could tell
    assert_int_equal(futimens(fd, (const struct timespec[]){before.st_atim, before.st_mtim}), 0);
    assert_int_equal(fstat(fd, &after), 0);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
    close(fd);
}

// Samples, size and time of a file are the same: its change time, or its inode, are not.
static void who_wrote_to_a_model_has_another(void **state) {
    static const struct timespec TIMES[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    SmoothingFile files[4];
    char path[PATH_ROOM];
    setenv("XDG_CACHE_HOME", *state, 1);
    char *folders[2] = {folder_new(), folder_new()};
    for (int i = 0; i < 2; i++) {
        copy_model(folders[i]);
        snprintf(path, sizeof path, "%s/model.safetensors", folders[i]);
        assert_int_equal(utimensat(AT_FDCWD, path, TIMES, 0), 0);
    }
    for (int i = 0; i < 4; i++) { // the first folder twice, written to, and the second one
        if (i == 2) snprintf(path, sizeof path, "%s/model.safetensors", folders[0]), write_unseen(path);
        Engine *engine = load(folders[i == 3], true, &files[i]);
        assert_int_equal(is_planted(engine), i == 1);
        plant(&files[i]);
        engine_close(engine);
        const bool same = !strcmp(files[i].path, files[0].path);
        assert_int_equal(same, i < 2);
    }
    for (int i = 0; i < 2; i++) folder_remove(folders[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_was_written_is_read),
        cmocka_unit_test_setup_teardown(damage_is_seen, folder_set_up, folder_tear_down),
        cmocka_unit_test_setup_teardown(all_that_is_written_can_be_read, folder_set_up, folder_tear_down),
        cmocka_unit_test_setup_teardown(the_first_load_measures, folder_set_up, folder_tear_down),
        cmocka_unit_test_setup_teardown(who_wrote_to_a_model_has_another, folder_set_up, folder_tear_down),
    };
    return test_main("smoothing_file", argc, argv, tests);
}
