// Models of a small config.json, and what a test changes about it.
#ifndef PALAVER_TESTS_BASE_CONFIG_H
#define PALAVER_TESTS_BASE_CONFIG_H

#include "engine/model/model.h"

// A llama's config.json with changes, a JSON object, in which a value of "absent" removes the key; `generation` (NULL:
// none) is the text of generation_config.json.
Status base_config_with(const char *changes, const char *generation, Model **model, Error *error);
Model *base_config_ok(const char *changes, const char *generation); // or the test fails

#endif
