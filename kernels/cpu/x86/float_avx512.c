// GEMMs of weights of float_avx2.c's types with several rows of float activations, in registers of 512 bits.
//
// Linear layers of 16-bit floats come here where they are to be exact: the head's output, routers, "cpu:exact"; else
// fixed_avx512.c has them.
//
// Eight rows of W are converted once into a panel. A vector of it holds eight columns of row r and the same columns of
// row r + 4; it is multiplied with eight activations, loaded twice side by side. Each half is what float_avx2.c has in
// a register of its own: the same eight interleaved sums, added in the same order in the end, so that both give the same
// bits. Four vectors of weights by six rows of activations keep 24 sums in 32 registers:
//
//     panel[0..3]   [ row 0 | row 4 ]  [ row 1 | row 5 ]  [ row 2 | row 6 ]  [ row 3 | row 7 ]
//     times         [ x     | x     ]  for each of six rows of activations, eight columns a step
//
// A panel and the activations that it meets stay in a core's nearest cache, and a block of activations in its second:
// rows longer than PART_COLUMNS go in parts of columns, between which the sums wait in memory as they are. Of a part
// many panels are multiplied with the block of activations before the next part's are read, so that a block has many
// tokens, for which a matrix is converted once, however long its rows.
#include "kernels/cpu/x86/simd_avx512.h"
#include "kernels/cpu/x86/weights_avx2.h"

#ifdef __AVX512F__

#define ROWS 8
#define VECTORS 4 // of eight columns of eight rows
#define TOKENS 6  // rows of activations that pass over a panel together

#define PART_COLUMNS 768
#define BLOCK_BYTES (768 << 10) // of a part's activations
#define KEPT_BYTES (1 << 20)    // of sums that wait
#define WHOLE_ROWS_FROM 96      // so many tokens whose whole rows are a block: then panels go one by one

// Eight rows of W, of which n_rows from `first` on are stored.
typedef struct EightRows {
    const uint8_t *row[ROWS]; // beyond the last: that one again
    int64_t first;
    int n_rows;
} EightRows;

// Columns [first, end) of a matrix.
typedef struct Part {
    int64_t first, end;
    bool is_last;
} Part;

INLINE void fill_panel_of(DType type, const EightRows *w, Part part, __m512 *panel) {
    const char *next = (const char *)w->row[0] + ROWS * (w->row[1] - w->row[0]);
    const int64_t size = weight_bytes(type);
    int64_t i = part.first;
    for (; i + 8 <= part.end; i += 8, panel += VECTORS) {
        for (int64_t at = 0; at < 8 * ROWS * size; at += 64)
            _mm_prefetch(next + i * ROWS * size + at, _MM_HINT_T0);
        for (int r = 0; r < VECTORS; r++)
            panel[r] =
                both_halves(load_weights(type, w->row[r], i), load_weights(type, w->row[r + VECTORS], i));
    }
    for (int r = 0; i < part.end && r < VECTORS; r++)
        panel[r] = both_halves(load_rest(type, w->row[r], i, part.end - i),
                               load_rest(type, w->row[r + VECTORS], i, part.end - i));
}

static void fill_panel(DType type, const EightRows *w, Part part, __m512 *panel) {
    switch (type) {
    case DTYPE_F16:
        fill_panel_of(DTYPE_F16, w, part, panel);
        break;
    case DTYPE_BF16:
        fill_panel_of(DTYPE_BF16, w, part, panel);
        break;
    case DTYPE_E4M3:
        fill_panel_of(DTYPE_E4M3, w, part, panel);
        break;
    case DTYPE_NF4:
        fill_panel_of(DTYPE_NF4, w, part, panel);
        break;
    default:
        fill_panel_of(DTYPE_F32, w, part, panel);
    }
}

// How many tokens at a time, whether there are parts of rows at all, and whether the columns are no multiple of eight:
// constants, since sums that nothing else is done with never leave their registers.
typedef struct Shape {
    int n;
    bool in_parts, rest;
} Shape;

// What n tokens are multiplied with, and where their sums wait: kept [n, VECTORS].
typedef struct Work {
    const Gemm *gemm;
    const EightRows *w;
    const __m512 *panel;
    Part part;
    __m512 *kept;
} Work;

INLINE void store_sums(const Gemm *p, const EightRows *w, int64_t token, __m256 sums) {
    float *y = gemm_row(p, token) + w->first, values[ROWS];
    if (w->n_rows == ROWS) {
        _mm256_storeu_ps(y, p->add ? _mm256_add_ps(_mm256_loadu_ps(y), sums) : sums);
        return;
    }
    _mm256_storeu_ps(values, sums);
    for (int r = 0; r < w->n_rows; r++) y[r] = p->add ? y[r] + values[r] : values[r];
}

// n tokens from `token` on, of which those from `end` on are the last one again, not stored.
INLINE void some_tokens(Shape shape, const Work *work, int64_t token, int64_t end) {
    const Part part = work->part;
    const bool is_first = !shape.in_parts || part.first == 0, is_last = !shape.in_parts || part.is_last;
    const __m512 *panel = work->panel;
    const float *x[TOKENS];
    __m256 sums[TOKENS];
    __m512 acc[TOKENS][VECTORS], *kept = work->kept;
    const int n = shape.n;
    for (int t = 0; t < n; t++) {
        x[t] = gemm_input(work->gemm) + (token + t < end ? token + t : end - 1) * work->gemm->x->cols;
        for (int r = 0; r < VECTORS; r++) acc[t][r] = is_first ? _mm512_setzero_ps() : kept[t * VECTORS + r];
    }
    int64_t i = part.first;
    for (; i + 8 <= part.end; i += 8, panel += VECTORS)
        for (int t = 0; t < n; t++) {
            const __m512 v = twice(_mm256_loadu_ps(x[t] + i));
            for (int r = 0; r < VECTORS; r++) acc[t][r] = _mm512_fmadd_ps(panel[r], v, acc[t][r]);
        }
    for (int t = 0; shape.rest && t < n; t++) {
        const __m512 v = twice(load_rest(DTYPE_F32, (const uint8_t *)x[t], i, part.end - i));
        for (int r = 0; r < VECTORS; r++) acc[t][r] = _mm512_fmadd_ps(panel[r], v, acc[t][r]);
    }
    if (!is_last) {
        for (int t = 0; t < n; t++)
            for (int r = 0; r < VECTORS; r++) kept[t * VECTORS + r] = acc[t][r];
        return;
    }
    for (int t = 0; t < n; t++) sums[t] = sum_rows(acc[t]);
    for (int t = 0; t < n && token + t < end; t++) store_sums(work->gemm, work->w, token + t, sums[t]);
}

INLINE void all_tokens(bool in_parts, bool rest, Work work, int64_t token, int64_t end) {
    for (; end - token > TOKENS / 2; token += TOKENS, work.kept += TOKENS * VECTORS)
        some_tokens((Shape){TOKENS, in_parts, rest}, &work, token, end);
    if (token < end) some_tokens((Shape){TOKENS / 2, in_parts, rest}, &work, token, end);
}

static void panel_times(const Work *work, int64_t token, int64_t end) {
    const bool in_parts = work->part.first > 0 || !work->part.is_last, rest = work->part.end % 8 != 0;
    if (in_parts && rest)
        all_tokens(true, true, *work, token, end);
    else if (in_parts)
        all_tokens(true, false, *work, token, end);
    else if (rest)
        all_tokens(false, true, *work, token, end);
    else
        all_tokens(false, false, *work, token, end);
}

// Where a product's tokens, rows and columns are cut, and the memory that it takes.
typedef struct Cut {
    int64_t tokens, rows, columns; // of a block
    int64_t kept;                  // vectors from one panel's sums to the next one's
    __m512 *panel, *sums;
} Cut;

static int64_t block_tokens(int64_t columns) {
    return BLOCK_BYTES / (columns * (int64_t)sizeof(float)) / (2 * TOKENS) * (2 * TOKENS);
}

static Cut cut(const Gemm *p, int64_t n, void *scratch) {
    const int64_t cols = p->x->cols, n_parts = (cols + PART_COLUMNS - 1) / PART_COLUMNS;
    Cut c = {.tokens = block_tokens(cols),
             .rows = p->end - p->first,
             .columns = ((cols + n_parts - 1) / n_parts + 7) / 8 * 8,
             .panel = scratch};
    if (n_parts == 1) return c;
    c.sums = c.panel + PART_COLUMNS / 8 * VECTORS;
    const bool whole = c.tokens >= WHOLE_ROWS_FROM;
    if (!whole) c.tokens = block_tokens(c.columns);
    c.kept = ((n < c.tokens ? n : c.tokens) + TOKENS - 1) / TOKENS * TOKENS * VECTORS;
    c.rows = whole ? ROWS : KEPT_BYTES / (c.kept * (int64_t)sizeof(__m512)) * ROWS;
    return c;
}

// Rows [first, end) for the block of tokens.
static void block_times_rows(const Gemm *p, const Cut *c, int64_t first, int64_t end, int64_t token,
                             int64_t end_token) {
    const uint8_t *data = p->w->data;
    const int64_t cols = p->x->cols, row_bytes = dtype_row_bytes(p->w->type, cols);
    for (int64_t at = 0; at < cols; at += c->columns) {
        const bool last = at + c->columns >= cols;
        Work work = {p, NULL, c->panel, {at, last ? cols : at + c->columns, last}, c->sums};
        for (int64_t row = first; row < end; row += ROWS, work.kept += c->kept) {
            EightRows w = {.first = row, .n_rows = end - row < ROWS ? (int)(end - row) : ROWS};
            for (int r = 0; r < ROWS; r++)
                w.row[r] = data + (row + (r < w.n_rows ? r : w.n_rows - 1)) * row_bytes;
            work.w = &w;
            fill_panel(p->w->type, &w, work.part, c->panel);
            panel_times(&work, token, end_token);
        }
    }
}

int64_t avx512_gemm_scratch(int64_t cols) {
    const int64_t columns = cols < PART_COLUMNS ? (cols + 7) / 8 * 8 : PART_COLUMNS;
    return columns * ROWS * (int64_t)sizeof(float) + (cols > PART_COLUMNS ? KEPT_BYTES : 0);
}

bool avx512_has_float(void) {
    return __builtin_cpu_supports("avx512f");
}

void avx512_gemm_float(const Gemm *p, int64_t token, int64_t end, void *scratch) {
    const Cut c = cut(p, end - token, scratch);
    for (int64_t t = token; t < end; t += c.tokens)
        for (int64_t row = p->first; row < p->end; row += c.rows)
            block_times_rows(p, &c, row, row + c.rows < p->end ? row + c.rows : p->end, t,
                             t + c.tokens < end ? t + c.tokens : end);
}

#else

bool avx512_has_float(void) {
    return false;
}

int64_t avx512_gemm_scratch(int64_t cols) {
    (void)cols;
    return 0;
}

void avx512_gemm_float(const Gemm *p, int64_t token, int64_t end, void *scratch) {
    avx2_gemm_float(p, token, end, scratch);
}

#endif
