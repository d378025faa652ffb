#include "engine/cache/score_bases.h"

#include <math.h>

enum {
    NOTED_SPLIT = 32, // scores that are summed up
    LEAST_SPLIT = 8,  // fewer behind whole splits are not noted: by and by they will be more
    SAFE_HALF = 30,
};

void score_range_note(ScoreRange *range, const double *scores, int n) {
    for (int first = 0; first == 0 || n - first >= LEAST_SPLIT; first += NOTED_SPLIT) {
        int end = n - first < NOTED_SPLIT ? n : first + NOTED_SPLIT;
        double s = scores[first];
        for (int i = first + 1; i < end; i++) {
            double x = scores[i], larger = s > x ? s : x, smaller = s > x ? x : s; // NaN stays
            s = larger + log2(1 + exp2(smaller - larger));
        }
        if (!isfinite(s)) {
            *range = (ScoreRange){-INFINITY, INFINITY};
            return;
        }
        range->low = fmin(range->low, s), range->high = fmax(range->high, s);
    }
}

bool score_range_is_safe(const ScoreRange *range) {
    return range->high >= range->low && range->high - range->low <= 2 * SAFE_HALF;
}

float score_range_base(const ScoreRange *range) {
    return (float)((range->low + range->high) / 2);
}

int64_t score_bases_bytes(const DecoderShape *shape) {
    return (int64_t)sizeof(float) * shape->n_layers * shape->n_heads;
}
