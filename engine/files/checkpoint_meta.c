// Metadata of a GGUF file: finding keys, typed getters, walking arrays. gguf.c has checked every length.
#include "engine/files/checkpoint_internal.h"
#include "engine/files/gguf_types.h"

#include <stdlib.h>
#include <string.h>

static int compare_keys(const void *a, const void *b) {
    return strcmp((*(const MetaValue *const *)a)->key, (*(const MetaValue *const *)b)->key);
}

void checkpoint_meta_free(MetaTable *table) {
    for (int64_t i = 0; i < table->count; i++) free((void *)table->values[i].key);
    free(table->values);
    free(table->by_key);
    *table = (MetaTable){0};
}

Status checkpoint_meta_finish(MetaTable *table, const char *path, Error *error) {
    size_t n = (size_t)table->count;
    table->by_key = malloc((n + 1) * sizeof(const MetaValue *));
    if (!table->by_key) return error_set(error, STATUS_MEMORY, "%s: out of memory", path);
    for (size_t i = 0; i < n; i++) table->by_key[i] = &table->values[i];
    qsort(table->by_key, n, sizeof(const MetaValue *), compare_keys);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(table->by_key[i - 1]->key, table->by_key[i]->key) == 0) {
            return error_set(error, STATUS_FILE,
                             "%s: metadata key %s is there twice: the file is damaged; fetch it again", path,
                             table->by_key[i]->key);
        }
    }
    return STATUS_OK;
}

int64_t checkpoint_n_meta(const Checkpoint *checkpoint) {
    return checkpoint->meta.count;
}

const MetaValue *checkpoint_meta_at(const Checkpoint *checkpoint, int64_t index) {
    return index >= 0 && index < checkpoint->meta.count ? &checkpoint->meta.values[index] : NULL;
}

const MetaValue *checkpoint_meta(const Checkpoint *checkpoint, const char *key) {
    if (!checkpoint->meta.by_key) return NULL;
    MetaValue wanted = {.key = key};
    const MetaValue *address = &wanted;
    const MetaValue **found = bsearch(&address, checkpoint->meta.by_key, (size_t)checkpoint->meta.count,
                                      sizeof(const MetaValue *), compare_keys);
    return !found ? NULL : *found;
}

static const char *type_text(MetaType type) {
    static const char *const NAMES[] = {"an integer", "a number", "a bool", "a string", "an array"};
    return NAMES[type];
}

static Status wrong_type(const Checkpoint *checkpoint, const MetaValue *value, MetaType wanted,
                         Error *error) {
    return error_set(error, STATUS_FILE, "%s: metadata key %s should be %s, the file has %s",
                     checkpoint->path, value->key, type_text(wanted), type_text(value->type));
}

Status checkpoint_get_string(const Checkpoint *checkpoint, const char *key, MetaString *value, Error *error) {
    const MetaValue *found = checkpoint_meta(checkpoint, key);
    if (!found) return STATUS_OK;
    if (found->type != META_STRING) return wrong_type(checkpoint, found, META_STRING, error);
    *value = found->string;
    return STATUS_OK;
}

Status checkpoint_get_integer(const Checkpoint *checkpoint, const char *key, int64_t *value, Error *error) {
    const MetaValue *found = checkpoint_meta(checkpoint, key);
    if (!found) return STATUS_OK;
    if (found->type != META_INTEGER) return wrong_type(checkpoint, found, META_INTEGER, error);
    *value = found->integer;
    return STATUS_OK;
}

Status checkpoint_get_number(const Checkpoint *checkpoint, const char *key, double *value, Error *error) {
    const MetaValue *found = checkpoint_meta(checkpoint, key);
    if (!found) return STATUS_OK;
    if (found->type != META_INTEGER && found->type != META_NUMBER) {
        return wrong_type(checkpoint, found, META_NUMBER, error);
    }
    *value = found->number;
    return STATUS_OK;
}

Status checkpoint_get_bool(const Checkpoint *checkpoint, const char *key, bool *value, Error *error) {
    const MetaValue *found = checkpoint_meta(checkpoint, key);
    if (!found) return STATUS_OK;
    if (found->type != META_BOOL) return wrong_type(checkpoint, found, META_BOOL, error);
    *value = found->flag;
    return STATUS_OK;
}

Status checkpoint_get_array(const Checkpoint *checkpoint, const char *key, MetaType element,
                            const MetaValue **array, Error *error) {
    *array = NULL;
    const MetaValue *found = checkpoint_meta(checkpoint, key);
    if (!found) return STATUS_OK;
    if (found->type != META_ARRAY) return wrong_type(checkpoint, found, META_ARRAY, error);
    if (found->element != element && !(element == META_NUMBER && found->element == META_INTEGER)) {
        return error_set(error, STATUS_FILE, "%s: the elements of %s should each be %s, the file has %s",
                         checkpoint->path, key, type_text(element), type_text(found->element));
    }
    *array = found;
    return STATUS_OK;
}

bool checkpoint_meta_next(const MetaValue *array, MetaCursor *cursor, MetaValue *element) {
    if (array->type != META_ARRAY || cursor->index >= array->count) return false;
    cursor->offset += gguf_decode(array->gguf_element, array->data + cursor->offset, element);
    cursor->index++;
    return true;
}
