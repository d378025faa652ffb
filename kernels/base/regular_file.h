// Files that are data: a model's, its tokenizer's, settings. A FIFO or a device in the place of one is an error, not a wait.
#ifndef PALAVER_BASE_REGULAR_FILE_H
#define PALAVER_BASE_REGULAR_FILE_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Opens a regular file for reading: *fd is the caller's to close, *size its bytes. STATUS_FILE names the path and why;
// with `missing` (may be NULL), a file that does not exist is STATUS_OK, *missing true and *fd -1.
Status regular_file_open(const char *path, int *fd, int64_t *size, bool *missing, Error *error);

#ifdef __cplusplus
}
#endif
#endif
