#include "config/config_unknown.h"

#include "kernels/base/text/nearest.h"
#include "kernels/base/text/quote.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

Status config_unknown_key(const ConfigTable *table, const char *name, Error *error) {
    enum { MOST = 256 };
    const char *dot = strrchr(name, '.');
    const ConfigKey *elsewhere = dot ? config_key_find(table, dot + 1) : NULL;
    if (elsewhere)
        return error_set(error, STATUS_USAGE, "unknown key \"%s\"; %s belongs in [%s]", quote(name).text,
                         elsewhere->name, elsewhere->section);
    const char *names[MOST];
    size_t n = table->n_keys < MOST ? table->n_keys : MOST;
    for (size_t i = 0; i < n; i++) names[i] = table->keys[i].name;
    int nearest = nearest_name(dot ? dot + 1 : name, names, n);
    if (nearest < 0)
        return error_set(error, STATUS_USAGE, "unknown key \"%s\"; `palaver config` lists all keys",
                         quote(name).text);
    return error_set(error, STATUS_USAGE, "unknown key \"%s\"; did you mean %s.%s?", quote(name).text,
                     table->keys[nearest].section, table->keys[nearest].name);
}

Status config_unknown_section(const ConfigTable *table, const char *name, Error *error) {
    enum { MOST = 32 };
    const char *sections[MOST];
    size_t count = 0;
    for (size_t i = 0; i < table->n_keys && count < MOST - 1; i++)
        if (!i || strcmp(table->keys[i].section, table->keys[i - 1].section) != 0)
            sections[count++] = table->keys[i].section;
    sections[count++] = "profile";
    int nearest = nearest_name(name, sections, count);
    if (nearest >= 0)
        return error_set(error, STATUS_USAGE, "unknown section [%s]; did you mean [%s]?", quote(name).text,
                         sections[nearest]);
    char all[256] = "";
    for (size_t i = 0, at = 0; i + 1 < count && at < sizeof all; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", sections[i]);
    return error_set(error, STATUS_USAGE, "unknown section [%s]; there are %s and profile.NAME",
                     quote(name).text, all);
}

Status config_unknown_profile(const char *const *names, size_t n, const char *profile, Error *error) {
    if (!n)
        return error_set(error, STATUS_USAGE,
                         "no profile \"%s\": no file that was read has a [profile.NAME] section",
                         quote(profile).text);
    int nearest = nearest_name(profile, names, n);
    if (nearest >= 0)
        return error_set(error, STATUS_USAGE, "no profile \"%s\"; did you mean \"%s\"?", quote(profile).text,
                         quote(names[nearest]).text);
    return error_set(error, STATUS_USAGE, "no profile \"%s\"; the first that was read is \"%s\"",
                     quote(profile).text, quote(names[0]).text);
}

Status config_unknown_variable(const ConfigTable *table, const char *variable, Error *error) {
    for (size_t i = 0; i < table->n_keys; i++) {
        char ours[160];
        const ConfigKey *key = &table->keys[i];
        config_key_environment(key, ours, sizeof ours);
        if (nearest_distance(variable, ours) <= 2 || !strcasecmp(variable + strlen("PALAVER_"), key->name))
            return error_set(error, STATUS_USAGE, "%s: unknown variable; did you mean %s?",
                             quote(variable).text, ours);
    }
    return STATUS_OK;
}

Status config_foreign_variable(const ConfigTable *table, const char *variable, Error *error) {
    char name[NEAREST_NAME_MAX];
    snprintf(name, sizeof name, "%s", variable + strlen("PALAVER_"));
    for (char *c = name; *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    for (size_t i = 0; i < table->n_keys; i++) {
        const ConfigKey *key = &table->keys[i];
        char ours[160];
        config_key_environment(key, ours, sizeof ours);
        if (!strcmp(variable, ours)) return STATUS_OK;
        const size_t n = strlen(key->section);
        if (!strncmp(name, key->section, n) && name[n] == '_') name[n] = '.';
    }
    config_unknown_key(table, name, error);
    return error_prefix(error, "%s names no setting: ", variable);
}
