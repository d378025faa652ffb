#include "tests/gpu/cases/cases.h"

#include <stddef.h>

static const CaseList *const LISTS[] = {&CASES_OF_WEIGHTS, &CASES_OF_EXPERTS, &CASES_OF_LAYERS,
                                        &CASES_OF_CACHES,  &CASES_OF_TILES,   &CASES_OF_W8};
enum { N_LISTS = sizeof LISTS / sizeof *LISTS };

int cases_n(void) {
    int n = 0;
    for (int list = 0; list < N_LISTS; list++) n += LISTS[list]->n;
    return n;
}

const Case *cases_at(int i) {
    int list = 0;
    while (list < N_LISTS && i >= LISTS[list]->n) i -= LISTS[list++]->n;
    return list < N_LISTS ? &LISTS[list]->cases[i] : NULL;
}
