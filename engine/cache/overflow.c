#include "engine/cache/overflow.h"

const char *overflow_policy_name(OverflowPolicy policy) {
    static const char *const names[] = {"reevaluate", "shift", "shift-inplace", "stop"};
    return names[policy];
}

int64_t overflow_reserve(const OverflowSettings *settings, int64_t context_size) {
    return settings->reserve < context_size / 4 ? settings->reserve : context_size / 4;
}

// Index of the first message behind the sinks.
static int kept_prefix(const OverflowSettings *settings, const OverflowSpan *spans, int n) {
    int64_t begin = 0;
    int i = 0;
    for (; i < n && (settings->keep < 0 ? spans[i].is_system : begin < settings->keep); i++)
        begin += spans[i].n_tokens;
    return i;
}

// The turn that begins at `first` ends before the returned index.
static int turn_end(const OverflowSpan *spans, int n, int first) {
    int i = first + 1;
    while (i < n && !spans[i].is_user) i++;
    return i;
}

// The share of n tokens, none of them a sink, that the settings ask to evict.
static int64_t fraction_of(const OverflowSettings *settings, int64_t n) {
    return settings->discard < 1 ? (int64_t)(settings->discard * (double)n) : 0;
}

// The tokens that they ask to evict; 0: they name a share, or nothing.
static int64_t amount_of(const OverflowSettings *settings) {
    return settings->discard >= 1 ? (int64_t)settings->discard : 0;
}

int64_t overflow_n_evicted(const OverflowSettings *settings, int64_t n) {
    int64_t amount = settings->discard > 0 ? fraction_of(settings, n) + amount_of(settings) : n / 2;
    if (amount < 1) amount = 1;
    return amount < n ? amount : n;
}

// Whole turns behind the sinks: until `needed` tokens are evicted, then on to that turn's end
// which is nearest to `wanted`.
static void plan_turns(OverflowPlan *plan, const OverflowSpan *spans, int n, int64_t needed, int64_t wanted) {
    int i = plan->first;
    while (i < n) {
        int end = turn_end(spans, n, i);
        int64_t turn = 0;
        for (int k = i; k < end; k++) turn += spans[k].n_tokens;
        if (end == n || (plan->n_tokens >= needed && plan->n_tokens + turn / 2 >= wanted))
            break; // the last turn stays
        plan->n_tokens += turn;
        i = end;
        plan->n_turns++;
    }
    plan->n_messages = i - plan->first;
}

// Tokens behind the sinks: whole turns, then the beginning of a reply. Its question leaves with the last of it. In one
// piece, which a shift can take out: no part of a reply behind turns that are evicted whole; from `needed` on it is
// enough, and else the turn goes whole as well.
static void plan_tokens(OverflowPlan *plan, const OverflowSpan *spans, int n, int64_t needed, int64_t wanted,
                        bool one_piece) {
    int i = plan->first;
    while (i < n && plan->n_tokens < wanted) {
        int end = turn_end(spans, n, i);
        if (end == n) break; // the last turn stays
        int64_t more = wanted - plan->n_tokens;
        for (int k = i; k < end && !plan->n_of_reply; k++)
            if (spans[k].n_text > more) plan->reply = k, plan->n_of_reply = more;
        if (plan->n_of_reply && one_piece && plan->n_turns > 0) {
            plan->reply = 0, plan->n_of_reply = 0;
            if (plan->n_tokens >= needed) break;
        }
        plan->n_tokens += plan->n_of_reply;
        if (plan->n_of_reply) break;
        for (; i < end; i++) plan->n_tokens += spans[i].n_tokens;
        plan->n_turns++;
    }
    plan->n_messages = i - plan->first;
}

OverflowPlan overflow_plan(const OverflowSettings *settings, const OverflowSpan *spans, int n_spans,
                           int64_t context_size, int64_t needed) {
    int64_t total = 0, n_sinks = 0;
    int first = kept_prefix(settings, spans, n_spans);
    for (int i = 0; i < n_spans; i++) {
        total += spans[i].n_tokens;
        if (i < first) n_sinks += spans[i].n_tokens;
    }
    OverflowPlan plan = {.first = first, .fits = total + needed <= context_size};
    if (plan.fits || settings->policy == OVERFLOW_STOP) return plan;

    int64_t excess = total + needed - context_size;
    if (settings->by_token) {
        int64_t wanted = overflow_n_evicted(settings, total - n_sinks);
        bool shifts = settings->policy == OVERFLOW_SHIFT || settings->policy == OVERFLOW_SHIFT_INPLACE;
        plan_tokens(&plan, spans, n_spans, excess, wanted > excess ? wanted : excess, shifts);
    } else {
        int64_t wanted = total - (int64_t)(settings->low_water * (double)context_size);
        if (wanted < excess) wanted = excess;
        if (wanted < amount_of(settings)) wanted = amount_of(settings);
        plan_turns(&plan, spans, n_spans, wanted, fraction_of(settings, total - n_sinks));
    }
    plan.fits = plan.n_tokens >= excess;
    return plan;
}
