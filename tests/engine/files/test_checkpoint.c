// Folders and files of several parts: what good ones say, and that bad ones give one clear error.
#include "tests/support/test.h"
#include "tests/support/files.h"
#include "tests/support/gguf.h"
#include "engine/files/checkpoint_internal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char LLAMA[] = "tests/golden/models/llama";
static const char SHARDED[] = "tests/golden/models/llama-sharded";

// A length that is believed shows: allocations far beyond any file here end the program.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "max_allocation_size_mb=64";
}

static Checkpoint *open_ok(const char *path) {
    Checkpoint *checkpoint;
    Error error = {0};
    if (checkpoint_open(path, &checkpoint, &error) != STATUS_OK) fail_msg("%s", error.message);
    return checkpoint;
}

static void open_fails(const char *path, Status status, const char *fragment) {
    Checkpoint *checkpoint;
    Error error = {0};
    Status got = checkpoint_open(path, &checkpoint, &error);
    if (got != status || strstr(error.message, fragment) == NULL || strchr(error.message, '\n') != NULL) {
        fail_msg("status %d, \"%s\"; wanted %d, \"%s\"", got, error.message, status, fragment);
    }
    assert_null(checkpoint);
}

// ---- what is read -----------------------------------------------------------------------------------------

static void reads_a_folder(void **state) {
    (void)state;
    Checkpoint *checkpoint = open_ok(LLAMA);
    assert_int_equal(checkpoint_format(checkpoint), CHECKPOINT_SAFETENSORS);
    assert_int_equal(checkpoint_n_tensors(checkpoint), 20);
    size_t bytes = 0;
    for (int64_t i = 0; i < 20; i++) bytes += checkpoint_tensor(checkpoint, i)->bytes;
    assert_int_equal(bytes, 172992);
    const CheckpointTensor *tensor = checkpoint_find(checkpoint, "model.layers.1.mlp.down_proj.weight");
    assert_non_null(tensor);
    assert_int_equal(tensor->type, DTYPE_F32);
    assert_int_equal(tensor->n_dims, 2);
    assert_int_equal(tensor->shape[0], 48);
    assert_int_equal(tensor->shape[1], 64);
    assert_int_equal(tensor->shape[2], 1);
    assert_null(checkpoint_find(checkpoint, "lm_head.weight"));
    assert_string_equal(json_string_value(json_object_get(checkpoint_config(checkpoint), "model_type")),
                        "llama");
    assert_non_null(checkpoint_generation_config(checkpoint));
    assert_int_equal(checkpoint_n_meta(checkpoint), 0);
    assert_null(checkpoint_meta(checkpoint, "general.architecture"));
    checkpoint_close(checkpoint);
}

static void reads_several_files(void **state) {
    (void)state;
    Checkpoint *checkpoint = open_ok(SHARDED);
    assert_int_equal(checkpoint_n_files(checkpoint), 2);
    assert_int_equal(checkpoint_n_tensors(checkpoint), 16);
    int in_file[2] = {0};
    for (int64_t i = 0; i < 16; i++) in_file[checkpoint_tensor(checkpoint, i)->file]++;
    assert_int_equal(in_file[0], 8);
    assert_int_equal(in_file[1], 8);
    checkpoint_close(checkpoint);
}

// ---- folders ---------------------------------------------------------------------------------------------

static void refuses_other_paths(void **state) {
    (void)state;
    char *folder = folder_new(), path[4096];
    open_fails("no/such/path", STATUS_FILE, "no/such/path: No such file");
    open_fails(folder, STATUS_FILE, "no config.json and no GGUF file");
    open_fails("/dev/null", STATUS_FILE, "not a regular file");
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    open_fails(path, STATUS_FILE, "not a regular file"); // and does not wait for a writer
    unlink(path);
    snprintf(path, sizeof path, "%s/empty.gguf", folder);
    folder_write_text(folder, "empty.gguf", "");
    open_fails(path, STATUS_UNSUPPORTED, "not a GGUF file");
    open_fails(folder, STATUS_UNSUPPORTED, "not a GGUF file"); // a folder with one GGUF file stands for it
    folder_write_text(folder, "other.gguf", "");
    open_fails(folder, STATUS_USAGE, "2 GGUF files are in this folder");
    folder_write_text(folder, "x.safetensors", "");
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    open_fails(path, STATUS_UNSUPPORTED, "give the folder");
    folder_write_text(folder, "pointer.gguf", LFS_POINTER);
    snprintf(path, sizeof path, "%s/pointer.gguf", folder);
    open_fails(path, STATUS_FILE, "pointer.gguf: a pointer of Git LFS, not the file itself: `git lfs pull`");
    folder_write_text(folder, "config.json", LFS_POINTER);
    open_fails(folder, STATUS_FILE, "config.json: a pointer of Git LFS");
    folder_write_text(folder, "config.json", "{}");
    folder_write_text(folder, "x.safetensors", LFS_POINTER);
    open_fails(folder, STATUS_FILE, "x.safetensors: a pointer of Git LFS");
    folder_write_text(folder, "x.safetensors", "");
    folder_write_text(folder, "config.json", "");
    open_fails(folder, STATUS_FILE, "config.json:");
    folder_write_text(folder, "config.json", "{\"a\": 1, \"a\": 2}");
    open_fails(folder, STATUS_FILE, "duplicate");
    folder_write_text(folder, "config.json", "{}");
    open_fails(folder, STATUS_FILE, "x.safetensors: 0 bytes are no safetensors file");
    folder_write_text(folder, "y.safetensors", "");
    open_fails(folder, STATUS_FILE, "neither model.safetensors nor");
    folder_write_text(folder, "pytorch_model.bin", "");
    open_fails(folder, STATUS_FILE, "Python pickle");
    folder_remove(folder);
}

static void opens_the_only_gguf(void **state) {
    (void)state;
    char *folder = folder_new();
    folder_copy(folder, "model.bin", "tests/golden/models/blocks.gguf"); // told by content, not by name
    char path[4096];
    snprintf(path, sizeof path, "%s/model.bin", folder);
    checkpoint_close(open_ok(path));
    folder_copy(folder, "blocks.gguf", path);
    snprintf(path, sizeof path, "%s//", folder);
    Checkpoint *checkpoint = open_ok(path);
    assert_int_equal(checkpoint_format(checkpoint), CHECKPOINT_GGUF);
    assert_string_equal(checkpoint_path(checkpoint), folder);
    checkpoint_close(checkpoint);
    folder_remove(folder);
}

static void refuses_bad_indexes(void **state) {
    (void)state;
    static const char A[] = "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}";
    static const struct {
        const char *index, *fragment;
    } CASES[] = {
        {"", "index.json:"},
        {"{}", "no weight_map"},
        {"{\"weight_map\": [1]}", "no weight_map"},
        {"{\"weight_map\": {}}", "no weight_map"},
        {"{\"weight_map\": {\"a\": 3}}", "gives no file name for tensor a"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "sends tensor a to \"/etc/passwd\""},
        {"{\"weight_map\": {\"a\": \"../a.safetensors\"}}", "sends tensor a to"},
        {"{\"weight_map\": {\"a\": \"..\"}}", "sends tensor a to"},
        {"{\"weight_map\": {\"a\": \"\"}}", "sends tensor a to"},
        {"{\"weight_map\": {\"a\": \"sub/a.safetensors\"}}", "sends tensor a to"},
        {"{\"weight_map\": {\"a\": \"model.safetensors.index.json\"}}", "sends tensor a to"}, // itself
        {"{\"weight_map\": {\"a\": \"gone.safetensors\"}}", "listed in model.safetensors.index.json: "},
        {"{\"weight_map\": {\"a\": \"a.safetensors\", \"b\": \"a.safetensors\"}}",
         "lists 2 tensors, but only 1"},
        {"{\"weight_map\": {\"a\\n\": \"a.safetensors\"}}", "sends tensor ? to"},
    };
    char *folder = folder_new();
    Bytes file = safetensors_of(A, 8);
    folder_write_text(folder, "config.json", "{}");
    folder_write(folder, "a.safetensors", file.data, file.size);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        folder_write_text(folder, "model.safetensors.index.json", CASES[i].index);
        open_fails(folder, STATUS_FILE, CASES[i].fragment);
    }
    // A tensor that lies in two files counts where the index says, and is the same in both.
    folder_write(folder, "b.safetensors", file.data, file.size);
    folder_write_text(folder, "model.safetensors.index.json", "{\"weight_map\": {\"a\": \"b.safetensors\"}}");
    Checkpoint *checkpoint = open_ok(folder);
    assert_int_equal(checkpoint_n_tensors(checkpoint), 1);
    assert_non_null(
        strstr(checkpoint_file(checkpoint, checkpoint_find(checkpoint, "a")->file, NULL), "b.safetensors"));
    checkpoint_close(checkpoint);
    static const char TWO[] = "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}, "
                              "\"c\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [8, 16]}}";
    Bytes two = safetensors_of(TWO, 16);
    folder_write(folder, "a.safetensors", two.data, two.size);
    folder_write_text(folder, "model.safetensors.index.json",
                      "{\"weight_map\": {\"a\": \"b.safetensors\", \"c\": \"a.safetensors\"}}");
    checkpoint_close(open_ok(folder));
    two.data[two.size - 16] ^= 1;
    folder_write(folder, "a.safetensors", two.data, two.size);
    open_fails(folder, STATUS_FILE, "a.safetensors: tensor a is another one here than in b.safetensors");
    bytes_free(&two);
    bytes_free(&file);
    folder_remove(folder);
}

static void expect_template(const char *folder, const char *expected) {
    char *text;
    Error error = {0};
    Checkpoint *checkpoint = open_ok(folder);
    if (checkpoint_chat_template(checkpoint, &text, &error) != STATUS_OK) fail_msg("%s", error.message);
    if (expected == NULL) {
        assert_null(text);
    } else {
        assert_non_null(text);
        assert_string_equal(text, expected);
    }
    free(text);
    checkpoint_close(checkpoint);
}

static void finds_chat_templates(void **state) {
    (void)state;
    static const char NAME[] = "tokenizer_config.json";
    char *folder = folder_new(), *text;
    folder_write_text(folder, "config.json", "{}");
    folder_copy(folder, "model.safetensors", "tests/golden/models/llama/model.safetensors");
    expect_template(folder, NULL);
    folder_write_text(folder, "chat_template.json", "{\"chat_template\": \"processor\"}");
    expect_template(folder, "processor");
    folder_write_text(folder, NAME, "{\"chat_template\": null}");
    expect_template(folder, "processor");
    folder_write_text(folder, NAME, "{\"chat_template\": \"plain\"}");
    expect_template(folder, "plain");
    folder_write_text(
        folder, NAME,
        "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"}, 7, {\"name\": \"default\", "
        "\"template\": \"chat\"}]}");
    expect_template(folder, "chat");
    folder_write_text(folder, NAME,
                      "{\"chat_template\": [{\"template\": \"first\"}, {\"template\": \"second\"}]}");
    expect_template(folder, "first");
    folder_write_text(folder, NAME, "{\"chat_template\": {\"tool_use\": \"tools\", \"default\": \"named\"}}");
    expect_template(folder, "named");
    folder_write_text(folder, NAME,
                      "{\"chat_template\": [{\"template\": \"first\"}, {\"template\": \"second\"}]}");
    folder_write_text(folder, "config.json", "\xef\xbb\xbf{}"); // an editor's byte order mark is skipped
    expect_template(folder, "first");
    folder_write_text(folder, "chat_template.jinja",
                      "\xef\xbb\xbf"
                      "from a file\n");
    expect_template(folder, "from a file\n");
    folder_write_text(folder, "chat_template.jinja", "");
    expect_template(folder, "");
    folder_remove(folder);
    folder = folder_new();
    folder_write_text(folder, "config.json", "{}");
    folder_copy(folder, "model.safetensors", "tests/golden/models/llama/model.safetensors");
    folder_write_text(folder, NAME, "{\"chat_template\": ");
    Checkpoint *checkpoint = open_ok(folder);
    Error error = {0};
    assert_int_equal(checkpoint_chat_template(checkpoint, &text, &error), STATUS_FILE);
    assert_non_null(
        strstr(error.message, "tokenizer_config.json: line 1, column 18: not valid JSON: it ends"));
    folder_write_text(folder, NAME, "{\"chat_template\": 0}");
    assert_int_equal(checkpoint_chat_template(checkpoint, &text, &error), STATUS_FILE);
    assert_non_null(strstr(error.message,
                           "tokenizer_config.json: chat_template should be a string or an object or "
                           "a list, not the number 0"));
    checkpoint_close(checkpoint);
    folder_remove(folder);
}

// ---- split GGUF ------------------------------------------------------------------------------------------

static Bytes part_of(uint32_t number, uint32_t count, int32_t total, const char *tensor) {
    Bytes b = {0};
    gguf_header(&b, 3, tensor != NULL, 4);
    gguf_key_string(&b, "general.architecture", number == 0 ? "first" : "other");
    gguf_key_u32(&b, "split.no", number);
    gguf_key_u32(&b, "split.count", count);
    gguf_key_u32(&b, "split.tensors.count", (uint32_t)total);
    if (tensor != NULL) gguf_tensor(&b, tensor, 1, (uint64_t[]){8}, 0, 0);
    gguf_pad(&b, 32);
    if (tensor != NULL) bytes_zeros(&b, 32);
    return b;
}

static void write_part(const char *folder, const char *name, Bytes part) {
    folder_write(folder, name, part.data, part.size);
    bytes_free(&part);
}

static void opens_split_files(void **state) {
    (void)state;
    char *folder = folder_new(), path[4096];
    write_part(folder, "m-00001-of-00003.gguf", part_of(0, 3, 2, NULL));
    write_part(folder, "m-00002-of-00003.gguf", part_of(1, 3, 2, "a"));
    Checkpoint *checkpoint;
    Error error = {0};
    snprintf(path, sizeof path, "%s/m-00001-of-00003.gguf", folder);
    assert_int_equal(checkpoint_open(path, &checkpoint, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "part 3 of 3 of the model: "));
    write_part(folder, "m-00003-of-00003.gguf", part_of(2, 3, 2, "b"));
    for (int part = 1; part <= 3; part++) { // any part stands for the model
        snprintf(path, sizeof path, "%s/m-%05d-of-00003.gguf", folder, part);
        if (checkpoint_open(path, &checkpoint, &error) != STATUS_OK) fail_msg("%s", error.message);
        assert_int_equal(checkpoint_n_files(checkpoint), 3);
        assert_non_null(checkpoint_find(checkpoint, "a"));
        assert_non_null(checkpoint_find(checkpoint, "b"));
        assert_memory_equal(checkpoint_meta(checkpoint, "general.architecture")->string.data, "first", 5);
        checkpoint_close(checkpoint);
    }
    write_part(folder, "m-00003-of-00003.gguf", part_of(1, 3, 2, "b"));
    assert_int_equal(checkpoint_open(path, &checkpoint, &error), STATUS_FILE);
    write_part(folder, "m-00003-of-00003.gguf", part_of(2, 3, 2, "a"));
    assert_int_equal(checkpoint_open(path, &checkpoint, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "two tensors are called a"));
    write_part(folder, "m-00001-of-00003.gguf", part_of(0, 3, 9, NULL));
    write_part(folder, "m-00003-of-00003.gguf", part_of(2, 3, 2, "b"));
    assert_int_equal(checkpoint_open(path, &checkpoint, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "the parts hold 2 tensors, the first announces 9"));
    write_part(folder, "renamed.gguf", part_of(0, 3, 2, NULL));
    snprintf(path, sizeof path, "%s/renamed.gguf", folder);
    assert_int_equal(checkpoint_open(path, &checkpoint, &error), STATUS_FILE);
    assert_non_null(strstr(error.message, "must end in -00001-of-00003.gguf"));
    folder_remove(folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_folder),      cmocka_unit_test(reads_several_files),
        cmocka_unit_test(refuses_other_paths), cmocka_unit_test(opens_the_only_gguf),
        cmocka_unit_test(refuses_bad_indexes), cmocka_unit_test(finds_chat_templates),
        cmocka_unit_test(opens_split_files),
    };
    return test_main("checkpoint", argc, argv, tests);
}
