// The ids of the lines of `palaver --jsonl`, as far as they were read: which of them come twice.
#ifndef PALAVER_APP_JSONL_IDS_H
#define PALAVER_APP_JSONL_IDS_H

#include "app/modes/jsonl/jsonl_line.h"

typedef struct JsonlIdPlace {
    uint64_t hash;
    long long line; // 0: the place is free
} JsonlIdPlace;

typedef struct JsonlIds {
    JsonlIdPlace *places; // [size], a power of two: open addressing
    size_t n, size;
} JsonlIds;

// The line before whose answer has the same id as this one's, which is written to `text` [size] for people; 0: none, or
// there is no memory to know.
long long jsonl_ids_add(JsonlIds *ids, const JsonlLine *line, char *text, size_t size);
void jsonl_ids_free(JsonlIds *ids);

#endif
