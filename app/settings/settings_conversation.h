// From the settings to a conversation's.
#ifndef PALAVER_APP_SETTINGS_CONVERSATION_H
#define PALAVER_APP_SETTINGS_CONVERSATION_H

#include "app/settings/settings.h"
#include "tokenizer/tokenizer.h"

// What a conversation's settings say of sampling, overflow, limits and stop strings; seed, stream and position stay.
// *biases (NULL or malloc'ed) becomes what the sampler's settings refer to, as the stop strings do to `settings`.
// STATUS_USAGE: a bias names no token.
Status settings_conversation(const Settings *settings, const Tokenizer *tokenizer, SamplerBias **biases,
                             ConversationSettings *to, Error *error);

#endif
