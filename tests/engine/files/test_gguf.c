// GGUF files: what a good one says, and that a bad one gives one clear error.
#include "tests/support/test.h"
#include "tests/support/files.h"
#include "engine/files/checkpoint_internal.h"
#include "engine/files/gguf_vocab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char LLAMA3[] = "tests/golden/models/llama3.gguf";
static const char BLOCKS[] = "tests/golden/models/blocks.gguf";

// A length that is believed shows: allocations far beyond any file here end the program.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "max_allocation_size_mb=64";
}

// Parses an exactly sized copy, so that a read beyond the end is seen by the sanitizer.
static Status parse(const uint8_t *data, size_t size, Checkpoint **checkpoint, Error *error) {
    static uint8_t *copy; // lives as long as the Checkpoint of the test
    free(copy);
    copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    return checkpoint_from_gguf("test.gguf", copy, size, checkpoint, error);
}

static void expect_error(const char *what, Bytes *bytes, Status status, const char *fragment) {
    Checkpoint *checkpoint;
    Error error = {0};
    Status got = parse(bytes->data, bytes->size, &checkpoint, &error);
    if (got != status || strstr(error.message, fragment) == NULL || strchr(error.message, '\n') != NULL) {
        fail_msg("%s: status %d, \"%s\"; wanted %d, \"%s\"", what, got, error.message, status, fragment);
    }
    assert_null(checkpoint);
    bytes_free(bytes);
}

static Checkpoint *expect_ok(Bytes *bytes) {
    Checkpoint *checkpoint;
    Error error = {0};
    if (parse(bytes->data, bytes->size, &checkpoint, &error) != STATUS_OK) fail_msg("%s", error.message);
    bytes_free(bytes);
    return checkpoint;
}

static Checkpoint *open_ok(const char *path) {
    Checkpoint *checkpoint;
    Error error = {0};
    if (checkpoint_open(path, &checkpoint, &error) != STATUS_OK) fail_msg("%s", error.message);
    return checkpoint;
}

// ---- good files ------------------------------------------------------------------------------------------

static void reads_a_model(void **state) {
    (void)state;
    Checkpoint *checkpoint = open_ok(LLAMA3);
    assert_int_equal(checkpoint_format(checkpoint), CHECKPOINT_GGUF);
    assert_int_equal(checkpoint_n_tensors(checkpoint), 22);
    const CheckpointTensor *tensor = checkpoint_find(checkpoint, "blk.1.attn_k.weight");
    assert_non_null(tensor);
    assert_int_equal(tensor->n_dims, 2);
    assert_int_equal(tensor->shape[0], 16); // rows first, as Hugging Face writes shapes
    assert_int_equal(tensor->shape[1], 48);
    assert_int_equal(tensor->type, DTYPE_F32);
    assert_string_equal(tensor->type_name, "f32");
    assert_int_equal(tensor->bytes, 16 * 48 * 4);
    assert_int_equal((uintptr_t)tensor->data % 32, 0);
    assert_null(checkpoint_find(checkpoint, "blk.2.attn_k.weight"));
    assert_null(checkpoint_config(checkpoint));
    int64_t sum = 0, bytes;
    for (int64_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const CheckpointTensor *each = checkpoint_tensor(checkpoint, i);
        assert_ptr_equal(checkpoint_find(checkpoint, each->name), each);
        sum += (int64_t)each->bytes;
    }
    assert_int_equal(sum, 246736);
    assert_null(checkpoint_tensor(checkpoint, 22));
    assert_null(checkpoint_tensor(checkpoint, -1));
    assert_int_equal(checkpoint_n_files(checkpoint), 1);
    assert_string_equal(checkpoint_file(checkpoint, 0, &bytes), LLAMA3);
    assert_true(bytes > sum);
    checkpoint_close(checkpoint);
}

static void reads_metadata(void **state) {
    (void)state;
    Checkpoint *checkpoint = open_ok(LLAMA3);
    Error error = {0};
    MetaString text = {NULL, 0};
    int64_t integer = -1;
    double number = 0;
    bool flag = true;
    assert_int_equal(checkpoint_get_string(checkpoint, "general.architecture", &text, &error), STATUS_OK);
    assert_int_equal(text.length, 5);
    assert_memory_equal(text.data, "llama", 5);
    assert_int_equal(checkpoint_get_integer(checkpoint, "llama.block_count", &integer, &error), STATUS_OK);
    assert_int_equal(integer, 2);
    assert_int_equal(checkpoint_get_number(checkpoint, "llama.rope.freq_base", &number, &error), STATUS_OK);
    assert_true(number == 50000);
    assert_int_equal(checkpoint_get_number(checkpoint, "llama.block_count", &number, &error), STATUS_OK);
    assert_true(number == 2);
    assert_int_equal(checkpoint_get_bool(checkpoint, "tokenizer.ggml.add_bos_token", &flag, &error),
                     STATUS_OK);
    assert_false(flag);
    assert_int_equal(checkpoint_get_integer(checkpoint, "no.such.key", &integer, &error), STATUS_OK);
    assert_int_equal(integer, 2); // an absent key leaves the default
    assert_int_equal(checkpoint_get_integer(checkpoint, "general.architecture", &integer, &error),
                     STATUS_FILE);
    assert_non_null(
        strstr(error.message, "general.architecture should be an integer, the file has a string"));
    const MetaValue *array;
    assert_int_equal(checkpoint_get_array(checkpoint, "tokenizer.ggml.tokens", META_INTEGER, &array, &error),
                     STATUS_FILE);
    assert_non_null(strstr(error.message, "tokenizer.ggml.tokens"));
    assert_int_equal(checkpoint_get_array(checkpoint, "tokenizer.ggml.tokens", META_STRING, &array, &error),
                     STATUS_OK);
    assert_int_equal(array->count, 320);
    MetaCursor cursor = {0};
    MetaValue element;
    int64_t n = 0;
    while (checkpoint_meta_next(array, &cursor, &element)) {
        if (n++ == 2) assert_memory_equal(element.string.data, "<|im_end|>", 10);
    }
    assert_int_equal(n, 320);
    checkpoint_close(checkpoint);
}

static void reads_the_vocabulary(void **state) {
    (void)state;
    Checkpoint *checkpoint = open_ok(LLAMA3);
    TokenizerVocab vocab;
    Error error = {0};
    if (gguf_vocab(checkpoint, &vocab, &error) != STATUS_OK) fail_msg("%s", error.message);
    assert_string_equal(vocab.model, "gpt2");
    assert_string_equal(vocab.pre, "gpt-2");
    assert_int_equal(vocab.n_pieces, 320);
    assert_int_equal(vocab.pieces[3].size, strlen("<|im_start|>"));
    assert_memory_equal(vocab.pieces[3].text, "<|im_start|>", vocab.pieces[3].size);
    assert_int_equal(vocab.types[3], 3);
    assert_int_equal(vocab.types[4], 1);
    assert_null(vocab.scores);
    assert_int_equal(vocab.n_merges, 60);
    assert_memory_equal(vocab.merges[0].text, "Ġ t", vocab.merges[0].size);
    assert_int_equal(vocab.bos, 1);
    assert_int_equal(vocab.eos, 2);
    assert_int_equal(vocab.unk, 0);
    assert_int_equal(vocab.pad, -1);
    assert_int_equal(vocab.n_ends, 1);
    assert_int_equal(vocab.ends[0], 1);
    assert_int_equal(vocab.add_bos, 0);
    assert_null(vocab.unknown);
    gguf_vocab_free(&vocab);
    char *template;
    assert_int_equal(checkpoint_chat_template(checkpoint, &template, &error), STATUS_OK);
    assert_non_null(strstr(template, "<|im_start|>assistant"));
    free(template);
    checkpoint_close(checkpoint);
    checkpoint = open_ok(BLOCKS); // has none
    assert_int_equal(gguf_vocab(checkpoint, &vocab, &error), STATUS_FILE);
    gguf_vocab_free(&vocab);
    assert_int_equal(checkpoint_chat_template(checkpoint, &template, &error), STATUS_OK);
    assert_null(template);
    checkpoint_close(checkpoint);
}

// Keys of a tokenizer that nobody reads are told by their names; what is known or says nothing of ids is not.
static void names_unknown_keys(void **state) {
    (void)state;
    static const char *const keys[] = {"general.quantized_by", "tokenizer.ggml.cls_token_id",
                                       "tokenizer.ggml.weird", "tokenizer.ggml.pretend",
                                       "tokenizer.chat_template"};
    enum { N = sizeof keys / sizeof *keys };
    Bytes bytes = {0};
    char *folder = folder_new(), path[4096];
    gguf_header(&bytes, 3, 0, 2 + N);
    gguf_key_string(&bytes, "tokenizer.ggml.model", "gpt2");
    gguf_key(&bytes, "tokenizer.ggml.tokens", 9);
    bytes_u32(&bytes, 8);
    bytes_u64(&bytes, 1);
    gguf_string(&bytes, "a");
    for (int i = 0; i < N; i++) gguf_key_string(&bytes, keys[i], "1");
    gguf_pad(&bytes, 32);
    folder_write(folder, "a.gguf", bytes.data, bytes.size);
    snprintf(path, sizeof path, "%s/a.gguf", folder);
    Checkpoint *checkpoint = open_ok(path);
    TokenizerVocab vocab;
    Error error = {0};
    if (gguf_vocab(checkpoint, &vocab, &error) != STATUS_OK) fail_msg("%s", error.message);
    assert_string_equal(vocab.unknown, "weird, pretend");
    gguf_vocab_free(&vocab);
    checkpoint_close(checkpoint);
    folder_remove(folder);
    bytes_free(&bytes);
}

// Files from before split rules had names: what their architecture's models use, where that is one thing.
static void infers_the_split_rule(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"gptneox", "olmo"}, {"falcon", "falcon"}, {"qwen2", "qwen2"}, {"llama", NULL}, {"falco", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes bytes = {0};
        char *folder = folder_new(), path[4096];
        gguf_header(&bytes, 3, 0, 3);
        gguf_key_string(&bytes, "general.architecture", cases[i][0]);
        gguf_key_string(&bytes, "tokenizer.ggml.model", "gpt2");
        gguf_key(&bytes, "tokenizer.ggml.tokens", 9);
        bytes_u32(&bytes, 8);
        bytes_u64(&bytes, 1);
        gguf_string(&bytes, "a");
        gguf_pad(&bytes, 32);
        folder_write(folder, "old.gguf", bytes.data, bytes.size);
        bytes_free(&bytes);
        snprintf(path, sizeof path, "%s/old.gguf", folder);
        Checkpoint *checkpoint = open_ok(path);
        TokenizerVocab vocab;
        assert_int_equal(gguf_vocab(checkpoint, &vocab, NULL), STATUS_OK);
        if (cases[i][1])
            assert_string_equal(vocab.pre, cases[i][1]);
        else
            assert_null(vocab.pre);
        gguf_vocab_free(&vocab);
        checkpoint_close(checkpoint);
        folder_remove(folder);
    }
}

static void knows_every_block_type(void **state) {
    (void)state;
    Checkpoint *checkpoint = open_ok(BLOCKS);
    for (int type = 0; type < DTYPE_E4M3; type++) { // from it on: what no GGUF file has
        const char *name = dtype_name((DType)type);
        const CheckpointTensor *tensor = checkpoint_find(checkpoint, name);
        if (tensor == NULL) {
            fail_msg("no tensor %s", name);
            return;
        }
        assert_true(tensor->supported);
        assert_int_equal(tensor->type, type);
        assert_string_equal(tensor->type_name, name);
        assert_int_equal(tensor->shape[0], 3);
        assert_int_equal(tensor->shape[1], 512);
        assert_int_equal(tensor->bytes, 3 * dtype_row_bytes((DType)type, 512));
        assert_int_equal((uintptr_t)tensor->data % 64, 0); // general.alignment
    }
    const CheckpointTensor *f32 = checkpoint_find(checkpoint, "f32");
    assert_memory_equal(f32->data, checkpoint_find(checkpoint, "f32.values")->data, f32->bytes);
    checkpoint_close(checkpoint);
}

static void decodes_every_value_type(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        uint8_t size, bytes[8];
        MetaType meta;
        double number;
    } CASES[] = {
        {0, 1, {0xff}, META_INTEGER, 255},
        {1, 1, {0xff}, META_INTEGER, -1},
        {2, 2, {0xfe, 0xff}, META_INTEGER, 65534},
        {3, 2, {0xfe, 0xff}, META_INTEGER, -2},
        {4, 4, {0, 0, 0, 0x80}, META_INTEGER, 2147483648.0},
        {5, 4, {0, 0, 0, 0x80}, META_INTEGER, -2147483648.0},
        {6, 4, {0, 0, 0xc0, 0x3f}, META_NUMBER, 1.5},
        {7, 1, {1}, META_BOOL, 1},
        {10, 8, {1, 0, 0, 0, 0, 0, 0, 0}, META_INTEGER, 1},
        {10, 8, {0, 0, 0, 0, 0, 0, 0, 0x80}, META_NUMBER, 9223372036854775808.0},
        {11, 8, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, META_INTEGER, -1},
        {12, 8, {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, META_NUMBER, 1.5},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        for (int in_array = 0; in_array < 2; in_array++) {
            Bytes bytes = {0};
            gguf_header(&bytes, 2, 0, 1);
            gguf_key(&bytes, "key", in_array ? 9 : CASES[i].type);
            if (in_array) bytes_u32(&bytes, CASES[i].type);
            if (in_array) bytes_u64(&bytes, 2);
            for (int j = 0; j <= in_array; j++) bytes_add(&bytes, CASES[i].bytes, CASES[i].size);
            Checkpoint *checkpoint = expect_ok(&bytes);
            MetaValue value = *checkpoint_meta(checkpoint, "key");
            if (in_array) {
                MetaCursor cursor = {0};
                MetaValue array = value;
                assert_int_equal(array.count, 2);
                assert_true(checkpoint_meta_next(&array, &cursor, &value) &&
                            checkpoint_meta_next(&array, &cursor, &value));
                assert_false(checkpoint_meta_next(&array, &cursor, &(MetaValue){0}));
            }
            assert_int_equal(value.type, CASES[i].meta);
            assert_true((value.type == META_BOOL ? value.flag : value.number) == CASES[i].number);
            checkpoint_close(checkpoint);
        }
    }
}

// Types palaver has no code for can be looked at; types that nobody knows too.
static void lists_foreign_types(void **state) {
    (void)state;
    Bytes bytes = {0};
    gguf_header(&bytes, 3, 2, 0);
    gguf_tensor(&bytes, "a", 1, (uint64_t[]){256}, 22, 0); // iq2_s: 82 bytes
    gguf_tensor(&bytes, "b", 2, (uint64_t[]){3, 5}, 999, 96);
    gguf_pad(&bytes, 32);
    bytes_zeros(&bytes, 96);
    Checkpoint *checkpoint = expect_ok(&bytes);
    assert_false(checkpoint_find(checkpoint, "a")->supported);
    assert_string_equal(checkpoint_find(checkpoint, "a")->type_name, "iq2_s");
    assert_int_equal(checkpoint_find(checkpoint, "a")->bytes, 82);
    assert_string_equal(checkpoint_find(checkpoint, "b")->type_name, "type 999");
    assert_int_equal(checkpoint_find(checkpoint, "b")->shape[0], 5);
    checkpoint_close(checkpoint);
}

static void copies_unaligned_tensors(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) { // names of four lengths put the data at all four places modulo 4
        const char *name = &"bbbb"[i];
        float values[] = {1, -2};
        Bytes bytes = {0};
        gguf_header(&bytes, 3, 1, 1);
        gguf_key_u32(&bytes, "general.alignment", 1);
        gguf_tensor(&bytes, name, 1, (uint64_t[]){2}, 0, 0);
        bytes_add(&bytes, values, sizeof values);
        Checkpoint *checkpoint = expect_ok(&bytes);
        const CheckpointTensor *tensor = checkpoint_find(checkpoint, name);
        assert_int_equal((uintptr_t)tensor->data % 4, 0);
        assert_memory_equal(tensor->data, values, sizeof values);
        checkpoint_close(checkpoint);
    }
}

// ---- bad files -------------------------------------------------------------------------------------------

// Every cut of a real file is noticed: within the last tensor's bytes at the latest.
static void notices_200_cuts(void **state) {
    (void)state;
    Bytes whole = bytes_of_file(LLAMA3);
    Checkpoint *checkpoint = open_ok(LLAMA3);
    size_t end = 0; // of the last tensor; padding may follow
    const uint8_t *first = checkpoint_tensor(checkpoint, 0)->data;
    for (int64_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const CheckpointTensor *tensor = checkpoint_tensor(checkpoint, i);
        size_t last = (size_t)((const uint8_t *)tensor->data - first) + tensor->bytes;
        if (last > end) end = last;
    }
    checkpoint_close(checkpoint);
    size_t header = whole.size - end;
    for (int i = 0; i < 200; i++) { // three of four in the header, which is where there is most to go wrong
        size_t cut = i % 4 == 3 ? header - 32 + end * (size_t)i / 200 : header * (size_t)i / 200;
        Error error = {0};
        Status status = parse(whole.data, cut, &checkpoint, &error);
        if (status == STATUS_OK) fail_msg("%zu of %zu bytes are taken for a whole file", cut, whole.size);
        assert_true(error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    }
    bytes_free(&whole);
}

static void refuses_bad_headers(void **state) {
    (void)state;
    Bytes b = {0};
    bytes_text(&b, "GGU");
    expect_error("short magic", &b, STATUS_UNSUPPORTED, "GGUF");
    bytes_text(&b, "GGUF");
    expect_error("nothing but the magic", &b, STATUS_FILE, "needs 4 bytes, but 0 are left");
    gguf_header(&b, 1, 0, 0);
    expect_error("version 1", &b, STATUS_UNSUPPORTED, "version 1");
    gguf_header(&b, 0x03000000, 0, 0);
    expect_error("big-endian", &b, STATUS_UNSUPPORTED, "big-endian");
    gguf_header(&b, 3, 1ull << 63, 0);
    expect_error("2^63 tensors", &b, STATUS_FILE, "more tensors than");
    gguf_header(&b, 3, 0, ~0ull);
    expect_error("2^64-1 keys", &b, STATUS_FILE, "more metadata than");
    gguf_header(&b, 3, 0, 2);
    gguf_key_u32(&b, "split.count", 3);
    gguf_key_u32(&b, "split.no", 3);
    expect_error("part 4 of 3", &b, STATUS_FILE, "says it is part 4 of 3");
}

static void refuses_bad_metadata(void **state) {
    (void)state;
    Bytes b = {0};
    gguf_header(&b, 3, 0, 1);
    bytes_u64(&b, 1ull << 63);
    bytes_zeros(&b, 64);
    expect_error("key of 2^63 bytes", &b, STATUS_FILE,
                 "metadata key 1 of 1: a name of 9223372036854775808 bytes");
    gguf_header(&b, 3, 0, 1);
    gguf_key(&b, "a\nb", 0);
    bytes_zeros(&b, 8);
    expect_error("newline in a key", &b, STATUS_FILE, "printable");
    gguf_header(&b, 3, 0, 1);
    gguf_key(&b, "text", 8);
    bytes_u64(&b, 1ull << 63);
    expect_error("string of 2^63 bytes", &b, STATUS_FILE,
                 "metadata text: needs 9223372036854775808 bytes, but 0");
    for (uint32_t type = 0; type < 14; type++) {
        gguf_header(&b, 3, 0, 1);
        gguf_key(&b, "list", 9);
        bytes_u32(&b, type);
        bytes_u64(&b, (1ull << 63) + 1);
        bytes_zeros(&b, 16);
        expect_error("array of 2^63 elements", &b, type == 9 ? STATUS_UNSUPPORTED : STATUS_FILE,
                     "metadata list: ");
    }
    gguf_header(&b, 3, 0, 1);
    gguf_key(&b, "kind", 13);
    bytes_zeros(&b, 8);
    expect_error("unknown type", &b, STATUS_FILE, "metadata kind: a value of an unknown type");
    gguf_header(&b, 3, 0, 1);
    gguf_key(&b, "flag", 7);
    bytes_text(&b, "\2");
    expect_error("bool of 2", &b, STATUS_FILE, "metadata flag: a bool");
    gguf_header(&b, 3, 0, 2);
    gguf_key_u32(&b, "twice", 1);
    gguf_key_u32(&b, "twice", 2);
    expect_error("a key twice", &b, STATUS_FILE, "metadata key twice is there twice");
    for (uint32_t alignment = 0; alignment < 4; alignment += 3) {
        gguf_header(&b, 3, 0, 1);
        gguf_key_u32(&b, "general.alignment", alignment);
        expect_error("alignment", &b, STATUS_FILE, "general.alignment");
    }
}

typedef struct BadTensor {
    const char *what, *fragment;
    uint64_t n_dims, dims[5];
    uint64_t type, offset;
} BadTensor;

static void refuses_bad_tensors(void **state) {
    (void)state;
    static const BadTensor CASES[] = {
        {"5 dimensions", "more than 4 dimensions", 5, {1, 1, 1, 1, 1}, 0, 0},
        {"2^32-1 dimensions", "more than 4 dimensions", UINT32_MAX, {1}, 0, 0},
        {"empty dimension", "a dimension of 0", 2, {0, 4}, 0, 0},
        {"dimension of 2^63", "beyond 2^63", 1, {1ull << 63}, 0, 0},
        {"elements overflow", "more than 2^63 elements", 2, {1ull << 32, 1ull << 32}, 0, 0},
        {"bytes overflow", "more than 2^63 bytes", 2, {1ull << 31, 1ull << 31}, 0, 0},
        {"too large", "needs 4294967296 bytes", 2, {1 << 15, 1 << 15}, 0, 0},
        {"unaligned", "unaligned data", 1, {4}, 0, 8},
        {"out of range", "beyond the end", 1, {4}, 0, 1ull << 40},
        {"offset of 2^63", "beyond the end", 1, {4}, 0, 1ull << 63},
        {"last offset", "beyond the end", 1, {4}, 0, ~0ull - 31},
        {"end out of range", "needs 256 bytes, but 224 are left", 1, {64}, 0, 32},
        {"half a block", "rows of 48 q4_0 elements, no multiple of 32", 1, {48}, 2, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const BadTensor *c = &CASES[i];
        Bytes b = {0};
        gguf_header(&b, 3, 1, 0);
        gguf_string(&b, "bad");
        bytes_u32(&b, (uint32_t)c->n_dims);
        for (uint64_t d = 0; d < c->n_dims && d < 5; d++) bytes_u64(&b, c->dims[d]);
        bytes_u32(&b, (uint32_t)c->type);
        bytes_u64(&b, c->offset);
        gguf_pad(&b, 32);
        bytes_zeros(&b, 256);
        expect_error(c->what, &b, STATUS_FILE, c->fragment);
    }
    Bytes b = {0};
    gguf_header(&b, 3, 2, 0);
    gguf_tensor(&b, "one", 1, (uint64_t[]){16}, 0, 0);
    gguf_tensor(&b, "two", 1, (uint64_t[]){16}, 0, 32);
    gguf_pad(&b, 32);
    bytes_zeros(&b, 256);
    expect_error("overlap", &b, STATUS_FILE, "tensors one and two overlap");
    gguf_header(&b, 3, 2, 0);
    gguf_tensor(&b, "same", 1, (uint64_t[]){8}, 0, 0);
    gguf_tensor(&b, "same", 1, (uint64_t[]){8}, 0, 32);
    gguf_pad(&b, 32);
    bytes_zeros(&b, 256);
    expect_error("duplicate", &b, STATUS_FILE, "two tensors are called same");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_model),
        cmocka_unit_test(reads_metadata),
        cmocka_unit_test(reads_the_vocabulary),
        cmocka_unit_test(names_unknown_keys),
        cmocka_unit_test(infers_the_split_rule),
        cmocka_unit_test(knows_every_block_type),
        cmocka_unit_test(decodes_every_value_type),
        cmocka_unit_test(lists_foreign_types),
        cmocka_unit_test(copies_unaligned_tensors),
        cmocka_unit_test(notices_200_cuts),
        cmocka_unit_test(refuses_bad_headers),
        cmocka_unit_test(refuses_bad_metadata),
        cmocka_unit_test(refuses_bad_tensors),
    };
    return test_main("gguf", argc, argv, tests);
}
