#include "app/options/options.h"

#include "app/options/flags.h"
#include "app/options/options_internal.h"

#include "kernels/base/text/nearest.h"
#include "kernels/base/text/quote.h"

#include <stdlib.h>
#include <string.h>

static const char *const command_names[] = {"inspect", "tokenize", "perplexity", "bench", "tune",
                                            "config",  "list",     "use",        "pull",  "help"};
static const Command command_values[] = {COMMAND_INSPECT, COMMAND_TOKENIZE, COMMAND_PERPLEXITY, COMMAND_BENCH,
                                         COMMAND_TUNE,    COMMAND_CONFIG,   COMMAND_LIST,       COMMAND_USE,
                                         COMMAND_PULL,    COMMAND_HELP};
enum { N_COMMANDS = sizeof command_names / sizeof *command_names };
static const int command_operands[N_COMMANDS] = {1, 2, 2, 1, 1,
                                                 1, 1, 1, 1, 1}; // how many operands each takes

static void add_setting(Options *options, const ConfigKey *key, const char *text) {
    options->settings[options->n_settings++] = (OptionSetting){key, text};
}

static Status read_count(const Flag *flag, const char *text, int *count, Error *error) {
    char *end;
    if (!text) text = ""; // flags of this kind have a value: getopt sees to it
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < flag->least || value > flag->most)
        return error_set(error, STATUS_USAGE, "--%s %s: allowed is %d to %d", flag->name, quote(text).text,
                         flag->least, flag->most);
    *count = (int)value;
    return STATUS_OK;
}

// With a shape, --weights says what its weights are made of rather than how a model's are to be kept.
static Status take_shape_weights(Options *options, Error *error) {
    bool counts = options->prefill || options->decode || options->depth || options->stream || options->shared;
    bool bench = options->command == COMMAND_BENCH;
    if (!bench && (counts || options->dispatch))
        return error_set(
            error, STATUS_USAGE,
            "--prefill, --decode, --depth, --stream, --shared and --dispatch belong to palaver bench");
    if (!bench && options->plot) return error_set(error, STATUS_USAGE, "--plot belongs to palaver bench");
    if (!bench && options->command != COMMAND_TUNE && options->shape)
        return error_set(error, STATUS_USAGE, "--shape belongs to palaver bench and palaver tune");
    if (options->shape && options->model)
        return error_set(error, STATUS_USAGE, "--shape %s makes a model up: leave it or %s out",
                         quote(options->shape).text, quote(options->model).text);
    if (options->dispatch && (counts || options->parallel || options->profile_ops || options->plot))
        return error_set(error, STATUS_USAGE,
                         "palaver bench --dispatch measures linear layers, and nothing else");
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
static Status apply_flag(Options *options, const Flags *flags, int i, const char *value, Error *error) {
    const Flag *flag = flags->program[i];
    if (!flag) { // a configuration key
        add_setting(options, flags->keys[i],
                    flags->uses[i] == FLAG_KEY_NO ? "false"
                    : value                       ? value
                                                  : "true");
        return STATUS_OK;
    }
    void *field = (char *)options + flag->field;
    switch (flag->use) {
    case FLAG_SWITCH:
        *(bool *)field = true;
        break;
    case FLAG_TEXT:
        *(const char **)field = value;
        break;
    case FLAG_COUNT:
        return read_count(flag, value, field, error);
    case FLAG_FILE:
        options->files[options->n_files++] = value;
        break;
    case FLAG_STDIN:
    case FLAG_NO_STDIN:
        options->take_stdin = flag->use == FLAG_STDIN;
        options->leave_stdin = !options->take_stdin;
        break;
    case FLAG_RESUME:
        options->resume = true;
        options->resume_name = value;
        break;
    case FLAG_CONTEXT:
        add_setting(options, settings_key("context.size"), value);
        break;
    case FLAG_HELP:
        options->command = COMMAND_HELP;
        break;
    case FLAG_VERSION:
        if (options->command != COMMAND_HELP) options->command = COMMAND_VERSION;
        break;
    case FLAG_KEY:
    case FLAG_KEY_NO:
        break;
    }
    return STATUS_OK;
}

const char *options_nearest_command(const char *name) {
    const int nearest = strpbrk(name, "./~") ? -1 : nearest_name(name, command_names, N_COMMANDS);
    return nearest < 0 ? NULL : command_names[nearest];
}

// MODEL, or a subcommand with its operands. `chat_flag`: a flag that only a chat can use, or NULL.
static Status apply_operands(Options *options, char **operands, int n, const char *chat_flag, Error *error) {
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
    if (options->json && options->names)
        return error_set(error, STATUS_USAGE, "--json and --names: one of the two");
    if ((options->json || options->names) && options->command != COMMAND_LIST)
        return error_set(error, STATUS_USAGE, "--%s belongs to palaver list",
                         options->json ? "json" : "names");
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
        const char *nearest = command ? NULL : options_nearest_command(operands[0]);
        if (nearest)
            return error_set(error, STATUS_USAGE, "unknown subcommand %s: did you mean \"palaver %s\"?",
                             quote(operands[0]).text, nearest);
        return error_set(error, STATUS_USAGE, "%s is one operand too many%s", quote(operands[n_allowed]).text,
                         command ? ": palaver --help shows what goes there" : ": a question goes behind -p");
    }
    // An unset variable of a script: what it named is not known to be the default model. What pull needs it says itself.
    if (n > 0 && !*operands[0] && options->command != COMMAND_LIST && options->command != COMMAND_PULL)
        return error_set(error, STATUS_USAGE, "MODEL is empty: name one, or leave it out%s",
                         command ? "" : " for the default model");
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

static Status read_flags(int argc, char **argv, Options *options, const Flags *flags, Error *error) {
    char letters[FLAGS_LETTERS_ROOM];
    flags_letters(letters);
    const char *chat_flag = NULL;
    optind = 0; // GNU getopt: begin anew, permuting
    opterr = 0;
    for (;;) {
        int found = getopt_long(argc, argv, letters, flags->options, NULL);
        if (found == -1) break;
        if (found == '?' && flags_spell(flags, argv[optind - 1])) {
            optind--;
            continue;
        }
        if (found == '?') return flags_refused(flags, argv[optind - 1], optopt, error);
        if (found == ':') return error_set(error, STATUS_USAGE, "%s needs a value", argv[optind - 1]);
        int i = flags_find(found);
        if (flags->program[i] && flags->program[i]->of_chat) chat_flag = flags->options[i].name;
        if (apply_flag(options, flags, i, optarg, error)) return error->status;
        if (flags->uses[i] == FLAG_RESUME && !optarg && optind < argc && argv[optind][0] != '-')
            options->resume_operand = argv[optind];
    }
    if (options->command == COMMAND_HELP || options->command == COMMAND_VERSION) return STATUS_OK;
    Status status = apply_operands(options, argv + optind, argc - optind, chat_flag, error);
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
    Flags flags;
    bool of_bench = argc > 1 && !strcmp(argv[1], "bench");
    Status status = flags_open(&flags, of_bench, error);
    if (!status) status = read_flags(argc, argv, options, &flags, error);
    flags_close(&flags);
    return status;
}

void options_free(Options *options) {
    free(options->files);
    free(options->settings);
    *options = (Options){0};
}
