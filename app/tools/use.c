#include "app/tools/use.h"

#include "app/models/default_model.h"
#include "app/models/facts.h"
#include "app/models/models.h"
#include "app/terminal/text_shown.h"

#include <string.h>
#include <unistd.h>

// What is kept of a name: a path is kept whole, a model's name as the list has it. `path` [PATH_ROOM] is where it is.
static Status name_to_keep(const char *name, char *kept, char *path, Error *error) {
    char folder[PATH_ROOM], other[PATH_ROOM];
    ModelList list;
    size_t index = 0;
    if (strlen(name) >= PATH_ROOM) return path_too_long(name, error);
    strcpy(kept, path_meant(name, other));
    if (!access(kept, F_OK)) {
        path_make_absolute(kept);
        strcpy(path, kept);
        return STATUS_OK;
    }
    Status status = models_find(path_program(folder) ? folder : NULL, &list, error);
    if (status) return status;
    status = models_choose(&list, name, &index, error);
    const ModelEntry *entry = &list.entries[index];
    if (!status && (strlen(entry->name) >= PATH_ROOM || strlen(entry->path) >= PATH_ROOM))
        status = path_too_long(entry->path, error);
    if (!status) {
        strcpy(kept, entry->name);
        strcpy(path, entry->path);
    }
    models_free(&list);
    return status;
}

// What is kept as it is shown: a path, for a name is spelled as the list has it.
static TextEscaped shown(const char *kept) {
    return *kept && strchr("./~", *kept) ? text_path(kept) : text_escaped(kept);
}

// What palaver cannot take is no default: each later start would fail.
static Status check_usable(const Program *program, const char *kept, const char *path, Error *error) {
    ModelFacts facts;
    facts_of_model(path, &program->settings.engine, &facts);
    return *facts.problem ? error_set(error, STATUS_FILE, "%.200s cannot be the default: %s",
                                      shown(kept).text, facts.problem)
                          : STATUS_OK;
}

// The default as it is now, with its origin.
static int tell(Program *program) {
    Error error;
    const Config *config = &program->settings.config;
    if (program_find_model(program, NULL, &error)) return program_fail(program, &error, EXIT_MODEL);
    const char *name = *program->settings.model.path ? program->settings.model.path : program->model;
    screen_say(program->screen, "%s (%s)", shown(name).text,
               text_escaped(config_origin(config, settings_key("model.path"))).text);
    return EXIT_WELL;
}

int use_main(Program *program) {
    char kept[PATH_ROOM], path[PATH_ROOM];
    Error error;
    if (!program->options.model) return tell(program);
    Status status = name_to_keep(program->options.model, kept, path, &error);
    if (!status) status = check_usable(program, kept, path, &error);
    if (status) return program_fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    if (default_model_keep(kept, path, &error)) return program_fail(program, &error, EXIT_RUNTIME);
    screen_say(program->screen, "%s is the default now (%s)", shown(kept).text, text_path(path).text);
    const Settings *settings = &program->settings;
    const char *origin = config_origin(&settings->config, settings_key("model.path"));
    if (config_origin_layer(&settings->config, settings_key("model.path")) != CONFIG_BUILTIN &&
        !strstr(origin, "default-model.toml"))
        screen_warn(program->screen, "[%s says model.path = \"%s\", which counts more]",
                    text_escaped(origin).text, shown(settings->model.path).text);
    return EXIT_WELL;
}
