// The turns typed earlier, oldest first, in memory and in a file of one line a turn (`\n` and `\\` escaped).
// Each turn is appended at once, so that a crash loses nothing and several palavers share one file.
#ifndef PALAVER_APP_HISTORY_H
#define PALAVER_APP_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/status.h"

typedef struct TurnHistory TurnHistory;

#define HISTORY_MAX 2000            // turns kept
#define HISTORY_MAX_ENTRY (1 << 16) // longer turns are kept in memory only

// Reads the file, or makes it with mode 600 (folders 700); NULL: in memory only. On STATUS_FILE *history is
// still there and works in memory only; on STATUS_MEMORY it is NULL.
Status history_open(const char *path, TurnHistory **history, Error *error);
void history_close(TurnHistory *history); // NULL is fine

// Adds a turn, unless it equals the last one. False: it could not be kept, in memory or in the file.
bool history_add(TurnHistory *history, const char *turn);

size_t history_count(const TurnHistory *history);
const char *history_entry(const TurnHistory *history, size_t i); // valid until the next history_add

// The newest entry before `before` that contains `pattern` (ignoring ASCII case unless the pattern has
// capitals); history_count() if there is none. *at is the byte where it was found.
size_t history_find(const TurnHistory *history, const char *pattern, size_t before, size_t *at);

#endif
