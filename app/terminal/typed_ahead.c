#include "app/terminal/typed_ahead.h"

#include "kernels/base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BLOCK = 4096, CTRL_D = 4 };

static struct {
    unsigned char *bytes; // [room] read; those from `at` to n wait
    size_t at, n, room;
    bool in_lines; // what waits in the terminal was typed while it edited lines
} ahead;

void typed_ahead_in_lines(bool in_lines) {
    ahead.in_lines = in_lines;
}

// Room for `n` more bytes behind those that wait.
static bool make_room(size_t n) {
    if (ahead.at == ahead.n) ahead.at = ahead.n = 0;
    return array_reserve(&ahead.bytes, 1, ahead.n, n, &ahead.room);
}

// What a terminal that edits lines has made of the keys: Enter is a newline, and a Ctrl-D that nobody read as the end
// is a NUL (on Linux).
static void make_keys(unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') bytes[i] = '\r';
        if (!bytes[i]) bytes[i] = CTRL_D;
    }
}

static bool may_leave(void) {
    return typed_ahead_any() && memchr(ahead.bytes + ahead.at, CTRL_D, ahead.n - ahead.at);
}

void typed_ahead_take(bool all) {
    int waiting;
    all = all || ahead.in_lines; // lines that the terminal has edited come whole
    while ((all || !may_leave()) && ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0 &&
           make_room((size_t)waiting)) {
        ssize_t n = read(STDIN_FILENO, ahead.bytes + ahead.n, all ? (size_t)waiting : 1);
        if (n <= 0) break; // tty_next meets it again
        if (ahead.in_lines) make_keys(ahead.bytes + ahead.n, (size_t)n);
        ahead.n += (size_t)n;
    }
    ahead.in_lines = false;
}

bool typed_ahead_any(void) {
    return ahead.at < ahead.n;
}

bool typed_ahead_byte(unsigned char *byte) {
    if (!typed_ahead_any()) return false;
    *byte = ahead.bytes[ahead.at++];
    return true;
}

bool typed_ahead_make_draft(void) {
    typed_ahead_take(true);
    size_t n = ahead.at, n_text = 0;
    for (size_t i = ahead.at; i < ahead.n; i++) n_text += ahead.bytes[i] != CTRL_D;
    for (size_t i = ahead.at; i < ahead.n; i++) {
        unsigned char byte = ahead.bytes[i] == '\r' ? '\n' : ahead.bytes[i];
        if (byte != CTRL_D || !n_text) ahead.bytes[n++] = byte;
    }
    ahead.n = n;
    if (ahead.at < ahead.n && ahead.bytes[ahead.n - 1] == '\n') ahead.n--;
    return ahead.at < ahead.n;
}

char *typed_ahead_drop_draft(void) {
    char *text = strndup((const char *)ahead.bytes + ahead.at, ahead.n - ahead.at);
    if (text) ahead.at = ahead.n;
    return text;
}

ssize_t typed_ahead_read(void) {
    if (!make_room(BLOCK)) {
        errno = ENOMEM;
        return -1;
    }
    const ssize_t n = read(STDIN_FILENO, ahead.bytes + ahead.n, BLOCK);
    if (n > 0) ahead.n += (size_t)n;
    return n;
}

void typed_ahead_keep(const char *bytes, size_t n) {
    if (!make_room(n)) return;
    memcpy(ahead.bytes + ahead.n, bytes, n);
    ahead.n += n;
}
