// Files of tiktoken: "base64 rank" lines, without a word about how texts are split and which special tokens there are.
// Those who made a model say so in Python code beside it; here it stands by the name of their class.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/files/ranks.h"
#include "tokenizer/split/split_presets.h"

typedef struct Family {
    const char *class;           // tokenizer_class
    const char *rule;            // of split_presets.h
    const char *const *specials; // behind the last rank, in order; NULL ends them
    const char *extra;           // and then this with a number in it, from 0 on
    int n_extra;
    const char *end; // of a reply, and what pads
} Family;

static const char *const QWEN[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", NULL};
static const char *const GLM4[] = {"<|endoftext|>",
                                   "[MASK]",
                                   "[gMASK]",
                                   "[sMASK]",
                                   "<sop>",
                                   "<eop>",
                                   "<|system|>",
                                   "<|user|>",
                                   "<|assistant|>",
                                   "<|observation|>",
                                   "<|begin_of_image|>",
                                   "<|end_of_image|>",
                                   "<|begin_of_video|>",
                                   "<|end_of_video|>",
                                   NULL};

// Qwen 1 normalizes to NFC, as its successors do, and splits as they do (the preset's own).
static const Family FAMILIES[] = {
    {"QWenTokenizer", "qwen2", QWEN, "<|extra_%d|>", 205, "<|endoftext|>"},
    {"ChatGLM4Tokenizer", "glm4", GLM4, NULL, 0, "<|endoftext|>"},
};
enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

// ---- lines --------------------------------------------------------------------------------------------------

typedef struct Line {
    const char *text;
    size_t size; // of the base64
    int64_t rank;
} Line;

// The next line that is not empty; false at the end, or where it is none: then *at is not at the end.
static bool next_line(const char **at, const char *end, Line *line) {
    const char *p = *at;
    while (p < end && (*p == '\n' || *p == '\r')) p++;
    *at = p;
    const char *stop = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
    stop = stop ? stop : end;
    const char *space = p < stop ? memchr(p, ' ', (size_t)(stop - p)) : NULL;
    if (!space) return false;
    *line = (Line){.text = p, .size = (size_t)(space - p)};
    const char *digits = space + 1;
    for (; digits < stop && *digits >= '0' && *digits <= '9' && line->rank < INT32_MAX; digits++)
        line->rank = 10 * line->rank + (*digits - '0');
    if (digits == space + 1 || (digits < stop && *digits != '\r') || line->rank >= INT32_MAX / 8)
        return false;
    *at = stop;
    return true;
}

bool tokenizer_is_tiktoken(const char *data, size_t size) {
    Line line;
    const char *at = data;
    for (int i = 0; i < 3; i++) // a SentencePiece model begins otherwise
        if (!next_line(&at, data + size, &line)) return false;
    return true;
}

// ---- a file -------------------------------------------------------------------------------------------------

static Status count_pieces(const char *data, size_t size, int64_t *n, Error *error) {
    const char *at = data;
    Line line;
    *n = 0;
    while (next_line(&at, data + size, &line)) ++*n;
    if (at == data + size && *n > 0) return STATUS_OK;
    return error_set(error, STATUS_FILE,
                     "byte %lld begins no line of base64 and a rank: the file is damaged; fetch it again",
                     (long long)(at - data));
}

static Status read_pieces(Tokenizer *tokenizer, const char *data, size_t size, int64_t n, Error *error) {
    const char *at = data;
    Line line;
    Status status = STATUS_OK;
    while (!status && next_line(&at, data + size, &line)) {
        if (line.rank >= n)
            return error_set(error, STATUS_FILE,
                             "the rank %lld is beyond the %lld pieces: the file is damaged; fetch it again",
                             (long long)line.rank, (long long)n);
        status = ranks_set_piece(tokenizer, (int32_t)line.rank, line.text, line.size, error);
    }
    return status ? status : ranks_finish(tokenizer, 0, (int32_t)n, error);
}

static Status find_family(const json_t *config, const Family **family, Error *error) {
    const char *class = json_text(config, "tokenizer_class");
    for (size_t i = 0; i < N_FAMILIES; i++) {
        *family = &FAMILIES[i];
        if (strcmp(FAMILIES[i].class, class) == 0) return STATUS_OK;
    }
    return error_set(
        error, STATUS_UNSUPPORTED,
        "a tiktoken file does not say how its texts are split, and the rule of the tokenizer_class '%.60s' "
        "is not known (QWenTokenizer and ChatGLM4Tokenizer are); take a tokenizer.json of the model",
        class);
}

// Where the folder lists special tokens by their ids, {"151643": {"content": "<|endoftext|>"}}, these count.
static Status add_listed(Tokenizer *tokenizer, const json_t *config, Error *error) {
    const char *key;
    json_t *entry;
    Status status = STATUS_OK;
    json_object_foreach(json_member(config, "added_tokens_decoder"), key, entry) {
        char *end;
        long long id = strtoll(key, &end, 10);
        if (end == key || *end || id < 0 || id >= tokenizer->vocabulary.n)
            return error_set(error, STATUS_FILE, "the special token '%.60s' has the id '%.30s'",
                             json_text(entry, "content"), key);
        if (!status) status = ranks_add_special(tokenizer, (int32_t)id, json_text(entry, "content"), error);
    }
    return status;
}

static Status add_specials(Tokenizer *tokenizer, const Family *family, int64_t first, const json_t *config,
                           Error *error) {
    const Vocabulary *vocabulary = &tokenizer->vocabulary;
    int32_t id = (int32_t)first;
    Status status = add_listed(tokenizer, config, error);
    for (const char *const *text = family->specials; *text && !status; text++, id++)
        if (vocabulary->pieces[id].text_size == 0) status = ranks_add_special(tokenizer, id, *text, error);
    for (int i = 0; i < family->n_extra && !status; i++, id++) {
        char text[32];
        // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the table's own "<|extra_%d|>"
        snprintf(text, sizeof text, family->extra, i);
        if (vocabulary->pieces[id].text_size == 0) status = ranks_add_special(tokenizer, id, text, error);
    }
    for (int32_t at = (int32_t)first; at < id && !status; at++) {
        bool end = strcmp(vocabulary_text(vocabulary, at), family->end) == 0;
        if (end) tokenizer->eos = tokenizer->pad = at;
    }
    return status;
}

Status tokenizer_load_tiktoken(Tokenizer *tokenizer, const char *data, size_t size, const json_t *config,
                               Error *error) {
    const Family *family;
    int64_t n_pieces = 0, n_specials = 0;
    Status status = find_family(config, &family, error);
    if (status) return status;
    while (family->specials[n_specials]) n_specials++;
    n_specials += family->n_extra;
    const SplitPreset *preset = split_preset_find(family->rule);
    status = count_pieces(data, size, &n_pieces, error);
    if (!status) status = vocabulary_init(&tokenizer->vocabulary, n_pieces + n_specials, error);
    if (!status) status = read_pieces(tokenizer, data, size, n_pieces, error);
    if (!status) status = add_specials(tokenizer, family, n_pieces, config, error);
    if (!status && preset->nfc)
        status = normalizer_add(&tokenizer->normalizer, NORMALIZE_NFC, (TokenText){0}, (TokenText){0}, error);
    if (!status) status = split_rules_open(&tokenizer->split, error);
    if (!status) status = split_preset_add(preset, false, tokenizer->split, error);
    snprintf(tokenizer->describe, sizeof tokenizer->describe, "byte-level BPE, tiktoken, %s split",
             preset->rule);
    return status;
}
