// Four cards that are none: the CPU's ops, under the name "cuda", with memory of their own, threads that wait for each
// other, and whole steps at once, so that what makes one backend of several (kernels/shards) can be tested without a GPU.
#ifndef PALAVER_TESTS_FAKE_CARDS_H
#define PALAVER_TESTS_FAKE_CARDS_H

#include "kernels/ops.h"

#include <stdatomic.h>

enum { FAKE_CARDS = 4 };

// What goes on in all of them.
typedef struct FakeCards {
    bool plain;     // the CPU's plain loops
    bool no_decode; // steps at once, and steps ahead, are refused
    // So many calls of qkv() from now on the second card's fails, and has stored nothing; 0: never.
    int fails_qkv;
    int slow_ms;                // that qkv() of a layer takes besides
    atomic_int busy, most_busy; // cards in such a qkv() at once: now, and at most
    int fails_out;              // so many calls of out() from now on the second card's fails; 0: never
    bool fatal;                 // it is lost by that
    int fails_load;             // likewise of load_layer()
    int n_sums;                 // made so far, by all cards
    int n_open;                 // backends
    bool locked;                // other processes may want them: each is "test-PID-INDEX"
    int n_used;                 // times that a thread was told to work with a first one
    int n_finished;             // times that one was waited for
    int64_t n_bytes;            // of matrices that were loaded
    int64_t room;               // bytes that are free on each card; 0: as many as the CPU has
} FakeCards;

// The ops; `cards` is there as long as any of their backends. One test at a time.
const Ops *fake_cards(FakeCards *cards);

#endif
