#include "config/layers.h"
#include "kernels/base/array.h"

#include <stdlib.h>
#include <string.h>

void layers_free_assignment(Assignment *assignment) {
    value_free(assignment->key, &assignment->value);
    free(assignment->profile);
    free(assignment->origin);
}

void layers_free(ConfigLayers *layers) {
    for (size_t i = 0; i < layers->count; i++) layers_free_assignment(&layers->items[i]);
    free(layers->items);
    *layers = (ConfigLayers){0};
}

static bool same_profile(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

static bool same_place(const Assignment *a, const Assignment *b) {
    return a->key == b->key && a->layer == b->layer && same_profile(a->profile, b->profile);
}

bool layers_reserve(ConfigLayers *layers, size_t more) {
    return array_reserve(&layers->items, sizeof *layers->items, layers->count, more, &layers->capacity);
}

void layers_put(ConfigLayers *layers, Assignment assignment) {
    for (size_t i = 0; i < layers->count; i++)
        if (same_place(&layers->items[i], &assignment)) {
            layers_free_assignment(&layers->items[i]);
            layers->items[i] = assignment;
            return;
        }
    layers->items[layers->count++] = assignment;
}

Status layers_add(ConfigLayers *layers, const ConfigKey *key, ConfigLayer layer, const char *profile,
                  const char *origin, ConfigValue value, Error *error) {
    Assignment assignment = {key, layer, profile ? strdup(profile) : NULL, strdup(origin), value};
    if ((profile && !assignment.profile) || !assignment.origin || !layers_reserve(layers, 1)) {
        layers_free_assignment(&assignment);
        return value_no_memory(key, error);
    }
    layers_put(layers, assignment);
    return STATUS_OK;
}

Status layers_add_copy(ConfigLayers *layers, const Assignment *from, ConfigLayer layer, Error *error) {
    ConfigValue value;
    Status status = value_copy(from->key, &from->value, &value, error);
    return status ? status : layers_add(layers, from->key, layer, NULL, from->origin, value, error);
}

const Assignment *layers_effective(const ConfigLayers *layers, const ConfigKey *key) {
    const Assignment *best = NULL;
    for (size_t i = 0; i < layers->count; i++) {
        const Assignment *candidate = &layers->items[i];
        if (candidate->key == key && !candidate->profile && (!best || candidate->layer >= best->layer))
            best = candidate;
    }
    return best;
}
