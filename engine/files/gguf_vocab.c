#include "engine/files/gguf_vocab.h"

#include "kernels/base/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_UNKNOWN = 160 };

// What llama.cpp's converters write (constants.py of the gguf package), behind "tokenizer.ggml.": what is read, ids of
// tokens for purposes that a chat has none of, and notes.
static const char KNOWN_KEYS[] =
    " model pre tokens token_type token_type_count scores merges added_tokens bos_token_id eos_token_id"
    " unknown_token_id padding_token_id seperator_token_id separator_token_id cls_token_id mask_token_id"
    " eot_token_id eom_token_id fim_pre_token_id fim_suf_token_id fim_mid_token_id fim_pad_token_id"
    " fim_rep_token_id fim_sep_token_id prefix_token_id suffix_token_id middle_token_id add_bos_token"
    " add_eos_token add_sep_token add_space_prefix remove_extra_whitespaces precompiled_charsmap ";

// A short string as C has it, malloc'ed; NULL if the key is absent.
static Status read_name(const Checkpoint *checkpoint, const char *key, const char **name, Error *error) {
    MetaString found = {NULL, 0};
    Status status = checkpoint_get_string(checkpoint, key, &found, error);
    if (status || !found.data) return status;
    *name = strndup(found.data, found.length);
    return *name != NULL ? STATUS_OK
                         : error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint_path(checkpoint));
}

// The array under `key` with room for one `size` each; both stay NULL if it is absent. It must have
// `expected` elements, which bounds the room by what the file's tokens take; -1: any number (strings take
// their own room).
static Status read_array(const Checkpoint *checkpoint, const char *key, MetaType element, int64_t expected,
                         size_t size, const MetaValue **array, void **table, Error *error) {
    Status status = checkpoint_get_array(checkpoint, key, element, array, error);
    if (status || !*array) return status;
    if (expected >= 0 && (*array)->count != expected) {
        error_set(error, STATUS_FILE, "%s: %s has %lld elements for %lld tokens", checkpoint_path(checkpoint),
                  key, (long long)(*array)->count, (long long)expected);
        return STATUS_FILE;
    }
    *table = calloc((size_t)(*array)->count + 1, size);
    if (*table) return STATUS_OK;
    error_set(error, STATUS_MEMORY, "%s: no memory for %s", checkpoint_path(checkpoint), key);
    return STATUS_MEMORY;
}

static Status read_texts(const Checkpoint *checkpoint, const char *key, const TokenText **texts, int64_t *n,
                         Error *error) {
    const MetaValue *array;
    void *table = NULL;
    Status status = read_array(checkpoint, key, META_STRING, -1, sizeof(TokenText), &array, &table, error);
    if (status || !array) return status;
    TokenText *filled = table;
    MetaCursor cursor = {0};
    MetaValue element;
    while (checkpoint_meta_next(array, &cursor, &element)) {
        filled[cursor.index - 1] = (TokenText){element.string.data, element.string.length};
    }
    *texts = filled;
    *n = array->count;
    return STATUS_OK;
}

// Files from before split rules had names: architectures whose models all split text in one way.
static Status infer_pre(const Checkpoint *checkpoint, TokenizerVocab *vocab, Error *error) {
    static const char *const rules[][2] = {{"gpt2", "gpt-2"},          {"gptneox", "olmo"},
                                           {"olmo", "olmo"},           {"mpt", "mpt"},
                                           {"falcon", "falcon"},       {"bloom", "bloom"},
                                           {"phi2", "phi-2"},          {"refact", "refact"},
                                           {"starcoder", "starcoder"}, {"starcoder2", "starcoder"},
                                           {"codeshell", "codeshell"}, {"qwen", "stablelm2"},
                                           {"qwen2", "qwen2"},         {"qwen2moe", "qwen2"},
                                           {"dbrx", "dbrx"},           {"command-r", "command-r"}};
    MetaString found = {NULL, 0};
    Status status = checkpoint_get_string(checkpoint, "general.architecture", &found, error);
    if (status || !found.data) return status;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strlen(rules[i][0]) != found.length || memcmp(rules[i][0], found.data, found.length) != 0)
            continue;
        vocab->pre = strdup(rules[i][1]);
        if (!vocab->pre)
            return error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint_path(checkpoint));
    }
    return STATUS_OK;
}

static Status read_scores(const Checkpoint *checkpoint, TokenizerVocab *vocab, Error *error) {
    static const char KEY[] = "tokenizer.ggml.scores";
    const MetaValue *array;
    void *table = NULL;
    Status status =
        read_array(checkpoint, KEY, META_NUMBER, vocab->n_pieces, sizeof(float), &array, &table, error);
    if (status || !array) return status;
    float *scores = table;
    vocab->scores = scores;
    MetaCursor cursor = {0};
    MetaValue element;
    while (checkpoint_meta_next(array, &cursor, &element)) scores[cursor.index - 1] = (float)element.number;
    return status;
}

static Status read_types(const Checkpoint *checkpoint, TokenizerVocab *vocab, Error *error) {
    static const char KEY[] = "tokenizer.ggml.token_type";
    const MetaValue *array;
    void *table = NULL;
    Status status =
        read_array(checkpoint, KEY, META_INTEGER, vocab->n_pieces, sizeof(int32_t), &array, &table, error);
    if (status || !array) return status;
    int32_t *types = table;
    vocab->types = types;
    MetaCursor cursor = {0};
    MetaValue element;
    while (checkpoint_meta_next(array, &cursor, &element)) {
        bool known = element.integer >= 1 && element.integer <= 6;
        types[cursor.index - 1] = known ? (int32_t)element.integer : 1; // what nobody has defined is normal
    }
    return status;
}

// -1 of what is no token.
static int32_t id_of(const TokenizerVocab *vocab, int64_t value) {
    return value >= 0 && value < vocab->n_pieces ? (int32_t)value : -1;
}

// bos, unk or pad; -1 where the key is absent. What the vocabulary lacks is kept to be told.
static Status read_mark(const Checkpoint *checkpoint, const char *key, TokenizerVocab *vocab, int32_t *id,
                        Error *error) {
    int64_t value = -1;
    Status status = checkpoint_get_integer(checkpoint, key, &value, error);
    *id = id_of(vocab, value);
    if (!status && *id < 0 && !tokenizer_id_is_none(value))
        vocab->lost[vocab->n_lost++] = (TokenizerId){key, value};
    return status;
}

static Status read_ids(const Checkpoint *checkpoint, TokenizerVocab *vocab, Error *error) {
    static const char *const END_KEYS[TOKENIZER_VOCAB_ENDS] = {
        "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    static const char UNKNOWN[] = "tokenizer.ggml.unknown_token_id",
                      PAD[] = "tokenizer.ggml.padding_token_id";
    Status status = read_mark(checkpoint, "tokenizer.ggml.bos_token_id", vocab, &vocab->bos, error);
    for (int i = 0; i < TOKENIZER_VOCAB_ENDS && !status; i++) {
        if (!checkpoint_meta(checkpoint, END_KEYS[i])) continue;
        TokenizerId *end = &vocab->ends[vocab->n_ends++];
        end->key = END_KEYS[i];
        status = checkpoint_get_integer(checkpoint, END_KEYS[i], &end->id, error);
        if (i == 0) vocab->eos = id_of(vocab, end->id);
    }
    if (!status) status = read_mark(checkpoint, UNKNOWN, vocab, &vocab->unk, error);
    return status ? status : read_mark(checkpoint, PAD, vocab, &vocab->pad, error);
}

static Status read_switch(const Checkpoint *checkpoint, const char *key, int *value, Error *error) {
    bool flag = false;
    Status status = checkpoint_get_bool(checkpoint, key, &flag, error);
    if (!status) *value = checkpoint_meta(checkpoint, key) == NULL ? -1 : flag;
    return status;
}

static Status read_charsmap(const Checkpoint *checkpoint, TokenizerVocab *vocab, Error *error) {
    const MetaValue *array;
    Status status =
        checkpoint_get_array(checkpoint, "tokenizer.ggml.precompiled_charsmap", META_INTEGER, &array, error);
    if (status || !array || array->count == 0) return status;
    MetaCursor cursor = {0};
    MetaValue first;
    checkpoint_meta_next(array, &cursor, &first);
    if (cursor.offset != 1) {
        return error_set(error, STATUS_FILE,
                         "%s: tokenizer.ggml.precompiled_charsmap should be an array of bytes",
                         checkpoint_path(checkpoint));
    }
    vocab->charsmap = array->data;
    vocab->charsmap_size = (size_t)array->count;
    return STATUS_OK;
}

// Keys of a tokenizer that nobody reads may say something about its ids.
static Status read_unknown(const Checkpoint *checkpoint, TokenizerVocab *vocab, Error *error) {
    static const char SPACE[] = "tokenizer.ggml.";
    char *names = NULL;
    size_t n = 0;
    for (int64_t i = 0; i < checkpoint_n_meta(checkpoint); i++) {
        const char *key = checkpoint_meta_at(checkpoint, i)->key;
        if (strncmp(key, SPACE, strlen(SPACE)) != 0) continue;
        if (text_is_among(key + strlen(SPACE), KNOWN_KEYS) || n + 80 > MAX_UNKNOWN) continue;
        if (!names) names = calloc(1, MAX_UNKNOWN);
        if (!names) return error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint_path(checkpoint));
        char shown[64];
        text_copy_printable(shown, sizeof shown, key + strlen(SPACE), strlen(key + strlen(SPACE)));
        n += (size_t)snprintf(names + n, MAX_UNKNOWN - n, "%s%s", n > 0 ? ", " : "", shown);
    }
    vocab->unknown = names;
    return STATUS_OK;
}

Status gguf_vocab(const Checkpoint *checkpoint, TokenizerVocab *vocab, Error *error) {
    *vocab = (TokenizerVocab){.bos = -1,
                              .eos = -1,
                              .unk = -1,
                              .pad = -1,
                              .add_bos = -1,
                              .add_space_prefix = -1,
                              .remove_extra_whitespaces = -1};
    if (checkpoint_format(checkpoint) != CHECKPOINT_GGUF) {
        return error_set(error, STATUS_USAGE, "%s: no GGUF file", checkpoint_path(checkpoint));
    }
    const struct {
        const char *key;
        int *value;
    } switches[] = {{"tokenizer.ggml.add_bos_token", &vocab->add_bos},
                    {"tokenizer.ggml.add_space_prefix", &vocab->add_space_prefix},
                    {"tokenizer.ggml.remove_extra_whitespaces", &vocab->remove_extra_whitespaces}};
    Status status = read_name(checkpoint, "tokenizer.ggml.model", &vocab->model, error);
    if (!status) status = read_name(checkpoint, "tokenizer.ggml.pre", &vocab->pre, error);
    if (!status && !vocab->pre) status = infer_pre(checkpoint, vocab, error);
    if (!status) {
        status = read_texts(checkpoint, "tokenizer.ggml.tokens", &vocab->pieces, &vocab->n_pieces, error);
    }
    if (!status && (!vocab->model || vocab->n_pieces == 0 || vocab->n_pieces > INT32_MAX)) {
        status =
            error_set(error, STATUS_FILE, "%s: no vocabulary in this file (tokenizer.ggml.model and tokens)",
                      checkpoint_path(checkpoint));
    }
    if (!status) status = read_scores(checkpoint, vocab, error);
    if (!status) status = read_types(checkpoint, vocab, error);
    if (!status) {
        status = read_texts(checkpoint, "tokenizer.ggml.merges", &vocab->merges, &vocab->n_merges, error);
    }
    if (!status) status = read_ids(checkpoint, vocab, error);
    for (size_t i = 0; i < sizeof switches / sizeof *switches && !status; i++) {
        status = read_switch(checkpoint, switches[i].key, switches[i].value, error);
    }
    if (!status) status = read_unknown(checkpoint, vocab, error);
    return status ? status : read_charsmap(checkpoint, vocab, error);
}

void gguf_vocab_free(TokenizerVocab *vocab) {
    const void *owned[] = {vocab->model, vocab->pre,    vocab->pieces, vocab->scores,
                           vocab->types, vocab->merges, vocab->unknown};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free((void *)owned[i]);
    *vocab = (TokenizerVocab){.bos = -1, .eos = -1, .unk = -1, .pad = -1};
}
