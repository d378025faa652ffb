// Weighted selection: where a running sum over tokens, in their order, passes a target. Nothing is sorted. sample.c has
// the filters, which ask it for the shares of top_p and typical_p, and for the k tokens of top_k.
#ifndef PALAVER_KERNELS_CPU_SAMPLE_SELECT_H
#define PALAVER_KERNELS_CPU_SAMPLE_SELECT_H

#include <stdint.h>

// A token that may be drawn. One comes before another if its rank is smaller or, of equal ranks, its order
// greater.
typedef struct Candidate {
    uint64_t order;  // sample_order(): no two are equal
    uint64_t weight; // of the filter in hand
    uint32_t rank;   // 0 except in typical_p
} Candidate;

// Puts first, in any order, the smallest set of candidates, counted from the first, whose weights sum up to
// `target` or more, the one that reaches it at its end; returns how many they are. 1 <= target <= sum of
// weights. Quickselect: expected O(n), whatever the order of arrival. The result does not depend on that
// order.
int select_mass(Candidate *c, int n, uint64_t target);

#endif
