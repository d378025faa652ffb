#include "app/models/hub_files.h"

#include "app/models/models_internal.h"
#include "kernels/base/array.h"
#include "kernels/base/text/json.h"
#include "kernels/base/path.h"
#include "kernels/base/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { NAME_LIMIT = 200, TYPES_SHOWN = 12 };

#define SIZE_LIMIT ((int64_t)1 << 43) // of a file: as many as a list can hold add up to less than 2^63

// ---- the hub's answer ---------------------------------------------------------------------------------------------

void hub_files_free(HubFiles *files) {
    for (size_t i = 0; i < files->count; i++) free(files->files[i].name);
    free(files->files);
    *files = (HubFiles){0};
}

// Whether a name stays below the folder that it is put in.
static bool is_safe(const char *name) {
    size_t n = strlen(name);
    if (!n || n > NAME_LIMIT || !text_is_printable(name, n) || *name == '/' || name[n - 1] == '/')
        return false;
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (*part == '/' || *part == '.' || !*part) return false;
    return true;
}

static bool is_digest(const char *text, size_t n) {
    return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

// Files that are hidden, or that cannot be safe, are none of a model.
static Status add_file(HubFiles *files, const json_t *entry, const char *what, Error *error) {
    const char *name = json_text(entry, "rfilename");
    const json_t *lfs = json_member(entry, "lfs");
    HubFile file = {.is_sha256 = lfs != NULL, .size = -1};
    if (!is_safe(name)) return STATUS_OK;
    const char *digest = lfs ? json_text(lfs, "sha256") : json_text(entry, "blobId");
    if (lfs && !*digest) digest = json_text(lfs, "oid");
    Status status =
        json_read_integer(lfs && json_member(lfs, "size") ? lfs : entry, what, "size", &file.size, error);
    if (status) return status;
    if (file.size < 0 || file.size > SIZE_LIMIT || !is_digest(digest, lfs ? 64 : 40))
        return error_set(error, STATUS_FILE, "%s: the hub does not say size and digest of %s", what, name);
    strcpy(file.digest, digest);
    file.name = strdup(name);
    if (!file.name || !array_reserve(&files->files, sizeof file, files->count, 1, &files->capacity)) {
        free(file.name);
        return error_set(error, STATUS_MEMORY, "no memory for the list of files");
    }
    files->files[files->count++] = file;
    return STATUS_OK;
}

Status hub_files_read(const char *what, const char *json, size_t size, HubFiles *files, Error *error) {
    json_t *answer;
    size_t i;
    json_t *entry;
    *files = (HubFiles){0};
    Status status = json_parse(what, json, size, &answer, error);
    if (status) return status;
    const char *commit = json_text(answer, "sha");
    if (!is_digest(commit, 40) || !json_is_array(json_member(answer, "siblings")))
        status = error_set(error, STATUS_FILE, "%s: the hub's answer is no list of files", what);
    else
        strcpy(files->commit, commit);
    json_array_foreach(json_member(answer, "siblings"), i, entry) {
        if (!status) status = add_file(files, entry, what, error);
    }
    json_decref(answer);
    if (status) hub_files_free(files);
    return status;
}

// ---- which of them ------------------------------------------------------------------------------------------------

// A model as one GGUF file or the parts of a split one.
typedef struct Candidate {
    size_t first; // file
    const char *label;
    int length; // of the label
    int64_t bytes;
} Candidate;

// Whether file i is `first` or a part of what begins with it.
static bool belongs(const HubFiles *files, size_t first, size_t i) {
    const char *a = files->files[first].name, *b = files->files[i].name;
    size_t n = models_stem(a);
    return i == first || (text_has_suffix(b, ".gguf") && models_stem(b) == n && !strncmp(a, b, n));
}

static size_t find_candidates(const HubFiles *files, Candidate *all) {
    size_t n = 0;
    for (size_t i = 0; i < files->count; i++) {
        if (!models_is_gguf(path_base(files->files[i].name))) continue;
        size_t length;
        const char *label = models_label(files->files[i].name, &length);
        all[n] = (Candidate){i, label, (int)length, 0};
        for (size_t k = 0; k < files->count; k++)
            if (belongs(files, i, k)) all[n].bytes += files->files[k].size;
        n++;
    }
    return n;
}

// Bits of a weight that palaver reads; 0: a type that it does not.
static int bits_of(const Candidate *c) {
    static const struct {
        const char *name;
        int bits;
    } types[] = {{"Q2_K", 2},   {"Q3_K", 3},  {"Q4_0", 4},  {"Q4_1", 4},  {"Q4_K", 4}, {"IQ4_NL", 4},
                 {"IQ4_XS", 4}, {"MXFP4", 4}, {"Q5_0", 5},  {"Q5_1", 5},  {"Q5_K", 5}, {"Q6_K", 6},
                 {"Q8_0", 8},   {"F16", 16},  {"BF16", 16}, {"FP16", 16}, {"F32", 32}, {"FP32", 32}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t n = strlen(types[i].name);
        bool same = (size_t)c->length >= n && !strncasecmp(c->label, types[i].name, n);
        // Q4_K_M is a Q4_K, and MXFP4_MOE a MXFP4; Q4_0_4_8 is another type than Q4_0.
        bool more = strpbrk(types[i].name, "KX") && c->label[n] == '_';
        if (same && ((size_t)c->length == n || more)) return types[i].bits;
    }
    return 0;
}

// The largest that leaves a fifth of the memory free, of 8 bits at most unless there is nothing else; where none does,
// the smallest.
static const Candidate *best(const Candidate *all, size_t n, int64_t available) {
    const Candidate *fitting = NULL, *smallest = NULL;
    for (int most = 8; most <= 32 && !smallest; most *= 2)
        for (size_t i = 0; i < n; i++) {
            int bits = bits_of(&all[i]);
            if (!bits || bits > most) continue;
            if (!smallest || all[i].bytes < smallest->bytes) smallest = &all[i];
            if (available && all[i].bytes > available / 5 * 4) continue;
            if (!fitting || all[i].bytes > fitting->bytes) fitting = &all[i];
        }
    return fitting ? fitting : smallest;
}

static bool is_named(const HubFiles *files, const Candidate *c, const char *part) {
    const char *name = files->files[c->first].name, *base = path_base(name);
    size_t n = strlen(part);
    return ((size_t)c->length == n && !strncasecmp(c->label, part, n)) || !strcmp(part, name) ||
           !strcmp(part, base) || (models_stem(base) == n && !strncmp(part, base, n));
}

static Status no_such_part(const Candidate *all, size_t n, const char *part, bool several, Error *error) {
    char names[500] = "";
    for (size_t i = 0; i < n && i < TYPES_SHOWN; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.*s", i ? ", " : "",
                 all[i].length < 60 ? all[i].length : 60, all[i].label);
    return error_set(error, STATUS_USAGE,
                     several ? "%s may mean several files: %s%s" : "there is no %s here, but %s%s", part,
                     *names ? names : "no GGUF file at all", n > TYPES_SHOWN ? ", ..." : "");
}

static void mark(HubFiles *files, const Candidate *c, HubChoice *choice) {
    snprintf(choice->label, sizeof choice->label, "%.*s", c->length, c->label);
    snprintf(choice->main, sizeof choice->main, "%s", files->files[c->first].name);
    for (size_t i = 0; i < files->count; i++) files->files[i].wanted = belongs(files, c->first, i);
}

static Status choose_gguf(HubFiles *files, const Candidate *all, size_t n, const char *part,
                          HubChoice *choice, Error *error) {
    const Candidate *chosen = *part ? NULL : best(all, n, choice->available);
    size_t n_named = 0;
    for (size_t i = 0; i < n && *part; i++)
        if (is_named(files, &all[i], part)) chosen = &all[i], n_named++;
    if (n_named > 1) return no_such_part(all, n, part, true, error);
    if (!chosen && *part) return no_such_part(all, n, part, false, error);
    if (!chosen)
        return error_set(error, STATUS_UNSUPPORTED,
                         "none of its %zu GGUF files has a type that palaver reads", n);
    choice->n_types = (int)n;
    mark(files, chosen, choice);
    return STATUS_OK;
}

// What of a Hugging Face folder palaver looks at.
static Status choose_folder(HubFiles *files, HubChoice *choice, Error *error) {
    static const char *const suffixes[] = {".safetensors", ".safetensors.index.json", ".json", ".model",
                                           ".jinja"};
    bool weights = false, config = false;
    for (size_t i = 0; i < files->count; i++) {
        HubFile *f = &files->files[i];
        if (strchr(f->name, '/')) continue;
        for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes; k++)
            f->wanted = f->wanted || text_has_suffix(f->name, suffixes[k]);
        weights = weights || text_has_suffix(f->name, ".safetensors");
        config = config || !strcmp(f->name, "config.json");
    }
    choice->n_types = 1;
    if (weights && config) return STATUS_OK;
    return error_set(
        error, STATUS_UNSUPPORTED,
        "it has neither GGUF files nor safetensors with a config.json: nothing that palaver reads");
}

Status hub_files_choose(HubFiles *files, const char *part, int64_t available, HubChoice *choice,
                        Error *error) {
    *choice = (HubChoice){.available = available, .asked = *part};
    Candidate *all = malloc((files->count + 1) * sizeof *all);
    if (!all) return error_set(error, STATUS_MEMORY, "no memory for the list of files");
    size_t n = find_candidates(files, all);
    Status status =
        n || *part ? choose_gguf(files, all, n, part, choice, error) : choose_folder(files, choice, error);
    for (size_t i = 0; i < files->count && !status; i++)
        if (files->files[i].wanted) choice->bytes += files->files[i].size;
    choice->fits = !available || choice->bytes <= available;
    free(all);
    return status;
}
