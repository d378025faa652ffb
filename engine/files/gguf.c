// A GGUF file, v2 or v3 (ggml's docs/gguf.md): header, metadata, tensor table.
//
//   "GGUF" version:u32 n_tensors:u64 n_meta:u64 {key value}… {name n_dims dims type offset}… padding data
//
// Nothing is believed: a count only bounds a loop that ends with the bytes of the file, every length is
// compared with what is left, and nothing is allocated for what has not been read.
#include "engine/files/checkpoint_internal.h"
#include "engine/files/gguf_types.h"
#include "kernels/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY_BYTES = 65535, MAX_NAME_BYTES = 1024 };

typedef struct Reader {
    const char *path;
    const uint8_t *data;
    size_t size, at;
    char what[160]; // what is being read, for messages
    Error *error;
} Reader;

static Status damaged(Reader *reader, const char *problem) {
    error_set(reader->error, STATUS_FILE,
              "%s: at byte %zu, %s: %s: the file is damaged or cut short; fetch it again", reader->path,
              reader->at, reader->what, problem);
    return STATUS_FILE;
}

static size_t left(const Reader *reader) {
    return reader->size - reader->at;
}

// Takes `count` bytes; NULL (with the error set) if they are not there.
static const uint8_t *take(Reader *reader, uint64_t count) {
    if (count > left(reader)) {
        char problem[96];
        snprintf(problem, sizeof problem, "needs %llu bytes, but %zu are left", (unsigned long long)count,
                 left(reader));
        damaged(reader, problem);
        return NULL;
    }
    const uint8_t *bytes = reader->data + reader->at;
    reader->at += (size_t)count;
    return bytes;
}

static Status take_u32(Reader *reader, uint32_t *value) {
    const uint8_t *bytes = take(reader, sizeof *value);
    if (!bytes) return STATUS_FILE;
    memcpy(value, bytes, sizeof *value);
    return STATUS_OK;
}

static Status take_u64(Reader *reader, uint64_t *value) {
    const uint8_t *bytes = take(reader, sizeof *value);
    if (!bytes) return STATUS_FILE;
    memcpy(value, bytes, sizeof *value);
    return STATUS_OK;
}

// A key or a name: at least one byte, at most `most`, printable ASCII, so that messages can show it.
// malloc'ed.
static Status take_name(Reader *reader, size_t most, char **name) {
    uint64_t length;
    Status status = take_u64(reader, &length);
    if (status) return status;
    if (length == 0 || length > most) {
        char problem[96];
        snprintf(problem, sizeof problem, "a name of %llu bytes (1 to %zu are allowed)",
                 (unsigned long long)length, most);
        return damaged(reader, problem);
    }
    const uint8_t *bytes = take(reader, length);
    if (!bytes) return STATUS_FILE;
    if (!text_is_printable((const char *)bytes, (size_t)length))
        return damaged(reader, "a name that is not printable ASCII");
    *name = strndup((const char *)bytes, (size_t)length);
    if (*name) return STATUS_OK;
    error_set(reader->error, STATUS_MEMORY, "%s: out of memory", reader->path);
    return STATUS_MEMORY;
}

// ---- metadata ------------------------------------------------------------------------------------------

static Status skip_string(Reader *reader) {
    uint64_t length;
    Status status = take_u64(reader, &length);
    if (status) return status;
    return take(reader, length) != NULL ? STATUS_OK : STATUS_FILE;
}

static Status check_bools(Reader *reader, const uint8_t *bytes, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (bytes[i] > 1) return damaged(reader, "a bool that is neither 0 nor 1");
    }
    return STATUS_OK;
}

static Status take_array(Reader *reader, MetaValue *value) {
    uint32_t type;
    uint64_t count;
    Status status = take_u32(reader, &type);
    if (!status) status = take_u64(reader, &count);
    if (status) return status;
    if (type == GGUF_ARRAY) {
        return error_set(reader->error, STATUS_UNSUPPORTED,
                         "%s: %s: an array of arrays, which palaver cannot read", reader->path, reader->what);
    }
    if (type >= GGUF_TYPE_COUNT) return damaged(reader, "an array of an unknown type");
    *value = (MetaValue){.type = META_ARRAY, .element = gguf_meta_type(type), .gguf_element = (int)type};
    value->data = reader->data + reader->at;
    if (type == GGUF_STRING) {
        // Each string takes 8 bytes or more, so the loop ends with the file.
        for (uint64_t i = 0; i < count; i++) {
            status = skip_string(reader);
            if (status) return status;
        }
    } else {
        uint64_t bytes;
        if (__builtin_mul_overflow(count, (uint64_t)gguf_type_bytes(type), &bytes)) {
            return damaged(reader, "an array longer than any file");
        }
        const uint8_t *elements = take(reader, bytes);
        if (!elements) return STATUS_FILE;
        if (type == GGUF_BOOL) status = check_bools(reader, elements, count);
    }
    value->count = (int64_t)count; // each element took a byte of the file, so it fits
    return status;
}

static Status take_value(Reader *reader, MetaValue *value) {
    uint32_t type;
    Status status = take_u32(reader, &type);
    if (status) return status;
    if (type == GGUF_ARRAY) return take_array(reader, value);
    if (type >= GGUF_TYPE_COUNT) return damaged(reader, "a value of an unknown type");
    size_t begin = reader->at;
    if (type == GGUF_STRING) {
        status = skip_string(reader);
    } else {
        const uint8_t *bytes = take(reader, gguf_type_bytes(type));
        if (!bytes) return STATUS_FILE;
        if (type == GGUF_BOOL) status = check_bools(reader, bytes, 1);
    }
    if (!status) gguf_decode((int)type, reader->data + begin, value);
    return status;
}

static Status read_meta(Reader *reader, uint64_t count, MetaTable *table) {
    for (uint64_t i = 0; i < count; i++) {
        snprintf(reader->what, sizeof reader->what, "metadata key %llu of %llu", (unsigned long long)i + 1,
                 (unsigned long long)count);
        char *key;
        Status status = take_name(reader, MAX_KEY_BYTES, &key);
        if (status) return status;
        if (!array_reserve(&table->values, sizeof *table->values, (size_t)table->count, 1,
                           &table->capacity)) {
            free(key);
            return error_set(reader->error, STATUS_MEMORY, "%s: out of memory", reader->path);
        }
        snprintf(reader->what, sizeof reader->what, "metadata %.120s", key);
        MetaValue *value = &table->values[table->count++];
        *value = (MetaValue){.key = key}; // owned by the table from here on, also if its value is damaged
        status = take_value(reader, value);
        value->key = key;
        if (status) return status;
    }
    return checkpoint_meta_finish(table, reader->path, reader->error);
}

// ---- tensors -------------------------------------------------------------------------------------------

static Status take_shape(Reader *reader, CheckpointTensor *tensor) {
    uint32_t n_dims;
    Status status = take_u32(reader, &n_dims);
    if (status) return status;
    if (n_dims > CHECKPOINT_MAX_DIMS) return damaged(reader, "more than 4 dimensions");
    tensor->n_dims = (int)n_dims;
    for (int i = 0; i < CHECKPOINT_MAX_DIMS; i++) tensor->shape[i] = 1;
    for (int i = tensor->n_dims - 1; i >= 0; i--) { // the file has the contiguous dimension first
        uint64_t size;
        status = take_u64(reader, &size);
        if (status) return status;
        if (size == 0 || size > INT64_MAX) return damaged(reader, "a dimension of 0 or beyond 2^63");
        tensor->shape[i] = (int64_t)size;
    }
    return STATUS_OK;
}

// Bytes of the tensor's data; 0 where the type is one nobody knows the size of.
static Status measure(Reader *reader, CheckpointTensor *tensor, int64_t block_size, int64_t block_bytes) {
    int64_t elements = checkpoint_tensor_elements(tensor), bytes;
    int64_t row = tensor->n_dims > 0 ? tensor->shape[tensor->n_dims - 1] : 1;
    if (elements < 0) return damaged(reader, "more than 2^63 elements");
    if (row % block_size != 0) {
        char problem[96];
        snprintf(problem, sizeof problem, "rows of %lld %s elements, no multiple of %lld", (long long)row,
                 tensor->type_name, (long long)block_size);
        return damaged(reader, problem);
    }
    if (__builtin_mul_overflow(elements / block_size, block_bytes, &bytes)) {
        return damaged(reader, "more than 2^63 bytes");
    }
    tensor->bytes = (size_t)bytes;
    return STATUS_OK;
}

// Tensor data is still an offset while the table is read: where data begins is known only behind it.
static Status read_table(Reader *reader, Checkpoint *checkpoint, int file, uint64_t count,
                         uint64_t alignment) {
    for (uint64_t i = 0; i < count; i++) {
        snprintf(reader->what, sizeof reader->what, "tensor %llu of %llu", (unsigned long long)i + 1,
                 (unsigned long long)count);
        char *name;
        Status status = take_name(reader, MAX_NAME_BYTES, &name);
        if (status) return status;
        snprintf(reader->what, sizeof reader->what, "tensor %.120s", name);

        CheckpointTensor tensor = {.file = file};
        uint32_t type = 0;
        uint64_t offset = 0;
        int64_t block_size, block_bytes;
        status = take_shape(reader, &tensor);
        if (!status) status = take_u32(reader, &type);
        if (!status) status = take_u64(reader, &offset);
        if (!status && offset % alignment != 0) status = damaged(reader, "unaligned data");
        if (!status && offset > reader->size) status = damaged(reader, "data beyond the end of the file");
        if (!status) {
            tensor.data = reader->data + offset;
            gguf_tensor_type(type, &tensor, &block_size, &block_bytes);
            status = measure(reader, &tensor, block_size, block_bytes);
        }
        if (!status) status = checkpoint_add_tensor(checkpoint, name, &tensor, reader->error);
        free(name);
        if (status) return status;
    }
    return STATUS_OK;
}

// Turns offsets into addresses, now that the table has ended at reader->at.
static Status place_tensors(Reader *reader, Checkpoint *checkpoint, int64_t first, uint64_t alignment) {
    if (first == checkpoint->n_tensors) return STATUS_OK; // a part of metadata alone may end unpadded
    uint64_t padding = (alignment - reader->at % alignment) % alignment;
    snprintf(reader->what, sizeof reader->what, "padding before the tensors");
    const uint8_t *base = take(reader, padding);
    if (!base) return STATUS_FILE;
    size_t begin = reader->at;
    for (int64_t i = first; i < checkpoint->n_tensors; i++) {
        CheckpointTensor *tensor = &checkpoint->tensors[i];
        size_t offset = (size_t)((const uint8_t *)tensor->data - reader->data);
        snprintf(reader->what, sizeof reader->what, "tensor %.120s", tensor->name);
        reader->at = begin;
        if (take(reader, offset) == NULL || (tensor->data = take(reader, tensor->bytes)) == NULL)
            return STATUS_FILE;
    }
    return STATUS_OK;
}

// ---- files ---------------------------------------------------------------------------------------------

bool gguf_recognise(const CheckpointFile *file) {
    return file->size >= 4 && memcmp(file->data, "GGUF", 4) == 0;
}

static Status read_header(Reader *reader, uint64_t *n_tensors, uint64_t *n_meta) {
    uint32_t version;
    snprintf(reader->what, sizeof reader->what, "the header");
    reader->at = 4; // gguf_recognise() has seen the magic
    Status status = take_u32(reader, &version);
    if (status) return status;
    if (version != 2 && version != 3) {
        bool swapped = version == 0x02000000 || version == 0x03000000;
        return error_set(reader->error, STATUS_UNSUPPORTED,
                         "%s: GGUF version %u%s; palaver reads versions 2 and 3, "
                         "little-endian",
                         reader->path, version, swapped ? " (big-endian)" : "");
    }
    status = take_u64(reader, n_tensors);
    if (!status) status = take_u64(reader, n_meta);
    if (status) return status;
    // The smallest entries: a key of one byte with a value of one; a scalar with a name of one byte.
    if (*n_meta > left(reader) / (8 + 1 + 4 + 1))
        return damaged(reader, "more metadata than the file can hold");
    if (*n_tensors > left(reader) / (8 + 1 + 4 + 4 + 8))
        return damaged(reader, "more tensors than the file can hold");
    return STATUS_OK;
}

const MetaValue *gguf_find_integer(const MetaTable *table, const char *key) {
    for (int64_t i = 0; i < table->count; i++) {
        const MetaValue *value = &table->values[i];
        if (value->type == META_INTEGER && strcmp(value->key, key) == 0) return value;
    }
    return NULL;
}

Status gguf_read_file(Checkpoint *checkpoint, int index, MetaTable *meta, Error *error) {
    const CheckpointFile *file = &checkpoint->files[index];
    Reader reader = {.path = file->path, .data = file->data, .size = file->size, .error = error};
    uint64_t n_tensors = 0, n_meta = 0, alignment = 32;
    int64_t first = checkpoint->n_tensors;
    Status status = read_header(&reader, &n_tensors, &n_meta);
    if (!status) status = read_meta(&reader, n_meta, meta);
    if (status) return status;
    const MetaValue *wanted = gguf_find_integer(meta, "general.alignment");
    if (wanted) {
        if (wanted->integer <= 0 || wanted->integer > 1 << 30 ||
            (wanted->integer & (wanted->integer - 1)) != 0) {
            return error_set(error, STATUS_FILE, "%s: general.alignment is %lld, which is no power of two",
                             file->path, (long long)wanted->integer);
        }
        alignment = (uint64_t)wanted->integer;
    }
    status = read_table(&reader, checkpoint, index, n_tensors, alignment);
    return status ? status : place_tensors(&reader, checkpoint, first, alignment);
}
