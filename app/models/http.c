#include "app/models/http.h"

#include "app/models/curl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    REDIRECTS = 8,
    TRIES = 5,
    SILENT_TRIES = 2,      // of a server that says nothing, which takes long enough
    FIRST_PAUSE = 250,     // milliseconds before the second try; each further one is twice as long
    LONGEST_PAUSE = 60000, // that a server may ask for
    CONNECTING = 30,       // seconds
    SILENCE = 60,          // seconds without a byte
    TOKEN_ROOM = 1024,
};

struct Http {
    Curl curl;
    HttpOptions options;
    char token[TOKEN_ROOM]; // "Authorization: Bearer …"; "": none
};

struct HttpLine {
    const Http *http;
    CurlHandle *handle;
    char why[CURL_ERROR_ROOM];
    char final[HTTP_URL_ROOM]; // where the last redirect of `asked` led; "": nowhere
    char asked[HTTP_URL_ROOM];
};

Status http_open(const HttpOptions *options, Http **out, Error *error) {
    const char *token = options->token;
    *out = NULL;
    size_t n = token ? strlen(token) : 0;
    if (token && (n == 0 || n > TOKEN_ROOM - 32 || !text_is_printable(token, n) || strchr(token, ' ')))
        return error_set(error, STATUS_USAGE, "HF_TOKEN is no token");
    Http *http = calloc(1, sizeof *http);
    if (!http) return error_set(error, STATUS_MEMORY, "no memory for a connection");
    http->options = *options;
    if (token) snprintf(http->token, sizeof http->token, "Authorization: Bearer %s", token);
    Status status = curl_load(&http->curl, error);
    if (status)
        free(http);
    else
        *out = http;
    return status;
}

void http_close(Http *http) {
    free(http);
}

Status http_line_open(const Http *http, HttpLine **line, Error *error) {
    *line = calloc(1, sizeof **line);
    if (*line) (*line)->http = http;
    if (*line && ((*line)->handle = http->curl.easy_init())) return STATUS_OK;
    free(*line);
    *line = NULL;
    return error_set(error, STATUS_MEMORY, "no memory for a connection");
}

void http_line_close(HttpLine *line) {
    if (!line) return;
    line->http->curl.easy_cleanup(line->handle);
    free(line);
}

// ---- one answer ---------------------------------------------------------------------------------------------------

// A request in hand, and what is known of its answer so far.
typedef struct Answer {
    HttpLine *line;
    const char *what;
    long status;                // of the line that the headers began with
    int64_t retry;              // seconds that the server asks for; -1: it does not say
    int64_t first, last, total; // Content-Range; -1: none
    // One of the two takes the body.
    Text *body;
    size_t limit;
    const HttpRange *range;
    int64_t at;          // bytes that were taken, counted from the beginning of the file
    bool whole, checked; // the body is all of the file; the headers were looked at
    char problem[200];   // what is wrong with the answer; "": nothing yet
} Answer;

static bool refuse(Answer *a, const char *problem) {
    if (!*a->problem) snprintf(a->problem, sizeof a->problem, "%s", problem);
    return false;
}

static bool starts(const char *line, size_t size, const char *name, const char **value) {
    size_t n = strlen(name);
    if (size < n || strncasecmp(line, name, n)) return false;
    *value = line + n + strspn(line + n, " \t");
    return true;
}

// Lines of headers are not NUL-terminated.
static size_t on_header(char *bytes, size_t one, size_t n, void *user) {
    Answer *a = user;
    char line[512];
    const char *value;
    size_t size = one * n;
    snprintf(line, sizeof line, "%.*s", (int)(size < sizeof line - 1 ? size : sizeof line - 1), bytes);
    if (starts(line, size, "HTTP/", &value)) {
        a->status = strchr(line, ' ') ? strtol(strchr(line, ' '), NULL, 10) : 0;
        a->first = a->last = a->total = a->retry = -1;
    } else if (starts(line, size, "Retry-After:", &value)) {
        a->retry = strtol(value, NULL, 10);
    } else if (starts(line, size, "Content-Range:", &value)) {
        long long first, last, total;
        if (sscanf(value, "bytes %lld-%lld/%lld", &first, &last, &total) == 3)
            a->first = first, a->last = last, a->total = total;
    }
    return size;
}

// Whether the body is what was asked for, before any of it is taken.
static bool check_range(Answer *a) {
    const HttpRange *r = a->range;
    a->checked = true;
    if (a->status == 200 && r->may_be_whole) {
        a->whole = true;
        a->at = 0;
        return true;
    }
    if (a->status != 206) return refuse(a, "the server sends no parts of files");
    if (a->total >= 0 && a->total != r->size) return refuse(a, "the server says another size than the hub");
    if (a->first != a->at || a->last != r->to - 1)
        return refuse(a, "the server sends another part than was asked for");
    return true;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *user) {
    Answer *a = user;
    size_t size = one * n;
    if (a->status < 200 || a->status > 299) return size; // an error's page is not kept
    if (a->body) {
        if (a->body->size + size > a->limit) return refuse(a, "the answer does not end where it should"), 0;
        return text_add(a->body, bytes, size) ? size : (refuse(a, "no memory for the answer"), 0);
    }
    const HttpRange *r = a->range;
    if (!a->checked && !check_range(a)) return 0;
    int64_t end = a->whole ? r->size : r->to;
    if (a->at + (int64_t)size > end) return refuse(a, "the server sends more than it said"), 0;
    if (!r->take(r->user, a->at, bytes, size)) return refuse(a, strerror(errno)), 0;
    a->at += (int64_t)size;
    return size;
}

static int on_progress(void *user, int64_t total, int64_t now, int64_t up, int64_t up_now) {
    (void)total, (void)now, (void)up, (void)up_now;
    return *((const Answer *)user)->line->http->options.stop != 0;
}

// ---- one request --------------------------------------------------------------------------------------------------

// Whether `url` goes to the host that the token is for.
static bool is_own(const Http *http, const char *url) {
    size_t n = strlen(http->options.origin);
    return !strncasecmp(url, http->options.origin, n) && (url[n] == '/' || url[n] == 0 || url[n] == '?');
}

static int perform_at(Answer *a, const char *url) {
    HttpLine *line = a->line;
    const Curl *c = &line->http->curl;
    const HttpOptions *options = &line->http->options;
    CurlHandle *h = line->handle;
    char range[64];
    struct CurlList *headers =
        *line->http->token && is_own(line->http, url) ? c->slist_append(NULL, line->http->token) : NULL;
    *line->why = 0;
    c->easy_reset(h);
    c->easy_setopt(h, CURL_URL, url);
    c->easy_setopt(h, CURL_PROTOCOLS, (long)(strncasecmp(url, "https:", 6) ? CURL_HTTP : CURL_HTTPS));
    c->easy_setopt(h, CURL_USER_AGENT, "palaver/" PALAVER_VERSION);
    c->easy_setopt(h, CURL_HTTP_HEADER, headers);
    c->easy_setopt(h, CURL_NO_SIGNAL, 1L);
    c->easy_setopt(h, CURL_CONNECT_TIMEOUT, (long)CONNECTING);
    c->easy_setopt(h, CURL_LOW_SPEED_LIMIT, 1L);
    c->easy_setopt(h, CURL_LOW_SPEED_TIME, (long)(options->silence ? options->silence : SILENCE));
    if (options->authorities) c->easy_setopt(h, CURL_AUTHORITIES, options->authorities);
    c->easy_setopt(h, CURL_ERROR_BUFFER, line->why);
    c->easy_setopt(h, CURL_HEADER_FUNCTION, on_header);
    c->easy_setopt(h, CURL_HEADER_DATA, a);
    c->easy_setopt(h, CURL_WRITE_FUNCTION, on_body);
    c->easy_setopt(h, CURL_WRITE_DATA, a);
    c->easy_setopt(h, CURL_NO_PROGRESS, 0L);
    c->easy_setopt(h, CURL_PROGRESS_FUNCTION, on_progress);
    c->easy_setopt(h, CURL_PROGRESS_DATA, a);
    if (a->range) {
        snprintf(range, sizeof range, "%lld-%lld", (long long)a->at, (long long)a->range->to - 1);
        c->easy_setopt(h, CURL_RANGE, range);
    }
    a->status = 0;
    a->checked = false;
    int code = c->easy_perform(h);
    c->slist_free_all(headers);
    return code;
}

// Goes where the server sends us. STATUS_FILE: too far, or out of https.
static Status follow(Answer *a, char url[HTTP_URL_ROOM], int n, Error *error) {
    const Curl *c = &a->line->http->curl;
    const char *next = NULL;
    c->easy_getinfo(a->line->handle, CURL_REDIRECT_URL, &next);
    if (!next || !*next || strlen(next) >= HTTP_URL_ROOM)
        return error_set(error, STATUS_FILE, "%s: the server sends us elsewhere, but not where", a->what);
    if (n >= REDIRECTS)
        return error_set(error, STATUS_FILE, "%s: the server sends us round in circles", a->what);
    if (strncasecmp(next, "http:", 5) && strncasecmp(next, "https:", 6))
        return error_set(error, STATUS_FILE, "%s: the server sends us to %.100s, which is no web address",
                         a->what, next);
    if (!strncasecmp(url, "https:", 6) && strncasecmp(next, "https:", 6))
        return error_set(error, STATUS_FILE, "%s: the server sends us from https to %.100s", a->what, next);
    strcpy(url, next);
    return STATUS_OK;
}

// One go at `url`, through its redirects. *code is libcurl's.
static Status go(Answer *a, const char *url, int *code, Error *error) {
    HttpLine *line = a->line;
    char at[HTTP_URL_ROOM];
    if (strlen(url) >= sizeof at)
        return error_set(error, STATUS_FILE, "%s: its address is too long", a->what);
    bool known = *line->final && !strcmp(line->asked, url);
    strcpy(at, known ? line->final : url);
    Status status = STATUS_OK;
    for (int n = 0; !status; n++) {
        *code = perform_at(a, at);
        if (*code || a->status < 300 || a->status > 399 || a->status == 304) break;
        status = follow(a, at, n, error);
    }
    bool fine = !status && !*code && a->status < 300;
    // What was signed for some minutes is asked for anew when it is refused.
    snprintf(line->final, sizeof line->final, "%s", fine && strcmp(at, url) ? at : "");
    snprintf(line->asked, sizeof line->asked, "%s", url);
    if (!status && known && !fine && a->status >= 400 && a->status < 500) return go(a, url, code, error);
    return status;
}

// ---- what it means ------------------------------------------------------------------------------------------------

static Status tell_code(const Answer *a, int code, Error *error) {
    const HttpLine *line = a->line;
    const char *why = *line->why ? line->why : line->http->curl.easy_strerror(code);
    switch (code) {
    case CURL_NO_PROXY:
        return error_set(error, STATUS_FILE, "%s: no such proxy (see http_proxy, https_proxy): %s", a->what,
                         why);
    case CURL_NO_HOST:
    case CURL_NO_CONNECTION:
        return error_set(error, STATUS_FILE, "%s: no way there: %s", a->what, why);
    case CURL_TLS_CONNECT:
    case CURL_TLS_UNTRUSTED:
        return error_set(error, STATUS_FILE, "%s: the connection is not safe: %s", a->what, why);
    case CURL_NO_AUTHORITIES:
        return error_set(error, STATUS_FILE, "%s: the certificates to trust cannot be read: %s", a->what,
                         why);
    case CURL_TIMED_OUT:
        return error_set(error, STATUS_FILE, "%s: the server has gone silent: %s", a->what, why);
    default:
        return error_set(error, STATUS_FILE, "%s: the connection broke: %s", a->what, why);
    }
}

static Status tell_status(const Answer *a, Error *error) {
    bool token = *a->line->http->token;
    switch (a->status) {
    case 401:
        return error_set(error, STATUS_FILE,
                         token ? "%s: 401, the hub does not take the token in HF_TOKEN"
                               : "%s: 401, there is none of this name, or it needs a token: set HF_TOKEN",
                         a->what);
    case 403:
        return error_set(error, STATUS_FILE,
                         "%s: 403, not for you: its page on the hub says how to ask for access%s", a->what,
                         token ? "" : ", and HF_TOKEN has to be set");
    case 404:
        return error_set(error, STATUS_FILE, "%s: 404, the hub has nothing of this name%s", a->what,
                         token ? "" : " (what is private needs HF_TOKEN)");
    case 429:
        return error_set(error, STATUS_FILE, "%s: 429, the hub has had too many requests: try again later",
                         a->what);
    default:
        return error_set(error, STATUS_FILE, "%s: the server answers %ld%s", a->what, a->status,
                         a->status >= 500 ? ": it is out of order, try again later" : "");
    }
}

// Whether another try may end better.
static bool may_pass(const Answer *a, int code) {
    switch (code) {
    case CURL_OK:
        return a->status == 429 || a->status == 408 || a->status >= 500;
    case CURL_PARTIAL:
    case CURL_TIMED_OUT:
    case CURL_GOT_NOTHING:
    case CURL_SEND_FAILED:
    case CURL_RECEIVE_FAILED:
    case CURL_STREAM_FAILED:
        return true;
    default:
        return false;
    }
}

static void pause_before(const Answer *a, int attempt) {
    int64_t left = (int64_t)FIRST_PAUSE << attempt;
    if (a->retry >= 0) left = a->retry * 1000 < LONGEST_PAUSE ? a->retry * 1000 : LONGEST_PAUSE;
    for (; left > 0 && !*a->line->http->options.stop; left -= 50)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

static Status settle(Answer *a, int code, Error *error) {
    if (*a->line->http->options.stop) return error_set(error, STATUS_INTERRUPTED, "%s: stopped", a->what);
    if (*a->problem) return error_set(error, STATUS_FILE, "%s: %s", a->what, a->problem);
    if (code) return tell_code(a, code, error);
    return a->status < 200 || a->status > 299 ? tell_status(a, error) : STATUS_OK;
}

// Until it is done, or cannot be. After a break a range goes on where it ended.
static Status run(Answer *a, const char *url, Error *error) {
    int code = 0;
    for (int attempt = 0;; attempt++) {
        int64_t before = a->at;
        if (a->body) text_free(a->body);
        Status status = go(a, url, &code, error);
        if (status) return status;
        bool cut = a->range && !code && a->status < 300 && a->at < (a->whole ? a->range->size : a->range->to);
        if (cut) code = CURL_PARTIAL;
        bool again = (may_pass(a, code) && !*a->problem && !*a->line->http->options.stop);
        if (!again || a->whole) break;
        if (a->at > before) attempt = 0; // it goes on, if haltingly
        if (attempt + 1 >= (code == CURL_TIMED_OUT ? SILENT_TRIES : TRIES)) break;
        pause_before(a, attempt);
    }
    return settle(a, code, error);
}

Status http_get(HttpLine *line, const HttpGet *get, Text *body, Error *error) {
    Answer answer = {.line = line, .what = get->what, .body = body, .limit = get->limit, .retry = -1};
    Status status = run(&answer, get->url, error);
    if (status) text_free(body);
    return status;
}

Status http_range(HttpLine *line, const HttpRange *range, bool *whole, Error *error) {
    Answer answer = {.line = line, .what = range->what, .range = range, .at = range->from, .retry = -1};
    Status status = run(&answer, range->url, error);
    *whole = answer.whole;
    return status;
}
