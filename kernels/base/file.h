// Files that are read whole, and written whole or not at all.
#ifndef PALAVER_BASE_FILE_H
#define PALAVER_BASE_FILE_H

#include "kernels/base/status.h"

#ifndef __cplusplus
#include <stdatomic.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Files that are data: a model's, its tokenizer's, settings. A FIFO or a device in the place of one is an error, not a
// wait. Opens a regular file for reading: *fd is the caller's to close, *size its bytes. STATUS_FILE names the path and
// why; with `missing` (may be NULL), a file that does not exist is STATUS_OK, *missing true and *fd -1.
Status file_open_regular(const char *path, int *fd, int64_t *size, bool *missing, Error *error);

// STATUS_FILE: an open file is not that of its name, but what Git leaves in its place where it lacks git-lfs.
Status file_check_fetched(const char *path, int fd, int64_t size, Error *error);

// Reads a regular file whole; otherwise as file_open_regular() and file_read(). *text is NULL where it is missing.
Status file_read_regular(const char *path, size_t limit, char **text, size_t *size, bool *missing,
                         Error *error);

// Reads a whole file of at most `limit` bytes. *text is malloc'ed and NUL-terminated (it may hold further
// NULs). A pipe is waited for as long as it takes, as of every program that reads one: STATUS_INTERRUPTED where a signal
// ends that.
Status file_read(const char *path, size_t limit, char **text, size_t *size, Error *error);

// The same of a stream that is open already and stays so, such as stdin, which cannot always be opened by a path: a
// socket has none, and a FIFO whose writer is gone would be waited for again.
Status file_read_stream(FILE *file, const char *name, size_t limit, char **text, size_t *size, Error *error);

// fread() of bytes, at least one unless the file ends or fails: a pipe that does not block is waited for.
size_t file_read_some(FILE *file, char *bytes, size_t room);

// All of the data, also to a slow pipe that does not block; false where that cannot be, and errno tells why.
bool file_write_all(int file, const char *data, size_t size);

#ifndef __cplusplus // whose atomics are others
// The same to who may not read at all: once *stop is set, that he reads on is waited for no longer than a second each time,
// and it is EINTR. NULL: nothing stops it.
bool file_write_until(int file, const char *data, size_t size, const atomic_int *stop);
#endif

// Replaces a file at once: a temporary file beside it, fsync, rename. After a failure the old file is as it was. Of a link
// the file that it leads to is meant.
Status file_write(const char *path, const char *data, size_t size, mode_t mode, Error *error);

// Whether file_write() will be able to begin: for what takes minutes to make.
Status file_check_writable(const char *path, Error *error);

// Waits until a new name is on disk in its folder; a file system that cannot do that is not an error.
void file_sync_name(const char *path);

#ifdef __cplusplus
}
#endif
#endif
