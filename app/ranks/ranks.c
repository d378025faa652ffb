#include "app/ranks/ranks.h"

#include "app/ranks/launchers.h"
#include "app/ranks/rescue.h"
#include "kernels/base/file.h"
#include "kernels/base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { KEY_BYTES = 32, KEY_LIMIT = 250 };

// ---- the key ------------------------------------------------------------------------------------------------

// A new one in a file that nobody else reads; who comes first makes it.
static Status make_key(const char *path, Error *error) {
    uint8_t bytes[KEY_BYTES];
    char text[2 * KEY_BYTES + 2], own[PATH_ROOM + 24];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return error_set(error, STATUS_FILE, "no random numbers for a key");
    for (int i = 0; i < KEY_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    strcpy(text + (ptrdiff_t)2 * KEY_BYTES, "\n");
    snprintf(own, sizeof own, "%s.%ld", path, (long)getpid());
    Status status = file_write(own, text, strlen(text), 0600, error);
    if (status) return status;
    if (link(own, path) && errno != EEXIST)
        status = error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
    unlink(own);
    return status;
}

// The key that was given, else the one of this user's, which is made at the first time.
static Status find_key(const char *given, RanksText *text, Error *error) {
    char folder[PATH_ROOM], path[PATH_ROOM], *read;
    size_t size;
    if (strlen(given) > KEY_LIMIT)
        return error_set(error, STATUS_USAGE, "join_key: more than %d bytes", KEY_LIMIT);
    snprintf(text->key, sizeof text->key, "%s", given);
    if (*given) return STATUS_OK;
    Status status = path_state("", folder, error);
    if (!status) status = path_state("join.key", path, error);
    if (!status) status = path_make_folder(folder, 0700, error);
    if (!status && access(path, F_OK)) status = make_key(path, error);
    if (!status) status = file_read(path, KEY_LIMIT, &read, &size, error);
    if (status) return status;
    read[strcspn(read, "\n")] = 0;
    snprintf(text->key, sizeof text->key, "%s", read);
    free(read);
    if (*text->key) return STATUS_OK;
    return error_set(error, STATUS_FILE, "%s: there is no key in it", path);
}

// ---- all of it ----------------------------------------------------------------------------------------------

// One of the two flags says nothing without the other, but --world 1.
static Status check_said(const EngineWorld *said, Error *error) {
    if (said->size <= 0)
        return error_set(error, STATUS_USAGE,
                         "--rank %d: --world is missing, of how many processes this is one", said->rank);
    if (said->rank >= said->size)
        return error_set(error, STATUS_USAGE, "--world %d --rank %d: ranks from 0 on, up to %d", said->size,
                         said->rank, said->size - 1);
    if (said->rank < 0 && said->size > 1)
        return error_set(error, STATUS_USAGE, "--world %d: --rank is missing, which of 0 to %d this is",
                         said->size, said->size - 1);
    return STATUS_OK;
}

static void tell(void *screen, const char *words) {
    screen_notice(screen, "[%s]", words);
}

Status ranks_find(const Settings *settings, Screen *screen, EngineWorld *world, RanksText *text,
                  Error *error) {
    const EngineWorld *said = &settings->engine.world;
    const bool is_said = said->size > 0 || said->rank >= 0;
    Launched launched = {.size = said->size, .rank = said->rank};
    Status status = is_said ? STATUS_OK : launchers_find(&launched, error);
    *world = (EngineWorld){.size = 1, .lost = rescue_and_end, .tell = tell, .tell_context = screen};
    if (!status && is_said) status = check_said(said, error);
    if (status || launched.size == 1) return status;
    snprintf(text->join, sizeof text->join, "%s", *said->join ? said->join : launched.join);
    status = find_key(said->key, text, error);
    if (status) return status;
    world->size = launched.size, world->rank = launched.rank, world->join = text->join,
    world->key = text->key;
    return STATUS_OK;
}

bool ranks_are_several(const Settings *settings) {
    Launched launched;
    Error error;
    const int said = settings->engine.world.size;
    return said > 0 ? said > 1 : !launchers_find(&launched, &error) && launched.size > 1;
}
