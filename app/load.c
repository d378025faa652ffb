#include "app/load.h"

#include "kernels/base/file.h"
#include "kernels/base/path.h"
#include "app/signals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

CacheOptions load_cache_options(Screen *screen, const Settings *settings, LoadRoom room) {
    CacheOptions options = settings->engine.cache;
    if (room.n_rows > 0 && !options.paged)
        screen_notice(screen, "[the cache is in pages all the same: conversations at once need them]");
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
    options.cache = load_cache_options(screen, settings, room);
    options.n_rows = room.n_rows;
    options.progress = load_progress(screen);
    options.interrupt = signals_interrupt();
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

enum { MAX_TEMPLATE = 4 << 20 };

// A built-in template by its name, or a TOML file.
static Status open_named(Screen *screen, const char *name, const Tokenizer *tokenizer,
                         ChatTemplate **chat_template, Error *error) {
    Status status = chat_template_open(name, chat_template, error);
    const char *piece = status ? NULL : chat_template_lacking(*chat_template, tokenizer);
    if (piece)
        screen_warn(
            screen,
            "[template %s: the model's vocabulary has no %s; it is spelled as text, which the model may "
            "not understand]",
            chat_template_name(*chat_template), piece);
    return status;
}

// A Jinja file, or (NULL) the model's own text, executed whatever it amounts to.
static Status open_executed(const char *path, const Engine *engine, ChatTemplate **chat_template,
                            Error *error) {
    const char *jinja = engine_jinja_template(engine);
    char *text = NULL;
    size_t size;
    Status status = path ? file_read(path, MAX_TEMPLATE, &text, &size, error) : STATUS_OK;
    if (!status && !path && !jinja)
        status = error_set(error, STATUS_USAGE, "the model has no chat template to execute");
    if (!status)
        status =
            chat_template_open_jinja(path ? text : jinja, engine_tokenizer(engine), chat_template, error);
    if (status && path) error_prefix(error, "%s: ", path);
    free(text);
    return status;
}

Status load_template(Screen *screen, const Settings *settings, const Engine *engine,
                     ChatTemplate **chat_template, Error *error) {
    const char *name = settings->model.template;
    const Tokenizer *tokenizer = engine_tokenizer(engine);
    size_t length = strlen(name);
    Status status;
    if (!strcmp(name, "jinja"))
        status = open_executed(NULL, engine, chat_template, error);
    else if (length > 6 && !strcmp(name + length - 6, ".jinja"))
        status = open_executed(name, engine, chat_template, error);
    else if (strcmp(name, "auto") != 0)
        status = open_named(screen, name, tokenizer, chat_template, error);
    else
        status = chat_template_recognise(engine_jinja_template(engine), tokenizer, chat_template, error);
    if (status) return status;
    if (chat_template_notice(*chat_template))
        screen_warn(screen, "[%s]", chat_template_notice(*chat_template));
    Error problem; // with this model; the settings may be for another
    if (load_template_settings(settings, engine, *chat_template, &problem))
        screen_warn(screen, "[%s]", problem.message);
    return STATUS_OK;
}

Status load_template_settings(const Settings *settings, const Engine *engine, ChatTemplate *chat_template,
                              Error *error) {
    return chat_template_set(chat_template, engine_tokenizer(engine), settings->model.template_args,
                             settings->model.thinking, error);
}
