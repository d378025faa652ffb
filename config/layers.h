// The assignments behind a Config. Inner header of the room.
#ifndef PALAVER_CONFIG_LAYERS_H
#define PALAVER_CONFIG_LAYERS_H

#include "config/value.h"

typedef struct Assignment {
    const ConfigKey *key;
    ConfigLayer layer;
    char *profile; // NULL, or the [profile.NAME] that merely remembers this
    char *origin;  // where it was written
    ConfigValue value;
} Assignment;

// At most one assignment of a key in each layer and profile. Everything is owned.
typedef struct ConfigLayers {
    Assignment *items; // [count]
    size_t count, capacity;
} ConfigLayers;

void layers_free_assignment(Assignment *assignment);
void layers_free(ConfigLayers *layers); // the contents, not `layers`

// Adds one, with `value` taken over (also on failure) and the texts copied; replaces an older one of the same
// key, layer and profile.
Status layers_add(ConfigLayers *layers, const ConfigKey *key, ConfigLayer layer, const char *profile,
                  const char *origin, ConfigValue value, Error *error);

// In two steps: makes room for `more`, false where there is no memory; then puts them there, which cannot fail.
bool layers_reserve(ConfigLayers *layers, size_t more);
void layers_put(ConfigLayers *layers, Assignment assignment);

// A deep copy of one assignment into `layers`, in another layer and no profile.
Status layers_add_copy(ConfigLayers *layers, const Assignment *from, ConfigLayer layer, Error *error);

// The assignment in effect; every key has one.
const Assignment *layers_effective(const ConfigLayers *layers, const ConfigKey *key);

#endif
