// What another thread keeps of the reply in hand before it ends the process: where a rank of several is lost while the
// thread of the chat computes, or waits to write, and cannot be told.
//
//     rescue_begin → rescue_add … → rescue_settle → rescue_done
//
// Between the last two the chat's thread keeps the reply itself, and the process is not ended.
#ifndef PALAVER_APP_RANKS_RESCUE_H
#define PALAVER_APP_RANKS_RESCUE_H

#include <stdbool.h>
#include <stddef.h>

enum { RESCUE_ROOM = 1200 };
// Keeps what is there of the reply; what that is, and where, goes into `kept` [RESCUE_ROOM], behind "; ": "the question is
// kept". From the other thread, while the chat's own does not go beyond rescue_add() or rescue_settle().
typedef void RescueKeep(void *context, const char *text, size_t size, char *kept);

void rescue_begin(RescueKeep *keep, void *context);
void rescue_add(const char *text,
                size_t size); // before it is shown; what finds no memory is left out, and all behind it
void rescue_settle(void);
void rescue_done(void);

// Keeps what there is to keep, says `words` (no whole line) and what is kept, and ends the process with status 1. Where the
// chat's thread knows (told) and no reply is in its hands, it ends by itself, and this does nothing.
void rescue_and_end(const char *words, bool told);

#endif
