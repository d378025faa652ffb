// The table of commands, and what a line that begins with / is. A new one: a row below, its name in a group of
// commands_help.c, its function in the commands_*.c that its name belongs to; what Tab offers behind it in
// commands_complete.c; if it may have several lines, in commands_is_command().
#include "app/commands/commands_internal.h"

#include "kernels/base/text/quote.h"
#include "kernels/base/text/nearest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_ROOM = 64 };

// ---- small ones -------------------------------------------------------------------------------------------

static Status command_quit(Chat *chat, const char *argument, Error *error) {
    if (argument_none("/quit", argument, error)) return error->status;
    chat_leave(chat);
    return STATUS_OK;
}

// ---- the table --------------------------------------------------------------------------------------------

static const ChatCommand commands[] = {
    {"help", {"?"}, "[COMMAND|all]", "the commands, one of them, or all with a line each", commands_help},
    {"quit", {"bye", "exit"}, "", "leave; the conversation is kept", command_quit},
    {"clear", {0}, "", "a new conversation; model and system prompt stay", commands_conversations_clear},
    {"system", {0}, "[TEXT|@FILE]", "show or set the system prompt; \"\" removes it", commands_talk_system},
    {"model", {0}, "[MODEL]", "which model this is; go on with another", commands_talk_model},
    {"retry", {0}, "[SEED]", "another reply to the last question", commands_talk_retry},
    {"undo", {0}, "[N]", "take the last turn (or N turns) back", commands_undo},
    {"redo", {0}, "[N]", "the turn (or N turns) that was taken back comes again", commands_undo_redo},
    {"edit",
     {0},
     "[N|reply]",
     "edit the last question, that of turn N, or the reply, in $EDITOR",
     commands_talk_edit},
    {"continue", {0}, "", "go on with the last reply", commands_talk_continue},
    {"say",
     {0},
     "ROLE TEXT",
     "put a message there, unanswered: user, assistant or system",
     commands_talk_say},
    {"tree", {0}, "", "all turns and attempts, and where you are", commands_tree_tree},
    {"goto",
     {0},
     "NODE",
     "go on from a node of the tree, such as 3.1; 0 is the beginning",
     commands_tree_goto},
    {"fork", {0}, "[NAME]", "go on in a copy of this conversation", commands_conversations_fork},
    {"new", {0}, "[NAME]", "a new conversation, with a name", commands_conversations_new},
    {"list", {0}, "", "the conversations that are kept, the newest first", commands_conversations_list},
    {"switch",
     {0},
     "NAME",
     "go on with another conversation and its settings",
     commands_conversations_switch},
    {"delete", {0}, "NAME", "delete a conversation for good", commands_conversations_delete},
    {"set", {0}, "[KEY [VALUE]]", "show or change settings", commands_settings_set},
    {"reset", {0}, "KEY", "the value that the key had at the start", commands_settings_reset},
    {"config",
     {0},
     "FILE|PROFILE",
     "apply a TOML file, or a profile out of one, now",
     commands_settings_config},
    {"seed", {0}, "[N|random]", "show or set the seed of the random numbers", commands_settings_seed},
    {"stats", {0}, "", "tokens, speed, cache, memory", commands_look_stats},
    {"context", {0}, "", "what fills the window, and what leaves next", commands_window_context},
    {"overflow",
     {0},
     "[preview|POLICY]",
     "what happens when the context is full, what would leave; change it",
     commands_window_overflow},
    {"forget", {0}, "[N]", "the oldest turn (or N turns) leaves the window now", commands_window_forget},
    {"think",
     {0},
     "[show|dim|hide]",
     "what becomes of the reasoning between think tokens",
     commands_look_think},
    {"view",
     {0},
     "[text|tokens|diff]",
     "what the model really sees, and where its cache ends",
     commands_look_view},
    {"tokens", {0}, "TEXT", "ids and pieces of a text", commands_look_tokens},
    {"top",
     {0},
     "[N]",
     "what else the last N tokens could have been: raw and final probability",
     commands_look_top},
    {"replay",
     {0},
     "[verify]",
     "show the conversation again; verify: sample it again and compare token by token",
     commands_look_replay},
    {"save", {0}, "FILE", "write the conversation to a file", commands_files_save},
    {"load", {0}, "FILE", "go on with a conversation from a file and its settings", commands_files_load},
    {"export",
     {0},
     "md|json|jsonl FILE",
     "write this branch: md to be read, json and jsonl also for /load and --jsonl",
     commands_files_export},
    {"file",
     {0},
     "[PATH]",
     "put a text file before the next turn; nothing: take it away again",
     commands_files_file},
    {"copy", {0}, "", "the last reply into the terminal's clipboard", commands_look_copy},
    {"time", {0}, "", "what time it is, and what this conversation has taken", commands_look_time},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

const ChatCommand *commands_list(size_t *count) {
    *count = N_COMMANDS;
    return commands;
}

Status commands_no_turn(Error *error) {
    return error_set(error, STATUS_USAGE, "there is no turn yet");
}

const ChatCommand *commands_find(const char *name) {
    for (int i = 0; i < N_COMMANDS; i++) {
        if (!strcmp(name, commands[i].name)) return &commands[i];
        for (int k = 0; commands[i].aliases[k]; k++)
            if (!strcmp(name, commands[i].aliases[k])) return &commands[i];
    }
    return NULL;
}

Status commands_unknown(const char *name, Error *error) {
    const char *names[4 * N_COMMANDS];
    size_t n = 0;
    for (int i = 0; i < N_COMMANDS; i++) {
        names[n++] = commands[i].name;
        for (int k = 0; commands[i].aliases[k]; k++) names[n++] = commands[i].aliases[k];
    }
    int nearest = nearest_name(name, names, n);
    if (nearest >= 0)
        return error_set(error, STATUS_USAGE,
                         "unknown command /%s: did you mean /%s? (// sends a literal slash)",
                         quote(name).text, names[nearest]);
    return error_set(error, STATUS_USAGE, "unknown command /%s: /help lists them; // sends a literal slash",
                     quote(name).text);
}

// ---- running ----------------------------------------------------------------------------------------------

// A path, or a text of several lines that begins with a slash, is meant for the model: only commands that take a text
// may have more lines.
bool commands_is_command(const char *text) {
    size_t name = strcspn(text, " \t\n");
    if (text[0] != '/' || memchr(text + 1, '/', name ? name - 1 : 0)) return false;
    const char *end = strchr(text, '\n');
    return !end || !strncmp(text, "/system", 7) || !strncmp(text, "/say", 4) || !strncmp(text, "/tokens", 7);
}

const char *commands_literal(const char *text) {
    return text[0] == '/' && text[1] == '/' ? text + 1 : text;
}

Status commands_run(Chat *chat, const char *line, Error *error) {
    char name[NAME_ROOM];
    size_t length = strcspn(++line, " \t\n");
    snprintf(name, sizeof name, "%.*s", (int)(length < NAME_ROOM ? length : NAME_ROOM - 1), line);
    const ChatCommand *command = commands_find(name);
    if (!command) return commands_unknown(quote_bytes(line, length).text, error);
    while (isspace((unsigned char)line[length])) length++;
    char *argument = strdup(line + length);
    if (!argument) return error_set(error, STATUS_MEMORY, "out of memory");
    for (size_t n = strlen(argument); n && isspace((unsigned char)argument[n - 1]);) argument[--n] = 0;
    Status status = command->run(chat, argument, error);
    free(argument);
    return status;
}
