// Which of several processes has work on which cards: locks of files, which end with the process that has them.
//
//   /tmp/palaver-ID.turn    had by the one whose work the card may have
//   /tmp/palaver-ID.queue   shared by all who wait for that, so that who has the turn sees them
//
// Cards are taken in the order of their IDs: nobody waits for one that waits for him. Where there are no such files (no
// /tmp, no rights), cards are taken without, and two processes that use them at once may wait for each other.
#include "kernels/base/clock.h"
#include "kernels/shards/shards_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MICROSECONDS = 50, GIVE_WAY_MICROSECONDS = 300 };

void shards_lock_path(const char *id, const char *kind, char path[SHARD_LOCK_PATH]) {
    snprintf(path, SHARD_LOCK_PATH, "/tmp/palaver-%s.%s", id, kind);
}

// Any user's: only locked, never read or written. -1: it cannot be had.
static int open_file(const char *id, const char *kind) {
    enum { FLAGS = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };
    char path[SHARD_LOCK_PATH];
    shards_lock_path(id, kind, path);
    int file = open(path, FLAGS);
    if (file >= 0 || errno != ENOENT) return file;
    file = open(path, FLAGS | O_CREAT | O_EXCL, 0666);
    if (file < 0) return open(path, FLAGS); // another has been faster
    (void)fchmod(file, 0666);               // whatever the umask
    return file;
}

static void sort_ids(char ids[][SHARD_ID], int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && strcmp(ids[j - 1], ids[j]) > 0; j--) {
            char id[SHARD_ID];
            memcpy(id, ids[j], SHARD_ID);
            memcpy(ids[j], ids[j - 1], SHARD_ID);
            memcpy(ids[j - 1], id, SHARD_ID);
        }
}

void shards_open_locks(Shards *s) {
    char ids[SHARDS_MOST][SHARD_ID];
    ShardLocks *l = &s->locks;
    *l = (ShardLocks){.patience = 30, .idle = 0.05};
    for (int i = 0; i < s->n; i++) {
        rank_ops(s)->shards->identify(s->ranks[i].backend, ids[i]);
        if (!*ids[i]) return;
    }
    sort_ids(ids, s->n);
    for (int i = 0; i < s->n; i++, l->n++) {
        l->turn[i] = open_file(ids[i], "turn"), l->queue[i] = open_file(ids[i], "queue");
        if (l->turn[i] >= 0 && l->queue[i] >= 0) continue;
        if (l->turn[i] >= 0) close(l->turn[i]);
        if (l->queue[i] >= 0) close(l->queue[i]);
        shards_close_locks(s);
        return;
    }
}

void shards_close_locks(Shards *s) {
    ShardLocks *l = &s->locks;
    for (int i = 0; i < l->n; i++) close(l->turn[i]), close(l->queue[i]); // who has them, has them no more
    *l = (ShardLocks){0};
}

static bool have(int file, int how) {
    return flock(file, how | LOCK_NB) == 0;
}

bool shards_try_locks(Shards *s) {
    ShardLocks *l = &s->locks;
    int i = 0;
    if (l->held || l->n == 0) return true;
    while (l->gave_way > 0 && clock_seconds() - l->gave_way < GIVE_WAY_MICROSECONDS * 1e-6)
        usleep(LOOK_MICROSECONDS);
    while (i < l->n && have(l->turn[i], LOCK_EX)) i++;
    l->held = i == l->n, l->taken = clock_seconds(), l->gave_way = 0;
    while (!l->held && i > 0) flock(l->turn[--i], LOCK_UN);
    return l->held;
}

Status shards_await_locks(Shards *s, Error *error) {
    ShardLocks *l = &s->locks;
    const double since = clock_seconds();
    for (int i = 0; i < l->n; i++) {
        bool late = false;
        while (!have(l->turn[i], LOCK_EX) && !late) {
            (void)have(l->queue[i], LOCK_SH);
            usleep(LOOK_MICROSECONDS);
            late = clock_seconds() - since > l->patience;
        }
        flock(l->queue[i], LOCK_UN);
        if (!late) continue;
        while (i > 0) flock(l->turn[--i], LOCK_UN);
        return error_set(
            error, STATUS_DEVICE,
            "several cards: another program has held one of them for %g s, and does not go on (is "
            "it stopped?): continue or end it, or take other cards, or one (--device %s)",
            l->patience, s->devices.names[0]);
    }
    l->held = true, l->taken = clock_seconds();
    return STATUS_OK;
}

bool shards_locks_wanted(const Shards *s) {
    bool wanted = false;
    for (int i = 0; i < s->locks.n; i++) {
        if (!have(s->locks.queue[i], LOCK_EX))
            wanted = true;
        else
            flock(s->locks.queue[i], LOCK_UN);
    }
    return wanted;
}

void shards_leave_locks(Shards *s) {
    ShardLocks *l = &s->locks;
    if (!l->held) return;
    for (int i = l->n - 1; i >= 0; i--) flock(l->turn[i], LOCK_UN);
    l->held = false, l->gave_way = clock_seconds();
}
