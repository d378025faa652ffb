// One question: what -p says, and what is piped in.
#include "app/commands/commands.h"
#include "app/modes/modes.h"
#include "app/process/signals.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIPED_BLOCK = 1 << 16, // bytes of a question from stdin
    PIPED_LIMIT = 1 << 28,
};

// A stdin that the caller has closed, or that is only to be written, pipes nothing in.
static bool stdin_is_readable(void) {
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY;
}

// A file that somebody has read from already is his to go on with: the list of a loop that asks for each of its lines.
static bool belongs_to_question(const Options *options) {
    struct stat facts;
    if (options->take_stdin || options->leave_stdin) return options->take_stdin;
    if (isatty(STDIN_FILENO) || !stdin_is_readable()) return false;
    bool is_file = !fstat(STDIN_FILENO, &facts) && S_ISREG(facts.st_mode);
    return !is_file || lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
}

// Who started palaver has the same pipe as stdin: it may be the list of a loop, which cannot be seen from a pipe.
static bool is_shared_pipe(void) {
    struct stat ours, theirs;
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/fd/0", (int)getppid());
    return !fstat(STDIN_FILENO, &ours) && !stat(path, &theirs) && !S_ISREG(ours.st_mode) &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

static Status read_all(FILE *input, Text *text, Error *error) {
    char *block = malloc(PIPED_BLOCK);
    bool ok = block;
    for (size_t n = 1; ok && n;) {
        n = file_read_some(input, block, PIPED_BLOCK);
        ok = text->size <= PIPED_LIMIT && text_add(text, block, n);
    }
    free(block);
    if (!ok) return error_set(error, STATUS_MEMORY, "stdin: too long for one question");
    if (*signals_interrupt()) return error_set(error, STATUS_INTERRUPTED, "interrupted");
    if (!ferror(input)) return STATUS_OK;
    return error_set(error, STATUS_FILE, "stdin: cannot be read: %s", strerror(errno));
}

// All that is piped in, without the newlines at its end.
static Status read_piped(Chat *chat, Text *piped, Error *error) {
    Status status = read_all(stdin, piped, error);
    if (!status && piped->size) {
        encoding_drop_mark(piped->bytes, &piped->size);
        status = encoding_take("stdin", chat_settings(chat)->ui.encoding, &piped->bytes, &piped->size, error);
        piped->capacity = piped->size + 1;
    }
    if (status) return status;
    if (piped->size && !chat_options(chat)->take_stdin && is_shared_pipe())
        screen_notice(chat_screen(chat),
                      "[stdin, %zu bytes, went into the question; who started palaver reads it as well: "
                      "--no-stdin leaves it there]",
                      piped->size);
    while (piped->size && strchr("\r\n", piped->bytes[piped->size - 1])) piped->bytes[--piped->size] = 0;
    return STATUS_OK;
}

// The question, and after an empty line what is piped in, if anything.
static Status whole_question(Chat *chat, const char *question, Text *whole, Error *error) {
    Text piped = {0};
    Status status = text_add(whole, question, strlen(question))
                        ? STATUS_OK
                        : error_set(error, STATUS_MEMORY, "out of memory");
    if (!status && belongs_to_question(chat_options(chat))) status = read_piped(chat, &piped, error);
    if (!status && piped.size) {
        bool ok = (!*question || text_add(whole, "\n\n", 2)) && text_add(whole, piped.bytes, piped.size);
        if (!ok) status = error_set(error, STATUS_MEMORY, "out of memory");
    }
    text_free(&piped);
    return status;
}

int ask_run(Chat *chat, const char *question) {
    Text whole = {0};
    Error error = {0};
    Status status = whole_question(chat, question, &whole, &error);
    bool empty = !status && text_is_blank(whole.bytes);
    if (!status && !empty) {
        script_echo(chat, whole.bytes);
        status = chat_turn_ask(chat, whole.bytes, &error);
    }
    text_free(&whole);
    if (script_outer_reason(chat)) return script_outer_reason(chat);
    if (empty) screen_error(chat_screen(chat), "-p: the question is empty");
    if (status) screen_error(chat_screen(chat), "%s", error.message);
    if (!status && !empty && chat_is_unfit(chat)) return EXIT_RUNTIME;
    return empty ? EXIT_USAGE : exit_status_of_turn(status);
}
