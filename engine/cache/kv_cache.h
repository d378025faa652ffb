// The KV cache: a pool of slots in pages, which sequences share.
//
// A slot holds one token's key and value in every layer, and its position (slot_positions; -1: empty). A sequence is
// a table of pages. Attention looks at positions only, so a sequence that is full goes on as a ring: what was
// evicted after its first n_sinks tokens is overwritten by what comes, and nothing is copied.
//
// Pages are counted: a fork shares them, and who writes to a page that others hold gets a copy first. Branches are
// sequences that nobody talks in at present (what undo left behind), kept as long as no one needs their pages.
//
// Where layers recur, a sequence has marks beside its pages: lengths at which its states were kept. It can be
// cut at its marks alone, and nothing can be evicted from it.
#ifndef PALAVER_ENGINE_KV_CACHE_H
#define PALAVER_ENGINE_KV_CACHE_H

#include "engine/model/model.h"
#include "kernels/kv_layout.h"
#include "kernels/ops.h"
#include "engine/options.h"

// What the first `length` >= 1 tokens of a sequence have left in the layers that recur.
typedef struct KvMark {
    int64_t length;
    int32_t state; // its number, in every such layer
    bool kept;     // else it goes when the next but one comes
} KvMark;

enum { KV_MARKS = 8 };

// Tokens 0 … length-1 of a log and where they lie. Token j has the ordinal j, or j + n_evicted from n_sinks on; ordinal
// a lies at index a, or n_sinks + (a - n_sinks) mod (context_size - n_sinks) from n_sinks on; its position is the
// ordinal, less n_moved from n_sinks on. Zeroed: an empty sequence.
typedef struct KvSequence {
    int32_t *pages; // host [n_pages] first slot of each page
    int n_pages;
    int64_t length;
    int32_t n_sinks;   // the first tokens, which stay; means nothing while n_evicted is 0
    int32_t n_evicted; // tokens that were ever evicted behind them
    int32_t n_moved;   // of n_evicted: how far the keys of the others were turned in place
    int32_t rope_set;  // by which set of frequencies the keys are turned (model_rope_set): the owner's choice
    int32_t
        n_prefix; // tokens that see each other (model_prefix): likewise; nobody else's cache begins with them
    // Where layers recur, by their lengths; the last is of `length` tokens, or behind one that is reserved for a token.
    KvMark marks[KV_MARKS];
    int n_marks;
    bool
        replies; // the step to come is of a reply, however many tokens it has: its marks go as those of single tokens do
} KvSequence;

typedef struct KvBranch {
    int32_t *log; // [sequence.length], owned
    KvSequence sequence;
} KvBranch;

typedef struct KvCache {
    Backend *backend;
    KvLayout layout;
    KvLayer *layers;       // host [n_layers]
    KvLayer *apart;        // host [layout.n_layers + 1] those that have slots, where others recur; else NULL
    void *memory, *scales; // backend memory of all layers
    void *key_rounding;    // likewise; NULL: none
    void *score_bases;     // likewise
    void *sink_scores;     // likewise
    int32_t *slot_positions;   // backend memory [layout.n_slots]
    void *states;              // likewise [layout.n_recurring, n_states, state_floats]; NULL: no layer recurs
    int32_t *state_references; // [n_states] marks that a state has
    int kept_marks;            // that a sequence may have
    int context_size;          // most tokens of a sequence
    bool paged;
    int page_size, n_pages;
    int32_t *references; // [n_pages] sequences that hold a page
    int32_t *free_pages; // [n_pages] the first n_free of them
    int n_free;
    int32_t *copies;    // [2, page_size] slots of a page to be copied
    KvBranch *branches; // [n_pages], the one used longest ago first
    int n_branches;
    int64_t position_limit; // positions stay below it: INT32_MAX
} KvCache;

// Those of its layers [layout.n_layers] that have slots of their own.
static inline const KvLayer *kv_cache_stored(const KvCache *cache) {
    return cache->apart ? cache->apart : cache->layers; // else they come first
}

// How a cache for sequences of `context_size` tokens lies. STATUS_USAGE for options that cannot be.
Status kv_cache_layout(const CacheOptions *options, const DecoderShape *shape, int context_size,
                       KvLayout *layout, Error *error);
// Bytes of keys, values, scales, positions and states.
int64_t kv_cache_bytes(const KvLayout *layout);

Status kv_cache_open(Backend *backend, const CacheOptions *options, const DecoderShape *shape,
                     int context_size, KvCache *cache, Error *error);
void kv_cache_close(KvCache *cache); // branches are dropped; sequences were freed before

// ---- sequences (kv_sequence.c) ----------------------------------------------------------------------------------

// Makes room for n more tokens at the end and fills `slots` and `positions` [n] with where they go; pages are taken,
// and copied where they are shared. STATUS_CONTEXT: beyond the context window, or no page is left; then nothing
// changed.
Status kv_sequence_extend(KvCache *cache, KvSequence *sequence, int n, int32_t *slots, int32_t *positions,
                          Error *error);

// Whether one more token finds a slot, and nothing but that changes: no page is copied, no branch forgotten for it, and
// taking it back leaves the sequence as it was.
bool kv_sequence_has_room(const KvCache *cache, const KvSequence *sequence);

// Tokens that find slots at its end without a branch being forgotten for them, if its last page is nobody else's.
int64_t kv_sequence_room(const KvCache *cache, const KvSequence *sequence);

// What a step of the sequence's last n tokens looks at. `pages` stay the sequence's own.
StepSequence kv_sequence_step(const KvCache *cache, const KvSequence *sequence, int n);

// Of the first `length` tokens as many as truncate() and fork() leave: where layers recur no more than the last mark before
// has, else all.
int64_t kv_sequence_cut(const KvCache *cache, const KvSequence *sequence, int64_t length);

// Drops the tokens from `length`, or what kv_sequence_cut() makes of it, on; pages that nobody else holds become free.
// Where no more than the sinks are left, the ring begins anew.
void kv_sequence_truncate(KvCache *cache, KvSequence *sequence, int64_t length);

// *to shares the first `length` tokens of `from`, or what kv_sequence_cut() makes of it.
Status kv_sequence_fork(KvCache *cache, const KvSequence *from, int64_t length, KvSequence *to, Error *error);

// Evicts the tokens [from, from + n), n >= 1, without evaluating any. In place: turns the keys of those behind
// them, which take over their positions; else no byte of the cache changes. False: it cannot (there were other
// sinks before, or positions come to their end), and nothing changed.
bool kv_sequence_can_evict(const KvCache *cache, const KvSequence *sequence, int64_t from, int64_t n,
                           bool in_place);
Status kv_sequence_evict(KvCache *cache, KvSequence *sequence, int64_t from, int64_t n, bool in_place,
                         Error *error);

void kv_sequence_free(KvCache *cache, KvSequence *sequence);

// ---- branches (kv_branch.c) -------------------------------------------------------------------------------------

// How many tokens two logs, a [n_a] and b [n_b], have in common from the beginning on.
int64_t kv_common_prefix(const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b);

// Keeps a sequence, which is taken over, and a copy of its log [sequence->length] for a later recall.
void kv_branch_keep(KvCache *cache, const int32_t *log, KvSequence *sequence);

// Looks among the branches of `rope_set` for the longest common prefix with `tokens` [n] at which one can be cut: returns
// its length and the branch's index if it is longer than `at_least`, else at_least and -1.
int64_t kv_branch_find(const KvCache *cache, const int32_t *tokens, int64_t n, int rope_set, int64_t at_least,
                       int *index);
// How many of the first `tokens` [n] the branch of `rope_set` that has most of them in common has, wherever it can be cut.
int64_t kv_branch_common(const KvCache *cache, const int32_t *tokens, int64_t n, int rope_set);
// As kv_branch_find(); *sequence shares the prefix, if it is longer.
int64_t kv_branch_recall(KvCache *cache, const int32_t *tokens, int64_t n, int rope_set, int64_t at_least,
                         KvSequence *sequence);

// Drops the branches that tokens were evicted from: what stayed of them has seen these.
void kv_branch_drop_shifted(KvCache *cache);

// Drops the branch that was used longest ago. False: there is none.
bool kv_branch_drop(KvCache *cache);

// ---- states of layers that recur (kv_states.c) --------------------------------------------------------------------
//
// What a text has left in them, at the lengths that its sequence's marks name. A step reads one state and writes another, so
// that a sequence can be taken back by its last step, and forked where it stands. Of steps of one token, and of a reply's,
// only the last two are kept; where a step of several begins and ends, which is where a turn begins and where a reply does, it
// stays, until there
// are more than cache.kept_marks. What lies between is read again from the last mark before it.

// How many states a cache for n sequences has, and most marks that one of them keeps.
int kv_states_count(int n_sequences);
int kv_states_kept(int n_sequences);

// A mark behind the sequence's next n tokens, where the step that evaluates them leaves its states. One that was reserved
// for a token, and is behind as many, is taken as it is. STATUS_CONTEXT: no state is left, and no branch that has one.
Status kv_states_extend(KvCache *cache, KvSequence *sequence, int n, Error *error);

// Drops the marks beyond `length`.
void kv_states_truncate(KvCache *cache, KvSequence *sequence, int64_t length);

// Whether kv_states_extend() by one token takes nothing from anybody.
bool kv_states_has_room(const KvCache *cache, const KvSequence *sequence);

// The states of a copy are its own as well.
void kv_states_share(KvCache *cache, const KvSequence *sequence);

// The state behind the first `length` tokens; -1: there is none, and where length is not 0 no mark either.
int32_t kv_states_at(const KvSequence *sequence, int64_t length);

#endif
