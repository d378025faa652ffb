// What else could have been said: for the last tokens of a reply, the most probable ones at their place.
#ifndef PALAVER_ENGINE_ALTERNATIVES_H
#define PALAVER_ENGINE_ALTERNATIVES_H

#include "engine/talk/conversation.h"

enum {
    ALTERNATIVES_TOKENS = 32, // places that can be asked for at once
    ALTERNATIVES_KEPT = 64,   // of each place
};

typedef struct Alternative {
    int32_t id;
    double raw;   // probability by the model alone: softmax(logits)
    double final; // probability of being drawn with the conversation's settings as they are now
} Alternative;

typedef struct Alternatives {
    int32_t id; // what stands there
    int n;
    Alternative each[ALTERNATIVES_KEPT]; // [n] the most probable first
} Alternatives;

// For the last `n` tokens (at most ALTERNATIVES_TOKENS; *count, if the reply is shorter) of the last message, which has
// to be the assistant's and in the window; the oldest comes first in `places` [n]. Evaluates them again. STATUS_USAGE:
// there is no such message.
Status alternatives_find(Conversation *conversation, int n, Alternatives *places, int *count, Error *error);

#endif
