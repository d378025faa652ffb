// Requests over HTTP and HTTPS, by libcurl. Redirects are followed here, so that the token goes to the host it is for
// and to no other, and never from https to http. What may pass is tried again; what does not is one clear line.
#ifndef PALAVER_APP_HTTP_H
#define PALAVER_APP_HTTP_H

#include "kernels/base/status.h"
#include "kernels/base/text/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct Http Http;         // what requests have in common
typedef struct HttpLine HttpLine; // one thread's connections

enum { HTTP_URL_ROOM = 4096 };

typedef struct HttpOptions {
    const char *origin;      // "https://host[:port]"
    const char *token;       // for that host; NULL: none
    const char *authorities; // a file of the certificates that are trusted; NULL: the system's
    int silence; // seconds without a byte after which a connection is given up; 0: as many as is usual
    const atomic_int *stop; // ends whatever is under way
} HttpOptions;

// What the options point to outlives it. STATUS_UNSUPPORTED: no libcurl. STATUS_USAGE: a token that is none.
Status http_open(const HttpOptions *options, Http **http, Error *error);
void http_close(Http *http);
Status http_line_open(const Http *http, HttpLine **line, Error *error);
void http_line_close(HttpLine *line);

// The whole body of `url`, at most `limit` bytes, into an empty text; `what` names it in messages. STATUS_FILE: the
// server says no, and why that may be, or it cannot be reached, or its answer is not what it says; STATUS_INTERRUPTED.
typedef struct HttpGet {
    const char *url, *what;
    size_t limit;
} HttpGet;
Status http_get(HttpLine *line, const HttpGet *get, Text *body, Error *error);

// Bytes [from, to) of what `url` is, which has `size` bytes in all, handed on piece by piece as they come; those that
// were handed on are not asked for again.
typedef struct HttpRange {
    const char *url, *what;
    int64_t from, to, size;
    bool may_be_whole; // a server that sends all, from 0 on, whatever was asked for, is fine
    // False: they cannot be kept, and errno tells why.
    bool (*take)(void *user, int64_t at, const char *bytes, size_t size);
    void *user;
} HttpRange;
// *whole: the server knows no ranges, and has sent all of it.
Status http_range(HttpLine *line, const HttpRange *range, bool *whole, Error *error);

#endif
