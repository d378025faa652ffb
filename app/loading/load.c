#include "app/loading/load.h"

#include "app/models/models.h"
#include "kernels/base/path.h"
#include "app/process/signals.h"
#include "app/ranks/ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

// A recommendation out of palaver's range is the makers' business: it is left out rather than refused.
static void set_recommended(Config *config, const GenerationDefault *recommended) {
    char text[64];
    Error ignored;
    snprintf(text, sizeof text, "%.9g", recommended->value);
    if (!isnan(recommended->value)) (void)config_set(config, CONFIG_MODEL, recommended->key, text, &ignored);
}

Status load_recommendations(Config *config, const char *path, const Model *model, Error *error) {
    char beside[PATH_ROOM];
    for (int i = 0; i < MODEL_N_GENERATION; i++) set_recommended(config, &model->generation[i]);
    if (!path_model_settings(path, beside)) return STATUS_OK;
    return config_apply_file(config, CONFIG_MODEL, beside, error);
}

CacheOptions load_cache_options(Screen *screen, const Settings *settings, LoadRoom room) {
    CacheOptions options = settings->engine.cache;
    if (room.n_rows > 0 && !options.paged)
        screen_notice(screen, "[the cache is in pages all the same: conversations at once need them]");
    options.paged = options.paged || room.n_rows > 0;
    options.n_sequences = room.n_sequences;
    return options;
}

void load_tell_dispatch(Screen *screen, const Engine *engine) {
    const char *note = engine_dispatch(engine)->note;
    if (*note) screen_warn(screen, "[%s]", note);
}

// Positions that a model has never seen are computed all the same, and what it says there is worth little. A bias that
// grows with the distance, and a rope that is made anew for each length, go on.
static void tell_reach(Screen *screen, const Engine *engine) {
    const Model *model = engine_model(engine);
    if (engine_context_size(engine) <= model->context_length || model->shape.alibi ||
        model->rope_scaling == ROPE_SCALING_DYNAMIC)
        return;
    screen_warn(screen,
                "[a context of %d tokens, and the model is made for %" PRId64
                ": what it says beyond them may make no sense]",
                engine_context_size(engine), model->context_length);
}

static bool on_progress(void *user, const char *what, int64_t done, int64_t total) {
    screen_progress(user, what, (uint64_t)done, (uint64_t)total);
    return !*signals_interrupt();
}

Progress load_progress(Screen *screen) {
    return (Progress){on_progress, screen};
}

Status load_guesser(Screen *screen, const Settings *settings, Engine **engine, Error *error) {
    char path[PATH_ROOM], folder[PATH_ROOM];
    const int context = settings->engine.context_size;
    *engine = NULL;
    Status status = models_path(settings->model.draft, path_program(folder) ? folder : NULL, path, error);
    if (status) return status;
    EngineOptions options = settings->engine;
    options.model = path;
    options.weights = options.head = WEIGHTS_OWN;
    options.device_layers = options.expert_layers = DEVICE_LAYERS_FIT;
    options.context_most = context > 0 ? context : LOAD_GUESSER_CONTEXT;
    options.cache.n_sequences = 1;
    options.world = (EngineWorld){0};
    options.progress = load_progress(screen);
    options.interrupt = signals_interrupt();
    options.keeps_trials = true;
    status = engine_open(&options, engine, error);
    screen_progress_end(screen);
    return status;
}

Status load_engine(Screen *screen, Settings *settings, const char *path, LoadRoom room, Engine **engine,
                   Error *error) {
    EngineOptions options = settings->engine;
    RanksText text;
    options.model = path;
    Status status = ranks_find(settings, screen, &options.world, &text, error);
    if (status) return status;
    options.cache = load_cache_options(screen, settings, room);
    options.n_rows = room.n_rows;
    options.beside = room.beside;
    options.progress = load_progress(screen);
    options.interrupt = signals_interrupt();
    options.keeps_trials = true;
    status = engine_open(&options, engine, error);
    screen_progress_end(screen);
    if (status) return status;
    status = load_recommendations(&settings->config, path, engine_model(*engine), error);
    if (status) {
        engine_close(*engine);
        *engine = NULL;
        return status;
    }
    load_tell_dispatch(screen, *engine);
    tell_reach(screen, *engine);
    const char *notice = tokenizer_notice(engine_tokenizer(*engine)),
               *unfollowed = engine_model(*engine)->unfollowed,
               *rounded = checkpoint_notice(engine_model(*engine)->checkpoint);
    if (rounded) screen_warn(screen, "[%s]", rounded);
    if (notice) screen_warn(screen, "[%s]", notice);
    if (unfollowed[0] != '\0')
        screen_warn(screen, "[the model's generation_config.json asks for what palaver does not do: %s]",
                    unfollowed);
    const char *others = engine_model(*engine)->other_parts;
    if (others[0] != '\0') screen_warn(screen, "[the model's text part is used, without its %s]", others);
    return STATUS_OK;
}
