#include "tests/support/model/tokenizer_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

char *golden_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be opened", path);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, file), *size);
    data[*size] = 0;
    fclose(file);
    return data;
}

GoldenTexts golden_texts(void) {
    return golden_texts_of(GOLDEN_TOKENIZERS "/strings.bin");
}

GoldenTexts golden_texts_of(const char *path) {
    size_t size, at = 8;
    GoldenTexts texts = {.data = golden_read(path, &size)};
    uint32_t counts[2];
    memcpy(counts, texts.data, sizeof counts);
    texts.n_valid = counts[0];
    texts.n = (int64_t)counts[0] + counts[1];
    texts.texts = calloc((size_t)texts.n, sizeof *texts.texts);
    for (int64_t i = 0; i < texts.n; i++) {
        uint16_t length;
        assert_true(at + 2 <= size);
        memcpy(&length, texts.data + at, sizeof length);
        texts.texts[i] = (TokenText){texts.data + at + 2, length};
        at += 2u + length;
    }
    assert_int_equal(at, size);
    return texts;
}

void golden_texts_free(GoldenTexts *texts) {
    free(texts->data);
    free(texts->texts);
}

Tokenizer *golden_open(const char *name) {
    char path[256];
    Tokenizer *tokenizer;
    Error error = {0};
    snprintf(path, sizeof path, GOLDEN_TOKENIZERS "/%s", name);
    if (tokenizer_open_folder(path, &tokenizer, &error)) fail_msg("%s: %s", path, error.message);
    return tokenizer;
}

static json_t *read_json(const char *name, const char *file) {
    char path[256];
    snprintf(path, sizeof path, GOLDEN_TOKENIZERS "/%s/%s", name, file);
    return json_load_file(path, 0, NULL);
}

static TokenText text_of(const json_t *string) {
    return (TokenText){json_string_value(string), json_string_length(string)};
}

static void vocab_merges(GoldenVocab *vocab, const json_t *merges);

static void vocab_from_gguf_view(GoldenVocab *vocab) {
    const json_t *pieces = json_object_get(vocab->json, "pieces"),
                 *charsmap = json_object_get(vocab->json, "charsmap");
    size_t n = json_array_size(pieces), n_map = json_array_size(charsmap);
    vocab->pieces = calloc(n, sizeof *vocab->pieces);
    vocab->scores = calloc(n, sizeof *vocab->scores);
    vocab->types = calloc(n, sizeof *vocab->types);
    vocab->charsmap = malloc(n_map + 1);
    for (size_t i = 0; i < n; i++) {
        vocab->pieces[i] = text_of(json_array_get(pieces, i));
        vocab->scores[i] =
            (float)json_number_value(json_array_get(json_object_get(vocab->json, "scores"), i));
        vocab->types[i] =
            (int32_t)json_integer_value(json_array_get(json_object_get(vocab->json, "types"), i));
    }
    for (size_t i = 0; i < n_map; i++)
        vocab->charsmap[i] = (char)json_integer_value(json_array_get(charsmap, i));
    vocab->vocab.n_pieces = (int64_t)n;
    vocab->vocab.charsmap = n_map ? vocab->charsmap : NULL;
    vocab->vocab.charsmap_size = n_map;
    vocab_merges(vocab, json_object_get(vocab->json, "merges"));
    vocab->vocab.model = json_string_value(json_object_get(vocab->json, "model"));
}

// "left right" of every merge, one after the other in vocab->joined.
static void vocab_merges(GoldenVocab *vocab, const json_t *merges) {
    size_t n = json_array_size(merges), at = 0;
    vocab->merges = calloc(n + 1, sizeof *vocab->merges);
    vocab->joined = malloc(n * 64 + 64);
    for (size_t i = 0; i < n; i++) {
        const json_t *merge = json_array_get(merges, i);
        char *to = vocab->joined + at;
        int size = json_is_string(merge)
                       ? snprintf(to, 64, "%s", json_string_value(merge))
                       : snprintf(to, 64, "%s %s", json_string_value(json_array_get(merge, 0)),
                                  json_string_value(json_array_get(merge, 1)));
        vocab->merges[i] = (TokenText){to, (size_t)size};
        at += (size_t)size;
    }
    vocab->vocab.merges = vocab->merges;
    vocab->vocab.n_merges = (int64_t)n;
}

static void vocab_from_tokenizer_json(GoldenVocab *vocab) {
    json_t *model = json_object_get(vocab->json, "model"), *pieces = json_object_get(model, "vocab"), *value;
    json_t *added = json_object_get(vocab->json, "added_tokens");
    size_t n = json_object_size(pieces) + json_array_size(added), i;
    const char *piece;
    vocab->pieces = calloc(n, sizeof *vocab->pieces);
    vocab->types = calloc(n, sizeof *vocab->types);
    json_object_foreach(pieces, piece, value) {
        int64_t id = json_integer_value(value);
        vocab->pieces[id] = (TokenText){piece, strlen(piece)};
        vocab->types[id] = 1;
        if (id >= vocab->vocab.n_pieces) vocab->vocab.n_pieces = id + 1;
    }
    json_array_foreach(added, i, value) {
        int64_t id = json_integer_value(json_object_get(value, "id"));
        vocab->pieces[id] = text_of(json_object_get(value, "content"));
        vocab->types[id] = json_is_true(json_object_get(value, "special")) ? 3 : 4;
        if (id >= vocab->vocab.n_pieces) vocab->vocab.n_pieces = id + 1;
    }
    vocab_merges(vocab, json_object_get(model, "merges"));
    vocab->vocab.model = "gpt2";
}

GoldenVocab golden_vocab(const char *name, const char *pre) {
    GoldenVocab vocab = {.vocab = {.pre = pre, .bos = -1, .eos = -1, .unk = -1, .pad = -1}};
    vocab.vocab.add_bos = -1;
    vocab.vocab.add_space_prefix = vocab.vocab.remove_extra_whitespaces = -1;
    vocab.json = read_json(name, "vocab.json");
    bool view = vocab.json != NULL;
    if (!view) vocab.json = read_json(name, "tokenizer.json");
    assert_non_null(vocab.json);
    if (view)
        vocab_from_gguf_view(&vocab);
    else
        vocab_from_tokenizer_json(&vocab);
    vocab.vocab.pieces = vocab.pieces;
    vocab.vocab.scores = vocab.scores;
    vocab.vocab.types = vocab.types;
    return vocab;
}

void golden_vocab_free(GoldenVocab *vocab) {
    free(vocab->pieces);
    free(vocab->merges);
    free(vocab->scores);
    free(vocab->types);
    free(vocab->joined);
    free(vocab->charsmap);
    json_decref(vocab->json);
}

uint32_t golden_hash(const Tokens *tokens) {
    uint64_t h = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < tokens->n; i++) {
        for (int shift = 0; shift < 32; shift += 8) {
            h = (h ^ ((uint32_t)tokens->ids[i] >> shift & 0xFF)) * 0x100000001b3u;
        }
    }
    return (uint32_t)h;
}

Tokens golden_encode(const Tokenizer *tokenizer, TokenText text, bool special) {
    Tokens tokens = {0};
    Error error = {0};
    if (tokenizer_encode(tokenizer, text.text, text.size, special, &tokens, &error))
        fail_msg("%s", error.message);
    return tokens;
}

bool golden_contains(TokenText text, const char *part) {
    return memmem(text.text, text.size, part, strlen(part));
}

static void print_text(TokenText text) {
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.text[i];
        if (c >= 0x20 && c < 0x7F && c != '\\')
            fputc(c, stderr);
        else
            fprintf(stderr, "\\x%02X", c);
    }
}

// The first ids of a text as the package gives them, where they are recorded as text.
static void print_expected(const char *name, int64_t index) {
    char path[256], line[8192];
    snprintf(path, sizeof path, GOLDEN_TOKENIZERS "/%s/ids.txt", name);
    FILE *file = fopen(path, "r");
    for (int64_t i = 0; file && fgets(line, sizeof line, file); i++) {
        if (i == index) fprintf(stderr, "   expected: %s", line);
    }
    if (file) fclose(file);
}

void golden_print(const char *name, int64_t index, TokenText text, const Tokens *tokens) {
    fprintf(stderr, "%s: text %lld '", name, (long long)index);
    print_text(text);
    fprintf(stderr, "'\n   ids:     ");
    for (int64_t i = 0; i < tokens->n; i++) fprintf(stderr, " %d", tokens->ids[i]);
    fprintf(stderr, "\n");
    print_expected(name, index);
}
