// safetensors (huggingface/safetensors, README "Format"): a JSON header, then the tensors' bytes.
//
//   header_size:u64 {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [begin, end]}, …} data
//
// A model in several files has model.safetensors.index.json, whose weight_map says which tensor is in which.
#include "engine/files/checkpoint_internal.h"
#include "kernels/base/array.h"
#include "kernels/base/path.h"
#include "kernels/base/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HEADER_BYTES = 32 << 20 }; // a hundred times what large models need; bounds what parsing takes

static const char INDEX_NAME[] = "model.safetensors.index.json";

typedef struct ElementType {
    const char *name;
    int dtype; // -1: palaver has no code for it
    int64_t bytes;
} ElementType;

// Those palaver cannot read may be in a file as long as the model does not need them.
static const ElementType TYPES[] = {
    {"F32", DTYPE_F32, 4}, {"F16", DTYPE_F16, 2}, {"BF16", DTYPE_BF16, 2}, {"F64", -1, 8},
    {"I64", -1, 8},        {"I32", -1, 4},        {"I16", -1, 2},          {"I8", -1, 1},
    {"U64", -1, 8},        {"U32", -1, 4},        {"U16", -1, 2},          {"U8", -1, 1},
    {"BOOL", -1, 1},       {"F8_E4M3", -1, 1},    {"F8_E5M2", -1, 1},
};

typedef struct File {
    const char *path, *tensor; // the one being read, for messages
    const uint8_t *data;       // of the tensors, behind the header
    size_t size;
    Error *error;
} File;

static Status damaged(const File *file, const char *problem) {
    return error_set(file->error, STATUS_FILE,
                     "%s: tensor %s: %s: the file is damaged or cut short; fetch it again", file->path,
                     file->tensor, problem);
}

static Status read_type(const File *file, const json_t *entry, CheckpointTensor *tensor,
                        int64_t *element_bytes) {
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (!name) return damaged(file, "no dtype");
    *element_bytes = 0; // of a type nobody knows: only its place is checked
    tensor->supported = false;
    tensor->type = DTYPE_F32;
    snprintf(tensor->type_name, sizeof tensor->type_name, "%s",
             text_is_printable(name, strlen(name)) ? name : "?");
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (strcmp(TYPES[i].name, name) != 0) continue;
        *element_bytes = TYPES[i].bytes;
        if (TYPES[i].dtype < 0) continue;
        tensor->supported = true;
        tensor->type = (DType)TYPES[i].dtype;
        snprintf(tensor->type_name, sizeof tensor->type_name, "%s", dtype_name(tensor->type));
    }
    return STATUS_OK;
}

static Status read_shape(const File *file, const json_t *entry, CheckpointTensor *tensor) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape)) return damaged(file, "no shape");
    if (json_array_size(shape) > CHECKPOINT_MAX_DIMS) {
        tensor->supported = false; // no weight has that many: harmless unless the model asks for it
        snprintf(tensor->type_name, sizeof tensor->type_name, "%zu dimensions", json_array_size(shape));
    }
    int64_t elements = 1; // over all dimensions, also those that do not fit in tensor->shape
    for (int i = 0; i < CHECKPOINT_MAX_DIMS; i++) tensor->shape[i] = 1;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return damaged(file, "a dimension is no size");
        if (__builtin_mul_overflow(elements, (int64_t)json_integer_value(size), &elements)) {
            return damaged(file, "more than 2^63 elements");
        }
        if (i < CHECKPOINT_MAX_DIMS) tensor->shape[i] = json_integer_value(size);
    }
    size_t n_dims = json_array_size(shape);
    tensor->n_dims = n_dims > CHECKPOINT_MAX_DIMS ? CHECKPOINT_MAX_DIMS : (int)n_dims;
    return STATUS_OK;
}

static Status read_place(const File *file, const json_t *entry, CheckpointTensor *tensor) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to)) {
        return damaged(file, "no data_offsets [begin, end]");
    }
    json_int_t begin = json_integer_value(from), end = json_integer_value(to);
    if (begin < 0 || end < begin || (uint64_t)end > file->size) {
        char problem[128];
        snprintf(problem, sizeof problem, "its bytes %lld to %lld are not in the %zu bytes of data",
                 (long long)begin, (long long)end, file->size);
        return damaged(file, problem);
    }
    tensor->data = file->data + begin;
    tensor->bytes = (size_t)(end - begin);
    return STATUS_OK;
}

static Status read_tensor(const File *file, const json_t *entry, CheckpointTensor *tensor) {
    int64_t element_bytes = 0, bytes;
    Status status = read_type(file, entry, tensor, &element_bytes);
    if (!status) status = read_shape(file, entry, tensor);
    if (!status) status = read_place(file, entry, tensor);
    if (status || !tensor->supported) return status;
    int64_t elements = checkpoint_tensor_elements(tensor);
    if (elements < 0 || __builtin_mul_overflow(elements, element_bytes, &bytes) ||
        (size_t)bytes != tensor->bytes) {
        char problem[128];
        snprintf(problem, sizeof problem, "%lld %s elements are announced, but %zu bytes are given to them",
                 (long long)elements, tensor->type_name, tensor->bytes);
        return damaged(file, problem);
    }
    return STATUS_OK;
}

// ---- one file ------------------------------------------------------------------------------------------

static Status read_header(const CheckpointFile *file, json_t **header, size_t *header_size, Error *error) {
    uint64_t size;
    if (file->size < sizeof size) {
        return error_set(error, STATUS_FILE, "%s: %zu bytes are no safetensors file; fetch it again",
                         file->path, file->size);
    }
    memcpy(&size, file->data, sizeof size);
    if (size > file->size - sizeof size || size > MAX_HEADER_BYTES) {
        return error_set(error, STATUS_FILE,
                         "%s: the header should have %llu bytes, the file has %zu: it is damaged, "
                         "cut short, or no safetensors file; fetch it again",
                         file->path, (unsigned long long)size, file->size);
    }
    Status status =
        json_parse(file->path, (const char *)file->data + sizeof size, (size_t)size, header, error);
    if (status) return error_prefix(error, "the header cannot be read, fetch the file again: ");
    if (!json_is_object(*header)) {
        json_decref(*header);
        return error_set(error, STATUS_FILE, "%s: the header is not a JSON object", file->path);
    }
    *header_size = sizeof size + (size_t)size;
    return STATUS_OK;
}

// The file that a tensor is to be taken from; NULL: none.
static const char *file_of(const SafetensorsIndex *index, const char *name, const char *path) {
    return index ? json_string_value(json_object_get(index->weight_map, name)) : path_base(path);
}

// A tensor that the index has in another file: kept, to be compared with that one.
static Status keep_other(SafetensorsIndex *index, const char *name, const CheckpointTensor *tensor,
                         const File *file) {
    const bool room = array_reserve(&index->others, sizeof *index->others, (size_t)index->n_others, 1,
                                    &index->others_capacity);
    char *copy = room ? strdup(name) : NULL;
    if (!copy) return error_set(file->error, STATUS_MEMORY, "%s: out of memory", file->path);
    index->others[index->n_others] = *tensor;
    index->others[index->n_others++].name = copy;
    return STATUS_OK;
}

// Where a tensor's data ends, whether it is wanted or not; 0 where that cannot be read.
static uint64_t end_of(const json_t *entry) {
    const json_int_t end = json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 1));
    return end > 0 ? (uint64_t)end : 0;
}

// Nothing stands behind the last tensor: the format has no room for it.
static Status check_end(const File *file, uint64_t end) {
    if (end == file->size) return STATUS_OK;
    return error_set(file->error, STATUS_FILE,
                     "%s: its tensors end at byte %llu of %zu: the file is damaged; fetch it again",
                     file->path, (unsigned long long)end, file->size);
}

Status safetensors_read_file(Checkpoint *checkpoint, int number, SafetensorsIndex *index, Error *error) {
    const CheckpointFile *mapped = &checkpoint->files[number];
    json_t *header = NULL;
    size_t header_size = 0;
    Status status = read_header(mapped, &header, &header_size, error);
    if (status) return status;
    File file = {.path = mapped->path,
                 .data = mapped->data + header_size,
                 .size = mapped->size - header_size,
                 .error = error};
    uint64_t last = 0;
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        const uint64_t end = end_of(entry);
        if (end > last) last = end;
        const char *from = file_of(index, name, mapped->path);
        if (!from) continue;
        CheckpointTensor tensor = {.file = number};
        bool printable = text_is_printable(name, strlen(name));
        file.tensor = printable ? name : "?";
        status = !printable               ? damaged(&file, "a name that is not printable ASCII")
                 : !json_is_object(entry) ? damaged(&file, "no description")
                                          : read_tensor(&file, entry, &tensor);
        if (!status)
            status = strcmp(from, path_base(mapped->path)) == 0
                         ? checkpoint_add_tensor(checkpoint, name, &tensor, error)
                         : keep_other(index, name, &tensor, &file);
        if (status) break;
    }
    json_decref(header);
    return status ? status : check_end(&file, last);
}

// ---- a folder ------------------------------------------------------------------------------------------

static Status open_in_folder(Checkpoint *checkpoint, const char *name, SafetensorsIndex *index,
                             Error *error) {
    char *path = path_join(checkpoint->path, name);
    if (!path) return error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint->path);
    CheckpointFile file;
    int number;
    Status status = checkpoint_file_map(path, &file, error);
    free(path);
    if (!status) status = checkpoint_add_file(checkpoint, &file, &number, error);
    return status ? status : safetensors_read_file(checkpoint, number, index, error);
}

// Files lie beside their index. A name with a path in it could reach anything on the disk.
static Status check_file_name(const Checkpoint *checkpoint, const char *tensor, const json_t *value,
                              Error *error) {
    const char *name = json_string_value(value);
    bool tensor_ok = text_is_printable(tensor, strlen(tensor));
    if (!name || !text_is_printable(name, strlen(name))) {
        return error_set(error, STATUS_FILE, "%s/%s: weight_map gives no file name for tensor %s",
                         checkpoint->path, INDEX_NAME, tensor_ok ? tensor : "?");
    }
    if (!tensor_ok || strchr(name, '/') != NULL || name[0] == '.' || !text_has_suffix(name, ".safetensors")) {
        return error_set(error, STATUS_FILE,
                         "%s/%s: weight_map sends tensor %s to \"%.200s\"; it must be a "
                         ".safetensors file in the same folder",
                         checkpoint->path, INDEX_NAME, tensor_ok ? tensor : "?", name);
    }
    return STATUS_OK;
}

static bool is_open(const Checkpoint *checkpoint, const char *name) {
    for (int i = 0; i < checkpoint->n_files; i++) {
        if (strcmp(path_base(checkpoint->files[i].path), name) == 0) return true;
    }
    return false;
}

static bool is_same(const CheckpointTensor *a, const CheckpointTensor *b) {
    return strcmp(a->type_name, b->type_name) == 0 && a->n_dims == b->n_dims &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 && a->bytes == b->bytes &&
           (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

// A tensor that lies in two files is the same in both: transformers takes that of the last file, whatever the index says.
static Status check_others(const Checkpoint *checkpoint, const SafetensorsIndex *index, Error *error) {
    for (int64_t i = 0; i < index->n_others; i++) {
        const CheckpointTensor *other = &index->others[i];
        for (int64_t j = 0; j < checkpoint->n_tensors; j++) {
            const CheckpointTensor *tensor = &checkpoint->tensors[j];
            if (strcmp(tensor->name, other->name) != 0 || is_same(tensor, other)) continue;
            return error_set(error, STATUS_FILE,
                             "%s: tensor %s is another one here than in %s, where %s says it is; take it "
                             "out of one of them",
                             checkpoint->files[other->file].path, other->name,
                             path_base(checkpoint->files[tensor->file].path), INDEX_NAME);
        }
    }
    return STATUS_OK;
}

static Status read_weight_map(Checkpoint *checkpoint, SafetensorsIndex *index, Error *error) {
    const json_t *weight_map = index->weight_map;
    if (json_object_size(weight_map) == 0) {
        return error_set(error, STATUS_FILE, "%s/%s: no weight_map that lists tensors", checkpoint->path,
                         INDEX_NAME);
    }
    const char *tensor;
    json_t *file;
    json_object_foreach((json_t *)weight_map, tensor, file) {
        Status status = check_file_name(checkpoint, tensor, file, error);
        if (!status && !is_open(checkpoint, json_string_value(file))) {
            status = open_in_folder(checkpoint, json_string_value(file), index, error);
            if (status) error_prefix(error, "listed in %s: ", INDEX_NAME);
        }
        if (status) return status;
    }
    if (checkpoint->n_tensors == (int64_t)json_object_size(weight_map))
        return check_others(checkpoint, index, error);
    return error_set(
        error, STATUS_FILE, "%s/%s: lists %zu tensors, but only %lld of them are in the files it names",
        checkpoint->path, INDEX_NAME, json_object_size(weight_map), (long long)checkpoint->n_tensors);
}

static Status read_indexed(Checkpoint *checkpoint, const json_t *file, Error *error) {
    SafetensorsIndex index = {.weight_map = json_object_get(file, "weight_map")};
    const Status status = read_weight_map(checkpoint, &index, error);
    for (int64_t i = 0; i < index.n_others; i++) free((char *)index.others[i].name);
    free(index.others);
    return status;
}

static bool folder_has(const Checkpoint *checkpoint, const char *name) {
    char *path = path_join(checkpoint->path, name);
    bool there = path && access(path, F_OK) == 0;
    free(path);
    return there;
}

Status safetensors_read_folder(Checkpoint *checkpoint, Error *error) {
    if (folder_has(checkpoint, "model.safetensors")) {
        return open_in_folder(checkpoint, "model.safetensors", NULL, error);
    }
    json_t *index;
    Status status = checkpoint_folder_json(checkpoint, INDEX_NAME, &index, error);
    if (status) return status;
    if (index) {
        status = read_indexed(checkpoint, index, error);
        json_decref(index);
        return status;
    }
    int count;
    char *path = checkpoint_only_file(checkpoint->path, ".safetensors", &count);
    if (path) {
        status = open_in_folder(checkpoint, path_base(path), NULL, error);
        free(path);
        return status;
    }
    return error_set(error, STATUS_FILE, "%s: neither model.safetensors nor %s is in this folder%s",
                     checkpoint->path, INDEX_NAME,
                     folder_has(checkpoint, "pytorch_model.bin")
                         ? "; pytorch_model.bin is a Python pickle, which "
                           "palaver does not read: convert it"
                         : "; fetch the model again");
}
