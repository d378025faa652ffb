// A session taken apart into its log and its part of a step, so that tokens of many sessions can go through one: for
// reply.c and batch.c, and for who makes steps of tokens without text.
#ifndef PALAVER_ENGINE_SESSION_STEP_H
#define PALAVER_ENGINE_SESSION_STEP_H

#include "engine/engine.h"
#include "engine/session/session_slot.h"
#include "kernels/ops.h"

// From now on what is cached here depends on this session alone, and on what others have read in (never decoded) of the
// same tokens: nothing of its own becomes a branch by itself, and branches are looked at only where nothing is its own.
void session_set_independent(Session *session);

// The first half of session_sync(): the log becomes `tokens`, with the longest cached prefix; the rest is pending.
Status session_set(Session *session, const int32_t *tokens, int64_t n, Error *error);
// Tokens of the log that need not be evaluated for its last one's logits.
int64_t session_usable(const Session *session);
// The second half: evaluates what is pending, until the last token's logits are there.
Status session_evaluate(Session *session, Error *error);
// session_sample() without appending the token, and the appending: it is pending then, and all of the log where its
// length changes the frequencies.
Status session_draw(Session *session, const SampleParams *params, int32_t *token, Error *error);
void session_push(Session *session, int32_t token);

// ---- tokens that are guessed (session_drafts.c) -------------------------------------------------------------------

enum { SESSION_MOST_DRAFTS = 15 };

// Whether what is pending is a reply's newest token, alone or with some that were evaluated before but could not be kept.
bool session_decodes(const Session *session);
// How many may be guessed behind the log's last token then, so that all of them leave the context room for one more, and
// the step has SESSION_MOST_DRAFTS + 1 tokens at most; 0: none.
int session_most_drafts(const Session *session);
// Writes the i-th of them behind the log, which does not become longer.
void session_guess(Session *session, int i, int32_t id);
// Evaluates what is pending and the n tokens that were guessed, and draws behind each as far as they are right, with params
// [n + 1]: tokens [*n_drawn], at least one, of which all but the last are the log's now, and cached where the engine takes
// tokens back; the last is for session_push(). After a failure log and cache are as they were, but for what was pending.
// STATUS_CONTEXT: no page is left.
Status session_draw_guessed(Session *session, int n, const SampleParams *params, int32_t *tokens,
                            int *n_drawn, Error *error);
// Drops the log's tokens from `length` >= 1 on; the last of the others is pending, as if it had just been drawn.
void session_cut(Session *session, int64_t length);
// Whether the step of the log's last token, which is pending, has begun already.
bool session_is_ahead(const Session *session);
// What interrupts the other interrupts this one, too.
void session_interrupt_with(Session *session, const Session *other);
// Whether session_draw() leaves the step of what it draws to who comes next.
void session_hold_ahead(Session *session, bool holds);

// Tokens at the end of the log that are not in the cache. session_want_logits() makes it at least one where nobody has
// the last token's logits.
int64_t session_pending(const Session *session);
// Of n of them as many as one step may take. Where layers recur and the log begins as another text does, it is read as far as
// that first, so that a mark stands there: what comes after and begins like both finds it.
int64_t session_piece(const Session *session, int64_t n);
void session_want_logits(Session *session);
// Of these tokens as many as one step has to take together: those that see each other.
int64_t session_whole(const Session *session);

// Where a session's tokens go in a step.
typedef struct SessionPart {
    int32_t *ids, *positions, *slots; // [n] filled
    StepSequence *sequence;           // filled, but for first_token
} SessionPart;

// Takes slots for the next n pending tokens and fills their part of a step, after which they count as cached. leave()
// takes that back where the step failed.
Status session_enter(Session *session, int n, SessionPart *part, Error *error);
void session_leave(Session *session, int n);

// Keeps what was read in of the log's first n tokens, none of which was decoded, for other sessions, unless they are
// few.
void session_share(Session *session, int64_t n);

// Drops everything: the next session_set() finds nothing of its own.
void session_clear(Session *session);

// ---- steps of tokens that are not known yet (session_ahead.c) -----------------------------------------------------

// The slot for the token behind a log that is evaluated, and its part of a step, with any id. The session holds a
// page for it, and is else as it was. False: it has to move something first, or to make room.
bool session_reserve(Session *session, SessionPart *part, SessionSlot *slot);
// The same for the one token that is pending, as session_enter() does.
Status session_reserve_pending(Session *session, SessionPart *part, SessionSlot *slot, Error *error);
// The token is the log's last, and pending: it counts as cached. False, and nothing changed: it is another one, or the
// session went other ways meanwhile.
bool session_claim(Session *session, const SessionSlot *slot);
void session_release(Session *session); // gives back a page that is held

#endif
