// Many runs of a program, some at once, each in a folder of its own that is its home and its working directory.
#ifndef PALAVER_TESTS_BATCH_H
#define PALAVER_TESTS_BATCH_H

#include <stddef.h>

typedef struct BatchRun {
    const char
        *folder; // its home: journals are in palaver/conversations; "in", "out", "err" are its standard files
    const char *set; // what was set in its environment
    char *out, *err; // NUL-terminated
    size_t out_size;
    int status; // exit status, or 128 + the signal that ended it
} BatchRun;

typedef struct Batch {
    const char *program;
    const char *arguments; // words separated by '|'; files named from the root
    const char *input;     // stdin, a file
    void (*prepare)(void *user,
                    const char *folder); // NULL: nothing lies in the folder; called before the run
    // NULL, or what is wrong with the run.
    const char *(*judge)(void *user, const BatchRun *run);
    void *user;
} Batch;

// Runs the program once for each of settings [n] ("NAME=VALUE", put into the environment), as many at once as there are
// cores, and shows those that are judged wrong; returns how many they are. A run that does not end in two minutes is
// wrong.
int batch_run(const Batch *batch, const char *const *settings, int n);

#endif
