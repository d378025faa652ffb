// The table of tensors behind both formats: opening by content, finding by name, and the checks that do not
// depend on a format (duplicate names, overlapping data, alignment).
#include "engine/files/checkpoint_internal.h"
#include "kernels/base/array.h"
#include "kernels/base/text/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- filling -----------------------------------------------------------------------------------------

int64_t checkpoint_tensor_elements(const CheckpointTensor *tensor) {
    int64_t elements = 1;
    for (int i = 0; i < tensor->n_dims; i++) {
        if (tensor->shape[i] < 0 || __builtin_mul_overflow(elements, tensor->shape[i], &elements)) return -1;
    }
    return elements;
}

Status checkpoint_add_tensor(Checkpoint *checkpoint, const char *name, const CheckpointTensor *tensor,
                             Error *error) {
    bool room = array_reserve(&checkpoint->tensors, sizeof *checkpoint->tensors,
                              (size_t)checkpoint->n_tensors, 1, &checkpoint->capacity);
    char *copy = room ? strdup(name) : NULL;
    if (!copy) return error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint->path);
    CheckpointTensor *added = &checkpoint->tensors[checkpoint->n_tensors++];
    *added = *tensor;
    added->name = copy;
    return STATUS_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(const CheckpointTensor *const *)a)->name, (*(const CheckpointTensor *const *)b)->name);
}

static int compare_places(const void *a, const void *b) {
    const CheckpointTensor *x = *(const CheckpointTensor *const *)a, *y = *(const CheckpointTensor *const *)b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    uintptr_t p = (uintptr_t)x->data, q = (uintptr_t)y->data;
    return p < q ? -1 : p > q;
}

static Status check_overlaps(const Checkpoint *checkpoint, const CheckpointTensor **sorted, Error *error) {
    const CheckpointTensor *last = NULL; // the one before that holds any bytes
    for (int64_t i = 0; i < checkpoint->n_tensors; i++) {
        const CheckpointTensor *tensor = sorted[i];
        if (tensor->bytes == 0) continue;
        if (last && last->file == tensor->file &&
            (uintptr_t)last->data + last->bytes > (uintptr_t)tensor->data) {
            return error_set(error, STATUS_FILE,
                             "%s: tensors %s and %s overlap: the file is damaged, fetch it again",
                             checkpoint->files[tensor->file].path, last->name, tensor->name);
        }
        last = tensor;
    }
    return STATUS_OK;
}

// Old safetensors files do not pad their header, so that data may lie at odd addresses; loops over rows are
// not written for that. Such a tensor gets a copy.
static Status align_tensor(Checkpoint *checkpoint, CheckpointTensor *tensor, Error *error) {
    if (!tensor->supported || (uintptr_t)tensor->data % (uintptr_t)dtype_alignment(tensor->type) == 0) {
        return STATUS_OK;
    }
    bool room = array_reserve(&checkpoint->copies, sizeof *checkpoint->copies, (size_t)checkpoint->n_copies,
                              1, &checkpoint->copies_capacity);
    void *copy = room ? malloc(tensor->bytes + 1) : NULL;
    if (!copy) {
        return error_set(error, STATUS_MEMORY,
                         "%s: tensor %s lies unaligned, and there is no memory for a copy",
                         checkpoint->files[tensor->file].path, tensor->name);
    }
    checkpoint->copies[checkpoint->n_copies++] = copy;
    if (tensor->bytes > 0) memcpy(copy, tensor->data, tensor->bytes);
    tensor->data = copy;
    return STATUS_OK;
}

static Status list_tensors(Checkpoint *checkpoint, Error *error) {
    size_t n = (size_t)checkpoint->n_tensors;
    free(checkpoint->by_name);
    checkpoint->by_name = malloc((n + 1) * sizeof(const CheckpointTensor *));
    if (!checkpoint->by_name) return error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint->path);
    for (size_t i = 0; i < n; i++) checkpoint->by_name[i] = &checkpoint->tensors[i];
    return STATUS_OK;
}

Status checkpoint_sort(Checkpoint *checkpoint, Error *error) {
    size_t n = (size_t)checkpoint->n_tensors;
    Status status = list_tensors(checkpoint, error);
    if (status) return status;
    qsort(checkpoint->by_name, n, sizeof(const CheckpointTensor *), compare_names);
    for (size_t i = 1; i < n; i++) {
        const CheckpointTensor *tensor = checkpoint->by_name[i];
        if (strcmp(checkpoint->by_name[i - 1]->name, tensor->name) == 0) {
            return error_set(error, STATUS_FILE,
                             "%s: two tensors are called %s: the file is damaged, fetch it again",
                             checkpoint->files[tensor->file].path, tensor->name);
        }
    }
    return STATUS_OK;
}

// Once all tensors are there: refuses overlaps, copies what lies unaligned, sorts names, and puts the weights of a
// quantised folder together.
static Status finish(Checkpoint *checkpoint, Error *error) {
    size_t n = (size_t)checkpoint->n_tensors;
    Status status = list_tensors(checkpoint, error);
    if (status) return status;
    qsort(checkpoint->by_name, n, sizeof(const CheckpointTensor *), compare_places);
    status = check_overlaps(checkpoint, checkpoint->by_name, error);
    for (size_t i = 0; i < n && !status; i++) {
        status = align_tensor(checkpoint, &checkpoint->tensors[i], error);
    }
    if (!status) status = checkpoint_sort(checkpoint, error);
    return status ? status : quantized_open(checkpoint, error);
}

// ---- opening -----------------------------------------------------------------------------------------

static Status checkpoint_new(const char *path, Checkpoint **checkpoint, Error *error) {
    Checkpoint *created = calloc(1, sizeof *created);
    if (created) created->path = strdup(path);
    if (!created || !created->path) {
        free(created);
        error_set(error, STATUS_MEMORY, "%s: out of memory", path);
        return STATUS_MEMORY;
    }
    // "folder/" and "folder" are the same; messages look better without the slash.
    for (size_t n = strlen(created->path); n > 1 && created->path[n - 1] == '/'; n--)
        created->path[n - 1] = '\0';
    *checkpoint = created;
    return STATUS_OK;
}

static Status open_file(Checkpoint *checkpoint, const char *path, Error *error) {
    CheckpointFile file;
    int index;
    Status status = checkpoint_file_map(path, &file, error);
    if (status) return status;
    if (!gguf_recognise(&file)) {
        status =
            text_has_suffix(path, ".safetensors")
                ? error_set(error, STATUS_UNSUPPORTED,
                            "%s: a safetensors file alone is no model; give the folder that also holds "
                            "its config.json",
                            path)
                : error_set(error, STATUS_UNSUPPORTED,
                            "%s: not a GGUF file (it does not begin with \"GGUF\"); give a GGUF file or a "
                            "Hugging Face folder",
                            path);
        checkpoint_file_unmap(&file);
        return status;
    }
    checkpoint->format = CHECKPOINT_GGUF;
    status = checkpoint_add_file(checkpoint, &file, &index, error);
    return status ? status : gguf_read(checkpoint, error);
}

static Status open_folder(Checkpoint *checkpoint, Error *error) {
    Status status = checkpoint_folder_json(checkpoint, "config.json", &checkpoint->config, error);
    if (status) return status;
    if (!checkpoint->config) {
        int count;
        char *path = checkpoint_only_file(checkpoint->path, ".gguf", &count);
        if (path) {
            status = open_file(checkpoint, path, error);
            free(path);
            return status;
        }
        return count > 1
                   ? error_set(error, STATUS_USAGE, "%s: %d GGUF files are in this folder; name one of them",
                               checkpoint->path, count)
                   : error_set(error, STATUS_FILE,
                               "%s: no config.json and no GGUF file in this folder; give a Hugging Face "
                               "model folder or a GGUF file",
                               checkpoint->path);
    }
    checkpoint->format = CHECKPOINT_SAFETENSORS;
    checkpoint->is_folder = true;
    status = checkpoint_folder_json(checkpoint, "generation_config.json", &checkpoint->generation, error);
    return status ? status : safetensors_read_folder(checkpoint, error);
}

static Status finish_open(Checkpoint *created, Status status, Checkpoint **checkpoint, Error *error) {
    if (!status) status = finish(created, error);
    if (status) {
        checkpoint_close(created);
        return status;
    }
    *checkpoint = created;
    return STATUS_OK;
}

Status checkpoint_open(const char *path, Checkpoint **checkpoint, Error *error) {
    *checkpoint = NULL;
    struct stat info;
    if (stat(path, &info) != 0) return error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
    Checkpoint *created = NULL;
    Status status = checkpoint_new(path, &created, error);
    if (status) return status;
    status = S_ISDIR(info.st_mode) ? open_folder(created, error) : open_file(created, path, error);
    return finish_open(created, status, checkpoint, error);
}

static Status open_memory(const char *name, const void *data, size_t size, Checkpoint **created,
                          Error *error) {
    Status status = checkpoint_new(name, created, error);
    if (status) return status;
    CheckpointFile file = {.path = strdup(name), .data = data, .size = size};
    int index;
    if (!file.path) {
        status = STATUS_MEMORY;
        error_set(error, status, "%s: out of memory", name);
    } else {
        status = checkpoint_add_file(*created, &file, &index, error);
    }
    if (status) checkpoint_close(*created);
    return status;
}

Status checkpoint_from_gguf(const char *name, const void *data, size_t size, Checkpoint **checkpoint,
                            Error *error) {
    *checkpoint = NULL;
    Checkpoint *created = NULL;
    Status status = open_memory(name, data, size, &created, error);
    if (status) return status;
    created->format = CHECKPOINT_GGUF;
    status = gguf_recognise(&created->files[0])
                 ? gguf_read(created, error)
                 : error_set(error, STATUS_UNSUPPORTED, "%s: does not begin with \"GGUF\"", name);
    return finish_open(created, status, checkpoint, error);
}

Status checkpoint_from_safetensors(const char *name, const void *data, size_t size, Checkpoint **checkpoint,
                                   Error *error) {
    *checkpoint = NULL;
    Checkpoint *created = NULL;
    Status status = open_memory(name, data, size, &created, error);
    if (status) return status;
    created->format = CHECKPOINT_SAFETENSORS;
    return finish_open(created, safetensors_read_file(created, 0, NULL, error), checkpoint, error);
}

void checkpoint_close(Checkpoint *checkpoint) {
    if (!checkpoint) return;
    for (int64_t i = 0; i < checkpoint->n_tensors; i++) free((void *)checkpoint->tensors[i].name);
    for (int64_t i = 0; i < checkpoint->n_copies; i++) free(checkpoint->copies[i]);
    for (int i = 0; i < checkpoint->n_files; i++) checkpoint_file_unmap(&checkpoint->files[i]);
    quantized_close(checkpoint->quantized);
    checkpoint_meta_free(&checkpoint->meta);
    json_decref(checkpoint->config);
    json_decref(checkpoint->generation);
    free(checkpoint->tensors);
    free(checkpoint->by_name);
    free(checkpoint->copies);
    free(checkpoint->files);
    free(checkpoint->path);
    free(checkpoint);
}

// ---- reading -----------------------------------------------------------------------------------------

CheckpointFormat checkpoint_format(const Checkpoint *checkpoint) {
    return checkpoint->format;
}

const char *checkpoint_path(const Checkpoint *checkpoint) {
    return checkpoint->path;
}

int64_t checkpoint_n_tensors(const Checkpoint *checkpoint) {
    return checkpoint->n_tensors;
}

const CheckpointTensor *checkpoint_tensor(const Checkpoint *checkpoint, int64_t index) {
    return index >= 0 && index < checkpoint->n_tensors ? &checkpoint->tensors[index] : NULL;
}

bool checkpoint_stored(const Checkpoint *checkpoint, int64_t index, int piece, const void **bytes,
                       size_t *n) {
    const CheckpointTensor *tensor = checkpoint_tensor(checkpoint, index);
    bool is_weight;
    if (!tensor) return false;
    const bool is_piece = quantized_stored(checkpoint->quantized, tensor->data, piece, &is_weight, bytes, n);
    if (is_weight || piece > 0) return is_piece;
    *bytes = tensor->data, *n = tensor->bytes;
    return true;
}

const CheckpointTensor *checkpoint_find(const Checkpoint *checkpoint, const char *name) {
    CheckpointTensor wanted = {.name = name};
    const CheckpointTensor *key = &wanted;
    const CheckpointTensor **found = bsearch(&key, checkpoint->by_name, (size_t)checkpoint->n_tensors,
                                             sizeof(const CheckpointTensor *), compare_names);
    return !found ? NULL : *found;
}

int checkpoint_n_files(const Checkpoint *checkpoint) {
    return checkpoint->n_files;
}

const char *checkpoint_file(const Checkpoint *checkpoint, int index, int64_t *bytes) {
    if (index < 0 || index >= checkpoint->n_files) return NULL;
    if (bytes) *bytes = (int64_t)checkpoint->files[index].size;
    return checkpoint->files[index].path;
}
