// Fetching a model from a hub that speaks Hugging Face's HTTP API, into the cache that its programs share.
//
//   the list of files with sizes and digests → which of them → each into blobs/, in parts at once, as far as it is
//   not there yet → its digest, also of what was there → snapshots/COMMIT/ → refs/REF
//
// What was begun goes on where it ended, whatever ended it. Nothing has its name in snapshots/ before it is whole and
// its digest is the hub's.
#ifndef PALAVER_APP_HUB_H
#define PALAVER_APP_HUB_H

#include "app/models/hub_files.h"
#include "engine/options.h"

typedef struct HubWish {
    const char *endpoint;    // "https://huggingface.co"
    const char *token;       // NULL: none
    const char *authorities; // as HttpOptions has it
    int silence;             // likewise
    const char *model;       // "ORG/NAME", "ORG/NAME@REF", either with ":TYPE" or ":FILE"
    int64_t available;       // bytes of memory where it is going to run; 0: not known
    Progress progress;
    const atomic_int *stop;
    // Called once it is known what is fetched, and why.
    void (*tell)(void *user, const HubChoice *choice);
    // Called for a file that was there and is damaged: it is fetched again.
    void (*damaged)(void *user, const char *file);
    void *user;
} HubWish;

// What stands behind the hub's own address in a name that was copied with it: "ORG/NAME" of "hf.co/ORG/NAME" and of
// "https://huggingface.co/ORG/NAME".
const char *hub_name(const char *model);

// Whether what is sent to an endpoint can be read on the way: http, and not to this machine.
bool hub_is_in_clear(const char *endpoint);

// *path [PATH_ROOM] becomes what engine_open() takes. STATUS_USAGE: no such name or choice; STATUS_FILE: the hub, the
// connection or the disk says no; STATUS_INTERRUPTED.
Status hub_pull(const HubWish *wish, char *path, Error *error);

#endif
