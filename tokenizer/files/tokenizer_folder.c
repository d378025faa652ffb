// A Hugging Face folder: which of its files describe the tokenizer, and what they say about special tokens.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "tokenizer/blanks.h"
#include "tokenizer/tokenizer_internal.h"
#include "kernels/base/text/json.h"
#include "kernels/base/text/quote.h"
#include "tokenizer/files/model_proto.h"

// Llama's largest relatives have 33 MB; nothing sane comes near this.
static const int64_t MAX_FILE_SIZE = (int64_t)1 << 30;

enum { ICE_IMAGES = 20000, MOST_IMAGES = 1 << 20 }; // where ChatGLM 1's files do not say, and at most

// Reads `size` bytes, the whole file, and closes it.
static Status read_whole(int fd, size_t size, const char *path, Text *out, Error *error) {
    Status status = text_grow(out, size + 1, error);
    while (!status && out->size < size) {
        ssize_t n = read(fd, out->bytes + out->size, size - out->size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) status = error_set(error, STATUS_FILE, "%s: cannot be read whole", path);
        out->size += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return status;
}

// Reads a whole file. A missing one is STATUS_OK with *found false.
static Status read_file(const char *folder, const char *name, Text *out, bool *found, Error *error) {
    char path[4096];
    *found = false;
    out->size = 0;
    int n = snprintf(path, sizeof path, "%s/%s", folder, name), fd;
    if (n < 0 || (size_t)n >= sizeof path)
        return error_set(error, STATUS_FILE, "%.200s…: the path is too long", folder);
    int64_t size;
    bool missing;
    Status status = file_open_regular(path, &fd, &size, &missing, error);
    if (status || missing) return status;
    if (file_check_fetched(path, fd, size, error)) {
        close(fd);
        return STATUS_FILE;
    }
    if (size > MAX_FILE_SIZE) {
        close(fd);
        return error_set(error, STATUS_FILE, "%s: %lld bytes; palaver reads up to %lld", path,
                         (long long)size, (long long)MAX_FILE_SIZE);
    }
    status = read_whole(fd, (size_t)size, path, out, error);
    *found = !status;
    return status;
}

// Parses a JSON file of Python's that may be missing: then *out is NULL. *size (may be NULL) gets its bytes.
static Status read_json(const char *folder, const char *name, json_t **out, size_t *size, Error *error) {
    Text text = {0};
    bool found;
    *out = NULL;
    Status status = read_file(folder, name, &text, &found, error);
    if (found) {
        json_error_t at;
        *out = json_load_python(text.bytes, text.size, 0, &at);
        if (!*out) {
            status = json_refuse(text.size, &at, error);
            error_prefix(error, "%s/%s: ", folder, name);
        }
    }
    if (size) *size = text.size;
    text_free(&text);
    return status;
}

// ---- SentencePiece: tokenizer.model and the added tokens beside it ------------------------------------------------

static bool special_listed(const json_t *special_map, const char *text) {
    size_t i;
    json_t *item;
    json_array_foreach(json_member(special_map, "additional_special_tokens"), i, item) {
        const char *name = json_is_string(item) ? json_string_value(item) : json_text(item, "content");
        if (!strcmp(name, text)) return true;
    }
    return false;
}

static Status add_token(Tokenizer *tokenizer, int64_t limit, json_int_t id, const char *text,
                        AddedToken token, Error *error) {
    Vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t size = strlen(text);
    if (id < 0 || id >= limit || size == 0) {
        return error_set(error, STATUS_FILE, "added token '%.60s' has the id %lld", text, (long long)id);
    }
    token.id = (int32_t)id;
    Status status = vocabulary_extend(vocabulary, (int64_t)id + 1, error);
    if (status) return status;
    TokenKind kind = vocabulary->pieces[id].kind;
    token.special |= vocabulary_is_control_name(text, size);
    if (kind == TOKEN_UNUSED || kind == TOKEN_NORMAL)
        kind = token.special ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    token.special |= kind == TOKEN_CONTROL;
    status = vocabulary_set(vocabulary, token.id, text, size, kind, error);
    return status ? status : tokenizer_add_token(tokenizer, text, size, token, error);
}

// tokenizer_config.json: {"added_tokens_decoder": {"32000": {"content": …, "special": …, …}}}
static Status add_decoder_tokens(Tokenizer *tokenizer, const json_t *config, int64_t limit, Error *error) {
    const char *key;
    json_t *entry;
    Status status = STATUS_OK;
    json_object_foreach(json_member(config, "added_tokens_decoder"), key, entry) {
        char *end;
        long long id = strtoll(key, &end, 10);
        const char *text = json_text(entry, "content");
        if (status) continue;
        if (end == key || *end || !*text) {
            status =
                error_set(error, STATUS_FILE,
                          "tokenizer_config.json: added_tokens_decoder: '%.60s' should be an id of an object "
                          "with a content",
                          key);
            continue;
        }
        const AddedToken token = {
            .special = json_flag(entry, "special", false),
            .single_word = json_flag(entry, "single_word", false),
            .lstrip = json_flag(entry, "lstrip", false),
            .rstrip = json_flag(entry, "rstrip", false),
        };
        status = add_token(tokenizer, limit, id, text, token, error);
    }
    return status;
}

// added_tokens.json: {"<pad>": 32000}
static Status add_file_tokens(Tokenizer *tokenizer, const json_t *added, const json_t *special_map,
                              int64_t limit, Error *error) {
    const char *text;
    json_t *value;
    Status status = STATUS_OK;
    json_object_foreach((json_t *)added, text, value) {
        if (status || tokenizer_find(tokenizer, text) >= 0) continue; // described better elsewhere
        const AddedToken token = {.special = special_listed(special_map, text)};
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        status = add_token(tokenizer, limit, id, text, token, error);
    }
    return status;
}

static Status spell_blanks(Vocabulary *vocabulary, Error *error) {
    Status status = STATUS_OK;
    for (int64_t id = 0; id < vocabulary->n && !status; id++) {
        char bytes[BLANKS_MOST];
        const size_t n =
            blanks_read(vocabulary_text(vocabulary, (int32_t)id), vocabulary->pieces[id].text_size, bytes);
        if (n > 0) status = vocabulary_set_bytes(vocabulary, (int32_t)id, bytes, n, error);
    }
    return status;
}

// What ChatGLM 1's class does beyond its pieces: names of white space, and ids of images before all of them.
static Status load_ice(Tokenizer *tokenizer, const char *folder, Text *proto, const json_t *config,
                       Error *error) {
    const json_t *images = json_member(config, "num_image_tokens");
    const json_int_t n = json_is_integer(images) ? json_integer_value(images) : ICE_IMAGES;
    Status status = n >= 0 && n <= MOST_IMAGES
                        ? model_proto_move(proto, (int32_t)n, error)
                        : error_set(error, STATUS_FILE, "num_image_tokens is %lld", (long long)n);
    if (!status) status = tokenizer_load_model_proto(tokenizer, proto, DUMMY_SPACE_EACH, error);
    if (!status) status = spell_blanks(&tokenizer->vocabulary, error);
    if (!status) status = tokenizer_add_pieces(tokenizer, false, error);
    tokenizer->blanks = true;
    tokenizer->bos = tokenizer->eos = tokenizer->unk = tokenizer->pad = -1; // its config's, by their names
    return status ? error_prefix(error, "%s/ice_text.model: ", folder) : STATUS_OK;
}

static Status load_model(Tokenizer *tokenizer, const char *folder, Text *proto, const json_t *config,
                         Error *error) {
    Status status = STATUS_OK;
    if (!json_flag(config, "add_prefix_space", true))
        status = model_proto_set_dummy_prefix(proto, false, error);
    // transformers' "legacy" puts the dummy space before every text between special tokens.
    DummySpace dummy_space = json_flag(config, "legacy", true) ? DUMMY_SPACE_EACH : DUMMY_SPACE_FIRST;
    if (!status) status = tokenizer_load_model_proto(tokenizer, proto, dummy_space, error);
    if (!status) status = tokenizer_add_pieces(tokenizer, false, error);
    if (status) return error_prefix(error, "%s/tokenizer.model: ", folder);
    json_t *added = NULL, *special_map = NULL;
    size_t size = 0;
    status = read_json(folder, "added_tokens.json", &added, &size, error);
    if (!status) status = read_json(folder, "special_tokens_map.json", &special_map, NULL, error);
    // Each further id costs its file some bytes; a far one would only cost us memory.
    int64_t limit = tokenizer_size(tokenizer) + (int64_t)size + 1000 +
                    20 * (int64_t)json_object_size(json_member(config, "added_tokens_decoder"));
    if (!status) status = add_decoder_tokens(tokenizer, config, limit, error);
    if (!status) status = add_file_tokens(tokenizer, added, special_map, limit, error);
    json_decref(added);
    json_decref(special_map);
    tokenizer->add_bos = tokenizer->bos >= 0;
    return status;
}

// ---- what the other files say about special tokens ----------------------------------------------------------------

// A file beside the vocabulary.
typedef struct Named {
    const char *file;
    const json_t *config;
} Named;

// The id of a special token that a file names: "<s>" or {"content": "<s>"}. `known` stays where it is silent.
static int32_t named_token(Tokenizer *tokenizer, const Named *from, const char *key, int32_t known) {
    const json_t *value = json_member(from->config, key);
    const char *name = json_is_string(value) ? json_string_value(value) : json_text(value, "content");
    if (known >= 0 && strcmp(tokenizer_piece(tokenizer, known, NULL), name) == 0) return known;
    int32_t id = *name ? tokenizer_find(tokenizer, name) : -1;
    if (*name && id < 0) {
        char place[64];
        snprintf(place, sizeof place, "%s: %s", from->file, key);
        tokenizer_tell_mark(tokenizer, place, quote(name).text);
    }
    return id >= 0 ? id : known;
}

static void read_names(Tokenizer *tokenizer, const char *file, const json_t *config) {
    const Named from = {file, config};
    tokenizer->bos = named_token(tokenizer, &from, "bos_token", tokenizer->bos);
    tokenizer->eos = named_token(tokenizer, &from, "eos_token", tokenizer->eos);
    tokenizer->unk = named_token(tokenizer, &from, "unk_token", tokenizer->unk);
    tokenizer->pad = named_token(tokenizer, &from, "pad_token", tokenizer->pad);
}

// {"eos_token_id": 2} or {"eos_token_id": [2, 32007]}: all of them end a reply.
static void read_ends(Tokenizer *tokenizer, const char *file, const json_t *config) {
    const json_t *value = json_member(config, "eos_token_id");
    char key[64];
    snprintf(key, sizeof key, "%s: eos_token_id", file);
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        if (tokenizer_mark_end(tokenizer, key, id) && tokenizer->eos < 0) tokenizer->eos = (int32_t)id;
    }
}

static Status read_special(Tokenizer *tokenizer, const char *folder, const json_t *config, Error *error) {
    static const char *const files[] = {"generation_config.json", "config.json"};
    json_t *special_map = NULL;
    Status status = read_json(folder, "special_tokens_map.json", &special_map, NULL, error);
    read_names(tokenizer, "special_tokens_map.json", special_map);
    read_names(tokenizer, "tokenizer_config.json", config);
    json_decref(special_map);
    for (int i = 0; i < 2 && !status; i++) {
        json_t *other = NULL;
        status = read_json(folder, files[i], &other, NULL, error);
        read_ends(tokenizer, files[i], other);
        json_decref(other);
    }
    tokenizer->add_bos = json_flag(config, "add_bos_token", tokenizer->add_bos) && tokenizer->bos >= 0;
    vocabulary_mark_end(&tokenizer->vocabulary, tokenizer->eos);
    vocabulary_mark_named_ends(&tokenizer->vocabulary);
    return status;
}

// ---- the folder ---------------------------------------------------------------------------------------------------

typedef enum Source {
    SOURCE_JSON,
    SOURCE_TEKKEN,
    SOURCE_MODEL,
    SOURCE_TIKTOKEN,
    SOURCE_ICE,
    N_SOURCES
} Source;
static const char *const SOURCES[N_SOURCES] = {"tokenizer.json", "tekken.json", "tokenizer.model",
                                               "qwen.tiktoken", "ice_text.model"};

static Status load_source(Tokenizer *tokenizer, Source source, const char *folder, Text *text,
                          const json_t *config, Error *error) {
    bool lines = tokenizer_is_tiktoken(text->bytes, text->size); // also what some call tokenizer.model
    if (source == SOURCE_ICE) return load_ice(tokenizer, folder, text, config, error);
    if (source == SOURCE_MODEL && !lines) return load_model(tokenizer, folder, text, config, error);
    Status status = source == SOURCE_JSON
                        ? tokenizer_load_json(tokenizer, text->bytes, text->size, config, error)
                    : source == SOURCE_TEKKEN
                        ? tokenizer_load_tekken(tokenizer, text->bytes, text->size, error)
                        : tokenizer_load_tiktoken(tokenizer, text->bytes, text->size, config, error);
    return status ? error_prefix(error, "%s/%s: ", folder, SOURCES[source]) : STATUS_OK;
}

// Loads the first of SOURCES that the folder has, or if that has something palaver cannot follow, the next.
static Status folder_load(Tokenizer **tokenizer, const char *folder, const json_t *config, Error *error) {
    Text text = {0};
    bool any = false;
    Status status = STATUS_OK;
    for (Source source = 0; source < N_SOURCES && (!any || status == STATUS_UNSUPPORTED); source++) {
        bool found = false;
        Error later = {0};
        Status read = read_file(folder, SOURCES[source], &text, &found, &later);
        if (!read && !found) continue;
        if (any) tokenizer_close(*tokenizer);
        if (any && tokenizer_new(tokenizer, &later)) read = STATUS_MEMORY;
        if (!read) read = load_source(*tokenizer, source, folder, &text, config, &later);
        if (!any || read != STATUS_UNSUPPORTED) {
            status = read;
            if (error) *error = later;
        }
        any = true;
    }
    text_free(&text);
    if (any) return status;
    return error_set(error, STATUS_FILE, "%s has neither %s, %s, %s, %s nor %s", folder, SOURCES[0],
                     SOURCES[1], SOURCES[2], SOURCES[3], SOURCES[4]);
}

// What would be taken for silence. A null is one: "legacy" has it in many files.
static Status check_config(const char *folder, const json_t *config, Error *error) {
    static const JsonTyped TYPED[] = {
        {"add_bos_token", JSON_A_FLAG},
        {"add_prefix_space", JSON_A_FLAG},
        {"legacy", JSON_A_FLAG},
        {"bos_token", JSON_A_STRING | JSON_AN_OBJECT},
        {"eos_token", JSON_A_STRING | JSON_AN_OBJECT},
        {"unk_token", JSON_A_STRING | JSON_AN_OBJECT},
        {"pad_token", JSON_A_STRING | JSON_AN_OBJECT},
        {"added_tokens_decoder", JSON_AN_OBJECT},
        {"num_image_tokens", JSON_AN_INTEGER},
    };
    char what[512];
    snprintf(what, sizeof what, "%.400s/tokenizer_config.json", folder);
    Status status = STATUS_OK;
    for (size_t i = 0; i < sizeof TYPED / sizeof *TYPED && !status; i++)
        status = json_check_type(config, what, &TYPED[i], error);
    return status;
}

Status tokenizer_open_folder(const char *folder, Tokenizer **out, Error *error) {
    *out = NULL;
    Tokenizer *tokenizer = NULL;
    json_t *config = NULL;
    Status status = read_json(folder, "tokenizer_config.json", &config, NULL, error);
    if (!status) status = check_config(folder, config, error);
    if (!status) status = tokenizer_new(&tokenizer, error);
    if (!status) status = folder_load(&tokenizer, folder, config, error);
    if (!status) status = read_special(tokenizer, folder, config, error);
    json_decref(config);
    if (status) {
        tokenizer_close(tokenizer);
        return status;
    }
    *out = tokenizer;
    return STATUS_OK;
}
