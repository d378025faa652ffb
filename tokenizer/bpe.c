#include "tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/byte_level.h"
#include "kernels/base/text/quote.h"
#include "kernels/base/text/utf8.h"

typedef struct Merge {
    uint64_t pair; // left id << 32 | right id, NO_PAIR where the slot is free
    int32_t rank;  // lower merges first
    int32_t id;    // of the result
} Merge;

#define NO_PAIR UINT64_MAX

struct Bpe {
    const Vocabulary *vocabulary;
    BpeOptions options;
    Merge *merges; // [merges_size], a power of two: open addressing by hash of the pair
    size_t merges_size;
    int64_t n_merges, max_merges;
    int32_t byte_ids[256]; // of a byte's own piece (byte_level: its stand-in; else <0xHH>), -1: none
    Text joined;           // scratch of bpe_add_merge
};

// A symbol of the word being merged: a list linked by index.
typedef struct Symbol {
    int32_t id;         // -1: merged into its left neighbour
    int32_t prev, next; // -1: none
} Symbol;

typedef struct Candidate {
    int32_t rank, at, id; // merging symbol `at` with its right neighbour gives `id`
} Candidate;

// Words up to this length are merged by looking at all pairs: quicker than a heap, and no allocation.
enum { SHORT_WORD = 48 };

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static const Merge *merge_slot(const Bpe *bpe, uint64_t pair) {
    uint64_t h = pair * 0x9E3779B97F4A7C15u;
    size_t mask = bpe->merges_size - 1, slot = (size_t)(h ^ h >> 32) & mask;
    while (bpe->merges[slot].pair != pair && bpe->merges[slot].pair != NO_PAIR) slot = (slot + 1) & mask;
    return &bpe->merges[slot];
}

static const Merge *merge_find(const Bpe *bpe, int32_t left, int32_t right) {
    const Merge *merge = merge_slot(bpe, pair_of(left, right));
    return merge->pair == NO_PAIR ? NULL : merge;
}

static void bpe_find_bytes(Bpe *bpe) {
    for (int b = 0; b < 256; b++) {
        char text[8] = {'<', '0', 'x', "0123456789ABCDEF"[b >> 4], "0123456789ABCDEF"[b & 15], '>'};
        size_t size = 6;
        if (bpe->options.byte_level) size = (size_t)utf8_write(byte_level_char((unsigned char)b), text);
        bpe->byte_ids[b] = vocabulary_find(bpe->vocabulary, text, size);
    }
}

Status bpe_open(const Vocabulary *vocabulary, const BpeOptions *options, int64_t n_merges, Bpe **out,
                Error *error) {
    *out = NULL;
    if (n_merges < 0 || n_merges > INT32_MAX / 4) {
        return error_set(error, STATUS_FILE, "%lld merges", (long long)n_merges);
    }
    size_t size = 64;
    while (size < 2 * (size_t)n_merges) size *= 2;
    Bpe *bpe = calloc(1, sizeof *bpe);
    Merge *merges = malloc(size * sizeof *merges);
    if (!bpe || !merges) {
        free(bpe);
        free(merges);
        return error_set(error, STATUS_MEMORY, "no memory for %lld merges", (long long)n_merges);
    }
    for (size_t i = 0; i < size; i++) merges[i] = (Merge){NO_PAIR, 0, 0};
    *bpe = (Bpe){.vocabulary = vocabulary, .options = *options, .merges = merges, .merges_size = size};
    bpe->max_merges = n_merges;
    bpe_find_bytes(bpe);
    *out = bpe;
    return STATUS_OK;
}

void bpe_close(Bpe *bpe) {
    if (!bpe) return;
    free(bpe->merges);
    text_free(&bpe->joined);
    free(bpe);
}

Status bpe_add_merge(Bpe *bpe, const char *left, size_t left_size, const char *right, size_t right_size,
                     Error *error) {
    if (bpe->n_merges >= bpe->max_merges) return error_set(error, STATUS_FILE, "more merges than announced");
    int64_t rank = bpe->n_merges++;
    bpe->joined.size = 0;
    Status status = text_append(&bpe->joined, left, left_size, error);
    if (!status) status = text_append(&bpe->joined, right, right_size, error);
    if (status) return status;
    int32_t left_id = vocabulary_find(bpe->vocabulary, left, left_size);
    int32_t right_id = vocabulary_find(bpe->vocabulary, right, right_size);
    int32_t id = vocabulary_find(bpe->vocabulary, bpe->joined.bytes, bpe->joined.size);
    if (left_id < 0 || right_id < 0 || id < 0) {
        const char *missing = left_id < 0 ? left : right_id < 0 ? right : bpe->joined.bytes;
        size_t size = left_id < 0 ? left_size : right_id < 0 ? right_size : bpe->joined.size;
        return error_set(
            error, STATUS_FILE,
            "merge %lld needs the piece '%s', which the vocabulary lacks: the tokenizer is damaged, "
            "fetch it again",
            (long long)rank, quote_bytes(missing ? missing : "", size).text);
    }
    // A pair that is listed twice keeps its last rank, as in the tokenizers package.
    *(Merge *)merge_slot(bpe, pair_of(left_id, right_id)) =
        (Merge){pair_of(left_id, right_id), (int32_t)rank, id};
    return STATUS_OK;
}

Status bpe_add_ranked(Bpe *bpe, int32_t left, int32_t right, int32_t id, int32_t rank, Error *error) {
    if (bpe->n_merges >= bpe->max_merges) return error_set(error, STATUS_FILE, "more merges than announced");
    bpe->n_merges++;
    *(Merge *)merge_slot(bpe, pair_of(left, right)) = (Merge){pair_of(left, right), rank, id};
    return STATUS_OK;
}

// The id of a piece of the model itself, or -1: added tokens were looked for before.
static int32_t model_piece(const Bpe *bpe, const char *text, size_t size) {
    int32_t id = vocabulary_find(bpe->vocabulary, text, size);
    return id >= 0 && bpe->vocabulary->pieces[id].added ? -1 : id;
}

// ---- the first symbols of a word --------------------------------------------------------------------------------

typedef struct SymbolSink {
    const Bpe *bpe;
    Tokens *ids;
    bool after_unknown;
} SymbolSink;

static Status push_unknown(SymbolSink *sink, Error *error) {
    const BpeOptions *options = &sink->bpe->options;
    bool fused = options->fuse_unk && sink->after_unknown;
    sink->after_unknown = true;
    return options->unk < 0 || fused ? STATUS_OK : tokens_push(sink->ids, options->unk, error);
}

static Status push_character(SymbolSink *sink, const char *text, size_t size, bool valid, Error *error) {
    const Bpe *bpe = sink->bpe;
    int32_t id = valid ? model_piece(bpe, text, size) : -1;
    bool fallback = id < 0 && bpe->options.byte_fallback;
    for (size_t i = 0; i < size && fallback; i++) fallback = bpe->byte_ids[(unsigned char)text[i]] >= 0;
    if (id < 0 && !fallback) return push_unknown(sink, error);
    sink->after_unknown = false;
    if (id >= 0) return tokens_push(sink->ids, id, error);
    Status status = STATUS_OK;
    for (size_t i = 0; i < size && !status; i++) {
        status = tokens_push(sink->ids, bpe->byte_ids[(unsigned char)text[i]], error);
    }
    return status;
}

// Appends one id per byte or character of the word to `ids`.
static Status word_symbols(const Bpe *bpe, const char *word, size_t size, Tokens *ids, Error *error) {
    SymbolSink sink = {bpe, ids, false};
    Status status = STATUS_OK;
    for (size_t i = 0; i < size && !status;) {
        int length = 1;
        if (bpe->options.byte_level) {
            int32_t id = bpe->byte_ids[(unsigned char)word[i]];
            if (id < 0)
                status = push_unknown(&sink, error);
            else {
                sink.after_unknown = false;
                status = tokens_push(ids, id, error);
            }
        } else {
            uint32_t code;
            length = utf8_next(word + i, size - i, &code);
            bool valid = length > 0;
            if (!valid) length = length ? -length : (int)(size - i);
            status = push_character(&sink, word + i, (size_t)length, valid, error);
        }
        i += (size_t)length;
    }
    return status;
}

// ---- merging ----------------------------------------------------------------------------------------------------

// Merges n <= SHORT_WORD ids in place; returns how many are left.
static int64_t merge_short(const Bpe *bpe, int32_t *ids, int64_t n) {
    const Merge *merges[SHORT_WORD]; // merges[i] joins ids[i] and ids[i+1], or NULL
    for (int64_t i = 0; i + 1 < n; i++) merges[i] = merge_find(bpe, ids[i], ids[i + 1]);
    for (;;) {
        int64_t best = -1;
        for (int64_t i = 0; i + 1 < n; i++) {
            if (merges[i] && (best < 0 || merges[i]->rank < merges[best]->rank)) best = i;
        }
        if (best < 0) return n;
        ids[best] = merges[best]->id;
        n--;
        memmove(ids + best + 1, ids + best + 2, (size_t)(n - best - 1) * sizeof *ids);
        if (best + 1 < n) {
            for (int64_t i = best; i + 1 < n; i++) merges[i] = merges[i + 1];
            merges[best] = merge_find(bpe, ids[best], ids[best + 1]);
        }
        if (best > 0) merges[best - 1] = merge_find(bpe, ids[best - 1], ids[best]);
    }
}

typedef struct Heap {
    Candidate *items; // [capacity], a binary heap: the lowest rank, then the leftmost, at 0
    int64_t n, capacity;
} Heap;

static bool candidate_before(Candidate a, Candidate b) {
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void heap_push(Heap *heap, Candidate item) {
    int64_t i = heap->n++;
    for (; i > 0 && candidate_before(item, heap->items[(i - 1) / 2]); i = (i - 1) / 2) {
        heap->items[i] = heap->items[(i - 1) / 2];
    }
    heap->items[i] = item;
}

static Candidate heap_pop(Heap *heap) {
    Candidate top = heap->items[0], last = heap->items[--heap->n];
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= heap->n) break;
        if (child + 1 < heap->n && candidate_before(heap->items[child + 1], heap->items[child])) child++;
        if (!candidate_before(heap->items[child], last)) break;
        heap->items[i] = heap->items[child];
        i = child;
    }
    if (heap->n > 0) heap->items[i] = last;
    return top;
}

static void heap_push_pair(Heap *heap, const Bpe *bpe, const Symbol *symbols, int32_t at) {
    if (at < 0 || symbols[at].next < 0) return;
    const Merge *merge = merge_find(bpe, symbols[at].id, symbols[symbols[at].next].id);
    if (merge) heap_push(heap, (Candidate){merge->rank, at, merge->id});
}

// Merges a linked list of symbols through a heap. A candidate whose pair has changed since is skipped.
static void merge_linked(const Bpe *bpe, Symbol *symbols, int64_t n, Heap *heap) {
    for (int64_t i = 0; i < n; i++) heap_push_pair(heap, bpe, symbols, (int32_t)i);
    while (heap->n > 0) {
        Candidate top = heap_pop(heap);
        Symbol *left = &symbols[top.at];
        if (left->id < 0 || left->next < 0) continue;
        Symbol *right = &symbols[left->next];
        const Merge *merge = merge_find(bpe, left->id, right->id);
        if (!merge || merge->rank != top.rank) continue;
        left->id = merge->id;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0) symbols[left->next].prev = top.at;
        heap_push_pair(heap, bpe, symbols, left->prev);
        heap_push_pair(heap, bpe, symbols, top.at);
    }
}

// Merges n ids in place; *left is how many remain.
static Status merge_long(const Bpe *bpe, int32_t *ids, int64_t n, int64_t *left, Error *error) {
    if (n > INT32_MAX / 4) return error_set(error, STATUS_MEMORY, "a word of %lld symbols", (long long)n);
    // Every merge removes a symbol and adds at most two candidates to the first n - 1.
    Heap heap = {.capacity = 3 * n};
    Symbol *symbols = malloc((size_t)n * sizeof *symbols);
    heap.items = malloc((size_t)heap.capacity * sizeof *heap.items);
    Status status = STATUS_OK;
    if (!symbols || !heap.items) {
        status = error_set(error, STATUS_MEMORY, "no memory to split a word of %lld symbols", (long long)n);
    } else {
        for (int64_t i = 0; i < n; i++) {
            symbols[i] = (Symbol){ids[i], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1};
        }
        merge_linked(bpe, symbols, n, &heap);
        *left = 0;
        for (int32_t i = 0; i >= 0; i = symbols[i].next) ids[(*left)++] = symbols[i].id;
    }
    free(symbols);
    free(heap.items);
    return status;
}

// The token of a word that is a piece itself, or -1.
static int32_t whole_word(const Bpe *bpe, const char *word, size_t size) {
    char text[512];
    if (size > sizeof text / 2) return -1;
    size_t n = 0;
    if (bpe->options.byte_level) {
        for (size_t i = 0; i < size; i++)
            n += (size_t)utf8_write(byte_level_char((unsigned char)word[i]), text + n);
    } else {
        memcpy(text, word, n = size);
    }
    return model_piece(bpe, text, n);
}

Status bpe_encode(const Bpe *bpe, const char *word, size_t size, Tokens *tokens, Error *error) {
    if (bpe->options.ignore_merges) {
        int32_t id = whole_word(bpe, word, size);
        if (id >= 0) return tokens_push(tokens, id, error);
    }
    int64_t start = tokens->n;
    Status status = word_symbols(bpe, word, size, tokens, error);
    int64_t n = tokens->n - start, left = n;
    if (!status && n > SHORT_WORD)
        status = merge_long(bpe, tokens->ids + start, n, &left, error);
    else if (!status && n > 1)
        left = merge_short(bpe, tokens->ids + start, n);
    tokens->n = status ? start : start + left;
    return status;
}
