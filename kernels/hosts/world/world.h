// Processes that hold one decoder together, on one host or several: rank 0, which has the conversation, and those that join
// it, each over two TCP connections. One carries messages (wire.h), on rank 0 by the caller's thread alone; by the other,
// the pulse, a thread of its own tells once a second that this process is there, and hears the same of the others. Who is
// not heard of for WORLD_PATIENCE seconds is lost: what waits for it fails at once, and if nobody has noticed soon, `lost`
// is called.
//
// Who joins has to know a key: both sides prove that they do (HMAC with SHA-256, RFC 2104, of numbers that both have drawn)
// before anything else is read. What follows is not encrypted: the network between the hosts has to be trusted.
#ifndef PALAVER_KERNELS_HOSTS_WORLD_H
#define PALAVER_KERNELS_HOSTS_WORLD_H

#include "kernels/hosts/wire.h"

#include <stdatomic.h>

enum {
    WORLD_MOST = 64, // ranks
    WORLD_PATIENCE = 6,
    WORLD_KEY_ROOM = 256,
    WORLD_NAME_ROOM = 64,
    WORLD_FACTS = 3,
};

// Something that has to be the same everywhere; `what` says what differs where it is not.
typedef struct WorldFact {
    const char *what; // NULL: none
    uint64_t hash;
} WorldFact;

typedef struct WorldOptions {
    int size, rank;               // 2 <= size <= WORLD_MOST
    const char *address;          // HOST:PORT of rank 0, [HOST]:PORT where HOST has colons
    const char *key;              // not ""
    WorldFact model[WORLD_FACTS]; // what tells the model from others
    int seconds;                  // to wait for the others to come; 0: 120
    const atomic_int *interrupt;  // while it waits; NULL: never
    // From world_open(), if somebody is waited for longer than a moment, who was turned away meanwhile, and who has come and
    // gone again: one line, without its end; NULL: nobody is told.
    void (*tell)(void *context, const char *words);
    void *tell_context;
    // From the pulse's thread, half a second after a rank was lost and then again and again, until world_close(): which, and
    // why, and whether the caller's thread has been told. NULL: nothing.
    void (*lost)(const char *words, bool told);
} WorldOptions;

typedef struct World World;

// Rank 0 waits for all others; any other for rank 0. Who ends while others are awaited is waited for again. Who comes as a
// rank that is there is refused, also later: rank 0 listens for as long as the world is. STATUS_USAGE: an address or a rank
// that cannot be; STATUS_DEVICE: somebody did not come, or is of another build, model or key: which, and what differs.
Status world_open(const WorldOptions *options, World **world, Error *error);
void world_close(World *world); // rank 0 tells the others; NULL is fine

int world_size(const World *world);
const char *world_name(const World *world,
                       int rank); // where it is: "10.0.0.7"; of another rank than 0 only 0's

// ---- messages: `rank` is the other side, of another rank than 0 that is 0 ---------------------------------------

// What is written goes out with the next world_flush(), or when it is much.
WireOut *world_out(World *world, int rank);
Status world_flush(World *world, int rank, Error *error);
// Flushes, and waits for the answer; *in is what follows its WireAnswer, until the next call. What the rank tells of is
// returned as it is, its place before it. STATUS_FATAL: it is lost.
Status world_ask(World *world, int rank, WireIn *in, Error *error);
// Whether the answer has begun to come, or there will be none, within so many milliseconds; once it was flushed.
bool world_has_answer(World *world, int rank, int milliseconds);
// Steps that go on one behind the other. The message in hand of `to`, begun and not ended, gets n bytes more: what `from`
// answers to what it was told last. Nobody waits: it is passed on when it has come, by the functions here.
void world_relay(World *world, int from, int to, size_t n);
// Passes on what has come; sends what a rank is told, unless that waits for a relay.
Status world_pump(World *world, Error *error);
Status world_start(World *world, int rank, Error *error);
// Rank `rank` is asked whether it is done with what it was told until now, and not waited for. Waits until at most so many
// such questions are open. What failed meanwhile, on any rank, is returned here or by world_ask().
void world_mark(World *world, int rank);
Status world_await(World *world, int rank, int most, Error *error);

// The next message to a rank other than 0.
Status world_receive(World *world, WireHeader *header, WireIn *in, Error *error);

#endif
