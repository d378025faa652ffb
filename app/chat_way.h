// From the tree of turns to the conversation's messages, and from messages that left the window back to turns. Only
// for chat*.c.
#ifndef PALAVER_APP_CHAT_WAY_H
#define PALAVER_APP_CHAT_WAY_H

#include "app/chat.h"

// Makes the conversation's messages those of the way to a node: sampled ids, what left the window, all as it was
// there. The next reply's session_sync keeps of the cache what the old and the new way share.
Status way_project(Chat *chat, int index, Error *error);

// A reply is about to be made: it belongs to the turn after `parent`, and what is out of the window is so at `from`.
Status way_begin(Chat *chat, int parent, int from, Error *error);

// The engine counts turns by what the user said; writes instead the turns of the tree that left since the last call.
void way_name_turns(Chat *chat, OverflowEvent *event);

#endif
