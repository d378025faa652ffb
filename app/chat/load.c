#include "app/chat/load.h"

#include "app/chat/chat.h"
#include "kernels/base/paths.h"
#include "app/signals.h"

#include <string.h>

Status load_recommendations(Config *config, const char *path, const Model *model, Error *error) {
    char beside[PATH_ROOM];
    config_apply_model(config, model);
    if (!path_model_settings(path, beside)) return STATUS_OK;
    return config_apply_file(config, CONFIG_MODEL, beside, error);
}

CacheOptions load_cache_options(const CacheConfig *config, LoadRoom room) {
    static const DType types[] = {[CONFIG_CACHE_F16] = DTYPE_F16,
                                  [CONFIG_CACHE_F32] = DTYPE_F32,
                                  [CONFIG_CACHE_INT8] = DTYPE_INT8,
                                  [CONFIG_CACHE_INT4] = DTYPE_INT4};
    return (CacheOptions){.type = types[config->type],
                          .group = (int)config->group,
                          .layout = (int)config->layout,
                          .paged = config->paged || room.n_rows > 0,
                          .page_size = (int)config->page_size,
                          .n_sequences = room.n_sequences};
}

static bool on_progress(void *user, const char *what, int64_t done, int64_t total) {
    screen_progress(user, what, (uint64_t)done, (uint64_t)total);
    return !*signals_interrupt();
}

Progress load_progress(Screen *screen) {
    return (Progress){on_progress, screen};
}

Status load_engine(Screen *screen, Config *config, const char *path, LoadRoom room, Engine **engine,
                   Error *error) {
    EngineOptions options = {.model = path,
                             .device = config->backend.device,
                             .n_threads = (int)config->backend.threads,
                             .context_size = (int)config->context.size,
                             .cache = load_cache_options(&config->cache, room),
                             .n_rows = room.n_rows,
                             .progress = load_progress(screen)};
    Status status = engine_open(&options, engine, error);
    screen_progress_end(screen);
    if (status) return status;
    status = load_recommendations(config, path, engine_model(*engine), error);
    if (status) {
        engine_close(*engine);
        *engine = NULL;
        return status;
    }
    const char *notice = tokenizer_notice(engine_tokenizer(*engine));
    if (notice) screen_warn(screen, "[%s]", notice);
    return STATUS_OK;
}

Status load_template(Screen *screen, const Config *config, const Engine *engine, ChatTemplate **chat_template,
                     Error *error) {
    const char *name = config->model.template;
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
