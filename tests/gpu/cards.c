// Two cards as one (kernels/shards): every case that can be cut, op by op against the CPU's plain loops, and golden models,
// through the cards' own memory, and some of both through the host's.
#include "kernels/shards/shard_ops.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/engine_tests.h"
#include "tests/gpu/side.h"

#include <stdio.h>
#include <stdlib.h>

static const char TWO[] = "cuda:0,1";

static void through_the_host(bool so) {
    if (so)
        setenv("PALAVER_NO_PEER", "1", 1);
    else
        unsetenv("PALAVER_NO_PEER");
}

bool cards_are_there(const Ops *cuda) {
    ShardDevices devices;
    Error error = {0};
    if (cuda->shards && !cuda->shards->devices(TWO, &devices, &error)) return true;
    printf("cards: not tested: %s\n", error.message);
    return false;
}

void test_cards(const CardsWish *w) {
    for (int host = 0; host < 2; host++) {
        through_the_host(host);
        for (int i = w->part; i < N_CASES; i += w->parts * (host ? 9 : 1)) w->test(w->cuda, TWO, &CASES[i]);
        if (w->part == 0) test_golden_on(w->golden, TWO, w->parts * (host ? 9 : 1), report);
    }
    through_the_host(false);
}
