// A backend of several processes, on one host or many (world.h): each holds some of a decoder's layers, one after the other,
// in a backend of its own (a card, several as one, the CPU), and the cache of these layers. Rank 0, which opens this, has the
// first ones and the embedding, the last rank the output and the sampling, so that of a step x goes from rank to rank, some
// kilobytes a token, and a drawn id comes back.
//
// It has the ops of ops.h and nothing else: who calls them does not know. What alloc() returns is an address at which nothing
// lies; every rank has memory of its own for it, which is written on all and read from the last, where a step ends. Memory of
// layers (alloc_layers) is divided between them. Ops of others' layers are recorded, and sent when something is asked for that
// needs them done: as those of a card, they fail with what is asked for next.
#ifndef PALAVER_KERNELS_HOSTS_HOSTS_H
#define PALAVER_KERNELS_HOSTS_HOSTS_H

#include "kernels/hosts/world/world.h"

// How rank 0 finds that another one's files are others than its own, of what it uses of them.
typedef struct HostsFiles {
    void *context;
    uint64_t files; // WireOpened.files of rank 0: of who has the same nothing is compared
    // A rank begins to load layers [first, first + n) of its files, and of the last rank the output.
    Status (*begin)(void *context, int first, int n, bool is_last, Error *error);
    Status (*start)(void *context, Error *error); // all have begun
    // What it has loaded: STATUS_FILE, and what differs.
    Status (*compare)(void *context, int first, int n, bool is_last, const void *sums, size_t bytes,
                      Error *error);
} HostsFiles;

typedef struct HostsOptions {
    World *world;            // there for the life of the backend
    WireOpen what;           // all have in common: n_rows, weights, head, fp8, context_size
    const HeadWeights *head; // as BackendOptions.layers: by whose sizes memory is planned
    // Opens rank 0's own part.
    Status (*open)(const void *context, const BackendOptions *options, Backend **backend, Error *error);
    const void *context;
    HostsFiles files;            // begin NULL: nothing is compared
    const atomic_int *interrupt; // while the others load; NULL: never
} HostsOptions;

// Of load_layer() the last one waits for the others; STATUS_FATAL: one of them is lost, or its files are not rank 0's, which
// it is told.
//
// STATUS_UNSUPPORTED: layers lend each other keys and values, or are fewer than ranks.
Status hosts_open(const HostsOptions *hosts, const BackendOptions *options, Backend **backend, Error *error);

// Rank 0's own part; NULL: `backend` is not of several hosts.
Backend *hosts_own(const Backend *backend);
// Whether a layer is rank 0's own; of load_layer() for others the weights are not looked at.
bool hosts_has_layer(const Backend *backend, int layer);
// What each rank is, as far as what it computes goes by it, in one number.
uint64_t hosts_hash(const Backend *backend);

#endif
