#include "tokenizer/files/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/utf8.h"
#include "tokenizer/byte_level.h"

// The value of a base64 character, or -1.
static int digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// Bytes of a base64 text (RFC 4648, padded) in `to`; -1: it is none, or too long a one.
static int64_t decode(const char *text, size_t size, uint8_t to[RANKS_MAX_PIECE]) {
    if (size == 0 || size % 4 != 0 || size / 4 * 3 > RANKS_MAX_PIECE) return -1;
    size_t padding = text[size - 1] != '=' ? 0 : text[size - 2] != '=' ? 1 : 2;
    int64_t n = 0;
    for (size_t i = 0; i < size; i += 4) {
        uint32_t word = 0;
        for (size_t j = 0; j < 4; j++) {
            int value = i + j >= size - padding ? 0 : digit(text[i + j]);
            if (value < 0) return -1;
            word = word << 6 | (uint32_t)value;
        }
        for (int shift = 16; shift >= 0; shift -= 8) to[n++] = (uint8_t)(word >> shift);
    }
    return n - (int64_t)padding;
}

Status ranks_set_piece(Tokenizer *tokenizer, int32_t id, const char *base64, size_t size, Error *error) {
    uint8_t bytes[RANKS_MAX_PIECE];
    char text[2 * RANKS_MAX_PIECE + 8];
    int64_t n = decode(base64, size, bytes);
    size_t written = 0;
    if (n <= 0)
        return error_set(error, STATUS_FILE,
                         "piece %d is no base64 of 1 to %d bytes: the file is damaged; fetch it again", id,
                         RANKS_MAX_PIECE);
    for (int64_t i = 0; i < n; i++) written += (size_t)utf8_write(byte_level_char(bytes[i]), text + written);
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    if (vocabulary_find(vocabulary, text, written) >= 0 || vocabulary->pieces[id].text_size > 0)
        return error_set(error, STATUS_FILE, "piece %d is there twice: the file is damaged; fetch it again",
                         id);
    return vocabulary_set(vocabulary, id, text, written, TOKEN_NORMAL, error);
}

// All pairs of pieces that are piece `id` together, as many as are counted where no merges are taken yet.
static Status split_piece(Tokenizer *tokenizer, int32_t id, int64_t *count, Error *error) {
    const Vocabulary *vocabulary = &tokenizer->vocabulary;
    const char *text = vocabulary_text(vocabulary, id);
    size_t size = vocabulary->pieces[id].text_size;
    Status status = STATUS_OK;
    for (size_t at = 1; at < size && !status; at++) {
        if (((unsigned char)text[at] & 0xC0) == 0x80) continue; // within a byte's stand-in
        int32_t left = vocabulary_find(vocabulary, text, at),
                right = left < 0 ? -1 : vocabulary_find(vocabulary, text + at, size - at);
        if (right < 0) continue;
        ++*count;
        if (tokenizer->bpe) status = bpe_add_ranked(tokenizer->bpe, left, right, id, id, error);
    }
    return status;
}

Status ranks_finish(Tokenizer *tokenizer, int32_t first, int32_t n, Error *error) {
    const BpeOptions options = {.byte_level = true, .ignore_merges = true, .unk = -1};
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    int64_t merges = 0, again = 0;
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        if (vocabulary_find(vocabulary, text,
                            (size_t)utf8_write(byte_level_char((unsigned char)byte), text)) < 0)
            return error_set(error, STATUS_FILE, "byte %d has no piece: the file is damaged; fetch it again",
                             byte);
    }
    for (int32_t id = first; id < first + n; id++) {
        if (vocabulary->pieces[id].text_size == 0)
            return error_set(error, STATUS_FILE,
                             "no piece has the rank %d: the file is damaged; fetch it again", id - first);
        split_piece(tokenizer, id, &merges, NULL);
    }
    Status status = bpe_open(vocabulary, &options, merges, &tokenizer->bpe, error);
    for (int32_t id = first; id < first + n && !status; id++)
        status = split_piece(tokenizer, id, &again, error);
    return status ? status : vocabulary_spell_byte_level(vocabulary, error);
}

Status ranks_add_special(Tokenizer *tokenizer, int32_t id, const char *text, Error *error) {
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t size = strlen(text);
    if (id < 0 || id >= vocabulary->n || size == 0)
        return error_set(error, STATUS_FILE, "the special token '%.60s' has the id %d", text, id);
    if (vocabulary->pieces[id].text_size > 0)
        return error_set(error, STATUS_FILE, "the special token '%.60s' has the id of another one, %d", text,
                         id);
    vocabulary->pieces[id].added = true;
    Status status = vocabulary_set(vocabulary, id, text, size, TOKEN_CONTROL, error);
    if (status) return status;
    const int64_t before = tokenizer->added.n;
    status = tokenizer_add_token(tokenizer, text, size, (AddedToken){.id = id, .special = true}, error);
    if (status || tokenizer->added.n > before) return status;
    return error_set(error, STATUS_FILE, "the special token '%.60s' has two ids, the second is %d", text, id);
}
