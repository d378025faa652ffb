// From the tree of turns to the conversation's messages, and from messages back to turns.
#ifndef PALAVER_APP_WAY_H
#define PALAVER_APP_WAY_H

#include "app/chat/chat.h"

// Messages of the way to a node: sampled ids, what was evicted, all as it was there. They are prepared beside those
// of the conversation, and taken when all that can fail has gone well: the tree and the messages never tell two things.
typedef struct Way {
    const Transcript *transcript;
    int index;                  // of the node, or TREE_START
    bool go;                    // the head is about to go there
    const char *system;         // the prompt as it is about to be, seen; NULL: as it is
    const TranscriptNode *more; // what is about to follow the node; NULL: nothing
} Way;
Status way_prepare(const Way *way, MessageList *list, Error *error); // the list is empty after a failure
// The way to the head: what a turn that fails goes back to.
Status way_prepare_here(const Chat *chat, MessageList *list, Error *error);
void way_take(Chat *chat, MessageList *list);

// Both at once. The next reply's session_sync keeps of the cache what the old and the new way share.
Status way_project(Chat *chat, int index, Error *error);
Status way_project_here(Chat *chat, Error *error); // to the transcript's head

// The head moves: `why` is one word for the journal ("undo"). The messages follow; the cache does with the next reply,
// whose session_sync() cuts it there or keeps what goes on as a branch (engine/session/session_prefix.c).
Status way_go(Chat *chat, int index, const char *why, Error *error);

// A reply is about to be made: it belongs to the turn after `parent`, and what is out of the window is so at `from`.
Status way_begin(Chat *chat, int parent, int from, Error *error);

bool way_sees_system(const Chat *chat); // there is a system prompt, and it is in the window

// A turn of a way, as messages of the conversation.
typedef struct WayTurn {
    int node;         // of the tree
    int begin, end;   // its messages: [begin, end)
    bool evicted;     // whole
    int n_seen;       // messages of it in the window
    int64_t n_tokens; // in the window
} WayTurn;

// The turns on the way to a node, whose messages the conversation has; *turns [tree_turn(index)] is malloc'ed. `view`
// (may be NULL) is the conversation's: the tokens are counted in it.
Status way_turns(Chat *chat, int index, const ConversationView *view, WayTurn **turns, Error *error);
// Which turns [n] `n_messages` in the window belong to, after the `skip` oldest of them and the system prompt.
TreeRange way_oldest(const WayTurn *turns, int n, int skip, int n_messages);
// Writes "turn 3", "turns 1-4" or "the system prompt and turns 1-4" into text [WAY_RANGE_ROOM]; range.first 0: no turns.
enum { WAY_RANGE_ROOM = 64 };
const char *way_range_text(bool system, TreeRange range, char *text);

// The engine counts turns by what the user said; writes instead what was evicted of the turns of the tree since the
// last call.
void way_name_turns(Chat *chat, TranscriptOverflow *overflow);

#endif
