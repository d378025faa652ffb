// The tensors that a quantised weight is made of: taking, checking and reading them.
#include "engine/files/quantized/quantized.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name; // as safetensors writes it
    PartKind kind;
    int64_t bytes;
} KINDS[] = {
    {"U8", PART_U8, 1},   {"I8", PART_I8, 1},        {"I32", PART_I32, 4},      {"U32", PART_I32, 4},
    {"I64", PART_I64, 8}, {"F8_E4M3", PART_E4M3, 1}, {"F8_E8M0", PART_E8M0, 1}, {"f32", PART_F32, 4},
    {"f16", PART_F16, 2}, {"bf16", PART_BF16, 2},
};

enum { N_KINDS = sizeof KINDS / sizeof *KINDS, NAME_SIZE = 320 };

// What stands between a stem and its suffix: MXFP4's begin with a line.
static const char *dot_of(const char *suffix) {
    return suffix[0] == '_' ? "" : ".";
}

static bool full_name(const QuantReader *r, const char *suffix, char name[NAME_SIZE]) {
    return snprintf(name, NAME_SIZE, "%s%s%s", r->stem, dot_of(suffix), suffix) < NAME_SIZE;
}

static const CheckpointTensor *find(const QuantReader *r, const char *suffix) {
    char name[NAME_SIZE];
    return full_name(r, suffix, name) ? checkpoint_find(r->checkpoint, name) : NULL;
}

Status quant_parts_damaged(const QuantReader *r, const char *suffix, const char *problem) {
    return error_set(r->error, STATUS_FILE, "%s: %s%s%s: %s",
                     checkpoint_file(r->checkpoint, r->main->file, NULL), r->stem, dot_of(suffix), suffix,
                     problem);
}

static Status read(const QuantReader *r, const char *suffix, const CheckpointTensor *tensor, PartKind kinds,
                   Part *part) {
    for (size_t i = 0; i < N_KINDS; i++) {
        if (strcmp(KINDS[i].name, tensor->type_name) != 0 || !(KINDS[i].kind & kinds)) continue;
        *part = (Part){
            .data = tensor->data, .kind = KINDS[i].kind, .n_dims = tensor->n_dims, .bytes = tensor->bytes};
        memcpy(part->shape, tensor->shape, sizeof part->shape);
        part->elements = checkpoint_tensor_elements(tensor);
        if (part->elements <= 0 || part->elements > INT64_MAX / 8 ||
            (size_t)(part->elements * KINDS[i].bytes) != tensor->bytes)
            return quant_parts_damaged(
                r, suffix, "its bytes are not those of its shape: the file is damaged, fetch it again");
        return STATUS_OK;
    }
    char problem[96];
    snprintf(problem, sizeof problem, "type %s has no place in weights quantised by %s", tensor->type_name,
             r->config->name);
    return quant_parts_damaged(r, suffix, problem);
}

Status quant_parts_take(QuantReader *r, const char *suffix, PartKind kinds, bool required, Part *part) {
    const CheckpointTensor *tensor = find(r, suffix);
    *part = (Part){0};
    if (tensor) {
        r->taken[tensor - r->checkpoint->tensors] = true;
        return read(r, suffix, tensor, kinds, part);
    }
    if (!required) return STATUS_OK;
    return error_set(
        r->error, STATUS_FILE,
        "%s: tensor %s%s%s is missing, without which %s cannot be read: the model is incomplete; fetch "
        "it again",
        checkpoint_path(r->checkpoint), r->stem, dot_of(suffix), suffix, r->main->name);
}

Status quant_parts_expect(const QuantReader *r, const char *suffix, const Part *part, int64_t rows,
                          int64_t cols) {
    bool vector = cols < 0;
    if (part->n_dims == (vector ? 1 : 2) && part->shape[0] == rows && (vector || part->shape[1] == cols))
        return STATUS_OK;
    char problem[200], *at = problem;
    at += snprintf(at, 64, vector ? "expected [%lld]" : "expected [%lld, %lld]", (long long)rows,
                   (long long)cols);
    at += snprintf(at, 16, ", file has [");
    for (int i = 0; i < part->n_dims; i++)
        at += snprintf(at, 24, i ? ", %lld" : "%lld", (long long)part->shape[i]);
    snprintf(at, 2, "]");
    return quant_parts_damaged(r, suffix, problem);
}

// ---- elements -----------------------------------------------------------------------------------------------

int32_t quant_parts_word(const Part *part, int64_t i) {
    int32_t word;
    memcpy(&word, part->data + 4 * i, sizeof word);
    return word;
}

float quant_parts_number(const Part *part, int64_t i) {
    float number;
    uint16_t half;
    switch (part->kind) {
    case PART_F32:
        memcpy(&number, part->data + 4 * i, sizeof number);
        return number;
    case PART_F16:
        memcpy(&half, part->data + 2 * i, sizeof half);
        return quant_from_half(half);
    case PART_BF16:
        memcpy(&half, part->data + 2 * i, sizeof half);
        quant_load(DTYPE_BF16, &half, 0, 1, &number);
        return number;
    case PART_E8M0:
        return part->data[i] == 255 ? NAN : ldexpf(1, part->data[i] - 127);
    case PART_E4M3:
        return quant_from_e4m3(part->data[i]);
    default:
        return (float)part->data[i];
    }
}
