#include "kernels/base/path.h"

#include "kernels/base/text/nearest.h"
#include "kernels/base/array.h"
#include "kernels/base/text/quote.h"
#include "kernels/base/text/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Status path_too_long(const char *path, Error *error) {
    return error_set(error, STATUS_USAGE, "%s: the path is too long", quote(path).text);
}

const char *path_home(const char *instead, Error *error) {
    const char *home = getenv("HOME"), * or = instead ? " or " : "";
    const bool said = home && *home;
    if (!said) {
        const struct passwd *user = getpwuid(getuid());
        home = user ? user->pw_dir : NULL;
    }
    if (home && home[0] == '/') return home;
    if (said)
        error_set(error, STATUS_FILE,
                  "HOME is %s, a path that does not begin with /: set it to a whole one%s%s",
                  quote(home).text, instead ? ", or " : "", instead ? instead : "");
    else
        error_set(error, STATUS_FILE, "no home folder is known: set HOME%s%s", or, instead ? instead : "");
    return NULL;
}

const char *path_in_home(const char *path, char whole[PATH_ROOM]) {
    Error ignored;
    const char *home = path[0] == '~' && path[1] == '/' ? path_home(NULL, &ignored) : NULL;
    return home && snprintf(whole, PATH_ROOM, "%s%s", home, path + 1) < PATH_ROOM ? whole : path;
}

// $VARIABLE/palaver/TAIL, or $HOME/FALLBACK/palaver/TAIL.
static Status path_of(const char *variable, const char *fallback, const char *tail, char *path,
                      Error *error) {
    const char *base = getenv(variable);
    int length;
    if (base && base[0] == '/') {
        length = snprintf(path, PATH_ROOM, "%s/palaver/%s", base, tail);
    } else {
        const char *home = path_home(variable, error);
        if (!home) return STATUS_FILE;
        length = snprintf(path, PATH_ROOM, "%s/%s/palaver/%s", home, fallback, tail);
    }
    return length < 0 || length >= PATH_ROOM ? path_too_long(path, error) : STATUS_OK;
}

Status path_models(char *path, Error *error) {
    return path_of("XDG_DATA_HOME", ".local/share", "models", path, error);
}

Status path_state(const char *tail, char *path, Error *error) {
    return path_of("XDG_STATE_HOME", ".local/state", tail, path, error);
}

Status path_cache(const char *tail, char *path, Error *error) {
    return path_of("XDG_CACHE_HOME", ".cache", tail, path, error);
}

Status path_config(const char *tail, char *path, Error *error) {
    return path_of("XDG_CONFIG_HOME", ".config", tail, path, error);
}

Status path_make_folder(const char *path, mode_t mode, Error *error) {
    char part[PATH_ROOM];
    size_t length = strlen(path);
    if (length >= sizeof part) return path_too_long(path, error);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i]) continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, mode) && errno != EEXIST)
            return error_set(error, STATUS_FILE, "%s: the folder cannot be made: %s", part, strerror(errno));
    }
    return STATUS_OK;
}

Status path_make_folder_of(const char *path, mode_t mode, Error *error) {
    char folder[PATH_ROOM];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return STATUS_OK;
    const int n = snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return n < PATH_ROOM ? path_make_folder(folder, mode, error) : path_too_long(path, error);
}

char *path_join(const char *folder, const char *name) {
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

// ---- models -----------------------------------------------------------------------------------------------

// Hidden files are downloads under way; a .toml holds the settings of the model beside it.
static bool is_model_name(const char *name) {
    const char *suffix = strrchr(name, '.');
    return name[0] != '.' && !(suffix && !strcmp(suffix, ".toml"));
}

// The names in the models folder, [*count], malloc'ed each; an unreadable folder is empty.
static char **models_list(const char *folder, size_t *count) {
    char **names = NULL;
    size_t capacity = 0;
    *count = 0;
    DIR *directory = opendir(folder);
    if (!directory) return NULL;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!is_model_name(entry->d_name)) continue;
        if (!array_reserve(&names, sizeof *names, *count, 1, &capacity)) break;
        if (!(names[*count] = strdup(entry->d_name))) break;
        ++*count;
    }
    closedir(directory);
    return names;
}

static bool exists_at(const char *folder, const char *name, const char *suffix, char *path) {
    int length = snprintf(path, PATH_ROOM, "%s/%s%s", folder, name, suffix);
    return length > 0 && length < PATH_ROOM && !access(path, F_OK);
}

bool path_program(char *path) {
    ssize_t size = readlink("/proc/self/exe", path, PATH_ROOM - 1);
    if (size <= 0) return false;
    path[size] = 0;
    char *slash = strrchr(path, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

// The model that comes with palaver lies beside a bundle's program, above the build folder, or where it is
// installed.
bool path_find_bundled(const char *program, char *path) {
    static const char *const places[] = {"assets", "assets", "share/palaver"};
    char folder[PATH_ROOM];
    const char *above = program ? strrchr(program, '/') : NULL;
    for (size_t i = 0; program && i < sizeof places / sizeof *places; i++) {
        if (i > 0 && !above) break;
        const int inside = i > 0 ? (int)(above - program) : (int)strlen(program);
        int length = snprintf(folder, sizeof folder, "%.*s/%s", inside, program, places[i]);
        if (length > 0 && length < PATH_ROOM && exists_at(folder, BUNDLED_MODEL, "", path)) return true;
    }
    return false;
}

static Status find_default(const char *folder, char *const *names, size_t count, const char *program,
                           char *path, Error *error) {
    if (exists_at(folder, DEFAULT_MODEL_FILE, "", path)) return STATUS_OK;
    if (count == 1 && exists_at(folder, names[0], "", path)) return STATUS_OK;
    if (!count && path_find_bundled(program, path)) return STATUS_OK;
    if (count)
        return error_set(error, STATUS_FILE, "which model? %s has %zu of them (%s, …): palaver NAME", folder,
                         count, names[0]);
    return error_set(
        error, STATUS_FILE,
        "no model in %s: `make model` fetches the default one, or name one of your own: palaver MODEL "
        "(a Hugging Face folder or a .gguf file)",
        folder);
}

static Status find_named(const char *name, const char *folder, char *const *names, size_t count, char *path,
                         Error *error) {
    if (exists_at(folder, name, "", path) || exists_at(folder, name, ".gguf", path)) return STATUS_OK;
    int nearest = nearest_name(name, (const char *const *)names, count);
    if (nearest >= 0)
        return error_set(error, STATUS_FILE, "%s: no such file, nor a model in %s: did you mean %s?", name,
                         folder, names[nearest]);
    return error_set(error, STATUS_FILE, "%s: no such file, nor a model in %s", name, folder);
}

Status path_find_model(const char *name, const char *program, char *path, Error *error) {
    char folder[PATH_ROOM], other[PATH_ROOM], whole[PATH_ROOM];
    const bool named = name && *name;
    if (named) name = path_in_home(name, whole);
    if (named && strlen(name) >= PATH_ROOM) return path_too_long(name, error);
    if (named) name = path_meant(name, other);
    if (named && !access(strcpy(path, name), F_OK))
        return STATUS_OK; // whether there is a models folder or not
    if (named && (strchr(name, '/') || strlen(name) > NAME_MAX))
        return error_set(error, STATUS_FILE, "%s: %s", name, strerror(errno));
    Status status = path_models(folder, error);
    if (status) return status;
    size_t count;
    char **names = models_list(folder, &count);
    if (named)
        status = find_named(name, folder, names, count, path, error);
    else
        status = find_default(folder, names, count, program, path, error);
    for (size_t i = 0; i < count; i++) free(names[i]);
    free(names);
    return status;
}

bool path_is_bundled(const char *model) {
    size_t size = strlen(model), tail = strlen("/" BUNDLED_MODEL);
    return size > tail && !strcmp(model + size - tail, "/" BUNDLED_MODEL);
}

bool path_model_settings(const char *model, char *path) {
    static const char gguf[] = ".gguf";
    size_t size = strlen(model), stem = size - strlen(gguf);
    bool is_file = size > strlen(gguf) && !strcmp(model + stem, gguf);
    int n = is_file ? snprintf(path, PATH_ROOM, "%.*s.toml", (int)stem, model)
                    : snprintf(path, PATH_ROOM, "%s/palaver.toml", model);
    return n > 0 && n < PATH_ROOM && !access(path, F_OK);
}

const char *path_meant(const char *path, char other[PATH_ROOM]) {
    const bool is_other =
        access(path, F_OK) != 0 && utf8_unspell(path, other, PATH_ROOM) && !access(other, F_OK);
    return is_other ? other : path;
}

const char *path_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void path_make_absolute(char *path) {
    char folder[PATH_ROOM], whole[2 * PATH_ROOM];
    if (path[0] == '/' || !getcwd(folder, sizeof folder)) return;
    int n = snprintf(whole, sizeof whole, "%s/%s", folder, path);
    if (n > 0 && n < PATH_ROOM) strcpy(path, whole);
}
