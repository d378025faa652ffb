// A reply for a conversation that has no neighbours: what is pending is evaluated, a token drawn, until the reply ends
// by itself, at a limit, or because the interrupt flag is up (Ctrl-C): reply_end() then keeps what was said, or, while
// the prompt was still being read in, takes the turn back. Where something can be guessed of it (drafts.h, guesser.h),
// several tokens are drawn from one step.
#include "engine/model/model.h"
#include "engine/session/session_step.h"
#include "engine/talk/conversation_internal.h"
#include "engine/talk/drafts/drafts.h"
#include "engine/talk/drafts/guesser.h"
#include "engine/talk/reply.h"

_Static_assert((int)DRAFTS_MOST <= (int)SESSION_MOST_DRAFTS, "a step has room for all that are guessed");

// Who makes a reply.
typedef struct Loop {
    Conversation *c;
    Reply *reply;
    Drafts *drafts;   // NULL: nothing is guessed
    Guesser *guesser; // NULL: no model guesses
} Loop;

// Tokens that are guessed, if any: they stand behind the session's log.
typedef struct Guesses {
    int n;
    bool by_guesser;
    bool soon; // there will be some behind the next token, supposedly: its step waits for them
} Guesses;

// Without memory for it nothing is guessed.
static void begin_drafts(Loop *l) {
    Conversation *c = l->c;
    const int most = c->settings.drafts;
    Error ignored;
    if (most < 1 || engine_cannot_draft(c->engine)) return;
    if (!c->drafts && drafts_open(engine_context_size(c->engine), &c->drafts, &ignored)) return;
    const DraftCosts costs = drafts_costs(c->engine);
    drafts_begin(c->drafts, &costs, most);
    if (c->guesser) guesser_begin(c->guesser, &costs, most);
    l->drafts = c->drafts, l->guesser = c->guesser;
}

// What the other model says, into g.
static Status follow_guesser(const Loop *l, int n, Guesses *g, Error *error) {
    Session *session = l->c->session;
    const int vocab = engine_model(l->c->engine)->shape.vocab_size;
    Status status = guesser_follow(l->guesser, session, error);
    while (!status && g->n < n) {
        SampleParams params;
        int32_t id;
        reply_params_behind(l->reply, g->n, &params);
        if (session_interrupted(session)) return STATUS_INTERRUPTED;
        status = guesser_guess(l->guesser, &params, g->n + 1 == n, &id, error);
        if (status || id >= vocab) break; // rows behind the vocabulary are each model's own
        session_guess(session, g->n++, id);
    }
    return status;
}

// Where it is asked at all. What fails there costs the guesses alone, but that a device is lost shows in the reply as well.
static Status ask_guesser(const Loop *l, int room, Guesses *g) {
    Error error = {0};
    const int n = guesser_worth(l->guesser, l->c->session, room);
    g->soon = g->soon || n > 0;
    if (n == 0 || session_is_ahead(l->c->session)) return STATUS_OK;
    const Status status = follow_guesser(l, n, g, &error);
    if (status == STATUS_INTERRUPTED) return status;
    if (status) guesser_give_up(l->guesser, &error), g->n = 0;
    g->by_guesser = g->n > 0;
    return STATUS_OK;
}

// What is guessed behind the token that is pending. A step of it alone that has begun is taken first.
static Status guess(const Loop *l, Guesses *g) {
    Session *session = l->c->session;
    const int most = session_most_drafts(session), wanted = reply_most_guesses(l->reply);
    const int room = most < wanted ? most : wanted;
    const DraftPlan plan = drafts_plan(l->drafts, session_tokens(session), session_length(session),
                                       (int)session_pending(session), room);
    g->soon = plan.soon || plan.n > 0;
    if (plan.n == 0 && l->guesser) return ask_guesser(l, room, g);
    if (session_is_ahead(session)) return STATUS_OK;
    for (; g->n < plan.n; g->n++) session_guess(session, g->n, plan.ids[g->n]);
    return STATUS_OK;
}

// One token.
static Status draw(const Loop *l, Error *error) {
    Session *session = l->c->session;
    SampleParams params;
    int32_t id;
    bool moved;
    reply_params(l->reply, &params);
    if (session_interrupted(session)) return STATUS_INTERRUPTED;
    Status status = session_draw(session, &params, &id, error);
    if (status) return status;
    if (l->drafts) drafts_drawn(l->drafts, &id, 1);
    status = reply_token(l->reply, id, &moved, error);
    if (l->drafts && moved) drafts_forget(l->drafts);
    return status;
}

// One token, and those that were guessed and are right.
static Status draw_guessed(const Loop *l, Guesses *g, Error *error) {
    Session *session = l->c->session;
    SampleParams params[DRAFTS_MOST + 1];
    int32_t ids[DRAFTS_MOST + 1];
    int n;
    bool moved;
    Error ignored;
    if (reply_guessed_params(l->reply, &g->n, params, &ignored) || g->n == 0) return draw(l, error);
    if (session_interrupted(session)) return STATUS_INTERRUPTED;
    Status status = session_draw_guessed(session, g->n, params, ids, &n, error);
    if (status) return status;
    drafts_drawn(l->drafts, ids, n);
    if (g->by_guesser) guesser_learn(l->guesser, g->n, n - 1);
    status = reply_tokens(l->reply, g->n, ids, n, &moved, error);
    if (moved) drafts_forget(l->drafts);
    return status;
}

static Status make_reply(Loop *l, Error *error) {
    Session *session = l->c->session;
    Status status = STATUS_OK;
    begin_drafts(l);
    while (!status && !reply_finished(l->reply)) {
        const bool decoding = reply_was_read(l->reply) && session_decodes(session);
        Guesses guesses = {0};
        if (!decoding)
            status = session_evaluate(session, error);
        else if (l->drafts)
            status = guess(l, &guesses);
        if (status) break;
        session_hold_ahead(session, guesses.soon);
        status = guesses.n > 0 ? draw_guessed(l, &guesses, error) : draw(l, error);
    }
    session_hold_ahead(session, false);
    return status;
}

Status conversation_reply(Conversation *c, bool resume, const ConversationEvents *events, ReplyReport *report,
                          Error *error) {
    Loop loop = {.c = c};
    Status status = reply_begin(c, resume, events, report, &loop.reply, error);
    return status ? status : reply_end(loop.reply, make_reply(&loop, error), error);
}
