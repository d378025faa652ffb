// What tokenizer_config.json says beside tokenizer.json, where transformers takes it, and not what tokenizer.json has.
#include "kernels/base/text/json.h"
#include "tokenizer/files/tokenizer_rules.h"

#include <stdlib.h>
#include <string.h>

// Classes that set the space before a text themselves, as add_prefix_space says or without one.
static bool sets_prefix(const json_t *config) {
    static const char *const CLASSES[] = {"GPT2Tokenizer",    "GPT2TokenizerFast",
                                          "GPTNeoXTokenizer", "GPTNeoXTokenizerFast",
                                          "CodeGenTokenizer", "CodeGenTokenizerFast"};
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++)
        if (json_text_is(config, "tokenizer_class", CLASSES[i])) return true;
    return false;
}

// An added token of tokenizer.json is what tokenizer_config.json says of it; one that it calls special stays so.
static int describe(json_t *token, const json_t *entry) {
    static const char *const FLAGS[] = {"single_word", "lstrip", "rstrip"};
    const bool special = json_flag(entry, "special", false);
    int failed = 0;
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++)
        failed |= json_object_set_new(token, FLAGS[i], json_boolean(json_flag(entry, FLAGS[i], false)));
    failed |=
        json_object_set_new(token, "normalized", json_boolean(json_flag(entry, "normalized", !special)));
    if (special) failed |= json_object_set_new(token, "special", json_true());
    return failed;
}

// The id that a further token gets where the vocabulary has no piece of its name.
static json_int_t next_id(const json_t *root) {
    const json_t *token;
    json_int_t next = (json_int_t)json_object_size(json_member(json_member(root, "model"), "vocab"));
    size_t i;
    json_array_foreach(json_member(root, "added_tokens"), i, token) {
        const json_int_t id = json_integer_value(json_member(token, "id"));
        if (id >= next && id < INT32_MAX) next = id + 1;
    }
    return next;
}

static Status add_further(json_t *root, const char *key, const json_t *entry, Error *error) {
    const char *text = json_text(entry, "content");
    const json_t *piece = json_member(json_member(json_member(root, "model"), "vocab"), text);
    const json_int_t id = json_is_integer(piece) ? json_integer_value(piece) : next_id(root);
    if (!piece && id != strtoll(key, NULL, 10))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "tokenizer_config.json: added_tokens_decoder: '%.60s' has the id %.20s, but is not in "
            "tokenizer.json, and transformers would give it %lld; add it there",
            text, key, (long long)id);
    json_t *token = json_pack("{s:I, s:s}", "id", id, "content", text);
    if (!token || describe(token, entry) || json_array_append_new(json_member(root, "added_tokens"), token))
        return error_set(error, STATUS_MEMORY, "tokenizer_config.json: out of memory");
    return STATUS_OK;
}

// Further tokens are added by their ids, from the least on.
static Status add_all_further(json_t *root, json_t *further, Error *error) {
    Status status = STATUS_OK;
    while (json_object_size(further) > 0 && !status) {
        const char *key, *least = NULL;
        json_t *entry;
        json_object_foreach(further, key, entry) {
            if (!least || strtoll(key, NULL, 10) < strtoll(least, NULL, 10)) least = key;
        }
        status = add_further(root, least, json_object_get(further, least), error);
        if (!status) json_object_del(further, least);
    }
    return status;
}

// What added_tokens_decoder says of `known` tokens, by their names; the others go into `further`.
static Status read_decoder(const json_t *config, const json_t *known, json_t *further, Error *error) {
    const char *key;
    json_t *entry;
    json_object_foreach(json_member(config, "added_tokens_decoder"), key, entry) {
        char *end;
        const long long id = strtoll(key, &end, 10);
        const char *text = json_text(entry, "content");
        if (end == key || *end || id < 0 || !*text)
            return error_set(error, STATUS_FILE,
                             "tokenizer_config.json: added_tokens_decoder: '%.60s' should be an id of an "
                             "object with a content",
                             key);
        json_t *token = json_object_get(known, text);
        if (token ? describe(token, entry) : json_object_set(further, key, entry))
            return error_set(error, STATUS_MEMORY, "tokenizer_config.json: out of memory");
    }
    return STATUS_OK;
}

Status tokenizer_read_beside(json_t *root, const json_t *config, Error *error) {
    json_t *pre_tokenizer = json_member(root, "pre_tokenizer"), *token;
    if (!json_is_object(root)) return STATUS_OK; // which is told later
    json_t *known = json_object(), *further = json_object();
    size_t i;
    int failed = !known || !further;
    if (sets_prefix(config) && json_text_is(pre_tokenizer, "type", "ByteLevel"))
        failed |= json_object_set_new(pre_tokenizer, "add_prefix_space",
                                      json_boolean(json_flag(config, "add_prefix_space", false)));
    if (!json_is_array(json_member(root, "added_tokens")))
        failed |= json_object_set_new(root, "added_tokens", json_array());
    json_array_foreach(json_member(root, "added_tokens"), i, token) {
        failed |= json_object_set(known, json_text(token, "content"), token);
    }
    Status status =
        failed ? error_set(error, STATUS_MEMORY, "tokenizer_config.json: out of memory") : STATUS_OK;
    if (!status) status = read_decoder(config, known, further, error);
    if (!status) status = add_all_further(root, further, error);
    json_decref(known);
    json_decref(further);
    return status;
}
