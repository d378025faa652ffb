// States of layers that recur: what a text has left in them, at the lengths that a sequence's marks name.
//
// A step reads one state and writes another, so that a sequence can be taken back by its last step, and forked where it
// stands. Of steps of one token only the last two are kept; where a step of several begins and ends, which is where a turn
// begins and where a reply does, it stays, until there are more than cache.kept_marks. What lies between is read again from
// the last mark before it.
#ifndef PALAVER_ENGINE_KV_STATES_H
#define PALAVER_ENGINE_KV_STATES_H

#include "engine/cache/kv_cache.h"

// How many states a cache for n sequences has, and most marks that one of them keeps.
int kv_states_count(int n_sequences);
int kv_states_kept(int n_sequences);

// A mark behind the sequence's next n tokens, where the step that evaluates them leaves its states. One that was reserved
// for a token, and is behind as many, is taken as it is. STATUS_CONTEXT: no state is left, and no branch that has one.
Status kv_states_extend(KvCache *cache, KvSequence *sequence, int n, Error *error);

// Drops the marks beyond `length`.
void kv_states_truncate(KvCache *cache, KvSequence *sequence, int64_t length);

// Whether kv_states_extend() by one token takes nothing from anybody.
bool kv_states_has_room(const KvCache *cache, const KvSequence *sequence);

// The states of a copy are its own as well.
void kv_states_share(KvCache *cache, const KvSequence *sequence);

// The state behind the first `length` tokens; -1: there is none, and where length is not 0 no mark either.
int32_t kv_states_at(const KvSequence *sequence, int64_t length);

#endif
