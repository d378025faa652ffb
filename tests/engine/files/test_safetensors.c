// Safetensors files that are damaged, and what they need not be: one clear error, or all that there is.
#include "tests/support/test.h"
#include "tests/support/files.h"
#include "engine/files/checkpoint_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    return checkpoint_from_safetensors("test.safetensors", copy, size, checkpoint, error);
}

static void notices_200_cuts(void **state) {
    (void)state;
    Bytes whole = bytes_of_file("tests/golden/models/llama/model.safetensors");
    uint64_t header;
    memcpy(&header, whole.data, sizeof header);
    for (int i = 0; i < 200; i++) {
        size_t cut = i % 2 == 0 ? (size_t)(header + 8) * (size_t)i / 200 : whole.size * (size_t)i / 200;
        Checkpoint *checkpoint;
        Error error = {0};
        Status status = parse(whole.data, cut, &checkpoint, &error);
        if (status != STATUS_FILE) fail_msg("%zu of %zu bytes: status %d", cut, whole.size, status);
        assert_true(error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    }
    bytes_free(&whole);
}

static void refuses_bad_safetensors(void **state) {
    (void)state;
    static const struct {
        const char *header, *fragment;
    } CASES[] = {
        {"[]", "not a JSON object"},
        {"{", "line 1, column 1: not valid JSON: it ends before all is closed that was begun: the file is "
              "cut short"},
        {"{} \x1b", "not valid JSON: end of file expected near '\\x1b'"},
        {"{\"a\":\n\"\\u0000\"}", "line 2, column 8: \\u0000: no text may hold a zero byte"},
        {"{\"a\": 1}", "tensor a: no description"},
        {"{\"a\": {}}", "tensor a: no dtype"},
        {"{\"a\": {\"dtype\": 7}}", "tensor a: no dtype"},
        {"{\"a\": {\"dtype\": \"F32\"}}", "tensor a: no shape"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4]}}", "no data_offsets"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0]}}", "no data_offsets"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 16.0]}}", "no data_offsets"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [-4], \"data_offsets\": [0, 16]}}",
         "a dimension is no size"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [\"4\"], \"data_offsets\": [0, 16]}}",
         "a dimension is no size"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 12]}}",
         "4 f32 elements are announced, but 12"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [16, 0]}}",
         "bytes 16 to 0 are not in the 64"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [-16, 0]}}", "bytes -16 to 0"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [56, 72]}}", "bytes 56 to 72"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 9223372036854775807]}}",
         "9223372036854775807"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [9223372036854775808], \"data_offsets\": [0, 16]}}",
         "too big"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296], \"data_offsets\": [0, 0]}}",
         "more than 2^63"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4611686018427387904], \"data_offsets\": [0, 0]}}",
         "but 0 bytes"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]},"
         " \"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [8, 16]}}",
         "duplicate"},
        {"{\"a\\nb\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}", "not printable"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Bytes bytes = safetensors_of(CASES[i].header, 64);
        Checkpoint *checkpoint;
        Error error = {0};
        Status status = parse(bytes.data, bytes.size, &checkpoint, &error);
        if (status != STATUS_FILE || strstr(error.message, CASES[i].fragment) == NULL) {
            fail_msg("%s: status %d, \"%s\"", CASES[i].header, status, error.message);
        }
        bytes_free(&bytes);
    }
    for (int shift = 7; shift < 64; shift += 8) { // header lengths from 128 to 2^63
        Bytes bytes = {0};
        bytes_u64(&bytes, 1ull << shift);
        bytes_text(&bytes, "{}");
        Checkpoint *checkpoint;
        Error error = {0};
        assert_int_equal(parse(bytes.data, bytes.size, &checkpoint, &error), STATUS_FILE);
        assert_non_null(strstr(error.message, "the header should have"));
        bytes_free(&bytes);
    }
}

static void refuses_what_no_tensor_has(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        const char *fragment;
    } CASES[] = {
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]},"
         " \"b\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [4, 12]}}",
         12, "tensors a and b overlap"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}", 12,
         "its tensors end at byte 8 of 12"},
        {"{\"__metadata__\": {}}", 4, "its tensors end at byte 0 of 4"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Bytes bytes = safetensors_of(CASES[i].header, CASES[i].n_data);
        Checkpoint *checkpoint;
        Error error = {0};
        assert_int_equal(parse(bytes.data, bytes.size, &checkpoint, &error), STATUS_FILE);
        if (!strstr(error.message, CASES[i].fragment)) fail_msg("%s", error.message);
        bytes_free(&bytes);
    }
}

// Other types, empty tensors and metadata do no harm; tensors at odd places are made readable.
static void takes_what_it_does_not_need(void **state) {
    (void)state;
    for (int pad = 0; pad < 8; pad++) {
        char header[512];
        snprintf(
            header, sizeof header,
            "{\"__metadata__\": {\"format\": \"pt\"}, \"i\": {\"dtype\": \"I64\", \"shape\": [2], "
            "\"data_offsets\": "
            "[0, 16]}, \"f8\": {\"dtype\": \"F8_E4M3\", \"shape\": [3], \"data_offsets\": [16, 19]}, \"x\": "
            "{\"dtype\": \"X9\", \"shape\": [1,1,1,1,2], \"data_offsets\": [19, 21]}, \"empty\": {\"dtype\": "
            "\"F32\", "
            "\"shape\": [0, 3], \"data_offsets\": [21, 21]}, \"a\": {\"dtype\": \"F32\", \"shape\": [2], "
            "\"data_offsets\": [21, 29]}}%*s",
            pad, "");
        Bytes bytes = safetensors_of(header, 29);
        Checkpoint *checkpoint;
        Error error = {0};
        if (parse(bytes.data, bytes.size, &checkpoint, &error) != STATUS_OK) fail_msg("%s", error.message);
        assert_int_equal(checkpoint_n_tensors(checkpoint), 5);
        assert_false(checkpoint_find(checkpoint, "i")->supported);
        assert_string_equal(checkpoint_find(checkpoint, "i")->type_name, "I64");
        assert_false(checkpoint_find(checkpoint, "x")->supported);
        const CheckpointTensor *tensor = checkpoint_find(checkpoint, "a");
        assert_int_equal((uintptr_t)tensor->data % 4, 0);
        for (uint8_t i = 0; i < 8; i++) assert_int_equal(((const uint8_t *)tensor->data)[i], 21 + i);
        checkpoint_close(checkpoint);
        bytes_free(&bytes);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notices_200_cuts),
        cmocka_unit_test(refuses_bad_safetensors),
        cmocka_unit_test(refuses_what_no_tensor_has),
        cmocka_unit_test(takes_what_it_does_not_need),
    };
    return test_main("safetensors", argc, argv, tests);
}
