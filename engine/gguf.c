// GGUF v2 and v3 (ggml's docs/gguf.md), whole or split: header, metadata, tensor table.
//
//   "GGUF" version:u32 n_tensors:u64 n_meta:u64 {key value}… {name n_dims dims type offset}… padding data
//
// Nothing is believed: a count only bounds a loop that ends with the bytes of the file, every length is
// compared with what is left, and nothing is allocated for what has not been read.
#include "engine/checkpoint_internal.h"
#include "engine/gguf_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY_BYTES = 65535, MAX_NAME_BYTES = 1024, MAX_SPLITS = 99999, SPLIT_SUFFIX_LENGTH = 20 };

typedef struct Reader {
    const char *path;
    const uint8_t *data;
    size_t size, at;
    char what[160]; // what is being read, for messages
    Error *error;
} Reader;

static Status damaged(Reader *reader, const char *problem) {
    return error_set(reader->error, STATUS_FILE,
                     "%s: at byte %zu, %s: %s: the file is damaged or cut short; fetch "
                     "it again",
                     reader->path, reader->at, reader->what, problem);
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
    if (bytes == NULL) return STATUS_FILE;
    memcpy(value, bytes, sizeof *value);
    return STATUS_OK;
}

static Status take_u64(Reader *reader, uint64_t *value) {
    const uint8_t *bytes = take(reader, sizeof *value);
    if (bytes == NULL) return STATUS_FILE;
    memcpy(value, bytes, sizeof *value);
    return STATUS_OK;
}

// A key or a name: at least one byte, at most `most`, printable ASCII, so that messages can show it.
// malloc'ed.
static Status take_name(Reader *reader, size_t most, char **name) {
    uint64_t length;
    Status status = take_u64(reader, &length);
    if (status != STATUS_OK) return status;
    if (length == 0 || length > most) {
        char problem[96];
        snprintf(problem, sizeof problem, "a name of %llu bytes (1 to %zu are allowed)",
                 (unsigned long long)length, most);
        return damaged(reader, problem);
    }
    const uint8_t *bytes = take(reader, length);
    if (bytes == NULL) return STATUS_FILE;
    if (!is_printable((const char *)bytes, (size_t)length))
        return damaged(reader, "a name that is not printable ASCII");
    *name = strndup((const char *)bytes, (size_t)length);
    return *name != NULL ? STATUS_OK
                         : error_set(reader->error, STATUS_MEMORY, "%s: out of memory", reader->path);
}

// ---- metadata ------------------------------------------------------------------------------------------

static Status skip_string(Reader *reader) {
    uint64_t length;
    Status status = take_u64(reader, &length);
    if (status != STATUS_OK) return status;
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
    if (status == STATUS_OK) status = take_u64(reader, &count);
    if (status != STATUS_OK) return status;
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
            if (status != STATUS_OK) return status;
        }
    } else {
        uint64_t bytes;
        if (__builtin_mul_overflow(count, (uint64_t)gguf_type_bytes(type), &bytes)) {
            return damaged(reader, "an array longer than any file");
        }
        const uint8_t *elements = take(reader, bytes);
        if (elements == NULL) return STATUS_FILE;
        if (type == GGUF_BOOL) status = check_bools(reader, elements, count);
    }
    value->count = (int64_t)count; // each element took a byte of the file, so it fits
    return status;
}

static Status take_value(Reader *reader, MetaValue *value) {
    uint32_t type;
    Status status = take_u32(reader, &type);
    if (status != STATUS_OK) return status;
    if (type == GGUF_ARRAY) return take_array(reader, value);
    if (type >= GGUF_TYPE_COUNT) return damaged(reader, "a value of an unknown type");
    size_t begin = reader->at;
    if (type == GGUF_STRING) {
        status = skip_string(reader);
    } else {
        const uint8_t *bytes = take(reader, gguf_type_bytes(type));
        if (bytes == NULL) return STATUS_FILE;
        if (type == GGUF_BOOL) status = check_bools(reader, bytes, 1);
    }
    if (status == STATUS_OK) gguf_decode((int)type, reader->data + begin, value);
    return status;
}

static Status read_meta(Reader *reader, uint64_t count, MetaTable *table) {
    for (uint64_t i = 0; i < count; i++) {
        snprintf(reader->what, sizeof reader->what, "metadata key %llu of %llu", (unsigned long long)i + 1,
                 (unsigned long long)count);
        char *key;
        Status status = take_name(reader, MAX_KEY_BYTES, &key);
        if (status != STATUS_OK) return status;
        if (table->count == table->capacity) {
            int64_t capacity = table->capacity * 2 + 16;
            MetaValue *grown = realloc(table->values, (size_t)capacity * sizeof *grown);
            if (grown == NULL) {
                free(key);
                return error_set(reader->error, STATUS_MEMORY, "%s: out of memory", reader->path);
            }
            table->values = grown;
            table->capacity = capacity;
        }
        snprintf(reader->what, sizeof reader->what, "metadata %.120s", key);
        MetaValue *value = &table->values[table->count++];
        *value = (MetaValue){.key = key}; // owned by the table from here on, also if its value is damaged
        status = take_value(reader, value);
        value->key = key;
        if (status != STATUS_OK) return status;
    }
    return meta_finish(table, reader->path, reader->error);
}

// ---- tensors -------------------------------------------------------------------------------------------

static Status take_shape(Reader *reader, CheckpointTensor *tensor) {
    uint32_t n_dims;
    Status status = take_u32(reader, &n_dims);
    if (status != STATUS_OK) return status;
    if (n_dims > CHECKPOINT_MAX_DIMS) return damaged(reader, "more than 4 dimensions");
    tensor->n_dims = (int)n_dims;
    for (int i = 0; i < CHECKPOINT_MAX_DIMS; i++) tensor->shape[i] = 1;
    for (int i = tensor->n_dims - 1; i >= 0; i--) { // the file has the contiguous dimension first
        uint64_t size;
        status = take_u64(reader, &size);
        if (status != STATUS_OK) return status;
        if (size == 0 || size > INT64_MAX) return damaged(reader, "a dimension of 0 or beyond 2^63");
        tensor->shape[i] = (int64_t)size;
    }
    return STATUS_OK;
}

// Bytes of the tensor's data; 0 where the type is one nobody knows the size of.
static Status measure(Reader *reader, CheckpointTensor *tensor, int64_t block_size, int64_t block_bytes) {
    int64_t elements = tensor_elements(tensor), bytes;
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
        if (status != STATUS_OK) return status;
        snprintf(reader->what, sizeof reader->what, "tensor %.120s", name);

        CheckpointTensor tensor = {.file = file};
        uint32_t type = 0;
        uint64_t offset = 0;
        int64_t block_size, block_bytes;
        status = take_shape(reader, &tensor);
        if (status == STATUS_OK) status = take_u32(reader, &type);
        if (status == STATUS_OK) status = take_u64(reader, &offset);
        if (status == STATUS_OK && offset % alignment != 0) status = damaged(reader, "unaligned data");
        if (status == STATUS_OK && offset > reader->size)
            status = damaged(reader, "data beyond the end of the file");
        if (status == STATUS_OK) {
            gguf_tensor_type(type, &tensor, &block_size, &block_bytes);
            status = measure(reader, &tensor, block_size, block_bytes);
        }
        tensor.data = reader->data + offset;
        if (status == STATUS_OK) status = checkpoint_add_tensor(checkpoint, name, &tensor, reader->error);
        free(name);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

// Turns offsets into addresses, now that the table has ended at reader->at.
static Status place_tensors(Reader *reader, Checkpoint *checkpoint, int64_t first, uint64_t alignment) {
    if (first == checkpoint->n_tensors) return STATUS_OK; // a part of metadata alone may end unpadded
    uint64_t padding = (alignment - reader->at % alignment) % alignment;
    snprintf(reader->what, sizeof reader->what, "padding before the tensors");
    const uint8_t *base = take(reader, padding);
    if (base == NULL) return STATUS_FILE;
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
    if (status != STATUS_OK) return status;
    if (version != 2 && version != 3) {
        bool swapped = version == 0x02000000 || version == 0x03000000;
        return error_set(reader->error, STATUS_UNSUPPORTED,
                         "%s: GGUF version %u%s; palaver reads versions 2 and 3, "
                         "little-endian",
                         reader->path, version, swapped ? " (big-endian)" : "");
    }
    status = take_u64(reader, n_tensors);
    if (status == STATUS_OK) status = take_u64(reader, n_meta);
    if (status != STATUS_OK) return status;
    // The smallest entries: a key of one byte with a value of one; a scalar with a name of one byte.
    if (*n_meta > left(reader) / (8 + 1 + 4 + 1))
        return damaged(reader, "more metadata than the file can hold");
    if (*n_tensors > left(reader) / (8 + 1 + 4 + 4 + 8))
        return damaged(reader, "more tensors than the file can hold");
    return STATUS_OK;
}

static const MetaValue *find_integer(const MetaTable *table, const char *key) {
    for (int64_t i = 0; i < table->count; i++) {
        const MetaValue *value = &table->values[i];
        if (value->type == META_INTEGER && strcmp(value->key, key) == 0) return value;
    }
    return NULL;
}

static Status read_file(Checkpoint *checkpoint, int index, MetaTable *meta, Error *error) {
    const CheckpointFile *file = &checkpoint->files[index];
    Reader reader = {.path = file->path, .data = file->data, .size = file->size, .error = error};
    uint64_t n_tensors = 0, n_meta = 0, alignment = 32;
    int64_t first = checkpoint->n_tensors;
    Status status = read_header(&reader, &n_tensors, &n_meta);
    if (status == STATUS_OK) status = read_meta(&reader, n_meta, meta);
    if (status != STATUS_OK) return status;
    const MetaValue *wanted = find_integer(meta, "general.alignment");
    if (wanted != NULL) {
        if (wanted->integer <= 0 || wanted->integer > 1 << 30 ||
            (wanted->integer & (wanted->integer - 1)) != 0) {
            return error_set(error, STATUS_FILE, "%s: general.alignment is %lld, which is no power of two",
                             file->path, (long long)wanted->integer);
        }
        alignment = (uint64_t)wanted->integer;
    }
    status = read_table(&reader, checkpoint, index, n_tensors, alignment);
    return status == STATUS_OK ? place_tensors(&reader, checkpoint, first, alignment) : status;
}

static int64_t integer_or(const MetaTable *table, const char *key, int64_t otherwise) {
    const MetaValue *value = find_integer(table, key);
    return value == NULL ? otherwise : value->integer;
}

// Length of PATH without "-00001-of-00003.gguf"; 0 if it does not end like that.
static size_t split_stem(const char *path, int64_t number, int64_t count) {
    char suffix[SPLIT_SUFFIX_LENGTH + 16];
    snprintf(suffix, sizeof suffix, "-%05d-of-%05d.gguf", (int)number + 1, (int)count);
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && strcmp(path + n - m, suffix) == 0 ? n - m : 0;
}

static Status open_part(Checkpoint *checkpoint, const char *stem, int stem_length, int64_t number,
                        int64_t count, CheckpointFile *file, Error *error) {
    char *path = NULL;
    if (asprintf(&path, "%.*s-%05d-of-%05d.gguf", stem_length, stem, (int)number + 1, (int)count) < 0) {
        return error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint->path);
    }
    Status status = file_map(path, file, error);
    if (status != STATUS_OK) {
        error_prefix(error, "part %d of %d of the model: ", (int)number + 1, (int)count);
    } else if (!gguf_recognise(file)) {
        status =
            error_set(error, STATUS_FILE, "%s: not a GGUF file, but part %d of %d of the model should be",
                      path, (int)number + 1, (int)count);
        file_unmap(file);
    }
    free(path);
    return status;
}

// Reads the other parts of a split file. The metadata that counts is the first part's.
static Status read_parts(Checkpoint *checkpoint, int64_t number, int64_t count, Error *error) {
    if (!checkpoint->files[0].mapped || number < 0 || number >= count || count > MAX_SPLITS) {
        return error_set(error, STATUS_FILE, "%s: says it is part %lld of %lld", checkpoint->path,
                         (long long)number + 1, (long long)count);
    }
    size_t stem = split_stem(checkpoint->files[0].path, number, count);
    if (stem == 0 || stem > INT32_MAX) {
        return error_set(error, STATUS_FILE,
                         "%s: is part %d of %d of a split model, so its name must end in "
                         "-%05d-of-%05d.gguf for the others to be found",
                         checkpoint->path, (int)number + 1, (int)count, (int)number + 1, (int)count);
    }
    char *first_path = strdup(checkpoint->files[0].path); // files[] moves when it grows
    if (first_path == NULL) return error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint->path);
    Status status = STATUS_OK;
    for (int64_t part = 0; part < count && status == STATUS_OK; part++) {
        if (part == number) continue;
        CheckpointFile file;
        MetaTable meta = {0};
        int index;
        status = open_part(checkpoint, first_path, (int)stem, part, count, &file, error);
        if (status == STATUS_OK) status = checkpoint_add_file(checkpoint, &file, &index, error);
        if (status == STATUS_OK) status = read_file(checkpoint, index, &meta, error);
        if (status == STATUS_OK &&
            (integer_or(&meta, "split.no", -1) != part || integer_or(&meta, "split.count", -1) != count)) {
            status = error_set(error, STATUS_FILE, "%s: does not say that it is part %d of %d of the model",
                               checkpoint->files[index].path, (int)part + 1, (int)count);
        }
        if (status == STATUS_OK && part == 0) {
            MetaTable other = checkpoint->meta;
            checkpoint->meta = meta;
            meta = other;
        }
        meta_free(&meta);
    }
    free(first_path);
    return status;
}

Status gguf_read(Checkpoint *checkpoint, Error *error) {
    Status status = read_file(checkpoint, 0, &checkpoint->meta, error);
    if (status != STATUS_OK) return status;
    int64_t count = integer_or(&checkpoint->meta, "split.count", 1);
    int64_t number = integer_or(&checkpoint->meta, "split.no", 0);
    if (count > 1) status = read_parts(checkpoint, number, count, error);
    if (status != STATUS_OK || count <= 1) return status;
    int64_t expected = integer_or(&checkpoint->meta, "split.tensors.count", checkpoint->n_tensors);
    if (expected == checkpoint->n_tensors) return STATUS_OK;
    return error_set(error, STATUS_FILE, "%s: the parts hold %lld tensors, the first announces %lld",
                     checkpoint->path, (long long)checkpoint->n_tensors, (long long)expected);
}
