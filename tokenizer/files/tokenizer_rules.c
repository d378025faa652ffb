#include "tokenizer/files/tokenizer_rules.h"

// Sequences may lie in sequences, but no file does that more than once.
enum { MAX_DEPTH = 4 };

// ---- normalizer -------------------------------------------------------------------------------------------------

static TokenText text_of(const json_t *string) {
    return (TokenText){json_string_value(string), json_string_length(string)};
}

static Status read_replace(Tokenizer *tokenizer, const json_t *step, Error *error) {
    const json_t *what = json_member(json_member(step, "pattern"), "String");
    const json_t *with = json_member(step, "content");
    if (!json_is_string(what) || !json_is_string(with)) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "the normalizer Replace is only followed with a String pattern");
    }
    return normalizer_add(&tokenizer->normalizer, NORMALIZE_REPLACE, text_of(what), text_of(with), error);
}

static Status read_prepend(Tokenizer *tokenizer, const json_t *step, Error *error) {
    const char *text = json_text(step, "prepend");
    if (!strcmp(text, "\u2581")) tokenizer->dummy_space = DUMMY_SPACE_EACH;
    return normalizer_add(&tokenizer->normalizer, NORMALIZE_PREPEND, (TokenText){0},
                          (TokenText){text, strlen(text)}, error);
}

static Status read_normalizer(Tokenizer *tokenizer, const json_t *step, int depth, Error *error) {
    static const struct {
        const char *name;
        NormalizeKind kind;
    } forms[] = {
        {"NFC", NORMALIZE_NFC}, {"NFD", NORMALIZE_NFD}, {"NFKC", NORMALIZE_NFKC}, {"NFKD", NORMALIZE_NFKD}};
    const char *type = json_text(step, "type");
    if (!strcmp(type, "Sequence") && depth < MAX_DEPTH) {
        Status status = STATUS_OK;
        size_t i;
        json_t *item;
        json_array_foreach(json_member(step, "normalizers"), i, item) {
            if (!status) status = read_normalizer(tokenizer, item, depth + 1, error);
        }
        return status;
    }
    if (!strcmp(type, "Replace")) return read_replace(tokenizer, step, error);
    if (!strcmp(type, "Prepend")) return read_prepend(tokenizer, step, error);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(type, forms[i].name) != 0) continue;
        return normalizer_add(&tokenizer->normalizer, forms[i].kind, (TokenText){0}, (TokenText){0}, error);
    }
    return error_set(error, STATUS_UNSUPPORTED, "the normalizer '%.60s' is not known", type);
}

Status tokenizer_read_normalizer(Tokenizer *tokenizer, const json_t *normalizer, Error *error) {
    return normalizer ? read_normalizer(tokenizer, normalizer, 0, error) : STATUS_OK;
}

// ---- pre_tokenizer ------------------------------------------------------------------------------------------------

static Status read_behavior(const char *name, SplitBehavior *behavior, Error *error) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *behavior = (SplitBehavior)i;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED, "the split behavior '%.60s' is not known", name);
}

static Status read_split(Tokenizer *tokenizer, const json_t *step, Error *error) {
    SplitBehavior behavior = SPLIT_ISOLATED;
    Status status = read_behavior(json_text(step, "behavior"), &behavior, error);
    if (status) return status;
    bool invert = json_flag(step, "invert", false);
    const json_t *pattern = json_member(step, "pattern");
    const json_t *regex = json_member(pattern, "Regex"), *literal = json_member(pattern, "String");
    if (json_is_string(regex)) {
        return split_rules_add_regex(tokenizer->split, json_string_value(regex), json_string_length(regex),
                                     behavior, invert, error);
    }
    if (json_is_string(literal)) {
        return split_rules_add_literal(tokenizer->split, json_string_value(literal),
                                       json_string_length(literal), behavior, invert, error);
    }
    return error_set(error, STATUS_FILE, "the pre-tokenizer Split has no pattern");
}

static Status add_pattern(Tokenizer *tokenizer, const char *pattern, SplitBehavior behavior, Error *error) {
    return split_rules_add_regex(tokenizer->split, pattern, strlen(pattern), behavior, false, error);
}

static Status read_byte_level(Tokenizer *tokenizer, const json_t *step, bool *byte_level, Error *error) {
    Status status = STATUS_OK;
    *byte_level = true;
    if (json_flag(step, "add_prefix_space", true)) {
        tokenizer->dummy_space = DUMMY_SPACE_EACH;
        status = split_rules_add_prefix(tokenizer->split, " ", 1, SPLIT_PREFIX_ALWAYS, error);
    }
    if (status || !json_flag(step, "use_regex", true)) return status;
    return add_pattern(tokenizer, SPLIT_GPT2, SPLIT_ISOLATED, error);
}

static Status read_metaspace(Tokenizer *tokenizer, const json_t *step, Error *error) {
    const char *space = json_text(step, "replacement");
    const char *scheme = json_text(step, "prepend_scheme");
    if (!*scheme)
        scheme = json_flag(step, "add_prefix_space", true) ? "always" : "never"; // as files were until 2023
    SplitPrefix when = !strcmp(scheme, "always")  ? SPLIT_PREFIX_ALWAYS
                       : !strcmp(scheme, "first") ? SPLIT_PREFIX_FIRST
                                                  : SPLIT_PREFIX_NEVER;
    if ((when == SPLIT_PREFIX_NEVER && strcmp(scheme, "never") != 0) || strcmp(space, "\u2581") != 0) {
        return error_set(error, STATUS_UNSUPPORTED, "the pre-tokenizer Metaspace with '%.20s' and '%.20s'",
                         space, scheme);
    }
    if (when != SPLIT_PREFIX_NEVER) {
        tokenizer->dummy_space = when == SPLIT_PREFIX_FIRST ? DUMMY_SPACE_FIRST : DUMMY_SPACE_EACH;
    }
    Status status = split_rules_add_prefix(tokenizer->split, space, strlen(space), when, error);
    if (status || !json_flag(step, "split", true)) return status;
    return split_rules_add_literal(tokenizer->split, space, strlen(space), SPLIT_MERGED_WITH_NEXT, false,
                                   error);
}

static Status read_pre_tokenizer(Tokenizer *tokenizer, const json_t *step, int depth, bool *byte_level,
                                 Error *error) {
    const char *type = json_text(step, "type");
    if (!strcmp(type, "Sequence") && depth < MAX_DEPTH) {
        Status status = STATUS_OK;
        size_t i;
        json_t *item;
        json_array_foreach(json_member(step, "pretokenizers"), i, item) {
            if (!status) status = read_pre_tokenizer(tokenizer, item, depth + 1, byte_level, error);
        }
        return status;
    }
    if (*byte_level &&
        !split_rules_byte_level(tokenizer->split)) { // what comes after it reads stand-ins of bytes
        Status status = split_rules_add_byte_level(tokenizer->split, error);
        if (status) return status;
    }
    if (*byte_level && (!strcmp(type, "ByteLevel") || !strcmp(type, "Metaspace"))) {
        return error_set(error, STATUS_UNSUPPORTED, "the pre-tokenizer '%.60s' comes after ByteLevel", type);
    }
    if (!strcmp(type, "ByteLevel")) return read_byte_level(tokenizer, step, byte_level, error);
    if (!strcmp(type, "Split")) return read_split(tokenizer, step, error);
    if (!strcmp(type, "Metaspace")) return read_metaspace(tokenizer, step, error);
    if (!strcmp(type, "Digits")) {
        bool single = json_flag(step, "individual_digits", false);
        return add_pattern(tokenizer, SPLIT_DIGIT, single ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, error);
    }
    if (!strcmp(type, "Punctuation")) {
        SplitBehavior behavior = SPLIT_ISOLATED;
        const char *name = json_text(step, "behavior");
        Status status = *name ? read_behavior(name, &behavior, error) : STATUS_OK;
        return status ? status : add_pattern(tokenizer, SPLIT_PUNCTUATION, behavior, error);
    }
    return error_set(error, STATUS_UNSUPPORTED, "the pre-tokenizer '%.60s' is not known", type);
}

Status tokenizer_read_pre_tokenizer(Tokenizer *tokenizer, const json_t *pre_tokenizer, bool *byte_level,
                                    Error *error) {
    *byte_level = false;
    Status status = split_rules_open(&tokenizer->split, error);
    if (status || !pre_tokenizer) return status;
    return read_pre_tokenizer(tokenizer, pre_tokenizer, 0, byte_level, error);
}
