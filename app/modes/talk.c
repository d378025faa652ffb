// A chat from the command line: with which conversation and which model, in which of the modes.
#include "app/commands/argument.h"
#include "app/models/models.h"
#include "app/modes/modes.h"
#include "app/terminal/text_shown.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Status set_system(Chat *chat, Error *error) {
    char *system;
    if (!chat_options(chat)->system) return STATUS_OK;
    Status status = argument_read_system("--system", chat_options(chat)->system,
                                         chat_settings(chat)->ui.encoding, &system, error);
    if (status) return status;
    // The same again is no other one: what has left the window comes back by /system alone.
    const bool other = !status && strcmp(system, transcript_system(chat_transcript(chat)));
    if (other) status = transcript_set_system(chat_transcript(chat), system, error);
    if (other && !status) status = conversation_set_system(chat_conversation(chat), system, error);
    free(system);
    return status;
}

static int talk_through(Chat *chat) {
    if (chat_options(chat)->prompt) return ask_run(chat, chat_options(chat)->prompt);
    return chat_is_interactive(chat) ? repl_run(chat) : script_run(chat, STDIN_FILENO, "stdin");
}

// An operand behind --resume is a conversation's name or a model's, whichever there is.
static Status tell_apart(Program *program, Error *error) {
    Options *options = &program->options;
    const char *name = options->resume_operand;
    if (!name) return STATUS_OK;
    bool talk = journal_is_named(name), model = !models_path(name, NULL, program->model, error);
    if (talk && model)
        return error_set(error, STATUS_USAGE,
                         "%s is a conversation and a model: --resume=%s, or --resume behind the model", name,
                         name);
    if (!talk && !model) return error_prefix(error, "there is no conversation of this name, nor a model: ");
    if (talk) options->resume_name = name, options->model = NULL;
    return STATUS_OK;
}

// Where --resume says so: the conversation that goes on, else NULLs.
static Status find_record(const Program *program, Journal **journal, Transcript **transcript, Error *error) {
    *journal = NULL;
    *transcript = NULL;
    if (!program->options.resume) return STATUS_OK;
    Status status = journal_resume(program->options.resume_name, journal, transcript, error);
    if (!status && *journal_note(*journal)) screen_warn(program->screen, "[%s]", journal_note(*journal));
    return status;
}

// What can be known to be wrong before a model is there; then the model. Returns the exit status.
static int prepare(Program *program, const Transcript *transcript) {
    Error error = {0};
    const char *asked = program->options.prompt ? program->options.prompt : "";
    const char *resumed = transcript ? transcript_header(transcript).model.path : "";
    if (text_check("-p", asked, strlen(asked), &error)) return program_fail(program, &error, EXIT_USAGE);
    if (program_find_model(program, *resumed ? resumed : NULL, &error))
        return program_fail(program, &error, EXIT_MODEL);
    Status status = program_load_guesser(program, &error);
    if (!status)
        status = program_load_model(program, &error); // a context or a cache that cannot be: STATUS_USAGE
    if (status) return program_fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    return EXIT_WELL;
}

// What becomes of the exit status where the journal lacks something. Nobody asked for the journal of a single new
// question: its answer is what counts, and what is missing was told.
static int end_unkept(Program *program, const Chat *chat, int result) {
    if (*chat_record_name(chat))
        screen_error(program->screen, "the end of this conversation could not be kept");
    else if (chat_is_interactive(chat))
        screen_error(program->screen, "this conversation could not be kept");
    bool only_answer = program->options.prompt && !program->options.resume;
    return result == EXIT_WELL && !only_answer ? EXIT_RUNTIME : result;
}

// Opens the chat with what was prepared, talks, and closes it.
static int talk(Program *program, Journal *journal, Transcript *transcript) {
    const ScreenTraits *traits = screen_traits(program->screen);
    const ChatOpening with = {.options = &program->options,
                              .settings = &program->settings,
                              .screen = program->screen,
                              .model = program->model,
                              .interactive = !program->options.prompt && traits->input_terminal &&
                                             traits->reply_terminal,
                              .engine = program->engine,
                              .guesser = program->guesser,
                              .journal = journal,
                              .transcript = transcript};
    Chat *chat;
    Error error = {0};
    if (with.interactive && (program->options.echo || program->options.keep_going))
        screen_notice(program->screen, "[--echo and --keep-going are for scripts: they change nothing here]");
    if (!with.interactive && !program->options.prompt && traits->input_terminal)
        screen_notice(program->screen,
                      "[stdout is no terminal: each line is a turn, as in a script; Ctrl-D ends it]");
    program->engine = NULL;
    Status status = chat_open(&with, &chat, &error);
    if (!status) status = set_system(chat, &error);
    int result;
    if (status)
        result =
            program_fail(program, &error,
                         status == STATUS_USAGE || status == STATUS_UNSUPPORTED ? EXIT_USAGE : EXIT_RUNTIME);
    else
        result = talk_through(chat);
    if (!status && !chat_record_is_kept(chat)) result = end_unkept(program, chat, result);
    chat_close(chat);
    return result;
}

int talk_main(Program *program) {
    Error error = {0};
    Journal *journal;
    Transcript *transcript;
    if (tell_apart(program, &error))
        return program_fail(program, &error, error.status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    if (find_record(program, &journal, &transcript, &error))
        return program_fail(program, &error, error.status == STATUS_USAGE ? EXIT_USAGE : EXIT_RUNTIME);
    int result = prepare(program, transcript);
    if (result == EXIT_WELL) return talk(program, journal, transcript);
    journal_close(journal);
    transcript_free(transcript);
    return result;
}
