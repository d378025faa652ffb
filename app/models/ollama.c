// Ollama's store: manifests/HOST/SPACE/NAME/TAG is JSON whose layer of the model's type names blobs/sha256-DIGEST, a
// GGUF file without its suffix.
#include "app/models/models_internal.h"

#include "kernels/base/file.h"
#include "kernels/base/text/json.h"
#include "kernels/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANIFEST_LIMIT = 1 << 20, LEVELS = 4 };

typedef struct Store {
    ModelList *list;
    const char *folder;
    char parts[LEVELS][256]; // host, space, name, tag
    int level;
} Store;

// The digest's file, malloc'ed; NULL: the manifest names no model, or one that is not there.
static char *blob_of(const Store *store, const json_t *manifest) {
    size_t i;
    json_t *layer;
    json_array_foreach(json_member(manifest, "layers"), i, layer) {
        char path[PATH_ROOM];
        const char *digest = json_text(layer, "digest");
        if (!json_text_is(layer, "mediaType", "application/vnd.ollama.image.model")) continue;
        if (strncmp(digest, "sha256:", 7) || strspn(digest + 7, "0123456789abcdef") != 64 || digest[71])
            continue;
        int n = snprintf(path, sizeof path, "%s/blobs/sha256-%s", store->folder, digest + 7);
        if (n > 0 && n < PATH_ROOM && !access(path, R_OK)) return strdup(path);
    }
    return NULL;
}

static void add_manifest(Store *store, const char *path) {
    char *text, *name = NULL;
    size_t size;
    json_t *manifest = NULL;
    Error ignored;
    if (file_read(path, MANIFEST_LIMIT, &text, &size, &ignored)) return;
    if (!json_parse(path, text, size, &manifest, &ignored)) {
        char *blob = blob_of(store, manifest);
        const char *host = store->parts[0], *space = store->parts[1];
        bool usual = !strcmp(host, "registry.ollama.ai"), library = usual && !strcmp(space, "library");
        if (asprintf(&name, "ollama:%s%s%s%s%s:%s", usual ? "" : host, usual ? "" : "/", library ? "" : space,
                     library ? "" : "/", store->parts[2], store->parts[3]) < 0)
            name = NULL;
        if (blob)
            models_add(store->list, MODELS_OLLAMA, name, blob);
        else
            free(name);
    }
    json_decref(manifest);
    free(text);
}

static void visit(void *context, const char *folder, const char *name, bool folder_too) {
    Store *store = context;
    char path[PATH_ROOM];
    bool last = store->level == LEVELS - 1;
    if (folder_too == last || snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_ROOM) return;
    snprintf(store->parts[store->level], sizeof *store->parts, "%s", name);
    if (last) {
        add_manifest(store, path);
        return;
    }
    store->level++;
    models_visit(store->list, path, visit, store);
    store->level--;
}

void models_add_ollama(ModelList *list) {
    char folder[PATH_ROOM], manifests[PATH_ROOM + 16];
    // The last is where Debian's service of it has them.
    if (!models_folder("OLLAMA_MODELS", ".ollama/models", folder))
        snprintf(folder, sizeof folder, "/usr/share/ollama/.ollama/models");
    Store store = {.list = list, .folder = folder};
    snprintf(manifests, sizeof manifests, "%s/manifests", folder);
    models_visit(list, manifests, visit, &store);
}
