#include "app/options.h"

#include "app/options_internal.h"

#include "kernels/base/nearest.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_COUNT = 1 << 24, // tokens of a benchmark
    MAX_PARALLEL = 256,
};
enum { FLAG_FIRST = 256 }; // values of long flags for getopt: FLAG_FIRST + an index into all flags

// What a flag of the program itself does. Configuration keys come after these in the list of all flags.
typedef enum FlagUse {
    USE_FILE,
    USE_PROFILE,
    USE_PROFILE_OPS,
    USE_PROMPT,
    USE_STDIN,
    USE_NO_STDIN,
    USE_SYSTEM,
    USE_RESUME,
    USE_NO_SAVE,
    USE_ECHO,
    USE_KEEP_GOING,
    USE_PLAIN,
    USE_DEFAULT,
    USE_CONTEXT,
    USE_SHAPE,
    USE_PREFILL,
    USE_DECODE,
    USE_DEPTH,
    USE_STREAM,
    USE_SHARED,
    USE_PARALLEL,
    USE_AGAINST,
    USE_JSONL,
    USE_ORDERED,
    USE_HELP,
    USE_VERSION,
    USE_KEY,    // a configuration key with its value
    USE_KEY_NO, // --no-KEY of a switch
} FlagUse;

typedef struct Flag {
    const char *name;
    int has_value; // as getopt's has_arg
    FlagUse use;
    char letter;  // 0: none
    bool of_chat; // says how to talk: makes no sense with a subcommand
} Flag;

static const Flag program_flags[] = {
    {"config", required_argument, USE_FILE, 'c', false},
    {"profile", required_argument, USE_PROFILE, 0, false}, // see profile_of_bench
    {"prompt", required_argument, USE_PROMPT, 'p', true},
    {"stdin", no_argument, USE_STDIN, 0, true},
    {"no-stdin", no_argument, USE_NO_STDIN, 0, true},
    {"system", required_argument, USE_SYSTEM, 's', true},
    {"resume", optional_argument, USE_RESUME, 'r', true},
    {"no-save", no_argument, USE_NO_SAVE, 0, true},
    {"echo", no_argument, USE_ECHO, 0, true},
    {"keep-going", no_argument, USE_KEEP_GOING, 'k', true},
    {"plain", no_argument, USE_PLAIN, 0, false},
    {"default", no_argument, USE_DEFAULT, 0, false},
    {"context", required_argument, USE_CONTEXT, 0, false},
    {"shape", required_argument, USE_SHAPE, 0, false},
    {"prefill", required_argument, USE_PREFILL, 0, false},
    {"decode", required_argument, USE_DECODE, 0, false},
    {"depth", required_argument, USE_DEPTH, 0, false},
    {"stream", required_argument, USE_STREAM, 0, false},
    {"against", required_argument, USE_AGAINST, 0, false},
    {"shared", required_argument, USE_SHARED, 0, false},
    {"jsonl", no_argument, USE_JSONL, 0, true},
    {"parallel", required_argument, USE_PARALLEL, 0, false},
    {"ordered", no_argument, USE_ORDERED, 0, true},
    {"help", no_argument, USE_HELP, 'h', false},
    {"version", no_argument, USE_VERSION, 'V', false},
};
// What --profile is behind `palaver bench`: the profile of the ops, not one of the settings.
static const Flag profile_of_bench = {"profile", no_argument, USE_PROFILE_OPS, 0, false};
enum { N_PROGRAM_FLAGS = sizeof program_flags / sizeof *program_flags };

static const char *const command_names[] = {"inspect", "tokenize", "perplexity", "bench", "tune", "config"};
static const Command command_values[] = {COMMAND_INSPECT, COMMAND_TOKENIZE, COMMAND_PERPLEXITY,
                                         COMMAND_BENCH,   COMMAND_TUNE,     COMMAND_CONFIG};
enum { N_COMMANDS = sizeof command_names / sizeof *command_names };
static const int command_operands[N_COMMANDS] = {1, 2, 2, 1, 1, 1}; // how many operands each takes

// All flags as getopt wants them, and what each is.
typedef struct FlagList {
    struct option *options; // [n + 1], the last all zero
    const Flag **program;   // [n] NULL: a configuration key
    const ConfigKey **keys; // [n]
    char **names;           // [n] owned names of configuration keys
    FlagUse *uses;          // [n]
    size_t n;
} FlagList;

static void flag_list_free(FlagList *list) {
    for (size_t i = 0; i < list->n; i++) free(list->names[i]);
    free(list->options);
    free(list->program);
    free(list->keys);
    free(list->names);
    free(list->uses);
}

static bool flag_list_has(const FlagList *list, const char *name) {
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->options[i].name, name)) return true;
    return false;
}

static void flag_list_add(FlagList *list, const char *name, int has_value, FlagUse use) {
    list->uses[list->n] = use;
    list->options[list->n] = (struct option){name, has_value, NULL, FLAG_FIRST + (int)list->n};
    list->n++;
}

// One flag for a key, named like it with dashes; a name that the program uses itself stays the program's.
static bool flag_list_add_key(FlagList *list, const ConfigKey *key, const char *prefix) {
    char *name = malloc(strlen(prefix) + strlen(key->name) + 1);
    if (!name) return false;
    sprintf(name, "%s%s", prefix, key->name);
    for (char *p = name; *p; p++)
        if (*p == '_') *p = '-';
    if (flag_list_has(list, name)) {
        free(name);
        return true;
    }
    list->names[list->n] = name;
    list->keys[list->n] = key;
    bool is_switch = key->type == CONFIG_BOOL;
    if (*prefix)
        flag_list_add(list, name, no_argument, USE_KEY_NO);
    else
        flag_list_add(list, name, is_switch ? optional_argument : required_argument, USE_KEY);
    return true;
}

static Status flag_list_build(FlagList *list, bool of_bench, Error *error) {
    size_t n_keys;
    const ConfigKey *keys = settings_keys(&n_keys);
    size_t capacity = N_PROGRAM_FLAGS + 2 * n_keys;
    *list = (FlagList){.options = calloc(capacity + 1, sizeof *list->options),
                       .program = calloc(capacity, sizeof *list->program),
                       .keys = calloc(capacity, sizeof *list->keys),
                       .names = calloc(capacity, sizeof *list->names),
                       .uses = calloc(capacity, sizeof *list->uses)};
    bool ok = list->options && list->program && list->keys && list->names && list->uses;
    for (int i = 0; ok && i < N_PROGRAM_FLAGS; i++) {
        const Flag *flag = &program_flags[i];
        if (of_bench && flag->use == USE_PROFILE) flag = &profile_of_bench;
        list->program[i] = flag;
        flag_list_add(list, flag->name, flag->has_value, flag->use);
    }
    for (size_t i = 0; ok && i < n_keys; i++) {
        ok = flag_list_add_key(list, &keys[i], "");
        if (ok && keys[i].type == CONFIG_BOOL) ok = flag_list_add_key(list, &keys[i], "no-");
    }
    return ok ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory while reading the command line");
}

// Why getopt refused `word`, a whole argument like --tmperature=1 or -xyz.
static Status flag_refused(const FlagList *list, const char *word, int letter, Error *error) {
    if (strncmp(word, "--", 2))
        return error_set(error, STATUS_USAGE, "unknown flag -%c: palaver --help lists them", letter);
    char name[NEAREST_NAME_MAX + 1];
    size_t length = strcspn(word + 2, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length < NEAREST_NAME_MAX ? length : NEAREST_NAME_MAX),
             word + 2);
    size_t n_longer = 0, longer = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (!strcmp(list->options[i].name, name))
            return error_set(error, STATUS_USAGE, "--%s takes no value", name);
        if (!strncmp(list->options[i].name, name, strlen(name))) longer = i, n_longer++;
    }
    if (n_longer > 1)
        return error_set(error, STATUS_USAGE, "--%s may mean --%s and %zu more: write it out", name,
                         list->options[longer].name, n_longer - 1);
    const char **names = calloc(list->n + 1, sizeof *names);
    int nearest = -1;
    for (size_t i = 0; names && i < list->n; i++) names[i] = list->options[i].name;
    if (names) nearest = nearest_name(name, names, list->n);
    Status status = nearest < 0
                        ? error_set(error, STATUS_USAGE, "unknown flag --%s: palaver --help lists them", name)
                        : error_set(error, STATUS_USAGE, "unknown flag --%s: did you mean --%s?", name,
                                    list->options[nearest].name);
    free(names);
    return status;
}

static void add_setting(Options *options, const ConfigKey *key, const char *text) {
    options->settings[options->n_settings++] = (OptionSetting){key, text};
}

static Status read_count(const char *name, const char *text, int least, int most, int *count, Error *error) {
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > most)
        return error_set(error, STATUS_USAGE, "--%s %s: allowed is %d to %d", name, text, least, most);
    *count = (int)value;
    return STATUS_OK;
}

// With a shape, --weights says what its weights are made of rather than how a model's are to be kept.
static Status take_shape_weights(Options *options, Error *error) {
    bool counts = options->prefill || options->decode || options->depth || options->stream || options->shared;
    if (options->command != COMMAND_BENCH && (options->shape || counts))
        return error_set(
            error, STATUS_USAGE,
            "--shape, --prefill, --decode, --depth, --stream and --shared belong to palaver bench");
    if (options->shared && !options->parallel)
        return error_set(error, STATUS_USAGE, "--shared N needs --parallel N");
    if (options->command != COMMAND_PERPLEXITY && options->against)
        return error_set(error, STATUS_USAGE, "--against belongs to palaver perplexity");
    int kept = 0;
    for (int i = 0; options->shape && i < options->n_settings; i++) {
        if (options->settings[i].key == settings_key("model.weights"))
            options->shape_weights = options->settings[i].text;
        else
            options->settings[kept++] = options->settings[i];
    }
    if (options->shape) options->n_settings = kept;
    return STATUS_OK;
}

// Takes one flag over. `i` is its index in the list.
static Status flag_apply(Options *options, const FlagList *list, int i, const char *value, Error *error) {
    switch (list->uses[i]) {
    case USE_FILE:
        options->files[options->n_files++] = value;
        break;
    case USE_PROFILE:
        options->profile = value;
        break;
    case USE_PROFILE_OPS:
        options->profile_ops = true;
        break;
    case USE_PROMPT:
        options->prompt = value;
        break;
    case USE_STDIN:
    case USE_NO_STDIN:
        options->take_stdin = list->uses[i] == USE_STDIN;
        options->leave_stdin = !options->take_stdin;
        break;
    case USE_SYSTEM:
        options->system = value;
        break;
    case USE_RESUME:
        options->resume = true;
        options->resume_name = value;
        break;
    case USE_NO_SAVE:
        options->no_save = true;
        break;
    case USE_ECHO:
        options->echo = true;
        break;
    case USE_KEEP_GOING:
        options->keep_going = true;
        break;
    case USE_PLAIN:
        options->plain = true;
        break;
    case USE_DEFAULT:
        options->print_default = true;
        break;
    case USE_CONTEXT:
        add_setting(options, settings_key("context.size"), value);
        break;
    case USE_SHAPE:
        options->shape = value;
        break;
    case USE_PREFILL:
        return read_count("prefill", value, 1, MAX_COUNT, &options->prefill, error);
    case USE_DECODE:
        return read_count("decode", value, 2, MAX_COUNT, &options->decode, error);
    case USE_DEPTH:
        return read_count("depth", value, 1, MAX_COUNT, &options->depth, error);
    case USE_STREAM:
        return read_count("stream", value, 1, MAX_COUNT, &options->stream, error);
    case USE_SHARED:
        return read_count("shared", value, 1, MAX_COUNT, &options->shared, error);
    case USE_PARALLEL:
        return read_count("parallel", value, 1, MAX_PARALLEL, &options->parallel, error);
    case USE_AGAINST:
        options->against = value;
        break;
    case USE_HELP:
        options->command = COMMAND_HELP;
        break;
    case USE_VERSION:
        if (options->command != COMMAND_HELP) options->command = COMMAND_VERSION;
        break;
    case USE_KEY:
        add_setting(options, list->keys[i], value ? value : "true");
        break;
    case USE_KEY_NO:
        add_setting(options, list->keys[i], "false");
        break;
    case USE_JSONL:
        options->jsonl = true;
        break;
    case USE_ORDERED:
        options->ordered = true;
        break;
    }
    return STATUS_OK;
}

static int flag_of_letter(int letter) {
    for (int i = 0; i < N_PROGRAM_FLAGS; i++)
        if (program_flags[i].letter == letter) return i;
    return -1;
}

// MODEL, or a subcommand with its operands. `chat_flag`: a flag that only a chat can use, or NULL.
static Status operands_apply(Options *options, char **operands, int n, const char *chat_flag, Error *error) {
    int n_allowed = 1;
    const char *command = NULL;
    for (int i = 0; n && i < N_COMMANDS; i++) {
        if (strcmp(operands[0], command_names[i])) continue;
        command = operands[0];
        options->command = command_values[i];
        n_allowed = command_operands[i];
        operands++, n--;
        break;
    }
    if (command && chat_flag)
        return error_set(error, STATUS_USAGE, "--%s has no meaning for palaver %s", chat_flag, command);
    if (options->print_default && options->command != COMMAND_CONFIG)
        return error_set(error, STATUS_USAGE, "--default belongs to palaver config --default");
    if (!command && n == 2 && options->resume_operand) { // the other one is the model
        bool first = operands[0] == options->resume_operand;
        if (first || operands[1] == options->resume_operand) {
            options->resume_name = options->resume_operand;
            options->resume_operand = NULL;
            if (first) operands++;
            n = 1;
        }
    }
    if (n > n_allowed) {
        int nearest = command ? -1 : nearest_name(operands[0], command_names, N_COMMANDS);
        if (nearest >= 0)
            return error_set(error, STATUS_USAGE, "unknown subcommand %s: did you mean %s?", operands[0],
                             command_names[nearest]);
        return error_set(error, STATUS_USAGE, "%s is one operand too many%s", operands[n_allowed],
                         command ? ": palaver --help shows what goes there" : ": a question goes behind -p");
    }
    if (n > 0) options->model = operands[0];
    if (n > 0 && operands[0] != options->resume_operand) options->resume_operand = NULL;
    if (n > 1) options->argument = operands[1];
    return STATUS_OK;
}

// What goes with many conversations at once, and what does not.
static Status check_jsonl(const Options *o, Error *error) {
    if (o->ordered && !o->jsonl) return error_set(error, STATUS_USAGE, "--ordered belongs to --jsonl");
    if (o->parallel && !o->jsonl && o->command != COMMAND_BENCH)
        return error_set(error, STATUS_USAGE, "--parallel belongs to --jsonl and to palaver bench");
    const char *other = o->prompt ? "prompt" : o->resume ? "resume" : o->echo ? "echo" : NULL;
    if (o->jsonl && other)
        return error_set(error, STATUS_USAGE, "--%s has no meaning with --jsonl: its lines say everything",
                         other);
    return STATUS_OK;
}

static Status flags_read(int argc, char **argv, Options *options, const FlagList *list, Error *error) {
    char letters[2 + 3 * N_PROGRAM_FLAGS] = ":";
    for (int i = 0; i < N_PROGRAM_FLAGS; i++)
        if (program_flags[i].letter)
            sprintf(letters + strlen(letters), "%c%s", program_flags[i].letter,
                    program_flags[i].has_value == required_argument ? ":" : "");
    const char *chat_flag = NULL;
    optind = 0; // GNU getopt: begin anew, permuting
    opterr = 0;
    for (;;) {
        int found = getopt_long(argc, argv, letters, list->options, NULL);
        if (found == -1) break;
        if (found == '?') return flag_refused(list, argv[optind - 1], optopt, error);
        if (found == ':') return error_set(error, STATUS_USAGE, "%s needs a value", argv[optind - 1]);
        int i = found >= FLAG_FIRST ? found - FLAG_FIRST : flag_of_letter(found);
        if (list->program[i] && list->program[i]->of_chat) chat_flag = list->options[i].name;
        if (flag_apply(options, list, i, optarg, error)) return error->status;
        if (list->uses[i] == USE_RESUME && !optarg && optind < argc && argv[optind][0] != '-')
            options->resume_operand = argv[optind];
    }
    if (options->command == COMMAND_HELP || options->command == COMMAND_VERSION) return STATUS_OK;
    Status status = operands_apply(options, argv + optind, argc - optind, chat_flag, error);
    if (!status) status = take_shape_weights(options, error);
    if (!status) status = check_jsonl(options, error);
    return status ? status : options_check_scope(options, error);
}

Status options_parse(int argc, char **argv, Options *options, Error *error) {
    Error unread;
    if (!error) error = &unread;
    *options = (Options){.files = calloc((size_t)argc + 1, sizeof *options->files),
                         .settings = calloc((size_t)argc + 1, sizeof *options->settings)};
    if (!options->files || !options->settings)
        return error_set(error, STATUS_MEMORY, "out of memory while reading the command line");
    FlagList list;
    bool of_bench = argc > 1 && !strcmp(argv[1], "bench");
    Status status = flag_list_build(&list, of_bench, error);
    if (!status) status = flags_read(argc, argv, options, &list, error);
    flag_list_free(&list);
    return status;
}

void options_free(Options *options) {
    free(options->files);
    free(options->settings);
    *options = (Options){0};
}
