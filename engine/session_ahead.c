// The step ahead: while the host waits for a token that is being drawn, and while it makes text of it, the device is
// already at that token's step. Its logits lie beside those that the token is drawn from, its slot is the next one of the
// session, which does not know of it: until the token is pushed and its logits are wanted, log and cache are what they
// would be without it, and whoever goes on otherwise finds a slot that is not in use.
#include "engine/session_internal.h"

// Whether the next slot is there and nothing has to be moved for it. The last slot of the window is left alone: who fills
// it makes room first, as a rule.
static bool has_room(const Session *s) {
    const KvCache *cache = &s->engine->cache;
    return s->sequence.length == s->n_log && s->n_log + 1 < cache->window &&
           kv_sequence_has_room(cache, &s->sequence);
}

void session_ahead_begin(Session *s) {
    Engine *engine = s->engine;
    KvCache *cache = &engine->cache;
    StepAhead *ahead = &engine->ahead;
    Error ignored; // what fails here is said by the step itself, once it is wanted
    ahead->of = NULL;
    if (!has_room(s) || kv_sequence_extend(cache, &s->sequence, 1, &ahead->slot, &ahead->position, &ignored))
        return;
    const int32_t unknown = 0, row = 0;
    const StepSequence all = kv_sequence_step(cache, &s->sequence, 1);
    const Step step = {
        .n_tokens = 1,
        .n_sequences = 1,
        .ids = &unknown,
        .positions = &ahead->position,
        .slots = &ahead->slot,
        .sequences = &all,
        .page_size = cache->page_size,
        .slot_positions = cache->slot_positions,
    };
    Status status = forward_step_ahead(&engine->forward, &step, &row, cache, &ignored);
    kv_sequence_truncate(cache, &s->sequence, s->n_log);
    if (status) return;
    ahead->of = s;
    ahead->length = s->n_log;
    ahead->id = -1;
}

void session_ahead_drawn(Session *s, int32_t id) {
    if (s->engine->ahead.of == s) s->engine->ahead.id = id;
}

bool session_ahead_is(const Session *s, int32_t id) {
    const StepAhead *ahead = &s->engine->ahead;
    return ahead->of == s && ahead->length == s->n_log && ahead->id == id;
}

bool session_ahead_take(Session *s) {
    StepAhead ahead = s->engine->ahead;
    KvCache *cache = &s->engine->cache;
    int32_t slot, position;
    Error ignored;
    if (ahead.of != s || s->n_log != ahead.length + 1 || s->sequence.length != ahead.length) return false;
    s->engine->ahead.of = NULL;
    if (kv_sequence_extend(cache, &s->sequence, 1, &slot, &position, &ignored)) return false;
    if (slot != ahead.slot || position != ahead.position) {
        kv_sequence_truncate(cache, &s->sequence, ahead.length);
        return false;
    }
    forward_take_ahead(&s->engine->forward);
    s->engine->logits_of = s;
    return true;
}
