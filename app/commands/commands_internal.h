// The functions behind the table of commands, and what they share. Only for commands*.c.
#ifndef PALAVER_APP_COMMANDS_INTERNAL_H
#define PALAVER_APP_COMMANDS_INTERNAL_H

#include "app/commands/commands.h"
#include "kernels/base/path.h"

// commands_conversations.c
Status command_clear(Chat *chat, const char *argument, Error *error);
Status command_new(Chat *chat, const char *argument, Error *error);
Status command_list(Chat *chat, const char *argument, Error *error);
Status command_switch(Chat *chat, const char *argument, Error *error);
Status command_delete(Chat *chat, const char *argument, Error *error);
Status command_fork(Chat *chat, const char *argument, Error *error);
// commands_talk.c
Status command_system(Chat *chat, const char *argument, Error *error);
Status command_model(Chat *chat, const char *argument, Error *error);
Status command_retry(Chat *chat, const char *argument, Error *error);
Status command_edit(Chat *chat, const char *argument, Error *error);
Status command_say(Chat *chat, const char *argument, Error *error);
Status command_continue(Chat *chat, const char *argument, Error *error);
// commands_tree.c
Status command_undo(Chat *chat, const char *argument, Error *error);
Status command_redo(Chat *chat, const char *argument, Error *error);
Status command_goto(Chat *chat, const char *argument, Error *error);
Status command_tree(Chat *chat, const char *argument, Error *error);
// commands_window.c
Status command_context(Chat *chat, const char *argument, Error *error);
Status command_overflow(Chat *chat, const char *argument, Error *error);
Status command_forget(Chat *chat, const char *argument, Error *error);
// commands_look.c
Status command_stats(Chat *chat, const char *argument, Error *error);
Status command_view(Chat *chat, const char *argument, Error *error);
Status command_tokens(Chat *chat, const char *argument, Error *error);
Status command_think(Chat *chat, const char *argument, Error *error);
Status command_top(Chat *chat, const char *argument, Error *error);
Status command_replay(Chat *chat, const char *argument, Error *error);
Status command_copy(Chat *chat, const char *argument, Error *error);
Status command_time(Chat *chat, const char *argument, Error *error);
// commands_settings.c
Status command_set(Chat *chat, const char *argument, Error *error);
Status command_reset(Chat *chat, const char *argument, Error *error);
Status command_config(Chat *chat, const char *argument, Error *error);
Status command_seed(Chat *chat, const char *argument, Error *error);
// commands_files.c
Status command_save(Chat *chat, const char *argument, Error *error);
Status command_load(Chat *chat, const char *argument, Error *error);
Status command_export(Chat *chat, const char *argument, Error *error);
Status command_file(Chat *chat, const char *argument, Error *error);

// A whole number from min to max; `what` names it in the message.
Status argument_number(const char *argument, const char *what, int64_t min, int64_t max, int64_t *number,
                       Error *error);
// The path that `argument` means, ~/ expanded, into path [PATH_ROOM].
Status argument_path(const char *argument, char *path, Error *error);
// "say so" for a command that takes none.
Status argument_none(const char *argument, Error *error);

#endif
