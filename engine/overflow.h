// What leaves when the context is full. Pure arithmetic over the spans of the messages: no tokens, no cache.
//
// "reevaluate" (requirements C1, C2, C4, C11): the kept prefix (BOS and the system prompt) stays, the oldest whole
// turns after it leave until what remains fits below low_water; a turn is a user message and what follows it up to
// the next user message. What remains is the template over the remaining messages, evaluated again by session_sync.
#ifndef PALAVER_ENGINE_OVERFLOW_H
#define PALAVER_ENGINE_OVERFLOW_H

#include <stdbool.h>
#include <stdint.h>

typedef enum OverflowPolicy { OVERFLOW_REEVALUATE, OVERFLOW_STOP } OverflowPolicy;

typedef struct OverflowSettings {
    OverflowPolicy policy;
    int64_t reserve;         // tokens kept free for the reply before a turn begins
    double low_water;        // share of the context to go down to once something has to leave, 0 … 1
    int64_t discard;         // leave at least so many tokens; 0: only as low_water says
    double discard_fraction; // the same as a share of what is not kept; 0: none
} OverflowSettings;

// One message as the template rendered it.
typedef struct OverflowSpan {
    int64_t n_tokens;
    bool is_system; // part of the kept prefix
    bool is_user;   // begins a turn
} OverflowSpan;

typedef struct OverflowPlan {
    int n_messages;   // messages after the kept prefix that leave, oldest first
    int n_turns;      // the turns among them
    int64_t n_tokens; // their tokens
    bool fits;        // whether `needed` tokens are free after they left
} OverflowPlan;

// Which messages leave so that `needed` more tokens fit in `context_size`. The last turn never leaves whole.
// Nothing leaves while it fits: then the plan is empty and `fits` is true.
OverflowPlan overflow_plan(const OverflowSettings *settings, const OverflowSpan *spans, int n_spans,
                           int64_t context_size, int64_t needed);

#endif
