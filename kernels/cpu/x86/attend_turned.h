// Scores of many rows by keys that were turned: a lane is a key, so that nothing is added up across lanes. Registers are
// what the file that includes this says: LANES floats, `Lanes`, and lanes_*().
//
// A score is still eight interleaved sums over dimensions, added up as sum_lanes4() does, to the same bits as where a
// lane is one of these sums. Here they come one after the other, and are added as a binary counter counts:
//
//   sum        0   1   2   3   4   5   6   7
//   is kept    0   1   0   2   0   1   0         at this level, all below it added to it: ((0+1)+(2+3))+((4+5)+(6+7))
//
// Includes: attend_work.h.
#ifndef LANES
#error "attend_turned.h: LANES, Lanes and lanes_*() are its includer's"
#endif

enum { LEVELS = 3, TURNED_VECTORS = TURNED_KEYS / LANES };

// weights = q·k of TURNED_ROWS rows and TURNED_KEYS keys from s on.
INLINE void score_turned_keys(const Work *w, const float *q, int row, int s) {
    Lanes kept[LEVELS][TURNED_ROWS][TURNED_VECTORS];
    const float *keys = w->turned + (int64_t)s * w->width;
    const int width = w->width;
#pragma GCC unroll 8
    for (int j = 0; j < TURNED_SUMS; j++) {
        Lanes acc[TURNED_ROWS][TURNED_VECTORS];
        for (int r = 0; r < TURNED_ROWS; r++)
            for (int i = 0; i < TURNED_VECTORS; i++) acc[r][i] = lanes_zero();
        for (int d = j; d < width; d += TURNED_SUMS) {
            Lanes x[TURNED_ROWS];
            for (int r = 0; r < TURNED_ROWS; r++) x[r] = lanes_set(q[(int64_t)r * width + d]);
            for (int i = 0; i < TURNED_VECTORS; i++) {
                const Lanes k = lanes_load(keys + LANES * i);
                for (int r = 0; r < TURNED_ROWS; r++) acc[r][i] = lanes_fma(x[r], k, acc[r][i]);
            }
            keys += TURNED_KEYS;
        }
// Unrolled, so that what is kept goes from registers, not from memory in a copy of its own.
#pragma GCC unroll 8
        for (int r = 0; r < TURNED_ROWS; r++)
#pragma GCC unroll 8
            for (int i = 0; i < TURNED_VECTORS; i++) {
                int level = 0;
                for (; j >> level & 1; level++) acc[r][i] = lanes_add(kept[level][r][i], acc[r][i]);
                if (j < TURNED_SUMS - 1)
                    kept[level][r][i] = acc[r][i];
                else
                    lanes_store(w->weights + (int64_t)(row + r) * BLOCK + s + LANES * i, acc[r][i]);
            }
    }
}

// All rows, the last ones together with some before them once more. Keys that nobody sees have no scores.
static void score_turned(const Work *w) {
    const float *q = w->is_sink ? w->sinks : w->q;
    for (int s = 0; s < w->n_slots; s += TURNED_KEYS)
        for (int done = 0; done < w->n_rows; done += TURNED_ROWS) {
            const int row = done + TURNED_ROWS <= w->n_rows ? done : w->n_rows - TURNED_ROWS;
            if (rows_see(w->visible + row, TURNED_ROWS, s, TURNED_KEYS))
                score_turned_keys(w, q + (int64_t)row * w->width, row, s);
        }
}
