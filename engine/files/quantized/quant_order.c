// Weights in act-order (GPTQ's desc_act, compressed-tensors' actorder), whose columns of one group lie apart: here they stand
// group after group, as blocks want them, and the tensor says which element of its input each is multiplied with
// (CheckpointTensor.order). That goes where all weights of one input have the same order, as their makers' Hessians give
// it; others are held in 16 bits, as they lie.
#include "engine/files/quantized/quantized.h"
#include "kernels/base/text/json.h"
#include "kernels/base/text/text.h"

#include <stdlib.h>
#include <string.h>

enum { GROUP = 32, MOST_BESIDE = 3, N_OF_ATTENTION = 3 };

// Weights of one input each, those of attention first.
static const char *const INPUTS[][MOST_BESIDE] = {
    {".self_attn.q_proj.weight", ".self_attn.k_proj.weight", ".self_attn.v_proj.weight"},
    {".self_attn.qkv_proj.weight"},
    {".self_attn.o_proj.weight"},
    {".mlp.gate_proj.weight", ".mlp.up_proj.weight"},
    {".mlp.gate_up_proj.weight"},
    {".mlp.down_proj.weight"},
};

// Columns group after group; within one as they lie. NULL: no memory.
static int32_t *sorted_columns(const QuantWeight *w) {
    int32_t *columns = malloc((size_t)w->cols * sizeof *columns);
    int64_t *next = calloc((size_t)w->groups + 1, sizeof *next);
    for (int64_t i = 0; i < w->cols && columns && next; i++) next[quant_parts_word(&w->order, i) + 1]++;
    for (int64_t g = 0; g < w->groups && next; g++) next[g + 1] += next[g];
    for (int64_t i = 0; i < w->cols && columns && next; i++)
        columns[next[quant_parts_word(&w->order, i)]++] = (int32_t)i;
    const bool whole = columns && next;
    if (!whole) free(columns);
    free(next);
    return whole ? columns : NULL;
}

// Whether every block of columns is of one group.
static bool blocks_are_whole(const QuantWeight *w, const int32_t *columns) {
    for (int64_t i = 0; i < w->cols; i++)
        if (quant_parts_word(&w->order, columns[i]) !=
            quant_parts_word(&w->order, columns[i / GROUP * GROUP]))
            return false;
    return w->cols % GROUP == 0;
}

static QuantWeight *find(QuantWeight *weights, size_t n, const QuantWeight *beside, size_t stem,
                         const char *end) {
    for (size_t i = 0; i < n; i++) {
        const char *name = weights[i].tensor.name;
        if (strncmp(name, beside->tensor.name, stem) == 0 && strcmp(name + stem, end) == 0)
            return &weights[i];
    }
    return NULL;
}

// The weights that have an input together with `first`, whose name ends with names[0]; 0: their orders are not alike.
static int find_beside(QuantWeight *weights, size_t n, QuantWeight *first, const char *const names[],
                       QuantWeight *all[MOST_BESIDE]) {
    const size_t stem = strlen(first->tensor.name) - strlen(names[0]);
    int count = 0;
    for (int i = 0; i < MOST_BESIDE && names[i]; i++) {
        QuantWeight *w = i ? find(weights, n, first, stem, names[i]) : first;
        if (!w || !w->scattered || !quant_integers_fit(w) || w->cols != first->cols ||
            memcmp(w->order.data, first->order.data, first->order.bytes) != 0)
            return 0;
        all[count++] = w;
    }
    return count;
}

// Beside experts, a dense part's input is a router's as well.
static bool has_experts(const Checkpoint *c) {
    for (int64_t i = 0; i < c->n_tensors; i++)
        if (strstr(c->tensors[i].name, "expert")) return true;
    return false;
}

Status quant_order_columns(const QuantReader *r, QuantWeight *weights, size_t n) {
    const json_t *config = checkpoint_config(r->checkpoint);
    if (json_member(config, "kv_lora_rank")) return STATUS_OK; // whose products of heads know no order
    const size_t n_inputs = has_experts(r->checkpoint) ? N_OF_ATTENTION : sizeof INPUTS / sizeof *INPUTS;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_inputs; k++) {
            QuantWeight *all[MOST_BESIDE], *w = &weights[i];
            if (!w->scattered || !text_has_suffix(w->tensor.name, INPUTS[k][0])) continue;
            const int count = find_beside(weights, n, w, INPUTS[k], all);
            int32_t *columns = count ? sorted_columns(w) : NULL;
            if (count && !columns)
                return error_set(r->error, STATUS_MEMORY, "%s: out of memory", r->config->path);
            if (!columns || !blocks_are_whole(w, columns)) {
                free(columns);
                continue;
            }
            w->columns = columns;
            for (int b = 0; b < count; b++) quant_integers_reorder(all[b], columns);
        }
    return STATUS_OK;
}
