// From a model's file to an engine, as the configuration says.
#ifndef PALAVER_APP_LOAD_H
#define PALAVER_APP_LOAD_H

#include "app/screen.h"
#include "config/config.h"
#include "engine/engine.h"

// What the model recommends becomes the configuration's layer of the model: its makers' generation defaults, then the TOML
// file beside `path`, if there is one.
Status load_recommendations(Config *config, const char *path, const Model *model, Error *error);

// The cache of one conversation.
CacheOptions load_cache_options(const CacheConfig *config);

// Loads the model at `path` with progress on the screen, and its recommendations. On failure *engine is NULL.
Status load_engine(Screen *screen, Config *config, const char *path, Engine **engine, Error *error);

// Shown on the screen, in bytes; Ctrl-C asks to stop.
Progress load_progress(Screen *screen);

#endif
