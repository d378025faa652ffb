#include "engine/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>

enum {
    LONGEST = 4096,      // bytes of a token that is used
    MOST_CLASSES = 4096, // nodes of a tree of classes
};

typedef struct Piece {
    const uint8_t *bytes;
    uint32_t size;
    int32_t id;
} Piece;

static int by_bytes(const void *a, const void *b) {
    const Piece *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->size < y->size ? x->size : y->size);
    if (order) return order;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

// A token that comes after ordinary text, so that spaces which are left out at a beginning are there.
static int32_t usual_token(const Tokenizer *tokenizer) {
    for (int32_t id = 0; id < tokenizer_size(tokenizer); id++)
        if (tokenizer_kind(tokenizer, id) == TOKEN_NORMAL) return id;
    return -1;
}

static size_t list_pieces(Vocabulary *v, Piece *pieces, size_t *n_bytes) {
    size_t n = 0, size;
    *n_bytes = 0;
    v->before = usual_token(v->tokenizer);
    v->spaced = -1;
    for (int32_t id = 0; id < v->n_tokens && id < v->n_ids; id++) {
        const char *bytes = tokenizer_bytes(v->tokenizer, v->before, id, false, &size);
        TokenKind kind = tokenizer_kind(v->tokenizer, id);
        if (!size || size > LONGEST || kind == TOKEN_CONTROL || kind == TOKEN_UNUSED ||
            kind == TOKEN_UNKNOWN || tokenizer_is_end(v->tokenizer, id))
            continue;
        pieces[n++] = (Piece){(const uint8_t *)bytes, (uint32_t)size, id};
        *n_bytes += size;
        if (kind == TOKEN_NORMAL && *bytes == ' ') v->spaced = id;
    }
    return n;
}

// The pieces are sorted: each goes on from what it shares with the one before.
static void build(Vocabulary *v, const Piece *pieces, size_t n) {
    uint32_t open[LONGEST + 1]; // the nodes of the piece before
    uint32_t n_open = 0;
    for (size_t i = 0; i < n; i++) {
        const Piece *p = &pieces[i];
        uint32_t shared = 0;
        while (shared < n_open && shared < p->size && v->nodes[open[shared]].byte == p->bytes[shared])
            shared++;
        while (n_open > shared) v->nodes[open[--n_open]].skip = v->n_nodes;
        for (; n_open < p->size; n_open++) {
            open[n_open] = v->n_nodes;
            v->nodes[v->n_nodes++] =
                (TrieNode){.token = (uint32_t)i, .depth = (uint16_t)(n_open + 1), .byte = p->bytes[n_open]};
        }
        // Nodes on the way have no tokens of their own: theirs begin where the next node's do.
        v->tokens[i] = p->id;
        if ((int)p->size > v->deepest) v->deepest = (int)p->size;
    }
    while (n_open > 0) v->nodes[open[--n_open]].skip = v->n_nodes;
    v->nodes[v->n_nodes].token = (uint32_t)n;
}

// Where each node hangs, and all by their bytes.
static bool index_nodes(Vocabulary *v) {
    uint32_t line[LONGEST + 1];
    v->parents = malloc((v->n_nodes + 1) * sizeof *v->parents);
    v->by_byte = malloc((v->n_nodes + 1) * sizeof *v->by_byte);
    if (!v->parents || !v->by_byte) return false;
    line[0] = v->n_nodes;
    for (uint32_t i = 0; i < v->n_nodes; i++) {
        v->parents[i] = line[v->nodes[i].depth - 1];
        line[v->nodes[i].depth] = i;
        v->of_byte[v->nodes[i].byte + 1]++;
    }
    for (int byte = 0; byte < 256; byte++) v->of_byte[byte + 1] += v->of_byte[byte];
    uint32_t at[256];
    memcpy(at, v->of_byte, sizeof at);
    for (uint32_t i = 0; i < v->n_nodes; i++) v->by_byte[at[v->nodes[i].byte]++] = i;
    return true;
}

Status vocabulary_open(const Tokenizer *tokenizer, int n_ids, Vocabulary **out, Error *error) {
    *out = NULL;
    Vocabulary *v = calloc(1, sizeof *v);
    size_t n = 0, n_bytes = 0;
    Piece *pieces = malloc((size_t)(tokenizer_size(tokenizer) + 1) * sizeof *pieces);
    if (v && pieces) {
        *v = (Vocabulary){.tokenizer = tokenizer,
                          .n_tokens = tokenizer_size(tokenizer),
                          .n_ids = n_ids,
                          .most_classes = MOST_CLASSES,
                          .references = 1};
        n = list_pieces(v, pieces, &n_bytes);
        v->nodes = calloc(n_bytes + 1, sizeof *v->nodes);
        v->tokens = malloc((n + 1) * sizeof *v->tokens);
    }
    if (!v || !pieces || !v->nodes || !v->tokens) {
        free(pieces);
        vocabulary_close(v);
        return error_no_memory(error, "the vocabulary's bytes");
    }
    qsort(pieces, n, sizeof *pieces, by_bytes);
    build(v, pieces, n);
    free(pieces);
    TrieNode *fitting = realloc(v->nodes, (v->n_nodes + 1) * sizeof *v->nodes);
    if (fitting) v->nodes = fitting;
    if (!index_nodes(v)) {
        vocabulary_close(v);
        return error_no_memory(error, "the vocabulary's bytes");
    }
    *out = v;
    return STATUS_OK;
}

Vocabulary *vocabulary_share(Vocabulary *v) {
    if (v) v->references++;
    return v;
}

void vocabulary_close(Vocabulary *v) {
    if (!v || --v->references > 0) return;
    if (v->loops) v->free_loops(v->loops);
    if (v->classes) v->free_classes(v->classes);
    free(v->parents);
    free(v->by_byte);
    free(v->nodes);
    free(v->tokens);
    free(v);
}
