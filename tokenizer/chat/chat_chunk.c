// Encoding a chunk, and finding its marks among the ids.
#include "tokenizer/chat/chat_chunk.h"

#include "kernels/base/array.h"

#include <stdlib.h>
#include <string.h>

Status chat_chunk_add(Chunk *chunk, const char *text, size_t size, bool special, Error *error) {
    if (!size) return STATUS_OK;
    if (!array_reserve(&chunk->text, sizeof *chunk->text, chunk->size, size, &chunk->capacity) ||
        !array_reserve(&chunk->spans, sizeof *chunk->spans, chunk->n_spans, 1, &chunk->spans_capacity))
        return error_no_memory(error, "the conversation's text");
    memcpy(chunk->text + chunk->size, text, size);
    chunk->spans[chunk->n_spans++] = (ChunkSpan){chunk->size, size, special};
    chunk->size += size;
    return STATUS_OK;
}

Status chat_chunk_mark(Chunk *chunk, int64_t *target, Error *error) {
    if (!array_reserve(&chunk->marks, sizeof *chunk->marks, chunk->n_marks, 1, &chunk->marks_capacity))
        return error_no_memory(error, "the conversation's text");
    chunk->marks[chunk->n_marks++] = (ChunkMark){chunk->size, target};
    return STATUS_OK;
}

static bool holds(const Chunk *chunk, size_t at, const char *bytes, size_t size) {
    return size <= chunk->size - at && !memcmp(chunk->text + at, bytes, size);
}

// Where an ordinary token begins that comes at `at` or soon after: a tokenizer may add a space, drop white
// space beside control tokens, or normalise. *end receives where it ends.
static size_t locate(const Chunk *chunk, size_t at, const char *bytes, size_t size, size_t *end) {
    size_t begin = at;
    if (!holds(chunk, at, bytes, size)) {
        size_t skipped = at;
        while (skipped < chunk->size && strchr(" \t\n", chunk->text[skipped])) skipped++;
        if (size && *bytes == ' ' && holds(chunk, at, bytes + 1, size - 1))
            size--;
        else if (holds(chunk, skipped, bytes, size))
            begin = skipped;
    }
    *end = size < chunk->size - begin ? begin + size : chunk->size;
    return begin;
}

// What serve_marks() knows of the ids that a chunk became.
typedef struct Walk {
    const Chunk *chunk;
    const Tokenizer *tokenizer;
    const Tokens *tokens;
    size_t served; // marks
    size_t passed; // spans
} Walk;

static const char *bytes_of(const Walk *walk, int64_t i, size_t *size) {
    const int32_t *ids = walk->tokens->ids;
    return tokenizer_bytes(walk->tokenizer, i ? ids[i - 1] : -1, ids[i], true, size);
}

// Where the next control piece stands, from `at` on: in a literal, as people's texts may only look like one.
// `at` never goes back.
static size_t locate_control(Walk *walk, size_t at, const char *bytes, size_t size) {
    const Chunk *chunk = walk->chunk;
    while (walk->passed < chunk->n_spans &&
           chunk->spans[walk->passed].begin + chunk->spans[walk->passed].size <= at)
        walk->passed++;
    for (size_t i = walk->passed; i < chunk->n_spans; i++) {
        const ChunkSpan *span = &chunk->spans[i];
        size_t begin = span->begin > at ? span->begin : at, end = span->begin + span->size;
        const char *found = span->special ? memmem(chunk->text + begin, end - begin, bytes, size) : NULL;
        if (found) return (size_t)(found - chunk->text);
    }
    return chunk->size;
}

// The token `i` begins at `begin`, so the marks up to there are its.
static void serve(Walk *walk, size_t begin, int64_t i) {
    const Chunk *chunk = walk->chunk;
    while (walk->served < chunk->n_marks && chunk->marks[walk->served].offset <= begin)
        *chunk->marks[walk->served++].target = i;
}

// Serves the marks from the ids that the chunk became, those from `first` on. Control pieces are fixed
// points; what goes astray between two of them (text that the tokenizer changed) ends at the second.
static void serve_marks(const Chunk *chunk, const Tokenizer *tokenizer, const Tokens *tokens, int64_t first) {
    Walk walk = {chunk, tokenizer, tokens, 0, 0};
    size_t at = 0, size;
    for (int64_t i = first; i < tokens->n; i++) {
        int64_t control = i;
        while (control < tokens->n && tokenizer_kind(tokenizer, tokens->ids[control]) != TOKEN_CONTROL)
            control++;
        size_t limit = chunk->size, limit_size = 0;
        if (control < tokens->n) {
            const char *piece = bytes_of(&walk, control, &limit_size);
            limit = locate_control(&walk, at, piece, limit_size);
        }
        for (; i < control; i++) {
            const char *bytes = bytes_of(&walk, i, &size);
            size_t begin = locate(chunk, at, bytes, size, &at);
            if (at > limit) at = limit;
            serve(&walk, begin < limit ? begin : limit, i);
        }
        if (control < tokens->n) serve(&walk, limit, control);
        at = limit_size < chunk->size - limit ? limit + limit_size : chunk->size;
    }
    serve(&walk, chunk->size, tokens->n);
}

Status chat_chunk_encode(Chunk *chunk, const Tokenizer *tokenizer, Tokens *tokens, Error *error) {
    int64_t first = tokens->n;
    TextSpan *spans = calloc(chunk->n_spans + 1, sizeof *spans);
    if (!spans) return error_no_memory(error, "the conversation's text");
    for (size_t i = 0; i < chunk->n_spans; i++)
        spans[i] =
            (TextSpan){chunk->text + chunk->spans[i].begin, chunk->spans[i].size, chunk->spans[i].special};
    Status status = STATUS_OK;
    if (chunk->n_spans)
        status = tokenizer_encode_spans(tokenizer, spans, (int64_t)chunk->n_spans,
                                        first > 0 && !chunk->at_start, tokens, error);
    free(spans);
    if (status) return status;
    serve_marks(chunk, tokenizer, tokens, first);
    chunk->size = chunk->n_spans = chunk->n_marks = 0;
    chunk->at_start = false;
    return STATUS_OK;
}

void chat_chunk_free(Chunk *chunk) {
    free(chunk->text);
    free(chunk->spans);
    free(chunk->marks);
    *chunk = (Chunk){0};
}
