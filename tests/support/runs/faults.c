#include "tests/support/runs/faults.h"

#include "tests/support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_fault(Faults *faults, const char *kind, int number, const char *more) {
    if (faults->n == faults->room) {
        faults->room = 2 * faults->room + 64;
        faults->set = realloc(faults->set, (size_t)faults->room * sizeof *faults->set);
        assert_non_null(faults->set);
    }
    assert_true(asprintf(&faults->set[faults->n++], "FAULT=%s:%d%s", kind, number, more) > 0);
}

void faults_free(Faults *faults) {
    for (int i = 0; i < faults->n; i++) free(faults->set[i]);
    free(faults->set);
    *faults = (Faults){0};
}

typedef struct Call {
    char kind[12];
    unsigned long long place; // the hash of its stack
    int number;               // of its kind
} Call;

typedef struct Calls {
    Call *calls; // [n]
    int n, room;
} Calls;

static int by_place(const void *a, const void *b) {
    const Call *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->number - y->number;
}

static int by_kind(const void *a, const void *b) {
    const Call *x = a, *y = b;
    int order = strcmp(x->kind, y->kind);
    return order ? order : x->number - y->number;
}

static void add_call(Calls *calls, Call call) {
    if (calls->n == calls->room) {
        calls->room = 2 * calls->room + 1024;
        Call *longer = realloc(calls->calls, (size_t)calls->room * sizeof *longer);
        assert_non_null(longer);
        calls->calls = longer;
    }
    call.number = 1;
    for (int i = calls->n; i-- > 0 && call.number == 1;)
        if (!strcmp(calls->calls[i].kind, call.kind)) call.number += calls->calls[i].number;
    calls->calls[calls->n++] = call;
}

static Calls read_calls(const char *path) {
    Calls calls = {0};
    Call call = {0};
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fscanf(file, "%11s %llx", call.kind, &call.place) == 2) add_call(&calls, call);
    fclose(file);
    return calls;
}

// Of the calls, each place's first, in the order in which they were made.
static void keep_places(Calls *calls) {
    int kept = 0;
    if (!calls->n) return;
    qsort(calls->calls, (size_t)calls->n, sizeof *calls->calls, by_place);
    for (int i = 0; i < calls->n; i++)
        if (!kept || calls->calls[i].place != calls->calls[kept - 1].place)
            calls->calls[kept++] = calls->calls[i];
    qsort(calls->calls, (size_t)kept, sizeof *calls->calls, by_kind);
    calls->n = kept;
}

static bool is_memory(const Call *call) {
    return !strcmp(call->kind, "memory");
}

Faults faults_choose(const char *record, int sample) {
    const char *wanted = getenv("FAULTS");
    bool all = wanted && !strcmp(wanted, "all"), sites = wanted && !strcmp(wanted, "sites");
    Faults faults = {0};
    Calls calls = read_calls(record);
    if (!all) keep_places(&calls);
    long long n_memory = 0, seen = 0;
    for (int i = 0; i < calls.n; i++) n_memory += is_memory(&calls.calls[i]);
    long long take = all || sites || sample > n_memory ? n_memory : sample;
    for (int i = 0; i < calls.n; i++) {
        const Call *call = &calls.calls[i];
        bool memory = is_memory(call);
        // Evenly spread: where the share that is to be taken passes a whole number.
        bool left_out = memory && n_memory > 0 && seen * take / n_memory == (seen + 1) * take / n_memory;
        seen += memory;
        if (left_out) continue;
        bool both = all || (sites && !memory);
        add_fault(&faults, call->kind, call->number, !both && faults.n % 8 == 7 ? "+" : "");
        if (both) add_fault(&faults, call->kind, call->number, "+");
    }
    free(calls.calls);
    return faults;
}
