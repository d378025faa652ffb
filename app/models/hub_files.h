// What a repository of a hub has, and which of its files make a model.
#ifndef PALAVER_APP_HUB_FILES_H
#define PALAVER_APP_HUB_FILES_H

#include "kernels/base/digest.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct HubFile {
    char *name;   // relative, safe to be put below a folder
    int64_t size; // bytes
    // By which the cache calls it: SHA-256 of a large file, git's SHA-1 of a small one.
    char digest[DIGEST_HEX];
    bool is_sha256;
    bool wanted;
} HubFile;

typedef struct HubFiles {
    char commit[DIGEST_HEX];
    HubFile *files; // [count]
    size_t count, capacity;
} HubFiles;

// Reads the hub's answer. STATUS_FILE: it is not what it should be; `what` names it.
Status hub_files_read(const char *what, const char *json, size_t size, HubFiles *files, Error *error);
void hub_files_free(HubFiles *files);

// What was chosen.
typedef struct HubChoice {
    char label[128]; // "Q4_K_M"; "": the whole folder
    char main[256];  // the file that stands for it; "": the folder
    int n_types;     // between which was chosen; 1: there was no choice
    int64_t bytes;   // of all that is wanted
    int64_t available;
    bool fits;  // in that
    bool asked; // by name
} HubChoice;

// Marks the files that are wanted: those of `part`, a type or a file's name; with "" the GGUF type that suits
// `available` bytes of memory (the largest of at most 8 bits that leaves a fifth of it free), where there is none the
// folder of safetensors. STATUS_USAGE: there is no such part, which names those there are; STATUS_UNSUPPORTED: nothing
// that palaver reads.
Status hub_files_choose(HubFiles *files, const char *part, int64_t available, HubChoice *choice,
                        Error *error);

#endif
