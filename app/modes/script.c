// Scripts from stdin, and single questions: the same turns and commands without a person.
#include "app/commands/commands.h"
#include "app/modes/modes.h"
#include "app/modes/script_reader.h"
#include "app/signals.h"
#include "app/terminal/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PIPED_BLOCK = 1 << 16, // bytes of a question from stdin
    PIPED_LIMIT = 1 << 28,
    IDLE = 100, // milliseconds between looks at the signals while no turn comes
};

int exit_of_turn(Status status) {
    switch (status) {
    case STATUS_OK:
        return EXIT_WELL;
    case STATUS_CONTEXT:
        return EXIT_CONTEXT;
    case STATUS_INTERRUPTED:
        return EXIT_INTERRUPTED;
    default:
        return EXIT_RUNTIME;
    }
}

// The reason to leave that does not lie in the script, or EXIT_WELL.
static int outer_reason(const Chat *chat) {
    if (signals_leave()) return EXIT_SIGNAL + signals_leave();
    if (chat->output) return EXIT_RUNTIME;
    return *signals_interrupt() ? EXIT_INTERRUPTED : EXIT_WELL;
}

static void echo(Chat *chat, const char *turn) {
    Error error;
    char *line;
    if (!chat->options->echo || asprintf(&line, "> %s\n", turn) < 0) return;
    if (screen_reply(chat->screen, SCREEN_NORMAL, line, strlen(line), &error)) chat->output = error.status;
    (void)screen_reply_end(chat->screen, &error);
    free(line);
}

// One turn or command. Returns the exit status that it asks for.
static int take_turn(Chat *chat, const ScriptTurn *turn, const char *name) {
    Error error = turn->error;
    Status status = error.status;
    bool is_command = turn->text && commands_is_command(turn->text);
    if (turn->text) {
        echo(chat, turn->text);
        status = is_command ? commands_run(chat, turn->text, &error)
                            : chat_ask(chat, commands_literal(turn->text), &error);
    }
    if (status == STATUS_OK || (status == STATUS_INTERRUPTED && outer_reason(chat))) return EXIT_WELL;
    screen_error(chat->screen, "%s:%lld: %s", name, turn->line, error.message);
    if (status == STATUS_FATAL) chat->leave = true; // no --keep-going without a backend
    bool of_script = !turn->text || is_command;
    if (of_script && (status == STATUS_USAGE || status == STATUS_FILE || status == STATUS_UNSUPPORTED))
        return EXIT_SCRIPT;
    return exit_of_turn(status);
}

// The next turn, once it is there; NULL: the script ends, or a signal came.
static ScriptTurn *next_turn(const Chat *chat, ScriptReader *reader) {
    ScriptTurn *turn = NULL;
    while (!outer_reason(chat) && script_reader_take(reader, IDLE, &turn) == QUEUE_EMPTY) continue;
    return turn;
}

int script_run(Chat *chat, int input, const char *name) {
    ScriptReader *reader;
    Error error;
    if (script_reader_open(input, name, &reader, &error)) {
        screen_error(chat->screen, "%s", error.message);
        return EXIT_RUNTIME;
    }
    int result = EXIT_WELL;
    bool going = true, ended = false;
    while (going && !chat->leave) {
        ScriptTurn *turn = next_turn(chat, reader);
        ended = !turn;
        if (ended) break;
        int wanted = take_turn(chat, turn, name);
        script_turn_free(turn);
        if (!result) result = wanted;
        going = !outer_reason(chat) && (!wanted || chat->options->keep_going);
    }
    Status status = script_reader_close(reader, &error);
    if (outer_reason(chat)) return outer_reason(chat);
    if (ended && status) {
        screen_error(chat->screen, "%s", error.message);
        if (!result) result = EXIT_RUNTIME;
    }
    return result;
}

// All that is piped in.
static Status read_piped(FILE *input, char **text, size_t *size, Error *error) {
    *text = NULL;
    *size = 0;
    size_t n;
    do {
        char *longer = realloc(*text, *size + PIPED_BLOCK);
        if (!longer || *size > PIPED_LIMIT) {
            free(longer ? longer : *text);
            return error_set(error, STATUS_MEMORY, "stdin: too long for one question");
        }
        *text = longer;
        n = fread(*text + *size, 1, PIPED_BLOCK, input);
        *size += n;
    } while (n);
    bool binary = *size && memchr(*text, 0, *size);
    if (!ferror(input) && !*signals_interrupt() && !binary) return STATUS_OK;
    free(*text);
    if (binary) return error_set(error, STATUS_FILE, "stdin: this is no text: there is a zero byte");
    return *signals_interrupt() ? error_set(error, STATUS_INTERRUPTED, "interrupted")
                                : error_set(error, STATUS_FILE, "stdin: cannot be read: %s", strerror(errno));
}

// The question, and after an empty line what is piped in, if anything.
static Status whole_question(const char *question, char **whole, Error *error) {
    char *piped = NULL, *joined = NULL;
    size_t size = 0;
    *whole = NULL;
    Status status = isatty(STDIN_FILENO) ? STATUS_OK : read_piped(stdin, &piped, &size, error);
    if (status) return status;
    while (size && (piped[size - 1] == '\n' || piped[size - 1] == '\r')) size--;
    char *clean = chat_clean_text(piped ? piped : "", size),
         *asked = chat_clean_text(question, strlen(question));
    bool ok =
        clean && asked && asprintf(&joined, "%s%s%s", asked, *asked && *clean ? "\n\n" : "", clean) >= 0;
    free(piped);
    free(clean);
    free(asked);
    if (!ok) return error_set(error, STATUS_MEMORY, "out of memory");
    *whole = joined;
    return STATUS_OK;
}

int script_ask(Chat *chat, const char *question) {
    char *whole;
    Error error = {0};
    Status status = whole_question(question, &whole, &error);
    if (status == STATUS_OK && text_is_blank(whole)) {
        free(whole);
        screen_error(chat->screen, "-p: the question is empty");
        return EXIT_USAGE;
    }
    if (status == STATUS_OK) {
        echo(chat, whole);
        status = chat_ask(chat, whole, &error);
        free(whole);
    }
    if (outer_reason(chat)) return outer_reason(chat);
    if (status) screen_error(chat->screen, "%s", error.message);
    return exit_of_turn(status);
}
