// A GGUF model in one file, or split over NAME-00001-of-0000N.gguf …: every part is a GGUF file of its own, and the
// first one's metadata counts.
#include "engine/files/checkpoint_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 99999 }; // five digits

static int64_t integer_or(const MetaTable *table, const char *key, int64_t otherwise) {
    const MetaValue *value = gguf_find_integer(table, key);
    return !value ? otherwise : value->integer;
}

// Length of PATH without "-00001-of-00003.gguf"; 0 if it does not end like that.
static size_t split_stem(const char *path, int64_t number, int64_t count) {
    char suffix[64];
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
    Status status = checkpoint_file_map(path, file, error);
    if (status) {
        error_prefix(error, "part %d of %d of the model: ", (int)number + 1, (int)count);
    } else if (!gguf_recognise(file)) {
        status =
            error_set(error, STATUS_FILE, "%s: not a GGUF file, but part %d of %d of the model should be",
                      path, (int)number + 1, (int)count);
        checkpoint_file_unmap(file);
    }
    free(path);
    return status;
}

// Reads the other parts of a split file. The metadata that counts is the first part's.
static Status read_parts(Checkpoint *checkpoint, int64_t number, int64_t count, Error *error) {
    if (!checkpoint->files[0].mapped || number < 0 || number >= count || count > MAX_PARTS) {
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
    if (!first_path) return error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint->path);
    Status status = STATUS_OK;
    for (int64_t part = 0; part < count && !status; part++) {
        if (part == number) continue;
        CheckpointFile file;
        MetaTable meta = {0};
        int index;
        status = open_part(checkpoint, first_path, (int)stem, part, count, &file, error);
        if (!status) status = checkpoint_add_file(checkpoint, &file, &index, error);
        if (!status) status = gguf_read_file(checkpoint, index, &meta, error);
        if (!status &&
            (integer_or(&meta, "split.no", -1) != part || integer_or(&meta, "split.count", -1) != count)) {
            status = error_set(error, STATUS_FILE, "%s: does not say that it is part %d of %d of the model",
                               checkpoint->files[index].path, (int)part + 1, (int)count);
        }
        if (!status && part == 0) {
            MetaTable other = checkpoint->meta;
            checkpoint->meta = meta;
            meta = other;
        }
        checkpoint_meta_free(&meta);
    }
    free(first_path);
    return status;
}

Status gguf_read(Checkpoint *checkpoint, Error *error) {
    Status status = gguf_read_file(checkpoint, 0, &checkpoint->meta, error);
    if (status) return status;
    int64_t count = integer_or(&checkpoint->meta, "split.count", 1);
    int64_t number = integer_or(&checkpoint->meta, "split.no", 0);
    if (count > 1) status = read_parts(checkpoint, number, count, error);
    if (status || count <= 1) return status;
    int64_t expected = integer_or(&checkpoint->meta, "split.tensors.count", checkpoint->n_tensors);
    if (expected == checkpoint->n_tensors) return STATUS_OK;
    return error_set(error, STATUS_FILE, "%s: the parts hold %lld tensors, the first announces %lld",
                     checkpoint->path, (long long)checkpoint->n_tensors, (long long)expected);
}
