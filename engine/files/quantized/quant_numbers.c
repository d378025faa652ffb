// Weights whose elements are codes of numbers: FP8, and the four bits of bitsandbytes.
#include "engine/files/quantized/quantized.h"
#include "kernels/base/text/json.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char STATE[] = "weight.quant_state.bitsandbytes__"; // then "nf4" or "fp4"

size_t quant_numbers_stem(const QuantConfig *config, const CheckpointTensor *tensor) {
    static const char ABSMAX[] = ".weight.absmax", WEIGHT[] = ".weight";
    size_t n = strlen(tensor->name), m = strlen(WEIGHT);
    if (config->method == QUANT_BITSANDBYTES) { // by the part that its other tensors do not have
        m = strlen(ABSMAX);
        return n > m && strcmp(tensor->name + n - m, ABSMAX) == 0 ? n - m : 0;
    }
    bool codes = strcmp(tensor->type_name, "F8_E4M3") == 0 &&
                 (config->method == QUANT_FP8 || config->method == QUANT_COMPRESSED);
    return codes && n > m && strcmp(tensor->name + n - m, WEIGHT) == 0 ? n - m : 0;
}

// ---- FP8 ----------------------------------------------------------------------------------------------------

static void e4m3_numbers(const QuantWeight *w, int64_t row, int64_t first, int64_t n, float *out) {
    const uint8_t *codes = w->weight.data + row * w->cols;
    const int64_t scales = row / w->block_rows * w->groups;
    for (int64_t i = 0; i < n;) {
        const int64_t group = (first + i) / w->group_size, left = (group + 1) * w->group_size - first;
        const float scale = quant_parts_number(&w->scale, scales + group);
        for (const int64_t end = left < n ? left : n; i < end; i++)
            out[i] = quant_from_e4m3(codes[first + i]) * scale;
    }
}

// As kernels/dtype.h has them. Codes of NaN have no place there, for not every kernel knows them.
static bool e4m3_block(const QuantWeight *w, int64_t row, int64_t first, uint8_t *to) {
    const int64_t size = dtype_block_size(DTYPE_E4M3), left = w->cols - first, n = left < size ? left : size;
    const float scale =
        quant_parts_number(&w->scale, row / w->block_rows * w->groups + first / w->group_size);
    bool fits = isfinite(scale);
    memcpy(to, &scale, sizeof scale);
    to += sizeof scale;
    memcpy(to, w->weight.data + row * w->cols + first, (size_t)n);
    memset(to + n, 0, (size_t)(size - n));
    for (int64_t i = 0; i < n; i++) fits = fits && (to[i] & 127) != 127;
    return fits;
}

// One scale, one for each row, or one for each block.
static Status read_blocks(const QuantReader *r, const char *suffix, QuantWeight *w) {
    const int64_t *block = r->config->block;
    w->groups = 1;
    w->group_size = w->cols;
    w->block_rows = w->rows;
    if (w->scale.elements == 1) return STATUS_OK;
    if (block[0] > 0) {
        w->block_rows = block[0];
        w->group_size = block[1];
        w->groups = (w->cols + block[1] - 1) / block[1];
        return quant_parts_expect(r, suffix, &w->scale, (w->rows + block[0] - 1) / block[0], w->groups);
    }
    w->block_rows = 1;
    return quant_parts_expect(r, suffix, &w->scale, w->rows, w->scale.n_dims == 1 ? -1 : 1);
}

// The fixed scale of what enters the layer, where the makers use one.
static Status read_input_scale(QuantReader *r, QuantWeight *w) {
    static const char *const NAMES[] = {"input_scale", "activation_scale"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        Part part = {0};
        Status status = quant_parts_take(r, NAMES[i], PART_SCALE, false, &part);
        if (status) return status;
        if (!part.data || !r->config->fixed_inputs) continue;
        const float scale = part.elements == 1 ? quant_parts_number(&part, 0) : 0;
        if (!(scale >= 0x1p-126f) || !isfinite(scale))
            return quant_parts_damaged(r, NAMES[i], "should be one scale above 0");
        w->tensor.input_scale = scale;
    }
    return STATUS_OK;
}

static Status open_e4m3(QuantReader *r, QuantWeight *w) {
    Part inverse = {0};
    const char *suffix = "weight_scale";
    const PartKind kinds = PART_SCALE | PART_E8M0;
    Status status = quant_parts_take(r, "weight", PART_E4M3, true, &w->weight);
    if (!status) status = quant_parts_take(r, "weight_scale_inv", kinds, false, &inverse);
    if (!status) status = quant_parts_take(r, suffix, kinds, !inverse.data, &w->scale);
    if (status) return status;
    if (inverse.data) {
        if (w->scale.data) return quant_parts_damaged(r, "weight_scale_inv", "stands beside weight_scale");
        w->scale = inverse, suffix = "weight_scale_inv";
    }
    if (w->weight.n_dims != 2) return quant_parts_expect(r, "weight", &w->weight, 0, 0);
    w->rows = w->weight.shape[0];
    w->cols = w->weight.shape[1];
    status = read_blocks(r, suffix, w);
    if (!status) status = read_input_scale(r, w);
    if (w->cols % 32 == 0 && (w->groups == 1 || w->group_size % dtype_block_size(DTYPE_E4M3) == 0))
        w->tensor.type = DTYPE_E4M3, w->block = e4m3_block;
    else
        w->tensor.type = DTYPE_BF16, w->numbers = e4m3_numbers;
    const char *grain = w->groups > 1 || w->block_rows > 1 ? "blocks" : "channels";
    snprintf(w->method, sizeof w->method, "%s e4m3, scales of %s", r->config->name,
             w->scale.elements == 1 ? "tensors" : grain);
    return status;
}

// ---- bitsandbytes, four bits -----------------------------------------------------------------------------------

// Element i of the flat matrix is in the high nibble of byte i/2 if i is even; w->group_size elements have one absmax,
// which double quantisation holds as a code of eight bits with a scale for each w->nested_size of them.
static float absmax_of(const QuantWeight *w, int64_t block) {
    float absmax = quant_parts_number(&w->scale, block);
    if (!w->nested.data) return absmax;
    return quant_parts_number(&w->nested_map, (int64_t)absmax) *
               quant_parts_number(&w->nested, block / w->nested_size) +
           (float)w->nested_offset;
}

static void code_numbers(const QuantWeight *w, int64_t row, int64_t first, int64_t n, float *out) {
    const int64_t from = row * w->cols + first;
    for (int64_t i = 0; i < n;) {
        const int64_t block = (from + i) / w->group_size, left = (block + 1) * w->group_size - from;
        const float absmax = absmax_of(w, block);
        for (const int64_t end = left < n ? left : n; i < end; i++) {
            const int64_t at = from + i;
            out[i] = w->book[w->weight.data[at / 2] >> (at % 2 ? 0 : 4) & 15] * absmax;
        }
    }
}

// As kernels/dtype.h has them, where a row of blocks begins with a block of the file.
static bool code_block(const QuantWeight *w, int64_t row, int64_t first, uint8_t *to) {
    const int64_t from = row * w->cols + first;
    const uint8_t *codes = w->weight.data + from / 2;
    const float absmax = absmax_of(w, from / w->group_size);
    memcpy(to, &absmax, sizeof absmax);
    to += sizeof absmax;
    for (int64_t i = 0; i < dtype_block_size(DTYPE_NF4) / 2; i++)
        to[i] = (uint8_t)(codes[i] >> 4 | codes[i] << 4);
    return isfinite(absmax);
}

// Where codes stand for what they do in the paper, and every block of ours lies in one of the file's.
static bool is_nf4(const QuantWeight *w) {
    const int64_t size = dtype_block_size(DTYPE_NF4);
    for (size_t i = 0; i < sizeof w->book / sizeof *w->book; i++)
        if (w->book[i] != QUANT_NF4_BOOK[i]) return false;
    return w->cols % size == 0 && w->group_size % size == 0;
}

static Status read_state(QuantReader *r, const char *suffix, const Part *state, QuantWeight *w) {
    json_t *value = NULL;
    int64_t sizes[2] = {0, 0}, nested = 256;
    w->group_size = 64;
    Status status = json_parse(r->main->name, (const char *)state->data, state->bytes, &value, r->error);
    if (status) return status;
    const json_t *shape = json_object_get(value, "shape");
    for (size_t i = 0; i < 2 && json_array_size(shape) == 2; i++)
        if (json_is_integer(json_array_get(shape, i)))
            sizes[i] = json_integer_value(json_array_get(shape, i));
    status = json_read_integer(value, r->main->name, "blocksize", &w->group_size, r->error);
    if (!status) status = json_read_integer(value, r->main->name, "nested_blocksize", &nested, r->error);
    if (!status)
        status = json_read_number(value, r->main->name, "nested_offset", &w->nested_offset, r->error);
    json_decref(value);
    if (status) return status;
    w->rows = sizes[0];
    w->cols = sizes[1];
    w->nested_size = nested;
    int64_t elements;
    bool fits = w->rows > 0 && w->cols > 0 && !__builtin_mul_overflow(w->rows, w->cols, &elements) &&
                elements <= INT64_MAX - 1 && (size_t)(elements + 1) / 2 == w->weight.bytes;
    if (fits && w->group_size > 0 && nested > 0) return STATUS_OK;
    return quant_parts_damaged(r, suffix, "its shape or block size does not suit the bytes of the weight");
}

static Status check_codes(const QuantReader *r, QuantWeight *w) {
    int64_t blocks = (w->rows * w->cols - 1) / w->group_size + 1;
    if (w->scale.elements != blocks) return quant_parts_expect(r, "weight.absmax", &w->scale, blocks, -1);
    if (w->map.elements != 16) return quant_parts_expect(r, "weight.quant_map", &w->map, 16, -1);
    for (int i = 0; i < 16; i++) w->book[i] = quant_parts_number(&w->map, i);
    if (w->scale.kind != PART_U8) return STATUS_OK;
    if (w->nested_map.elements != 256)
        return quant_parts_expect(r, "weight.nested_quant_map", &w->nested_map, 256, -1);
    blocks = (blocks - 1) / w->nested_size + 1;
    return w->nested.elements == blocks
               ? STATUS_OK
               : quant_parts_expect(r, "weight.nested_absmax", &w->nested, blocks, -1);
}

static Status open_codes(QuantReader *r, QuantWeight *w) {
    char suffix[48];
    Part state = {0};
    const char *type = "nf4";
    Status status = quant_parts_take(r, "weight", PART_ANY, true, &w->weight);
    if (!status) status = quant_parts_take(r, "weight.absmax", PART_U8 | PART_F32, true, &w->scale);
    if (!status) status = quant_parts_take(r, "weight.quant_map", PART_F32, true, &w->map);
    const bool nested = !status && w->scale.kind == PART_U8;
    if (nested) status = quant_parts_take(r, "weight.nested_absmax", PART_F32, true, &w->nested);
    if (nested && !status)
        status = quant_parts_take(r, "weight.nested_quant_map", PART_F32, true, &w->nested_map);
    for (int i = 0; i < 2 && !status && !state.data; i++) {
        type = i ? "fp4" : "nf4";
        snprintf(suffix, sizeof suffix, "%s%s", STATE, type);
        status = quant_parts_take(r, suffix, PART_U8, false, &state);
    }
    if (!status && !state.data) {
        snprintf(suffix, sizeof suffix, "%snf4", STATE);
        status = quant_parts_take(r, suffix, PART_U8, true, &state);
    }
    if (!status) status = read_state(r, suffix, &state, w);
    if (!status) status = check_codes(r, w);
    if (is_nf4(w))
        w->tensor.type = DTYPE_NF4, w->block = code_block;
    else
        w->tensor.type = DTYPE_F16, w->numbers = code_numbers;
    snprintf(w->method, sizeof w->method, "%s %s%s", r->config->name, type,
             nested ? ", absmax in 8 bits" : "");
    return status;
}

Status quant_numbers_open(QuantReader *r, QuantWeight *w) {
    return r->config->method == QUANT_BITSANDBYTES ? open_codes(r, w) : open_e4m3(r, w);
}
