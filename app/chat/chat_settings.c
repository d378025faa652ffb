// From the settings to the conversation, and into its transcript.
#include "app/chat/chat_internal.h"
#include "app/loading/choose_template.h"
#include "app/loading/load.h"
#include "app/settings/settings_conversation.h"
#include "app/settings/settings_look.h"

#include <stdlib.h>
#include <string.h>

Status chat_settings_apply(Chat *chat, Error *error) {
    int64_t seed = chat->settings->sampling.seed;
    ConversationSettings *to = conversation_settings(chat->conversation);
    if (settings_conversation(chat->settings, engine_tokenizer(chat->model.engine), &chat->model.made, to,
                              error))
        return error->status;
    if (chat->settings->model.thinking != chat->model.thinking) {
        if (choose_template_settings(chat->settings, chat->model.engine, chat->model.chat_template, error))
            return error->status;
        chat->model.thinking = chat->settings->model.thinking;
        chat->used = -1;
    }
    if (seed != SETTINGS_SEED_RANDOM) chat->numbers.seed = (uint64_t)seed;
    to->seed = chat->numbers.seed;
    to->stream = chat->numbers.stream;
    settings_look(chat->settings, (SettingsLook){.plain = chat->options->plain}, chat->screen);
    settings_tell(chat->settings, chat->model.engine, chat->screen, &chat->told.settings);
    return STATUS_OK;
}

// ---- into the transcript and back -------------------------------------------------------------------------

static bool is_recorded(const ConfigKey *key) {
    return !strcmp(key->section, "sampling") || !strcmp(key->section, "context");
}

Status chat_settings_record(Chat *chat, Error *error) {
    size_t n_keys;
    const ConfigKey *keys = settings_keys(&n_keys);
    const Config *config = &chat->settings->config;
    TranscriptSetting *settings = calloc(n_keys, sizeof *settings);
    char **texts = calloc(n_keys, sizeof *texts);
    Status status = settings && texts ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
    int n = 0;
    for (size_t i = 0; i < n_keys && !status; i++) {
        if (!is_recorded(&keys[i])) continue;
        texts[n] = config_value_text(config, &keys[i]);
        if (!texts[n]) status = error_set(error, STATUS_MEMORY, "out of memory");
        const bool session = config_origin_layer(config, &keys[i]) == CONFIG_SESSION;
        settings[n] = (TranscriptSetting){keys[i].name, texts[n], session};
        n++;
    }
    if (!status) status = transcript_set_settings(chat->transcript, settings, n, error);
    for (int i = 0; texts && i < n; i++) free(texts[i]);
    free(texts);
    free(settings);
    return status;
}

void chat_settings_restore(Chat *chat) {
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
