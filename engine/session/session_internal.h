// What session.c (evaluation) and session_prefix.c (the log) share.
#ifndef PALAVER_ENGINE_SESSION_INTERNAL_H
#define PALAVER_ENGINE_SESSION_INTERNAL_H

#include "engine/engine_internal.h"
#include "engine/session/session_step.h"

struct Session {
    Engine *engine;
    KvSequence sequence; // of the log's first tokens
    int32_t *log;        // [context_size + 1]: the last token may wait for its evaluation
    int64_t n_log;       // tokens in the log
    int64_t settled;     // tokens of the cache that were known to be well when the last evaluation began
    int64_t n_expected;  // see session_expect()
    int64_t parting;     // see session_piece()
    uint64_t
        version; // another one, unique in the engine, whenever log or cache change but by an appended token
    bool independent; // see session_set_independent()
    bool catches_up;  // what is pending was evaluated before, with guesses behind it that were wrong
    bool holds_ahead; // see session_hold_ahead()
    const atomic_int *interrupt;
    Progress progress;
    int32_t *ids, *positions, *slots; // [max_tokens] of the step in hand
};

// Whether forward.current, which all sessions of an engine share, speaks of this log's last token.
static inline bool session_has_logits(const Session *s) {
    return s->engine->logits_of == s;
}
// It does not any more, and no step ahead is for this log.
static inline void session_drop_logits(Session *s) {
    if (session_has_logits(s)) s->engine->logits_of = NULL;
    s->version = ++s->engine->n_versions;
}

// Evaluates the log's tokens [cached, end), at most a chunk of them, which may reach beyond the log's end. If it fails, the
// cache is as it was. wanted: as forward_step() takes it.
Status session_evaluate_to(Session *session, int64_t end, const LogitRows *wanted, Error *error);

// ---- session_prefix.c: a cache that comes from elsewhere -------------------------------------------------------

// What is cached becomes a branch; the log is empty.
void session_put_aside(Session *session);
// The log, [sequence->length], and what is cached of it become these; the sequence is taken over.
void session_take_over(Session *session, const int32_t *log, KvSequence *sequence);

// ---- session_ahead.c: the step of a token that is still being drawn ------------------------------------------------

// Between the halves of a draw from this session's logits: begins the step of what is being drawn, if that is possible.
void session_ahead_begin(Session *session);
void session_ahead_drawn(Session *session, int32_t id); // behind the second half: what it was
// Where there was such a step for the log's last token, which alone is pending: that is evaluated then, and the
// logits are there.
bool session_ahead_take(Session *session);

// ---- session_kept.c: logits behind a prompt --------------------------------------------------------------------------

// Where layers recur: of this session's last token, for session_restore_logits(), which gives them back to any session of
// the same text, as long as no others are kept. False: it cannot.
void session_keep_logits(Session *session);
bool session_restore_logits(Session *session);

// Where tokens see each other both ways, what was read with another number of them is read again, and so is a part.
void session_match_prefix(Session *session);
// Where frequencies go by the length of the text, what was read with those of another length is read again: always, for
// text that comes as a whole, or once they do not hold any more, for a reply that grows (model_rope_holds).
void session_match_frequencies(Session *session);
void session_keep_frequencies(Session *session);

#endif
