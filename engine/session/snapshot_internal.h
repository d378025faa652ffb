// The file of a snapshot, as snapshot.c writes and snapshot_restore.c reads it, and whose it is (snapshot_owner.c).
#ifndef PALAVER_ENGINE_SNAPSHOT_INTERNAL_H
#define PALAVER_ENGINE_SNAPSHOT_INTERNAL_H

#include "engine/cache/kv_rows.h"
#include "engine/session/session_internal.h"
#include "engine/session/snapshot.h"

#define SNAPSHOT_MAGIC "palaver cache 1\n"

enum { SNAPSHOT_PIECE = 1 << 20 }; // bytes of data under one checksum

// Whose cache it is.
typedef struct SnapshotOwner {
    uint64_t model; // weights, sampled; what they are held in; the backend, whose rounding is in the cache
    uint64_t tokenizer; // its pieces
    uint64_t words;     // the chat template
    uint64_t cache;     // its type, groups, layout, sizes, and how its keys are rounded
    uint64_t rope;      // frequencies of the sequence's set
} SnapshotOwner;

// As it is on disk; numbers as the machine has them, which is as the cache has them.
typedef struct SnapshotHeader {
    char magic[16];
    SnapshotOwner owner;
    uint64_t tokens; // of the ids
    int64_t n_tokens, n_indexes, data_bytes;
    int32_t context_size, n_sinks, n_evicted, n_moved, rope_set;
    int32_t piece;   // SNAPSHOT_PIECE
    uint64_t tables; // checksum of all between header and data
    uint64_t header; // checksum of all before
} SnapshotHeader;
_Static_assert(sizeof(SnapshotHeader) == 128, "no byte of the header is without a meaning");

// ids, positions and checksums, one after the other.
typedef struct SnapshotTables {
    uint64_t *sums;     // [n_pieces]
    int32_t *ids;       // [n_tokens]
    int32_t *positions; // [n_indexes]
    size_t bytes;
} SnapshotTables;

static inline int64_t snapshot_pieces(const SnapshotHeader *header) {
    return (header->data_bytes + SNAPSHOT_PIECE - 1) / SNAPSHOT_PIECE;
}

// Makes room for them, in one piece of memory that begins at `sums`.
Status snapshot_tables_open(const SnapshotHeader *header, SnapshotTables *tables, Error *error);

// STATUS_FILE: there is no such set of frequencies.
Status snapshot_owner_of(const Session *session, int rope_set, uint64_t words, SnapshotOwner *owner,
                         Error *error);

#endif
