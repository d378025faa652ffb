#include "app/chat/load.h"

#include "app/chat/chat.h"
#include "kernels/base/paths.h"
#include "app/signals.h"

#include <math.h>
#include <string.h>

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

CacheOptions load_cache_options(const Settings *settings, LoadRoom room) {
    CacheOptions options = settings->engine.cache;
    options.paged = options.paged || room.n_rows > 0;
    options.n_sequences = room.n_sequences;
    return options;
}

static bool on_progress(void *user, const char *what, int64_t done, int64_t total) {
    screen_progress(user, what, (uint64_t)done, (uint64_t)total);
    return !*signals_interrupt();
}

Progress load_progress(Screen *screen) {
    return (Progress){on_progress, screen};
}

Status load_engine(Screen *screen, Settings *settings, const char *path, LoadRoom room, Engine **engine,
                   Error *error) {
    EngineOptions options = settings->engine;
    options.model = path;
    options.cache = load_cache_options(settings, room);
    options.n_rows = room.n_rows;
    options.progress = load_progress(screen);
    Status status = engine_open(&options, engine, error);
    screen_progress_end(screen);
    if (status) return status;
    status = load_recommendations(&settings->config, path, engine_model(*engine), error);
    if (status) {
        engine_close(*engine);
        *engine = NULL;
        return status;
    }
    const char *notice = tokenizer_notice(engine_tokenizer(*engine));
    if (notice) screen_warn(screen, "[%s]", notice);
    return STATUS_OK;
}

Status load_template(Screen *screen, const Settings *settings, const Engine *engine,
                     ChatTemplate **chat_template, Error *error) {
    const char *name = settings->model.template;
    const Tokenizer *tokenizer = engine_tokenizer(engine);
    Status status;
    if (name && *name && strcmp(name, "auto")) {
        status = chat_template_open(name, chat_template, error);
        const char *piece = status ? NULL : chat_template_lacking(*chat_template, tokenizer);
        if (piece)
            screen_warn(
                screen,
                "[template %s: the model's vocabulary has no %s; it is spelled as text, which the model may "
                "not understand]",
                chat_template_name(*chat_template), piece);
        return status;
    }
    bool recognised;
    const char *jinja = engine_jinja_template(engine);
    status = chat_template_recognise(jinja, tokenizer, chat_template, &recognised, error);
    if (status == STATUS_OK && !recognised)
        screen_warn(screen, "[%s: this chat uses %s; --template chooses another]",
                    jinja ? "the model's chat template is not one that palaver knows"
                          : "the model has no chat template",
                    chat_template_name(*chat_template));
    return status;
}
