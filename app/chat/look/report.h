// Lines for people: banner, statistics, the context and what leaves it. All of it goes to stderr.
#ifndef PALAVER_APP_REPORT_H
#define PALAVER_APP_REPORT_H

#include "app/chat/chat.h"

void report_banner(Chat *chat);
void report_turn(Chat *chat); // the statistics line, if wanted, and warnings
void report_overflow(Chat *chat, const TranscriptOverflow *overflow);
void report_stats(Chat *chat); // /stats
// A turn of before: at a terminal its reply looks as it did when it was made.
void report_old_turn(Chat *chat, const TranscriptNode *node);
// Where the conversation stands now: its last turn as it looked, with what was said of its end. Nothing in a script.
void report_last_turn(Chat *chat);
// There is more room, or another conversation: what was warned of is warned of again.
void report_again(Chat *chat);

#endif
