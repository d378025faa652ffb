// GGUF files that are wrong: each gives one clear error.
#include "engine/files/checkpoint_internal.h"
#include "tests/support/files.h"
#include "tests/support/gguf.h"
#include "tests/support/test.h"

#include <string.h>

// A length that is believed shows: allocations far beyond any file here end the program.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "max_allocation_size_mb=64";
}

// Every cut of a real file is noticed: within the last tensor's bytes at the latest.
static void notices_200_cuts(void **state) {
    (void)state;
    Bytes whole = bytes_of_file(GGUF_LLAMA3);
    Checkpoint *checkpoint = gguf_opened(GGUF_LLAMA3);
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
        Status status = gguf_parse(whole.data, cut, &checkpoint, &error);
        if (status == STATUS_OK) fail_msg("%zu of %zu bytes are taken for a whole file", cut, whole.size);
        assert_true(error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    }
    bytes_free(&whole);
}

static void refuses_bad_headers(void **state) {
    (void)state;
    Bytes b = {0};
    bytes_text(&b, "GGU");
    gguf_refused("short magic", &b, STATUS_UNSUPPORTED, "GGUF");
    bytes_text(&b, "GGUF");
    gguf_refused("nothing but the magic", &b, STATUS_FILE, "needs 4 bytes, but 0 are left");
    gguf_header(&b, 1, 0, 0);
    gguf_refused("version 1", &b, STATUS_UNSUPPORTED, "version 1");
    gguf_header(&b, 0x03000000, 0, 0);
    gguf_refused("big-endian", &b, STATUS_UNSUPPORTED, "big-endian");
    gguf_header(&b, 3, 1ull << 63, 0);
    gguf_refused("2^63 tensors", &b, STATUS_FILE, "more tensors than");
    gguf_header(&b, 3, 0, ~0ull);
    gguf_refused("2^64-1 keys", &b, STATUS_FILE, "more metadata than");
    gguf_header(&b, 3, 0, 2);
    gguf_key_u32(&b, "split.count", 3);
    gguf_key_u32(&b, "split.no", 3);
    gguf_refused("part 4 of 3", &b, STATUS_FILE, "says it is part 4 of 3");
}

static void refuses_bad_metadata(void **state) {
    (void)state;
    Bytes b = {0};
    gguf_header(&b, 3, 0, 1);
    bytes_u64(&b, 1ull << 63);
    bytes_zeros(&b, 64);
    gguf_refused("key of 2^63 bytes", &b, STATUS_FILE,
                 "metadata key 1 of 1: a name of 9223372036854775808 bytes");
    gguf_header(&b, 3, 0, 1);
    gguf_key(&b, "a\nb", 0);
    bytes_zeros(&b, 8);
    gguf_refused("newline in a key", &b, STATUS_FILE, "printable");
    gguf_header(&b, 3, 0, 1);
    gguf_key(&b, "text", 8);
    bytes_u64(&b, 1ull << 63);
    gguf_refused("string of 2^63 bytes", &b, STATUS_FILE,
                 "metadata text: needs 9223372036854775808 bytes, but 0");
    for (uint32_t type = 0; type < 14; type++) {
        gguf_header(&b, 3, 0, 1);
        gguf_key(&b, "list", 9);
        bytes_u32(&b, type);
        bytes_u64(&b, (1ull << 63) + 1);
        bytes_zeros(&b, 16);
        gguf_refused("array of 2^63 elements", &b, type == 9 ? STATUS_UNSUPPORTED : STATUS_FILE,
                     "metadata list: ");
    }
    gguf_header(&b, 3, 0, 1);
    gguf_key(&b, "kind", 13);
    bytes_zeros(&b, 8);
    gguf_refused("unknown type", &b, STATUS_FILE, "metadata kind: a value of an unknown type");
    gguf_header(&b, 3, 0, 1);
    gguf_key(&b, "flag", 7);
    bytes_text(&b, "\2");
    gguf_refused("bool of 2", &b, STATUS_FILE, "metadata flag: a bool");
    gguf_header(&b, 3, 0, 2);
    gguf_key_u32(&b, "twice", 1);
    gguf_key_u32(&b, "twice", 2);
    gguf_refused("a key twice", &b, STATUS_FILE, "metadata key twice is there twice");
    for (uint32_t alignment = 0; alignment < 4; alignment += 3) {
        gguf_header(&b, 3, 0, 1);
        gguf_key_u32(&b, "general.alignment", alignment);
        gguf_refused("alignment", &b, STATUS_FILE, "general.alignment");
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
        gguf_refused(c->what, &b, STATUS_FILE, c->fragment);
    }
    Bytes b = {0};
    gguf_header(&b, 3, 2, 0);
    gguf_tensor(&b, "one", 1, (uint64_t[]){16}, 0, 0);
    gguf_tensor(&b, "two", 1, (uint64_t[]){16}, 0, 32);
    gguf_pad(&b, 32);
    bytes_zeros(&b, 256);
    gguf_refused("overlap", &b, STATUS_FILE, "tensors one and two overlap");
    gguf_header(&b, 3, 2, 0);
    gguf_tensor(&b, "same", 1, (uint64_t[]){8}, 0, 0);
    gguf_tensor(&b, "same", 1, (uint64_t[]){8}, 0, 32);
    gguf_pad(&b, 32);
    bytes_zeros(&b, 256);
    gguf_refused("duplicate", &b, STATUS_FILE, "two tensors are called same");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notices_200_cuts),
        cmocka_unit_test(refuses_bad_headers),
        cmocka_unit_test(refuses_bad_metadata),
        cmocka_unit_test(refuses_bad_tensors),
    };
    return test_main("gguf_refused", argc, argv, tests);
}
