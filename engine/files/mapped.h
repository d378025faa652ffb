// Which files are mapped where: for whoever learns that a part of one cannot be read any more.
//
// A file that another program shortens while it is mapped, or whose disk fails, ends the process with SIGBUS where the
// lost part is touched. Nothing can be put in its place, but the handler can say which file it was: it asks here, and a
// handler can only find what is static.
#ifndef PALAVER_ENGINE_MAPPED_H
#define PALAVER_ENGINE_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

// Enters a mapping of `size` bytes at `data`; `path` stays until mapped_leave(). False: out of memory.
bool mapped_enter(const void *data, size_t size, const char *path);
void mapped_leave(const void *data);

// The path of the file that is mapped at `address`, NULL: none is. For signal handlers.
const char *mapped_path(const void *address);

#endif
