// What begins with a slash: commands, at the prompt and in scripts alike.
#ifndef PALAVER_APP_COMMANDS_H
#define PALAVER_APP_COMMANDS_H

#include "app/chat/chat.h"
#include "app/terminal/editor/completion.h"

#include <stdbool.h>

typedef struct ChatCommand {
    const char *name;
    const char *aliases[3]; // NULL-terminated
    const char *arguments;  // as /help shows them
    const char *help;       // one line
    // `argument` is what follows the name, without blanks around it; "" where there is nothing.
    Status (*run)(Chat *chat, const char *argument, Error *error);
} ChatCommand;

// All commands, [*count]. Static.
const ChatCommand *commands_list(size_t *count);

// Whether a turn is a command: its first word has one slash, at its beginning, and it is one line (or that of a command
// which takes a text). Two slashes stand for a literal one.
bool commands_is_command(const char *text);
// The turn as the model gets it: without the first of two slashes.
const char *commands_literal(const char *text);

// Runs a command line. STATUS_USAGE: unknown (with the nearest name), or wrong arguments.
Status commands_run(Chat *chat, const char *line, Error *error);

// Tab: names of commands, keys, values, files. For EditorOptions, with the chat as context.
void commands_complete(void *chat, const char *text, size_t cursor, Completion *completion);

#endif
