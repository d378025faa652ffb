// What is said of names that palaver does not know. Each of these fills `error`, with the nearest name or with what
// there is, and returns STATUS_USAGE; config_apply.c puts file:line:column before it. Of a chat template's file:
// tokenizer/chat/chat_file.c.
#ifndef PALAVER_CONFIG_UNKNOWN_H
#define PALAVER_CONFIG_UNKNOWN_H

#include "config/config_key.h"

Status config_unknown_key(const ConfigTable *table, const char *name, Error *error);
Status config_unknown_section(const ConfigTable *table, const char *name, Error *error);
// names: of the n profiles that there are.
Status config_unknown_profile(const char *const *names, size_t n, const char *profile, Error *error);
// A variable of the environment that begins as ours do: STATUS_OK, unless it is so near to one that it must be meant.
Status config_unknown_variable(const ConfigTable *table, const char *variable, Error *error);
// The same of one that may be anybody's: STATUS_OK only where it is a key's.
Status config_foreign_variable(const ConfigTable *table, const char *variable, Error *error);

#endif
