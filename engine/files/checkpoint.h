// Named tensors in files: a Hugging Face folder (safetensors) or a GGUF file, as users have them.
//
// Files are mapped read-only and never written. Everything that comes from a file is checked before it is
// used: a damaged or hostile file gives one Error that names file and place. A file that another program
// writes to while it is mapped is found by checkpoint_check_files(), before it is used. Where that comes too
// late, since the lost part of a shortened file is touched, no work can go on: mapped.h tells a handler of the
// fault which file it was, and palaver's (app/process/fatal.h) names it, restores the terminal and exits with 1.
//
// A Checkpoint is immutable once open, and may be read by several threads. Names, metadata and tensor data
// belong to it and live until checkpoint_close().
#ifndef PALAVER_ENGINE_CHECKPOINT_H
#define PALAVER_ENGINE_CHECKPOINT_H

#include "kernels/base/machine/threads.h"
#include "kernels/base/status.h"
#include "kernels/dtype.h"
#include "kernels/fp8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHECKPOINT_MAX_DIMS = 4 };

typedef struct Checkpoint Checkpoint;
struct json_t; // jansson's

typedef enum CheckpointFormat { CHECKPOINT_SAFETENSORS, CHECKPOINT_GGUF } CheckpointFormat;

typedef struct CheckpointTensor {
    const char *name;
    bool supported;     // false: a type that palaver has no code for; `type` means nothing then
    DType type;         // of the data
    char type_name[16]; // as palaver writes it ("q4_k"), or the file's own name if unsupported ("iq2_xs")
    const char
        *method; // how the file holds what `type` is made of ("GPTQ int4, groups of 128"); NULL: as `type`
    int n_dims;  // 0 (a scalar) to 4
    // Row-major, outermost first, as Hugging Face writes it; unused ones are 1.
    int64_t shape[CHECKPOINT_MAX_DIMS];
    // In the mapped file, or a copy where the file has it at an address that is no multiple of dtype_alignment(type); of
    // a quantised folder's weights (method) a place that cannot be read before checkpoint_make() has been there.
    const void *data;
    size_t bytes;
    float input_scale;    // Matrix.input_scale
    const int32_t *order; // Matrix.order; NULL: as they lie
    int file;             // index for checkpoint_file()
} CheckpointTensor;

// Opens what is at `path`, told by its content: a folder with config.json and safetensors (one file, or
// several with their index), a folder with a single GGUF file, or a GGUF file (a split one by any of its
// parts). STATUS_FILE: missing, truncated or malformed. STATUS_UNSUPPORTED: another format or version.
// STATUS_MEMORY.
Status checkpoint_open(const char *path, Checkpoint **checkpoint, Error *error);

void checkpoint_close(Checkpoint *checkpoint); // NULL is fine

CheckpointFormat checkpoint_format(const Checkpoint *checkpoint);
const char *checkpoint_path(const Checkpoint *checkpoint); // as it was given

int64_t checkpoint_n_tensors(const Checkpoint *checkpoint);
const CheckpointTensor *checkpoint_tensor(const Checkpoint *checkpoint, int64_t index); // in file order
const CheckpointTensor *checkpoint_find(const Checkpoint *checkpoint,
                                        const char *name); // NULL: there is none

// What the files hold of a tensor, piece by piece from 0 on: of a quantised weight the parts
// that it is made of, which can be read at any time. False: there is no such piece.
bool checkpoint_stored(const Checkpoint *checkpoint, int64_t index, int piece, const void **bytes, size_t *n);

int checkpoint_n_files(const Checkpoint *checkpoint);
const char *checkpoint_file(const Checkpoint *checkpoint, int index,
                            int64_t *bytes); // path; bytes may be NULL

// Whether the files are as they were when they were opened: what is read from a file that another program has written
// to since is nobody's model. STATUS_FILE names the first that is not. One look at each file.
Status checkpoint_check_files(const Checkpoint *checkpoint, Error *error);

// ---- quantised folders: see quantized/quantized.h -------------------------------------------------------

bool checkpoint_is_quantized(const Checkpoint *checkpoint);

// Makes the weight in whose room `data` lies, unless it is there; all is well with an address that is in none. One
// caller at a time. `threads` NULL: the caller's alone. STATUS_FILE: a scale that is no number or too large for the
// type; STATUS_MEMORY.
Status checkpoint_make(const Checkpoint *checkpoint, const void *data, Threads *threads, Error *error);

// Gives the memory of what was made back: it can be made again.
void checkpoint_drop_made(const Checkpoint *checkpoint);

// How the makers round what enters layers in FP8 (kernels/fp8.h); where they do not, with `asked` as it suits the weights'
// scales. FP8_INPUTS_KEPT: not at all, or no weight is in FP8.
Fp8Inputs checkpoint_fp8_inputs(const Checkpoint *checkpoint, bool asked);

// Which weights are not held as the files have them, one line; NULL: all are.
const char *checkpoint_notice(const Checkpoint *checkpoint);

// ---- metadata of a GGUF file -------------------------------------------------------------------------

// Text in the file: UTF-8 is not promised, and there is no final NUL.
typedef struct MetaString {
    const char *data;
    size_t length;
} MetaString;

typedef enum MetaType { META_INTEGER, META_NUMBER, META_BOOL, META_STRING, META_ARRAY } MetaType;

typedef struct MetaValue {
    const char *key;
    MetaType type;
    int64_t integer;   // META_INTEGER; an unsigned one of 2^63 or more reads as META_NUMBER
    double number;     // META_NUMBER, and META_INTEGER's value as a double
    bool flag;         // META_BOOL
    MetaString string; // META_STRING
    // META_ARRAY: `count` elements of one type (never arrays), read in order with a cursor
    MetaType element;
    int gguf_element; // GGUF's own type number of the elements
    int64_t count;
    const uint8_t *data;
} MetaValue;

int64_t checkpoint_n_meta(const Checkpoint *checkpoint); // 0 for a Hugging Face folder
const MetaValue *checkpoint_meta_at(const Checkpoint *checkpoint, int64_t index); // in file order
const MetaValue *checkpoint_meta(const Checkpoint *checkpoint, const char *key);  // NULL: there is none

// Typed getters. If the key is absent `*value` stays as it was and all is well, so a default is set before
// the call; a value of another type is STATUS_FILE, naming file, key and both types. An integer is fine as a
// number.
Status checkpoint_get_string(const Checkpoint *checkpoint, const char *key, MetaString *value, Error *error);
Status checkpoint_get_integer(const Checkpoint *checkpoint, const char *key, int64_t *value, Error *error);
Status checkpoint_get_number(const Checkpoint *checkpoint, const char *key, double *value, Error *error);
Status checkpoint_get_bool(const Checkpoint *checkpoint, const char *key, bool *value, Error *error);
// The array, or NULL if the key is absent. META_NUMBER takes arrays of integers too.
Status checkpoint_get_array(const Checkpoint *checkpoint, const char *key, MetaType element,
                            const MetaValue **array, Error *error);

// Walks an array from its beginning: `MetaCursor c = {0}; while (checkpoint_meta_next(array, &c, &element)) …`.
// `element` is filled as a MetaValue without a key. Nothing is allocated.
typedef struct MetaCursor {
    int64_t index;
    size_t offset; // bytes into the array's data
} MetaCursor;
bool checkpoint_meta_next(const MetaValue *array, MetaCursor *cursor, MetaValue *element);

// ---- metadata of a Hugging Face folder ------------------------------------------------------------------

// Parsed files of the folder, NULL where there is none (always for GGUF).
const struct json_t *checkpoint_config(const Checkpoint *checkpoint);            // config.json
const struct json_t *checkpoint_generation_config(const Checkpoint *checkpoint); // generation_config.json

// ---- of either kind ---------------------------------------------------------------------------------------

// The model's own chat template (Jinja), from chat_template.jinja, tokenizer_config.json (a string, a list
// of {name, template}, of which "default" is taken, else the first, or {"default": …}) or GGUF's tokenizer.chat_template. *text
// is malloc'ed and NUL-terminated, the caller's to free; NULL if the model has none.
Status checkpoint_chat_template(const Checkpoint *checkpoint, char **text, Error *error);

#endif
