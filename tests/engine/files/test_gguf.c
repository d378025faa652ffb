// GGUF files: what a good one says.
#include "engine/files/checkpoint_internal.h"
#include "engine/files/gguf_vocab.h"
#include "tests/support/files.h"
#include "tests/support/gguf.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char BLOCKS[] = "tests/golden/models/blocks.gguf";

static void reads_a_model(void **state) {
    (void)state;
    Checkpoint *checkpoint = gguf_opened(GGUF_LLAMA3);
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
    assert_string_equal(checkpoint_file(checkpoint, 0, &bytes), GGUF_LLAMA3);
    assert_true(bytes > sum);
    checkpoint_close(checkpoint);
}

static void reads_metadata(void **state) {
    (void)state;
    Checkpoint *checkpoint = gguf_opened(GGUF_LLAMA3);
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
    Checkpoint *checkpoint = gguf_opened(GGUF_LLAMA3);
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
    assert_int_equal(vocab.n_ends, 2);
    assert_int_equal(vocab.ends[0].id, 2);
    assert_int_equal(vocab.ends[1].id, 1);
    assert_string_equal(vocab.ends[1].key, "tokenizer.ggml.eot_token_id");
    assert_int_equal(vocab.add_bos, 0);
    assert_null(vocab.unknown);
    gguf_vocab_free(&vocab);
    char *template;
    assert_int_equal(checkpoint_chat_template(checkpoint, &template, &error), STATUS_OK);
    assert_non_null(strstr(template, "<|im_start|>assistant"));
    free(template);
    checkpoint_close(checkpoint);
    checkpoint = gguf_opened(BLOCKS); // has none
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
    gguf_header(&bytes, 3, 0, 6 + N);
    gguf_key_string(&bytes, "tokenizer.ggml.model", "gpt2");
    gguf_key(&bytes, "tokenizer.ggml.tokens", 9);
    bytes_u32(&bytes, 8);
    bytes_u64(&bytes, 1);
    gguf_string(&bytes, "a");
    gguf_key_u32(&bytes, "tokenizer.ggml.eom_token_id", 9);
    gguf_key_u32(&bytes, "tokenizer.ggml.bos_token_id", 1);
    gguf_key_u32(&bytes, "tokenizer.ggml.unknown_token_id", UINT32_MAX); // none
    gguf_key_u32(&bytes, "tokenizer.ggml.padding_token_id", 0);
    for (int i = 0; i < N; i++) gguf_key_string(&bytes, keys[i], "1");
    gguf_pad(&bytes, 32);
    folder_write(folder, "a.gguf", bytes.data, bytes.size);
    snprintf(path, sizeof path, "%s/a.gguf", folder);
    Checkpoint *checkpoint = gguf_opened(path);
    TokenizerVocab vocab;
    Error error = {0};
    if (gguf_vocab(checkpoint, &vocab, &error) != STATUS_OK) fail_msg("%s", error.message);
    assert_string_equal(vocab.unknown, "weird, pretend");
    assert_int_equal(vocab.n_ends, 1); // one that no piece has is told by who opens the vocabulary
    assert_int_equal(vocab.ends[0].id, 9);
    assert_string_equal(vocab.ends[0].key, "tokenizer.ggml.eom_token_id");
    assert_int_equal(vocab.n_lost, 1);
    assert_int_equal(vocab.lost[0].id, 1);
    assert_string_equal(vocab.lost[0].key, "tokenizer.ggml.bos_token_id");
    assert_int_equal(vocab.bos, -1);
    assert_int_equal(vocab.pad, 0);
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
        Checkpoint *checkpoint = gguf_opened(path);
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
    Checkpoint *checkpoint = gguf_opened(BLOCKS);
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
            Checkpoint *checkpoint = gguf_parsed(&bytes);
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
    Checkpoint *checkpoint = gguf_parsed(&bytes);
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
        Checkpoint *checkpoint = gguf_parsed(&bytes);
        const CheckpointTensor *tensor = checkpoint_find(checkpoint, name);
        assert_int_equal((uintptr_t)tensor->data % 4, 0);
        assert_memory_equal(tensor->data, values, sizeof values);
        checkpoint_close(checkpoint);
    }
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
    };
    return test_main("gguf", argc, argv, tests);
}
