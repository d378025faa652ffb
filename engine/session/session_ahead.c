// Steps ahead: while the host waits for a token that is being drawn, and while it makes text of it, the device is
// already at that token's step. Its slot is the next one of its session, which does not know of it: until the token
// is pushed and its logits are wanted, log and cache are what they would be without it, and whoever goes on otherwise
// finds a slot that is not in use.
#include "engine/session/session_internal.h"

// ---- a slot for a token that is not known yet -----------------------------------------------------------------------

static SessionSlot slot_behind(const Session *s, const SessionPart *part, int32_t id) {
    return (SessionSlot){s->version,     s->sequence.length, id,
                         part->slots[0], part->positions[0], part->sequence->state_to};
}

// The last slot of the window is left alone: who fills it makes room first, as a rule.
bool session_reserve(Session *s, SessionPart *part, SessionSlot *slot) {
    KvCache *cache = &s->engine->cache;
    Error ignored;
    if (s->sequence.length != s->n_log || s->n_log + 1 >= cache->context_size ||
        !kv_sequence_has_room(cache, &s->sequence) ||
        kv_sequence_extend(cache, &s->sequence, 1, part->slots, part->positions, &ignored))
        return false;
    part->ids[0] = 0;
    *part->sequence = kv_sequence_step(cache, &s->sequence, 1);
    s->sequence.length--;
    *slot = slot_behind(s, part, -1);
    return true;
}

Status session_reserve_pending(Session *s, SessionPart *part, SessionSlot *slot, Error *error) {
    Status status = session_enter(s, 1, part, error);
    if (status) return status;
    s->sequence.length--;
    *slot = slot_behind(s, part, part->ids[0]);
    return STATUS_OK;
}

bool session_claim(Session *s, const SessionSlot *slot) {
    KvCache *cache = &s->engine->cache;
    int32_t at, position;
    Error ignored;
    if (s->version != slot->version || s->sequence.length != slot->length || s->n_log != slot->length + 1 ||
        s->log[slot->length] != slot->id)
        return false;
    if (kv_sequence_extend(cache, &s->sequence, 1, &at, &position, &ignored)) return false;
    if (at == slot->slot && position == slot->position &&
        kv_states_at(&s->sequence, s->sequence.length) == slot->state)
        return true;
    kv_sequence_truncate(cache, &s->sequence, slot->length);
    return false;
}

void session_release(Session *s) {
    kv_sequence_truncate(&s->engine->cache, &s->sequence, s->sequence.length);
}

// ---- the step ahead of one session --------------------------------------------------------------------------------

void session_ahead_begin(Session *s) {
    Engine *engine = s->engine;
    const KvCache *cache = &engine->cache;
    const int32_t row = 0;
    int32_t id, slot, position;
    StepSequence all;
    SessionPart part = {&id, &position, &slot, &all};
    engine->ahead.of = NULL;
    if (!session_reserve(s, &part, &engine->ahead.slot)) return;
    const Step step = {
        .n_tokens = 1,
        .n_sequences = 1,
        .ids = &id,
        .positions = &position,
        .slots = &slot,
        .sequences = &all,
        .page_size = cache->page_size,
        .slot_positions = cache->slot_positions,
    };
    Error ignored; // what fails here is said by the step itself, once it is wanted
    float *logits = forward_other_row(&engine->forward);
    Status status = forward_step_ahead(&engine->forward, &step, &row, cache, logits, &ignored);
    session_release(s); // who takes the page for something else, evaluates it, and forgets this step
    engine->rows_ahead = NULL;
    if (!status) engine->ahead.of = s;
}

void session_ahead_drawn(Session *s, int32_t id) {
    if (id < 0) s->engine->ahead.of = NULL;
    s->engine->ahead.slot.id = id;
}

bool session_ahead_take(Session *s) {
    Engine *engine = s->engine;
    if (engine->ahead.of != s || !session_claim(s, &engine->ahead.slot)) return false;
    engine->ahead.of = NULL;
    engine->forward.current = forward_other_row(&engine->forward);
    engine->logits_of = s;
    return true;
}
