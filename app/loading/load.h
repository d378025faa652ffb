// From a model's file to an engine, as the configuration says.
#ifndef PALAVER_APP_LOADING_LOAD_H
#define PALAVER_APP_LOADING_LOAD_H

#include "app/settings/settings.h"
#include "app/terminal/screen/screen.h"
#include "engine/engine.h"
#include "engine/model/model.h"

// What the model recommends becomes the configuration's layer of the model: its makers' generation defaults, then the
// TOML file beside `path`, if there is one.
Status load_recommendations(Config *config, const char *path, const Model *model, Error *error);

// What an engine is to have room for.
typedef struct LoadRoom {
    int n_sequences; // of the full size, in the cache
    // 0; or decoded together (EngineOptions): the cache is in pages then, which is said if the settings want none.
    int n_rows;
    const Engine *beside; // another engine, that it has to leave its memory; NULL: none
} LoadRoom;

CacheOptions load_cache_options(Screen *screen, const Settings *settings, LoadRoom room);

// Loads the model at `path` with progress on the screen, and its recommendations. On failure *engine is NULL.
Status load_engine(Screen *screen, Settings *settings, const char *path, LoadRoom room, Engine **engine,
                   Error *error);

// Loads the model that the settings name as one that guesses for another (engine/talk/drafts/guesser.h), on the same device, with the
// context that is set, and no more than LOAD_GUESSER_CONTEXT tokens where none is: beyond it nothing is guessed.
enum { LOAD_GUESSER_CONTEXT = 32768 };
Status load_guesser(Screen *screen, const Settings *settings, Engine **engine, Error *error);

// What is wrong with the table of kernels that was measured on this card, if something is.
void load_tell_dispatch(Screen *screen, const Engine *engine);

// Shown on the screen, in bytes; Ctrl-C asks to stop.
Progress load_progress(Screen *screen);

#endif
