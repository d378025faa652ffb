// A device for tests that can begin the step of a token while that is being drawn: the CPU's ops, which draw and
// decode in the halves of ops.h. What it computes is what they compute.
#ifndef PALAVER_TESTS_AHEAD_H
#define PALAVER_TESTS_AHEAD_H

#include "engine/engine.h"

typedef struct AheadCounts {
    int steps, ahead; // of one token: all, and of these such whose id was being drawn
    int before_end;   // steps asked for between the halves of a draw
} AheadCounts;

// From now on the engine's backend is that; `steps_ahead`: whether the engine may make use of it. One engine at a time
// counts, the last one.
void ahead_install(Engine *engine, bool steps_ahead);
AheadCounts ahead_counts(void); // since it was installed

// The next draw finds a logit that is no number, in this row of it.
void ahead_fail_once(void); // the first
void ahead_fail_in_row(int row);

#endif
