// A conversation made once more from its journal alone, to see whether the same comes of it.
#ifndef PALAVER_APP_REPLAY_H
#define PALAVER_APP_REPLAY_H

#include "app/chat/chat.h"

typedef struct ReplayReport {
    int n_replies;    // sampled again, on the way to the head
    int64_t n_tokens; // in them
    bool differs;     // and then:
    char node[TREE_NAME_ROOM];
    int64_t place; // of the token in the reply, from 1
    int32_t was;   // token ids; -1: the reply ended there
    int32_t is;
    // The first reply before which a shifted cache held something else than now; "": none.
    char apart[TREE_NAME_ROOM];
} ReplayReport;

// Samples every reply on the way to the head again, each with the system prompt, settings and random numbers of its
// time, up to the first token that differs; where the cache was shifted, those aside as well. The conversation is
// afterwards as it was before. STATUS_INTERRUPTED: Ctrl-C.
Status replay_verify(Chat *chat, ReplayReport *report, Error *error);

#endif
