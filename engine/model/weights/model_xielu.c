// The numbers of a layer's xIELU (kernels/decoder_shape.h): tensors of a Hugging Face folder, lists of a number for each layer
// in GGUF metadata, or one number for all. Both have the alphas as they are trained, before softplus: llama.cpp's converter
// writes the tensors as they are, and its ggml_xielu() takes softplus of them.
#include "engine/model/model_internal.h"
#include "engine/model/config/unread.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdio.h>

typedef enum Number { ALPHA_P, ALPHA_N, BETA, EPS, N_NUMBERS } Number;
static const char *const NAMES[N_NUMBERS] = {"alpha_p", "alpha_n", "beta", "eps"};

static Status read_tensor(Model *model, const ParamSource *source, int layer, Number which, double *value,
                          Error *error) {
    const char *stem = source->architecture->xielu, *name = NAMES[which];
    const CheckpointTensor *tensor = model_find_of_layer(source, layer, stem, name);
    Matrix one;
    float read;
    if (!tensor)
        return error_set(error, STATUS_FILE,
                         "%s: tensor %s%s of layer %d is missing: the model is incomplete, or no %s model",
                         checkpoint_path(model->checkpoint), stem, name, layer, model->architecture);
    CheckpointTensor vector = *tensor;
    if (vector.n_dims == 0) vector.n_dims = 1, vector.shape[0] = 1; // a number by itself
    Status status = model_take_tensor(model, source, &vector, 0, 1, &one, error);
    if (status) return status;
    quant_load(one.type, one.data, 0, 1, &read);
    *value = (double)read;
    return STATUS_OK;
}

static Status read_meta(const Model *model, const ParamSource *source, int layer, Number which, double *value,
                        Error *error) {
    char key[32];
    MetaCursor cursor = {0};
    MetaValue number;
    snprintf(key, sizeof key, "xielu.%s", NAMES[which]);
    const MetaValue *all = checkpoint_meta(source->checkpoint, key);
    if (!all) return error_set(error, STATUS_FILE, "%s: %s is missing", source->path, key);
    unread_take_meta(source, key);
    number = *all;
    if (all->type == META_ARRAY && all->count == model->shape.n_layers)
        for (int i = 0; i <= layer && checkpoint_meta_next(all, &cursor, &number); i++) continue;
    if (number.type != META_NUMBER && number.type != META_INTEGER)
        return error_set(error, STATUS_FILE, "%s: %s should be a number, or a list of them for %d layers",
                         source->path, key, model->shape.n_layers);
    *value = number.number;
    return STATUS_OK;
}

// Beyond 20 as torch computes it, which is what it is in float32.
static double softplus(double x) {
    return x > 20 ? x : log1p(exp(x));
}

Status model_take_xielu(Model *model, const ParamSource *source, int layer, Error *error) {
    double read[N_NUMBERS];
    for (Number i = ALPHA_P; i < N_NUMBERS; i++) {
        Status status = source->config ? read_tensor(model, source, layer, i, &read[i], error)
                                       : read_meta(model, source, layer, i, &read[i], error);
        if (status) return status;
        if (!(fabs(read[i]) < 1e6))
            return error_set(error, STATUS_FILE, "%s: xIELU's %s of layer %d is %g", source->path, NAMES[i],
                             layer, read[i]);
    }
    Xielu *to = &model->layers[layer].xielu;
    *to = (Xielu){.alpha_p = (float)softplus(read[ALPHA_P]),
                  .alpha_n = (float)(read[BETA] + softplus(read[ALPHA_N])),
                  .beta = (float)read[BETA],
                  .eps = (float)read[EPS]};
    return to->alpha_p > 0
               ? STATUS_OK
               : error_set(error, STATUS_FILE, "%s: xIELU's alpha_p of layer %d is %g before softplus",
                           source->path, layer, read[ALPHA_P]);
}
