#include "kernels/base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Status regular_file_open(const char *path, int *fd, int64_t *size, bool *missing, Error *error) {
    if (missing) *missing = false;
    *size = 0;
    // O_NONBLOCK: opening a FIFO must not wait for a writer. Reading a regular file is the same with it.
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0) {
        if (missing && (errno == ENOENT || errno == ENOTDIR)) {
            *missing = true;
            return STATUS_OK;
        }
        return error_set(error, STATUS_FILE, "%s: cannot be read: %s; check the name", path, strerror(errno));
    }
    struct stat info;
    if (fstat(*fd, &info) == 0 && S_ISREG(info.st_mode)) {
        *size = info.st_size;
        return STATUS_OK;
    }
    close(*fd);
    *fd = -1;
    return error_set(error, STATUS_FILE, "%s: not a regular file", path);
}
