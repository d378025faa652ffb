#include "app/program.h"

#include "app/models/models.h"
#include "app/process/signals.h"
#include "engine/tuning/tuning.h"
#include "kernels/base/text/quote.h"

#include <string.h>

enum { ROWS = 16 }; // of --jsonl without --parallel

int program_fail(const Program *program, const Error *error, int status) {
    screen_error(program->screen, "%s", error->message);
    return error->status == STATUS_INTERRUPTED ? exit_status_of_interrupt() : status;
}

int program_finish(const Program *program, Status status, const Error *error) {
    if (!status) return EXIT_WELL;
    return program_fail(program, error,
                        status == STATUS_FILE || status == STATUS_UNSUPPORTED ? EXIT_MODEL : EXIT_RUNTIME);
}

Status program_find_model(Program *program, const char *resumed, Error *error) {
    const char *name = program->options.model;
    char folder[PATH_ROOM];
    bool configured = !name && !resumed && *program->settings.model.path;
    if (!name) name = resumed;
    if (configured) name = program->settings.model.path;
    Status status = models_path(name, path_program(folder) ? folder : NULL, program->model, error);
    if (status && configured)
        return error_prefix(error, "the default model (model.path of %.200s): ",
                            config_origin(&program->settings.config, settings_key("model.path")));
    if (status && name && name == resumed)
        return error_prefix(error, "the model of this conversation (palaver MODEL --resume takes another): ");
    const bool typed = status == STATUS_FILE && name && name == program->options.model;
    const char *command =
        typed && program->options.command == COMMAND_CHAT ? options_nearest_command(name) : NULL;
    if (command)
        return error_set(error, STATUS_FILE,
                         "%s: no such command, nor a model that is here: did you mean \"palaver %s\"?",
                         quote(name).text, command);
    if (status && name && strchr(name, ' '))
        return error_set(error, STATUS_FILE, "%s: no such model; a question goes behind -p: palaver -p '%s'",
                         quote(name).text, quote(name).text);
    if (status) return status;
    path_make_absolute(program->model);
    if (!name && path_is_bundled(program->model))
        screen_notice(program->screen, "[this is " BUNDLED_MODEL
                                       ", the small model that comes with palaver; `make model` fetches "
                                       "a better one]");
    return STATUS_OK;
}

LoadRoom program_room(const Program *program) {
    const Options *options = &program->options;
    int rows = options->parallel ? options->parallel : options->jsonl ? ROWS : 0;
    if (options->command == COMMAND_TUNE || options->dispatch) return (LoadRoom){1, TUNING_MOST_ROWS, NULL};
    if (rows) return (LoadRoom){rows, rows, NULL};
    return (LoadRoom){.n_sequences = options->against ? 2 : 1};
}

Status program_load_guesser(Program *program, Error *error) {
    const Settings *settings = &program->settings;
    if (!*settings->model.draft) return STATUS_OK;
    if (settings->talk.drafts == 0) {
        screen_notice(program->screen, "[nothing is guessed (drafts = 0): model.draft is left alone]");
        return STATUS_OK;
    }
    return load_guesser(program->screen, settings, &program->guesser, error)
               ? error_prefix(error, "the model that guesses (model.draft): ")
               : STATUS_OK;
}

Status program_load_model(Program *program, Error *error) {
    LoadRoom room = program_room(program);
    room.beside = program->guesser;
    return load_engine(program->screen, &program->settings, program->model, room, &program->engine, error);
}
