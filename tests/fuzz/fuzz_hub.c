// A hub's list of files: names that are taken stay below their folder, and what is chosen is there.
#include "app/models/hub_files.h"

#include <stdlib.h>
#include <string.h>

static void check_file(const HubFile *file) {
    size_t n = strlen(file->digest);
    if (n != (file->is_sha256 ? 64 : 40) || strspn(file->digest, "0123456789abcdef") != n) abort();
    if (file->size < 0 || *file->name == '/' || *file->name == '.' || strstr(file->name, "/.")) abort();
    if (strstr(file->name, "//") || strchr(file->name, '\n')) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const parts[] = {"", "Q4_K_M", "model.gguf"};
    HubFiles files;
    HubChoice choice;
    Error error = {0};
    if (hub_files_read("fuzz", (const char *)data, size, &files, &error)) {
        if (!*error.message || strchr(error.message, '\n')) abort();
        return 0;
    }
    for (size_t i = 0; i < files.count; i++) check_file(&files.files[i]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (size_t k = 0; k < files.count; k++) files.files[k].wanted = false;
        Status status = hub_files_choose(&files, parts[i], (int64_t)size << 10, &choice, &error);
        size_t n_wanted = 0;
        for (size_t k = 0; k < files.count; k++) n_wanted += files.files[k].wanted;
        if (!status && !n_wanted) abort();
    }
    hub_files_free(&files);
    return 0;
}
