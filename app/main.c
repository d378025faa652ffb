// palaver: parse → configure → load → talk. Loading and talking are with the part that was asked for: see program.h.
#include "app/modes/modes.h"
#include "app/process/fatal.h"
#include "app/process/json_memory.h"
#include "app/process/output.h"
#include "app/process/signals.h"
#include "app/program.h"
#include "app/ranks/ranks.h"
#include "app/settings/settings_conversation.h"
#include "app/settings/settings_look.h"
#include "app/settings/settings_tell.h"
#include "app/tools/bench/bench.h"
#include "app/tools/configuration.h"
#include "app/tools/inspect.h"
#include "app/tools/list.h"
#include "app/tools/perplexity.h"
#include "app/tools/pull.h"
#include "app/tools/serve.h"
#include "app/tools/tokenize.h"
#include "app/tools/tune.h"
#include "app/tools/use.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static Status take_flag(Config *config, const OptionSetting *flag, Error *error) {
    char *piped;
    Status status = settings_take_piped(flag->key, flag->text, &piped, error);
    if (!status)
        status = config_set(config, CONFIG_FLAGS, flag->key->name, piped ? piped : flag->text, error);
    free(piped);
    return status;
}

// Every layer below the session, lowest first; the model's own comes when the model is there.
static Status load_config(Program *program, Error *error) {
    const Options *options = &program->options;
    Config *config = &program->settings.config;
    if (config_apply_user_files(config, error)) return error->status;
    for (int i = 0; i < options->n_files; i++)
        if (config_apply_named_file(config, CONFIG_FILES, options->files[i], error)) return error->status;
    if (options->profile && config_apply_profile(config, CONFIG_PROFILE, options->profile, error))
        return error->status;
    if (config_apply_environment(config, environ, error)) return error->status;
    for (int i = 0; i < options->n_settings; i++)
        if (take_flag(config, &options->settings[i], error)) return error->status;
    return STATUS_OK;
}

static int run_command(Program *program) {
    switch (program->options.command) {
    case COMMAND_INSPECT:
        return inspect_main(program);
    case COMMAND_TOKENIZE:
        return tokenize_main(program);
    case COMMAND_PERPLEXITY:
        return perplexity_main(program);
    case COMMAND_BENCH:
        return bench_main(program);
    case COMMAND_TUNE:
        return tune_main(program);
    case COMMAND_CONFIG:
        return configuration_main(program);
    case COMMAND_LIST:
        return list_main(program);
    case COMMAND_PULL:
        return pull_main(program);
    case COMMAND_USE:
        return use_main(program);
    default:
        return program->options.jsonl ? jsonl_main(program) : talk_main(program);
    }
}

static int run(Program *program) {
    Error error;
    if (load_config(program, &error))
        return program_fail(program, &error, error.status == STATUS_MEMORY ? EXIT_RUNTIME : EXIT_USAGE);
    // What was said before was said as a terminal without wishes has it.
    settings_look(&program->settings, (SettingsLook){program->options.plain, program->options.jsonl},
                  program->screen);
    EngineWorld world;
    RanksText text;
    if (ranks_find(&program->settings, program->screen, &world, &text, &error))
        return program_fail(program, &error, EXIT_USAGE);
    if (world.rank <= 0) settings_tell_variables(environ, program->screen);
    int result = world.rank > 0 ? serve_main(program, &world) : run_command(program);
    engine_close(program->engine);
    engine_close(program->guesser);
    return result;
}

// A standard file that the caller has closed cannot be read or written, but no file of ours gets its number: else a
// journal would take what is said on stdout.
static void hold_standard_files(void) {
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0) (void)open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// Whatever was printed on stdout has arrived, or it is said and the exit status tells.
static int end_output(const Program *program, const int *why, int result) {
    Error error;
    const Status status = output_close(why, &error);
    if (status == STATUS_FILE) screen_error(program->screen, "%s", error.message);
    return status && result == EXIT_WELL ? EXIT_RUNTIME : result;
}

int main(int argc, char **argv) {
    int why = 0; // stdout took no more
    hold_standard_files();
    output_open(&why);
    json_memory_guard(malloc);
    Program program = {0};
    Error error;
    int result = EXIT_USAGE;
    signals_install();
    fatal_install();
    if (screen_open(&(const ScreenOptions){0}, &program.screen, &error)) {
        fprintf(stderr, "palaver: %s\n", error.message);
        return EXIT_RUNTIME;
    }
    screen_watch_interrupt(program.screen, signals_interrupt());
    if (options_parse(argc, argv, &program.options, &error)) {
        screen_error(program.screen, "%s", error.message);
    } else if (program.options.command == COMMAND_HELP || program.options.command == COMMAND_VERSION) {
        (program.options.command == COMMAND_HELP ? options_print_help : options_print_version)(stdout);
        result = EXIT_WELL;
    } else if (settings_init(&program.settings, &error)) {
        result = program_fail(&program, &error, EXIT_RUNTIME);
    } else {
        result = run(&program);
        config_free(&program.settings.config);
    }
    options_free(&program.options);
    result = end_output(&program, &why, result);
    screen_close(program.screen);
    return result;
}
