// From the settings to the conversation, and into its transcript.
#include "app/chat/chat.h"
#include "app/load.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE_ROOM = 4096 };

// ---- to the conversation ----------------------------------------------------------------------------------

// A token id in digits, or the text of one token.
static Status find_token(const Tokenizer *tokenizer, const char *name, int32_t *id, Error *error) {
    char *end;
    long long number = strtoll(name, &end, 10);
    if (end != name && !*end) {
        *id = (int32_t)number;
        if (number >= 0 && number < tokenizer_size(tokenizer)) return STATUS_OK;
        return error_set(error, STATUS_USAGE, "logit_bias: token %s is not in the vocabulary (0 to %lld)",
                         name, (long long)tokenizer_size(tokenizer) - 1);
    }
    if ((*id = tokenizer_find(tokenizer, name)) >= 0) return STATUS_OK;
    Tokens tokens = {0};
    Status status = tokenizer_encode(tokenizer, name, strlen(name), false, &tokens, error);
    if (status == STATUS_OK && tokens.n != 1)
        status = error_set(error, STATUS_USAGE, "logit_bias: %s is %lld tokens; a bias needs one", name,
                           (long long)tokens.n);
    if (status == STATUS_OK) *id = tokens.ids[0];
    tokens_free(&tokens);
    return status;
}

static Status make_biases(const ConfigBiases *from, const Tokenizer *tokenizer, SamplerBias **made,
                          Error *error) {
    SamplerBias *biases = calloc(from->count + 1, sizeof *biases);
    if (!biases) return error_set(error, STATUS_MEMORY, "out of memory");
    for (size_t i = 0; i < from->count; i++) {
        biases[i].bias = (float)from->items[i].bias;
        if (!find_token(tokenizer, from->items[i].token, &biases[i].id, error)) continue;
        free(biases);
        return error->status;
    }
    free(*made);
    *made = biases;
    return STATUS_OK;
}

Status settings_conversation(const Settings *settings, const Tokenizer *tokenizer, SamplerBias **biases,
                             ConversationSettings *to, Error *error) {
    const ConfigBiases *named = &settings->sampling.logit_bias;
    ConversationSettings made = settings->talk;
    if (make_biases(named, tokenizer, biases, error)) return error->status;
    made.sampler.logit_bias = *biases;
    made.sampler.n_logit_bias = (int)named->count;
    made.stop = (const char *const *)settings->sampling.stop.items;
    made.n_stop = (int)settings->sampling.stop.count;
    made.seed = to->seed;
    made.stream = to->stream;
    made.position = to->position;
    *to = made;
    return STATUS_OK;
}

Status chat_apply_settings(Chat *chat, Error *error) {
    int64_t seed = chat->settings->sampling.seed;
    ConversationSettings *to = conversation_settings(chat->conversation);
    if (settings_conversation(chat->settings, engine_tokenizer(chat->engine), &chat->biases, to, error))
        return error->status;
    if (chat->settings->model.thinking != chat->thinking) {
        if (load_template_settings(chat->settings, chat->engine, chat->chat_template, error))
            return error->status;
        chat->thinking = chat->settings->model.thinking;
        chat->used = -1;
    }
    if (seed != SETTINGS_SEED_RANDOM) chat->seed = (uint64_t)seed;
    to->seed = chat->seed;
    to->stream = chat->stream;
    settings_tell(chat->settings, chat->engine, chat->screen, &chat->told);
    return STATUS_OK;
}

// ---- into the transcript and back -------------------------------------------------------------------------

static bool is_recorded(const ConfigKey *key) {
    return !strcmp(key->section, "sampling") || !strcmp(key->section, "context");
}

Status chat_record_settings(Chat *chat, Error *error) {
    size_t n_keys;
    const ConfigKey *keys = settings_keys(&n_keys);
    TranscriptSetting *settings = calloc(n_keys, sizeof *settings);
    char *texts = malloc(n_keys * VALUE_ROOM);
    Status status = settings && texts ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
    int n = 0;
    for (size_t i = 0; i < n_keys && status == STATUS_OK; i++) {
        if (!is_recorded(&keys[i])) continue;
        char *text = texts + (size_t)n * VALUE_ROOM;
        // A list too long to be written whole would be read back as another one.
        if (config_print_value(&chat->settings->config, &keys[i], text, VALUE_ROOM) >= VALUE_ROOM) continue;
        bool session = config_origin_layer(&chat->settings->config, &keys[i]) == CONFIG_SESSION;
        settings[n++] = (TranscriptSetting){keys[i].name, text, session};
    }
    if (status == STATUS_OK) status = transcript_set_settings(chat->transcript, settings, n, error);
    free(settings);
    free(texts);
    return status;
}

void chat_restore_settings(Chat *chat) {
    Error error;
    size_t n_keys;
    const ConfigKey *keys = settings_keys(&n_keys);
    for (size_t i = 0; i < n_keys; i++)
        if (is_recorded(&keys[i]) &&
            config_origin_layer(&chat->settings->config, &keys[i]) == CONFIG_SESSION &&
            config_reset(&chat->settings->config, keys[i].name, &error))
            screen_warn(chat->screen, "[%s stays as it is: %s]", keys[i].name, error.message);
    for (int i = 0; i < transcript_n_settings(chat->transcript); i++) {
        TranscriptSetting setting = transcript_setting(chat->transcript, i);
        const ConfigKey *key = settings_key(setting.key);
        if (!setting.session || !key || settings_key_is_fixed(key)) continue;
        if (config_origin_layer(&chat->settings->config, key) == CONFIG_FLAGS) continue;
        if (config_set(&chat->settings->config, CONFIG_SESSION, setting.key, setting.text, &error))
            screen_warn(chat->screen, "[a setting of this conversation is left out: %s]", error.message);
    }
}
