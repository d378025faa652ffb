#include "app/options/options_internal.h"

#include <string.h>

// Who looks at a setting.
enum {
    CHAT = 1, // prompt, script, -p
    JSONL = 2,
    SCORES = 4,  // perplexity
    TIMES = 8,   // bench
    SHAPE = 16,  // bench --shape
    STREAM = 32, // bench --stream, with or without a shape
    LOOKS = 64,  // inspect
    TUNES = 128, // tune, bench --dispatch
    LISTS = 256,
    USES = 512,
    PULLS = 1024,
    PIECES = 2048, // tokenize
    TALKS = CHAT | JSONL,
    LOADS = TALKS | SCORES | TIMES,
};

typedef struct Scope {
    const char *section, *name; // name NULL: the others of the section
    unsigned who;
} Scope;

static const Scope scopes[] = {
    {"sampling", "drafts", CHAT},
    {"sampling", NULL, TALKS},
    {"context", "size", LOADS | SHAPE | LISTS | LOOKS},
    {"context", "overflow", TALKS | SCORES | STREAM},
    {"context", "keep", TALKS | SCORES | STREAM},
    {"context", "discard", TALKS | SCORES | STREAM},
    {"context", "by", TALKS | SCORES | STREAM},
    {"context", NULL, TALKS},
    {"cache", "snapshots", CHAT},
    {"cache", NULL, LOADS | SHAPE | LISTS | LOOKS},
    {"model", "path", LOADS | LOOKS | PIECES | TUNES | LISTS},
    {"model", "draft", CHAT},
    {"model", "weights", LOADS | TUNES | LISTS},
    {"model", "head", LOADS | TUNES | LISTS},
    {"model", "template", TALKS},
    {"model", "template_args", TALKS},
    {"backend", "device", LOADS | SHAPE | TUNES | LISTS | PULLS | LOOKS},
    {"backend", "softmax", LOADS | SHAPE},
    {"backend", "fp8", LOADS | SHAPE},
    {"backend", "gpu_layers", LOADS | SHAPE | LOOKS},
    {"backend", "expert_layers", LOADS | SHAPE | LOOKS},
    {"backend", NULL, LOADS | SHAPE | TUNES | LOOKS},
    {"ui", "color", ~0u},
    {"ui", "wrap", ~0u},
    {"ui", "theme", ~0u},
    {"ui", "encoding", CHAT | SCORES | PIECES},
    {"ui", NULL, CHAT},
};

// A key that the table does not name is looked at by everybody.
static unsigned scope_of(const ConfigKey *key) {
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
        if (!strcmp(key->section, scopes[i].section) &&
            (!scopes[i].name || !strcmp(key->name, scopes[i].name)))
            return scopes[i].who;
    return ~0u;
}

// What is run looks at keys of these scopes.
static unsigned scope_in_force(const Options *o, const char **what) {
    switch (o->command) {
    case COMMAND_INSPECT:
        *what = "for palaver inspect";
        return LOOKS;
    case COMMAND_TOKENIZE:
        *what = "for palaver tokenize";
        return PIECES;
    case COMMAND_PERPLEXITY:
        *what = "for palaver perplexity";
        return SCORES;
    case COMMAND_TUNE:
        *what = "for palaver tune";
        return TUNES;
    case COMMAND_LIST:
        *what = "for palaver list";
        return LISTS;
    case COMMAND_USE:
        *what = "for palaver use";
        return USES;
    case COMMAND_PULL:
        *what = "for palaver pull";
        return PULLS;
    case COMMAND_BENCH:
        if (o->dispatch) {
            *what = "for palaver bench --dispatch";
            return TUNES;
        }
        *what = o->shape ? "for palaver bench --shape" : "for palaver bench";
        if (!o->stream)
            *what = o->shape ? "for palaver bench --shape without --stream"
                             : "for palaver bench without --stream";
        return (o->shape ? SHAPE : TIMES) | (o->stream ? STREAM : 0);
    case COMMAND_CHAT:
        *what = o->jsonl ? "with --jsonl" : "here";
        return o->jsonl ? JSONL : CHAT;
    default:
        return ~0u; // config tells of all
    }
}

// A text without turns leaves token by token: "by" can say so, and nothing else.
static bool says_by_turn(const OptionSetting *setting, unsigned in_force) {
    return (in_force & (CHAT | JSONL)) == 0 && !strcmp(setting->key->section, "context") &&
           !strcmp(setting->key->name, "by") && strcmp(setting->text, "token") != 0;
}

Status options_check_scope(const Options *o, Error *error) {
    const char *what = "";
    char flag[80];
    unsigned in_force = scope_in_force(o, &what);
    if (o->command == COMMAND_CONFIG && o->print_default &&
        (o->n_settings || o->n_files || o->profile || o->model))
        return error_set(error, STATUS_USAGE,
                         "palaver config --default prints the built-in values, whatever else is set");
    if (o->prompt && o->keep_going)
        return error_set(error, STATUS_USAGE, "--keep-going has no meaning with -p: there is one question");
    for (int i = 0; i < o->n_settings; i++) {
        const OptionSetting *setting = &o->settings[i];
        config_key_flag(setting->key, flag, sizeof flag);
        if (!(scope_of(setting->key) & in_force))
            return error_set(error, STATUS_USAGE, "%s has no meaning %s", flag, what);
        if (in_force != ~0u && says_by_turn(setting, in_force))
            return error_set(error, STATUS_USAGE,
                             "--by %s has no meaning %s: a text without turns leaves by token", setting->text,
                             what);
    }
    return STATUS_OK;
}
