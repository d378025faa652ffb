// The making of one answer, a token at a time, so that many can be made in turns. Who makes it does
//
//     reply_begin → while not reply_finished: evaluate what is pending in the session, reply_params, draw, reply_token
//                 → reply_end
//
// conversation_reply() does so for one conversation, the scheduler for the rows of a batch.
#ifndef PALAVER_ENGINE_REPLY_H
#define PALAVER_ENGINE_REPLY_H

#include "engine/talk/conversation.h"
#include "kernels/ops.h"

typedef struct Reply Reply;

// Opens the message, renders the conversation, makes room for the reply and makes the session's log equal to the
// prompt, whose uncached rest is pending then. Arguments as conversation_reply()'s; they outlive the reply. Where it
// fails, the messages are as they were, and there is no reply.
Status reply_begin(Conversation *conversation, bool resume, const ConversationEvents *events,
                   ReplyReport *report, Reply **reply, Error *error);

bool reply_finished(const Reply *reply); // the report says why
bool reply_was_read(const Reply *reply); // whether the prompt was, so that tokens have been drawn

// What the next token is drawn with, good until the next call for this conversation. Nothing is pending: what it took
// to make room is told to the events.
void reply_params(Reply *reply, SampleParams *params);

// The same for what follows that token and i - 1 more that are guessed, good until the next call of any of these.
void reply_params_behind(Reply *reply, int i, SampleParams *params);
// The same for *n tokens that were guessed (session_guess) and what follows each, params [*n + 1]. Those from one on that does not
// fit a grammar, or ends its reply, are left out.
Status reply_guessed_params(Reply *reply, int *n, SampleParams *params, Error *error);
// How many tokens may follow the next one: what max_tokens leaves, or more than anyone asks for.
int reply_most_guesses(const Reply *reply);

// Takes a drawn token, which is appended to the session's log: its text, stop strings, limits, and, if it is not the
// last, room for what follows. Then the token is pending, or more if room was made (*moved, may be NULL), or the reply
// is finished.
Status reply_token(Reply *reply, int32_t id, bool *moved, Error *error);

// The same for what session_draw_guessed() gave of n_guessed, [n]: what is behind the reply's end leaves the log.
Status reply_tokens(Reply *reply, int n_guessed, const int32_t *ids, int n, bool *moved, Error *error);

// Ends the reply, which is freed. `status` is what came of making it: where that is a failure, the messages become what
// they were, and it is returned; an interrupt after the prompt was read in is none. STATUS_FATAL behind the first token
// is returned, but what was said is kept as after an interrupt (ReplyReport.kept).
Status reply_end(Reply *reply, Status status, Error *error);

#endif
