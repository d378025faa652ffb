// Quantised Hugging Face folders: weights that config.json's quantization_config says are held in parts (GPTQ, AWQ, FP8,
// compressed-tensors, bitsandbytes, MXFP4). The parts of a weight become one tensor of a type that the kernels read, under the
// name that the weight has in a folder that is not quantised. Its data is made when it is asked for, see
// checkpoint_make().
//
// What a weight becomes, and what that costs:
//
//   GPTQ, AWQ, compressed-tensors in 4 bits, symmetric     q4_0   exact; scales that are no f16 are rounded to f16
//   the same with zero points                              q4_1   minimum -z·s rounded to f16: off by at most s/256
//   GPTQ, compressed-tensors in 8 bits, symmetric; int8    q8_0   exact; scales that are no f16 are rounded to f16
//   GPTQ, compressed-tensors in 8 bits with zero points    f16    rounded to f16, twice the bytes: a notice
//   columns in act-order, alike for all of one input       q4_0, q4_1, q8_0 as above: their inputs are reordered
//   in act-order otherwise, whose groups lie apart         f16    rounded to f16, four times the bytes: a notice
//   FP8                                                    e4m3   exact, with its scales as float32
//   bitsandbytes' nf4                                      nf4    exact, with its scales as float32
//   bitsandbytes' fp4; nf4 in rows of no multiple of 64    f16    rounded to f16: a notice
//   MXFP4 (gpt-oss)                                        mxfp4  exact; gates above ups instead of in turn
//   rows of no multiple of 32, FP8 in blocks of columns
//   of no multiple of 128                                  f16 or bf16, rounded: a notice
//
// f16 is what the makers' own kernels compute with. In 8 bits (absmax/127 of each 32) a product would get an error of 0.6
// to 0.8% of itself, where four bits have left 7 to 10%: who wants that says weights = "int8".
//
// Formulas: GPTQ (Frantar et al., arXiv:2210.17323) and AWQ (Lin et al., arXiv:2306.00978) as AutoGPTQ and AutoAWQ store
// them, (q - z)·s; FP8 as DeepSeek-V3 (arXiv:2412.19437) and fbgemm, e4m3 · s; nf4 (Dettmers et al., arXiv:2305.14314).
// What enters layers in FP8 is rounded as their makers do (kernels/fp8.h), but for an upper bound of its scales
// (input_scale_ub), which is left out. Scales of a cache, and of what enters layers of integers, are left out, and said so.
//
// quantized.c finds the weights and places them; quant_config.c reads the config, quant_names.c its lists of modules that
// are not quantised, quant_parts.c a weight's tensors; quant_integers.c takes GPTQ's, AWQ's and compressed-tensors' words
// apart, quant_order.c act-order, quant_numbers.c FP8 and nf4, quant_mxfp4.c MXFP4; quant_blocks.c writes what the kernels read.
#ifndef PALAVER_ENGINE_QUANTIZED_H
#define PALAVER_ENGINE_QUANTIZED_H

#include "engine/files/checkpoint_internal.h"

typedef enum QuantMethod {
    QUANT_GPTQ,
    QUANT_AWQ,
    QUANT_FP8,
    QUANT_COMPRESSED,
    QUANT_BITSANDBYTES,
    QUANT_MXFP4,
} QuantMethod;

// config.json's quantization_config.
typedef struct QuantConfig {
    const Checkpoint *checkpoint;
    char path[512]; // of config.json, for messages
    QuantMethod method;
    const char *name;       // as people write it: "GPTQ"
    int bits;               // GPTQ, AWQ; of compressed-tensors, tensors tell
    int64_t group_size;     // GPTQ, AWQ; -1: all columns
    int64_t group_sizes[8]; // compressed-tensors: those of its schemes, each once
    int n_group_sizes;
    bool zeros_as_they_are;  // GPTQ's second version; the first stores them less one
    bool act_order;          // GPTQ: there must be a g_idx
    int64_t block[2];        // FP8: rows and columns of a scale; 0: not by blocks
    Fp8Inputs fp8_inputs;    // how its makers round what enters layers in FP8
    bool fixed_inputs;       // by scales that the file has
    bool rounds_activations; // they round what enters a layer as palaver does not
    const json_t *ignored;   // names of modules that are not quantised; NULL: no list
} QuantConfig;

// Element types of parts.
typedef enum PartKind {
    PART_U8 = 1,
    PART_I8 = 2,
    PART_I32 = 4,
    PART_I64 = 8,
    PART_E4M3 = 16,
    PART_E8M0 = 32, // 2^(x - 127)
    PART_F32 = 64,
    PART_F16 = 128,
    PART_BF16 = 256,
    PART_SCALE = PART_F32 | PART_F16 | PART_BF16,
    PART_ANY = 511,
} PartKind;

typedef struct Part {
    const uint8_t *data; // unaligned; NULL: there is none
    PartKind kind;
    int n_dims;
    int64_t shape[CHECKPOINT_MAX_DIMS], elements;
    size_t bytes;
} Part;

// How integers lie: which element is where in `weight`, `zero` and `scale`.
typedef enum QuantLayout {
    LAYOUT_GPTQ, // [cols/per word, rows], [groups, rows/per word], [groups, rows]
    LAYOUT_AWQ, // [cols, rows/8], [groups, rows/8], eight rows of a word in an order of their own; [groups, rows]
    LAYOUT_ROWS,  // [rows, cols/per word], [rows/per word, groups], [rows, groups]
    LAYOUT_BYTES, // [rows, cols] int8, none or [rows, groups] int8, [rows, groups]
} QuantLayout;

typedef struct QuantWeight QuantWeight;

// 32 elements of a row as value[i] = (q[i] - zero)·scale.
typedef struct QuantIntegers {
    int q[32];
    int zero;
    float scale;
} QuantIntegers;

struct QuantWeight {
    CheckpointTensor tensor; // as the model sees it; its data is in the region
    int64_t rows, cols;
    Part weight, scale, zero, order, map, nested, nested_map;
    QuantLayout layout;   // of integers
    int bits;             // likewise
    bool scattered;       // columns of one group of 32 have different scales
    int64_t groups;       // scales of a row
    int64_t group_size;   // columns of a scale, the last one may be ragged
    int64_t block_rows;   // rows of a scale
    int constant_zero;    // where there is no part of zeros
    int zero_offset;      // what is added to a stored zero
    float scale_factor;   // of every scale
    float book[16];       // what bitsandbytes' codes of four bits stand for
    double nested_offset; // of bitsandbytes' double quantisation
    int64_t nested_size;
    int64_t n_experts; // whose rows follow each other; 0: the weight is of no experts
    bool
        in_turn; // of an expert's rows, gates and ups stand in turn in the file, and one above the other here
    // Exactly one of them. integers: 32 from column `first`; numbers: n from `first`, as float32; block: a block (of 32
    // at least) from `first` as the type has it, false: what is there has no place in it.
    void (*integers)(const QuantWeight *w, int64_t row, int64_t first, QuantIntegers *out);
    void (*numbers)(const QuantWeight *w, int64_t row, int64_t first, int64_t n, float *out);
    bool (*block)(const QuantWeight *w, int64_t row, int64_t first, uint8_t *to);
    int32_t *columns; // [cols], owned, of the first of those that have an input together: tensor.order
    char method[48];  // "GPTQ int4, groups of 128"
    bool made;
};

// A weight while it is put together: the parts that are taken stand no longer for themselves.
typedef struct QuantReader {
    const QuantConfig *config;
    Checkpoint *checkpoint;
    bool *taken;      // [n_tensors]
    const char *stem; // "model.layers.0.mlp.up_proj"
    const CheckpointTensor *main;
    Error *error;
} QuantReader;

// Whether there is a quantization_config (or compressed-tensors' compression_config) to read.
bool quant_config_is_there(const Checkpoint *checkpoint);
// Reads and checks it to the last key.
Status quant_config_read(const Checkpoint *checkpoint, QuantConfig *config, Error *error);

// The entry of config->ignored that says that a module is not quantised: its name, the beginning or the end of its
// name at a dot, or a regular expression behind "re:"; NULL: none.
const char *quant_names_ignored(const QuantConfig *config, const char *module);

// Takes tensor "STEM.SUFFIX" (or "STEM_SUFFIX", where it begins so) of one of `kinds`. *part is {0} if it is not there, which is fine if it is not required.
Status quant_parts_take(QuantReader *r, const char *suffix, PartKind kinds, bool required, Part *part);
// STATUS_FILE unless the part has this shape; cols -1: a vector.
Status quant_parts_expect(const QuantReader *r, const char *suffix, const Part *part, int64_t rows,
                          int64_t cols);
Status quant_parts_damaged(const QuantReader *r, const char *suffix, const char *problem);
// Element i.
float quant_parts_number(const Part *part, int64_t i);
int32_t quant_parts_word(const Part *part, int64_t i);

// Which weight the tensor r->main belongs to as its main part: 0 or the length of its stem.
size_t quant_integers_stem(const QuantConfig *config, const CheckpointTensor *tensor);
size_t quant_numbers_stem(const QuantConfig *config, const CheckpointTensor *tensor);
size_t quant_mxfp4_stem(const QuantConfig *config, const CheckpointTensor *tensor);
// Puts the weight together: w->tensor's shape and type, and everything that making needs.
Status quant_integers_open(QuantReader *r, QuantWeight *w);
// Whether integers of the weight have a place in blocks of a type of theirs; then that becomes the weight's, with its
// columns in this order.
bool quant_integers_fit(const QuantWeight *w);
void quant_integers_reorder(QuantWeight *w, const int32_t *columns);
// Gives weights in act-order an order of columns in which they are blocks, where their input can be given it too.
Status quant_order_columns(const QuantReader *r, QuantWeight *weights, size_t n);
Status quant_mxfp4_open(QuantReader *r, QuantWeight *w);
Status quant_numbers_open(QuantReader *r, QuantWeight *w);

// Writes rows [first, first + n) of w->tensor.type to where they belong. Returns -1, or the row with a value that has
// no place in the type.
int64_t quant_blocks_write(const QuantWeight *w, int64_t first, int64_t n);

#endif
