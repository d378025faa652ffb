// A slot that is promised to a token.
#ifndef PALAVER_ENGINE_SESSION_SLOT_H
#define PALAVER_ENGINE_SESSION_SLOT_H

#include <stdint.h>

// Where a token lies that is evaluated before the session knows it.
typedef struct SessionSlot {
    uint64_t version; // of the session
    int64_t length;   // of the log before the token
    int32_t id;       // -1: not known yet
    int32_t slot, position;
    int32_t state; // that its step leaves, where layers recur; else -1
} SessionSlot;

#endif
