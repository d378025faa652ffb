// MXFP4 as gpt-oss has it (OCP Microscaling Formats, version 1.0): e2m1 codes and a power of two for each 32 of them,
// of all experts of a layer in one tensor.
#include "engine/files/quantized/quantized.h"

#include <stdio.h>
#include <string.h>

enum { GROUP = 32, GROUP_BYTES = 16 };

size_t quant_mxfp4_stem(const QuantConfig *config, const CheckpointTensor *tensor) {
    static const char END[] = "_blocks";
    size_t n = strlen(tensor->name), m = strlen(END);
    return config->method == QUANT_MXFP4 && n > m && strcmp(tensor->name + n - m, END) == 0 ? n - m : 0;
}

// Byte i of a group has elements 2i and 2i + 1 in the file; here, as GGUF has it, i and i + 16 behind the scale.
static bool block(const QuantWeight *w, int64_t row, int64_t first, uint8_t *to) {
    const int64_t rows = w->rows / w->n_experts, expert = row / rows, at = row % rows, half = rows / 2;
    int64_t from = w->in_turn ? expert * rows + (at < half ? 2 * at : 2 * (at - half) + 1) : row;
    from = from * w->groups + first / GROUP;
    const uint8_t *codes = w->weight.data + from * GROUP_BYTES;
    to[0] = w->scale.data[from];
    for (int i = 0; i < GROUP_BYTES; i++) {
        int low = codes[i / 2] >> (i % 2 ? 4 : 0) & 15,
            high = codes[GROUP_BYTES / 2 + i / 2] >> (i % 2 ? 4 : 0) & 15;
        to[1 + i] = (uint8_t)(low | high << 4);
    }
    return to[0] != 255; // which is no number
}

Status quant_mxfp4_open(QuantReader *r, QuantWeight *w) {
    Status status = quant_parts_take(r, "_blocks", PART_U8, true, &w->weight);
    if (!status) status = quant_parts_take(r, "_scales", PART_U8 | PART_E8M0, true, &w->scale);
    if (status) return status;
    const int64_t *blocks = w->weight.shape, *scales = w->scale.shape;
    const size_t n = strlen(r->stem), m = strlen("gate_up_proj");
    w->in_turn = n > m && strcmp(r->stem + n - m, "gate_up_proj") == 0;
    bool fits = w->weight.n_dims == 4 && blocks[3] == GROUP_BYTES && w->scale.n_dims == 3 &&
                scales[0] == blocks[0] && scales[1] == blocks[1] && scales[2] == blocks[2] &&
                (!w->in_turn || blocks[1] % 2 == 0);
    if (!fits)
        return quant_parts_damaged(
            r, "_blocks", "expected [experts, rows, groups, 16], and [experts, rows, groups] of its scales");
    w->n_experts = blocks[0];
    w->rows = blocks[0] * blocks[1];
    w->groups = blocks[2];
    w->cols = blocks[2] * GROUP;
    w->tensor.type = DTYPE_MXFP4;
    w->block = block;
    snprintf(w->method, sizeof w->method, "MXFP4 of %lld experts", (long long)w->n_experts);
    return STATUS_OK;
}
