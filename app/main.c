// palaver: parse → configure → load → talk.
#include "app/tools/bench.h"
#include "app/commands/commands.h"
#include "app/tools/inspect.h"
#include "app/chat/load.h"
#include "app/last_words.h"
#include "app/memory.h"
#include "app/modes/modes.h"
#include "kernels/base/file.h"
#include "kernels/base/path.h"
#include "app/tools/perplexity.h"
#include "app/signals.h"
#include "app/terminal/text.h"
#include "app/tools/effective.h"
#include "engine/model/model_shape.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_LIMIT = 1 << 30, ROWS = 16 /* of --jsonl without --parallel */ };

typedef struct Program {
    Options options;
    Settings settings;
    Screen *screen;
    Engine *engine;
    char model[PATH_ROOM];
} Program;

static int fail(const Program *program, const Error *error, int status) {
    screen_error(program->screen, "%s", error->message);
    if (error->status == STATUS_INTERRUPTED)
        status = signals_leave() ? EXIT_SIGNAL + signals_leave() : EXIT_INTERRUPTED;
    return status;
}

// ---- configuration ----------------------------------------------------------------------------------------

// Every layer below the session, lowest first; the model's own comes when the model is there.
static Status load_config(Program *program, Error *error) {
    const Options *options = &program->options;
    Config *config = &program->settings.config;
    if (config_apply_user_files(config, error)) return error->status;
    for (int i = 0; i < options->n_files; i++)
        if (config_apply_file(config, CONFIG_FILES, options->files[i], error)) return error->status;
    if (options->profile && config_apply_profile(config, CONFIG_PROFILE, options->profile, error))
        return error->status;
    if (config_apply_environment(config, environ, error)) return error->status;
    for (int i = 0; i < options->n_settings; i++)
        if (config_set(config, CONFIG_FLAGS, options->settings[i].key->name, options->settings[i].text,
                       error))
            return error->status;
    return STATUS_OK;
}

// How things are shown; what was said before was said as a terminal without wishes has it.
static void set_screen(const Program *program) {
    screen_set_options(program->screen, &(const ScreenOptions){.color = program->settings.ui.color,
                                                               .plain = program->options.plain});
}

// ---- the model --------------------------------------------------------------------------------------------

static Status find_model(Program *program, const char *resumed, Error *error) {
    const char *name = program->options.model;
    char folder[PATH_ROOM];
    if (!name) name = resumed;
    if (!name && *program->settings.model.path) name = program->settings.model.path;
    Status status = path_find_model(name, path_program(folder) ? folder : NULL, program->model, error);
    if (status && name && name == resumed)
        return error_prefix(error, "the model of this conversation (palaver MODEL --resume takes another): ");
    if (status) return status;
    path_make_absolute(program->model);
    if (!name && path_is_bundled(program->model))
        screen_notice(program->screen, "[this is " BUNDLED_MODEL
                                       ", the small model that comes with palaver; `make model` fetches "
                                       "a better one]");
    return STATUS_OK;
}

// What the configuration can say, but this version cannot do.
static Status check_settings(const Settings *settings, Error *error) {
    if (settings->model.weights != 0)
        return error_set(error, STATUS_UNSUPPORTED, "model.weights: this version takes weights \"as-is\"");
    return STATUS_OK;
}

// Two conversations of the full size are compared, many decoded together.
static LoadRoom room_for(const Options *options) {
    int rows = options->parallel ? options->parallel : options->jsonl ? ROWS : 0;
    if (rows) return (LoadRoom){rows, rows};
    return (LoadRoom){.n_sequences = options->against ? 2 : 1};
}

static Status load_model(Program *program, Error *error) {
    return load_engine(program->screen, &program->settings, program->model, room_for(&program->options),
                       &program->engine, error);
}

// ---- chat -------------------------------------------------------------------------------------------------

static Status set_system(Chat *chat, Error *error) {
    char *system;
    if (!chat->options->system) return STATUS_OK;
    Status status = commands_read_system("--system", chat->options->system, &system, error);
    if (status) return status;
    status = transcript_set_system(chat->transcript, system, error);
    if (status == STATUS_OK) status = conversation_set_system(chat->conversation, system, error);
    free(system);
    return status;
}

static int talk(Chat *chat) {
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

static int run_chat(Program *program) {
    const ScreenTraits *traits = screen_traits(program->screen);
    Error error = {0};
    Journal *journal = NULL;
    Transcript *transcript = NULL;
    const char *resumed = NULL;
    if (tell_apart(program, &error))
        return fail(program, &error, error.status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    if (program->options.resume) {
        if (journal_resume(program->options.resume_name, &journal, &transcript, &error))
            return fail(program, &error, error.status == STATUS_USAGE ? EXIT_USAGE : EXIT_RUNTIME);
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
    Status status = check_settings(&program->settings, &error);
    if (status == STATUS_OK) status = text_check("-p", asked, strlen(asked), &error);
    int result = EXIT_USAGE;
    if (status == STATUS_OK) {
        result = EXIT_MODEL;
        status = find_model(program, resumed, &error);
        if (status == STATUS_OK && (status = load_model(program, &error)) == STATUS_USAGE)
            result = EXIT_USAGE; // a context or a cache that cannot be
        chat.engine = program->engine;
    }
    if (status) {
        journal_close(journal);
        transcript_free(transcript);
        return fail(program, &error, result);
    }
    if (chat.interactive && (program->options.echo || program->options.keep_going))
        screen_notice(program->screen, "[--echo and --keep-going are for scripts: they change nothing here]");
    status = chat_open(&chat, journal, transcript, &error);
    if (status == STATUS_OK) status = set_system(&chat, &error);
    if (status)
        result = fail(program, &error,
                      status == STATUS_USAGE || status == STATUS_UNSUPPORTED ? EXIT_USAGE : EXIT_RUNTIME);
    else
        result = talk(&chat);
    if (!status && !chat_is_kept(&chat)) {
        if (*journal_name(chat.journal))
            screen_error(chat.screen, "the end of this conversation could not be kept");
        if (result == EXIT_WELL) result = EXIT_RUNTIME;
    }
    chat_close(&chat);
    program->engine = chat.engine; // /model may have changed it
    return result;
}

static int run_jsonl(Program *program) {
    Error error;
    if (check_settings(&program->settings, &error)) return fail(program, &error, EXIT_USAGE);
    if (find_model(program, NULL, &error)) return fail(program, &error, EXIT_MODEL);
    Status status = load_model(program, &error);
    if (status) return fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    const Engine *engine = program->engine;
    if (engine_windows(engine) < engine_rows(engine))
        screen_notice(program->screen,
                      "[the cache has room for %d whole windows of %d tokens, for %d conversations at once]",
                      engine_windows(engine), engine_context_size(engine), engine_rows(engine));
    return jsonl_run(&program->options, &program->settings, program->screen, program->engine);
}

// ---- the other subcommands --------------------------------------------------------------------------------

static int finish(const Program *program, Status status, const Error *error) {
    if (status == STATUS_OK) return EXIT_WELL;
    return fail(program, error,
                status == STATUS_FILE || status == STATUS_UNSUPPORTED ? EXIT_MODEL : EXIT_RUNTIME);
}

static int print_default(const Program *program) {
    Error error;
    char *text = config_default_text(settings_table());
    if (!text) {
        error_set(&error, STATUS_MEMORY, "no memory for the settings");
        return fail(program, &error, EXIT_RUNTIME);
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
    Status status = find_model(program, NULL, &error);
    if (status == STATUS_OK && (status = model_open(program->model, &model, &error)) == STATUS_OK) {
        snprintf(heading, sizeof heading, "of a chat with %s", program->model);
        status = load_recommendations(&program->settings.config, program->model, model, &error);
        model_close(model);
        if (status) return fail(program, &error, EXIT_USAGE);
    }
    if (status && program->options.model) return fail(program, &error, EXIT_MODEL);
    if (status) screen_warn(program->screen, "[what a model recommends is not in here: %s]", error.message);
    return finish(program, effective_print(&program->settings.config, heading, stdout, &error), &error);
}

static int run_tokenize(Program *program) {
    Error error;
    const char *text = program->options.argument;
    char *piped = NULL;
    size_t size = text ? strlen(text) : 0;
    if (!text && file_read("/dev/stdin", TEXT_LIMIT, &piped, &size, &error))
        return fail(program, &error, EXIT_RUNTIME);
    Status status = inspect_tokens(program->model, text ? text : piped, size, stdout, &error);
    free(piped);
    return finish(program, status, &error);
}

static Status perplexity_settings(Program *program, PerplexitySettings *settings, Error *error) {
    const char *against = program->options.against;
    *settings = (PerplexitySettings){.overflow = program->settings.talk.overflow,
                                     .compare = against != NULL,
                                     .progress = load_progress(program->screen)};
    while (against && strcmp(overflow_policy_name(settings->against), against) != 0)
        if (++settings->against == OVERFLOW_STOP)
            return error_set(error, STATUS_USAGE,
                             "--against %s: allowed are reevaluate, shift and shift-inplace", against);
    return STATUS_OK;
}

static Status measure_perplexity(Program *program, const PerplexitySettings *settings, Error *error) {
    char *text;
    size_t size;
    PerplexityReport report;
    Status status = file_read(program->options.argument, TEXT_LIMIT, &text, &size, error);
    if (status) return status;
    status = perplexity_measure(program->engine, text, size, settings, &report, error);
    screen_progress_end(program->screen);
    free(text);
    if (status == STATUS_OK) perplexity_print(&report, settings, stdout);
    return status;
}

// An engine over made-up weights of a known shape.
static Status open_shape(Program *program, Error *error) {
    const Options *o = &program->options;
    const char *name = o->shape_weights ? o->shape_weights : "bf16";
    DType type = DTYPE_F32;
    while (type < DTYPE_COUNT && strcmp(dtype_name(type), name) != 0) type++;
    if (type == DTYPE_COUNT)
        return error_set(error, STATUS_USAGE,
                         "--weights %s: no such type; f32, f16, bf16, q8_0, q4_0, … there are", name);
    Model *model;
    Status status = model_of_shape(o->shape, type, &model, error);
    if (status) return status;
    int decode = o->decode ? o->decode : 128, prefill = o->prefill ? o->prefill : 1024;
    int depth = o->depth ? o->depth : 1,
        longest = (o->parallel && depth < prefill ? prefill : depth) + decode;
    longest = (longest > prefill ? longest : prefill) + 8;
    EngineOptions options = program->settings.engine;
    if (options.context_size == 0) options.context_size = longest;
    options.cache = load_cache_options(program->screen, &program->settings, room_for(o));
    options.n_rows = o->parallel;
    options.chunk = 1024;
    options.random_weights = true;
    return engine_open_model(model, &options, &program->engine, error);
}

static int run_bench(Program *program) {
    Error error;
    const Options *o = &program->options;
    BenchSettings settings = {.prefill = o->prefill,
                              .decode = o->decode,
                              .depth = o->depth,
                              .profile = o->profile_ops,
                              .stream = o->stream,
                              .parallel = o->parallel,
                              .shared = o->shared,
                              .overflow = program->settings.talk.overflow};
    if (!settings.prefill && o->shape) settings.prefill = 1024;
    if (check_settings(&program->settings, &error)) return fail(program, &error, EXIT_USAGE);
    Status status = o->shape ? open_shape(program, &error) : load_model(program, &error);
    if (status) return fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    if (o->stream)
        settings_tell_of_window(&program->settings, program->engine, program->screen, &(SettingsTold){0});
    return finish(program, bench_run(program->engine, &settings, stdout, &error), &error);
}

static int run_perplexity(Program *program) {
    Error error;
    if (!program->options.argument) {
        error_set(&error, STATUS_USAGE, "perplexity needs a text: palaver perplexity MODEL FILE");
        return fail(program, &error, EXIT_USAGE);
    }
    PerplexitySettings settings;
    if (check_settings(&program->settings, &error) || perplexity_settings(program, &settings, &error))
        return fail(program, &error, EXIT_USAGE);
    Status status = load_model(program, &error);
    if (status) return fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    settings_tell_of_window(&program->settings, program->engine, program->screen, &(SettingsTold){0});
    status = measure_perplexity(program, &settings, &error);
    return status ? fail(program, &error, EXIT_RUNTIME)
                  : finish(program, status, &error); // the text is at fault
}

static int run_subcommand(Program *program) {
    Error error;
    if (program->options.command == COMMAND_CONFIG)
        return program->options.print_default ? print_default(program) : print_config(program);
    if (program->options.command == COMMAND_TUNE) {
        error_set(&error, STATUS_UNSUPPORTED,
                  "tune, which fills the dispatch table of a GPU, is not in this version");
        return fail(program, &error, EXIT_USAGE);
    }
    if (program->options.command == COMMAND_BENCH && program->options.shape) return run_bench(program);
    if (find_model(program, NULL, &error)) return fail(program, &error, EXIT_MODEL);
    switch (program->options.command) {
    case COMMAND_INSPECT:
        return finish(program, inspect_print(program->model, stdout, &error), &error);
    case COMMAND_TOKENIZE:
        return run_tokenize(program);
    case COMMAND_BENCH:
        return run_bench(program);
    default:
        return run_perplexity(program);
    }
}

static int run(Program *program) {
    Error error;
    Options *options = &program->options;
    if (load_config(program, &error))
        return fail(program, &error, error.status == STATUS_MEMORY ? EXIT_RUNTIME : EXIT_USAGE);
    set_screen(program);
    int result = options->command != COMMAND_CHAT ? run_subcommand(program)
                 : options->jsonl                 ? run_jsonl(program)
                                                  : run_chat(program);
    engine_close(program->engine);
    return result;
}

// A standard file that the caller has closed cannot be read or written, but no file of ours gets its number: else a journal
// would take what is said on stdout.
static void hold_standard_files(void) {
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0) (void)open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// Whether a reader of stdout, if it is a pipe, has left.
static bool reader_left(void) {
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR);
}

// Whatever was printed on stdout has arrived, or it is said and the exit status tells. stdio has forgotten why by now where
// it was not the last piece that failed. `| head` is no news, but the rest was not written all the same.
static int end_output(const Program *program, int result) {
    errno = 0;
    bool flushed = !fflush(stdout);
    int why = errno;
    if (flushed && !ferror(stdout)) return result;
    if (why != EPIPE && !reader_left())
        screen_error(program->screen, "stdout: %s",
                     flushed ? "it could not be written to the end" : strerror(why));
    return result == EXIT_WELL ? EXIT_RUNTIME : result;
}

int main(int argc, char **argv) {
    hold_standard_files();
    memory_guard_json(malloc);
    Program program = {0};
    Error error;
    int result = EXIT_USAGE;
    signals_install();
    last_words_install();
    if (screen_open(&(const ScreenOptions){0}, &program.screen, &error)) {
        fprintf(stderr, "palaver: %s\n", error.message);
        return EXIT_RUNTIME;
    }
    if (options_parse(argc, argv, &program.options, &error)) {
        screen_error(program.screen, "%s", error.message);
    } else if (program.options.command == COMMAND_HELP || program.options.command == COMMAND_VERSION) {
        (program.options.command == COMMAND_HELP ? options_print_help : options_print_version)(stdout);
        result = EXIT_WELL;
    } else if (settings_init(&program.settings, &error)) {
        result = fail(&program, &error, EXIT_RUNTIME);
    } else {
        result = run(&program);
        config_free(&program.settings.config);
    }
    options_free(&program.options);
    result = end_output(&program, result);
    screen_close(program.screen);
    return result;
}
