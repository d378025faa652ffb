// The list of models, and the folders that hold nothing but files.
#include "app/models/models_internal.h"

#include "app/terminal/text_shown.h"
#include "kernels/base/array.h"
#include "kernels/base/path.h"
#include "kernels/base/text/text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *models_place_name(ModelPlace place) {
    static const char *const names[] = {"palaver", "with palaver", "Hugging Face",
                                        "Ollama",  "LM Studio",    "llama.cpp"};
    return names[place];
}

void models_free(ModelList *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->entries[i].name);
        free(list->entries[i].path);
    }
    free(list->entries);
    *list = (ModelList){0};
}

void models_add(ModelList *list, ModelPlace place, char *name, char *path) {
    char *shown = name ? strdup(text_name(name).text) : NULL;
    free(name);
    if (shown && path &&
        array_reserve(&list->entries, sizeof *list->entries, list->count, 1, &list->capacity)) {
        list->entries[list->count++] = (ModelEntry){shown, path, place};
        return;
    }
    list->lost = true;
    free(shown);
    free(path);
}

// ---- folders ----------------------------------------------------------------------------------------------------

static bool is_folder(const char *path) {
    struct stat facts;
    return !stat(path, &facts) && S_ISDIR(facts.st_mode);
}

bool models_folder(const char *variable, const char *tail, char *path) {
    Error ignored;
    const char *base = variable ? getenv(variable) : NULL;
    const char *home = tail && !(base && *base == '/') ? path_home(NULL, &ignored) : NULL;
    int n = base && *base == '/' ? snprintf(path, PATH_ROOM, "%s", base)
            : home               ? snprintf(path, PATH_ROOM, "%s/%s", home, tail)
                                 : -1;
    return n > 0 && n < PATH_ROOM && is_folder(path);
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void models_visit(ModelList *list, const char *folder, ModelVisit *visit, void *context) {
    char **names = NULL;
    size_t count = 0, capacity = 0;
    DIR *directory = opendir(folder);
    if (!directory) return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue;
        char *name = array_reserve(&names, sizeof *names, count, 1, &capacity) ? strdup(entry->d_name) : NULL;
        if (name)
            names[count++] = name;
        else
            list->lost = true;
    }
    closedir(directory);
    if (count) qsort(names, count, sizeof *names, by_bytes);
    for (size_t i = 0; i < count; i++) {
        char path[PATH_ROOM];
        int n = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (n > 0 && n < PATH_ROOM) visit(context, folder, names[i], is_folder(path));
        free(names[i]);
    }
    free(names);
}

// ---- one repository ---------------------------------------------------------------------------------------------

// Where the "-00001-of-00003" of a split file's name begins; its end where it is none.
static size_t split_at(const char *stem, size_t length, bool *first) {
    static const char shape[] = "-00000-of-00000";
    const size_t n = sizeof shape - 1;
    *first = true;
    if (length <= n) return length;
    const char *tail = stem + length - n;
    for (size_t i = 0; i < n; i++) {
        bool digit = tail[i] >= '0' && tail[i] <= '9';
        if (shape[i] == '0' ? !digit : tail[i] != shape[i]) return length;
    }
    *first = !strncmp(tail, "-00001", 6);
    return length - n;
}

static const char SUFFIX[] = ".gguf";

bool models_is_gguf(const char *file) {
    bool first = false;
    if (!text_has_suffix(file, SUFFIX) || file[0] == '.' || !strncasecmp(file, "mmproj", 6)) return false;
    (void)split_at(file, strlen(file) - strlen(SUFFIX), &first);
    return first;
}

size_t models_stem(const char *file) {
    bool first;
    return split_at(file, strlen(file) - strlen(SUFFIX), &first);
}

const char *models_label(const char *file, size_t *length) {
    static const char *const types[] = {"Q", "IQ", "F16", "F32", "BF16", "FP16", "FP32", "MXFP4", "TQ"};
    bool first;
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    size_t stem = split_at(base, strlen(base) - strlen(SUFFIX), &first), begin = stem;
    while (begin > 0 && base[begin - 1] != '-' && base[begin - 1] != '.') begin--;
    for (size_t i = 0; begin > 0 && i < sizeof types / sizeof *types; i++) {
        size_t n = strlen(types[i]);
        if (stem - begin < 2 || strncasecmp(base + begin, types[i], n)) continue;
        bool counted = strchr("Q", types[i][n - 1]) != NULL;
        if (counted && !(base[begin + n] >= '1' && base[begin + n] <= '8')) continue;
        *length = stem - begin;
        return base + begin;
    }
    *length = strlen(file) - strlen(SUFFIX);
    return file;
}

// What is found below one folder.
typedef struct Repository {
    ModelList *list;
    const char *top;
    char **files; // [count] relative to it
    size_t count, capacity;
    int depth;
    bool config, safetensors;
} Repository;

enum { DEEPEST = 3 };

static void visit_file(void *context, const char *folder, const char *name, bool folder_too) {
    Repository *r = context;
    if (folder_too) {
        char path[PATH_ROOM];
        int n = snprintf(path, sizeof path, "%s/%s", folder, name);
        if (r->depth >= DEEPEST || n < 0 || n >= PATH_ROOM) return;
        r->depth++;
        models_visit(r->list, path, visit_file, r);
        r->depth--;
        return;
    }
    if (r->depth == 0 && !strcmp(name, "config.json")) r->config = true;
    if (r->depth == 0 && text_has_suffix(name, ".safetensors")) r->safetensors = true;
    if (!models_is_gguf(name)) return;
    const char *inside = folder + strlen(r->top);
    char *file = NULL;
    if (asprintf(&file, "%s%s%s", *inside ? inside + 1 : "", *inside ? "/" : "", name) < 0) file = NULL;
    if (file && array_reserve(&r->files, sizeof *r->files, r->count, 1, &r->capacity)) {
        r->files[r->count++] = file;
    } else {
        r->list->lost = true;
        free(file);
    }
}

// Whether no other file's name tells the type of file i.
static bool label_is_unique(const Repository *r, size_t i) {
    size_t n, m;
    const char *label = models_label(r->files[i], &n);
    for (size_t k = 0; k < r->count; k++) {
        const char *other = models_label(r->files[k], &m);
        if (k != i && n == m && !strncasecmp(label, other, n)) return false;
    }
    return true;
}

void models_add_repository(ModelList *list, ModelPlace place, const char *name, const char *folder) {
    Repository r = {.list = list, .top = folder};
    models_visit(list, folder, visit_file, &r);
    if (r.config && r.safetensors) models_add(list, place, strdup(name), strdup(folder));
    for (size_t i = 0; i < r.count; i++) {
        size_t length = strlen(r.files[i]) - strlen(SUFFIX);
        const char *label = label_is_unique(&r, i) ? models_label(r.files[i], &length) : r.files[i];
        char *whole = NULL;
        if (asprintf(&whole, "%s:%.*s", name, (int)length, label) < 0) whole = NULL;
        models_add(list, place, whole, path_join(folder, r.files[i]));
    }
    for (size_t i = 0; i < r.count; i++) free(r.files[i]);
    free(r.files);
}

void models_add_file(ModelList *list, ModelPlace place, const char *prefix, const char *folder,
                     const char *file) {
    char *name = NULL;
    if (asprintf(&name, "%s%.*s", prefix, (int)(strlen(file) - strlen(SUFFIX)), file) < 0) name = NULL;
    models_add(list, place, name, path_join(folder, file));
}

// ---- places that are folders ------------------------------------------------------------------------------------

static void visit_own(void *context, const char *folder, const char *name, bool folder_too) {
    char path[PATH_ROOM];
    if (!folder_too) {
        if (models_is_gguf(name)) models_add_file(context, MODELS_OWN, "", folder, name);
    } else if (snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_ROOM) {
        models_add_repository(context, MODELS_OWN, name, path);
    }
}

static void visit_llama_cpp(void *context, const char *folder, const char *name, bool folder_too) {
    if (!folder_too && models_is_gguf(name))
        models_add_file(context, MODELS_LLAMA_CPP, "llama.cpp:", folder, name);
}

static void visit_lm_studio_model(void *context, const char *folder, const char *name, bool folder_too) {
    char path[PATH_ROOM], whole[PATH_ROOM];
    if (!folder_too || snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_ROOM) return;
    if (snprintf(whole, sizeof whole, "lmstudio:%s/%s", path_base(folder), name) < PATH_ROOM)
        models_add_repository(context, MODELS_LM_STUDIO, whole, path);
}

static void visit_publisher(void *context, const char *folder, const char *name, bool folder_too) {
    char path[PATH_ROOM];
    if (folder_too && snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_ROOM)
        models_visit(context, path, visit_lm_studio_model, context);
}

static void add_lm_studio(ModelList *list) {
    static const char *const tails[] = {".lmstudio/models", ".cache/lm-studio/models"};
    char folder[PATH_ROOM];
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (models_folder(NULL, tails[i], folder)) models_visit(list, folder, visit_publisher, list);
}

static void add_llama_cpp(ModelList *list) {
    char folder[PATH_ROOM], below[2 * PATH_ROOM];
    bool there = models_folder("LLAMA_CACHE", NULL, folder);
    if (!there && models_folder("XDG_CACHE_HOME", ".cache", folder)) {
        snprintf(below, sizeof below, "%s/llama.cpp", folder);
        there = strlen(below) < PATH_ROOM && is_folder(below);
        if (there) strcpy(folder, below);
    }
    if (there) models_visit(list, folder, visit_llama_cpp, list);
}

// ---- all of them ------------------------------------------------------------------------------------------------

static int by_place(const void *a, const void *b) {
    const ModelEntry *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    int order = strcasecmp(x->name, y->name);
    return order ? order : strcmp(x->name, y->name);
}

Status models_find(const char *program, ModelList *list, Error *error) {
    char path[PATH_ROOM];
    *list = (ModelList){0};
    Status status = path_models(path, error);
    if (status) return status;
    models_visit(list, path, visit_own, list);
    if (program && path_find_bundled(program, path))
        models_add(list, MODELS_BUNDLED, strdup(BUNDLED_MODEL), strdup(path));
    models_add_hub(list);
    models_add_ollama(list);
    add_lm_studio(list);
    add_llama_cpp(list);
    if (list->count) qsort(list->entries, list->count, sizeof *list->entries, by_place);
    if (!list->lost) return STATUS_OK;
    models_free(list);
    return error_set(error, STATUS_MEMORY, "no memory for the list of models");
}
