// Commands that change settings: set, reset, config, seed.
#include "config/config_unknown.h"
#include "app/commands/commands_internal.h"
#include "app/terminal/screen/page.h"
#include "app/terminal/text_shown.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALLOWED_ROOM = 512 };

// Takes changed settings over and keeps them in the journal; if they do not suit, the configuration is again
// what it was before.
static Status settle(Chat *chat, Settings *before, Status status, Error *error) {
    if (!status) status = chat_settings_apply(chat, error);
    if (!status) status = chat_settings_record(chat, error);
    if (!status && chat_seed(chat) != transcript_header(chat_transcript(chat)).seed)
        status = chat_seed_set(chat, chat_seed(chat), error);
    if (!status) {
        settings_free(before);
        chat_record_sync(chat);
        return STATUS_OK;
    }
    Error ignored;
    settings_free(chat_settings(chat));
    *chat_settings(chat) = *before;
    (void)chat_settings_apply(chat, &ignored);
    return status;
}

static void print_setting(Chat *chat, const ConfigKey *key) {
    char *value = config_value_text(&chat_settings(chat)->config, key);
    screen_say(chat_screen(chat), "%s.%s = %s  (%s)", key->section, key->name, value ? value : "…",
               text_escaped(config_origin(&chat_settings(chat)->config, key)).text);
    free(value);
}

static bool is_section(const char *name) {
    size_t n;
    const ConfigKey *keys = settings_keys(&n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(keys[i].section, name)) return true;
    return false;
}

// Each section under its name; those of one alone, if `section` is not NULL.
static Status print_sections(Chat *chat, const char *section, Error *error) {
    size_t n;
    Page page;
    const ConfigKey *keys = settings_keys(&n);
    const Config *config = &chat_settings(chat)->config;
    if (page_open(&page, error)) return error->status;
    for (size_t i = 0; i < n; i++) {
        if (section && strcmp(keys[i].section, section)) continue;
        char *value = config_value_text(config, &keys[i]);
        if (!i || strcmp(keys[i].section, keys[i - 1].section))
            fprintf(page.stream, "%s[%s]\n", i && !section ? "\n" : "", keys[i].section);
        fprintf(page.stream, "%-17s = %-16s", keys[i].name, value ? value : "…");
        fprintf(page.stream, "  (%s)\n", text_escaped(config_origin(config, &keys[i])).text);
        free(value);
    }
    page_show(&page, chat_screen(chat));
    return STATUS_OK;
}

static Status print_key(Chat *chat, const char *name, Error *error) {
    const ConfigKey *key = settings_key(name);
    if (!key && is_section(name)) return print_sections(chat, name, error);
    if (!key) return config_unknown_key(settings_table(), name, error);
    char allowed[ALLOWED_ROOM];
    config_key_allowed(key, allowed, sizeof allowed);
    print_setting(chat, key);
    screen_say(chat_screen(chat), "%s; %s", key->doc, allowed);
    return STATUS_OK;
}

static Status fixed_error(const ConfigKey *key, Error *error) {
    char flag[80];
    config_key_flag(key, flag, sizeof flag);
    return error_set(error, STATUS_USAGE, "%s.%s counts at the start: palaver %s", key->section, key->name,
                     flag);
}

static Status set_value(Chat *chat, const char *name, const char *text, Error *error) {
    const ConfigKey *key = settings_key(name);
    if (!key) return config_unknown_key(settings_table(), name, error);
    if (settings_key_is_fixed(key)) return fixed_error(key, error);
    Settings before;
    if (settings_copy(&before, chat_settings(chat), error)) return error->status;
    Status status = settle(
        chat, &before, config_set(&chat_settings(chat)->config, CONFIG_SESSION, name, text, error), error);
    if (status) return status;
    print_setting(chat, key);
    if (key->type == CONFIG_STRINGS && strchr(text, ',') && !strpbrk(text, "\"'[{"))
        screen_notice(chat_screen(chat), "[a comma parts them: \"%s\" in quotation marks is one]",
                      text_escaped(text).text);
    return STATUS_OK;
}

Status commands_settings_set(Chat *chat, const char *argument, Error *error) {
    char name[128];
    size_t length = strcspn(argument, " \t=");
    if (!*argument) return print_sections(chat, NULL, error);
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), argument);
    const char *text = argument + length;
    while (isspace((unsigned char)*text)) text++;
    if (*text == '=') text++;
    while (isspace((unsigned char)*text)) text++;
    return *text ? set_value(chat, name, text, error) : print_key(chat, name, error);
}

Status commands_settings_reset(Chat *chat, const char *argument, Error *error) {
    if (!*argument) return error_set(error, STATUS_USAGE, "/reset needs a key; /set lists them");
    const ConfigKey *key = settings_key(argument);
    if (!key) return config_unknown_key(settings_table(), argument, error);
    Settings before;
    if (settings_copy(&before, chat_settings(chat), error)) return error->status;
    Status status = settle(chat, &before, config_reset(&chat_settings(chat)->config, argument, error), error);
    if (!status) print_setting(chat, key);
    return status;
}

static bool is_profile(const Config *config, const char *name) {
    const char *known;
    for (size_t i = 0; (known = config_profile_name(config, i)); i++)
        if (!strcmp(known, name)) return true;
    return false;
}

// Names the settings of a file that come too late.
static void tell_fixed(Chat *chat) {
    size_t n;
    const ConfigKey *keys = settings_keys(&n);
    for (size_t i = 0; i < n; i++)
        if (settings_key_is_fixed(&keys[i]) &&
            config_origin_layer(&chat_settings(chat)->config, &keys[i]) == CONFIG_SESSION)
            screen_notice(chat_screen(chat), "[%s.%s counts at the start, not now]", keys[i].section,
                          keys[i].name);
}

Status commands_settings_config(Chat *chat, const char *argument, Error *error) {
    char path[PATH_ROOM];
    Settings before;
    Status status;
    if (argument_path("/config", argument, path, error) || settings_copy(&before, chat_settings(chat), error))
        return error->status;
    if (is_profile(&chat_settings(chat)->config, argument))
        status = config_apply_profile(&chat_settings(chat)->config, CONFIG_SESSION, argument, error);
    else
        status = config_apply_named_file(&chat_settings(chat)->config, CONFIG_SESSION, path, error);
    status = settle(chat, &before, status, error);
    if (status) return status;
    tell_fixed(chat);
    screen_notice(chat_screen(chat), "[%s is in force; /set shows all]", argument);
    return STATUS_OK;
}

Status commands_settings_seed(Chat *chat, const char *argument, Error *error) {
    if (*argument) {
        Settings before;
        if (settings_copy(&before, chat_settings(chat), error)) return error->status;
        if (settle(chat, &before,
                   config_set(&chat_settings(chat)->config, CONFIG_SESSION, "seed", argument, error), error))
            return error->status;
        bool is_random = chat_settings(chat)->sampling.seed == SETTINGS_SEED_RANDOM;
        if (chat_seed_set(chat, is_random ? settings_random_seed() : chat_seed(chat), error))
            return error->status;
    }
    screen_say(chat_screen(chat), "seed %" PRIu64, chat_seed(chat));
    return STATUS_OK;
}
