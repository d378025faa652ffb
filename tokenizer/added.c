#include "tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/split/character.h"
#include "kernels/base/array.h"
#include "kernels/base/text/utf8.h"

// Indices are int32_t.
static bool has_room(int64_t n) {
    return n < INT32_MAX / 2;
}

static Status no_room(int64_t n, Error *error) {
    return error_set(error, STATUS_MEMORY, "no memory for %lld added tokens", (long long)n);
}

static Status node_new(AddedTokens *added, unsigned char byte, int32_t sibling, int32_t *out, Error *error) {
    if (!has_room(added->n_nodes) || !array_reserve(&added->nodes, sizeof *added->nodes,
                                                    (size_t)added->n_nodes, 1, &added->nodes_capacity))
        return no_room(added->n_nodes, error);
    *out = (int32_t)added->n_nodes++;
    added->nodes[*out] = (TrieNode){.child = -1, .sibling = sibling, .token = -1, .byte = byte};
    return STATUS_OK;
}

static int32_t node_child(const AddedTokens *added, int32_t node, unsigned char byte) {
    int32_t child = added->nodes[node].child;
    while (child >= 0 && added->nodes[child].byte != byte) child = added->nodes[child].sibling;
    return child;
}

Status added_tokens_add(AddedTokens *added, const char *text, size_t size, AddedToken token, Error *error) {
    if (size == 0 || size > MAX_ADDED_TOKEN_SIZE) {
        return error_set(error, STATUS_UNSUPPORTED, "added token %d has %zu bytes; 1 to %d can be used",
                         token.id, size, MAX_ADDED_TOKEN_SIZE);
    }
    if (added->n_nodes == 0) memset(added->roots, 0xFF, sizeof added->roots);
    if (!has_room(added->n) ||
        !array_reserve(&added->tokens, sizeof *added->tokens, (size_t)added->n, 1, &added->capacity))
        return no_room(added->n, error);
    Status status;
    int32_t node = added->roots[(unsigned char)text[0]];
    if (node < 0) {
        status = node_new(added, (unsigned char)text[0], -1, &node, error);
        if (status) return status;
        added->roots[(unsigned char)text[0]] = node;
    }
    for (size_t i = 1; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        int32_t child = node_child(added, node, byte);
        if (child < 0) {
            status = node_new(added, byte, added->nodes[node].child, &child, error);
            if (status) return status;
            added->nodes[node].child = child;
        }
        node = child;
    }
    if (added->nodes[node].token >= 0) { // listed again: the last description counts
        added->tokens[added->nodes[node].token] = token;
        return STATUS_OK;
    }
    added->nodes[node].token = (int32_t)added->n;
    added->tokens[added->n++] = token;
    return STATUS_OK;
}

void added_tokens_free(AddedTokens *added) {
    free(added->tokens);
    free(added->nodes);
    *added = (AddedTokens){0};
}

static bool in_special_range(const SpecialRanges *ranges, size_t start, size_t stop) {
    if (!ranges) return false;
    int64_t low = 0, high = ranges->n; // the last range that begins at or before start
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (ranges->from[middle] <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && stop <= ranges->to[low - 1];
}

// The longest token that begins exactly at `at`; its index or -1.
static int32_t longest_at(const AddedTokens *added, const char *text, size_t size, size_t at,
                          const SpecialRanges *ranges, size_t *stop) {
    int32_t found = -1, node = added->roots[(unsigned char)text[at]];
    for (size_t i = at; node >= 0; node = i < size ? node_child(added, node, (unsigned char)text[i]) : -1) {
        i++;
        int32_t token = added->nodes[node].token;
        if (token < 0 || (added->tokens[token].special && !in_special_range(ranges, at, i))) continue;
        found = token;
        *stop = i;
    }
    return found;
}

// Whether the match touches a word character on either side.
static bool inside_word(const char *text, size_t size, size_t start, size_t stop) {
    uint32_t code;
    size_t before = start;
    while (before > 0 && start - before < 4) {
        before--;
        if (utf8_next(text + before, start - before, &code) == (int)(start - before)) {
            if (character_is_word(code)) return true;
            break;
        }
    }
    return stop < size && utf8_next(text + stop, size - stop, &code) > 0 && character_is_word(code);
}

static size_t strip_left(const char *text, size_t from, size_t start) {
    for (size_t at = start; at > from;) {
        size_t before = at - 1;
        while (before > from && at - before < 4 && utf8_continues(text[before])) before--;
        uint32_t code;
        if (utf8_next(text + before, at - before, &code) != (int)(at - before) || !character_is_space(code))
            break;
        start = at = before;
    }
    return start;
}

static size_t strip_right(const char *text, size_t size, size_t stop) {
    uint32_t code;
    while (stop < size) {
        int length = utf8_next(text + stop, size - stop, &code);
        if (length <= 0 || !character_is_space(code)) break;
        stop += (size_t)length;
    }
    return stop;
}

bool added_tokens_next(const AddedTokens *added, const char *text, size_t size, size_t from,
                       const SpecialRanges *ranges, AddedMatch *match) {
    if (added->n == 0) return false;
    for (size_t at = from; at < size;) {
        size_t stop = at;
        int32_t found = longest_at(added, text, size, at, ranges, &stop);
        if (found < 0) {
            at++;
            continue;
        }
        const AddedToken *token = &added->tokens[found];
        if (token->single_word && inside_word(text, size, at, stop)) {
            at = stop;
            continue;
        }
        match->id = token->id;
        match->start = token->lstrip ? strip_left(text, from, at) : at;
        match->stop = token->rstrip ? strip_right(text, size, stop) : stop;
        return true;
    }
    return false;
}
