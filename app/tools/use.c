#include "app/tools/use.h"

#include "app/models/default_model.h"
#include "app/models/models.h"

#include <string.h>
#include <unistd.h>

// What is kept of a name: a path is kept whole, a model's name as the list has it.
static Status name_to_keep(const char *name, char *kept, Error *error) {
    char folder[PATH_ROOM];
    ModelList list;
    size_t index = 0;
    if (strlen(name) >= PATH_ROOM) return path_too_long(name, error);
    strcpy(kept, name);
    if (!access(name, F_OK)) {
        path_make_absolute(kept);
        return STATUS_OK;
    }
    Status status = models_find(path_program(folder) ? folder : NULL, &list, error);
    if (status) return status;
    status = models_choose(&list, name, &index, error);
    if (!status && strlen(list.entries[index].name) >= PATH_ROOM)
        status = path_too_long(list.entries[index].name, error);
    if (!status) strcpy(kept, list.entries[index].name);
    models_free(&list);
    return status;
}

// The default as it is now, with its origin.
static int tell(Program *program) {
    Error error;
    const Config *config = &program->settings.config;
    if (program_find_model(program, NULL, &error)) return program_fail(program, &error, EXIT_MODEL);
    const char *name = *program->settings.model.path ? program->settings.model.path : program->model;
    screen_say(program->screen, "%s (%s)", name, config_origin(config, settings_key("model.path")));
    return EXIT_WELL;
}

int use_main(Program *program) {
    char kept[PATH_ROOM], path[PATH_ROOM];
    Error error;
    if (!program->options.model) return tell(program);
    Status status = name_to_keep(program->options.model, kept, &error);
    if (status) return program_fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    if (default_model_keep(kept, path, &error)) return program_fail(program, &error, EXIT_RUNTIME);
    screen_say(program->screen, "%s is the default now (%s)", kept, path);
    const Settings *settings = &program->settings;
    const char *origin = config_origin(&settings->config, settings_key("model.path"));
    if (config_origin_layer(&settings->config, settings_key("model.path")) != CONFIG_BUILTIN &&
        !strstr(origin, "default-model.toml"))
        screen_warn(program->screen, "[%s says model.path = \"%s\", which counts more]", origin,
                    settings->model.path);
    return EXIT_WELL;
}
