#include "kernels/cpu/loops/rope.h"

#include <math.h>

void rope_angles(const Rope *rope, int row, int64_t position, double magnitude, float *cosines,
                 float *sines) {
    const double turn = 6.283185307179586476925286766559;
    const int pairs = rope->rotary_dim / 2;
    for (int i = 0; i < pairs; i++) {
        double angle = remainder((double)position * rope->inv_freq[row * pairs + i], turn);
        cosines[i] = (float)(cos(angle) * magnitude);
        sines[i] = (float)(sin(angle) * magnitude);
    }
}

// Pairs whose halves lie apart: a loop of its own, of vectors.
static void turn_halves(int pairs, const float *restrict cos, const float *restrict sin, float *restrict a,
                        float *restrict b) {
    for (int i = 0; i < pairs; i++) {
        float first = a[i], second = b[i];
        a[i] = first * cos[i] - second * sin[i];
        b[i] = first * sin[i] + second * cos[i];
    }
}

static void turn_neighbours(int pairs, const float *restrict cos, const float *restrict sin,
                            float *restrict x) {
    for (int i = 0; i < pairs; i++) {
        float first = x[2 * i], second = x[2 * i + 1];
        x[2 * i] = first * cos[i] - second * sin[i];
        x[2 * i + 1] = first * sin[i] + second * cos[i];
    }
}

void rope_turn(const Rope *rope, const float *cos, const float *sin, float *x) {
    const int pairs = rope->rotary_dim / 2;
    if (rope->kind == ROPE_INTERLEAVED)
        turn_neighbours(pairs, cos, sin, x);
    else
        turn_halves(pairs, cos, sin, x, x + pairs);
}
