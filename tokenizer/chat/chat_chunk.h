// A stretch of rendered text on its way to token ids. Inner header of the room.
//
// Everything between two replies that are kept as ids is encoded in one call, so that merges across the
// borders of literals and messages come out as in one text. Marks remember where in the text something begins
// or ends, and receive the index of the token.
#ifndef PALAVER_TOKENIZER_CHAT_CHUNK_H
#define PALAVER_TOKENIZER_CHAT_CHUNK_H

#include "tokenizer/tokenizer.h"

typedef struct ChunkSpan {
    size_t begin, size;
    bool special; // a template's literal, in which control pieces count
} ChunkSpan;

typedef struct ChunkMark {
    size_t offset;   // in bytes
    int64_t *target; // receives the index of the first token that begins there or later
} ChunkMark;

typedef struct Chunk {
    char *text;
    size_t size, capacity;
    ChunkSpan *spans;
    size_t n_spans, spans_capacity;
    ChunkMark *marks; // by rising offset
    size_t n_marks, marks_capacity;
    bool at_start; // encoded as the beginning of a text, although ids (BOS) come before
} Chunk;           // {0} is empty

Status chat_chunk_add(Chunk *chunk, const char *text, size_t size, bool special, Error *error);
Status chat_chunk_mark(Chunk *chunk, int64_t *target, Error *error);

// Appends the chunk's ids, serves its marks and empties it.
Status chat_chunk_encode(Chunk *chunk, const Tokenizer *tokenizer, Tokens *tokens, Error *error);

void chat_chunk_free(Chunk *chunk);

#endif
