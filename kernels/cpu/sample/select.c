#include "kernels/cpu/sample/select.h"

#include <stdbool.h>

static bool comes_before(const Candidate *a, const Candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->order > b->order;
}

static void swap(Candidate *a, Candidate *b) {
    Candidate t = *a;
    *a = *b;
    *b = t;
}

// Moves the median of three candidates of c [n], n >= 3, to its place in the order and returns it: the
// candidates before it come before it. Where the three are taken from is scattered, so that no order of
// arrival is a bad one.
static int partition(Candidate *c, int n, uint32_t scatter) {
    for (int i = 0; i < 3; i++) {
        scatter = scatter * 1664525u + 1013904223u;
        swap(&c[i], &c[i + (int)((uint64_t)scatter * (uint32_t)(n - i) >> 32)]);
    }
    if (comes_before(&c[1], &c[0])) swap(&c[0], &c[1]);
    if (comes_before(&c[2], &c[1])) swap(&c[1], &c[2]);
    if (comes_before(&c[1], &c[0])) swap(&c[0], &c[1]);
    Candidate pivot = c[1];
    int place = 1; // c[1 … place] come before the pivot, which is put down at last
    swap(&c[1], &c[n - 1]);
    for (int i = 1; i < n - 1; i++) {
        Candidate t = c[i];
        c[i] = c[place];
        c[place] = t;
        place += comes_before(&t, &pivot);
    }
    swap(&c[place], &c[n - 1]);
    return place;
}

static void insertion_sort(Candidate *c, int n) {
    for (int i = 1; i < n; i++) {
        Candidate t = c[i];
        int k = i;
        for (; k > 0 && comes_before(&t, &c[k - 1]); k--) c[k] = c[k - 1];
        c[k] = t;
    }
}

int select_mass(Candidate *c, int n, uint64_t target) {
    int low = 0, high = n; // the one that reaches the target is among them
    while (high - low > 16) {
        int pivot = low + partition(c + low, high - low, (uint32_t)(high - low));
        uint64_t mass = 0;
        for (int i = low; i < pivot; i++) mass += c[i].weight;
        if (mass >= target) {
            high = pivot;
        } else if (mass + c[pivot].weight >= target) {
            return pivot + 1;
        } else {
            target -= mass + c[pivot].weight;
            low = pivot + 1;
        }
    }
    insertion_sort(c + low, high - low);
    while (low < high - 1 && c[low].weight < target) target -= c[low++].weight;
    return low + 1;
}
