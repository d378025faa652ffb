#include "engine/tokenizer_source.h"

#include <stdlib.h>
#include <string.h>

static Status get_text(const Checkpoint *c, const char *key, char *text, size_t size, Error *error) {
    MetaString value = {0};
    Status status = checkpoint_get_string(c, key, &value, error);
    size_t n = value.length < size - 1 ? value.length : size - 1;
    if (n) memcpy(text, value.data, n);
    text[n] = 0;
    return status;
}

static Status get_id(const Checkpoint *c, const char *key, int32_t *id, Error *error) {
    int64_t value = -1;
    Status status = checkpoint_get_integer(c, key, &value, error);
    // Files spell "none" as -1 or 2^32 - 1; the tokenizer refuses what is beyond its vocabulary.
    *id = value >= 0 && value < INT32_MAX ? (int32_t)value : -1;
    return status;
}

static Status get_switch(const Checkpoint *c, const char *key, int *value, Error *error) {
    *value = -1;
    if (!checkpoint_meta(c, key)) return STATUS_OK;
    bool flag = false;
    Status status = checkpoint_get_bool(c, key, &flag, error);
    *value = flag;
    return status;
}

// An array of strings as TokenText; NULL if the key is absent. malloc'ed.
static Status get_texts(const Checkpoint *c, const char *key, TokenText **texts, int64_t *n, Error *error) {
    const MetaValue *array = NULL;
    *texts = NULL;
    *n = 0;
    Status status = checkpoint_get_array(c, key, META_STRING, &array, error);
    if (status || !array) return status;
    *texts = calloc((size_t)array->count + 1, sizeof **texts);
    if (!*texts) return error_set(error, STATUS_MEMORY, "%s: no memory for %lld strings", key, (long long)array->count);
    MetaCursor cursor = {0};
    MetaValue element;
    while (meta_next(array, &cursor, &element))
        (*texts)[(*n)++] = (TokenText){element.string.data, element.string.length};
    return STATUS_OK;
}

// Scores (as float) or types (as int32), one for each piece; NULL if absent. malloc'ed.
static Status get_numbers(const Checkpoint *c, const char *key, int64_t n_pieces, float **scores, int32_t **types,
                          Error *error) {
    const MetaValue *array = NULL;
    Status status = checkpoint_get_array(c, key, scores ? META_NUMBER : META_INTEGER, &array, error);
    if (status || !array) return status;
    if (array->count != n_pieces)
        return error_set(error, STATUS_FILE, "%s has %lld elements, tokenizer.ggml.tokens %lld", key,
                         (long long)array->count, (long long)n_pieces);
    void *values = calloc((size_t)n_pieces + 1, 4);
    if (!values) return error_set(error, STATUS_MEMORY, "%s: no memory for %lld numbers", key, (long long)n_pieces);
    if (scores) *scores = values;
    else *types = values;
    MetaCursor cursor = {0};
    MetaValue element;
    for (int64_t i = 0; meta_next(array, &cursor, &element); i++) {
        if (scores) (*scores)[i] = (float)element.number;
        else (*types)[i] = (int32_t)element.integer;
    }
    return STATUS_OK;
}

static Status get_charsmap(const Checkpoint *c, TokenizerVocab *vocab, Error *error) {
    const MetaValue *array = NULL;
    Status status = checkpoint_get_array(c, "tokenizer.ggml.precompiled_charsmap", META_INTEGER, &array, error);
    if (status || !array || array->count == 0) return status;
    MetaCursor cursor = {0}, second = {0};
    MetaValue element;
    meta_next(array, &cursor, &element);
    if (cursor.offset - second.offset != 1)
        return error_set(error, STATUS_FILE, "tokenizer.ggml.precompiled_charsmap: expected an array of bytes");
    vocab->charsmap = array->data;
    vocab->charsmap_size = (size_t)array->count;
    return STATUS_OK;
}

static Status open_vocabulary(const Checkpoint *c, Tokenizer **tokenizer, Error *error) {
    static const char *const end_keys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    char model[64], pre[64];
    TokenText *pieces = NULL, *merges = NULL;
    float *scores = NULL;
    int32_t *types = NULL, ends[2];
    TokenizerVocab v = {.model = model, .pre = pre, .ends = ends};
    Status s = get_text(c, "tokenizer.ggml.model", model, sizeof model, error);
    if (!s) s = get_text(c, "tokenizer.ggml.pre", pre, sizeof pre, error);
    if (!s) s = get_texts(c, "tokenizer.ggml.tokens", &pieces, &v.n_pieces, error);
    if (!s) s = get_texts(c, "tokenizer.ggml.merges", &merges, &v.n_merges, error);
    if (!s) s = get_numbers(c, "tokenizer.ggml.scores", v.n_pieces, &scores, NULL, error);
    if (!s) s = get_numbers(c, "tokenizer.ggml.token_type", v.n_pieces, NULL, &types, error);
    if (!s) s = get_id(c, "tokenizer.ggml.bos_token_id", &v.bos, error);
    if (!s) s = get_id(c, "tokenizer.ggml.eos_token_id", &v.eos, error);
    if (!s) s = get_id(c, "tokenizer.ggml.unknown_token_id", &v.unk, error);
    if (!s) s = get_id(c, "tokenizer.ggml.padding_token_id", &v.pad, error);
    for (int i = 0; i < 2 && !s; i++) {
        s = get_id(c, end_keys[i], &ends[v.n_ends], error);
        if (ends[v.n_ends] >= 0) v.n_ends++;
    }
    if (!s) s = get_switch(c, "tokenizer.ggml.add_bos_token", &v.add_bos, error);
    if (!s) s = get_switch(c, "tokenizer.ggml.add_eos_token", &v.add_eos, error);
    if (!s) s = get_switch(c, "tokenizer.ggml.add_space_prefix", &v.add_space_prefix, error);
    if (!s) s = get_switch(c, "tokenizer.ggml.remove_extra_whitespaces", &v.remove_extra_whitespaces, error);
    if (!s) s = get_charsmap(c, &v, error);
    if (!s && !pieces)
        s = error_set(error, STATUS_FILE, "%s: no tokenizer.ggml.tokens; the file has no vocabulary", checkpoint_path(c));
    v.pieces = pieces;
    v.merges = merges;
    v.scores = scores;
    v.types = types;
    if (!*model) v.model = NULL;
    if (!*pre) v.pre = NULL;
    if (!s && (s = tokenizer_open_vocab(&v, tokenizer, error))) error_prefix(error, "%s: ", checkpoint_path(c));
    free(pieces);
    free(merges);
    free(scores);
    free(types);
    return s;
}

Status tokenizer_open_for(const Checkpoint *checkpoint, Tokenizer **tokenizer, Error *error) {
    *tokenizer = NULL;
    if (checkpoint_format(checkpoint) == CHECKPOINT_GGUF) return open_vocabulary(checkpoint, tokenizer, error);
    return tokenizer_open_folder(checkpoint_path(checkpoint), tokenizer, error);
}
