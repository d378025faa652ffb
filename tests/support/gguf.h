// GGUF files: made piece by piece, opened, refused. Failures in here end the test that called.
#ifndef PALAVER_TESTS_GGUF_H
#define PALAVER_TESTS_GGUF_H

#include "engine/files/checkpoint.h"
#include "tests/support/files.h"

#define GGUF_LLAMA3 "tests/golden/models/llama3.gguf"

// ---- making one --------------------------------------------------------------------------------------------

void gguf_header(Bytes *bytes, uint32_t version, uint64_t n_tensors, uint64_t n_meta);
void gguf_string(Bytes *bytes, const char *text); // length and text
void gguf_key(Bytes *bytes, const char *key, uint32_t type);
void gguf_key_u32(Bytes *bytes, const char *key, uint32_t value);
void gguf_key_string(Bytes *bytes, const char *key, const char *value);
// `dims` in the file's order, the contiguous one first.
void gguf_tensor(Bytes *bytes, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                 uint64_t offset);
void gguf_pad(Bytes *bytes, size_t alignment);

// ---- opening it -------------------------------------------------------------------------------------------

// An exactly sized copy, so that a read beyond the end is seen by the sanitizer; it lives until the next one is parsed.
Status gguf_parse(const uint8_t *data, size_t size, Checkpoint **checkpoint, Error *error);
// These have to open; bytes are freed.
Checkpoint *gguf_parsed(Bytes *bytes);
Checkpoint *gguf_opened(const char *path);
// The bytes, which are freed, give this status and one line with `fragment` in it; `what` names the case.
void gguf_refused(const char *what, Bytes *bytes, Status status, const char *fragment);

#endif
