#include "tokenizer/tokenizer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/blanks.h"
#include "tokenizer/tokenizer_internal.h"
#include "kernels/base/text/utf8.h"

Status tokenizer_new(Tokenizer **out, Error *error) {
    *out = calloc(1, sizeof **out);
    if (!*out) return error_set(error, STATUS_MEMORY, "no memory for a tokenizer");
    (*out)->bos = (*out)->eos = (*out)->unk = (*out)->pad = -1;
    return STATUS_OK;
}

void tokenizer_close(Tokenizer *tokenizer) {
    if (!tokenizer) return;
    bpe_close(tokenizer->bpe);
    split_rules_close(tokenizer->split);
    normalizer_free(&tokenizer->normalizer);
    sentencepiece_close(tokenizer->spaced);
    sentencepiece_close(tokenizer->unspaced);
    added_tokens_free(&tokenizer->added);
    added_tokens_free(&tokenizer->added_normalized);
    vocabulary_free(&tokenizer->vocabulary);
    free(tokenizer);
}

// ---- what is told -----------------------------------------------------------------------------------------------

void tokenizer_tell(Tokenizer *tokenizer, const char *format, ...) {
    const size_t n = strlen(tokenizer->notice), room = sizeof tokenizer->notice - n;
    const int used = snprintf(tokenizer->notice + n, room, "%s", n > 0 ? "; " : "");
    va_list list;
    va_start(list, format);
    if ((size_t)used < room) vsnprintf(tokenizer->notice + n + used, room - (size_t)used, format, list);
    va_end(list);
}

// One of a list that ends the notice, whose first item `words` introduce; `n` have come.
static void tell_item(Tokenizer *tokenizer, int *n, const char *words, const char *key, const char *token) {
    enum { MOST_TOLD = 4 };
    char *end = tokenizer->notice + strlen(tokenizer->notice);
    const size_t room = sizeof tokenizer->notice - (size_t)(end - tokenizer->notice);
    if (*n == 0)
        tokenizer_tell(tokenizer, "%s: %s %s", words, key, token);
    else if (*n < MOST_TOLD)
        snprintf(end, room, ", %s %s", key, token);
    else if (*n == MOST_TOLD)
        snprintf(end, room, ", ...");
    ++*n;
}

void tokenizer_tell_mark(Tokenizer *tokenizer, const char *key, const char *token) {
    tell_item(tokenizer, &tokenizer->n_lost_marks,
              "the vocabulary lacks these special tokens (take newer files of the model if replies are odd)",
              key, token);
}

bool tokenizer_mark_end(Tokenizer *tokenizer, const char *key, int64_t id) {
    char number[24];
    if (id >= 0 && id < tokenizer->vocabulary.n) {
        vocabulary_mark_end(&tokenizer->vocabulary, (int32_t)id);
        return true;
    }
    if (tokenizer_id_is_none(id)) return false;
    snprintf(number, sizeof number, "%lld", (long long)id);
    tell_item(tokenizer, &tokenizer->n_lost_ends,
              "the vocabulary lacks these ends of replies (take newer files of the model if replies do not "
              "stop)",
              key, number);
    return false;
}

// ---- facts ------------------------------------------------------------------------------------------------------

static const Piece *piece_at(const Tokenizer *tokenizer, int32_t id) {
    return id >= 0 && id < tokenizer->vocabulary.n ? &tokenizer->vocabulary.pieces[id] : NULL;
}

int64_t tokenizer_size(const Tokenizer *tokenizer) {
    return tokenizer->vocabulary.n;
}
const char *tokenizer_describe(const Tokenizer *tokenizer) {
    return tokenizer->describe;
}
const char *tokenizer_notice(const Tokenizer *tokenizer) {
    return *tokenizer->notice ? tokenizer->notice : NULL;
}
int32_t tokenizer_bos(const Tokenizer *tokenizer) {
    return tokenizer->bos;
}
int32_t tokenizer_eos(const Tokenizer *tokenizer) {
    return tokenizer->eos;
}
int32_t tokenizer_unk(const Tokenizer *tokenizer) {
    return tokenizer->unk;
}
int32_t tokenizer_pad(const Tokenizer *tokenizer) {
    return tokenizer->pad;
}
bool tokenizer_add_bos(const Tokenizer *tokenizer) {
    return tokenizer->add_bos;
}

bool tokenizer_is_end(const Tokenizer *tokenizer, int32_t id) {
    const Piece *piece = piece_at(tokenizer, id);
    return piece && piece->end;
}

int32_t tokenizer_find(const Tokenizer *tokenizer, const char *piece) {
    return vocabulary_find(&tokenizer->vocabulary, piece, strlen(piece));
}

TokenKind tokenizer_kind(const Tokenizer *tokenizer, int32_t id) {
    const Piece *piece = piece_at(tokenizer, id);
    return piece ? piece->kind : TOKEN_UNUSED;
}

const char *tokenizer_piece(const Tokenizer *tokenizer, int32_t id, size_t *size) {
    const Piece *piece = piece_at(tokenizer, id);
    if (size) *size = piece ? piece->text_size : 0;
    return piece ? vocabulary_text(&tokenizer->vocabulary, id) : "";
}

Status tokenizer_add_pieces(Tokenizer *tokenizer, bool user_defined, Error *error) {
    const Vocabulary *vocabulary = &tokenizer->vocabulary;
    Status status = STATUS_OK;
    for (int64_t i = 0; i < vocabulary->n && !status; i++) {
        const Piece *piece = &vocabulary->pieces[i];
        bool special = piece->kind == TOKEN_CONTROL;
        if (!special && !(user_defined && piece->kind == TOKEN_USER_DEFINED)) continue;
        if (piece->text_size == 0) continue;
        status = tokenizer_add_token(tokenizer, vocabulary_text(vocabulary, (int32_t)i), piece->text_size,
                                     (AddedToken){.id = (int32_t)i, .special = special}, error);
    }
    return status;
}

Status tokenizer_add_token(Tokenizer *tokenizer, const char *text, size_t size, AddedToken token,
                           Error *error) {
    tokenizer->vocabulary.pieces[token.id].cuts = true;
    return added_tokens_add(&tokenizer->added, text, size, token, error);
}

void tokenizer_set_interrupt(Tokenizer *tokenizer, const atomic_int *flag) {
    tokenizer->interrupt = flag;
}

// ---- encoding ---------------------------------------------------------------------------------------------------

// One text on its way to ids.
typedef struct Encoding {
    const Tokenizer *tokenizer;
    Tokens *tokens;
    Text normalized;
    SplitBudget budget; // of the whole text
    bool joined;        // it goes on from other tokens, and none of its own came yet
} Encoding;

static Status encode_word(void *context, const char *word, size_t size, Error *error) {
    Encoding *encoding = context;
    return bpe_encode(encoding->tokenizer->bpe, word, size, encoding->tokens, error);
}

// Valid UTF-8 after normalization, which may hold added tokens that are declared as normalized.
static Status encode_normalized(Encoding *encoding, const char *text, size_t size, SplitPlace place,
                                Error *error) {
    const Tokenizer *tokenizer = encoding->tokenizer;
    Status status = STATUS_OK;
    size_t done = 0;
    while (!status && done < size) {
        AddedMatch match = {size, size, -1};
        bool found = added_tokens_next(&tokenizer->added_normalized, text, size, done, NULL, &match);
        const SplitText stretch = {text + done, match.start - done, done ? SPLIT_AFTER_TOKENS : place,
                                   &encoding->budget};
        status = split_rules_run(tokenizer->split, &stretch, encode_word, encoding, error);
        if (found && !status) status = tokens_push(encoding->tokens, match.id, error);
        done = match.stop;
    }
    return status;
}

// Text between added tokens, through our own BPE. What is not UTF-8 is a word of its own, past the normalizer and
// the split rules, which could not read it.
static Status encode_bpe(Encoding *encoding, const char *text, size_t size, SplitPlace place, Error *error) {
    const Tokenizer *tokenizer = encoding->tokenizer;
    Status status = STATUS_OK;
    for (size_t i = 0; i < size && !status;) {
        size_t n = utf8_valid_run(text + i, size - i);
        if (n) {
            TokenText normalized;
            status = normalizer_run(&tokenizer->normalizer, (TokenText){text + i, n}, i > 0,
                                    &encoding->normalized, &normalized, error);
            if (!status) {
                split_budget_add(&encoding->budget, normalized.size);
                status = encode_normalized(encoding, normalized.text, normalized.size,
                                           i ? SPLIT_INSIDE_TEXT : place, error);
            }
        } else {
            n = utf8_invalid_run(text + i, size - i);
            status = bpe_encode(tokenizer->bpe, text + i, n, encoding->tokens, error);
        }
        i += n;
    }
    return status;
}

// Text whose white space is written. One that goes on from other tokens has no dummy space: as the makers' code does, a
// line feed is written before it, and the ids up to that are dropped.
static Status encode_blanks(Encoding *encoding, const SentencePiece *model, const char *text, size_t size,
                            Error *error) {
    Text *written = &encoding->normalized;
    Tokens *tokens = encoding->tokens;
    const int64_t begin = tokens->n;
    written->size = 0;
    Status status = encoding->joined ? blanks_write("\n", 1, written, error) : STATUS_OK;
    if (!status) status = blanks_write(text, size, written, error);
    if (!status) status = sentencepiece_encode(model, written->bytes, written->size, tokens, error);
    if (status || !encoding->joined) return status;
    const int32_t line_feed = tokenizer_find(encoding->tokenizer, "<n>");
    int64_t from = begin;
    while (from < tokens->n && tokens->ids[from++] != line_feed) continue;
    memmove(tokens->ids + begin, tokens->ids + from, (size_t)(tokens->n - from) * sizeof *tokens->ids);
    tokens->n -= from - begin;
    return STATUS_OK;
}

static Status encode_plain(Encoding *encoding, const char *text, size_t size, bool first, Error *error) {
    const Tokenizer *tokenizer = encoding->tokenizer;
    if (size == 0) return STATUS_OK;
    if (tokenizer->bpe)
        return encode_bpe(encoding, text, size, first ? SPLIT_AT_START : SPLIT_AFTER_TOKENS, error);
    const bool spaced =
        tokenizer->dummy_space == DUMMY_SPACE_EACH || (tokenizer->dummy_space == DUMMY_SPACE_FIRST && first);
    const SentencePiece *model = spaced ? tokenizer->spaced : tokenizer->unspaced;
    return tokenizer->blanks ? encode_blanks(encoding, model, text, size, error)
                             : sentencepiece_encode(model, text, size, encoding->tokens, error);
}

static Status encode_text(const Tokenizer *tokenizer, const char *text, size_t size,
                          const SpecialRanges *ranges, bool continues, Tokens *tokens, Error *error) {
    Encoding encoding = {.tokenizer = tokenizer,
                         .tokens = tokens,
                         .budget = split_budget(tokenizer->interrupt),
                         .joined = continues};
    int64_t before = tokens->n;
    Status status = STATUS_OK;
    size_t done = 0;
    while (!status && done < size) {
        AddedMatch match = {size, size, -1};
        bool found = added_tokens_next(&tokenizer->added, text, size, done, ranges, &match);
        status = encode_plain(&encoding, text + done, match.start - done, done == 0 && !continues, error);
        if (found && !status) status = tokens_push(tokens, match.id, error);
        encoding.joined = false;
        done = match.stop;
    }
    text_free(&encoding.normalized);
    if (status) tokens->n = before;
    return status;
}

Status tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t size, bool special,
                        Tokens *tokens, Error *error) {
    const size_t from = 0;
    const SpecialRanges all = {&from, &size, 1};
    return encode_text(tokenizer, text, size, special ? &all : NULL, false, tokens, error);
}

Status tokenizer_encode_spans(const Tokenizer *tokenizer, const TextSpan *spans, int64_t n_spans,
                              bool continues, Tokens *tokens, Error *error) {
    Text text = {0};
    size_t *from = calloc((size_t)n_spans + 1, 2 * sizeof *from);
    if (!from) return error_set(error, STATUS_MEMORY, "no memory for the text's spans");
    size_t *to = from + n_spans + 1;
    int64_t n = 0;
    Status status = STATUS_OK;
    for (int64_t i = 0; i < n_spans && !status; i++) {
        size_t start = text.size;
        status = text_append(&text, spans[i].text, spans[i].size, error);
        if (!spans[i].special || spans[i].size == 0) continue;
        bool joins = n > 0 && to[n - 1] == start; // a literal goes on in the next span
        if (!joins) from[n++] = start;
        to[n - 1] = text.size;
    }
    if (!status) {
        const SpecialRanges ranges = {from, to, n};
        status = encode_text(tokenizer, text.bytes, text.size, &ranges, continues, tokens, error);
    }
    free(from);
    text_free(&text);
    return status;
}

// ---- decoding ---------------------------------------------------------------------------------------------------

const char *tokenizer_bytes(const Tokenizer *tokenizer, int32_t previous, int32_t id, bool with_special,
                            size_t *size) {
    const Piece *piece = piece_at(tokenizer, id);
    *size = 0;
    if (!piece || (piece->kind == TOKEN_CONTROL && !with_special)) return "";
    const char *bytes = vocabulary_bytes(&tokenizer->vocabulary, id);
    *size = piece->bytes_size;
    if (piece->kind != TOKEN_NORMAL || *size == 0 || bytes[0] != ' ') return bytes;
    const Piece *before = piece_at(tokenizer, previous);
    bool first = !before || (tokenizer->dummy_space == DUMMY_SPACE_EACH && before->cuts);
    bool dummy = first && tokenizer->dummy_space != DUMMY_SPACE_NONE;
    *size -= dummy;
    return bytes + dummy;
}

Status tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, bool with_special,
                        char **text, size_t *size, Error *error) {
    Text out = {0};
    Status status = STATUS_OK;
    *text = NULL;
    *size = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        size_t count;
        const char *bytes = tokenizer_bytes(tokenizer, i ? ids[i - 1] : -1, ids[i], with_special, &count);
        status = text_append(&out, bytes, count, error);
    }
    if (!status) status = text_append(&out, "", 1, error);
    if (status) {
        text_free(&out);
        return status;
    }
    *text = out.bytes;
    *size = out.size - 1;
    return STATUS_OK;
}
