// The table of settings: one row says everything about a key but its built-in value, which config/default.toml says.
#include "app/settings/settings.h"

#include "config/embedded.h"
#include "engine/talk/drafts/drafts.h"
#include "kernels/base/machine/threads.h"
#include "kernels/base/text/format.h"
#include "tokenizer/chat/chat_template.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

// In the order of OverflowPolicy; of by_token; of cut_prompt; of ScreenColor, SettingsLoops, ScreenLinks,
// ThemeName and TextEncoding.
static const char *const overflow_words[] = {"reevaluate", "shift", "shift-inplace", "stop", NULL};
static const char *const by_words[] = {"turn", "token", NULL};
static const char *const long_prompt_words[] = {"refuse", "cut", NULL};
static const char *const color_words[] = {"auto", "always", "never", NULL};
static const char *const loops_words[] = {"tell", "stop", "off", NULL};
static const char *const links_words[] = {"auto", "always", "never", NULL};
static const char *const theme_words[] = {"auto", "dark", "light", "mono", NULL};
static const char *const encoding_words[] = {"utf-8", "latin1", NULL};
static const char *const cache_words[] = {"f16", "f32", "int8", "int4", NULL};
static const int cache_types[] = {DTYPE_F16, DTYPE_F32, DTYPE_INT8, DTYPE_INT4};
static const char *const weights_words[] = {"own", "f16", "bf16", "int8", "int4", NULL}; // of WeightType
static const char *const head_words[] = {"own", "int8", NULL};
static const int head_values[] = {WEIGHTS_OWN, WEIGHTS_INT8};
static const char *const device_words[] = {"auto", "cpu", "cpu:exact", "cpu:reference", "cuda", NULL};
static const char *const fp8_words[] = {"auto", "always", "never", NULL};        // as Fp8Rounding
static const char *const softmax_words[] = {"auto", "unified", "running", NULL}; // as Softmax
static const char *const template_words[] = {"auto", "jinja", NULL};
static const char *const snapshots_words[] = {"off", NULL};
static const char *const thinking_words[] = {"auto", "on", "off", NULL};
static const int thinking_values[] = {-1, 1, 0};

static bool accepts_device(const char *text) {
    for (size_t i = 0; device_words[i]; i++)
        if (!strcmp(text, device_words[i])) return true;
    if (strncmp(text, "cuda:", 5) != 0) return false;
    text += 5;
    if (!strcmp(text, "all")) return true;
    for (;; text++) {
        const size_t digits = strspn(text, "0123456789");
        if (digits < 1 || digits > 2) return false;
        text += digits;
        if (*text != ',') return *text == 0;
    }
}

static bool accepts_bytes(const char *text) {
    int64_t bytes;
    return format_read_bytes(text, &bytes);
}

static bool accepts_nonempty(const char *text) {
    return *text != 0;
}

#define MAX_TOKENS 16777216
// NOLINTBEGIN(bugprone-macro-parentheses): names of fields cannot stand in parentheses
// The place of a field of Settings, and what it is in C: a type that no key can have does not compile.
#define AT(place)                                                                                            \
    .offset = offsetof(Settings, place), .field = _Generic(                                                  \
        ((Settings *)0)->place, bool : CONFIG_FIELD_BOOL, int : CONFIG_FIELD_INT, unsigned : CONFIG_FIELD_INT, \
        int64_t : CONFIG_FIELD_INT64, float : CONFIG_FIELD_FLOAT, double : CONFIG_FIELD_DOUBLE,             \
        char * : CONFIG_FIELD_TEXT, const char * : CONFIG_FIELD_TEXT, ConfigStrings : CONFIG_FIELD_STRINGS, \
        ConfigBiases : CONFIG_FIELD_BIASES)
#define ROW(section, name, place, ...)                                                                       \
    { #section, #name, __VA_ARGS__, AT(place) }
#define SWITCH(section, name, place, explained) ROW(section, name, place, CONFIG_BOOL, .doc = explained)
#define NUMBER(section, name, place, least, most, explained)                                                 \
    ROW(section, name, place, CONFIG_NUMBER, least, most, .doc = explained)
#define INTEGER(section, name, place, least, most, explained)                                                \
    ROW(section, name, place, CONFIG_INTEGER, least, most, .doc = explained)
#define INTEGER_OR(section, name, place, least, most, word, meaning, explained)                              \
    ROW(section, name, place, CONFIG_INTEGER, least, most, (const char *const[]){word, NULL}, meaning,       \
        .doc = explained)
#define CHOICE(section, name, place, choices, explained)                                                     \
    ROW(section, name, place, CONFIG_CHOICE, .words = choices, .doc = explained)
#define TEXT(section, name, place, usual, check, range, explained)                                           \
    ROW(section, name, place, CONFIG_TEXT, .words = usual, .accepts = check, .allowed = range,               \
        .doc = explained)
#define COLOR(name, part, explained)                                                                         \
    ROW(colors, name, colors[part], CONFIG_TEXT, .accepts = theme_accepts, .allowed = THEME_ALLOWED,         \
        .doc = explained)
// NOLINTEND(bugprone-macro-parentheses)

static const ConfigKey keys[] = {
    NUMBER(sampling, temperature, talk.sampler.temperature, 0, 5, "low is sober, high is wild, 0 is greedy"),
    NUMBER(sampling, top_p, talk.sampler.top_p, 0, 1,
           "smallest set of tokens with this probability; 1 is off"),
    INTEGER(sampling, top_k, talk.sampler.top_k, 0, 1000000, "the k most probable tokens; 0 is off"),
    NUMBER(sampling, min_p, talk.sampler.min_p, 0, 1, "least share of the most probable token; 0 is off"),
    NUMBER(sampling, typical_p, talk.sampler.typical_p, 0, 1,
           "tokens of typical information content; 1 is off"),
    NUMBER(sampling, repeat_penalty, talk.sampler.repeat_penalty, 0.1, 10,
           "divides the logits of tokens seen lately; 1 is off"),
    INTEGER_OR(sampling, repeat_last, talk.sampler.repeat_last, 0, MAX_TOKENS, "context", -1,
               "last tokens that the penalties look at"),
    NUMBER(sampling, frequency_penalty, talk.sampler.frequency_penalty, -2, 2,
           "off the logit for each time a token was seen; 0 is off"),
    NUMBER(sampling, presence_penalty, talk.sampler.presence_penalty, -2, 2,
           "off the logit of each token that was seen; 0 is off"),
    NUMBER(sampling, dry_multiplier, talk.sampler.dry_multiplier, 0, 100,
           "strength of the penalty on repeated runs (DRY); 0 is off"),
    NUMBER(sampling, dry_base, talk.sampler.dry_base, 1, 10,
           "growth of the DRY penalty with each token of the run"),
    INTEGER(sampling, dry_allowed, talk.sampler.dry_allowed, 1, SAMPLER_LONGEST_REPETITION,
            "tokens of a repeated run from which on DRY penalises the next"),
    ROW(sampling, seed, sampling.seed, CONFIG_INTEGER, 0, 9223372036854775807.0,
        (const char *const[]){"random", NULL}, SETTINGS_SEED_RANDOM,
        .allowed = "a whole number from 0 to 9223372036854775807, or \"random\"",
        .doc = "same seed, same text"),
    INTEGER_OR(sampling, max_tokens, talk.max_tokens, 0, MAX_TOKENS, "unlimited", 0,
               "longest reply in tokens"),
    ROW(sampling, stop, sampling.stop, CONFIG_STRINGS, .allowed = "up to 32 strings of 1 to 256 bytes",
        .doc = "texts that end a reply"),
    ROW(sampling, logit_bias, sampling.logit_bias, CONFIG_BIASES, -100, 100,
        .allowed = "{\"id or piece\" = bias, ...} with -100 to 100 each, up to 1024",
        .doc = "added to the logits of single tokens"),
    INTEGER(sampling, drafts, talk.drafts, 0, DRAFTS_MOST,
            "next tokens guessed at once from what was said before; 0 is off"),
    TEXT(sampling, grammar, sampling.grammar, NULL, NULL, NULL,
         "a GBNF file that replies fit, or the grammar itself; \"\" is none"),
    TEXT(sampling, regex, sampling.regex, NULL, NULL, NULL,
         "a pattern that replies fit as a whole; \"\" is none"),
    TEXT(sampling, json_schema, sampling.json_schema, NULL, NULL, NULL,
         "a JSON Schema file that replies fit, or the schema itself; \"\" is none"),
    SWITCH(sampling, ignore_eos, talk.sampler.ignore_eos, "never end a turn by a token"),

    INTEGER_OR(context, size, engine.context_size, 0, MAX_TOKENS, "model", 0, "tokens that the model sees"),
    INTEGER(context, reserve, talk.overflow.reserve, 1, MAX_TOKENS, "tokens left free for the reply"),
    CHOICE(context, overflow, talk.overflow.policy, overflow_words, "what happens when the context is full"),
    INTEGER_OR(context, keep, talk.overflow.keep, 0, MAX_TOKENS, "system", OVERFLOW_KEEP_SYSTEM,
               "first tokens that never leave"),
    ROW(context, discard, talk.overflow.discard, CONFIG_AMOUNT, 0, MAX_TOKENS,
        .allowed = "a fraction above 0 and below 1, or a whole number from 1 to 16777216",
        .doc = "how much is discarded at least"),
    NUMBER(context, low_water, talk.overflow.low_water, 0.05, 0.95,
           "whole turns leave until so much of the context is used"),
    CHOICE(context, by, talk.overflow.by_token, by_words, "what leaves: whole turns or single tokens"),
    CHOICE(context, long_prompt, talk.overflow.cut_prompt, long_prompt_words,
           "what becomes of a prompt that cannot fit"),
    ROW(context, thinking, model.thinking, CONFIG_CHOICE, .words = thinking_words, .values = thinking_values,
        .doc = "whether the model thinks before it answers, where its template asks"),

    ROW(cache, type, engine.cache.type, CONFIG_CHOICE, .words = cache_words, .values = cache_types,
        .doc = "element type of the key-value cache"),
    INTEGER_OR(cache, group, engine.cache.group, 0, 256, "auto", 0,
               "elements that share a scale in int8 and int4"),
    INTEGER(cache, layout, engine.cache.layout, 0, 3, "order of the cache's dimensions in memory"),
    SWITCH(cache, paged, engine.cache.paged, "cache slots in pages"),
    INTEGER(cache, page_size, engine.cache.page_size, 1, 65536, "tokens of a page"),
    TEXT(cache, snapshots, cache.snapshots, snapshots_words, accepts_bytes,
         "\"off\", or an amount such as \"2 GB\" or \"500 MB\"",
         "what snapshots of conversations may take on disk"),

    TEXT(model, path, model.path, NULL, NULL, NULL,
         "a Hugging Face folder or a .gguf file; \"\" is the default model"),
    TEXT(model, draft, model.draft, NULL, NULL, NULL,
         "a smaller model of the same vocabulary that guesses what comes next; \"\" is none"),
    CHOICE(model, weights, engine.weights, weights_words, "what linear layers are held and multiplied in"),
    ROW(model, head, engine.head, CONFIG_CHOICE, .words = head_words, .values = head_values,
        .doc = "the same of the output matrix"),
    TEXT(model, template, model.template, template_words, accepts_nonempty,
         "\"auto\", \"jinja\", the name of a chat template, or a .toml or .jinja file", "chat template"),
    TEXT(model, template_args, model.template_args, NULL, chat_template_takes,
         "a JSON object of variables (not messages, tools, bos_token …, which palaver sets), or \"\"",
         "what the model's own chat template is told"),

    TEXT(backend, device, engine.device, device_words, accepts_device,
         "\"auto\", \"cpu\", \"cpu:exact\", \"cpu:reference\", \"cuda\", \"cuda:N\" with N from 0 to 99, "
         "several as "
         "\"cuda:N,N\", or "
         "\"cuda:all\"",
         "where it runs"),
    INTEGER_OR(backend, gpu_layers, engine.device_layers, 1, 100000, "auto", DEVICE_LAYERS_FIT,
               "last layers that lie on the GPU, the others on the CPU"),
    INTEGER_OR(backend, expert_layers, engine.expert_layers, 0, 100000, "auto", DEVICE_LAYERS_FIT,
               "last layers whose experts lie on the GPU, the others' on the CPU"),
    INTEGER_OR(backend, threads, engine.n_threads, 0, MAX_THREADS, "auto", 0, "threads of the CPU backend"),
    INTEGER_OR(backend, world, engine.world.size, 1, 64, "auto", 0, "processes that hold the model together"),
    INTEGER_OR(backend, rank, engine.world.rank, 0, 63, "auto", -1,
               "which of them this is; 0 has the terminal"),
    TEXT(backend, join, engine.world.join, NULL, NULL, NULL, "HOST:PORT where rank 0 awaits the others"),
    TEXT(backend, join_key, engine.world.key, NULL, NULL, NULL, "a secret that all of them know"),
    CHOICE(backend, fp8, engine.fp8, fp8_words, "whether FP8 layers round what enters them to FP8 as well"),
    CHOICE(backend, softmax, engine.softmax, softmax_words, "how attention keeps its weights in range"),

    SWITCH(ui, stats, ui.stats, "a line of figures after each reply"),
    CHOICE(ui, color, ui.color, color_words, "colours on the terminal"),
    SWITCH(ui, gauge, ui.gauge, "how full the context is, in the prompt"),
    SWITCH(ui, history, ui.history, "keep typed lines for the next time"),
    SWITCH(ui, wrap, ui.wrap, "words are wrapped at the window's edge"),
    SWITCH(ui, markdown, ui.markdown, "replies' Markdown is drawn, not shown as it is written"),
    SWITCH(ui, space, ui.space, "empty lines around questions, replies and what commands say"),
    SWITCH(ui, live_speed, ui.live_speed, "the speed of a reply, while it streams"),
    CHOICE(ui, loops, ui.loops, loops_words, "what becomes of a reply that says the same over and over"),
    CHOICE(ui, links, ui.links, links_words, "links that can be clicked (OSC 8), else with their address"),
    CHOICE(ui, theme, ui.theme, theme_words, "which colours"),
    CHOICE(ui, encoding, ui.encoding, encoding_words, "of text in files and on stdin (JSON is always UTF-8)"),

    COLOR(heading, THEME_HEADING, "the colour of headings"),
    COLOR(code, THEME_CODE, "the colour of code"),
    COLOR(keyword, THEME_KEYWORD, "words of a programming language"),
    COLOR(string, THEME_STRING, "texts in code"),
    COLOR(comment, THEME_COMMENT, "comments in code"),
    COLOR(number, THEME_NUMBER, "numbers in code"),
    COLOR(link, THEME_LINK, "the colour of links"),
    COLOR(frame, THEME_FRAME, "rules, marks of lists, lines of tables and quotes"),
    COLOR(notice, THEME_NOTICE, "the colour of notices"),
    COLOR(warning, THEME_WARNING, "the colour of warnings"),
    COLOR(error, THEME_ERROR, "what stands before an error"),
    COLOR(question, THEME_QUESTION, "the prompt"),
};

Status settings_init(Settings *settings, Error *error) {
    return config_init(settings_table(), &settings->config, error);
}

void settings_free(Settings *settings) {
    config_free(&settings->config);
}

Status settings_copy(Settings *copy, const Settings *from, Error *error) {
    return config_copy(&copy->config, &from->config, error);
}

const ConfigTable *settings_table(void) {
    static const ConfigTable table = {.keys = keys,
                                      .n_keys = sizeof keys / sizeof *keys,
                                      .size = sizeof(Settings),
                                      .name = "config/default.toml",
                                      .built_in = _binary_config_default_toml_start,
                                      .built_in_end = _binary_config_default_toml_end};
    return &table;
}

const ConfigKey *settings_keys(size_t *count) {
    *count = sizeof keys / sizeof *keys;
    return keys;
}

const ConfigKey *settings_key(const char *name) {
    return config_key_find(settings_table(), name);
}

// ---- what else there is to know ----------------------------------------------------------------------------

bool settings_key_is_fixed(const ConfigKey *key) {
    static const char *const sections[] = {"model", "backend", "cache"}, *const names[] = {"size", "color",
                                                                                           "history"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(key->section, sections[i]) || !strcmp(key->name, names[i])) return true;
    return false;
}

uint64_t settings_random_seed(void) {
    enum { LIMIT = 1000000000 };
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_sec * 1000003u ^ (uint64_t)now.tv_nsec;
    }
    return seed % LIMIT;
}
