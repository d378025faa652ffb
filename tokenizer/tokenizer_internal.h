// What a Tokenizer is made of, for the files that open one.
#ifndef PALAVER_TOKENIZER_INTERNAL_H
#define PALAVER_TOKENIZER_INTERNAL_H

#include "kernels/base/text/json.h"
#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/normalize.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/split/split.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

// Where a dummy space goes: nowhere, before a sequence's first text, or before every text between added tokens.
typedef enum DummySpace { DUMMY_SPACE_NONE, DUMMY_SPACE_FIRST, DUMMY_SPACE_EACH } DummySpace;

struct Tokenizer {
    Vocabulary vocabulary;
    AddedTokens added;            // looked for in the text as it comes
    AddedTokens added_normalized; // looked for in the normalized text
    DummySpace dummy_space;       // what decoding takes away, and what `spaced` is for

    // One of the two: our own BPE behind a normalizer and split rules …
    Bpe *bpe;
    Normalizer normalizer;
    SplitRules *split;
    // … or the library's model, once with and once without its dummy space; NULL where that is not needed.
    SentencePiece *spaced, *unspaced;
    bool blanks; // which is given names of white space (blanks.h)

    int32_t bos, eos, unk, pad;
    bool add_bos;
    const atomic_int *interrupt; // NULL: none
    char describe[128];
    char notice[1024]; // "" if there is nothing to say
    int n_lost_ends;   // ids that tokenizer_mark_end() has told of
    int n_lost_marks;  // and tokenizer_tell_mark()
};

// An empty one: no ids, no pieces.
Status tokenizer_new(Tokenizer **out, Error *error);

// Adds to the notice; "; " stands between.
void tokenizer_tell(Tokenizer *tokenizer, const char *format, ...) __attribute__((format(printf, 2, 3)));

// What ends a reply, as `key` of the model's files says. An id that the vocabulary lacks does not: the model is used all
// the same, and the notice names it, unless it is -1, which means none. Whether the vocabulary has it.
bool tokenizer_mark_end(Tokenizer *tokenizer, const char *key, int64_t id);

// What `key` of the model's files says is bos, eos, unk or pad, by its id or its name: the vocabulary lacks it, and the
// model is used without. To be told before what tokenizer_mark_end() finds.
void tokenizer_tell_mark(Tokenizer *tokenizer, const char *key, const char *token);

// Reads the ModelProto in `proto` (whose content may change) into an empty tokenizer. `dummy_space` other than
// NONE is dropped to NONE where the model itself wants no dummy space.
Status tokenizer_load_model_proto(Tokenizer *tokenizer, Text *proto, DummySpace dummy_space, Error *error);

// Reads a tokenizer.json of `size` bytes, with the tokenizer_config.json beside it (may be NULL), into an empty tokenizer.
Status tokenizer_load_json(Tokenizer *tokenizer, const char *data, size_t size, const json_t *config,
                           Error *error);

// Reads Mistral's tekken.json, or a file of tiktoken's (a line for each piece: base64, rank), into an empty tokenizer.
// Which split rule and special tokens go with the latter stands in no file: they are those of `config`, the folder's
// tokenizer_config.json (may be NULL).
Status tokenizer_load_tekken(Tokenizer *tokenizer, const char *data, size_t size, Error *error);
Status tokenizer_load_tiktoken(Tokenizer *tokenizer, const char *data, size_t size, const json_t *config,
                               Error *error);
// Whether these bytes are such lines.
bool tokenizer_is_tiktoken(const char *data, size_t size);

// Adds a token that is looked for in the text as it comes; `token.id` is in the vocabulary.
Status tokenizer_add_token(Tokenizer *tokenizer, const char *text, size_t size, AddedToken token,
                           Error *error);

// Every control piece becomes a special added token, and, if user_defined, every user-defined one a plain one.
Status tokenizer_add_pieces(Tokenizer *tokenizer, bool user_defined, Error *error);

#endif
