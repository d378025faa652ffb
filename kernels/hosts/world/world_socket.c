// Sockets of a world: TCP, without delay.
#include "kernels/hosts/world/world_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { GREETING_SECONDS = 2, ANSWER_SECONDS = 6 };

void socket_close(int *socket) {
    if (*socket >= 0) close(*socket);
    *socket = -1;
}

bool socket_write(int socket, const void *bytes, size_t n) {
    const char *at = bytes;
    while (n > 0) {
        const ssize_t sent = send(socket, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent, n -= (size_t)sent;
    }
    return true;
}

bool socket_read(int socket, void *bytes, size_t n) {
    char *at = bytes;
    while (n > 0) {
        const ssize_t got = recv(socket, at, n, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = 0;
        if (got <= 0) return false;
        at += got, n -= (size_t)got;
    }
    return true;
}

// All digits, and a port that there is: getaddrinfo() takes 99999 for another one.
static bool is_port(const char *text) {
    if (!*text || strspn(text, "0123456789") != strlen(text)) return false;
    const unsigned long port = strtoul(text, NULL, 10); // ULONG_MAX where it is larger
    return port >= 1 && port <= 65535;
}

// HOST:PORT or [HOST]:PORT.
static Status find(const char *address, bool to_listen, struct addrinfo **found, Error *error) {
    char host[256], port[16];
    const char *colon = strrchr(address, ':');
    const bool bracketed = *address == '[' && colon && colon > address + 1 && colon[-1] == ']';
    const char *from = bracketed ? address + 1 : address;
    const size_t length = colon ? (size_t)(colon - from) - bracketed : 0;
    if (length == 0 || length >= sizeof host || (*address == '[' && !bracketed))
        return error_set(error, STATUS_USAGE, "join \"%s\": expected HOST:PORT", address);
    if (!is_port(colon + 1)) return error_set(error, STATUS_USAGE, "join \"%s\": port: 1 to 65535", address);
    snprintf(host, sizeof host, "%.*s", (int)length, from);
    snprintf(port, sizeof port, "%lu", strtoul(colon + 1, NULL, 10));
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = to_listen ? AI_PASSIVE | AI_NUMERICSERV : AI_NUMERICSERV};
    const int code = getaddrinfo(host, port, &hints, found);
    if (code == 0) return STATUS_OK;
    return error_set(error, code == EAI_AGAIN ? STATUS_DEVICE : STATUS_USAGE, "join \"%s\": %s", address,
                     gai_strerror(code));
}

static void set_up(int socket) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void socket_set_patience(int socket, int to_write, int to_read) {
    const struct timeval write_limit = {.tv_sec = to_write}, read_limit = {.tv_sec = to_read};
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &write_limit, sizeof write_limit);
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &read_limit, sizeof read_limit);
}

void socket_set_waiting(int socket, bool waits) {
    const int flags = fcntl(socket, F_GETFL);
    (void)fcntl(socket, F_SETFL, waits ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

static void name_of(const struct sockaddr *address, socklen_t size, char name[WORLD_NAME_ROOM]) {
    if (getnameinfo(address, size, name, WORLD_NAME_ROOM, NULL, 0, NI_NUMERICHOST))
        snprintf(name, WORLD_NAME_ROOM, "somewhere");
}

static bool listen_at(const struct addrinfo *at, int *to) {
    const int on = 1;
    *to = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*to < 0) return false;
    setsockopt(*to, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(*to, at->ai_addr, at->ai_addrlen) && !listen(*to, 2 * WORLD_MOST)) return true;
    const int why = errno;
    socket_close(to);
    errno = why;
    return false;
}

Status socket_listen(const char *address, int *listener, Error *error) {
    struct addrinfo *found;
    Status status = find(address, true, &found, error);
    if (status) return status;
    bool listens = false;
    int why = 0;
    for (const struct addrinfo *at = found; at && !listens; at = at->ai_next) {
        listens = listen_at(at, listener);
        if (!listens) why = errno;
    }
    freeaddrinfo(found);
    if (listens) return STATUS_OK;
    return error_set(error, STATUS_DEVICE, "join \"%s\": rank 0 cannot listen there: %s", address,
                     strerror(why));
}

Status socket_connect(const char *address, int *to, char name[WORLD_NAME_ROOM], Error *error) {
    struct addrinfo *found;
    Status status = find(address, false, &found, error);
    if (status) return status;
    int why = 0;
    *to = -1;
    for (const struct addrinfo *at = found; at && *to < 0; at = at->ai_next) {
        *to = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (*to < 0) continue;
        socket_set_patience(*to, GREETING_SECONDS, ANSWER_SECONDS);
        name_of(at->ai_addr, at->ai_addrlen, name);
        if (!connect(*to, at->ai_addr, at->ai_addrlen)) continue;
        why = errno == EINPROGRESS ? ETIMEDOUT : errno;
        socket_close(to);
    }
    freeaddrinfo(found);
    if (*to < 0) return error_set(error, STATUS_DEVICE, "nobody answers at %s: %s", address, strerror(why));
    set_up(*to);
    return STATUS_OK;
}

bool socket_accept(int listener, int *to, char name[WORLD_NAME_ROOM]) {
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    *to = accept4(listener, (struct sockaddr *)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (*to < 0) return false;
    set_up(*to);
    name_of((const struct sockaddr *)&from, size, name);
    return true;
}
