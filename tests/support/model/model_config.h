// A Model of hyperparameters alone, and what its makers recommend. Fuzzers link this, too.
#ifndef PALAVER_TESTS_MODEL_CONFIG_H
#define PALAVER_TESTS_MODEL_CONFIG_H

#include "engine/model/model.h"

// From the text of config.json and of generation_config.json (may be NULL): no weights, no Checkpoint. To
// model_close().
Status model_from_config(const char *config, size_t config_size, const char *generation,
                         size_t generation_size, Model **model, Error *error);

// What the makers recommend for one of palaver's settings; NAN: nothing. Greedy decoding is a temperature of 0.
double model_recommended(const Model *model, const char *setting);

#endif
