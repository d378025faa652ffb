// Which bytes a net tells apart from a node on, until its rule ends: within a word of a pattern letters are alike, though
// the names of a schema around it tell them apart.
#ifndef PALAVER_ENGINE_GRAMMAR_REGIONS_H
#define PALAVER_ENGINE_GRAMMAR_REGIONS_H

#include "engine/grammar/net.h"

enum { REGIONS_MOST = 1024 }; // what would be more tells all apart that the net does

// Sets of bytes, a bit each.
typedef struct Region {
    uint64_t begins[4]; // at these a class begins
    uint64_t read[4];   // that some edge reads
} Region;

typedef struct Regions {
    uint16_t *of; // [net->n] a node's region
    Region *sets; // [n]; 0 is empty, 1 has all that the net tells apart
    size_t n, capacity;
} Regions;

// False: no memory.
bool regions_find(const Net *net, Regions *regions);
void regions_free(Regions *regions);

static inline void region_join(Region *region, const Region *other) {
    for (int i = 0; i < 4; i++) {
        region->begins[i] |= other->begins[i];
        region->read[i] |= other->read[i];
    }
}

#endif
