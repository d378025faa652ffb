// The template for a model: what --template or the settings name, else the model's own, which
// tokenizer/chat/chat_recognise.c matches with those of config/chat, or has executed.
#include "app/loading/choose_template.h"

#include "app/terminal/encoding.h"
#include "kernels/base/file.h"
#include "kernels/base/path.h"

#include <stdlib.h>
#include <string.h>

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
    if (path && file_read(path, MAX_TEMPLATE, &text, &size, error)) return error->status; // it names the path
    if (text) encoding_drop_mark(text, &size);
    Status status = STATUS_OK;
    if (!path && !jinja) status = error_set(error, STATUS_USAGE, "the model has no chat template to execute");
    if (!status)
        status =
            chat_template_open_jinja(path ? text : jinja, engine_tokenizer(engine), chat_template, error);
    if (status && path) error_prefix(error, "%s: ", path);
    free(text);
    return status;
}

Status choose_template(Screen *screen, const Settings *settings, const Engine *engine,
                       ChatTemplate **chat_template, Error *error) {
    char whole[PATH_ROOM];
    const char *name = path_in_home(settings->model.template, whole);
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
    if (choose_template_settings(settings, engine, *chat_template, &problem))
        screen_warn(screen, "[%s]", problem.message);
    return STATUS_OK;
}

Status choose_template_settings(const Settings *settings, const Engine *engine, ChatTemplate *chat_template,
                                Error *error) {
    return chat_template_set(chat_template, engine_tokenizer(engine), settings->model.template_args,
                             settings->model.thinking, error);
}
