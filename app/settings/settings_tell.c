#include "app/settings/settings_tell.h"

#include "config/config_unknown.h"
#include "kernels/base/text/quote.h"
#include "kernels/base/text/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static bool cache_has_no_groups(const Settings *s) {
    return s->engine.cache.type != DTYPE_INT8 && s->engine.cache.type != DTYPE_INT4;
}
static bool cache_has_no_pages(const Settings *s) {
    return !s->engine.cache.paged;
}
static bool nothing_leaves(const Settings *s) {
    return s->talk.overflow.policy == OVERFLOW_STOP;
}
static bool tokens_leave(const Settings *s) {
    return s->talk.overflow.by_token && !nothing_leaves(s);
}
static bool dry_is_off(const Settings *s) {
    return s->talk.sampler.dry_multiplier == 0;
}
static bool nothing_looks_back(const Settings *s) {
    const SamplerSettings *sampler = &s->talk.sampler;
    return sampler->repeat_penalty == 1 && sampler->frequency_penalty == 0 && sampler->presence_penalty == 0;
}
static bool nothing_is_drawn(const Settings *s) {
    return s->talk.sampler.temperature == 0;
}

// Settings that change nothing while another one is what it is.
static const struct {
    const char *key;
    bool (*idle)(const Settings *settings);
    const char *why;
} idle_settings[] = {
    {"cache.group", cache_has_no_groups, "only int8 and int4 caches have groups"},
    {"cache.page_size", cache_has_no_pages, "the cache is not in pages (--paged)"},
    {"context.keep", nothing_leaves, "overflow = \"stop\" lets nothing leave"},
    {"context.discard", nothing_leaves, "overflow = \"stop\" lets nothing leave"},
    {"context.by", nothing_leaves, "overflow = \"stop\" lets nothing leave"},
    {"context.low_water", nothing_leaves, "overflow = \"stop\" lets nothing leave"},
    {"context.low_water", tokens_leave, "by = \"token\" goes by discard"},
    {"sampling.dry_base", dry_is_off, "dry_multiplier 0 is no DRY penalty"},
    {"sampling.dry_allowed", dry_is_off, "dry_multiplier 0 is no DRY penalty"},
    {"sampling.repeat_last", nothing_looks_back,
     "repeat_penalty, frequency_penalty and presence_penalty are off"},
    {"sampling.top_k", nothing_is_drawn, "temperature 0 always takes the most probable token"},
    {"sampling.top_p", nothing_is_drawn, "temperature 0 always takes the most probable token"},
    {"sampling.min_p", nothing_is_drawn, "temperature 0 always takes the most probable token"},
    {"sampling.typical_p", nothing_is_drawn, "temperature 0 always takes the most probable token"},
    {"sampling.seed", nothing_is_drawn, "temperature 0 always takes the most probable token"},
};

static void tell_of_idle(const Settings *settings, Screen *screen, SettingsTold *told) {
    for (size_t i = 0; i < sizeof idle_settings / sizeof *idle_settings; i++) {
        const ConfigKey *key = settings_key(idle_settings[i].key);
        if (told->own_sampling && !strcmp(key->section, "sampling")) continue;
        const unsigned bit = 1u << i;
        bool idle =
            config_origin_layer(&settings->config, key) >= CONFIG_FLAGS && idle_settings[i].idle(settings);
        if (idle && !(told->idle & bit))
            screen_notice(screen, "[%s changes nothing: %s]", key->name, idle_settings[i].why);
        told->idle = idle ? told->idle | bit : told->idle & ~bit;
    }
}

// The name by which template_args say another thing of thinking than `thinking` does, or NULL.
static const char *contradicted_name(const Settings *settings) {
    static const char *const names[] = {"enable_thinking", "thinking"};
    const char *found = NULL;
    json_t *arguments = json_loads(settings->model.template_args, 0, NULL);
    for (int i = 0; i < 2 && settings->model.thinking >= 0; i++) {
        const json_t *said = json_object_get(arguments, names[i]);
        if (said && json_is_true(said) != (settings->model.thinking == 1)) found = names[i];
    }
    json_decref(arguments);
    return found;
}

static void tell_of_thinking(const Settings *settings, Screen *screen, SettingsTold *told) {
    const char *name = contradicted_name(settings);
    if (name && !told->contradicted)
        screen_notice(screen, "[%s in template_args changes nothing: thinking = \"%s\" says otherwise]", name,
                      settings->model.thinking ? "on" : "off");
    told->contradicted = name;
}

// The built-in reserve is meant for large contexts: that it is smaller here is no news.
static void tell_of_reserve(const Settings *settings, const Engine *engine, Screen *screen,
                            SettingsTold *told) {
    const OverflowSettings *overflow = &settings->talk.overflow;
    int size = engine_context_size(engine);
    int64_t kept = overflow_reserve(overflow, size);
    bool asked = config_origin_layer(&settings->config, settings_key("context.reserve")) != CONFIG_BUILTIN;
    if (asked && kept < overflow->reserve && told->reserve != overflow->reserve)
        screen_warn(screen,
                    "[reserve: %" PRId64
                    " of the context's %d tokens are kept free for a reply, a quarter, not %" PRId64 "]",
                    kept, size, overflow->reserve);
    told->reserve = asked ? overflow->reserve : 0;
}

void settings_tell_of_window(const Settings *settings, const Engine *engine, Screen *screen,
                             SettingsTold *told) {
    if (told->quiet) return;
    OverflowPolicy policy = settings->talk.overflow.policy;
    const char *why = engine_cannot_shift(engine);
    if (why && !told->shift && (policy == OVERFLOW_SHIFT || policy == OVERFLOW_SHIFT_INPLACE)) {
        told->shift = true;
        screen_warn(screen,
                    "[this model cannot be shifted, %s: when the context is full, the rest is read again]",
                    why);
    }
    tell_of_idle(settings, screen, told);
}

void settings_tell(const Settings *settings, const Engine *engine, Screen *screen, SettingsTold *told) {
    settings_tell_of_window(settings, engine, screen, told);
    if (told->quiet) return;
    tell_of_reserve(settings, engine, screen, told);
    tell_of_thinking(settings, screen, told);
}

// Whether a variable PALAVER_… has a value and names no setting: what is to be said of it.
static bool is_foreign(const char *variable, Error *error) {
    static const char of_plugin[] = " PALAVER_CUDA_LIMITS PALAVER_NCCL PALAVER_NO_PEER "; // kernels/cuda
    const char *equals = strchr(variable, '=');
    if (!equals || !equals[1] || strncmp(variable, "PALAVER_", 8) != 0) return false;
    const Quote name = quote_bytes(variable, (size_t)(equals - variable));
    return !text_is_among(name.text, of_plugin) &&
           config_foreign_variable(settings_table(), name.text, error);
}

void settings_tell_variables(char *const *environment, Screen *screen) {
    enum { TOLD = 3 };
    Error error;
    char said[TOLD * (sizeof error.message + 2)] = "", more[64] = "";
    int n = 0;
    for (size_t at = 0; *environment; environment++) {
        if (!is_foreign(*environment, &error) || n++ >= TOLD) continue;
        at += (size_t)snprintf(said + at, sizeof said - at, "%s%s", n > 1 ? "; " : "", error.message);
    }
    if (n > TOLD)
        snprintf(more, sizeof more, "; %d more variable%s none", n - TOLD,
                 n == TOLD + 1 ? " names" : "s name");
    if (n) screen_notice(screen, "[%s%s]", said, more);
}
