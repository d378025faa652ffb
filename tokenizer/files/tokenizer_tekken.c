// tekken.json, as Mistral's own package reads it: control tokens first, then pieces in the order of their ranks.
#include <stdio.h>
#include <string.h>

#include "kernels/base/text/text.h"
#include "tokenizer/files/ranks.h"

// The special tokens of files that do not list them.
static const char *const SPECIALS[] = {"<unk>",
                                       "<s>",
                                       "</s>",
                                       "[INST]",
                                       "[/INST]",
                                       "[AVAILABLE_TOOLS]",
                                       "[/AVAILABLE_TOOLS]",
                                       "[TOOL_RESULTS]",
                                       "[/TOOL_RESULTS]",
                                       "[TOOL_CALLS]",
                                       "[IMG]",
                                       "<pad>",
                                       "[IMG_BREAK]",
                                       "[IMG_END]",
                                       "[PREFIX]",
                                       "[MIDDLE]",
                                       "[SUFFIX]",
                                       "[SYSTEM_PROMPT]",
                                       "[/SYSTEM_PROMPT]",
                                       "[TOOL_CONTENT]"};
// Before version 7 a system prompt stands in a user's turn: the names of the last of them mean nothing to such a model.
enum { N_SPECIALS = sizeof SPECIALS / sizeof *SPECIALS, N_BEFORE_V7 = 17, MOST_SPECIALS = 1 << 16 };

typedef struct TekkenFile {
    Tokenizer *tokenizer;
    const json_t *config, *vocab, *specials;
    int64_t n_ids, n_specials;
} TekkenFile;

// Where the file does not say how many ids there are, they are those that are listed.
static Status read_sizes(TekkenFile *file, Error *error) {
    const json_t *vocab = json_member(file->config, "default_vocab_size"),
                 *specials = json_member(file->config, "default_num_special_tokens");
    int64_t pieces = (int64_t)json_array_size(file->vocab),
            listed = file->specials ? (int64_t)json_array_size(file->specials) : N_SPECIALS;
    file->n_specials = json_is_integer(specials) ? json_integer_value(specials) : listed;
    if (file->n_specials > MOST_SPECIALS) file->n_specials = -1;
    file->n_ids = json_is_integer(vocab) ? json_integer_value(vocab) : pieces + file->n_specials;
    if (file->n_ids <= 0 || file->n_ids > INT32_MAX / 8 || file->n_specials < 0 ||
        file->n_specials >= file->n_ids || pieces < file->n_ids - file->n_specials)
        return error_set(error, STATUS_FILE,
                         "%lld ids of which %lld are special do not suit a vocab of %lld pieces",
                         (long long)file->n_ids, (long long)file->n_specials, (long long)pieces);
    return STATUS_OK;
}

// {"rank": 0, "token_bytes": "AA==", "token_str": "\u0000"}; what lies behind the last id is left out.
static Status read_pieces(const TekkenFile *file, Error *error) {
    const int64_t n = file->n_ids - file->n_specials;
    size_t i;
    json_t *entry;
    json_array_foreach(file->vocab, i, entry) {
        const json_t *rank = json_member(entry, "rank");
        const char *bytes;
        int64_t value = json_is_integer(rank) ? json_integer_value(rank) : -1;
        if (value < 0) return error_set(error, STATUS_FILE, "piece %zu has no rank", i);
        if (value >= n) continue;
        if (json_read_text(entry, "token_bytes", &bytes, error)) return error_prefix(error, "piece %zu: ", i);
        Status status = ranks_set_piece(file->tokenizer, (int32_t)(file->n_specials + value), bytes,
                                        strlen(bytes), error);
        if (status) return status;
    }
    return ranks_finish(file->tokenizer, (int32_t)file->n_specials, (int32_t)n, error);
}

// {"rank": 1, "token_str": "<s>", "is_control": true}; ids that none has are fillers.
static Status read_specials(const TekkenFile *file, Error *error) {
    size_t i;
    json_t *entry;
    Status status = STATUS_OK;
    json_array_foreach(file->specials, i, entry) {
        const json_t *rank = json_member(entry, "rank");
        int64_t id = json_is_integer(rank) ? json_integer_value(rank) : -1;
        if (id < 0 || id >= file->n_specials)
            return error_set(error, STATUS_FILE, "special token %zu has no rank below %lld", i,
                             (long long)file->n_specials);
        const char *text;
        if (!status && json_read_text(entry, "token_str", &text, error))
            return error_prefix(error, "special token %zu: ", i);
        if (!status) status = ranks_add_special(file->tokenizer, (int32_t)id, text, error);
    }
    const char *version = json_text(file->config, "version");
    const bool old = version[0] == 'v' && version[1] >= '1' && version[1] < '7' && !version[2];
    const int32_t n = old ? N_BEFORE_V7 : N_SPECIALS;
    for (int32_t id = 0; id < n && id < file->n_specials && !file->specials && !status; id++)
        status = ranks_add_special(file->tokenizer, id, SPECIALS[id], error);
    for (int32_t id = 0; id < file->n_specials && !status; id++) {
        char text[32];
        if (file->tokenizer->vocabulary.pieces[id].text_size > 0) continue;
        snprintf(text, sizeof text, "<SPECIAL_%d>", id);
        status = ranks_add_special(file->tokenizer, id, text, error);
    }
    return status;
}

// The special token of that name, which no piece can stand in for; -1: none.
static int32_t special_named(const TekkenFile *file, const char *name) {
    for (int32_t id = 0; id < file->n_specials; id++)
        if (strcmp(vocabulary_text(&file->tokenizer->vocabulary, id), name) == 0) return id;
    return -1;
}

// Adds the keys of an object that are not on its list to `names` [size], as many as there is room for.
static void add_unknown(char *names, size_t size, const json_t *object, const char *where,
                        const char *const *known) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        char name[80];
        int i = 0;
        while (known[i] && strcmp(known[i], key) != 0) i++;
        if (known[i]) continue;
        text_copy_printable(name, sizeof name, key, strlen(key));
        size_t n = strlen(names);
        snprintf(names + n, size - n, "%s%s%s", n > 0 ? ", " : "", where, name);
    }
}

// What images and sound are made of is the model's, not its text's; `version` is the format's.
static void tell_unknown(const TekkenFile *file, const json_t *root) {
    static const char *const OUTER[] = {"config", "vocab",      "special_tokens", "version",
                                        "image",  "multimodal", "audio",          NULL};
    static const char *const INNER[] = {
        "pattern", "num_vocab_tokens", "default_vocab_size", "default_num_special_tokens", "version", NULL};
    char names[300] = "";
    add_unknown(names, sizeof names, root, "", OUTER);
    add_unknown(names, sizeof names, file->config, "config.", INNER);
    if (names[0] != '\0')
        snprintf(file->tokenizer->notice, sizeof file->tokenizer->notice,
                 "tekken.json has keys that palaver does not know: %s", names);
}

static Status load(TekkenFile *file, const json_t *root, Error *error) {
    Tokenizer *tokenizer = file->tokenizer;
    file->config = json_member(root, "config");
    file->vocab = json_member(root, "vocab");
    file->specials = json_member(root, "special_tokens");
    const char *pattern;
    if (json_read_text(file->config, "pattern", &pattern, error)) return error_prefix(error, "config.");
    if (!*pattern || !json_is_array(file->vocab))
        return error_set(error, STATUS_FILE, "there is no config.pattern, or no vocab");
    Status status = read_sizes(file, error);
    if (!status) status = vocabulary_init(&tokenizer->vocabulary, file->n_ids, error);
    if (!status) status = split_rules_open(&tokenizer->split, error);
    if (!status)
        status =
            split_rules_add_regex(tokenizer->split, pattern, strlen(pattern), SPLIT_ISOLATED, false, error);
    if (!status) status = read_pieces(file, error);
    if (!status) status = read_specials(file, error);
    if (status) return status;
    tell_unknown(file, root);
    tokenizer->bos = special_named(file, "<s>");
    tokenizer->eos = special_named(file, "</s>");
    tokenizer->unk = special_named(file, "<unk>");
    tokenizer->pad = special_named(file, "<pad>");
    tokenizer->add_bos = tokenizer->bos >= 0;
    snprintf(tokenizer->describe, sizeof tokenizer->describe, "byte-level BPE, tekken %.20s",
             json_text(file->config, "version"));
    return STATUS_OK;
}

Status tokenizer_load_tekken(Tokenizer *tokenizer, const char *data, size_t size, Error *error) {
    json_error_t at;
    // Unlike other files of tokenizers it may have zero bytes, as every tekken.json has one: the token_str of the piece of
    // byte 0, which nobody reads, for its token_bytes say the same. Texts that are read must have none.
    json_t *root = json_load_text(data, size, JSON_ALLOW_NUL, &at);
    TekkenFile file = {.tokenizer = tokenizer};
    if (!root) return json_refuse(size, &at, error);
    Status status = load(&file, root, error);
    json_decref(root);
    return status;
}
