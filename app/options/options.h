// The command line: GNU-style flags, one for each configuration key besides those of the program itself.
//
// Parsing only looks: it neither prints nor opens anything. Values of configuration keys are kept as text and
// checked by config_set() when they are applied, in the order of the command line.
#ifndef PALAVER_APP_OPTIONS_H
#define PALAVER_APP_OPTIONS_H

#include "app/settings/settings.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stdio.h>

typedef enum Command {
    COMMAND_CHAT,
    COMMAND_INSPECT,
    COMMAND_TOKENIZE,
    COMMAND_PERPLEXITY,
    COMMAND_BENCH,
    COMMAND_TUNE,
    COMMAND_CONFIG,
    COMMAND_LIST,
    COMMAND_USE,
    COMMAND_PULL,
    COMMAND_HELP,
    COMMAND_VERSION,
} Command;

// A configuration key that was given as a flag.
typedef struct OptionSetting {
    const ConfigKey *key;
    const char *text;
} OptionSetting;

// Strings point into argv.
typedef struct Options {
    Command command;
    const char *model; // as given; NULL: the configured or default model. Of list: a part of names; NULL: all
    const char *argument; // second operand: TEXT of tokenize, FILE of perplexity; NULL: none
    const char *prompt;   // -p: one question; NULL: none
    const char *system;   // --system TEXT or @FILE; NULL: none
    bool resume;
    const char *resume_name; // NULL: the last conversation
    // The only operand, where it stands behind --resume: a model or a conversation. It is `model` as well.
    const char *resume_operand;
    const char *profile; // NULL: none
    bool echo, keep_going, no_save, plain, print_default;
    bool take_stdin, leave_stdin; // what -p makes of stdin, whatever it is
    bool jsonl, ordered;
    int parallel; // conversations at once, of --jsonl and of bench; 0: not given

    // of bench; 0 or NULL: not given
    const char *shape, *shape_weights; // made-up weights of a known shape, and their type
    int prefill, decode, depth, stream, shared;
    bool profile_ops, dispatch;
    const char *plot; // the file of a picture; NULL: none

    bool json, names; // of list

    const char *against; // of perplexity: the policy to compare with; NULL: none

    const char **files; // [n_files] of -c, in order
    int n_files;
    OptionSetting *settings; // [n_settings] in order
    int n_settings;
} Options;

// Reads argv [argc] into `options`, which options_free() releases (also after a failure). STATUS_USAGE: an
// unknown flag or subcommand (with the nearest name), a missing or superfluous value.
Status options_parse(int argc, char **argv, Options *options, Error *error);
void options_free(Options *options);

// The subcommand that `name`, which is none, was meant for; NULL: none is near. A path is no misspelt name.
const char *options_nearest_command(const char *name);

// What --help and --version print.
void options_print_help(FILE *file);
void options_print_version(FILE *file);

#endif
