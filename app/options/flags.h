// The flags of the command line: what each is called, and where its value goes.
#ifndef PALAVER_APP_FLAGS_H
#define PALAVER_APP_FLAGS_H

#include "app/options/options.h"

#include <getopt.h>

enum { FLAG_FIRST = 256 }; // values of long flags for getopt: FLAG_FIRST + an index into all flags
enum { FLAGS_LETTERS_ROOM = 128 };

// What a flag does. Most of those of the program itself have a field of Options; configuration keys come after these in
// the list of all flags.
typedef enum FlagUse {
    FLAG_SWITCH, // its field, a bool, becomes true
    FLAG_TEXT,   // its field, a string, becomes the value
    FLAG_COUNT,  // its field, an int, becomes the value
    FLAG_FILE,
    FLAG_STDIN,
    FLAG_NO_STDIN,
    FLAG_RESUME,
    FLAG_CONTEXT,
    FLAG_HELP,
    FLAG_VERSION,
    FLAG_KEY,    // a configuration key with its value
    FLAG_KEY_NO, // --no-KEY of a switch
} FlagUse;

typedef struct Flag {
    const char *name;
    int has_value; // as getopt's has_arg
    FlagUse use;
    char letter;     // 0: none
    bool of_chat;    // says how to talk: makes no sense with a subcommand
    size_t field;    // offset in Options, of what has one
    int least, most; // of a count
} Flag;

// All flags as getopt wants them, and what each is.
typedef struct Flags {
    struct option *options; // [n + 1], the last all zero
    const Flag **program;   // [n] NULL: a configuration key
    const ConfigKey **keys; // [n]
    char **names;           // [n] owned names of configuration keys
    FlagUse *uses;          // [n]
    size_t n;
} Flags;

// All flags, with those of bench (`of_bench`); STATUS_MEMORY. flags_close() also after a failure.
Status flags_open(Flags *flags, bool of_bench, Error *error);
void flags_close(Flags *flags);

// Those of one letter, for getopt, into letters [FLAGS_LETTERS_ROOM].
void flags_letters(char *letters);
// The index of the flag that getopt found.
int flags_find(int found);
// In a word of the command line that is a flag, but for `_` where it has `-`, these become what it has; false: it is
// none.
bool flags_spell(const Flags *flags, char *word);
// Why getopt refused `word`, a whole argument like --tmperature=1 or -xyz.
Status flags_refused(const Flags *flags, const char *word, int letter, Error *error);

#endif
