#include "tests/support/gguf.h"

#include "engine/files/checkpoint_internal.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

void gguf_header(Bytes *bytes, uint32_t version, uint64_t n_tensors, uint64_t n_meta) {
    bytes_text(bytes, "GGUF");
    bytes_u32(bytes, version);
    bytes_u64(bytes, n_tensors);
    bytes_u64(bytes, n_meta);
}

void gguf_string(Bytes *bytes, const char *text) {
    bytes_u64(bytes, strlen(text));
    bytes_text(bytes, text);
}

void gguf_key(Bytes *bytes, const char *key, uint32_t type) {
    gguf_string(bytes, key);
    bytes_u32(bytes, type);
}

void gguf_key_u32(Bytes *bytes, const char *key, uint32_t value) {
    gguf_key(bytes, key, 4);
    bytes_u32(bytes, value);
}

void gguf_key_string(Bytes *bytes, const char *key, const char *value) {
    gguf_key(bytes, key, 8);
    gguf_string(bytes, value);
}

void gguf_tensor(Bytes *bytes, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                 uint64_t offset) {
    gguf_string(bytes, name);
    bytes_u32(bytes, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) bytes_u64(bytes, dims[i]);
    bytes_u32(bytes, type);
    bytes_u64(bytes, offset);
}

void gguf_pad(Bytes *bytes, size_t alignment) {
    bytes_zeros(bytes, (alignment - bytes->size % alignment) % alignment);
}

Status gguf_parse(const uint8_t *data, size_t size, Checkpoint **checkpoint, Error *error) {
    static uint8_t *copy; // lives as long as the Checkpoint
    free(copy);
    copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    return checkpoint_from_gguf("test.gguf", copy, size, checkpoint, error);
}

void gguf_refused(const char *what, Bytes *bytes, Status status, const char *fragment) {
    Checkpoint *checkpoint;
    Error error = {0};
    Status got = gguf_parse(bytes->data, bytes->size, &checkpoint, &error);
    if (got != status || strstr(error.message, fragment) == NULL || strchr(error.message, '\n') != NULL) {
        fail_msg("%s: status %d, \"%s\"; wanted %d, \"%s\"", what, got, error.message, status, fragment);
    }
    assert_null(checkpoint);
    bytes_free(bytes);
}

Checkpoint *gguf_parsed(Bytes *bytes) {
    Checkpoint *checkpoint;
    Error error = {0};
    if (gguf_parse(bytes->data, bytes->size, &checkpoint, &error) != STATUS_OK) fail_msg("%s", error.message);
    bytes_free(bytes);
    return checkpoint;
}

Checkpoint *gguf_opened(const char *path) {
    Checkpoint *checkpoint;
    Error error = {0};
    if (checkpoint_open(path, &checkpoint, &error) != STATUS_OK) fail_msg("%s", error.message);
    return checkpoint;
}
