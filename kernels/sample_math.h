// The arithmetic of sampling, such that every backend takes the same token from the same logits.
//
// Sums of floating-point numbers depend on their order, and exp() on the library, so two backends that sum
// the same probabilities in their own order disagree about the last token of a nucleus, or about the token
// drawn, once in a while. Here nothing is left to order: a probability is an integer weight, 2^42 for the
// most probable token,
//
//     weight(l) = round(2^42 · 2^−(max − l)·log2(e)/temperature)
//
// computed by integer arithmetic from one correctly rounded product, and sums of integers are exact. Relative
// to the greatest, weights are good to 3·10^-8 and what lies below 2^-43 counts as nothing; for 2^18 tokens
// that is at most 3·10^-8 of the mass, less than the 2^-24 to which the uniform number is known.
//
// The order of tokens is (logit descending, id ascending): one unsigned 64-bit number, for sorting or
// selection.
#ifndef PALAVER_KERNELS_SAMPLE_MATH_H
#define PALAVER_KERNELS_SAMPLE_MATH_H

#include "kernels/philox.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    SAMPLE_MAX_VOCAB = 1 << 20,              // sums of weights stay below 2^63
    SAMPLE_KEY_PLUS_INFINITY = 0x7f800000,   // sample_key(+∞); greater: NaN
    SAMPLE_KEY_MINUS_INFINITY = -0x7f800001, // sample_key(−∞); less: NaN
    SAMPLE_DISTANCE_BITS = 25,               // fraction bits of a distance, whose unit is a factor of 2
};
#define SAMPLE_DISTANCE_LIMIT ((uint32_t)48 << SAMPLE_DISTANCE_BITS) // farther is as far: the weight is 0

// A signed integer in the order of the floats. −0 counts as +0. sample_logit() is the inverse.
PALAVER_SHARED int32_t sample_key(float logit) {
    int32_t bits;
    logit += 0.0f; // −0 + 0 = +0
    memcpy(&bits, &logit, sizeof bits);
    return bits < 0 ? bits ^ 0x7fffffff : bits;
}

PALAVER_SHARED float sample_logit(int32_t key) {
    int32_t bits = key < 0 ? key ^ 0x7fffffff : key;
    float logit;
    memcpy(&logit, &bits, sizeof logit);
    return logit;
}

// Place in the order (logit descending, id ascending): the greater number comes first.
PALAVER_SHARED uint64_t sample_order(int32_t key, int32_t id) {
    return (uint64_t)((uint32_t)key ^ 0x80000000u) << 32 | (uint32_t)~id;
}
PALAVER_SHARED int32_t sample_order_key(uint64_t order) {
    return (int32_t)((uint32_t)(order >> 32) ^ 0x80000000u);
}
PALAVER_SHARED int32_t sample_order_id(uint64_t order) {
    return (int32_t) ~(uint32_t)order;
}

// How far logits are stretched: log2(e) / temperature, in units of a distance. temperature > 0.
static inline double sample_scale(float temperature) {
    return 1.4426950408889634 * (1 << SAMPLE_DISTANCE_BITS) / (double)temperature;
}

// (max − logit) · scale, cut to an integer: how many factors of 2 a token is below the most probable one. The
// difference is not followed by an addition, so no compiler can fuse it into something else.
PALAVER_SHARED uint32_t sample_distance(float max, float logit, double scale) {
    double distance = ((double)max - (double)logit) * scale;
    return distance < (double)SAMPLE_DISTANCE_LIMIT ? (uint32_t)(int32_t)distance : SAMPLE_DISTANCE_LIMIT;
}

// round(2^42 · 2^−distance): the whole part is a shift, the fraction f a polynomial for 2^−f, fitted at the
// Chebyshev nodes of [0, 1] with 2^0 = 1 kept exact; its relative error is 1.4·10^-9.
PALAVER_SHARED uint64_t sample_weight(uint32_t distance) {
    uint64_t f = (uint64_t)(distance << (32 - SAMPLE_DISTANCE_BITS) & 0xffffffffu);
    uint64_t p = 0x9c200u - (f * 0xbda6u >> 32);
    p = 0x5728b0u - (f * p >> 32);
    p = 0x27641a9u - (f * p >> 32);
    p = 0xe358127u - (f * p >> 32);
    p = 0x3d7f7bcbu - (f * p >> 32);
    p = 0xb17217f7u - (f * p >> 32);
    p = ((uint64_t)1 << 32) - (f * p >> 32);
    return ((p << 11 >> (distance >> SAMPLE_DISTANCE_BITS)) + 1) >> 1;
}

// The mass at which a running sum of weights has reached `fraction` of the total: at least 1, so that a token
// of weight 0 is never the one that reaches it, and at most the total, so that there is always one that does.
PALAVER_SHARED uint64_t sample_target(uint64_t total, double fraction) {
    double target = ceil((double)total * fraction);
    if (!(target >= 1.0)) return 1;
    return target < (double)total ? (uint64_t)target : total;
}

// The uniform number of a token: see ops.h.
PALAVER_SHARED float sample_uniform(uint64_t seed, uint64_t conversation, uint64_t position) {
    return philox_uniform(seed, conversation, position * 4);
}

#endif
