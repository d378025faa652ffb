// Types of a GGUF file: of its metadata values and of its tensors. Numbers as in the format's specification
// (ggml's docs/gguf.md).
#ifndef PALAVER_ENGINE_GGUF_TYPES_H
#define PALAVER_ENGINE_GGUF_TYPES_H

#include "engine/files/checkpoint.h"

typedef enum GgufType {
    GGUF_UINT8,
    GGUF_INT8,
    GGUF_UINT16,
    GGUF_INT16,
    GGUF_UINT32,
    GGUF_INT32,
    GGUF_FLOAT32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_UINT64,
    GGUF_INT64,
    GGUF_FLOAT64,
    GGUF_TYPE_COUNT,
} GgufType;

// Bytes of a value of fixed size; 0 for strings, arrays and unknown types.
size_t gguf_type_bytes(uint32_t type);

// What palaver makes of it.
MetaType gguf_meta_type(uint32_t type);

// Fills type and content of `value` from checked bytes; GGUF_ARRAY is not among them. Returns the bytes it
// took.
size_t gguf_decode(int type, const uint8_t *bytes, MetaValue *value);

// Fills supported, type and type_name of a tensor, and the bytes and elements of a block (0 if nobody knows).
void gguf_tensor_type(uint32_t type, CheckpointTensor *tensor, int64_t *block_size, int64_t *block_bytes);

#endif
