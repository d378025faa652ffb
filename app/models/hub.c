#include "app/models/hub.h"

#include "app/models/fetch.h"
#include "app/models/hub_cache.h"
#include "kernels/base/file.h"
#include "kernels/base/text/format.h"
#include "kernels/base/path.h"
#include "kernels/base/text/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    ID_ROOM = 256,
    LIST_LIMIT = 64 << 20,
    SPARE = 64 << 20
}; // bytes of a list; bytes that are left on a disk

// What is pulled, taken apart.
typedef struct Pull {
    const HubWish *wish;
    char id[ID_ROOM], ref[ID_ROOM], part[ID_ROOM]; // "ORG/NAME", "main", "" or a type
    char endpoint[HTTP_URL_ROOM / 4];
    char folder[PATH_ROOM - 400]; // models--ORG--NAME; there is room for names below it
    Http *http;
    HubFiles files;
    HubChoice choice;
    int64_t total; // bytes of all that is wanted
} Pull;

// ---- names --------------------------------------------------------------------------------------------------------

static bool is_word(const char *text, size_t n, const char *more) {
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && !strchr(more, c)) return false;
    }
    return n > 0 && text[0] != '.' && text[0] != '-' && text[0] != '/';
}

const char *hub_name(const char *model) {
    static const char *const hosts[] = {"huggingface.co/", "hf.co/"};
    const char *name = model + (strncasecmp(model, "https://", 8) ? 0 : 8);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (!strncasecmp(name, hosts[i], strlen(hosts[i])) && strchr(name + strlen(hosts[i]), '/'))
            return name + strlen(hosts[i]);
    return model;
}

// "ORG/NAME[@REF][:PART]".
static Status take_apart(Pull *p, Error *error) {
    const char *name = p->wish->model, *colon = strchr(name, ':'), *at = strchr(name, '@'),
               *slash = strchr(name, '/');
    const char *end = colon ? colon : name + strlen(name);
    if (at && at > end) at = NULL;
    const char *id_end = at ? at : end;
    bool fine = slash && slash < id_end && is_word(name, (size_t)(slash - name), "-_.") &&
                is_word(slash + 1, (size_t)(id_end - slash - 1), "-_.") && !strstr(name, "--") &&
                !strstr(name, "..") && (size_t)(id_end - name) < sizeof p->id && strlen(end) < sizeof p->part;
    if (fine && at)
        fine = is_word(at + 1, (size_t)(end - at - 1), "-_./") && (size_t)(end - at) < sizeof p->ref;
    if (!fine)
        return error_set(error, STATUS_USAGE,
                         "%s: palaver pull wants ORG/NAME, ORG/NAME:TYPE or ORG/NAME:FILE", quote(name).text);
    snprintf(p->id, sizeof p->id, "%.*s", (int)(id_end - name), name);
    snprintf(p->ref, sizeof p->ref, "%.*s", at ? (int)(end - at - 1) : 4, at ? at + 1 : "main");
    snprintf(p->part, sizeof p->part, "%s", colon ? colon + 1 : "");
    return STATUS_OK;
}

// The endpoint without a slash at its end; and whose the token is: "https://host:port".
static Status take_endpoint(Pull *p, char *origin, size_t size, Error *error) {
    const char *endpoint = p->wish->endpoint;
    size_t n = strlen(endpoint), head = !strncasecmp(endpoint, "https://", 8)  ? 8
                                        : !strncasecmp(endpoint, "http://", 7) ? 7
                                                                               : 0;
    while (n > head && endpoint[n - 1] == '/') n--;
    if (!head || n == head || n >= sizeof p->endpoint || strpbrk(endpoint, " \"<>@?#"))
        return error_set(error, STATUS_USAGE, "HF_ENDPOINT=%s: expected https://HOST", quote(endpoint).text);
    snprintf(p->endpoint, sizeof p->endpoint, "%.*s", (int)n, endpoint);
    snprintf(origin, size, "%.*s", (int)(head + strcspn(p->endpoint + head, "/")), p->endpoint);
    return STATUS_OK;
}

bool hub_is_in_clear(const char *endpoint) {
    static const char *const here[] = {"localhost", "[::1]"};
    if (strncasecmp(endpoint, "http://", 7)) return false;
    const char *host = endpoint + 7;
    size_t n = *host == '[' ? strcspn(host, "]/") + 1 : strcspn(host, ":/");
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        if (n == strlen(here[i]) && !strncasecmp(host, here[i], n)) return false;
    // A name may begin with 127, too.
    return strncmp(host, "127.", 4) || strspn(host, "0123456789.") != n;
}

// Adds a path to an address, with what addresses do not have as %XX.
static void add_path(char *url, const char *path, bool slashes) {
    size_t n = strlen(url);
    for (const char *c = path; *c && n + 4 < HTTP_URL_ROOM; c++) {
        if (is_word((char[]){'a', *c}, 2, slashes ? "-_./~" : "-_.~"))
            url[n++] = *c;
        else
            n += (size_t)sprintf(url + n, "%%%02X", (unsigned char)*c);
    }
    url[n] = 0;
}

// ---- the hub ------------------------------------------------------------------------------------------------------

static Status read_list(Pull *p, Error *error) {
    char url[HTTP_URL_ROOM];
    Text body = {0};
    HttpLine *line;
    snprintf(url, sizeof url, "%s/api/models/%s/revision/", p->endpoint, p->id);
    add_path(url, p->ref, false);
    strcat(url, "?blobs=true");
    const HttpGet get = {url, p->id, LIST_LIMIT};
    Status status = http_line_open(p->http, &line, error);
    if (status) return status;
    status = http_get(line, &get, &body, error);
    http_line_close(line);
    if (!status) status = hub_files_read(p->id, body.bytes ? body.bytes : "", body.size, &p->files, error);
    text_free(&body);
    if (!status) status = hub_files_choose(&p->files, p->part, p->wish->available, &p->choice, error);
    return !status || status == STATUS_FILE || status == STATUS_MEMORY || status == STATUS_INTERRUPTED
               ? status
               : error_prefix(error, "%s: ", p->id);
}

// ---- the cache ----------------------------------------------------------------------------------------------------

static Status make_folders(Pull *p, Error *error) {
    char cache[PATH_ROOM], path[PATH_ROOM + 16];
    Status status = hub_cache_folder(cache, error);
    if (status) return status;
    const char *slash = strchr(p->id, '/');
    int n = snprintf(p->folder, sizeof p->folder, "%s/models--%.*s--%s", cache, (int)(slash - p->id), p->id,
                     slash + 1);
    if (n < 0 || n >= (int)sizeof p->folder) return path_too_long(cache, error);
    snprintf(path, sizeof path, "%s/blobs", p->folder);
    return path_make_folder(path, 0777, error);
}

static void blob_path(const Pull *p, const HubFile *file, char *path) {
    snprintf(path, PATH_ROOM, "%s/blobs/%s", p->folder, file->digest);
}

// What a file of the list is to fetch_file(); `path` [PATH_ROOM] and `url` [HTTP_URL_ROOM] are its strings.
static FetchFile describe(const Pull *p, const HubFile *file, char *path, char *url) {
    blob_path(p, file, path);
    snprintf(url, HTTP_URL_ROOM, "%s/%s/resolve/%s/", p->endpoint, p->id, p->files.commit);
    add_path(url, file->name, true);
    return (FetchFile){url, file->name, path, file->size, file->digest, file->is_sha256};
}

static Status check_disk(const Pull *p, int64_t left, Error *error) {
    struct statvfs disk;
    char need[FORMAT_ROOM], have[FORMAT_ROOM];
    if (!left || statvfs(p->folder, &disk)) return STATUS_OK; // writing will tell
    double room = (double)disk.f_bavail * (double)disk.f_frsize;
    if (room >= (double)left + SPARE) return STATUS_OK;
    format_bytes((double)left, need);
    format_bytes(room, have);
    return error_set(error, STATUS_FILE,
                     "%s: %s more are needed, %s are free on this disk (HF_HOME says which)", p->folder, need,
                     have);
}

// snapshots/COMMIT/NAME becomes a link to the blob.
static Status link_file(const Pull *p, const HubFile *file, Error *error) {
    char path[PATH_ROOM], to[PATH_ROOM] = "../../", there[PATH_ROOM];
    int n = snprintf(path, sizeof path, "%s/snapshots/%s/%s", p->folder, p->files.commit, file->name);
    if (n < 0 || n >= PATH_ROOM) return path_too_long(file->name, error);
    Status status = path_make_folder_of(path, 0777, error);
    if (status) return status;
    for (const char *c = file->name; (c = strchr(c, '/')); c++) strcat(to, "../");
    snprintf(to + strlen(to), sizeof to - strlen(to), "blobs/%s", file->digest);
    ssize_t length = readlink(path, there, sizeof there - 1);
    if (length > 0) {
        there[length] = 0;
        if (!strcmp(there, to)) return STATUS_OK;
    }
    unlink(path);
    return symlink(to, path) ? error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno)) : STATUS_OK;
}

static Status write_ref(const Pull *p, Error *error) {
    char path[PATH_ROOM];
    if (!strcmp(p->ref, p->files.commit)) return STATUS_OK;
    int n = snprintf(path, sizeof path, "%s/refs/%s", p->folder, p->ref);
    if (n < 0 || n >= PATH_ROOM) return path_too_long(p->ref, error);
    Status status = path_make_folder_of(path, 0777, error);
    return status ? status : file_write(path, p->files.commit, strlen(p->files.commit), 0644, error);
}

// ---- all of it ----------------------------------------------------------------------------------------------------

static bool on_step(void *user, const char *what, int64_t done) {
    const Pull *p = user;
    const Progress *progress = &p->wish->progress;
    return !progress->step || progress->step(progress->user, what, done, p->total);
}

static void on_damaged(void *user, const char *what) {
    const Pull *p = user;
    p->wish->damaged(p->wish->user, what);
}

static Status fetch_all(Pull *p, Error *error) {
    char path[PATH_ROOM], url[HTTP_URL_ROOM];
    int64_t left = 0;
    for (size_t i = 0; i < p->files.count; i++) {
        if (!p->files.files[i].wanted) continue;
        FetchFile file = describe(p, &p->files.files[i], path, url);
        left += fetch_left(&file);
    }
    p->total = p->choice.bytes;
    Fetch fetch = {
        .http = p->http, .done = p->total - left, .step = on_step, .damaged = on_damaged, .user = p};
    Status status = check_disk(p, left, error);
    for (size_t i = 0; i < p->files.count && !status; i++) {
        if (!p->files.files[i].wanted) continue;
        FetchFile file = describe(p, &p->files.files[i], path, url);
        status = fetch_file(&fetch, &file, error);
        if (!status) status = link_file(p, &p->files.files[i], error);
    }
    return status ? status : write_ref(p, error);
}

static Status pull(Pull *p, char *path, Error *error) {
    Status status = read_list(p, error);
    if (status) return status;
    p->wish->tell(p->wish->user, &p->choice);
    status = make_folders(p, error);
    if (!status) status = fetch_all(p, error);
    if (status) return status;
    int n = snprintf(path, PATH_ROOM, "%s/snapshots/%s%s%s", p->folder, p->files.commit,
                     *p->choice.main ? "/" : "", p->choice.main);
    return n < 0 || n >= PATH_ROOM ? path_too_long(p->folder, error) : STATUS_OK;
}

Status hub_pull(const HubWish *wish, char *path, Error *error) {
    char origin[HTTP_URL_ROOM];
    Pull *p = calloc(1, sizeof *p);
    if (!p) return error_set(error, STATUS_MEMORY, "no memory to fetch a model");
    p->wish = wish;
    Status status = take_apart(p, error);
    if (!status) status = take_endpoint(p, origin, sizeof origin, error);
    const HttpOptions options = {origin, wish->token, wish->authorities, wish->silence, wish->stop};
    if (!status) status = http_open(&options, &p->http, error);
    if (!status) status = pull(p, path, error);
    http_close(p->http);
    hub_files_free(&p->files);
    free(p);
    return status;
}
