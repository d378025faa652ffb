// Which calls of a program fail in which of its runs: see tests/faults/inject.c.
#ifndef PALAVER_TESTS_FAULTS_H
#define PALAVER_TESTS_FAULTS_H

typedef struct Faults {
    char **set; // [n] settings of the environment: "FAULT=memory:17"
    int n, room;
} Faults;

// Of the calls in a record (FAULT_RECORD), those that fail, one a run, and from there on for good in one run of eight:
// of each place from which a call is made the first; of the many that ask for memory about `sample`, evenly spread.
// With FAULTS=sites in the environment all places, and calls for anything but memory both once and for good; with
// FAULTS=all so do all calls.
Faults faults_choose(const char *record, int sample);
void faults_free(Faults *faults);

#endif
