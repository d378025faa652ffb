// A chat from the command line: with which conversation and which model, in which of the modes.
#include "app/commands/argument.h"
#include "app/modes/modes.h"
#include "app/terminal/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Status set_system(Chat *chat, Error *error) {
    char *system;
    if (!chat->options->system) return STATUS_OK;
    Status status = argument_read_system("--system", chat->options->system, &system, error);
    if (status) return status;
    status = transcript_set_system(chat->transcript, system, error);
    if (status == STATUS_OK) status = conversation_set_system(chat->conversation, system, error);
    free(system);
    return status;
}

static int talk_through(Chat *chat) {
    if (chat->options->prompt) return ask_run(chat, chat->options->prompt);
    return chat->interactive ? repl_run(chat) : script_run(chat, STDIN_FILENO, "stdin");
}

// An operand behind --resume is a conversation's name or a model's, whichever there is.
static Status tell_apart(Program *program, Error *error) {
    Options *options = &program->options;
    const char *name = options->resume_operand;
    if (!name) return STATUS_OK;
    bool talk = journal_is_named(name), model = !path_find_model(name, NULL, program->model, error);
    if (talk && model)
        return error_set(error, STATUS_USAGE,
                         "%s is a conversation and a model: --resume=%s, or --resume behind the model", name,
                         name);
    if (!talk && !model) return error_prefix(error, "there is no conversation of this name, nor a model: ");
    if (talk) options->resume_name = name, options->model = NULL;
    return STATUS_OK;
}

int talk_main(Program *program) {
    const ScreenTraits *traits = screen_traits(program->screen);
    Error error = {0};
    Journal *journal = NULL;
    Transcript *transcript = NULL;
    const char *resumed = NULL;
    if (tell_apart(program, &error))
        return program_fail(program, &error, error.status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    if (program->options.resume) {
        if (journal_resume(program->options.resume_name, &journal, &transcript, &error))
            return program_fail(program, &error, error.status == STATUS_USAGE ? EXIT_USAGE : EXIT_RUNTIME);
        if (*journal_note(journal)) screen_warn(program->screen, "[%s]", journal_note(journal));
        resumed = transcript_header(transcript).model.path;
        if (!*resumed) resumed = NULL;
    }
    Chat chat = {.options = &program->options,
                 .settings = &program->settings,
                 .screen = program->screen,
                 .model_path = program->model,
                 .interactive = !program->options.prompt && traits->input_terminal && traits->reply_terminal};
    const char *asked = program->options.prompt ? program->options.prompt : "";
    Status status = program_check_settings(program, &error);
    if (status == STATUS_OK) status = text_check("-p", asked, strlen(asked), &error);
    int result = EXIT_USAGE;
    if (status == STATUS_OK) {
        result = EXIT_MODEL;
        status = program_find_model(program, resumed, &error);
        if (status == STATUS_OK && (status = program_load_model(program, &error)) == STATUS_USAGE)
            result = EXIT_USAGE; // a context or a cache that cannot be
        chat.engine = program->engine;
    }
    if (status) {
        journal_close(journal);
        transcript_free(transcript);
        return program_fail(program, &error, result);
    }
    if (chat.interactive && (program->options.echo || program->options.keep_going))
        screen_notice(program->screen, "[--echo and --keep-going are for scripts: they change nothing here]");
    status = chat_open(&chat, journal, transcript, &error);
    if (status == STATUS_OK) status = set_system(&chat, &error);
    if (status)
        result =
            program_fail(program, &error,
                         status == STATUS_USAGE || status == STATUS_UNSUPPORTED ? EXIT_USAGE : EXIT_RUNTIME);
    else
        result = talk_through(&chat);
    if (!status && !chat_is_kept(&chat)) {
        if (*journal_name(chat.journal))
            screen_error(chat.screen, "the end of this conversation could not be kept");
        if (result == EXIT_WELL) result = EXIT_RUNTIME;
    }
    chat_close(&chat);
    program->engine = chat.engine; // /model may have changed it
    return result;
}
