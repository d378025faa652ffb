// The table of keys: one row says everything about a setting but its built-in value, which default.toml says.
#include "config/config.h"
#include "kernels/base/nearest.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const overflow_words[] = {"reevaluate", "shift", "shift-inplace", "stop", NULL};
static const char *const by_words[] = {"turn", "token", NULL};
static const char *const cache_words[] = {"f16", "f32", "int8", "int4", NULL};
static const char *const weights_words[] = {"as-is", "f16", "int8", "int4", NULL};
static const char *const color_words[] = {"auto", "always", "never", NULL};
static const char *const device_words[] = {"auto", "cpu", "cpu:reference", "cuda", NULL};
static const char *const template_words[] = {"auto", NULL};

static bool accepts_device(const char *text) {
    for (size_t i = 0; device_words[i]; i++)
        if (!strcmp(text, device_words[i])) return true;
    if (strncmp(text, "cuda:", 5) != 0) return false;
    size_t digits = strspn(text + 5, "0123456789");
    return digits >= 1 && digits <= 2 && !text[5 + digits];
}

static bool accepts_nonempty(const char *text) {
    return *text != 0;
}

#define MAX_TOKENS 16777216
// NOLINTBEGIN(bugprone-macro-parentheses): names of fields and types cannot stand in parentheses
// The place of a field, if it has the type that the kind of key is stored as: anything else does not compile.
#define AT(of, section, field) _Generic(((Config *)0)->section.field, of : offsetof(Config, section.field))
#define ROW(section, field, ...)                                                                             \
    { #section, #field, __VA_ARGS__ }
#define SWITCH(section, field, explained)                                                                    \
    ROW(section, field, CONFIG_BOOL, .offset = AT(bool, section, field), .doc = explained)
#define NUMBER(section, field, least, most, explained)                                                       \
    ROW(section, field, CONFIG_NUMBER, least, most, .offset = AT(double, section, field), .doc = explained)
#define INTEGER(section, field, least, most, explained)                                                      \
    ROW(section, field, CONFIG_INTEGER, least, most, .offset = AT(int64_t, section, field), .doc = explained)
#define INTEGER_OR(section, field, least, most, word, meaning, explained)                                    \
    ROW(section, field, CONFIG_INTEGER, least, most, (const char *const[]){word, NULL}, meaning,             \
        .offset = AT(int64_t, section, field), .doc = explained)
#define CHOICE(section, field, choices, explained)                                                           \
    ROW(section, field, CONFIG_CHOICE, .words = choices, .offset = offsetof(Config, section.field),          \
        .doc = explained)
#define TEXT(section, field, usual, check, range, explained)                                                 \
    ROW(section, field, CONFIG_TEXT, .words = usual, .accepts = check, .offset = AT(char *, section, field), \
        .allowed = range, .doc = explained)
// NOLINTEND(bugprone-macro-parentheses)

static const ConfigKey keys[] = {
    NUMBER(sampling, temperature, 0, 5, "low is sober, high is wild, 0 is greedy"),
    NUMBER(sampling, top_p, 0, 1, "smallest set of tokens with this probability; 1 is off"),
    INTEGER(sampling, top_k, 0, 1000000, "the k most probable tokens; 0 is off"),
    NUMBER(sampling, min_p, 0, 1, "least share of the most probable token; 0 is off"),
    NUMBER(sampling, typical_p, 0, 1, "tokens of typical information content; 1 is off"),
    NUMBER(sampling, repeat_penalty, 0.1, 10, "divides the logits of tokens seen lately; 1 is off"),
    INTEGER_OR(sampling, repeat_last, 0, MAX_TOKENS, "context", CONFIG_REPEAT_CONTEXT,
               "last tokens that the penalties look at"),
    NUMBER(sampling, frequency_penalty, -2, 2, "off the logit for each time a token was seen; 0 is off"),
    NUMBER(sampling, presence_penalty, -2, 2, "off the logit of each token that was seen; 0 is off"),
    NUMBER(sampling, dry_multiplier, 0, 100, "strength of the penalty on repeated runs (DRY); 0 is off"),
    NUMBER(sampling, dry_base, 1, 10, "growth of the DRY penalty with each token of the run"),
    INTEGER(sampling, dry_allowed, 0, 1024, "longest repeated run that DRY leaves alone"),
    ROW(sampling, seed, CONFIG_INTEGER, 0, 9223372036854775807.0, (const char *const[]){"random", NULL},
        CONFIG_SEED_RANDOM, .offset = AT(int64_t, sampling, seed),
        .allowed = "0 to 9223372036854775807 or \"random\"", .doc = "same seed, same text"),
    INTEGER_OR(sampling, max_tokens, 0, MAX_TOKENS, "unlimited", CONFIG_TOKENS_UNLIMITED,
               "longest reply in tokens"),
    ROW(sampling, stop, CONFIG_STRINGS, .offset = AT(ConfigStrings, sampling, stop),
        .allowed = "up to 32 strings of 1 to 256 bytes", .doc = "texts that end a reply"),
    ROW(sampling, logit_bias, CONFIG_BIASES, -100, 100, .offset = AT(ConfigBiases, sampling, logit_bias),
        .allowed = "{\"id or piece\" = bias, ...} with -100 to 100 each, up to 1024",
        .doc = "added to the logits of single tokens"),
    SWITCH(sampling, ignore_eos, "never end a turn by a token"),

    INTEGER_OR(context, size, 0, MAX_TOKENS, "model", CONFIG_SIZE_MODEL, "tokens that the model sees"),
    INTEGER(context, reserve, 1, MAX_TOKENS, "tokens left free for the reply"),
    CHOICE(context, overflow, overflow_words, "what happens when the context is full"),
    INTEGER_OR(context, keep, 0, MAX_TOKENS, "system", CONFIG_KEEP_SYSTEM, "first tokens that never leave"),
    ROW(context, discard, CONFIG_AMOUNT, 0, MAX_TOKENS, .offset = AT(double, context, discard),
        .allowed = "a fraction above 0 and below 1, or a whole number from 1 to 16777216",
        .doc = "how much is discarded at least"),
    NUMBER(context, low_water, 0.05, 0.95, "whole turns leave until so much of the context is used"),
    CHOICE(context, by, by_words, "what leaves: whole turns or single tokens"),

    CHOICE(cache, type, cache_words, "element type of the key-value cache"),
    INTEGER_OR(cache, group, 0, 256, "auto", CONFIG_GROUP_AUTO,
               "elements that share a scale in int8 and int4"),
    INTEGER(cache, layout, 0, 3, "order of the cache's dimensions in memory"),
    SWITCH(cache, paged, "cache slots in pages"),
    INTEGER(cache, page_size, 1, 65536, "tokens of a page"),

    TEXT(model, path, NULL, NULL, NULL, "a Hugging Face folder or a .gguf file; \"\" is the default model"),
    CHOICE(model, weights, weights_words, "how the weights are held"),
    TEXT(model, template, template_words, accepts_nonempty,
         "\"auto\", the name of a chat template or a .toml file", "chat template"),

    TEXT(backend, device, device_words, accepts_device,
         "\"auto\", \"cpu\", \"cpu:reference\", \"cuda\" or \"cuda:N\" with N from 0 to 99", "where it runs"),
    INTEGER_OR(backend, threads, 0, 1024, "auto", CONFIG_THREADS_AUTO, "threads of the CPU backend"),

    SWITCH(ui, stats, "a line of figures after each reply"),
    CHOICE(ui, color, color_words, "colours on the terminal"),
    SWITCH(ui, gauge, "how full the context is, in the prompt"),
    SWITCH(ui, history, "keep typed lines for the next time"),
};
enum { N_KEYS = sizeof keys / sizeof *keys };

const ConfigKey *config_keys(size_t *count) {
    *count = N_KEYS;
    return keys;
}

// Whether the bytes [name, name + length) spell `word`, with - for _ allowed.
static bool spells(const char *name, size_t length, const char *word) {
    if (strlen(word) != length) return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] != word[i] && !(name[i] == '-' && word[i] == '_')) return false;
    return true;
}

const ConfigKey *config_key_find(const char *name) {
    const char *dot = strchr(name, '.');
    const char *last = dot ? dot + 1 : name;
    for (size_t i = 0; i < N_KEYS; i++)
        if (spells(last, strlen(last), keys[i].name) &&
            (!dot || spells(name, (size_t)(dot - name), keys[i].section)))
            return &keys[i];
    return NULL;
}

Status config_key_unknown(const char *name, Error *error) {
    const char *dot = strrchr(name, '.');
    const ConfigKey *elsewhere = dot ? config_key_find(dot + 1) : NULL;
    if (elsewhere)
        return error_set(error, STATUS_USAGE, "unknown key \"%.100s\"; %s belongs in [%s]", name,
                         elsewhere->name, elsewhere->section);
    const char *names[N_KEYS];
    for (size_t i = 0; i < N_KEYS; i++) names[i] = keys[i].name;
    int nearest = nearest_name(dot ? dot + 1 : name, names, N_KEYS);
    if (nearest < 0)
        return error_set(error, STATUS_USAGE, "unknown key \"%.100s\"; `palaver config` lists all keys",
                         name);
    return error_set(error, STATUS_USAGE, "unknown key \"%.100s\"; did you mean %s.%s?", name,
                     keys[nearest].section, keys[nearest].name);
}

int config_key_environment(const ConfigKey *key, char *buffer, size_t size) {
    int length = snprintf(buffer, size, "PALAVER_%s_%s", key->section, key->name);
    for (char *c = buffer; size && *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    return length;
}

static int print_words(const char *const *words, char *buffer, size_t size) {
    int length = 0;
    for (size_t i = 0; words[i]; i++) {
        size_t at = (size_t)length < size ? (size_t)length : size;
        length += snprintf(buffer + at, size - at, "%s\"%s\"",
                           !i             ? ""
                           : words[i + 1] ? ", "
                                          : " or ",
                           words[i]);
    }
    return length;
}

int config_key_allowed(const ConfigKey *key, char *buffer, size_t size) {
    if (key->allowed) return snprintf(buffer, size, "%s", key->allowed);
    switch (key->type) {
    case CONFIG_BOOL:
        return snprintf(buffer, size, "true or false");
    case CONFIG_CHOICE:
        return print_words(key->words, buffer, size);
    case CONFIG_TEXT:
        return snprintf(buffer, size, "a text");
    case CONFIG_INTEGER:
        if (key->words)
            return snprintf(buffer, size, "%.0f to %.0f or \"%s\"", key->min, key->max, key->words[0]);
        return snprintf(buffer, size, "a whole number from %.0f to %.0f", key->min, key->max);
    default:
        return snprintf(buffer, size, "%g to %g", key->min, key->max);
    }
}
