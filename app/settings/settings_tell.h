// Settings that count for less than they say, in words: what is asked for and cannot be, or changes nothing.
#ifndef PALAVER_APP_SETTINGS_TELL_H
#define PALAVER_APP_SETTINGS_TELL_H

#include "app/settings/settings.h"

// What was said before, so that it is said once. All zero at the beginning.
typedef struct SettingsTold {
    bool quiet;        // nothing is said
    bool own_sampling; // each conversation may set [sampling] anew: nothing is said of it
    bool shift;
    bool contradicted; // template_args' enable_thinking by thinking
    int64_t reserve;   // the value that was too large
    unsigned idle;     // bit i: row i of the table of settings that change nothing
} SettingsTold;

// Warns of a policy that the model cannot follow, of a reserve that the context is too small for, and of settings given
// by a flag or by hand that change nothing because another one says so, such as what template_args say of thinking.
void settings_tell(const Settings *settings, const Engine *engine, Screen *screen, SettingsTold *told);
// The same without the reserve, for who makes no replies.
void settings_tell_of_window(const Settings *settings, const Engine *engine, Screen *screen,
                             SettingsTold *told);

// One notice of the variables PALAVER_… of the environment (NAME=VALUE, NULL-terminated) that no setting and nothing else
// reads: of the first what may be meant, and how many there are besides.
void settings_tell_variables(char *const *environment, Screen *screen);

#endif
