#include "kernels/base/file.h"

#include "kernels/base/array.h"
#include "kernels/base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 4096, MOST_LINKS = 40 };

Status file_open_regular(const char *path, int *fd, int64_t *size, bool *missing, Error *error) {
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

Status file_check_fetched(const char *path, int fd, int64_t size, Error *error) {
    static const char POINTER[] = "version https://git-lfs.github.com/spec/";
    enum { LENGTH = sizeof POINTER - 1, LONGEST = 1024 }; // of a pointer, as its specification says
    char begin[LENGTH];
    if (size >= LONGEST || pread(fd, begin, LENGTH, 0) != LENGTH || memcmp(begin, POINTER, LENGTH) != 0)
        return STATUS_OK;
    return error_set(
        error, STATUS_FILE,
        "%s: a pointer of Git LFS, not the file itself: `git lfs pull` in its folder fetches that", path);
}

Status file_read_regular(const char *path, size_t limit, char **text, size_t *size, bool *missing,
                         Error *error) {
    int fd;
    int64_t bytes;
    *text = NULL;
    *size = 0;
    Status status = file_open_regular(path, &fd, &bytes, missing, error);
    if (status || fd < 0) return status;
    FILE *file = fdopen(fd, "rb");
    if (!file) {
        close(fd);
        return error_set(error, STATUS_MEMORY, "%s: out of memory", path);
    }
    status = file_read_stream(file, path, limit, text, size, error);
    fclose(file);
    return status;
}

static Status was_interrupted(const char *name, const char *what_of, Error *error) {
    return error_set(error, STATUS_INTERRUPTED, "%s: interrupted: %s", name, what_of);
}

Status file_read(const char *path, size_t limit, char **text, size_t *size, Error *error) {
    *text = NULL;
    *size = 0;
    FILE *file = fopen(path, "rbe");
    if (!file && errno == EINTR)
        return was_interrupted(path, "nobody has begun to write to this pipe", error);
    if (!file) return error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
    Status status = file_read_stream(file, path, limit, text, size, error);
    fclose(file);
    return status;
}

size_t file_read_some(FILE *file, char *bytes, size_t room) {
    if (feof(file)) return 0; // fread() would ask a terminal for a second end
    for (;;) {
        const size_t n = fread(bytes, 1, room, file);
        const bool waits = ferror(file) && (errno == EAGAIN || errno == EWOULDBLOCK);
        struct pollfd input = {.fd = fileno(file), .events = POLLIN};
        if (waits && (n || poll(&input, 1, -1) >= 0)) clearerr(file);
        if (n || !waits || ferror(file)) return n;
    }
}

Status file_read_stream(FILE *file, const char *name, size_t limit, char **text, size_t *size, Error *error) {
    *text = NULL;
    *size = 0;
    Status status = STATUS_OK;
    struct stat facts;
    size_t capacity = 0;
    // What is too large is not read first; a pipe tells no size.
    if (!fstat(fileno(file), &facts) && S_ISREG(facts.st_mode) && (uintmax_t)facts.st_size > limit)
        status =
            error_set(error, STATUS_FILE, "%s: larger than %zu bytes, the most that is read", name, limit);
    while (!status) {
        if (!array_reserve(text, 1, *size, BLOCK, &capacity)) {
            status = error_set(error, STATUS_MEMORY, "%s: out of memory", name);
            break;
        }
        size_t n = file_read_some(file, *text + *size, capacity - 1 - *size);
        *size += n;
        if (*size > limit) {
            status = error_set(error, STATUS_FILE, "%s: larger than %zu bytes, the most that is read", name,
                               limit);
            break;
        }
        if (n) continue;
        if (ferror(file))
            status = errno == EINTR
                         ? was_interrupted(name, "its writer has not ended", error)
                         : error_set(error, STATUS_FILE, "%s: cannot be read: %s", name, strerror(errno));
        break;
    }
    if (status) {
        free(*text);
        *text = NULL;
        *size = 0;
    } else {
        (*text)[*size] = 0;
    }
    return status;
}

// write() waits for who reads, until a signal ends that.
bool file_write_until(int file, const char *data, size_t size, const atomic_int *stop) {
    enum { A_MOMENT = 100, A_SECOND = 1000 };
    struct pollfd room = {.fd = file, .events = POLLOUT};
    while (size) {
        if (stop && *stop && poll(&room, 1, A_SECOND) != 1) {
            errno = EINTR;
            return false;
        }
        // Where poll() says so, there is room for so much.
        const ssize_t n = write(file, data, stop && size > PIPE_BUF ? PIPE_BUF : size);
        if (n == 0) errno = EIO;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            poll(&room, 1, stop ? A_MOMENT : -1);
        } else if (n == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

bool file_write_all(int file, const char *data, size_t size) {
    return file_write_until(file, data, size, NULL);
}

void file_sync_name(const char *path) {
    char folder[PATH_ROOM];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

// The file that `path` means into target [PATH_ROOM]: what links lead to, there or not. They stay links.
static Status follow_links(const char *path, char *target, Error *error) {
    char link[PATH_ROOM];
    if (snprintf(target, PATH_ROOM, "%s", path) >= PATH_ROOM) return path_too_long(path, error);
    for (int i = 0; i < MOST_LINKS; i++) {
        const ssize_t n = readlink(target, link, sizeof link);
        if (n < 0) return STATUS_OK; // no link, or what opening it will say
        const char *slash = strrchr(target, '/');
        const size_t folder = slash && *link != '/' ? (size_t)(slash - target) + 1 : 0;
        if (folder + (size_t)n >= PATH_ROOM) return path_too_long(path, error);
        memcpy(target + folder, link, (size_t)n);
        target[folder + (size_t)n] = 0;
    }
    return error_set(error, STATUS_FILE, "%s: cannot be written: %s", path, strerror(ELOOP));
}

// Why no file can be made at the target of `path`: the first folder that is missing, or is none, where that is why.
static Status not_written(const char *path, const char *target, int reason, Error *error) {
    struct stat facts;
    char folder[PATH_ROOM];
    for (const char *slash = target;
         (slash = strchr(slash + 1, '/')) && (reason == ENOENT || reason == ENOTDIR);) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - target), target);
        const bool missing = stat(folder, &facts) != 0;
        if (missing || !S_ISDIR(facts.st_mode))
            return error_set(error, STATUS_FILE, "%s: cannot be written: %s%s%s", path,
                             missing ? "there is no folder " : "", folder, missing ? "" : " is no folder");
    }
    return error_set(error, STATUS_FILE, "%s: cannot be written: %s", path, strerror(reason));
}

// Opens a file beside the target [PATH_ROOM] of `path` that may take its place; its name goes into temporary [PATH_ROOM].
static Status open_beside(const char *path, char *target, char *temporary, int *file, Error *error) {
    struct stat there;
    Status status = follow_links(path, target, error);
    if (status) return status;
    int length = snprintf(temporary, PATH_ROOM, "%s.XXXXXX", target);
    if (length < 0 || length >= PATH_ROOM) return path_too_long(path, error);
    if (!stat(path, &there) && !S_ISREG(there.st_mode)) // a device or a pipe would become a file
        return error_set(error, STATUS_FILE, "%s: cannot be written: not a regular file", path);
    *file = mkostemp(temporary, O_CLOEXEC);
    return *file < 0 ? not_written(path, target, errno, error) : STATUS_OK;
}

Status file_check_writable(const char *path, Error *error) {
    char target[PATH_ROOM], temporary[PATH_ROOM];
    int file = -1;
    Status status = open_beside(path, target, temporary, &file, error);
    if (status) return status;
    close(file);
    unlink(temporary);
    return STATUS_OK;
}

Status file_write(const char *path, const char *data, size_t size, mode_t mode, Error *error) {
    char target[PATH_ROOM], temporary[PATH_ROOM];
    int file = -1;
    Status status = open_beside(path, target, temporary, &file, error);
    if (status) return status;
    bool ok = !fchmod(file, mode) && file_write_all(file, data, size) && !fsync(file);
    int reason = errno;
    if (close(file) && ok) ok = false, reason = errno;
    if (ok && rename(temporary, target)) ok = false, reason = errno;
    if (!ok) {
        unlink(temporary);
        return error_set(error, STATUS_FILE, "%s: cannot be written: %s", path, strerror(reason));
    }
    file_sync_name(target);
    return STATUS_OK;
}
