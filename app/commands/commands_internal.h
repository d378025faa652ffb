// The functions behind the table of commands, and what they share. Only for commands*.c.
#ifndef PALAVER_APP_COMMANDS_INTERNAL_H
#define PALAVER_APP_COMMANDS_INTERNAL_H

#include "app/commands/argument.h"
#include "app/commands/commands.h"
#include "kernels/base/path.h"

// commands.c: the error of what needs a turn where there is none.
Status commands_no_turn(Error *error);
// commands_conversations.c
Status commands_conversations_clear(Chat *chat, const char *argument, Error *error);
Status commands_conversations_new(Chat *chat, const char *argument, Error *error);
Status commands_conversations_list(Chat *chat, const char *argument, Error *error);
Status commands_conversations_switch(Chat *chat, const char *argument, Error *error);
Status commands_conversations_delete(Chat *chat, const char *argument, Error *error);
Status commands_conversations_fork(Chat *chat, const char *argument, Error *error);
// commands_help.c
Status commands_help(Chat *chat, const char *argument, Error *error);
// commands_talk.c
Status commands_talk_system(Chat *chat, const char *argument, Error *error);
Status commands_talk_model(Chat *chat, const char *argument, Error *error);
Status commands_talk_retry(Chat *chat, const char *argument, Error *error);
Status commands_talk_edit(Chat *chat, const char *argument, Error *error);
Status commands_talk_say(Chat *chat, const char *argument, Error *error);
Status commands_talk_continue(Chat *chat, const char *argument, Error *error);
// commands_undo.c
Status commands_undo(Chat *chat, const char *argument, Error *error);
Status commands_undo_redo(Chat *chat, const char *argument, Error *error);
// commands_tree.c
Status commands_tree_goto(Chat *chat, const char *argument, Error *error);
Status commands_tree_tree(Chat *chat, const char *argument, Error *error);
// commands_window.c
Status commands_window_context(Chat *chat, const char *argument, Error *error);
Status commands_window_overflow(Chat *chat, const char *argument, Error *error);
Status commands_window_forget(Chat *chat, const char *argument, Error *error);
// commands_look.c
Status commands_look_stats(Chat *chat, const char *argument, Error *error);
Status commands_look_view(Chat *chat, const char *argument, Error *error);
Status commands_look_tokens(Chat *chat, const char *argument, Error *error);
Status commands_look_think(Chat *chat, const char *argument, Error *error);
Status commands_look_top(Chat *chat, const char *argument, Error *error);
Status commands_look_replay(Chat *chat, const char *argument, Error *error);
Status commands_look_copy(Chat *chat, const char *argument, Error *error);
Status commands_look_time(Chat *chat, const char *argument, Error *error);
// commands_settings.c
Status commands_settings_set(Chat *chat, const char *argument, Error *error);
Status commands_settings_reset(Chat *chat, const char *argument, Error *error);
Status commands_settings_config(Chat *chat, const char *argument, Error *error);
Status commands_settings_seed(Chat *chat, const char *argument, Error *error);
// commands_files.c
Status commands_files_save(Chat *chat, const char *argument, Error *error);
Status commands_files_load(Chat *chat, const char *argument, Error *error);
Status commands_files_export(Chat *chat, const char *argument, Error *error);
Status commands_files_file(Chat *chat, const char *argument, Error *error);

// commands.c
const ChatCommand *commands_find(const char *name); // by its name or an alias; NULL: there is none
Status commands_unknown(const char *name, Error *error);

#endif
