// Text to token ids and back: SentencePiece models through their library, byte-level BPE by ourselves.
//
//     text → added tokens → normalizer → split rules → merges → ids          ids → bytes → utf8_stream → text
//
// A Tokenizer is opened from a Hugging Face folder or from the vocabulary that a GGUF file carries. It does
// not change after opening, so several threads may use one. Ids are those of the Hugging Face `tokenizers`
// package (tokenizer.json, byte-level vocabularies) and of the `sentencepiece` package (the others).
//
// What a person types never becomes a control token: special pieces (kind TOKEN_CONTROL) are only recognised in
// text that is marked as special, which is for the literals of chat templates. Added tokens that their file
// declares as not special (kind TOKEN_USER_DEFINED) are ordinary vocabulary and are recognised everywhere, unless
// they are spelled like control tokens (<|im_end|>): those are taken for such, whatever the file says.
//
// Any bytes can be encoded. Byte-level BPE and BPE with byte fallback give every byte that is not part of valid
// UTF-8 its own tokens, so that decoding restores it; SentencePiece's library reads it as U+FFFD. Decoding
// restores every valid UTF-8 text, except what the model itself folds, where the ids leave no choice: a declared
// normalizer (Qwen2's NFC, a SentencePiece model's character map or removal of extra spaces); U+2581, which is
// SentencePiece's space; a leading space under Metaspace; the spaces around an added token that strips them;
// bytes that a vocabulary lacks (SmolLM2's has no 0x04, 0x06, 0x13, 0xF1, …: they are left out).
#ifndef PALAVER_TOKENIZER_TOKENIZER_H
#define PALAVER_TOKENIZER_TOKENIZER_H

#ifndef __cplusplus
#include <stdatomic.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tokenizer/tokens.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Tokenizer Tokenizer;

// ---- opening --------------------------------------------------------------------------------------------------
enum { TOKENIZER_VOCAB_ENDS = 3 };  // keys by which a GGUF file names what ends a reply
enum { TOKENIZER_VOCAB_MARKS = 3 }; // and those of bos, unk and pad

// What a key of a file says.
typedef struct TokenizerId {
    const char *key; // tokenizer.ggml.eot_token_id, …
    int64_t id;      // as the file has it
} TokenizerId;

// Whether an id says that there is no such token: -1, which GGUF has unsigned.
static inline bool tokenizer_id_is_none(int64_t id) {
    return id < 0 || id == UINT32_MAX;
}

// A vocabulary as a GGUF file carries it (keys tokenizer.ggml.*). Everything is borrowed for the call only.
// Fields that the file does not have: NULL, 0 for counts, -1 for ids and for the three-valued switches.
typedef struct TokenizerVocab {
    const char *model; // tokenizer.ggml.model: "gpt2" (byte-level BPE), "gemma4" (BPE of characters),
                       // "llama" (SentencePiece BPE), "t5" (unigram)
    const char *pre;   // tokenizer.ggml.pre: the split rule, "llama-bpe", "tekken", … (split_presets.h)
    int64_t n_pieces;
    const TokenText *pieces; // [n_pieces]
    const float *scores;     // [n_pieces] or NULL
    // [n_pieces] or NULL: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    const int32_t *types;
    int64_t n_merges;
    const TokenText *merges; // [n_merges] "left right", best first
    int32_t bos, eos, unk, pad;
    TokenizerId ends[TOKENIZER_VOCAB_ENDS];  // the first n_ends: what ends a reply
    TokenizerId lost[TOKENIZER_VOCAB_MARKS]; // the first n_lost: bos, unk, pad that are no pieces; -1 above
    int n_ends, n_lost;
    int add_bos, add_space_prefix, remove_extra_whitespaces; // 0, 1, or -1 where the file is silent
    const char *unknown;  // further tokenizer.ggml.* keys, which nobody reads, ", " between them; NULL: none
    const void *charsmap; // precompiled_charsmap of a unigram model, or NULL
    size_t charsmap_size;
} TokenizerVocab;

// Opens the tokenizer of a Hugging Face folder: tokenizer.json where there is one that palaver can follow,
// else Mistral's tekken.json, else tokenizer.model (SentencePiece's, or lines of tiktoken's), else qwen.tiktoken;
// beside it tokenizer_config.json, special_tokens_map.json, added_tokens.json and the end
// tokens of generation_config.json and config.json. STATUS_FILE: missing or damaged; STATUS_UNSUPPORTED names
// the part of the file that palaver cannot follow. *out is NULL on failure.
Status tokenizer_open_folder(const char *folder, Tokenizer **out, Error *error);

// Opens the vocabulary of a GGUF file; see TokenizerVocab. STATUS_UNSUPPORTED names a split rule that is not known.
Status tokenizer_open_vocab(const TokenizerVocab *vocab, Tokenizer **out, Error *error);

void tokenizer_close(Tokenizer *tokenizer); // NULL is fine

#ifndef __cplusplus // whose atomics are others
// Looked at while the splitting of a text takes long: a nonzero flag ends it with STATUS_INTERRUPTED. NULL: never. To
// be set before other threads use the tokenizer.
void tokenizer_set_interrupt(Tokenizer *tokenizer, const atomic_int *flag);
#endif

// ---- facts ----------------------------------------------------------------------------------------------------
int64_t tokenizer_size(const Tokenizer *tokenizer); // number of ids: 0 … size-1
// "byte-level BPE, qwen2 split" or the like, for `palaver inspect`.
const char *tokenizer_describe(const Tokenizer *tokenizer);
// One line that the user should see (the file does not name its split rule, …), or NULL.
const char *tokenizer_notice(const Tokenizer *tokenizer);

int32_t tokenizer_bos(const Tokenizer *tokenizer); // -1: none; the same below
int32_t tokenizer_eos(const Tokenizer *tokenizer);
int32_t tokenizer_unk(const Tokenizer *tokenizer);
int32_t tokenizer_pad(const Tokenizer *tokenizer);
// Whether the model wants BOS before a text. Encoding never adds it: the caller or template does.
bool tokenizer_add_bos(const Tokenizer *tokenizer);
// Whether `id` ends a reply: the declared eos ids and every control token that is named like one (<|im_end|>,
// <|eot_id|>, <|endoftext|>, <end_of_turn>, </s>, …). False for ids out of range.
bool tokenizer_is_end(const Tokenizer *tokenizer, int32_t id);

// The id whose piece is exactly `piece` (as tokenizer_piece gives it), or -1.
int32_t tokenizer_find(const Tokenizer *tokenizer, const char *piece);
// TOKEN_UNUSED for ids out of range.
TokenKind tokenizer_kind(const Tokenizer *tokenizer, int32_t id);
// How the vocabulary spells the token ("Ġthe", "▁the", "<0x0A>", "<|im_end|>"): for display, NUL-terminated,
// lives as long as the tokenizer. *size (may be NULL) counts bytes. "" for ids out of range.
const char *tokenizer_piece(const Tokenizer *tokenizer, int32_t id, size_t *size);

// ---- encoding -------------------------------------------------------------------------------------------------
// What a text may cost is bounded by its length, whatever the tokenizer's file says: STATUS_UNSUPPORTED where its split
// patterns take more steps (split.h) or its normalizer makes more of it (normalize.h). The count is of work, not of
// time: a text that passes once always does.

// A run of text; `special` lets control pieces within it become their ids (a template's literals).
typedef struct TextSpan {
    const char *text;
    size_t size;
    bool special;
} TextSpan;

// Appends the ids of one text, as the beginning of a sequence. On failure `tokens` is as it was.
Status tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t size, bool special,
                        Tokens *tokens, Error *error);

// Appends the ids of the spans' concatenation, exactly as if it were one text (merges cross span borders), except
// that a control piece is only recognised where every byte of it lies in special spans. This is how a template
// is rendered: its literals are special, what people wrote is not.
//
// `continues` says that other tokens come before. It matters for models with a dummy space ("▁Hello" for
// "Hello"), which differ: newer ones (`legacy: false`, Metaspace "first") put it only at the very beginning of a
// sequence, so not when continues is true, nor after a special token; the others (`legacy: true`, Prepend, GGUF)
// put it at the beginning and again after every special token, so continues changes nothing (but for ChatGLM 1's). A literal "<s>" in
// the spans is a special token like any other. As Hugging Face renders templates: one call for the whole prompt.
Status tokenizer_encode_spans(const Tokenizer *tokenizer, const TextSpan *spans, int64_t n_spans,
                              bool continues, Tokens *tokens, Error *error);

// ---- decoding -------------------------------------------------------------------------------------------------
// The bytes of token `id` in the text; they may end in the middle of a character (see utf8.h). `previous`
// is the token before it, -1 at the beginning of a text: there, and after special tokens where the model does so,
// the dummy space is left out. Control tokens have no bytes unless with_special. *size gets the count; the pointer
// is never NULL, not NUL-terminated, and lives as long as the tokenizer.
const char *tokenizer_bytes(const Tokenizer *tokenizer, int32_t previous, int32_t id, bool with_special,
                            size_t *size);

// The text of n ids: *text is NUL-terminated (it may hold further NULs), freed by the caller; bytes as the tokens
// give them, not necessarily valid UTF-8. Ids out of range have none: a model's last rows may be padding.
Status tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, bool with_special,
                        char **text, size_t *size, Error *error);

#ifdef __cplusplus
}
#endif
#endif
