// Scripts from stdin, and single questions: the same turns and commands without a person.
#include "app/commands.h"
#include "app/modes.h"
#include "app/signals.h"
#include "app/turn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIPED_BLOCK = 1 << 16, PIPED_LIMIT = 1 << 28 }; // bytes of a question from stdin

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

static bool is_blank(const char *line) {
    return line[strspn(line, " \t\r\n")] == 0;
}

// One turn or command. Returns the exit status that it asks for.
static int take_turn(Chat *chat, const char *turn, const char *name, long long number) {
    Error error = {0};
    bool is_command = commands_is_command(turn);
    echo(chat, turn);
    Status status =
        is_command ? commands_run(chat, turn, &error) : chat_ask(chat, commands_literal(turn), &error);
    if (status == STATUS_OK || (status == STATUS_INTERRUPTED && outer_reason(chat))) return EXIT_WELL;
    screen_error(chat->screen, "%s:%lld: %s", name, number, error.message);
    if (status == STATUS_FATAL) chat->leave = true; // no --keep-going without a backend
    if (is_command && (status == STATUS_USAGE || status == STATUS_FILE || status == STATUS_UNSUPPORTED))
        return EXIT_SCRIPT;
    return exit_of_turn(status);
}

// What ended the reading of lines.
typedef enum Ending { ENDING_INPUT, ENDING_MEMORY, ENDING_BINARY } Ending;

// Adds the next line of the input to `lines`; false at its end, when a signal came, or when it is no text.
static bool next_line(FILE *input, char **buffer, size_t *capacity, TurnLines *lines, Ending *ending) {
    errno = 0;
    ssize_t length = getline(buffer, capacity, input);
    *ending = length < 0 && errno == ENOMEM                              ? ENDING_MEMORY
              : length > 0 && memchr(*buffer, 0, (size_t)length) != NULL ? ENDING_BINARY
                                                                         : ENDING_INPUT;
    if (length < 0 || *ending) return false;
    char *clean = chat_clean_text(*buffer, (size_t)length);
    bool skip = clean && !lines->open && (is_blank(clean) || clean[0] == '#');
    if (!clean || (!skip && !turn_add_line(lines, clean, strlen(clean)))) *ending = ENDING_MEMORY;
    free(clean);
    return *ending == ENDING_INPUT;
}

int script_run(Chat *chat, FILE *input, const char *name) {
    TurnLines lines = {0};
    char *buffer = NULL;
    size_t capacity = 0;
    long long number = 0, first = 0;
    int result = EXIT_WELL;
    Ending ending = ENDING_INPUT;
    bool going = true;
    while (going && !chat->leave && next_line(input, &buffer, &capacity, &lines, &ending)) {
        number++;
        if (!first) first = number;
        if (lines.text && !lines.open) {
            int wanted = is_blank(lines.text) ? EXIT_WELL : take_turn(chat, lines.text, name, first);
            if (!result) result = wanted;
            going = !outer_reason(chat) && (!wanted || chat->options->keep_going);
            turn_clear(&lines);
        }
        if (!lines.text) first = 0;
    }
    if (outer_reason(chat)) {
        result = outer_reason(chat);
    } else if (ending == ENDING_MEMORY) {
        screen_error(chat->screen, "%s:%lld: out of memory", name, number + 1);
        result = EXIT_RUNTIME;
    } else if (ending == ENDING_BINARY) {
        screen_error(chat->screen,
                     "%s:%lld: this is no text: there is a zero byte; a script is lines in UTF-8", name,
                     number + 1);
        result = EXIT_SCRIPT;
    } else if (going && !chat->leave && lines.open) {
        screen_error(chat->screen, "%s:%lld: the input ends within this turn: %s", name, first,
                     lines.block ? "\"\"\" is missing" : "its last line ends in \\");
        if (!result) result = EXIT_SCRIPT;
    }
    turn_clear(&lines);
    free(buffer);
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
    if (status == STATUS_OK && is_blank(whole)) {
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
