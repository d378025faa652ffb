// Encoding a chunk, and finding its marks among the ids.
#include "tokenizer/chat_chunk.h"

#include <stdlib.h>
#include <string.h>

static Status no_memory(Error *error) {
    return error_set(error, STATUS_MEMORY, "not enough memory for the conversation's text");
}

// Makes room for `more` elements behind `count`.
static bool grow(void **items, size_t *capacity, size_t count, size_t more, size_t element) {
    if (*capacity - count >= more) return true;
    if (more > SIZE_MAX / 2 / element - count - 64) return false;
    size_t wanted = count + more + *capacity / 2 + 64;
    void *grown = realloc(*items, wanted * element);
    if (!grown) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

Status chunk_add(Chunk *chunk, const char *text, size_t size, bool special, Error *error) {
    if (!size) return STATUS_OK;
    if (!grow((void **)&chunk->text, &chunk->capacity, chunk->size, size, 1) ||
        !grow((void **)&chunk->spans, &chunk->spans_capacity, chunk->n_spans, 1, sizeof(ChunkSpan)))
        return no_memory(error);
    memcpy(chunk->text + chunk->size, text, size);
    chunk->spans[chunk->n_spans++] = (ChunkSpan){chunk->size, size, special};
    chunk->size += size;
    return STATUS_OK;
}

Status chunk_mark(Chunk *chunk, int64_t *target, Error *error) {
    if (!grow((void **)&chunk->marks, &chunk->marks_capacity, chunk->n_marks, 1, sizeof(ChunkMark)))
        return no_memory(error);
    chunk->marks[chunk->n_marks++] = (ChunkMark){chunk->size, target};
    return STATUS_OK;
}

static bool holds(const Chunk *chunk, size_t at, const char *bytes, size_t size) {
    return size <= chunk->size - at && !memcmp(chunk->text + at, bytes, size);
}

// The byte where a token begins that comes at `at` or soon after; *end receives where it ends. A tokenizer
// may add a space, drop white space beside special tokens, or normalise: a control token's piece brings both
// back into step.
static size_t locate(const Chunk *chunk, size_t at, const char *bytes, size_t size, bool control,
                     size_t *end) {
    size_t begin = at;
    if (control && size) {
        const char *found = memmem(chunk->text + at, chunk->size - at, bytes, size);
        if (found) begin = (size_t)(found - chunk->text);
    } else if (!holds(chunk, at, bytes, size)) {
        if (size && *bytes == ' ' && holds(chunk, at, bytes + 1, size - 1)) {
            size--;
        } else {
            size_t skipped = at;
            while (skipped < chunk->size && strchr(" \t\n", chunk->text[skipped])) skipped++;
            if (holds(chunk, skipped, bytes, size)) begin = skipped;
        }
    }
    *end = size < chunk->size - begin ? begin + size : chunk->size;
    return begin;
}

// Serves the marks from the ids that the chunk became, those from `first` on.
static void serve_marks(const Chunk *chunk, const Tokenizer *tokenizer, const Tokens *tokens, int64_t first) {
    size_t served = 0, at = 0;
    for (int64_t i = first; i < tokens->n && served < chunk->n_marks; i++) {
        size_t size;
        int32_t id = tokens->ids[i];
        const char *bytes = tokenizer_bytes(tokenizer, i ? tokens->ids[i - 1] : -1, id, true, &size);
        bool control = tokenizer_kind(tokenizer, id) == TOKEN_CONTROL;
        size_t begin = locate(chunk, at, bytes, size, control, &at);
        while (served < chunk->n_marks && chunk->marks[served].offset <= begin)
            *chunk->marks[served++].target = i;
    }
    while (served < chunk->n_marks) *chunk->marks[served++].target = tokens->n;
}

Status chunk_encode(Chunk *chunk, const Tokenizer *tokenizer, Tokens *tokens, Error *error) {
    int64_t first = tokens->n;
    TextSpan *spans = calloc(chunk->n_spans + 1, sizeof *spans);
    if (!spans) return no_memory(error);
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

void chunk_free(Chunk *chunk) {
    free(chunk->text);
    free(chunk->spans);
    free(chunk->marks);
    *chunk = (Chunk){0};
}
