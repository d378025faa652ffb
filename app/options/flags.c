#include "app/options/flags.h"

#include "kernels/base/text/nearest.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_COUNT = 1 << 24, // tokens of a benchmark
    MAX_PARALLEL = 256,
};

#define SWITCH(name, letter, of_chat, field)                                                                 \
    { name, no_argument, FLAG_SWITCH, letter, of_chat, offsetof(Options, field), 0, 0 }
#define TEXT(name, letter, of_chat, field)                                                                   \
    { name, required_argument, FLAG_TEXT, letter, of_chat, offsetof(Options, field), 0, 0 }
#define COUNT(field, least, most)                                                                            \
    { #field, required_argument, FLAG_COUNT, 0, false, offsetof(Options, field), least, most }
#define SPECIAL(name, has_value, use, letter, of_chat)                                                       \
    { name, has_value, use, letter, of_chat, 0, 0, 0 }

static const Flag program_flags[] = {
    SPECIAL("config", required_argument, FLAG_FILE, 'c', false),
    TEXT("profile", 0, false, profile), // see profile_of_bench
    TEXT("prompt", 'p', true, prompt),
    SPECIAL("stdin", no_argument, FLAG_STDIN, 0, true),
    SPECIAL("no-stdin", no_argument, FLAG_NO_STDIN, 0, true),
    TEXT("system", 's', true, system),
    SPECIAL("resume", optional_argument, FLAG_RESUME, 'r', true),
    SWITCH("no-save", 0, true, no_save),
    SWITCH("echo", 0, true, echo),
    SWITCH("keep-going", 'k', true, keep_going),
    SWITCH("plain", 0, false, plain),
    SWITCH("default", 0, false, print_default),
    SPECIAL("context", required_argument, FLAG_CONTEXT, 0, false),
    TEXT("shape", 0, false, shape),
    COUNT(prefill, 1, MAX_COUNT),
    COUNT(decode, 2, MAX_COUNT),
    COUNT(depth, 1, MAX_COUNT),
    COUNT(stream, 1, MAX_COUNT),
    TEXT("against", 0, false, against),
    COUNT(shared, 1, MAX_COUNT),
    SWITCH("dispatch", 0, false, dispatch),
    SWITCH("json", 0, false, json),
    SWITCH("names", 0, false, names),
    TEXT("plot", 0, false, plot),
    SWITCH("jsonl", 0, true, jsonl),
    COUNT(parallel, 1, MAX_PARALLEL),
    SWITCH("ordered", 0, true, ordered),
    SPECIAL("help", no_argument, FLAG_HELP, 'h', false),
    SPECIAL("version", no_argument, FLAG_VERSION, 'V', false),
};
// What --profile is behind `palaver bench`: the profile of the ops, not one of the settings.
static const Flag profile_of_bench = SWITCH("profile", 0, false, profile_ops);
enum { N_PROGRAM_FLAGS = sizeof program_flags / sizeof *program_flags };
_Static_assert(FLAGS_LETTERS_ROOM > 2 * N_PROGRAM_FLAGS + 1, "room for each flag's letter");

void flags_close(Flags *flags) {
    for (size_t i = 0; i < flags->n; i++) free(flags->names[i]);
    free(flags->options);
    free(flags->program);
    free(flags->keys);
    free(flags->names);
    free(flags->uses);
}

static bool has(const Flags *flags, const char *name) {
    for (size_t i = 0; i < flags->n; i++)
        if (!strcmp(flags->options[i].name, name)) return true;
    return false;
}

static void add(Flags *flags, const char *name, int has_value, FlagUse use) {
    flags->uses[flags->n] = use;
    flags->options[flags->n] = (struct option){name, has_value, NULL, FLAG_FIRST + (int)flags->n};
    flags->n++;
}

// One flag for a key, named like it with dashes; a name that the program uses itself stays the program's.
static bool add_key(Flags *flags, const ConfigKey *key, const char *prefix) {
    char *name = malloc(strlen(prefix) + strlen(key->name) + 1);
    if (!name) return false;
    sprintf(name, "%s%s", prefix, key->name);
    for (char *p = name; *p; p++)
        if (*p == '_') *p = '-';
    if (has(flags, name)) {
        free(name);
        return true;
    }
    flags->names[flags->n] = name;
    flags->keys[flags->n] = key;
    bool is_switch = key->type == CONFIG_BOOL;
    if (*prefix)
        add(flags, name, no_argument, FLAG_KEY_NO);
    else
        add(flags, name, is_switch ? optional_argument : required_argument, FLAG_KEY);
    return true;
}

Status flags_open(Flags *flags, bool of_bench, Error *error) {
    size_t n_keys;
    const ConfigKey *keys = settings_keys(&n_keys);
    size_t capacity = N_PROGRAM_FLAGS + 2 * n_keys;
    *flags = (Flags){.options = calloc(capacity + 1, sizeof *flags->options),
                     .program = calloc(capacity, sizeof *flags->program),
                     .keys = calloc(capacity, sizeof *flags->keys),
                     .names = calloc(capacity, sizeof *flags->names),
                     .uses = calloc(capacity, sizeof *flags->uses)};
    bool ok = flags->options && flags->program && flags->keys && flags->names && flags->uses;
    for (int i = 0; ok && i < N_PROGRAM_FLAGS; i++) {
        const Flag *flag = &program_flags[i];
        if (of_bench && !strcmp(flag->name, profile_of_bench.name)) flag = &profile_of_bench;
        flags->program[i] = flag;
        add(flags, flag->name, flag->has_value, flag->use);
    }
    for (size_t i = 0; ok && i < n_keys; i++) {
        ok = add_key(flags, &keys[i], "");
        if (ok && keys[i].type == CONFIG_BOOL) ok = add_key(flags, &keys[i], "no-");
    }
    return ok ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory while reading the command line");
}

// What others call a flag of ours.
static const struct {
    const char *theirs, *ours;
} others[] = {
    {"temp", "--temperature"},
    {"m", "palaver MODEL: the model needs no flag"},
    {"model", "palaver MODEL: the model needs no flag"},
    {"t", "--threads, or --temperature"},
    {"n", "--max-tokens"},
    {"n-predict", "--max-tokens"},
    {"max-new-tokens", "--max-tokens"},
    {"num-predict", "--max-tokens"},
    {"ctx-size", "--context"},
    {"num-ctx", "--context"},
    {"ngl", "--gpu-layers"},
    {"n-gpu-layers", "--gpu-layers"},
    {"cmoe", "--expert-layers"},
    {"cpu-moe", "--expert-layers"},
    {"ncmoe", "--expert-layers"},
    {"n-cpu-moe", "--expert-layers"},
    {"sys", "--system"},
    {"i", "palaver without -p is a chat"},
    {"f", "--stdin, or < FILE"},
};

static const char *ours_of(const char *theirs, size_t n) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i].theirs) == n && !memcmp(theirs, others[i].theirs, n)) return others[i].ours;
    return NULL;
}

bool flags_spell(const Flags *flags, char *word) {
    char name[NEAREST_NAME_MAX + 1];
    size_t length = strncmp(word, "--", 2) != 0 ? 0 : strcspn(word + 2, "=");
    if (!length || length > NEAREST_NAME_MAX || !memchr(word + 2, '_', length)) return false;
    for (size_t i = 0; i <= length; i++)
        name[i] = (char)(i == length ? 0 : word[2 + i] == '_' ? '-' : word[2 + i]);
    if (!has(flags, name)) return false;
    memcpy(word + 2, name, length);
    return true;
}

Status flags_refused(const Flags *flags, const char *word, int letter, Error *error) {
    // Of -xy `word` is the one before: getopt is still in it.
    const bool is_letter = letter > 0 && letter < FLAG_FIRST;
    const char short_name = (char)letter, *ours = is_letter ? ours_of(&short_name, 1) : NULL;
    if (ours) return error_set(error, STATUS_USAGE, "unknown flag -%c: here it is %s", letter, ours);
    if (letter == '=')
        return error_set(error, STATUS_USAGE,
                         "= goes with a flag's long name: --resume=NAME, which is -r NAME in short");
    if (is_letter)
        return error_set(error, STATUS_USAGE, "unknown flag -%c: palaver --help lists them", letter);
    char name[NEAREST_NAME_MAX + 1];
    size_t length = strcspn(word + 2, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length < NEAREST_NAME_MAX ? length : NEAREST_NAME_MAX),
             word + 2);
    if ((ours = ours_of(name, strlen(name))) != NULL)
        return error_set(error, STATUS_USAGE, "unknown flag --%s: here it is %s", name, ours);
    size_t n_longer = 0, longer = 0;
    for (size_t i = 0; i < flags->n; i++) {
        if (!strcmp(flags->options[i].name, name))
            return error_set(error, STATUS_USAGE, "--%s takes no value", name);
        if (!strncmp(flags->options[i].name, name, strlen(name))) longer = i, n_longer++;
    }
    if (n_longer > 1)
        return error_set(error, STATUS_USAGE, "--%s may mean --%s and %zu more: write it out", name,
                         flags->options[longer].name, n_longer - 1);
    const char **names = calloc(flags->n + 1, sizeof *names);
    int nearest = -1;
    for (size_t i = 0; names && i < flags->n; i++) names[i] = flags->options[i].name;
    if (names) nearest = nearest_name(name, names, flags->n);
    Status status = nearest < 0
                        ? error_set(error, STATUS_USAGE, "unknown flag --%s: palaver --help lists them", name)
                        : error_set(error, STATUS_USAGE, "unknown flag --%s: did you mean --%s?", name,
                                    flags->options[nearest].name);
    free(names);
    return status;
}

void flags_letters(char *letters) {
    strcpy(letters, ":");
    for (int i = 0; i < N_PROGRAM_FLAGS; i++)
        if (program_flags[i].letter)
            sprintf(letters + strlen(letters), "%c%s", program_flags[i].letter,
                    program_flags[i].has_value == required_argument ? ":" : "");
}

int flags_find(int found) {
    if (found >= FLAG_FIRST) return found - FLAG_FIRST;
    for (int i = 0; i < N_PROGRAM_FLAGS; i++)
        if (program_flags[i].letter == found) return i;
    return -1;
}
