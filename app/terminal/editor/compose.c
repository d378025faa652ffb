#include "app/terminal/editor/compose.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/terminal/encoding.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/tty.h"

#define MAX_COMPOSED ((off_t)16 << 20)

static const char *first_set(const char *a, const char *b, const char *otherwise) {
    const char *value = getenv(a);
    if (value && *value) return value;
    value = getenv(b);
    return value && *value ? value : otherwise;
}

// A new file of mode 600 that holds `text`; its name is *path, to free().
static Status write_draft(const char *text, char **path, Error *error) {
    const char *folder = first_set("XDG_RUNTIME_DIR", "TMPDIR", "/tmp");
    if (asprintf(path, "%s/palaver-XXXXXX.md", folder) < 0) {
        *path = NULL;
        return error_set(error, STATUS_MEMORY, "no memory for a file to edit");
    }
    int fd = mkostemps(*path, 3, O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool ok = file && (!*text || fputs(text, file) >= 0) && (!*text || fputc('\n', file) >= 0);
    int cause = errno;
    if (file && fclose(file) != 0) cause = errno, ok = false;
    if (ok) return STATUS_OK;
    if (fd >= 0 && !file) close(fd);
    error_set(error, STATUS_FILE, "%s: cannot be written (%s); set TMPDIR to a folder with room", *path,
              strerror(cause));
    if (fd >= 0) unlink(*path);
    free(*path);
    *path = NULL;
    return STATUS_FILE;
}

// In the child: $EDITOR may hold arguments, so a shell takes it apart; the file's name is never parsed.
static _Noreturn void run_editor(const char *command, const char *path) {
    char *script;
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(STDERR_FILENO, STDOUT_FILENO); // stdout may be a file for replies
    int nothing = isatty(STDIN_FILENO) ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO); // stdin is the rest of a script
    if (asprintf(&script, "%s \"$1\"", command) >= 0)
        execl("/bin/sh", "sh", "-c", script, "sh", path, (char *)NULL);
    _exit(127);
}

static Status wait_for_editor(const char *path, Error *error) {
    const char *command = first_set("VISUAL", "EDITOR", "vi");
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old_int, old_quit;
    sigaction(SIGINT, &ignore, &old_int);
    sigaction(SIGQUIT, &ignore, &old_quit);
    pid_t child = fork();
    if (child == 0) run_editor(command, path);
    int status = 0;
    pid_t waited = child;
    if (child > 0)
        while ((waited = waitpid(child, &status, 0)) < 0 && errno == EINTR) continue;
    int cause = errno;
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGQUIT, &old_quit, NULL);
    if (waited < 0) return error_set(error, STATUS_FILE, "%s: %s", command, strerror(cause));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return STATUS_OK;
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 127 || WEXITSTATUS(status) == 126))
        return error_set(error, STATUS_FILE,
                         "%s: cannot be started; set EDITOR to an editor that is installed", command);
    return error_set(error, STATUS_FILE, "%s: ended with %s %d; nothing was taken over", command,
                     WIFEXITED(status) ? "status" : "signal",
                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

// Opened by name, for many editors save into a new file. What is no text, or too much, is kept for its writer.
static Status read_draft(const char *path, char **result, bool *keep, Error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        Status status = error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return status;
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return error_set(error, STATUS_FILE, "%s: the editor left no regular file there", path);
    }
    if (info.st_size > MAX_COMPOSED) {
        close(fd);
        *keep = true;
        return error_set(error, STATUS_FILE, "it is kept: %s: more than %d MiB were written", path,
                         (int)(MAX_COMPOSED >> 20));
    }
    size_t size = (size_t)info.st_size, got = 0;
    char *bytes = malloc(size + 1);
    ssize_t n = 0;
    while (bytes && got < size && ((n = read(fd, bytes + got, size - got)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0) got += (size_t)n;
    close(fd);
    if (bytes) bytes[got] = 0, encoding_drop_mark(bytes, &got);
    if (got && bytes[got - 1] == '\n') got--;
    if (bytes && text_check(path, bytes, got, error)) {
        free(bytes);
        *keep = true;
        return error_prefix(error, "it is kept: ");
    }
    size_t dropped = 0;
    *result = bytes ? text_clean(bytes, got, &dropped) : NULL;
    free(bytes);
    if (dropped)
        snprintf(error->message, sizeof error->message, TEXT_DROPPED, dropped, text_plural((int64_t)dropped));
    return *result ? STATUS_OK : error_set(error, STATUS_MEMORY, "no memory for what was edited");
}

Status compose_text(const char *initial, char **result, Error *error) {
    char *path;
    *result = NULL;
    *error = (Error){0};
    Status status = write_draft(initial ? initial : "", &path, error);
    if (status) return status;
    bool hushed = tty_lend_hushed();
    status = wait_for_editor(path, error);
    if (hushed) tty_hush_again();
    bool keep = false;
    if (!status) status = read_draft(path, result, &keep, error);
    if (!keep) unlink(path);
    free(path);
    return status;
}
