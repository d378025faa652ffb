// Scripts from stdin: the same turns and commands without a person.
#include "app/commands/commands.h"
#include "app/modes/modes.h"
#include "app/modes/script_reader.h"
#include "app/process/signals.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDLE = 100 }; // milliseconds between looks at the signals while no turn comes

int script_outer_reason(const Chat *chat) {
    if (signals_leave()) return EXIT_SIGNAL + signals_leave();
    if (chat_output(chat)) return EXIT_RUNTIME;
    return *signals_interrupt() ? EXIT_INTERRUPTED : EXIT_WELL;
}

void script_echo(Chat *chat, const char *turn) {
    Error error;
    char *line;
    if (!chat_options(chat)->echo || asprintf(&line, "> %s\n", turn) < 0) return;
    chat_note_output(chat, screen_reply(chat_screen(chat), SCREEN_PROMPT, line, strlen(line), &error),
                     &error);
    chat_note_output(chat, screen_reply_end(chat_screen(chat), &error), &error);
    free(line);
}

// One turn or command. Returns the exit status that it asks for.
static int take_turn(Chat *chat, const ScriptTurn *turn, const char *name) {
    Error error = turn->error;
    Status status = error.status;
    bool is_command = turn->text && commands_is_command(turn->text);
    if (turn->text) {
        script_echo(chat, turn->text);
        status = is_command ? commands_run(chat, turn->text, &error)
                            : chat_turn_ask(chat, commands_literal(turn->text), &error);
    }
    if (!status || (status == STATUS_INTERRUPTED && script_outer_reason(chat))) return EXIT_WELL;
    screen_error(chat_screen(chat), "%s:%lld: %s", name, turn->line, error.message);
    if (status == STATUS_FATAL) chat_leave(chat); // no --keep-going without a backend
    bool of_script = !turn->text || is_command;
    if (of_script && (status == STATUS_USAGE || status == STATUS_FILE || status == STATUS_UNSUPPORTED))
        return EXIT_SCRIPT;
    return exit_status_of_turn(status);
}

// The next turn, once it is there; NULL: the script ends, or a signal came.
static ScriptTurn *next_turn(const Chat *chat, ScriptReader *reader) {
    ScriptTurn *turn = NULL;
    while (!script_outer_reason(chat) && script_reader_take(reader, IDLE, &turn) == QUEUE_EMPTY) continue;
    return turn;
}

int script_run(Chat *chat, int input, const char *name) {
    ScriptReader *reader;
    Error error;
    if (script_reader_open(input, name, chat_settings(chat)->ui.encoding, &reader, &error)) {
        screen_error(chat_screen(chat), "%s", error.message);
        return EXIT_RUNTIME;
    }
    int result = EXIT_WELL;
    bool going = true, ended = false;
    while (going && !chat_is_leaving(chat)) {
        ScriptTurn *turn = next_turn(chat, reader);
        ended = !turn;
        if (ended) break;
        int wanted = take_turn(chat, turn, name);
        script_turn_free(turn);
        if (!result) result = wanted;
        going = !script_outer_reason(chat) && (!wanted || chat_options(chat)->keep_going);
    }
    Status status = script_reader_close(reader, &error);
    if (script_outer_reason(chat)) return script_outer_reason(chat);
    if (ended && status) {
        screen_error(chat_screen(chat), "%s", error.message);
        if (!result) result = EXIT_RUNTIME;
    }
    return result;
}
