// One file from an address to the disk: in parts at once, each of them once, whatever ends the program in between.
//
// While it is fetched it is PATH.palaver, as long as it is going to be, and PATH.palaver-parts says which parts of it
// are there: other programs, which take what they find half done for a beginning, leave these names alone.
#ifndef PALAVER_APP_FETCH_H
#define PALAVER_APP_FETCH_H

#include "app/models/http.h"
#include "kernels/base/digest.h"

typedef struct FetchFile {
    const char *url, *what; // `what` names it in messages
    const char *path;       // where it goes
    int64_t size;
    const char *digest; // in hexadecimal digits
    bool is_sha256;     // else git's SHA-1 of a blob
} FetchFile;

typedef struct Fetch {
    const Http *http;
    _Atomic int64_t done; // bytes that are there, of all files
    // Called some ten times a second while there is something to wait for; false: stop.
    bool (*step)(void *user, const char *what, int64_t done);
    // Called for a file that was there under its name and is not what its digest says.
    void (*damaged)(void *user, const char *what);
    void *user;
} Fetch;

// Bytes that are still to be fetched; 0 where a file of that size is there.
int64_t fetch_left(const FetchFile *file);

// What is there already is read, too: it stays only if its digest is the file's, else it goes, and is fetched anew.
// STATUS_FILE: the server, the disk, or a digest that is another one: then it begins anew the next time.
// STATUS_INTERRUPTED.
Status fetch_file(Fetch *fetch, const FetchFile *file, Error *error);

#endif
