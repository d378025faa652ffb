// Weights that are integers with a scale and a zero point for a group of columns: GPTQ, AWQ, compressed-tensors'
// pack-quantized and int-quantized, bitsandbytes' int8.
#include "engine/files/quantized/quantized.h"
#include "kernels/base/text/text.h"

#include <stdio.h>
#include <string.h>

enum { GROUP = 32 };

// Row 8n + i of AWQ lies in nibble AWQ_NIBBLES[i] of a word: the nibbles are rows 0, 2, 4, 6, 1, 3, 5, 7.
static const int AWQ_NIBBLES[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static size_t stem_of(const char *name, const char *end) {
    return text_has_suffix(name, end) ? strlen(name) - strlen(end) : 0;
}

size_t quant_integers_stem(const QuantConfig *config, const CheckpointTensor *tensor) {
    const bool bytes = strcmp(tensor->type_name, "I8") == 0;
    size_t stem;
    switch (config->method) {
    case QUANT_GPTQ:
    case QUANT_AWQ:
        return stem_of(tensor->name, ".qweight");
    case QUANT_COMPRESSED:
        stem = stem_of(tensor->name, ".weight_packed");
        return stem || !bytes ? stem : stem_of(tensor->name, ".weight");
    case QUANT_BITSANDBYTES:
        return bytes ? stem_of(tensor->name, ".weight") : 0;
    case QUANT_FP8:
    case QUANT_MXFP4:
        break;
    }
    return 0;
}

// ---- elements -----------------------------------------------------------------------------------------------

static int field(const Part *part, int64_t word, int bits, int64_t place) {
    return (int)((uint32_t)quant_parts_word(part, word) >> (bits * (int)place) & ((1u << bits) - 1));
}

static int stored(const QuantWeight *w, int64_t row, int64_t col) {
    const int64_t per = 32 / w->bits;
    switch (w->layout) {
    case LAYOUT_GPTQ:
        return field(&w->weight, col / per * w->rows + row, w->bits, col % per);
    case LAYOUT_AWQ:
        return field(&w->weight, col * (w->rows / 8) + row / 8, 4, AWQ_NIBBLES[row % 8]);
    case LAYOUT_ROWS:
        return field(&w->weight, row * w->weight.shape[1] + col / per, w->bits, col % per);
    case LAYOUT_BYTES:
        break;
    }
    return (int8_t)w->weight.data[row * w->cols + col];
}

static int zero_of(const QuantWeight *w, int64_t row, int64_t group) {
    const int64_t per = 32 / w->bits;
    if (!w->zero.data) return w->constant_zero;
    int z = 0;
    switch (w->layout) {
    case LAYOUT_GPTQ:
        z = field(&w->zero, group * w->zero.shape[1] + row / per, w->bits, row % per);
        break;
    case LAYOUT_AWQ:
        return field(&w->zero, group * (w->rows / 8) + row / 8, 4, AWQ_NIBBLES[row % 8]);
    case LAYOUT_ROWS:
        return field(&w->zero, row / per * w->groups + group, w->bits, row % per);
    case LAYOUT_BYTES:
        return (int8_t)w->zero.data[row * w->groups + group];
    }
    return (z + w->zero_offset) & ((1 << w->bits) - 1); // the first version's -1 is stored as the largest
}

static float scale_of(const QuantWeight *w, int64_t row, int64_t group) {
    bool by_group = w->layout == LAYOUT_GPTQ || w->layout == LAYOUT_AWQ;
    int64_t at = w->scale.elements == 1 ? 0 : by_group ? group * w->rows + row : row * w->groups + group;
    return quant_parts_number(&w->scale, at) * w->scale_factor;
}

static int64_t group_of(const QuantWeight *w, int64_t col) {
    return w->order.data ? quant_parts_word(&w->order, col) : col / w->group_size;
}

// stored() of 32 columns, of which whole words are taken apart at once.
static void stored_group(const QuantWeight *w, int64_t row, int64_t first, int *q) {
    const int per = 32 / w->bits;
    const bool by_words = w->layout == LAYOUT_GPTQ || w->layout == LAYOUT_ROWS;
    const int64_t step = w->layout == LAYOUT_GPTQ ? w->rows : 1,
                  from = w->layout == LAYOUT_GPTQ ? first / per * w->rows + row
                                                  : row * w->weight.shape[1] + first / per;
    for (int i = 0; i < GROUP && !by_words; i++) q[i] = stored(w, row, first + i);
    for (int i = 0; i < GROUP / per && by_words; i++) {
        const uint32_t word = (uint32_t)quant_parts_word(&w->weight, from + i * step);
        for (int k = 0; k < per; k++) q[i * per + k] = (int)(word >> (w->bits * k) & ((1u << w->bits) - 1));
    }
}

static void integers(const QuantWeight *w, int64_t row, int64_t first, QuantIntegers *out) {
    const int64_t group = group_of(w, first);
    stored_group(w, row, first, out->q);
    out->zero = zero_of(w, row, group);
    out->scale = scale_of(w, row, group);
}

// The same where columns are taken in another order.
static void reordered(const QuantWeight *w, int64_t row, int64_t first, QuantIntegers *out) {
    const int64_t group = group_of(w, w->tensor.order[first]);
    for (int i = 0; i < GROUP; i++) out->q[i] = stored(w, row, w->tensor.order[first + i]);
    out->zero = zero_of(w, row, group);
    out->scale = scale_of(w, row, group);
}

static void numbers(const QuantWeight *w, int64_t row, int64_t first, int64_t n, float *out) {
    int64_t known = -1;
    int zero = 0;
    float scale = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t group = group_of(w, first + i);
        if (group != known) zero = zero_of(w, row, group), scale = scale_of(w, row, group), known = group;
        out[i] = (float)(stored(w, row, first + i) - zero) * scale;
    }
}

// ---- opening ------------------------------------------------------------------------------------------------

// g_idx names the group of each column.
static Status check_order(const QuantReader *r, const char *suffix, QuantWeight *w) {
    if (!w->order.data) return STATUS_OK;
    Status status = quant_parts_expect(r, suffix, &w->order, w->cols, -1);
    for (int64_t i = 0; i < w->cols && !status; i++) {
        int32_t group = quant_parts_word(&w->order, i);
        if (group >= 0 && group < w->groups) {
            w->scattered = w->scattered || group != quant_parts_word(&w->order, i / GROUP * GROUP);
            continue;
        }
        char problem[128];
        snprintf(problem, sizeof problem,
                 "column %lld is in group %d of %lld: the file is damaged, fetch it again", (long long)i,
                 group, (long long)w->groups);
        status = quant_parts_damaged(r, suffix, problem);
    }
    return status;
}

// Groups of as many columns as config.json says, where no part says which column is in which.
static Status check_groups(const QuantReader *r, const char *suffix, const QuantWeight *w) {
    int64_t groups = (w->cols + w->group_size - 1) / w->group_size;
    if (w->order.data || groups == w->groups) return STATUS_OK;
    char problem[128];
    snprintf(problem, sizeof problem,
             "%lld columns in groups of %lld have %lld scales a row, the file has %lld", (long long)w->cols,
             (long long)w->group_size, (long long)groups, (long long)w->groups);
    return quant_parts_damaged(r, suffix, problem);
}

static Status open_grouped(QuantReader *r, QuantWeight *w) {
    const QuantConfig *c = r->config;
    const bool gptq = c->method == QUANT_GPTQ;
    const int64_t per = 32 / c->bits;
    w->layout = gptq ? LAYOUT_GPTQ : LAYOUT_AWQ;
    w->bits = c->bits;
    w->zero_offset = gptq && !c->zeros_as_they_are;
    Status status = quant_parts_take(r, "qweight", PART_I32, true, &w->weight);
    if (!status) status = quant_parts_take(r, "scales", PART_SCALE, true, &w->scale);
    if (!status) status = quant_parts_take(r, "qzeros", PART_I32, true, &w->zero);
    if (!status && gptq) status = quant_parts_take(r, "g_idx", PART_I32, c->act_order, &w->order);
    if (status) return status;
    if (w->weight.n_dims != 2) return quant_parts_expect(r, "qweight", &w->weight, 0, 0);
    w->rows = gptq ? w->weight.shape[1] : w->weight.shape[1] * per;
    w->cols = gptq ? w->weight.shape[0] * per : w->weight.shape[0];
    w->groups = w->scale.shape[0];
    w->group_size = c->group_size > 0 ? c->group_size : w->cols > 0 ? w->cols : 1;
    status = quant_parts_expect(r, "scales", &w->scale, w->groups, w->rows);
    if (!status) status = quant_parts_expect(r, "qzeros", &w->zero, w->groups, (w->rows + per - 1) / per);
    if (!status) status = check_order(r, "g_idx", w);
    return status ? status : check_groups(r, "scales", w);
}

// compressed-tensors has one scale for all, for a row, or for the groups of a row, which are as large as one of the
// schemes says: the last one may be ragged, so that the number of scales alone does not tell.
static Status read_scales(QuantReader *r, QuantWeight *w) {
    const QuantConfig *c = r->config;
    char problem[160];
    int n = 0;
    w->groups = w->scale.n_dims == 2 ? w->scale.shape[1] : 1;
    w->group_size = w->cols > 0 ? w->cols : 1;
    if (w->scale.elements == 1) return STATUS_OK;
    if (w->scale.n_dims == 1) return quant_parts_expect(r, "weight_scale", &w->scale, w->rows, -1);
    Status status = quant_parts_expect(r, "weight_scale", &w->scale, w->rows, w->groups);
    if (status || w->groups == 1) return status;
    for (int i = 0; i < c->n_group_sizes; i++)
        if ((w->cols + c->group_sizes[i] - 1) / c->group_sizes[i] == w->groups)
            w->group_size = c->group_sizes[i], n++;
    if (n == 1) return STATUS_OK;
    snprintf(problem, sizeof problem,
             "%s group_size of config.json's schemes gives a row of %lld columns %lld scales",
             n ? "more than one" : "no", (long long)w->cols, (long long)w->groups);
    return quant_parts_damaged(r, "weight_scale", problem);
}

// The part in which numbers of a matrix are packed says nothing of the columns that its words have too many.
static Status read_shape(QuantReader *r, QuantWeight *w) {
    Part shape = {0};
    int64_t sizes[2] = {0, 0};
    Status status = quant_parts_take(r, "weight_shape", PART_I64 | PART_I32, true, &shape);
    if (status) return status;
    for (int i = 0; i < 2 && shape.elements == 2; i++) {
        if (shape.kind == PART_I32) sizes[i] = quant_parts_word(&shape, i);
        if (shape.kind == PART_I64) memcpy(&sizes[i], shape.data + 8 * i, sizeof sizes[i]);
    }
    w->rows = sizes[0];
    w->cols = sizes[1];
    if (w->weight.n_dims != 2 || w->rows != w->weight.shape[0] || w->cols <= 0)
        return quant_parts_damaged(r, "weight_shape",
                                   "it is not that of the packed weight: fetch the model again");
    for (w->bits = 4; w->bits <= 8; w->bits += 4) {
        const int64_t per = 32 / w->bits;
        if (w->cols <= INT64_MAX - per && (w->cols + per - 1) / per == w->weight.shape[1]) return STATUS_OK;
    }
    return quant_parts_damaged(r, "weight_packed", "its words hold no numbers of 4 or 8 bits of that shape");
}

static Status open_compressed(QuantReader *r, QuantWeight *w) {
    bool packed = text_has_suffix(r->main->name, ".weight_packed");
    Status status = quant_parts_take(r, packed ? "weight_packed" : "weight", packed ? PART_I32 : PART_I8,
                                     true, &w->weight);
    w->layout = packed ? LAYOUT_ROWS : LAYOUT_BYTES;
    if (!status && packed) status = read_shape(r, w);
    if (!packed && !status) {
        w->bits = 8;
        w->rows = w->weight.shape[0];
        w->cols = w->weight.shape[1];
        status = quant_parts_expect(r, "weight", &w->weight, w->rows, w->cols);
    }
    if (status) return status;
    w->constant_zero = packed ? 1 << (w->bits - 1) : 0;
    status = quant_parts_take(r, "weight_scale", PART_SCALE, true, &w->scale);
    if (!status)
        status = quant_parts_take(r, "weight_zero_point", packed ? PART_I32 : PART_I8, false, &w->zero);
    if (!status) status = quant_parts_take(r, "weight_g_idx", PART_I32, false, &w->order);
    if (!status) status = read_scales(r, w);
    if (!status && w->zero.data && packed)
        status = quant_parts_expect(r, "weight_zero_point", &w->zero,
                                    (w->rows + 32 / w->bits - 1) / (32 / w->bits), w->groups);
    if (!status && w->zero.data && !packed && w->zero.elements != w->rows * w->groups)
        status = quant_parts_expect(r, "weight_zero_point", &w->zero, w->rows, w->groups);
    if (!status) status = check_order(r, "weight_g_idx", w);
    return status ? status : check_groups(r, "weight_scale", w);
}

// bitsandbytes' int8: the largest magnitude of each row becomes 127.
static Status open_bytes(QuantReader *r, QuantWeight *w) {
    Part format = {0};
    Status status = quant_parts_take(r, "weight", PART_I8, true, &w->weight);
    if (!status) status = quant_parts_take(r, "SCB", PART_SCALE, true, &w->scale);
    if (!status) status = quant_parts_take(r, "weight_format", PART_U8, false, &format);
    if (status) return status;
    if (format.data && (format.elements != 1 || format.data[0] != 0))
        return quant_parts_damaged(r, "weight_format",
                                   "palaver reads int8 weights that are stored row by row (0)");
    w->layout = LAYOUT_BYTES;
    w->bits = 8;
    w->scale_factor = 1.0f / 127;
    w->rows = w->weight.shape[0];
    w->cols = w->group_size = w->weight.shape[1];
    w->groups = 1;
    status = quant_parts_expect(r, "weight", &w->weight, w->rows, w->cols);
    return status ? status : quant_parts_expect(r, "SCB", &w->scale, w->rows, -1);
}

// ---- what it becomes ------------------------------------------------------------------------------------------

static bool zeros_are(const QuantWeight *w, int zero) {
    for (int64_t row = 0; row < w->rows; row++)
        for (int64_t group = 0; group < w->groups; group++)
            if (zero_of(w, row, group) != zero) return false;
    return true;
}

static bool is_symmetric(const QuantWeight *w) {
    const int middle = w->layout == LAYOUT_BYTES ? 0 : 1 << (w->bits - 1);
    return w->zero.data ? zeros_are(w, middle) : w->constant_zero == middle;
}

static DType type_of_integers(const QuantWeight *w) {
    return w->bits == 8 ? DTYPE_Q8_0 : is_symmetric(w) ? DTYPE_Q4_0 : DTYPE_Q4_1;
}

bool quant_integers_fit(const QuantWeight *w) {
    return w->cols % GROUP == 0 && (w->bits == 4 || is_symmetric(w));
}

static void choose_type(QuantWeight *w) {
    const bool whole = w->order.data ? !w->scattered : w->groups == 1 || w->group_size % GROUP == 0;
    if (whole && quant_integers_fit(w)) {
        w->tensor.type = type_of_integers(w);
        w->integers = integers;
        return;
    }
    w->tensor.type = DTYPE_F16;
    w->numbers = numbers;
}

void quant_integers_reorder(QuantWeight *w, const int32_t *columns) {
    w->tensor.type = type_of_integers(w);
    w->tensor.bytes = (size_t)(w->rows * dtype_row_bytes(w->tensor.type, w->cols));
    w->tensor.order = columns;
    snprintf(w->tensor.type_name, sizeof w->tensor.type_name, "%s", dtype_name(w->tensor.type));
    w->integers = reordered;
    w->numbers = NULL;
}

Status quant_integers_open(QuantReader *r, QuantWeight *w) {
    const QuantConfig *c = r->config;
    w->scale_factor = 1;
    Status status = c->method == QUANT_COMPRESSED     ? open_compressed(r, w)
                    : c->method == QUANT_BITSANDBYTES ? open_bytes(r, w)
                                                      : open_grouped(r, w);
    if (status) return status;
    choose_type(w);
    size_t n = (size_t)snprintf(w->method, sizeof w->method, "%s int%d", c->name, w->bits);
    if (w->groups > 1 && n < sizeof w->method)
        snprintf(w->method + n, sizeof w->method - n, ", %s %lld", w->scattered ? "act-order," : "groups of",
                 (long long)w->group_size);
    return STATUS_OK;
}
