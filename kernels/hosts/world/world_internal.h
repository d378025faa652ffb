// What the files of a world share: sockets (world_socket.c), how it comes together (world_meeting.c), who may join
// (world_join.c) and is heard side by side (world_lobby.c), and the pulse (world_pulse.c).
#ifndef PALAVER_KERNELS_HOSTS_WORLD_INTERNAL_H
#define PALAVER_KERNELS_HOSTS_WORLD_INTERNAL_H

#include "kernels/hosts/world/world.h"

#include <pthread.h>

// Bytes that another rank's answer brings, to stand at byte `at` of what a rank is told.
typedef struct Relay {
    int from;
    size_t at, n;
} Relay;

// The connections to one other rank.
typedef struct Link {
    int data, pulse; // sockets; -1: none
    char name[WORLD_NAME_ROOM];
    WireOut out;
    struct Writer *writer; // of rank 0; NULL: what is sent goes at once
    char *in;              // the last message that came
    size_t in_room;
    Relay *relays; // [n_relays] in the order of `out`
    size_t n_relays, relays_room;
    int n_marks;       // that it has not answered
    double heard;      // when the pulse was heard last; before there is one, when the other connection came
    atomic_bool loses; // somebody says why
    atomic_bool lost;  // and has said it
    char why[128];
} Link;

struct World {
    WorldOptions options;
    Link links[WORLD_MOST]; // of rank 0 [size], its own unused; else [0]
    pthread_t thread;
    bool has_thread;
    int wakes[2];        // a pipe that ends the thread
    atomic_bool closes;  // connections may end
    atomic_bool told;    // the caller knows that somebody is lost
    struct Lobby *lobby; // of rank 0: who calls; of the meeting's thread, and then of the pulse's
    Status late;         // what an answer told that nobody waited for
    Error late_error;
    struct Reader *reader; // of another rank than 0
};

static inline int world_first(const World *w) {
    return w->options.rank == 0 ? 1 : 0;
}
static inline int world_end(const World *w) {
    return w->options.rank == 0 ? w->options.size : 1;
}

// ---- world_socket.c ---------------------------------------------------------------------------------------------

// All of it, or not: errno; 0 where the other side has closed.
bool socket_write(int socket, const void *bytes, size_t n);
bool socket_read(int socket, void *bytes, size_t n);
Status socket_listen(const char *address, int *socket, Error *error);
// Once; STATUS_DEVICE: nobody is there.
Status socket_connect(const char *address, int *socket, char name[WORLD_NAME_ROOM], Error *error);
// The next who has come, whom nobody waits for: reading and writing fail where they would. False: nobody, or errno.
bool socket_accept(int listener, int *socket, char name[WORLD_NAME_ROOM]);
// Seconds after which writing and reading fail; 0: never.
void socket_set_patience(int socket, int to_write, int to_read);
void socket_set_waiting(int socket, bool waits); // else writing and reading fail at once
void socket_close(int *socket);

// ---- world_join.c -----------------------------------------------------------------------------------------------

enum { JOIN_DATA, JOIN_PULSE, JOIN_KINDS };

enum { JOIN_NONCE = 32, JOIN_PROOF = 32 };

// What each side says of itself.
typedef struct Greeting {
    char magic[8];
    uint32_t wire, abi, structs; // structs: bytes of what travels as it lies in memory
    int32_t kind, rank, size;
    uint64_t facts[WORLD_FACTS];
    char version[32];
    uint8_t nonce[JOIN_NONCE];
} Greeting;

typedef struct JoinAnswer {
    Greeting own;
    uint8_t proof[JOIN_PROOF];
} JoinAnswer;

// Of one connection, on the side that has connected: STATUS_DEVICE, and why rank 0 does not want it.
Status join_ask(const World *world, int kind, int socket, Error *error);

// Somebody who has called rank 0, and how far it has come.
typedef struct Caller {
    int socket;
    char name[WORLD_NAME_ROOM];
    double since;
    Greeting its;
    JoinAnswer answer;
    uint8_t proof[JOIN_PROOF];
    size_t n;     // bytes of `its`, then of `proof`
    bool greeted; // `its` is whole, and answered
} Caller;

typedef enum JoinResult {
    JOIN_WAITS,   // for what the caller says next
    JOIN_IN,      // it is rank caller->its.rank's connection of kind caller->its.kind
    JOIN_AWAY,    // it has not shown that it knows the key: there may be others
    JOIN_TWICE,   // it knows the key, and its rank is there
    JOIN_DIFFERS, // it knows the key, and is none of this world
} JoinResult;

// On rank 0: what has come of a caller is taken, and nothing is waited for. *error says who is turned away, and why.
JoinResult join_go_on(const World *world, Caller *caller, Error *error);

// ---- world_lobby.c ------------------------------------------------------------------------------------------------

enum { LOBBY_MOST = 64, LOBBY_SECONDS = 5 }; // callers at once; seconds that each has

typedef struct Lobby Lobby;
Status lobby_open(World *world, Error *error); // listens
void lobby_close(World *world);                // none is fine
// Sockets that something may come from, at most LOBBY_MOST + 1.
struct pollfd;
int lobby_sockets(const World *world, struct pollfd *to);
// What has come is taken, of all callers and without waiting. Who ends so is told of: of JOIN_IN the caller's socket is the
// taker's.
typedef void LobbyTake(void *context, JoinResult result, const Caller *caller, const Error *error);
void lobby_turn(World *world, LobbyTake *take, void *context);

// ---- world_meeting.c ----------------------------------------------------------------------------------------------

// As world_open(): the connections to all others.
Status meeting_run(World *world, Error *error);

// ---- world.c, for world_relay.c ---------------------------------------------------------------------------------

// All of it, which is empty then.
Status world_send(World *world, int rank, WireOut *out, Error *error);
// The next answer, of what has been sent; *in is what follows its WireAnswer.
Status world_take_answer(World *world, int rank, WireIn *in, Error *error);

// ---- world_relay.c ------------------------------------------------------------------------------------------------

// All relays to a rank, which are waited for.
Status world_pass_all(World *world, int to, Error *error);
// The answer to the oldest mark; what it tells of is noted for world_late(): that, once.
Status world_take_mark(World *world, int rank, Error *error);
Status world_late(World *world, Error *error);

// ---- world_writer.c -----------------------------------------------------------------------------------------------

typedef struct Writer Writer;
Status writer_open(Link *link, Error *error);
// Sends all of it, now or soon; its memory may be another one then. False: the connection is of no use any more.
bool writer_send(Writer *writer, WireOut *out);
void writer_close(Link *link); // waits a while for what is on its way; none is fine

// ---- world_reader.c -----------------------------------------------------------------------------------------------

typedef struct Reader Reader;
Status reader_open(World *world, Error *error);
// False: nothing will come any more.
bool reader_take(Reader *reader, WireHeader *header, WireIn *in);
void reader_close(World *world); // none is fine

// ---- world_pulse.c ------------------------------------------------------------------------------------------------

Status pulse_open(World *world, Error *error);
void pulse_close(World *world);
void pulse_beat(World *world); // to all who have come
void pulse_lose(Link *link, const char *why);

#endif
