#include "engine/narrow.h"

// How many of the rows, from *row on, are a sequence's, if they are its last tokens; -1: they are not. *row goes on
// behind them.
static int rows_of(const StepSequence *q, const LogitRows *rows, int *row) {
    const int end = q->first_token + q->n_tokens, first = *row;
    while (*row < rows->n && rows->tokens[*row] < end) ++*row;
    const int n = *row - first;
    for (int i = 0; i < n; i++)
        if (rows->tokens[first + i] != end - n + i) return -1;
    return n <= q->n_tokens ? n : -1;
}

static bool take_sequence(const Step *step, const StepSequence *q, const LogitRows *rows, int *row,
                          Narrowed *to) {
    const int first = *row, n = rows_of(q, rows, row);
    if (n < 0) return false;
    if (n == 0) return true;
    if (step->positions[rows->tokens[first]] < q->n_prefix) return false;
    for (int i = first; i < *row; i++) {
        const int32_t token = rows->tokens[i];
        to->ids[i] = step->ids[token];
        to->positions[i] = step->positions[token];
        to->slots[i] = step->slots[token];
    }
    StepSequence own = *q;
    own.first_token = first;
    own.n_tokens = n;
    to->sequences[to->step.n_sequences++] = own;
    return true;
}

bool narrow_step(const Step *step, const LogitRows *rows, Narrowed *narrowed) {
    if (rows->n >= step->n_tokens || rows->n > NARROW_MOST) return false;
    narrowed->step = *step;
    narrowed->step.n_tokens = rows->n;
    narrowed->step.n_sequences = 0;
    narrowed->step.ids = narrowed->ids;
    narrowed->step.positions = narrowed->positions;
    narrowed->step.slots = narrowed->slots;
    narrowed->step.sequences = narrowed->sequences;
    narrowed->tokens = rows->tokens;
    int row = 0;
    for (int i = 0; i < step->n_sequences; i++)
        if (!take_sequence(step, &step->sequences[i], rows, &row, narrowed)) return false;
    return row == rows->n;
}

double narrow_saves(const DecoderShape *s, int n_tokens) {
    return n_tokens * (double)s->hidden_size *
           ((double)s->n_heads * s->head_dim + 3.0 * (double)decoder_ffn_width(s));
}
