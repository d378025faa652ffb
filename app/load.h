// From a model's file to an engine, as the configuration says.
#ifndef PALAVER_APP_LOAD_H
#define PALAVER_APP_LOAD_H

#include "app/screen.h"
#include "config/config.h"
#include "engine/engine.h"

// What the model recommends becomes the configuration's layer of the model: its makers' generation defaults, then the TOML
// file beside `path`, if there is one.
Status load_recommendations(Config *config, const char *path, const Model *model, Error *error);

// A cache with room for so many conversations of the full size.
CacheOptions load_cache_options(const CacheConfig *config, int n_sequences);

// Loads the model at `path` with progress on the screen, and its recommendations. On failure *engine is NULL.
Status load_engine(Screen *screen, Config *config, const char *path, int n_sequences, Engine **engine,
                   Error *error);

// Shown on the screen, in bytes; Ctrl-C asks to stop.
Progress load_progress(Screen *screen);

#endif
