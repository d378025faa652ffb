// Linear layers that are held in another type than the files have them in: which, how many bytes that takes, and the
// converting itself, a matrix at a time while a model is loaded. Norms, biases, embeddings and learned positions stay
// as they are, and so do routers, and the head's output matrix unless it is asked for. Experts become q8_0 for int8.
#ifndef PALAVER_ENGINE_CONVERSION_H
#define PALAVER_ENGINE_CONVERSION_H

#include "engine/model/model.h"
#include "kernels/base/machine/threads.h"

// "own", "f16", "bf16", "int8", "int4".
const char *conversion_name(WeightType type);

// What people call a model's weights: what they were converted to, "int8", or the type that most of them have, "q4_1".
const char *conversion_weights_name(const Model *model);

// Bytes of all weights with linear layers and the head's output held so; -1: the model has a matrix that cannot be.
int64_t conversion_bytes(const Model *model, WeightType weights, WeightType head);

// Decides how an open model's weights will be held, once, before a backend sees it: model->layers and model->head get
// the new types, and no data where something is to be converted. A matrix that has the type already stays where it is.
// STATUS_UNSUPPORTED names a tensor whose rows do not suit the type; STATUS_MEMORY.
Status conversion_plan(Model *model, WeightType weights, WeightType head, Error *error);

// Whether any matrix is held in `type`.
bool conversion_needs(const Model *model, DType type);

// The linear layers of layer `index`, or for index shape.n_layers the head's output, one after the other: `held` as
// planned, `own` as in the files. Returns how many there are.
enum { CONVERSION_MATRICES = 12 };
int conversion_matrices(const Model *model, int index, Matrix held[CONVERSION_MATRICES],
                        Matrix own[CONVERSION_MATRICES]);

// Whether a matrix has no data yet.
bool conversion_awaits(const Matrix *held);

// Bytes, in multiples of 64, that a planned matrix takes; 0 where it stays where it is.
int64_t conversion_room(const Matrix *held);

// One of a layer's matrices, by its number in conversion_matrices().
typedef struct ConversionPlace {
    int layer, matrix;
} ConversionPlace;

// Converts the files' own into `memory` [conversion_room(held)], which held->data then is, by model->smoothing.
// STATUS_UNSUPPORTED: a value has no place in the type; the message names the tensor and what to take instead.
Status conversion_run(const Model *model, ConversionPlace place, Matrix *held, Threads *threads, void *memory,
                      Error *error);

// layer or head with what was converted in place of what was planned.
void conversion_put(const Matrix held[CONVERSION_MATRICES], LayerWeights *layer);

#endif
