// Reading PALAVER_CUDA_LIMITS.
#include "kernels/cuda/limits.h"

#include <stdlib.h>
#include <string.h>

// A whole number from 1 on, its unit behind it; false: none, or too large.
static bool read_amount(const char *text, size_t n, bool units, int64_t *amount) {
    static const char UNITS[] = "kMG";
    int shift = 0;
    const char *unit = units && n > 1 ? strchr(UNITS, text[n - 1]) : NULL;
    if (unit && *unit) shift = 10 * (int)(unit - UNITS + 1), n--;
    int64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || value > 1000000000) return false;
        value = 10 * value + (text[i] - '0');
    }
    *amount = value << shift;
    return value > 0;
}

static bool is_key(const char *text, size_t n, const char *key) {
    return strlen(key) == n && !memcmp(text, key, n);
}

// One limit, `text` of n bytes.
static bool read_limit(const char *text, size_t n, CardLimits *limits) {
    const char *equals = memchr(text, '=', n);
    if (!equals) return false;
    size_t key = (size_t)(equals - text);
    int64_t amount, *to = NULL;
    int *whole = NULL;
    if (is_key(text, key, "compute"))
        whole = &limits->compute;
    else if (is_key(text, key, "sms"))
        whole = &limits->n_sms;
    else if (is_key(text, key, "smem"))
        to = &limits->shared;
    else if (is_key(text, key, "memory"))
        to = &limits->memory;
    if ((!whole || *whole) && (!to || *to)) return false; // unknown, or said before
    if (!read_amount(equals + 1, n - key - 1, to != NULL, &amount)) return false;
    if (to) {
        *to = amount;
        return true;
    }
    *whole = amount <= 10000 ? (int)amount : 0;
    return *whole > 0;
}

Status limits_read(const char *text, CardLimits *limits, Error *error) {
    *limits = (CardLimits){0};
    while (text && *text) {
        size_t n = strcspn(text, ",");
        if (!read_limit(text, n, limits) || (text[n] && !text[n + 1]))
            return error_set(error, STATUS_USAGE,
                             LIMITS_VARIABLE
                             ": \"%.*s\": each of compute=86, smem=99k, sms=46 and memory=8G may "
                             "be there once, behind commas",
                             (int)(n < 60 ? n : 60), text);
        text += n + (text[n] == ',');
    }
    return STATUS_OK;
}

static Status too_large(Error *error, const char *key, int64_t said, int64_t there) {
    return error_set(error, STATUS_USAGE, LIMITS_VARIABLE ": %s=%lld, but the card has %lld", key,
                     (long long)said, (long long)there);
}

Status limits_apply(const CardLimits *limits, Card *card, Error *error) {
    if (limits->compute) {
        const Card limited = {limits->compute, card->n_sms, card->shared_limit};
        const CardFeatures *wanted = dispatch_features(&limited), *there = dispatch_features(card);
        if (limits->compute < wanted->compute || (wanted->overlap && !there->overlap) ||
            (wanted->wgmma && !there->wgmma))
            return error_set(error, STATUS_USAGE,
                             LIMITS_VARIABLE ": compute=%d: the card, or the code that it runs, is of %d",
                             limits->compute, card->compute);
        if (there->wgmma && !wanted->wgmma)
            return error_set(
                error, STATUS_USAGE,
                LIMITS_VARIABLE
                ": compute=%d: the plug-in's code for this card is Hopper's and has no kernels of "
                "other cards; build it with CUDA_ARCH='-gencode arch=compute_80,code=sm_90'",
                limits->compute);
        card->compute = limits->compute;
    }
    if (limits->n_sms > card->n_sms) return too_large(error, "sms", limits->n_sms, card->n_sms);
    if (limits->shared > (int64_t)card->shared_limit)
        return too_large(error, "smem", limits->shared, (int64_t)card->shared_limit);
    if (limits->n_sms) card->n_sms = limits->n_sms;
    if (limits->shared) card->shared_limit = (size_t)limits->shared;
    return STATUS_OK;
}
