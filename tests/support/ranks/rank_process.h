// Ranks of a talk over several processes, as a person starts them.
#ifndef PALAVER_TESTS_RANK_PROCESS_H
#define PALAVER_TESTS_RANK_PROCESS_H

#include "app/record/transcript/transcript.h"
#include "tests/support/files.h"

#include <sys/types.h>

// A talk, and a script of RANKS_TURNS turns for it.
#define RANKS_TALK BABBLER "|--seed=1|--max-tokens=4|--threads=1|--device=cpu|--context=512"

enum { RANKS_TURNS = 12 };
extern const char RANKS_SCRIPT[];

// One of them: what it is told on stdin, and what it says on stderr, and on stdout.
typedef struct RankProcess {
    pid_t pid;
    int in, err, out;
    Bytes said; // on stderr
} RankProcess;

// One of two that meet at `address`; more: further arguments, each behind a '|'.
RankProcess rank_start(const char *more, int rank, const char *address);
void rank_end(RankProcess *c);
// Rank 0 and rank 1.
void rank_start_both(const char *more, RankProcess *first, RankProcess *other);

void rank_tell(RankProcess *c, const char *text);
void rank_tell_all(RankProcess *c, const char *text); // and no more

// Reads its stderr until it has told of so many turns, or ends.
bool rank_read_turns(RankProcess *c, int n);

// Its exit status, or 128 and the signal; it has so many seconds to end in.
int rank_wait(RankProcess *c, int seconds);

// The only journal there is; NULL: there is none. Turns in it; 0: there is none. And none from now on.
Transcript *ranks_kept(const char *home);
int ranks_turns_kept(const char *home);
void ranks_forget(const char *home);

#endif
