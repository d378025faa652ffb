#include "app/tools/pull.h"

#include "app/models/facts.h"
#include "app/models/hub.h"
#include "app/process/signals.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/text/format.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_SILENCE = 3600 }; // seconds

typedef struct Pulling {
    Program *program;
    FactsDevice device;
} Pulling;

static void tell(void *user, const HubChoice *choice) {
    const Pulling *p = user;
    char bytes[FORMAT_ROOM], free_bytes[FORMAT_ROOM];
    format_bytes((double)choice->bytes, bytes);
    format_bytes((double)choice->available, free_bytes);
    if (choice->n_types > 1 && !choice->asked)
        screen_notice(
            p->program->screen,
            "[%s, %s: of %d files the one that suits %s, of which %s are free; :TYPE behind the name takes "
            "another]",
            choice->label, bytes, choice->n_types, p->device.name, free_bytes);
    else
        screen_notice(p->program->screen, "[%s%s%s]", choice->label, *choice->label ? ", " : "", bytes);
    if (!choice->fits)
        screen_warn(p->program->screen, "[it will not fit: %s of %s are free]", free_bytes, p->device.name);
}

static void tell_damaged(void *user, const char *file) {
    const Pulling *p = user;
    screen_progress_end(p->program->screen);
    screen_warn(p->program->screen, "[%s is damaged on this disk: it is fetched again]", file);
}

static bool on_step(void *user, const char *what, int64_t done, int64_t total) {
    screen_progress(user, what, (uint64_t)done, (uint64_t)total);
    return !*signals_interrupt();
}

// As Hugging Face's own programs read it.
static bool is_offline(void) {
    static const char *const yes[] = {"1", "on", "yes", "true"};
    const char *said = getenv("HF_HUB_OFFLINE");
    for (size_t i = 0; said && i < sizeof yes / sizeof *yes; i++)
        if (!strcasecmp(said, yes[i])) return true;
    return false;
}

// What is set and not empty; NULL: not set.
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

// What Hugging Face's programs, curl and OpenSSL look at as well.
static Status read_environment(HubWish *wish, Error *error) {
    static const char *const files[] = {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"};
    const char *endpoint = variable("HF_ENDPOINT"), *silence = variable("HF_HUB_DOWNLOAD_TIMEOUT");
    char *end = NULL;
    wish->endpoint = endpoint ? endpoint : "https://huggingface.co";
    wish->token = variable("HF_TOKEN");
    for (size_t i = 0; i < sizeof files / sizeof *files && !wish->authorities; i++)
        wish->authorities = variable(files[i]);
    long seconds = silence ? strtol(silence, &end, 10) : 0;
    if (silence && (*end || seconds < 1 || seconds > LONGEST_SILENCE))
        return error_set(error, STATUS_USAGE, "HF_HUB_DOWNLOAD_TIMEOUT=%.40s: expected seconds, 1 to %d",
                         silence, LONGEST_SILENCE);
    wish->silence = (int)seconds;
    return STATUS_OK;
}

int pull_main(Program *program) {
    char path[PATH_ROOM];
    Pulling pulling = {.program = program};
    Error error;
    if (!program->options.model || !*program->options.model) {
        error_set(&error, STATUS_USAGE, "palaver pull ORG/NAME[:TYPE or :FILE]: which model?");
        return program_fail(program, &error, EXIT_USAGE);
    }
    if (is_offline()) {
        error_set(&error, STATUS_FILE,
                  "HF_HUB_OFFLINE is set: nothing is fetched (palaver list: what is here)");
        return program_fail(program, &error, EXIT_RUNTIME);
    }
    const char *model = hub_name(program->options.model);
    facts_of_device(program->settings.engine.device, &pulling.device);
    HubWish wish = {.model = model,
                    .available = pulling.device.available,
                    .progress = {on_step, program->screen},
                    .stop = signals_interrupt(),
                    .tell = tell,
                    .damaged = tell_damaged,
                    .user = &pulling};
    if (read_environment(&wish, &error)) return program_fail(program, &error, EXIT_USAGE);
    if (wish.token && hub_is_in_clear(wish.endpoint))
        screen_warn(program->screen, "[HF_TOKEN goes to %s unencrypted: whoever is on the way can read it]",
                    wish.endpoint);
    Status status = hub_pull(&wish, path, &error);
    screen_progress_end(program->screen);
    if (status == STATUS_INTERRUPTED)
        error_set(&error, status, "stopped; the same command goes on where this one ended");
    if (status) return program_fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_RUNTIME);
    screen_say(program->screen, "%s is here: palaver %s", text_path(path).text, text_escaped(model).text);
    return EXIT_WELL;
}
