// What a reply in the making consists of, and what its files share: reply.c makes it, reply_guess.c looks at what is
// guessed of it.
#ifndef PALAVER_ENGINE_REPLY_INTERNAL_H
#define PALAVER_ENGINE_REPLY_INTERNAL_H

#include "engine/grammar/matcher.h"
#include "engine/talk/reply.h"
#include "engine/talk/stop.h"
#include "kernels/base/text/utf8.h"
#include "tokenizer/chat/channels.h"

// The reply in hand. Its message is the last of the conversation from the beginning on.
struct Reply {
    Conversation *conversation;
    const ConversationEvents *events; // NULL: nobody listens
    ReplyReport *report;
    ReplyReport unread; // where nobody wants one
    StopMatcher *stops;
    Matcher *matcher;  // NULL: any text will do
    Matcher *scout;    // goes ahead over what is guessed; NULL: nothing was yet
    uint32_t *scouted; // [n_scouted, words] what may come behind each guess
    int n_scouted;
    const uint32_t *allowed; // tokens that may come next, the matcher's; NULL: all
    Utf8Stream utf8;
    size_t ids_capacity, text_capacity;
    LogitAdjustment *adjustments; // of several draws
    size_t adjustments_capacity;
    int n_logged; // tokens that come are in the log already
    Channels channels;
    int32_t previous; // the token before, -1 at the reply's beginning
    Message *before;  // [n_before] the messages as they were; texts and ids are not theirs
    int n_before;
    bool was_read, finished;
    double start, first; // when it began, and when the first token was drawn
    // Room that was made and not told yet, for what is pending has to be read in first.
    bool made_room;
    OverflowEvent event;
    double event_start, event_seconds; // of making room alone
    int64_t event_read;                // tokens that are read in behind it, new ones included
};

// A matcher of the settings' grammar, at its beginning.
Status reply_open_matcher(const Conversation *conversation, Matcher **matcher, Error *error);

#endif
