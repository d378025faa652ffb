// What is evicted when the context window is full. Pure arithmetic over the spans of the messages: no tokens, no cache.
//
// The sinks (BOS and the system prompt, or so many tokens) stay; behind them the oldest are evicted (requirements C1,
// C2, C11): whole turns until what remains fits below low_water, a turn being a user message and what follows it up to
// the next user message; or, by token, no more than has to, down to a part of a reply. What remains is the template
// over the remaining messages. How it comes to its new places is the policy: read again, or shifted (session_evict).
#ifndef PALAVER_ENGINE_OVERFLOW_H
#define PALAVER_ENGINE_OVERFLOW_H

#include <stdbool.h>
#include <stdint.h>

// How what stays is seen after an eviction (session_evict). Two rotations of the query round nothing. Keys turned in
// place are rounded each time: on a random model the logits' error in f16 stays at 4e-4 (3e-4 by "shift") where half
// of the context leaves at once, and comes to 1e-2 after 250 turns by one; in int8 to 5e-3 (4e-3) and 1e-1.
typedef enum OverflowPolicy {
    OVERFLOW_REEVALUATE,
    OVERFLOW_SHIFT,
    OVERFLOW_SHIFT_INPLACE,
    OVERFLOW_STOP
} OverflowPolicy;
const char *overflow_policy_name(OverflowPolicy policy); // "reevaluate", "shift", "shift-inplace", "stop"

enum {
    OVERFLOW_KEEP_SYSTEM = -1, // BOS, what the template begins with, and the system prompt
    // First tokens that a stream without messages keeps then (Xiao et al., arXiv:2309.17453).
    OVERFLOW_SINKS = 4,
};

typedef struct OverflowSettings {
    OverflowPolicy policy;
    // Sinks: first tokens that are never evicted, and the messages that these belong to; or OVERFLOW_KEEP_SYSTEM. 0
    // keeps nothing, not even what the beginning of what is left has in common with that of before.
    int64_t keep;
    bool by_token; // evict as few tokens as discard says; else whole turns down to low_water
    // A prompt that is too long by itself is cut: its first `keep` tokens and its end are read; else refused.
    bool cut_prompt;
    int64_t reserve;  // tokens kept free for the reply before a turn begins
    double low_water; // share of the context to go down to once something has to be evicted, 0 … 1
    // Evict at least so many tokens, from 1 on, or so large a share of what is not kept, to the nearest end of a turn;
    // 0: as the others say.
    double discard;
} OverflowSettings;

// One message as the template rendered it.
typedef struct OverflowSpan {
    int64_t n_tokens;
    int64_t n_text; // of these, a reply's own: the oldest of them may be evicted by themselves
    bool is_system; // a sink
    bool is_user;   // begins a turn
} OverflowSpan;

typedef struct OverflowPlan {
    int first;          // the first span behind the sinks
    int n_messages;     // messages from there on that are evicted
    int n_turns;        // the turns among them
    int reply;          // by token: the span whose text loses n_of_reply of its oldest tokens
    int64_t n_of_reply; // 0: none does
    int64_t n_tokens;   // all that are evicted
    bool fits;          // whether `needed` tokens are free then
} OverflowPlan;

// Which messages are evicted so that `needed` more tokens fit in `context_size`. The last turn never is as a whole.
// Nothing is while it fits: then the plan is empty and `fits` is true.
OverflowPlan overflow_plan(const OverflowSettings *settings, const OverflowSpan *spans, int n_spans,
                           int64_t context_size, int64_t needed);

// Tokens kept free for a reply: as the settings say, but no more than a quarter of the context, so that small contexts
// still hold a conversation.
int64_t overflow_reserve(const OverflowSettings *settings, int64_t context_size);

// How many to evict of `n` tokens that are no sinks: what discard says, half of them where it says
// nothing; at least 1, at most n.
int64_t overflow_n_evicted(const OverflowSettings *settings, int64_t n);

#endif
