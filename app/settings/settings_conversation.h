// From the settings to a conversation's.
#ifndef PALAVER_APP_SETTINGS_CONVERSATION_H
#define PALAVER_APP_SETTINGS_CONVERSATION_H

#include "app/settings/settings.h"
#include "engine/grammar/grammar.h"
#include "tokenizer/tokenizer.h"

// What a conversation's settings refer to, besides the Settings themselves.
typedef struct SettingsMade {
    SamplerBias *biases; // NULL or malloc'ed
    Grammar *grammar;    // NULL: any reply will do
} SettingsMade;

void settings_made_free(SettingsMade *made); // leaves zeros

// What a conversation's settings say of sampling, overflow, limits, stop strings and grammars; seed, stream and
// position stay. `made` (zeros before the first call) becomes what they refer to, as the stop strings do to `settings`.
// A grammar that is there already is kept where its text is the same. STATUS_USAGE: a bias names no token, or a grammar
// is wrong.
Status settings_conversation(const Settings *settings, const Tokenizer *tokenizer, SettingsMade *made,
                             ConversationSettings *to, Error *error);

// *text becomes what a grammar or schema is whose value is a pipe's name, for such a value can be read only once, but is
// asked for at every turn: malloc'ed, or NULL for other keys and values.
Status settings_take_piped(const ConfigKey *key, const char *value, char **text, Error *error);

// *grammar becomes the compiled text, or stays where it is that already.
Status settings_grammar(GrammarKind kind, const char *text, size_t size, Grammar **grammar, Error *error);

#endif
