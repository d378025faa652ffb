// What the readers of the two formats share: a Checkpoint while it is being filled. Only checkpoint*.c,
// gguf*.c, safetensors.c and tests include this.
#ifndef PALAVER_ENGINE_CHECKPOINT_INTERNAL_H
#define PALAVER_ENGINE_CHECKPOINT_INTERNAL_H

#include "engine/files/checkpoint.h"
#include "kernels/base/text/json.h"
#include "kernels/base/path.h"
#include "kernels/base/text/text.h"

#include <sys/stat.h>

typedef struct CheckpointFile {
    char *path;
    const uint8_t *data;
    size_t size;
    bool mapped;       // else the caller's memory
    struct stat facts; // when it was mapped
} CheckpointFile;

typedef struct MetaTable {
    MetaValue *values; // keys are malloc'ed
    int64_t count;
    size_t capacity;
    const MetaValue **by_key; // sorted
} MetaTable;

struct Checkpoint {
    CheckpointFormat format;
    char *path;
    bool is_folder;
    CheckpointFile *files;
    int n_files;
    size_t files_capacity;
    CheckpointTensor *tensors; // names are malloc'ed
    int64_t n_tensors;
    size_t capacity;
    const CheckpointTensor **by_name; // sorted
    void **copies;                    // of tensors that a file stores unaligned
    int64_t n_copies;
    size_t copies_capacity;
    MetaTable meta;
    json_t *config, *generation;
    struct Quantized *quantized; // NULL: the folder is not quantised
};

// checkpoint_open() over bytes that no file maps, for tests and fuzzers: where these end a sanitizer sees what reads
// on, and in a file's last page nobody does. `data` is kept by reference; `name` stands for the file in messages.
// safetensors bring no config then.
Status checkpoint_from_gguf(const char *name, const void *data, size_t size, Checkpoint **checkpoint,
                            Error *error);
Status checkpoint_from_safetensors(const char *name, const void *data, size_t size, Checkpoint **checkpoint,
                                   Error *error);

// Maps the regular file at `path`. An empty file has data NULL. STATUS_FILE if it is not there or no file.
Status checkpoint_file_map(const char *path, CheckpointFile *file, Error *error);
void checkpoint_file_unmap(CheckpointFile *file);

// Takes `file` over (on failure it is unmapped) and says its index.
Status checkpoint_add_file(Checkpoint *checkpoint, CheckpointFile *file, int *index, Error *error);

// Appends a tensor; `name` is copied, `tensor->name` ignored.
Status checkpoint_add_tensor(Checkpoint *checkpoint, const char *name, const CheckpointTensor *tensor,
                             Error *error);

// Fills by_name anew. STATUS_FILE: two tensors have one name.
Status checkpoint_sort(Checkpoint *checkpoint, Error *error);

// Elements of tensor->shape; -1 if a dimension is negative or the product exceeds int64_t.
int64_t checkpoint_tensor_elements(const CheckpointTensor *tensor);

// Reads the GGUF file in checkpoint->files[0], and the other parts if it is one of a split model.
Status gguf_read(Checkpoint *checkpoint, Error *error);

// Appends the tensors of checkpoint->files[index] and fills `meta`, which is the caller's also after a failure.
Status gguf_read_file(Checkpoint *checkpoint, int index, MetaTable *meta, Error *error);

// model.safetensors.index.json: weight_map has the file of each tensor. `others` lie also in a file that it does not name.
typedef struct SafetensorsIndex {
    const json_t *weight_map;
    CheckpointTensor *others;
    int64_t n_others;
    size_t others_capacity;
} SafetensorsIndex;

// Reads the tensors of checkpoint->files[number]: all of them, or those that an index gives it.
Status safetensors_read_file(Checkpoint *checkpoint, int number, SafetensorsIndex *index, Error *error);

// Reads model.safetensors, or what model.safetensors.index.json lists, in the folder checkpoint->path.
Status safetensors_read_folder(Checkpoint *checkpoint, Error *error);

// Replaces the parts of quantised weights by tensors that checkpoint_make() can make, where config.json says that there
// are any: see quantized/quantized.h. Names are sorted before and after. STATUS_UNSUPPORTED: a method, key or value
// that palaver does not know; STATUS_FILE: parts that are missing or do not fit each other; STATUS_MEMORY.
Status quantized_open(Checkpoint *checkpoint, Error *error);
void quantized_close(struct Quantized *quantized); // NULL is fine
// Pieces of the weight whose place `data` is, as checkpoint_stored(); *is_weight false: it is none.
bool quantized_stored(const struct Quantized *quantized, const void *data, int piece, bool *is_weight,
                      const void **bytes, size_t *n);

// Is this the beginning of a GGUF file?
bool gguf_recognise(const CheckpointFile *file);

// Parses the JSON file NAME of the folder; *value is NULL if there is no such file. Ownership to the caller.
Status checkpoint_folder_json(const Checkpoint *checkpoint, const char *name, json_t **value, Error *error);

// The path of the only file of the folder whose name ends in `suffix`, malloc'ed; NULL if there are none or
// several. *count says how many.
char *checkpoint_only_file(const char *folder, const char *suffix, int *count);

void checkpoint_meta_free(MetaTable *table);
const MetaValue *gguf_find_integer(const MetaTable *table, const char *key); // NULL: absent, or no integer
Status checkpoint_meta_finish(MetaTable *table, const char *path,
                              Error *error); // sorts keys, refuses duplicates

#endif
