// Models of a known shape without files, for measuring: their weights are made up on the device.
#ifndef PALAVER_ENGINE_MODEL_SHAPE_H
#define PALAVER_ENGINE_MODEL_SHAPE_H

#include "engine/model/model.h"

// "llama2-7b", "llama3-70b" … (model_shape.c has the table), with layers of `type`, and embedding and head of another.
// Its matrices have sizes but no data: it is for engine_open_model() with random_weights. An unknown name is STATUS_USAGE
// with those there are.
Status model_of_shape(const char *name, DType type, DType head, Model **model, Error *error);

#endif
