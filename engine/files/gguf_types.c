#include "engine/files/gguf_types.h"

#include <stdio.h>
#include <string.h>

size_t gguf_type_bytes(uint32_t type) {
    static const uint8_t BYTES[GGUF_TYPE_COUNT] = {
        [GGUF_UINT8] = 1,  [GGUF_INT8] = 1,  [GGUF_UINT16] = 2,  [GGUF_INT16] = 2,
        [GGUF_UINT32] = 4, [GGUF_INT32] = 4, [GGUF_FLOAT32] = 4, [GGUF_BOOL] = 1,
        [GGUF_UINT64] = 8, [GGUF_INT64] = 8, [GGUF_FLOAT64] = 8,
    };
    return type < GGUF_TYPE_COUNT ? BYTES[type] : 0;
}

MetaType gguf_meta_type(uint32_t type) {
    switch (type) {
    case GGUF_FLOAT32:
    case GGUF_FLOAT64:
        return META_NUMBER;
    case GGUF_BOOL:
        return META_BOOL;
    case GGUF_STRING:
        return META_STRING;
    case GGUF_ARRAY:
        return META_ARRAY;
    default:
        return META_INTEGER;
    }
}

static double decode_number(int type, const uint8_t *bytes) {
    float single;
    double number;
    if (type == GGUF_FLOAT32) {
        memcpy(&single, bytes, sizeof single);
        return (double)single;
    }
    memcpy(&number, bytes, sizeof number);
    return number;
}

size_t gguf_decode(int type, const uint8_t *bytes, MetaValue *value) {
    *value = (MetaValue){.type = gguf_meta_type((uint32_t)type)};
    size_t size = gguf_type_bytes((uint32_t)type);
    uint64_t raw = 0; // little-endian, like every machine palaver is built for
    memcpy(&raw, bytes, type == GGUF_STRING ? 8 : size);
    switch (type) {
    case GGUF_INT8:
        value->integer = raw < 128 ? (int64_t)raw : (int64_t)raw - 256;
        break;
    case GGUF_INT16:
        value->integer = (int16_t)raw;
        break;
    case GGUF_INT32:
        value->integer = (int32_t)raw;
        break;
    case GGUF_FLOAT32:
    case GGUF_FLOAT64:
        value->number = decode_number(type, bytes);
        return size;
    case GGUF_BOOL:
        value->flag = raw != 0;
        return size;
    case GGUF_STRING:
        value->string = (MetaString){(const char *)bytes + 8, (size_t)raw};
        return 8 + (size_t)raw;
    default:
        value->integer = (int64_t)raw;
        break; // unsigned ones, and int64
    }
    value->number = (double)value->integer;
    if (type == GGUF_UINT64 && raw > INT64_MAX) {
        value->type = META_NUMBER;
        value->number = (double)raw;
        value->integer = 0;
    }
    return size;
}

typedef struct TensorType {
    const char *name;
    int dtype; // -1: palaver has no code for it
    int64_t block_size, block_bytes;
} TensorType;

// Those palaver cannot read are here for their size: a file that holds one can still be inspected.
static const TensorType TENSOR_TYPES[] = {
    [0] = {"f32", DTYPE_F32, 1, 4},
    [1] = {"f16", DTYPE_F16, 1, 2},
    [2] = {"q4_0", DTYPE_Q4_0, 32, 18},
    [3] = {"q4_1", DTYPE_Q4_1, 32, 20},
    [6] = {"q5_0", DTYPE_Q5_0, 32, 22},
    [7] = {"q5_1", DTYPE_Q5_1, 32, 24},
    [8] = {"q8_0", DTYPE_Q8_0, 32, 34},
    [9] = {"q8_1", -1, 32, 40},
    [10] = {"q2_k", DTYPE_Q2_K, 256, 84},
    [11] = {"q3_k", DTYPE_Q3_K, 256, 110},
    [12] = {"q4_k", DTYPE_Q4_K, 256, 144},
    [13] = {"q5_k", DTYPE_Q5_K, 256, 176},
    [14] = {"q6_k", DTYPE_Q6_K, 256, 210},
    [15] = {"q8_k", -1, 256, 292},
    [16] = {"iq2_xxs", -1, 256, 66},
    [17] = {"iq2_xs", -1, 256, 74},
    [18] = {"iq3_xxs", -1, 256, 98},
    [19] = {"iq1_s", -1, 256, 50},
    [20] = {"iq4_nl", DTYPE_IQ4_NL, 32, 18},
    [21] = {"iq3_s", -1, 256, 110},
    [22] = {"iq2_s", -1, 256, 82},
    [23] = {"iq4_xs", DTYPE_IQ4_XS, 256, 136},
    [24] = {"i8", -1, 1, 1},
    [25] = {"i16", -1, 1, 2},
    [26] = {"i32", -1, 1, 4},
    [27] = {"i64", -1, 1, 8},
    [28] = {"f64", -1, 1, 8},
    [29] = {"iq1_m", -1, 256, 56},
    [30] = {"bf16", DTYPE_BF16, 1, 2},
    [34] = {"tq1_0", -1, 256, 54},
    [35] = {"tq2_0", -1, 256, 66},
    [39] = {"mxfp4", DTYPE_MXFP4, 32, 17},
    [40] = {"nvfp4", -1, 64, 36},
    [41] = {"q1_0", -1, 128, 18},
};

void gguf_tensor_type(uint32_t type, CheckpointTensor *tensor, int64_t *block_size, int64_t *block_bytes) {
    static const TensorType UNKNOWN = {NULL, -1, 1, 0};
    bool known = type < sizeof TENSOR_TYPES / sizeof *TENSOR_TYPES && TENSOR_TYPES[type].name;
    const TensorType *found = known ? &TENSOR_TYPES[type] : &UNKNOWN;
    tensor->supported = found->dtype >= 0;
    tensor->type = tensor->supported ? (DType)found->dtype : DTYPE_F32;
    *block_size = found->block_size;
    *block_bytes = found->block_bytes;
    if (known) {
        snprintf(tensor->type_name, sizeof tensor->type_name, "%s", found->name);
    } else {
        snprintf(tensor->type_name, sizeof tensor->type_name, "type %u", type);
    }
}
