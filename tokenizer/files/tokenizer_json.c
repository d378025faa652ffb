// tokenizer.json, as the Hugging Face tokenizers package writes it.
#include "tokenizer/byte_level.h"
#include "tokenizer/tokenizer_internal.h"
#include "kernels/base/text/json.h"
#include "tokenizer/files/tokenizer_rules.h"

typedef struct JsonFile {
    Tokenizer *tokenizer;
    json_t *root, *model, *vocab, *merges, *added;
    int64_t max_ids; // more ids than the file has bytes cannot be honest
    bool byte_level;
} JsonFile;

// The id under `value`, or an error that names the piece.
static Status read_id(const JsonFile *file, const json_t *value, const char *piece, int32_t *id,
                      Error *error) {
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (number < 0 || number >= file->max_ids) {
        return error_set(error, STATUS_FILE, "piece '%.60s' has the id %lld", piece, (long long)number);
    }
    *id = (int32_t)number;
    return STATUS_OK;
}

static Status count_ids(const JsonFile *file, int64_t *n, Error *error) {
    const char *piece;
    json_t *value;
    int32_t id = 0;
    size_t i;
    Status status = STATUS_OK;
    *n = 0;
    json_object_foreach(file->vocab, piece, value) {
        status = read_id(file, value, piece, &id, error);
        if (status) return status;
        if (id >= *n) *n = (int64_t)id + 1;
    }
    json_array_foreach(file->added, i, value) {
        status = read_id(file, json_member(value, "id"), json_text(value, "content"), &id, error);
        if (status) return status;
        if (id >= *n) *n = (int64_t)id + 1;
    }
    return STATUS_OK;
}

static Status read_pieces(const JsonFile *file, Error *error) {
    int64_t n;
    Status status = count_ids(file, &n, error);
    if (!status) status = vocabulary_init(&file->tokenizer->vocabulary, n, error);
    if (status) return status;
    const char *piece, *unk = json_text(file->model, "unk_token");
    bool fallback = json_flag(file->model, "byte_fallback", false);
    json_t *value;
    json_object_foreach(file->vocab, piece, value) {
        int32_t id = 0;
        size_t size = strlen(piece);
        TokenKind kind = TOKEN_NORMAL;
        if (fallback && !file->byte_level && byte_piece_value(piece, size) >= 0) kind = TOKEN_BYTE;
        if (*unk && !strcmp(piece, unk)) kind = TOKEN_UNKNOWN;
        status = read_id(file, value, piece, &id, error);
        if (!status) status = vocabulary_set(&file->tokenizer->vocabulary, id, piece, size, kind, error);
        if (status) return status;
    }
    return STATUS_OK;
}

// Puts one added token where it will be looked for: those that are declared as normalized, in normalized text.
static Status add_token(Tokenizer *tokenizer, const char *text, size_t size, AddedToken token,
                        bool normalized, Error *error) {
    if (!normalized || token.special || tokenizer->normalizer.n == 0) {
        return tokenizer_add_token(tokenizer, text, size, token, error);
    }
    Text buffer = {0};
    TokenText result;
    Status status =
        normalizer_run(&tokenizer->normalizer, (TokenText){text, size}, false, &buffer, &result, error);
    // Looked for when what the normalizer prepends is there already: nothing comes before what follows it.
    tokenizer->vocabulary.pieces[token.id].cuts = !normalizer_prepends(&tokenizer->normalizer);
    if (!status)
        status = added_tokens_add(&tokenizer->added_normalized, result.text, result.size, token, error);
    text_free(&buffer);
    return status;
}

static Status read_added_token(const JsonFile *file, const json_t *entry, Error *error) {
    Tokenizer *tokenizer = file->tokenizer;
    const char *text = json_text(entry, "content");
    size_t size = strlen(text);
    AddedToken token = {
        .special = json_flag(entry, "special", false) || vocabulary_is_control_name(text, size),
        .single_word = json_flag(entry, "single_word", false),
        .lstrip = json_flag(entry, "lstrip", false),
        .rstrip = json_flag(entry, "rstrip", false),
    };
    Status status = read_id(file, json_member(entry, "id"), text, &token.id, error);
    if (status) return status;
    if (size == 0) return error_set(error, STATUS_FILE, "added token %d has no text", token.id);
    int32_t known =
        vocabulary_find(&tokenizer->vocabulary, text, size); // the model's id counts, if it has one
    if (known >= 0)
        token.id = known;
    else
        tokenizer->vocabulary.pieces[token.id].added = true;
    TokenKind kind = token.special ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    // Characters without a piece may become the unknown token, but in byte-level models it doubles as a control
    // piece.
    bool unknown = known >= 0 && tokenizer->vocabulary.pieces[known].kind == TOKEN_UNKNOWN;
    if (unknown && !file->byte_level) kind = TOKEN_UNKNOWN;
    status = vocabulary_set(&tokenizer->vocabulary, token.id, text, size, kind, error);
    if (status) return status;
    return add_token(tokenizer, text, size, token, json_flag(entry, "normalized", !token.special), error);
}

static Status read_added(const JsonFile *file, Error *error) {
    size_t i;
    json_t *entry;
    Status status = STATUS_OK;
    json_array_foreach(file->added, i, entry) {
        if (!status) status = read_added_token(file, entry, error);
    }
    return status;
}

// A merge is "left right" or ["left", "right"].
static Status read_merge(Tokenizer *tokenizer, const json_t *merge, size_t index, Error *error) {
    const json_t *first = json_array_get(merge, 0), *second = json_array_get(merge, 1);
    if (json_array_size(merge) == 2 && json_is_string(first) && json_is_string(second)) {
        return bpe_add_merge(tokenizer->bpe, json_string_value(first), json_string_length(first),
                             json_string_value(second), json_string_length(second), error);
    }
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ')) return error_set(error, STATUS_FILE, "merge %zu is no pair", index);
    return bpe_add_merge(tokenizer->bpe, text, (size_t)(space - text), space + 1, strlen(space + 1), error);
}

static Status read_merges(const JsonFile *file, Error *error) {
    Tokenizer *tokenizer = file->tokenizer;
    const char *unk = json_text(file->model, "unk_token");
    int32_t unk_id = vocabulary_find(&tokenizer->vocabulary, unk, strlen(unk));
    if (*unk && unk_id < 0)
        return error_set(error, STATUS_FILE, "the unknown token '%.60s' is no piece", unk);
    tokenizer->unk = unk_id;
    if (unk_id >= 0 && tokenizer->vocabulary.pieces[unk_id].kind == TOKEN_CONTROL) unk_id = -1;
    const BpeOptions options = {
        .byte_level = file->byte_level,
        .byte_fallback = json_flag(file->model, "byte_fallback", false) && !file->byte_level,
        .fuse_unk = json_flag(file->model, "fuse_unk", false),
        .ignore_merges = json_flag(file->model, "ignore_merges", false),
        .unk = unk_id,
    };
    Status status = bpe_open(&tokenizer->vocabulary, &options, (int64_t)json_array_size(file->merges),
                             &tokenizer->bpe, error);
    size_t i;
    json_t *merge;
    json_array_foreach(file->merges, i, merge) {
        if (!status) status = read_merge(tokenizer, merge, i, error);
    }
    return status;
}

// Whether what is put around a text begins with BOS, ends with EOS: {"single": [{"SpecialToken": …}, …]}.
static void read_post_processor(Tokenizer *tokenizer, const json_t *processor, int depth) {
    size_t i;
    json_t *item;
    if (json_text_is(processor, "type", "Sequence") && depth < 4) {
        json_array_foreach(json_member(processor, "processors"), i, item) {
            read_post_processor(tokenizer, item, depth + 1);
        }
    }
    if (!json_text_is(processor, "type", "TemplateProcessing")) return;
    const json_t *single = json_member(processor, "single");
    size_t n = json_array_size(single);
    const char *first = json_text(json_member(json_array_get(single, 0), "SpecialToken"), "id");
    const char *last = json_text(json_member(json_array_get(single, n ? n - 1 : 0), "SpecialToken"), "id");
    if (*first) {
        tokenizer->bos = tokenizer_find(tokenizer, first);
        tokenizer->add_bos = tokenizer->bos >= 0;
    }
    if (n > 1 && *last) {
        tokenizer->eos = tokenizer_find(tokenizer, last);
    }
}

// What would change ids and is not followed.
static Status model_check(const JsonFile *file, Error *error) {
    const char *type = json_text(file->model, "type");
    if (*type ? strcmp(type, "BPE") != 0 : !file->merges) {
        return error_set(error, STATUS_UNSUPPORTED, "the model type '%.60s' cannot be used; BPE can", type);
    }
    if (!json_is_object(file->vocab) || !json_is_array(file->merges)) {
        return error_set(error, STATUS_FILE, "the model has no vocab or no merges");
    }
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        if (*json_text(file->model, affixes[i])) {
            return error_set(error, STATUS_UNSUPPORTED, "a model with %s cannot be used", affixes[i]);
        }
    }
    if (json_number_value(json_member(file->model, "dropout")) > 0) {
        return error_set(error, STATUS_UNSUPPORTED, "a model with dropout cannot be used");
    }
    return STATUS_OK;
}

static Status json_file_load(JsonFile *file, Error *error) {
    Tokenizer *tokenizer = file->tokenizer;
    file->model = json_member(file->root, "model");
    file->vocab = json_member(file->model, "vocab");
    file->merges = json_member(file->model, "merges");
    file->added = json_member(file->root, "added_tokens");
    Status status = model_check(file, error);
    if (!status) status = tokenizer_read_normalizer(tokenizer, json_member(file->root, "normalizer"), error);
    if (!status) {
        status = tokenizer_read_pre_tokenizer(tokenizer, json_member(file->root, "pre_tokenizer"),
                                              &file->byte_level, error);
    }
    if (!status) status = read_pieces(file, error);
    if (!status) status = read_added(file, error);
    if (!status) status = read_merges(file, error);
    if (!status) {
        status = file->byte_level ? vocabulary_spell_byte_level(&tokenizer->vocabulary, error)
                                  : vocabulary_spell_sentencepiece(&tokenizer->vocabulary, error);
    }
    if (status) return status;
    read_post_processor(tokenizer, json_member(file->root, "post_processor"), 0);
    snprintf(tokenizer->describe, sizeof tokenizer->describe, "%s",
             file->byte_level ? "byte-level BPE" : "BPE");
    return STATUS_OK;
}

Status tokenizer_load_json(Tokenizer *tokenizer, const char *data, size_t size, const json_t *config,
                           Error *error) {
    json_error_t at;
    JsonFile file = {.tokenizer = tokenizer, .max_ids = size < INT32_MAX / 8 ? (int64_t)size : INT32_MAX / 8};
    file.root = json_load_text(data, size, 0, &at);
    if (!file.root) return json_refuse(size, &at, error);
    Status status = config ? tokenizer_read_beside(file.root, config, error) : STATUS_OK;
    if (!status) status = json_file_load(&file, error);
    json_decref(file.root);
    return status;
}
