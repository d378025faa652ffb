// The pieces of a vocabulary: text, raw bytes and kind by id, id by text.
#ifndef PALAVER_TOKENIZER_VOCABULARY_H
#define PALAVER_TOKENIZER_VOCABULARY_H

#include "kernels/base/text/text.h"
#include "tokenizer/tokens.h"

#include <stdbool.h>

typedef struct Piece {
    size_t text, bytes;             // offsets into chars
    uint32_t text_size, bytes_size; // without the NUL that follows each
    TokenKind kind;
    bool end;   // ends a reply
    bool added; // no piece of the model itself: merges never lead to it
    bool cuts;  // looked for before the model sees the text, which begins anew behind it
} Piece;

// A text that can be found; id -1 where the slot is free.
typedef struct PieceText {
    size_t text;
    uint32_t size;
    int32_t id;
} PieceText;

typedef struct Vocabulary {
    Piece *pieces; // [n]
    int64_t n;
    size_t capacity; // of pieces
    Text chars;
    PieceText *table; // [table_size], a power of two: open addressing by hash of the text
    size_t table_size, n_texts;
} Vocabulary; // {0}, then vocabulary_init

// n pieces of kind TOKEN_UNUSED without a text. Free with vocabulary_free also after a failure.
Status vocabulary_init(Vocabulary *vocabulary, int64_t n, Error *error);
// Makes room for ids up to n - 1; those that exist stay.
Status vocabulary_extend(Vocabulary *vocabulary, int64_t n, Error *error);
void vocabulary_free(Vocabulary *vocabulary);

// Sets the text of piece `id` (0 <= id < n); its bytes are the same until the pieces are spelled. Where two pieces
// have one text, vocabulary_find gives the first that was set. Setting a piece again leaves its old text findable.
Status vocabulary_set(Vocabulary *vocabulary, int32_t id, const char *text, size_t size, TokenKind kind,
                      Error *error);

// Sets its bytes alone.
Status vocabulary_set_bytes(Vocabulary *vocabulary, int32_t id, const char *bytes, size_t size, Error *error);

// The id of a text, or -1.
int32_t vocabulary_find(const Vocabulary *vocabulary, const char *text, size_t size);

static inline const char *vocabulary_text(const Vocabulary *vocabulary, int32_t id) {
    return vocabulary->chars.bytes + vocabulary->pieces[id].text;
}
static inline const char *vocabulary_bytes(const Vocabulary *vocabulary, int32_t id) {
    return vocabulary->chars.bytes + vocabulary->pieces[id].bytes;
}

// Sets the raw bytes of every piece of kind normal from its text. Byte-level: GPT-2's characters back to bytes;
// a piece with any other character stands for itself. Otherwise SentencePiece's way: U+2581 is a space (also in
// user-defined pieces), <0x41> is a byte where the kind says so, unknown is " \u2047 ".
Status vocabulary_spell_byte_level(Vocabulary *vocabulary, Error *error);
Status vocabulary_spell_sentencepiece(Vocabulary *vocabulary, Error *error);

// Whether a text is spelled like a control piece: <|…|>, <｜…｜>, or one of the well-known names. Added tokens of
// such names are control pieces whatever their file says, for some files say that <|im_end|> is plain text. Those of
// white space (blanks.h) are none.
bool vocabulary_is_control_name(const char *text, size_t size);

// Marks `id` as an end of replies, if it is in range.
void vocabulary_mark_end(Vocabulary *vocabulary, int32_t id);
// Marks every control piece whose text is a known end of turn; last, for <|end|> is none where a reply is several
// messages, whatever was marked before.
void vocabulary_mark_named_ends(Vocabulary *vocabulary);

#endif
