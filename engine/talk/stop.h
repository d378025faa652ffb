// Stop strings over a stream of bytes: they end a reply wherever they appear, also across tokens.
//
// The reply ends at the first byte that completes a stop string; of several that end there the longest
// counts. It and what comes later are not part of the reply. Bytes that could still become the beginning of a
// stop string are held back. How the stream is cut into pieces makes no difference.
#ifndef PALAVER_ENGINE_STOP_H
#define PALAVER_ENGINE_STOP_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct StopMatcher StopMatcher;

// What may be shown now: first bytes that were held back, then bytes of the piece itself. Either may be
// empty.
typedef struct StopText {
    const char *held; // [n_held], lives as long as the matcher
    size_t n_held;
    const char *fresh; // [n_fresh], within the piece that was given
    size_t n_fresh;
    bool stopped; // a stop string is complete
} StopText;

// Copies the strings [n] (NUL-terminated; n may be 0). An empty string is STATUS_USAGE.
Status stop_open(const char *const *strings, int n, StopMatcher **matcher, Error *error);
void stop_close(StopMatcher *matcher); // NULL is fine

// The next piece of the stream. After a stop nothing more comes out. O(size · n), nothing is
// allocated.
StopText stop_feed(StopMatcher *matcher, const char *bytes, size_t size);

// The stream is over: what is still held back comes out. The next piece begins a new one,
// unless a stop string has ended it.
StopText stop_flush(StopMatcher *matcher);

#endif
