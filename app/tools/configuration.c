#include "app/tools/configuration.h"

#include "app/terminal/text_shown.h"
#include "engine/model/model.h"

#include <stdlib.h>
#include <string.h>

// A TOML file of every key with its value and where it comes from; `model` says in the first line whom they are for.
static Status print_keys(const Config *config, const char *model, FILE *out, Error *error) {
    size_t n = config->table->n_keys;
    const ConfigKey *keys = config->table->keys;
    fputs("# ", out);
    text_print_escaped(out, model, strlen(model));
    fputc('\n', out);
    for (size_t i = 0; i < n; i++) {
        char *value = config_value_text(config, &keys[i]);
        const char *origin = config_origin(config, &keys[i]);
        if (!value) return error_set(error, STATUS_MEMORY, "out of memory");
        if (!i || strcmp(keys[i].section, keys[i - 1].section)) fprintf(out, "\n[%s]\n", keys[i].section);
        fprintf(out, "%-17s = %-20s # ", keys[i].name, value);
        text_print_escaped(out, origin, strlen(origin));
        fputc('\n', out);
        free(value);
    }
    return STATUS_OK;
}

static int print_default(const Program *program) {
    Error error;
    char *text = config_default_text(settings_table());
    if (!text) {
        error_set(&error, STATUS_MEMORY, "no memory for the settings");
        return program_fail(program, &error, EXIT_RUNTIME);
    }
    fputs(text, stdout);
    free(text);
    return EXIT_WELL;
}

// What the chat would be set to: with the model that it would take, as far as there is one.
static int print_config(Program *program) {
    Error error;
    Model *model;
    char heading[PATH_ROOM + 32] = "without a model";
    Status status = program_find_model(program, NULL, &error);
    if (!status && !(status = model_open(program->model, &model, &error))) {
        snprintf(heading, sizeof heading, "of a chat with %s", text_path(program->model).text);
        status = load_recommendations(&program->settings.config, program->model, model, &error);
        model_close(model);
        if (status) return program_fail(program, &error, EXIT_USAGE);
    }
    if (status && program->options.model) return program_fail(program, &error, EXIT_MODEL);
    if (status) screen_warn(program->screen, "[what a model recommends is not in here: %s]", error.message);
    return program_finish(program, print_keys(&program->settings.config, heading, stdout, &error), &error);
}

int configuration_main(Program *program) {
    return program->options.print_default ? print_default(program) : print_config(program);
}
