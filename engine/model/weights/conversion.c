#include "engine/model/weights/conversion.h"

#include "kernels/cpu/loops/convert.h"
#include "kernels/w8.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

// Where matrices point that will be converted: nothing can be read there.
static const char AWAITED[1];

static const size_t LINEAR[CONVERSION_MATRICES] = {
    offsetof(LayerWeights, wq),        offsetof(LayerWeights, wk),
    offsetof(LayerWeights, wv),        offsetof(LayerWeights, wo),
    offsetof(LayerWeights, w_gate),    offsetof(LayerWeights, w_up),
    offsetof(LayerWeights, w_down),    offsetof(LayerWeights, shared_gate),
    offsetof(LayerWeights, shared_up), offsetof(LayerWeights, shared_down),
    offsetof(LayerWeights, q_down),    offsetof(LayerWeights, attn_gate),
};

static const Matrix *matrix_at(const LayerWeights *layer, int i) {
    return (const Matrix *)(const void *)((const char *)layer + LINEAR[i]);
}

const char *conversion_name(WeightType type) {
    static const char *const NAMES[] = {"own", "f16", "bf16", "int8", "int4"};
    return NAMES[type];
}

const char *conversion_weights_name(const Model *model) {
    const DType type = model_main_type(model);
    if (model->weights != WEIGHTS_OWN) return conversion_name(model->weights);
    return type == DTYPE_W8 ? conversion_name(WEIGHTS_INT8) : dtype_name(type); // made up in it
}

static DType target_of(WeightType type, DType own) {
    switch (type) {
    case WEIGHTS_F16:
        return DTYPE_F16;
    case WEIGHTS_BF16:
        return DTYPE_BF16;
    case WEIGHTS_INT8:
        return DTYPE_W8;
    case WEIGHTS_INT4:
        return DTYPE_Q4_0;
    case WEIGHTS_OWN:
        break;
    }
    return own;
}

// Experts, the shared one too, have no kernels that multiply integers by rows. i: of LINEAR.
static DType target_of_layer(WeightType type, const LayerWeights *layer, int i) {
    const DType target = target_of(type, matrix_at(layer, i)->type);
    const bool feeds_forward =
        LINEAR[i] >= offsetof(LayerWeights, w_gate) && LINEAR[i] <= offsetof(LayerWeights, shared_down);
    return target == DTYPE_W8 && layer->router.data && feeds_forward ? DTYPE_Q8_0 : target;
}

static int64_t bytes_of(DType type, const Matrix *m) {
    return m->rows * dtype_row_bytes(type, m->cols);
}

// As the files have them, also after a plan.
static const LayerWeights *own_layer(const Model *model, int index) {
    return model->file_layers ? &model->file_layers[index] : &model->layers[index];
}

static const Matrix *own_output(const Model *model) {
    return model->file_layers ? &model->file_output : &model->head.output;
}

int64_t conversion_bytes(const Model *model, WeightType weights, WeightType head) {
    const Matrix *output = own_output(model);
    DType type = target_of(head, output->type);
    int64_t bytes = model->weight_bytes;
    if (!convert_suits(type, output->cols)) return -1;
    if (type != output->type)
        bytes += bytes_of(type, output) - (model->tied_head ? 0 : bytes_of(output->type, output));
    for (int l = 0; l < model->shape.n_layers; l++)
        for (int i = 0; i < CONVERSION_MATRICES; i++) {
            const Matrix *own = matrix_at(own_layer(model, l), i);
            if (!own->data) continue;
            const DType target = target_of_layer(weights, own_layer(model, l), i);
            if (!convert_suits(target, own->cols)) return -1;
            bytes += bytes_of(target, own) - bytes_of(own->type, own);
        }
    return bytes;
}

// ---- a plan -------------------------------------------------------------------------------------------

// The tensor of the files in which a matrix lies.
static const char *tensor_name(const Model *model, const Matrix *own) {
    for (int64_t i = 0; model->checkpoint && i < checkpoint_n_tensors(model->checkpoint); i++) {
        const CheckpointTensor *t = checkpoint_tensor(model->checkpoint, i);
        const char *start = t->data, *data = own->data;
        if (data >= start && data < start + t->bytes) return t->name;
    }
    return "a linear layer"; // whose rows were put in another order
}

// `type` is what `weights` means for the matrix.
static Status plan_matrix(const Model *model, WeightType weights, DType type, Matrix *m, Error *error) {
    if (!m->data || type == m->type) return STATUS_OK;
    if (!convert_suits(type, m->cols))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: rows of %lld cannot be held as %s (%s); weights = \"own\" leaves them as they are",
            tensor_name(model, m), (long long)m->cols, conversion_name(weights),
            type != DTYPE_W8 ? "multiples of 32 can" : "sums of products would not fit in 32 bits");
    *m = (Matrix){.type = type, .rows = m->rows, .cols = m->cols, .data = AWAITED};
    return STATUS_OK;
}

Status conversion_plan(Model *model, WeightType weights, WeightType head, Error *error) {
    const int n = model->shape.n_layers;
    if (weights == WEIGHTS_OWN && head == WEIGHTS_OWN) return STATUS_OK;
    LayerWeights *own = malloc((size_t)n * sizeof *own);
    void **converted = calloc((size_t)n + 1, sizeof *converted);
    if (!own || !converted) {
        free(own);
        free(converted);
        return error_set(error, STATUS_MEMORY, "no memory to convert %d layers", n);
    }
    model->weights = weights;
    model->head_weights = head;
    model->converted_bytes = conversion_bytes(model, weights, head) - model->weight_bytes;
    memcpy(own, model->layers, (size_t)n * sizeof *own);
    model->file_layers = own;
    model->file_output = model->head.output;
    model->converted = converted;
    Status status =
        plan_matrix(model, head, target_of(head, model->head.output.type), &model->head.output, error);
    for (int l = 0; l < n && !status; l++)
        for (int i = 0; i < CONVERSION_MATRICES && !status; i++) {
            Matrix *m = (Matrix *)(void *)((char *)&model->layers[l] + LINEAR[i]);
            status = plan_matrix(model, weights, target_of_layer(weights, &model->layers[l], i), m, error);
        }
    return status;
}

bool conversion_needs(const Model *model, DType type) {
    bool needed = model->head.output.type == type;
    for (int l = 0; l < model->shape.n_layers; l++)
        for (int i = 0; i < CONVERSION_MATRICES; i++) {
            const Matrix *m = matrix_at(&model->layers[l], i);
            needed = needed || (m->data && m->type == type);
        }
    return needed;
}

// ---- converting -----------------------------------------------------------------------------------------

int conversion_matrices(const Model *model, int index, Matrix held[CONVERSION_MATRICES],
                        Matrix own[CONVERSION_MATRICES]) {
    if (index == model->shape.n_layers) {
        held[0] = model->head.output;
        own[0] = *own_output(model);
        return 1;
    }
    for (int i = 0; i < CONVERSION_MATRICES; i++) {
        held[i] = *matrix_at(&model->layers[index], i);
        own[i] = *matrix_at(own_layer(model, index), i);
    }
    return CONVERSION_MATRICES;
}

bool conversion_awaits(const Matrix *held) {
    return held->data == AWAITED;
}

int64_t conversion_room(const Matrix *held) {
    return conversion_awaits(held) ? (bytes_of(held->type, held) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : 0;
}

// inverse [intermediate size] has room for what rows of w_up are multiplied with.
static ConvertSource source_of(const Model *model, ConversionPlace place, float *inverse) {
    const bool of_head = place.layer == model->shape.n_layers;
    const Matrix *own = of_head ? own_output(model) : matrix_at(own_layer(model, place.layer), place.matrix);
    const float *s = !of_head && model->smoothing ? model->smoothing[place.layer] : NULL;
    ConvertSource source = {.matrix = own};
    if (s && LINEAR[place.matrix] == offsetof(LayerWeights, w_down)) source.of_cols = s;
    if (s && LINEAR[place.matrix] == offsetof(LayerWeights, w_up)) {
        for (int64_t i = 0; i < own->rows; i++) inverse[i] = 1 / s[i];
        source.of_rows = inverse;
    }
    return source;
}

Status conversion_run(const Model *model, ConversionPlace place, Matrix *held, Threads *threads, void *memory,
                      Error *error) {
    ConvertFlaw flaw;
    float *inverse = malloc((size_t)held->rows * sizeof *inverse);
    if (!inverse) return error_set(error, STATUS_MEMORY, "no memory to convert weights");
    const ConvertSource source = source_of(model, place, inverse);
    const Matrix *own = source.matrix;
    Status status = convert_matrix(threads, &source, held->type, memory, &flaw, error);
    free(inverse);
    if (status) return status;
    if (flaw.row >= 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: row %lld holds %g, which has no place in %s; take weights = \"own\"%s",
                         tensor_name(model, own), (long long)flaw.row, (double)flaw.value,
                         held->type == DTYPE_W8 || held->type == DTYPE_Q8_0 ? "int8"
                         : held->type == DTYPE_Q4_0                         ? "int4"
                                                                            : dtype_name(held->type),
                         held->type == DTYPE_F16 ? " or \"bf16\"" : "");
    held->data = memory;
    return STATUS_OK;
}

void conversion_put(const Matrix held[CONVERSION_MATRICES], LayerWeights *layer) {
    for (int i = 0; i < CONVERSION_MATRICES; i++) *(Matrix *)(void *)((char *)layer + LINEAR[i]) = held[i];
}
