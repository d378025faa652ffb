#include "app/tools/serve.h"

#include "app/process/signals.h"
#include "app/tools/shape.h"
#include "engine/model/model.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

// Whether what was asked for opens a model over several processes; the rest is rank 0's alone.
static bool is_for_all(Command command) {
    return command == COMMAND_CHAT || command == COMMAND_PERPLEXITY || command == COMMAND_BENCH;
}

int serve_main(Program *program, const EngineWorld *world) {
    const Options *o = &program->options;
    EngineOptions options = program->settings.engine;
    Model *model = NULL;
    Error error;
    if (!is_for_all(o->command)) return EXIT_WELL;
    // srun gives its stdin to all, and waits for those that do not read it.
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    if (nothing > STDIN_FILENO) close(nothing);
    // Nobody waits here to save anything; Ctrl-C in a terminal that all share is rank 0's.
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    Status status = o->shape ? shape_model(o, &model, &error) : program_find_model(program, NULL, &error);
    if (!status && !o->shape) status = model_open(program->model, &model, &error);
    if (status) return program_fail(program, &error, EXIT_MODEL);
    options.world = *world;
    options.interrupt = signals_interrupt();
    status = engine_serve(model, &options, &error);
    if (!status) return EXIT_WELL;
    error_prefix(&error, "rank %d: ", world->rank);
    return program_fail(program, &error,
                        status == STATUS_USAGE                                  ? EXIT_USAGE
                        : status == STATUS_FILE || status == STATUS_UNSUPPORTED ? EXIT_MODEL
                                                                                : EXIT_RUNTIME);
}
