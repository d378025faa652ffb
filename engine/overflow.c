#include "engine/overflow.h"

// Index of the first message after the kept prefix.
static int kept_prefix(const OverflowSpan *spans, int n) {
    int i = 0;
    while (i < n && spans[i].is_system) i++;
    return i;
}

// The turn that begins at `first` ends before the returned index.
static int turn_end(const OverflowSpan *spans, int n, int first) {
    int i = first + 1;
    while (i < n && !spans[i].is_user) i++;
    return i;
}

OverflowPlan overflow_plan(const OverflowSettings *settings, const OverflowSpan *spans, int n_spans,
                           int64_t context_size, int64_t needed) {
    int64_t total = 0, kept = 0;
    for (int i = 0; i < n_spans; i++) {
        total += spans[i].n_tokens;
        if (spans[i].is_system) kept += spans[i].n_tokens;
    }
    OverflowPlan plan = {.fits = total + needed <= context_size};
    if (plan.fits || settings->policy == OVERFLOW_STOP) return plan;

    int64_t at_least = settings->discard;
    if (settings->discard_fraction > 0) {
        int64_t share = (int64_t)(settings->discard_fraction * (double)(total - kept));
        if (share > at_least) at_least = share;
    }
    int64_t water = (int64_t)(settings->low_water * (double)context_size);
    int first = kept_prefix(spans, n_spans), i = first;
    while (i < n_spans) {
        int end = turn_end(spans, n_spans, i);
        bool enough = total <= water && total + needed <= context_size && plan.n_tokens >= at_least;
        if (enough || end == n_spans) break; // the last turn stays
        for (; i < end; i++) plan.n_tokens += spans[i].n_tokens, total -= spans[i].n_tokens;
        plan.n_turns++;
    }
    plan.n_messages = i - first;
    plan.fits = total + needed <= context_size;
    return plan;
}
