// What a sequence's indexes hold, as one stream of bytes: to be kept in a file, and to be put back.
//
// The cache is planes of rows, one row a slot: layout 0 has one plane, layout 1 one for each layer, 2 one for each
// layer's keys and one for its values, 3 one for each of their heads. The stream is the rows of indexes 0 … n-1 of one
// plane after the other, then the same of the scales. Which slots they lie in does not matter to it. Where layers recur, the
// states behind the sequence's last token come last, layer after layer.
#ifndef PALAVER_ENGINE_KV_ROWS_H
#define PALAVER_ENGINE_KV_ROWS_H

#include "engine/cache/kv_cache.h"

// Indexes of the sequence that were ever written: those that a step looks at.
int kv_rows_count(const KvCache *cache, const KvSequence *sequence);

// Bytes of the stream of n indexes.
int64_t kv_rows_bytes(const KvLayout *layout, int64_t n);

// The bytes [from, from + size) of the stream, host memory `bytes` [size], out of the cache, and back into it. The
// sequence alone holds its pages.
typedef struct KvRows {
    KvCache *cache;
    const KvSequence *sequence;
    int n; // indexes
} KvRows;
Status kv_rows_read(const KvRows *rows, int64_t from, int64_t size, void *bytes, Error *error);
Status kv_rows_write(const KvRows *rows, int64_t from, int64_t size, const void *bytes, Error *error);

// The positions that the indexes hold, host memory [n]; -1: none.
Status kv_rows_read_positions(const KvRows *rows, int32_t *positions, Error *error);
Status kv_rows_write_positions(const KvRows *rows, const int32_t *positions, Error *error);

#endif
