// States of layers that recur: whose they are, and which go where there are too many.
#include "engine/cache/kv_cache.h"

#include <assert.h>
#include <string.h>

enum {
    CURRENT = 2,      // marks behind the last two steps
    MOST_KEPT = 4,    // where there is one sequence
    OF_BRANCHES = 3,  // states for branches alone
    FEW_SEQUENCES = 4 // up to which each keeps two
};

int kv_states_kept(int n_sequences) {
    return n_sequences == 1 ? MOST_KEPT : n_sequences <= FEW_SEQUENCES ? 2 : 1;
}

int kv_states_count(int n_sequences) {
    return n_sequences * (CURRENT + kv_states_kept(n_sequences)) + OF_BRANCHES;
}

// ---- marks -------------------------------------------------------------------------------------------------------

static void drop(KvCache *cache, KvSequence *s, int i) {
    cache->state_references[s->marks[i].state]--;
    s->n_marks--;
    memmove(s->marks + i, s->marks + i + 1, (size_t)(s->n_marks - i) * sizeof *s->marks);
}

void kv_states_truncate(KvCache *cache, KvSequence *s, int64_t length) {
    while (s->n_marks > 0 && s->marks[s->n_marks - 1].length > length) drop(cache, s, s->n_marks - 1);
}

void kv_states_share(KvCache *cache, const KvSequence *s) {
    for (int i = 0; i < s->n_marks; i++) cache->state_references[s->marks[i].state]++;
}

int32_t kv_states_at(const KvSequence *s, int64_t length) {
    for (int i = s->n_marks - 1; i >= 0; i--)
        if (s->marks[i].length == length) return s->marks[i].state;
    return -1;
}

int64_t kv_sequence_cut(const KvCache *cache, const KvSequence *s, int64_t length) {
    if (length > s->length) length = s->length;
    if (!cache->states) return length;
    for (int i = s->n_marks - 1; i >= 0; i--)
        if (s->marks[i].length <= length) return s->marks[i].length;
    return 0;
}

// Of the kept marks but the last one that whose loss costs least: the tokens that are then read again to come back to it, the
// fewer the further it lies behind, for who goes back goes back a little as a rule.
static int least_kept(const KvSequence *s) {
    int least = -1, last = s->n_marks - 1;
    double least_cost = 0;
    while (last >= 0 && !s->marks[last].kept) last--;
    for (int i = 0; i < last; i++) {
        const int64_t before = i > 0 ? s->marks[i - 1].length : 0;
        const double cost =
            (double)(s->marks[i].length - before) / (double)(s->length - s->marks[i].length + 1);
        if (!s->marks[i].kept || (least >= 0 && cost >= least_cost)) continue;
        least = i, least_cost = cost;
    }
    return least;
}

// Before a step, whose marks stay or not: then the state that it begins with does. Those of single tokens before it go.
static void thin(KvCache *cache, KvSequence *s, bool stays) {
    int kept = 0;
    if (stays && s->n_marks > 0) s->marks[s->n_marks - 1].kept = true;
    for (int i = s->n_marks - 2; i >= 0; i--)
        if (!s->marks[i].kept) drop(cache, s, i);
    for (int i = 0; i < s->n_marks; i++) kept += s->marks[i].kept;
    kept += stays; // with the one that comes
    for (; kept > cache->kept_marks && s->n_marks > 1; kept--) {
        const int least = least_kept(s);
        if (least < 0) break;
        drop(cache, s, least);
    }
}

// ---- states ------------------------------------------------------------------------------------------------------

static int32_t find_free(const KvCache *cache) {
    for (int32_t i = 0; i < cache->layout.n_states; i++)
        if (cache->state_references[i] == 0) return i;
    return -1;
}

bool kv_states_has_room(const KvCache *cache, const KvSequence *s) {
    if (!cache->states || kv_states_at(s, s->length + 1) >= 0 || find_free(cache) >= 0) return true;
    for (int i = 0; i < s->n_marks - 1; i++)
        if (!s->marks[i].kept && cache->state_references[s->marks[i].state] == 1) return true;
    return false;
}

Status kv_states_extend(KvCache *cache, KvSequence *s, int n, Error *error) {
    if (!cache->states || n < 1) return STATUS_OK;
    if (kv_states_at(s, s->length + n) >= 0) return STATUS_OK;
    kv_states_truncate(cache, s, s->length);
    assert(s->length == (s->n_marks > 0 ? s->marks[s->n_marks - 1].length : 0));
    const bool stays = n > 1 && !s->replies;
    thin(cache, s, stays);
    int32_t state = find_free(cache);
    while (state < 0 && kv_branch_drop(cache)) state = find_free(cache);
    if (state < 0)
        return error_set(error, STATUS_CONTEXT, "all %d states of the cache are taken",
                         cache->layout.n_states);
    assert(s->n_marks < KV_MARKS);
    cache->state_references[state] = 1;
    s->marks[s->n_marks++] = (KvMark){s->length + n, state, stays};
    return STATUS_OK;
}
