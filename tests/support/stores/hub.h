// A hub of models on loopback (hub.py), in a home of its own: what palaver pull asks, and what came of it.
#ifndef PALAVER_TESTS_HUB_H
#define PALAVER_TESTS_HUB_H

#include <stdbool.h>
#include <sys/types.h>

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

typedef struct Hub {
    char *home;
    pid_t pid;
    int in; // its stdin: it ends with it
    int port, proxy, secure, stranger;
} Hub;

// As cmocka wants them: *state is the Hub.
int hub_set_up(void **state);
int hub_tear_down(void **state);

char *hub_path(const Hub *hub, const char *tail); // in its home; good until the next call
// palaver pull ARGUMENTS ends with `status` and says `part`.
void hub_pulls(const char *arguments, int status, const char *part);
int hub_asked(const Hub *hub, const char *part);            // lines of its log that have `part`
void hub_has(const Hub *hub, const char *tail, bool there); // fails where that is not so

#endif
