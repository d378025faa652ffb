// Branches: sequences that are kept for the case that someone comes back to them. They share pages with those that are
// talked in: kv_sequence_fork() in kv_sequence.c; when is decided in engine/session/session_prefix.c.
#include "engine/cache/kv_cache.h"

#include <stdlib.h>
#include <string.h>

int64_t kv_common_prefix(const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b) {
    int64_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

// Takes branch i out of the list; its log is freed, its sequence is the caller's.
static KvSequence take_out(KvCache *cache, int i) {
    KvSequence sequence = cache->branches[i].sequence;
    free(cache->branches[i].log);
    cache->n_branches--;
    memmove(cache->branches + i, cache->branches + i + 1,
            (size_t)(cache->n_branches - i) * sizeof *cache->branches);
    return sequence;
}

static void drop(KvCache *cache, int i) {
    KvSequence sequence = take_out(cache, i);
    kv_sequence_free(cache, &sequence);
}

bool kv_branch_drop(KvCache *cache) {
    if (cache->n_branches == 0) return false;
    drop(cache, 0);
    return true;
}

void kv_branch_drop_shifted(KvCache *cache) {
    for (int i = cache->n_branches - 1; i >= 0; i--)
        if (cache->branches[i].sequence.n_evicted > 0) drop(cache, i);
}

void kv_branch_keep(KvCache *cache, const int32_t *log, KvSequence *sequence) {
    KvBranch branch = {.sequence = *sequence};
    *sequence = (KvSequence){0};
    int64_t n = branch.sequence.length;
    bool known = n == 0;
    for (int i = cache->n_branches - 1; i >= 0 && !known; i--) {
        const KvBranch *other = &cache->branches[i];
        if (other->sequence.rope_set != branch.sequence.rope_set) continue;
        int64_t common = kv_common_prefix(log, n, other->log, other->sequence.length);
        known = common == n && other->sequence.n_evicted == branch.sequence.n_evicted;
        if (!known && common == other->sequence.length) drop(cache, i);
    }
    if (!known) branch.log = malloc((size_t)n * sizeof *log);
    if (!branch.log) {
        kv_sequence_free(cache, &branch.sequence);
        return;
    }
    memcpy(branch.log, log, (size_t)n * sizeof *log);
    if (cache->n_branches == cache->n_pages) drop(cache, 0);
    cache->branches[cache->n_branches++] = branch;
}

int64_t kv_branch_find(const KvCache *cache, const int32_t *tokens, int64_t n, int rope_set, int64_t at_least,
                       int *index) {
    int64_t longest = at_least;
    *index = -1;
    for (int i = 0; i < cache->n_branches; i++) {
        const KvBranch *b = &cache->branches[i];
        if (b->sequence.rope_set != rope_set) continue;
        int64_t common = kv_common_prefix(tokens, n, b->log, b->sequence.length);
        common = kv_sequence_cut(cache, &b->sequence, common);
        if (common > longest) longest = common, *index = i;
    }
    return longest;
}

int64_t kv_branch_common(const KvCache *cache, const int32_t *tokens, int64_t n, int rope_set) {
    int64_t most = 0;
    for (int i = 0; i < cache->n_branches; i++) {
        const KvBranch *b = &cache->branches[i];
        const int64_t common = kv_common_prefix(tokens, n, b->log, b->sequence.length);
        if (b->sequence.rope_set == rope_set && common > most) most = common;
    }
    return most;
}

int64_t kv_branch_recall(KvCache *cache, const int32_t *tokens, int64_t n, int rope_set, int64_t at_least,
                         KvSequence *sequence) {
    int best;
    int64_t longest = kv_branch_find(cache, tokens, n, rope_set, at_least, &best);
    if (best < 0) return at_least;
    if (longest == cache->branches[best].sequence.length) {
        *sequence = take_out(cache, best); // what goes on from there is more than the branch
        return longest;
    }
    KvBranch branch = cache->branches[best];
    if (kv_sequence_fork(cache, &branch.sequence, longest, sequence, NULL)) return at_least;
    memmove(cache->branches + best, cache->branches + best + 1,
            (size_t)(cache->n_branches - best - 1) * sizeof branch);
    cache->branches[cache->n_branches - 1] = branch;
    return longest;
}
