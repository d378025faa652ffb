#include "app/modes/jsonl/jsonl_ids.h"

#include "kernels/base/hash.h"
#include "kernels/base/text/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 1024 };

// Where a hash stands, or would.
static JsonlIdPlace *find(const JsonlIds *ids, uint64_t hash) {
    size_t at = (size_t)(hash ^ hash >> 32) & (ids->size - 1);
    while (ids->places[at].line && ids->places[at].hash != hash) at = (at + 1) & (ids->size - 1);
    return &ids->places[at];
}

// At most half of the places are taken.
static bool reserve(JsonlIds *ids) {
    if (2 * ids->n < ids->size) return true;
    JsonlIds larger = {.n = ids->n, .size = ids->size ? 2 * ids->size : LEAST};
    larger.places = calloc(larger.size, sizeof *larger.places);
    if (!larger.places) return false;
    for (size_t i = 0; i < ids->size; i++)
        if (ids->places[i].line) *find(&larger, ids->places[i].hash) = ids->places[i];
    jsonl_ids_free(ids);
    *ids = larger;
    return true;
}

long long jsonl_ids_add(JsonlIds *ids, const JsonlLine *line, char *text, size_t size) {
    if (!line->id && line->error.status) return 0; // its answer has none
    json_t *id = line->id ? json_incref(line->id) : json_integer(line->line);
    char *spelled = json_dumps(id, JSON_ENCODE_ANY | JSON_SORT_KEYS);
    json_decref(id);
    long long before = 0;
    if (spelled && reserve(ids)) {
        const uint64_t hash = hash_bytes(HASH_START, spelled, strlen(spelled));
        JsonlIdPlace *place = find(ids, hash);
        before = place->line;
        ids->n += !before;
        *place = (JsonlIdPlace){hash, line->line};
        snprintf(text, size, "%s", quote(spelled).text);
    }
    free(spelled);
    return before;
}

void jsonl_ids_free(JsonlIds *ids) {
    free(ids->places);
    *ids = (JsonlIds){0};
}
