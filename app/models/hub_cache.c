// The cache that Hugging Face's programs share: models--ORG--NAME/{blobs, refs/REF, snapshots/COMMIT/files}, where a
// ref's file holds a commit, and a snapshot's files are links to blobs.
#include "app/models/hub_cache.h"
#include "app/models/models_internal.h"

#include "kernels/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

Status hub_cache_folder(char *path, Error *error) {
    static const char *const whole[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"};
    const char *base = NULL, *tail = "";
    for (size_t i = 0; i < sizeof whole / sizeof *whole && !base; i++)
        if ((base = getenv(whole[i])) && *base != '/') base = NULL;
    if (!base && (base = getenv("HF_HOME")) && *base == '/')
        tail = "/hub";
    else if (!base && (base = getenv("XDG_CACHE_HOME")) && *base == '/')
        tail = "/huggingface/hub";
    else if (!base || *base != '/')
        base = path_home("HF_HOME or HF_HUB_CACHE", error), tail = "/.cache/huggingface/hub";
    if (!base) return STATUS_FILE;
    int n = snprintf(path, PATH_ROOM, "%s%s", base, tail);
    return n < 0 || n >= PATH_ROOM ? path_too_long(base, error) : STATUS_OK;
}

// One repository while it is looked at.
typedef struct Hub {
    ModelList *list;
    const char *folder, *name; // models--ORG--NAME, "ORG/NAME"
    char seen[64][HUB_CACHE_COMMIT + 1];
    size_t n_seen; // commits that have a name
} Hub;

bool hub_cache_commit(const char *folder, const char *ref, char commit[HUB_CACHE_COMMIT + 1]) {
    char path[PATH_ROOM];
    int n = snprintf(path, sizeof path, "%s/refs/%s", folder, ref);
    FILE *file = n > 0 && n < PATH_ROOM ? fopen(path, "re") : NULL;
    if (!file) return false;
    size_t size = fread(commit, 1, HUB_CACHE_COMMIT, file);
    fclose(file);
    commit[size] = 0;
    commit[strspn(commit, "0123456789abcdefABCDEF")] = 0;
    return *commit;
}

static bool is_seen(const Hub *hub, const char *commit) {
    for (size_t i = 0; i < hub->n_seen; i++)
        if (!strcmp(hub->seen[i], commit)) return true;
    return false;
}

// `ref` NULL: the snapshot needs no name of its own.
static void add_snapshot(Hub *hub, const char *commit, const char *ref) {
    char path[PATH_ROOM], name[PATH_ROOM];
    if (is_seen(hub, commit) || hub->n_seen == sizeof hub->seen / sizeof *hub->seen) return;
    int n = snprintf(path, sizeof path, "%s/snapshots/%s", hub->folder, commit);
    int m = snprintf(name, sizeof name, "%s%s%s", hub->name, ref ? "@" : "", ref ? ref : "");
    if (n < 0 || n >= PATH_ROOM || m < 0 || m >= PATH_ROOM) return;
    snprintf(hub->seen[hub->n_seen++], sizeof *hub->seen, "%s", commit);
    models_add_repository(hub->list, MODELS_HUGGING_FACE, name, path);
}

static void visit_ref(void *context, const char *folder, const char *name, bool folder_too) {
    (void)folder;
    Hub *hub = context;
    char commit[HUB_CACHE_COMMIT + 1];
    if (!folder_too && hub_cache_commit(hub->folder, name, commit)) add_snapshot(hub, commit, name);
}

static void visit_snapshot(void *context, const char *folder, const char *name, bool folder_too) {
    (void)folder;
    Hub *hub = context;
    char brief[8];
    snprintf(brief, sizeof brief, "%s", name);
    if (folder_too && strlen(name) <= HUB_CACHE_COMMIT) add_snapshot(hub, name, hub->n_seen ? brief : NULL);
}

static void visit_hub_repository(void *context, const char *folder, const char *name, bool folder_too) {
    static const char prefix[] = "models--";
    char path[PATH_ROOM], id[PATH_ROOM], below[PATH_ROOM + 16], commit[HUB_CACHE_COMMIT + 1];
    if (!folder_too || strncmp(name, prefix, strlen(prefix)) ||
        snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_ROOM)
        return;
    size_t n = 0;
    for (const char *p = name + strlen(prefix); *p; p++) {
        bool slash = p[0] == '-' && p[1] == '-';
        id[n++] = slash ? '/' : *p;
        p += slash;
    }
    id[n] = 0;
    Hub hub = {.list = context, .folder = path, .name = id};
    if (hub_cache_commit(path, "main", commit)) add_snapshot(&hub, commit, NULL);
    snprintf(below, sizeof below, "%s/refs", path);
    models_visit(context, below, visit_ref, &hub);
    snprintf(below, sizeof below, "%s/snapshots", path);
    models_visit(context, below, visit_snapshot, &hub);
}

void models_add_hub(ModelList *list) {
    char folder[PATH_ROOM];
    Error ignored;
    if (!hub_cache_folder(folder, &ignored)) models_visit(list, folder, visit_hub_repository, list);
}
