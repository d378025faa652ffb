// From the configuration to the conversation, and into its transcript.
#include "app/chat/chat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { VALUE_ROOM = 4096, SEED_LIMIT = 1000000000 };

uint64_t seed_random(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_sec * 1000003u ^ (uint64_t)now.tv_nsec;
    }
    return seed % SEED_LIMIT;
}

bool setting_is_fixed(const ConfigKey *key) {
    static const char *const sections[] = {"model", "backend", "cache"}, *const names[] = {"size", "color",
                                                                                           "history"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(key->section, sections[i]) || !strcmp(key->name, names[i])) return true;
    return false;
}

// ---- the model's recommendations --------------------------------------------------------------------------

// A recommendation out of palaver's range is the makers' business: it is left out rather than refused.
static void set_recommended(Config *config, const char *key, double value) {
    char text[64];
    Error ignored;
    snprintf(text, sizeof text, "%.9g", value);
    if (!isnan(value)) (void)config_set(config, CONFIG_MODEL, key, text, &ignored);
}

void config_apply_model(Config *config, const Model *model) {
    const GenerationDefaults *g = &model->generation;
    set_recommended(config, "temperature", g->do_sample == 0 ? 0 : g->temperature);
    set_recommended(config, "top_p", g->top_p);
    set_recommended(config, "min_p", g->min_p);
    set_recommended(config, "typical_p", g->typical_p);
    set_recommended(config, "repeat_penalty", g->repetition_penalty);
    set_recommended(config, "top_k", g->top_k < 0 ? NAN : (double)g->top_k);
}

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

OverflowSettings settings_overflow(const ContextConfig *context) {
    static const OverflowPolicy policies[] = {[CONFIG_OVERFLOW_REEVALUATE] = OVERFLOW_REEVALUATE,
                                              [CONFIG_OVERFLOW_SHIFT] = OVERFLOW_SHIFT,
                                              [CONFIG_OVERFLOW_SHIFT_INPLACE] = OVERFLOW_SHIFT_INPLACE,
                                              [CONFIG_OVERFLOW_STOP] = OVERFLOW_STOP};
    OverflowSettings settings = {
        .policy = policies[context->overflow],
        .keep = context->keep == CONFIG_KEEP_SYSTEM ? OVERFLOW_KEEP_SYSTEM : context->keep,
        .by_token = context->by == CONFIG_BY_TOKEN,
        .reserve = context->reserve,
        .low_water = context->low_water,
    };
    if (context->discard >= 1)
        settings.discard = (int64_t)context->discard;
    else
        settings.discard_fraction = context->discard;
    return settings;
}

// A policy that a model cannot follow is said once; the engine reads again instead.
void settings_tell_of_shift(const Config *config, const Engine *engine, Screen *screen, bool *told) {
    ConfigOverflow overflow = config->context.overflow;
    const char *why = engine_cannot_shift(engine);
    if (!why || *told) return;
    if (overflow != CONFIG_OVERFLOW_SHIFT && overflow != CONFIG_OVERFLOW_SHIFT_INPLACE) return;
    *told = true;
    screen_warn(screen,
                "[this model cannot be shifted, %s: when the context is full, the rest is read again]", why);
}

Status settings_conversation(const Config *config, const Tokenizer *tokenizer, SamplerBias **biases,
                             ConversationSettings *to, Error *error) {
    const SamplingConfig *from = &config->sampling;
    if (make_biases(&from->logit_bias, tokenizer, biases, error)) return error->status;
    to->sampler =
        (SamplerSettings){.temperature = (float)from->temperature,
                          .top_p = (float)from->top_p,
                          .top_k = from->top_k > INT32_MAX ? 0 : (int)from->top_k,
                          .min_p = (float)from->min_p,
                          .typical_p = (float)from->typical_p,
                          .repeat_penalty = (float)from->repeat_penalty,
                          .repeat_last = from->repeat_last,
                          .frequency_penalty = (float)from->frequency_penalty,
                          .presence_penalty = (float)from->presence_penalty,
                          .dry_multiplier = (float)from->dry_multiplier,
                          .dry_base = (float)from->dry_base,
                          .dry_allowed = from->dry_allowed > INT32_MAX ? INT32_MAX : (int)from->dry_allowed,
                          .logit_bias = *biases,
                          .n_logit_bias = (int)from->logit_bias.count,
                          .ignore_eos = from->ignore_eos};
    to->overflow = settings_overflow(&config->context);
    to->max_tokens = from->max_tokens;
    to->stop = (const char *const *)from->stop.items;
    to->n_stop = (int)from->stop.count;
    return STATUS_OK;
}

Status chat_apply_settings(Chat *chat, Error *error) {
    const SamplingConfig *from = &chat->config->sampling;
    ConversationSettings *to = conversation_settings(chat->conversation);
    if (settings_conversation(chat->config, engine_tokenizer(chat->engine), &chat->biases, to, error))
        return error->status;
    if (from->seed != CONFIG_SEED_RANDOM) chat->seed = (uint64_t)from->seed;
    to->seed = chat->seed;
    to->stream = chat->stream;
    settings_tell_of_shift(chat->config, chat->engine, chat->screen, &chat->told_of_shift);
    return STATUS_OK;
}

// ---- into the transcript and back -------------------------------------------------------------------------

static bool is_recorded(const ConfigKey *key) {
    return !strcmp(key->section, "sampling") || !strcmp(key->section, "context");
}

Status chat_record_settings(Chat *chat, Error *error) {
    size_t n_keys;
    const ConfigKey *keys = config_keys(&n_keys);
    TranscriptSetting *settings = calloc(n_keys, sizeof *settings);
    char *texts = malloc(n_keys * VALUE_ROOM);
    Status status = settings && texts ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
    int n = 0;
    for (size_t i = 0; i < n_keys && status == STATUS_OK; i++) {
        if (!is_recorded(&keys[i])) continue;
        char *text = texts + (size_t)n * VALUE_ROOM;
        // A list too long to be written whole would be read back as another one.
        if (config_print_value(chat->config, &keys[i], text, VALUE_ROOM) >= VALUE_ROOM) continue;
        bool session = config_origin_layer(chat->config, &keys[i]) == CONFIG_SESSION;
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
    const ConfigKey *keys = config_keys(&n_keys);
    for (size_t i = 0; i < n_keys; i++)
        if (is_recorded(&keys[i]) && config_origin_layer(chat->config, &keys[i]) == CONFIG_SESSION &&
            config_reset(chat->config, keys[i].name, &error))
            screen_warn(chat->screen, "[%s stays as it is: %s]", keys[i].name, error.message);
    for (int i = 0; i < transcript_n_settings(chat->transcript); i++) {
        TranscriptSetting setting = transcript_setting(chat->transcript, i);
        const ConfigKey *key = config_key_find(setting.key);
        if (!setting.session || !key || setting_is_fixed(key)) continue;
        if (config_origin_layer(chat->config, key) == CONFIG_FLAGS) continue;
        if (config_set(chat->config, CONFIG_SESSION, setting.key, setting.text, &error))
            screen_warn(chat->screen, "[a setting of this conversation is left out: %s]", error.message);
    }
}
