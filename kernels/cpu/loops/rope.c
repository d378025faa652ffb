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

void rope_turn(const Rope *rope, const float *cos, const float *sin, float *x) {
    int pairs = rope->rotary_dim / 2;
    int step = rope->kind == ROPE_INTERLEAVED ? 2 : 1, distance = rope->kind == ROPE_INTERLEAVED ? 1 : pairs;
    for (int i = 0; i < pairs; i++) {
        float *a = x + i * step, *b = a + distance, first = *a, second = *b;
        *a = first * cos[i] - second * sin[i];
        *b = first * sin[i] + second * cos[i];
    }
}
