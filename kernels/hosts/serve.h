// The other side of hosts.h: a rank other than 0, which holds its layers and does as rank 0 asks until it ends.
#ifndef PALAVER_KERNELS_HOSTS_SERVE_H
#define PALAVER_KERNELS_HOSTS_SERVE_H

#include "kernels/hosts/world/world.h"

// What a rank has of a decoder. ServeOps.open() and load() fill it; close() releases it, and leaves NULLs.
typedef struct ServePart {
    void *context;             // the caller's
    Backend *backend;          // NULL: not yet
    const DecoderShape *shape; // of the part: n_layers of its own
    Layer **layers;            // [shape->n_layers]
    Head *head;                // of the last rank
    int max_tokens, max_logits;
    int64_t weights;      // bytes
    uint64_t files;       // WireOpened.files
    const uint64_t *sums; // [n_sums] of what was loaded
    int64_t n_sums;
    // The server's own:
    KvLayer *kv;  // [shape->n_layers]
    int n_tokens; // of the step that was begun last
    void *x;      // of a token's step: what the ranks before have made
} ServePart;

// What the caller does: it has the files, and the layer loop.
typedef struct ServeOps {
    Status (*open)(ServePart *part, const WireOpen *what, Error *error);
    Status (*load)(ServePart *part, bool sums, Error *error); // sums: part->sums is to be filled, too
    void (*close)(ServePart *part);
    // The layers over part->x, whatever x is given, and logits of all rows: `part` is a ServePart (DecodeStep.pass).
    Status (*pass)(const void *part, const PassBuffers *buffers, Error *error);
    const int *(*windows)(const ServePart *part); // of the layers
} ServeOps;

// Until rank 0 says that it is over: STATUS_OK. STATUS_FILE: it does not want this rank's files; STATUS_FATAL: rank 0 is lost,
// or the device.
Status serve(World *world, const ServeOps *ops, void *context, Error *error);

// One message, as serve() takes it; what an answer holds behind its WireAnswer goes to `out`. For tests.
typedef struct Server Server;
Status server_open(const ServeOps *ops, void *context, Server **server, Error *error);
void server_close(Server *server);
Status server_take(Server *server, uint32_t type, WireIn *in, WireOut *out, Error *error);

#endif
