// Ranks whose files are copies: alike they are taken, whatever holds their weights, and where a byte differs that a rank uses
// it is refused, with the tensor's name (engine/ranks.c).
#include "engine/engine_internal.h"
#include "engine/files/checkpoint_internal.h"
#include "engine/model/weight_sums.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/files.h"
#include "tests/support/kernels/random.h"
#include "tests/support/ranks/ranks.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BABBLER "tests/golden/babbler"
#define COPIES "build/tmp/ranks-files"

enum { ROOM = 400 };

static Error error;

static void copy_to(const char *path, const char *as, char copy[ROOM]) {
    char command[3 * ROOM];
    snprintf(copy, ROOM, COPIES "/%ld/%s", (long)getpid(), as);
    snprintf(command, sizeof command, "rm -rf %s && mkdir -p %s && cp -r %s %s/", copy, copy, path, copy);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): paths of this test
    snprintf(copy + strlen(copy), ROOM - strlen(copy), "%s", strrchr(path, '/'));
}

static void forget_copies(void) {
    char command[ROOM];
    snprintf(command, sizeof command, "rm -rf " COPIES "/%ld", (long)getpid());
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c)
}

// The golden folders of quantised weights have one layer: a second one of the same bytes, so that they can be divided.
static void double_layers(const char *folder) {
    char path[2 * ROOM], command[3 * ROOM];
    uint64_t size;
    snprintf(command, sizeof command,
             "sed -i 's/\"num_hidden_layers\": 1\\b/\"num_hidden_layers\": 2/' %s/config.json", folder);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c)
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    Bytes bytes = bytes_of_file(path), doubled = {0};
    memcpy(&size, bytes.data, sizeof size);
    const uint8_t *data = bytes.data + sizeof size + size;
    const size_t n = bytes.size - sizeof size - size;
    size_t last = 0; // where the layer's last tensor ends: nothing may stand behind the second one's
    json_t *header = json_loadb((char *)bytes.data + sizeof size, size, 0, NULL), *second = json_object(),
           *value;
    assert_non_null(header);
    const char *key;
    json_object_foreach(header, key, value) {
        char name[ROOM];
        const char *at = strstr(key, ".layers.0.");
        if (!at) continue;
        snprintf(name, sizeof name, "%.*s.layers.1.%s", (int)(at - key), key, at + strlen(".layers.0."));
        json_t *copy = json_deep_copy(value), *offsets = json_object_get(copy, "data_offsets");
        for (size_t i = 0; i < 2; i++) {
            json_t *offset = json_array_get(offsets, i);
            if ((size_t)json_integer_value(offset) > last) last = (size_t)json_integer_value(offset);
            json_integer_set(offset, json_integer_value(offset) + (json_int_t)n);
        }
        json_object_set_new(second, name, copy);
    }
    json_object_update(header, second);
    char *text = json_dumps(header, JSON_COMPACT);
    size = (strlen(text) + 7) / 8 * 8;
    bytes_add(&doubled, &size, sizeof size);
    bytes_add(&doubled, text, strlen(text));
    for (size_t i = strlen(text); i < size; i++) bytes_add(&doubled, " ", 1);
    bytes_add(&doubled, data, n), bytes_add(&doubled, data, last);
    FILE *file = fopen(path, "wb");
    assert_true(file && fwrite(doubled.data, 1, doubled.size, file) == doubled.size && fclose(file) == 0);
    free(text);
    json_decref(header), json_decref(second);
    bytes_free(&bytes), bytes_free(&doubled);
}

static bool has_one_layer(const char *path) {
    return strstr(path, "/quantized/") != NULL;
}

// Rank 0 with one path and the others with another: what rank 0 says of it, in `error`, and rank 1, in *its.
static Status meet(const char *path, const char *others, int n, Error *its) {
    Ranks ranks;
    Model *model;
    Engine *engine = NULL;
    EngineOptions options = {.model = path,
                             .device = "cpu",
                             .n_threads = 1,
                             .context_size = 32,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = 16};
    ranks_begin(&ranks, others, n, NULL, &options);
    assert_ok(model_open(path, &model, &error), &error);
    const Status status = engine_open_model(model, &options, &engine, &error);
    engine_close(engine);
    for (int i = 1; i < n; i++) pthread_join(ranks.threads[i], NULL);
    *its = ranks.ones[1].error;
    its->status = ranks.ones[1].status;
    return status;
}

// ---- copies that are alike ------------------------------------------------------------------------------------------

static void copies_are_taken(void **state) {
    (void)state;
    static const char *const PATHS[] = {GOLDEN_MODELS "/llama",           GOLDEN_MODELS "/qwen3-bf16",
                                        GOLDEN_EXPERTS "/mixtral",        GOLDEN_LATENT "/deepseek_v2",
                                        GOLDEN "/quantized/awq",          GOLDEN "/quantized/gptq-act-order",
                                        GOLDEN "/quantized/fp8-block",    GOLDEN "/quantized/bnb-nf4-double",
                                        GOLDEN "/quantized/ct-int4-asym", GOLDEN "/quantized/ct-fp8"};
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        char first[ROOM], copy[ROOM];
        Error its;
        copy_to(PATHS[i], "0", first);
        if (has_one_layer(PATHS[i])) double_layers(first);
        copy_to(first, "1", copy);
        if (meet(first, copy, 2, &its)) fail_msg("%s: %s", PATHS[i], error.message);
        if (its.status) fail_msg("%s: rank 1: %s", PATHS[i], its.message);
    }
    forget_copies();
}

// ---- a byte that differs ----------------------------------------------------------------------------------------------

static void flip(const char *path, off_t at) {
    uint8_t byte = 0;
    const int file = open(path, O_RDWR);
    assert_true(file >= 0 && pread(file, &byte, 1, at) == 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

// Of every tensor a byte that is no sample of those that are compared when they meet; each piece of a quantised one has its
// turn. *n_caught counts those that were refused by name.
static void flip_each(const char *path, int *n_caught, int *n_taken) {
    char first[ROOM], copy[ROOM], file[2 * ROOM];
    Checkpoint *c;
    copy_to(path, "0", first);
    if (has_one_layer(path)) double_layers(first);
    copy_to(first, "1", copy);
    snprintf(file, sizeof file, "%s/model.safetensors", copy);
    assert_ok(checkpoint_open(first, &c, &error), &error);
    const char *from = (const char *)c->files[0].data;
    const bool is_tied =
        checkpoint_find(c, "lm_head.weight") == NULL; // then the last rank multiplies by the embedding
    for (int64_t i = 0; i < checkpoint_n_tensors(c); i++) {
        const void *bytes;
        size_t n;
        for (int piece = 0; checkpoint_stored(c, i, piece, &bytes, &n); piece++) {
            const char *name = checkpoint_tensor(c, i)->name;
            const bool of_file = (const char *)bytes >= from && (const char *)bytes < from + c->files[0].size;
            if (n <= (size_t)8 * 300 || !of_file) continue;
            const off_t at = (const char *)bytes - from + (off_t)(n / 8 - 8);
            Error its;
            flip(file, at);
            const Status status = meet(first, copy, 2, &its);
            flip(file, at);
            const bool is_used = !strstr(name, ".layers.0.") && (is_tied || !strstr(name, "embed"));
            if (!is_used && (status || its.status))
                fail_msg("%s, which rank 1 does not use: %s", name, status ? error.message : its.message);
            *n_taken += !is_used;
            if (!is_used) continue;
            if (!status) fail_msg("%s: a byte differs, and the rank was taken", name);
            if (!strstr(error.message, "rank 1 (127.0.0.1)") || !strstr(error.message, name) ||
                !strstr(error.message, "its model file is another one"))
                fail_msg("%s: %s", name, error.message);
            assert_int_equal(its.status, STATUS_FILE);
            if (!strstr(its.message, name)) fail_msg("%s: rank 1 was told: %s", name, its.message);
            ++*n_caught;
        }
    }
    checkpoint_close(c);
    forget_copies();
}

static void a_byte_that_is_used_counts(void **state) {
    (void)state;
    int n_caught = 0, n_taken = 0;
    flip_each(BABBLER, &n_caught, &n_taken);
    assert_true(n_caught >= 7 && n_taken >= 7);
    n_caught = n_taken = 0;
    flip_each(GOLDEN "/quantized/gptq-g128", &n_caught, &n_taken);
    assert_true(n_caught >= 7 && n_taken >= 7);
}

// What is said of the weights is compared in full when they meet.
static void a_config_that_differs_is_named(void **state) {
    (void)state;
    char copy[ROOM], file[2 * ROOM], command[3 * ROOM];
    Error its;
    copy_to(BABBLER, "1", copy);
    snprintf(file, sizeof file, "%s/config.json", copy);
    snprintf(command, sizeof command, "sed -i 's/\"rms_norm_eps\": [^,]*/\"rms_norm_eps\": 0.002/' %s", file);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c)
    assert_int_equal(meet(BABBLER, copy, 2, &its), STATUS_USAGE);
    if (!strstr(error.message, "what their files say of it (config.json, metadata) differ"))
        fail_msg("%s", error.message);
    assert_int_equal(its.status, STATUS_USAGE);
    forget_copies();
}

// ---- whose a tensor is ------------------------------------------------------------------------------------------------

// No layer reads what its name says is another one's, or nobody's.
static int check_layers(const char *path) {
    Model *m;
    WeightSums *sums;
    int n = 0;
    if (model_open(path, &m, &error)) return 0; // some golden folders are refused on purpose
    assert_ok(weight_sums_open(m, &sums, &error), &error);
    const Checkpoint *c = m->checkpoint;
    for (int l = 0; l < m->shape.n_layers && c; l++) {
        const Matrix *all = (const Matrix *)&m->layers[l];
        for (size_t i = 0; i < offsetof(LayerWeights, index) / sizeof *all; i++) {
            const int n_pieces = all[i].pieces ? all[i].n_pieces : 1;
            for (int piece = 0; piece < n_pieces && all[i].data; piece++) {
                const char *at = all[i].pieces ? all[i].pieces[piece] : all[i].data;
                for (int64_t t = 0; t < checkpoint_n_tensors(c); t++) {
                    const CheckpointTensor *tensor = checkpoint_tensor(c, t);
                    const int layer = weight_sums_layer(sums, t);
                    const char *from = tensor->data;
                    if (at < from || at >= from + tensor->bytes) continue;
                    n++;
                    if (layer >= 0 && layer != l) fail_msg("%s: layer %d reads %s", path, l, tensor->name);
                }
            }
        }
    }
    weight_sums_close(sums);
    model_close(m);
    return n;
}

static void names_tell_layers(void **state) {
    (void)state;
    static const char *const ROOTS[] = {GOLDEN_MODELS,       GOLDEN_ARCHITECTURES, GOLDEN_DENSE,
                                        GOLDEN_EXPERTS,      GOLDEN_LATENT,        GOLDEN "/keys",
                                        GOLDEN "/quantized", GOLDEN "/splits"};
    int n_models = 0;
    for (size_t i = 0; i < sizeof ROOTS / sizeof *ROOTS; i++) {
        DIR *directory = opendir(ROOTS[i]);
        for (struct dirent *entry; directory && (entry = readdir(directory));) {
            char path[ROOM];
            if (entry->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", ROOTS[i], entry->d_name);
            n_models += check_layers(path) > 0;
        }
        if (directory) closedir(directory);
    }
    if (n_models < 60) fail_msg("only %d models were looked at", n_models);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_taken),
        cmocka_unit_test(a_byte_that_is_used_counts),
        cmocka_unit_test(a_config_that_differs_is_named),
        cmocka_unit_test(names_tell_layers),
    };
    return test_main("ranks_files", argc, argv, tests);
}
