// Which of the models a name means.
#include "app/models/models.h"

#include "app/terminal/text_shown.h"
#include "kernels/base/text/nearest.h"
#include "kernels/base/text/quote.h"
#include "kernels/base/path.h"
#include "kernels/base/text/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// How a name may mean an entry, the strictest first.
enum { EXACTLY, IN_ANY_CASE, WITHOUT_PLACE, LATEST, BY_FILE, AS_REPOSITORY, IN_PART, N_WAYS };

// Behind the "ollama:" of a name; names of one's own folder have none.
static const char *without_place(const ModelEntry *entry) {
    const char *colon = strchr(entry->name, ':');
    bool placed = entry->place > MODELS_HUGGING_FACE && colon;
    return placed ? colon + 1 : entry->name;
}

// Whether `name` is `whole` up to a `:` or an `@`.
static bool is_head(const char *name, const char *whole) {
    size_t n = strlen(name);
    return !strncasecmp(name, whole, n) && (whole[n] == ':' || whole[n] == '@' || whole[n] == 0);
}

// REPOSITORY:FILE, with the file's whole name or without .gguf; in palaver's own folder the file's whole name.
static bool is_file_of(const char *name, const ModelEntry *entry) {
    const TextEscaped shown = text_name(path_base(entry->path));
    const char *colon = strrchr(name, ':'), *base = shown.text;
    if (entry->place == MODELS_OWN && !strcmp(name, base)) return true;
    if (!colon || strncasecmp(name, entry->name, (size_t)(colon - name) + 1)) return false;
    size_t stem = strlen(base) - (text_has_suffix(base, ".gguf") ? strlen(".gguf") : 0);
    return !strcmp(colon + 1, base) || (strlen(colon + 1) == stem && !memcmp(colon + 1, base, stem));
}

static bool means(const char *name, const ModelEntry *entry, int way) {
    const char *bare = without_place(entry);
    size_t n = strlen(name), m = strlen(entry->name);
    switch (way) {
    case EXACTLY:
        return !strcmp(name, entry->name);
    case IN_ANY_CASE:
        return !strcasecmp(name, entry->name);
    case WITHOUT_PLACE:
        return !strcasecmp(name, bare);
    case LATEST:
        return entry->place == MODELS_OLLAMA && m > 7 && !strcmp(entry->name + m - 7, ":latest") &&
               ((m - 7 == n && !strncasecmp(name, entry->name, n)) ||
                (strlen(bare) - 7 == n && !strncasecmp(name, bare, n)));
    case BY_FILE:
        return is_file_of(name, entry);
    case AS_REPOSITORY:
        return is_head(name, entry->name) || is_head(name, bare);
    default:
        return strcasestr(entry->name, name) != NULL;
    }
}

static bool same_file(const char *a, const char *b) {
    char x[PATH_MAX], y[PATH_MAX];
    return realpath(a, x) && realpath(b, y) && !strcmp(x, y);
}

static Status ambiguous(const ModelList *list, const char *name, int way, Error *error) {
    char names[600] = "";
    size_t used = 0, n = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (!means(name, &list->entries[i], way)) continue;
        if (used < sizeof names - 160)
            used += (size_t)snprintf(names + used, 150, "%s%.120s", n ? ", " : "", list->entries[i].name);
        else if (names[used - 1] != '.')
            used += (size_t)snprintf(names + used, 8, ", ...");
        n++;
    }
    return error_set(error, STATUS_USAGE, "%s may mean %zu models: %s; say which", name, n, names);
}

static Status not_there(const ModelList *list, const char *name, Error *error) {
    const char **names = malloc((2 * list->count + 1) * sizeof *names);
    if (!names) return error_set(error, STATUS_MEMORY, "no memory for the names of models");
    for (size_t i = 0; i < list->count; i++) {
        names[2 * i] = list->entries[i].name;
        names[2 * i + 1] = without_place(&list->entries[i]);
    }
    int nearest = nearest_name(name, names, 2 * list->count);
    free(names);
    if (nearest >= 0)
        return error_set(error, STATUS_FILE, "%s: no such file, nor a model that is here: did you mean %s?",
                         quote(name).text, list->entries[nearest / 2].name);
    const char *slash = strchr(name, '/');
    bool of_hub = slash && slash > name && slash[1] && !strchr(slash + 1, '/');
    return error_set(error, STATUS_FILE,
                     "%s: no such file, nor a model that is here: palaver list shows them%s%s%s",
                     quote(name).text, of_hub ? ", palaver pull " : "", of_hub ? quote(name).text : "",
                     of_hub ? " fetches it from a hub" : "");
}

// The first entry that a name means in one way, into *index; whether there is one. *several: others are other files.
static bool find_by(const ModelList *list, const char *name, int way, size_t *index, bool *several) {
    size_t n = 0;
    *several = false;
    for (size_t i = 0; i < list->count; i++) {
        if (!means(name, &list->entries[i], way)) continue;
        if (n++ == 0)
            *index = i;
        else if (!same_file(list->entries[i].path, list->entries[*index].path))
            *several = true;
    }
    return n > 0;
}

Status models_choose(const ModelList *list, const char *name, size_t *index, Error *error) {
    const TextEscaped shown = text_name(name); // of one that is typed as a file is called
    const char *const spellings[] = {name, shown.text};
    bool several;
    for (int way = 0; way < N_WAYS; way++)
        for (int i = 0; i < 2; i++)
            if (find_by(list, spellings[i], way, index, &several))
                return several ? ambiguous(list, spellings[i], way, error) : STATUS_OK;
    return not_there(list, name, error);
}

Status models_path(const char *name, const char *program, char *path, Error *error) {
    ModelList list;
    size_t index = 0;
    // What begins as paths do is one.
    const bool is_path = !name || !*name || strchr("./~", *name);
    // One model's file may be called as another model is shown: which is meant, the list tells.
    char other[PATH_ROOM];
    const bool is_listed =
        !is_path && strcmp(text_name(name).text, name) != 0 && access(path_meant(name, other), F_OK) != 0;
    Status status = is_listed ? STATUS_FILE : path_find_model(name, program, path, error);
    // What is there but cannot be read is no name of another.
    if (!status || is_path || status != STATUS_FILE) return status;
    if (models_find(program, &list, error)) return error->status;
    status = models_choose(&list, name, &index, error);
    if (!status && strlen(list.entries[index].path) >= PATH_ROOM)
        status = path_too_long(list.entries[index].path, error);
    if (!status) strcpy(path, list.entries[index].path);
    models_free(&list);
    return status;
}
