// What model.c puts together, part by part.
#ifndef PALAVER_ENGINE_MODEL_INTERNAL_H
#define PALAVER_ENGINE_MODEL_INTERNAL_H

#include "engine/model/model.h"
#include "engine/model/source.h"

// Names of modules in GGUF files, without ".weight" or ".bias"; those of layers stand behind "blk.N.".
extern const char *const GGUF_MODULES[N_MODULES];

// Everything but the weights: the parts below, one after the other.
Status model_read_params(Model *model, ParamSource *source, Error *error);

// source->architecture.
Status model_find_architecture(ParamSource *source, Error *error);
// Sizes, norm, activation and biases into model->shape and its neighbours; checked against each other.
Status model_read_shape(Model *model, const ParamSource *source, Error *error);
// context_length, and what positions are told by: model->shape.rope, inv_freq and scaling, or n_positions; after the
// shape.
Status model_read_positions(Model *model, const ParamSource *source, Error *error);
Status model_read_windows(Model *model, const ParamSource *source, Error *error);
// model->layer_ropes and shape.rope.of_layers; after positions and windows.
Status model_read_layer_ropes(Model *model, const ParamSource *source, Error *error);
// What multiplies or caps embeddings, residuals, scores and logits; after sizes and norms.
Status model_read_scales(Model *model, const ParamSource *source, Error *error);
// Whether a key of GGUF is one of the architecture's scales.
bool model_scales_have(const Architecture *architecture, const char *gguf);
// Special ids and sampling defaults; after the shape, for ids are checked against vocab_size.
Status model_read_generation(Model *model, const ParamSource *source, Error *error);
// layers, head, n_parameters, weight_bytes.
Status model_read_weights(Model *model, const ParamSource *source, Error *error);

#endif
