#include "app/loading/model_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SHARD = 15 }; // bytes of -00001-of-00002

// Whether a part of a file's name says how its weights are kept: Q4_K_M, iq3_xxs, F16, BF16, MXFP4.
static bool is_type(const char *part) {
    static const char *const words[] = {"f16", "f32", "bf16", "fp16", "fp32", "fp8", "int8", "int4", "mxfp4"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(part, words[i])) return true;
    if (tolower((unsigned char)*part) == 'i') part++;
    if (tolower((unsigned char)*part) != 'q' || !isdigit((unsigned char)part[1])) return false;
    return part[2 + strspn(part + 2, "_0123456789kKsSmMlLxX")] == 0;
}

static void strip_file(char *name) {
    size_t n = strlen(name);
    if (n > 5 && !strcasecmp(name + n - 5, ".gguf")) name[n -= 5] = 0;
    if (n > SHARD && name[n - SHARD] == '-' && !strncmp(name + n - 9, "-of-", 4)) name[n - SHARD] = 0;
    char *last = strrchr(name, '.'), *dash = strrchr(name, '-');
    if (!last || (dash && dash > last)) last = dash;
    if (last && last > name && is_type(last + 1)) *last = 0;
}

static bool says_nothing(const char *name) {
    return !*name || !strcmp(name, "model") || !strcmp(name, "ggml-model") || !strncmp(name, "sha256", 6) ||
           !strcmp(name, ".");
}

// What a path names, without the slashes that a folder may have behind it.
static void last_name(const char *path, char *name, size_t size) {
    size_t end = strlen(path), begin;
    while (end && path[end - 1] == '/') end--;
    for (begin = end; begin && path[begin - 1] != '/';) begin--;
    snprintf(name, size, "%.*s", (int)(end - begin), path + begin);
}

void model_name(const char *path, const char *own, char *name, size_t size) {
    const char *cache = strstr(path, "models--");
    last_name(path, name, size);
    bool is_file = strlen(name) > 5 && !strcasecmp(name + strlen(name) - 5, ".gguf");
    if (cache && !is_file) {
        const char *last = cache + 8, *dashes;
        size_t n = strcspn(cache, "/");
        while ((dashes = strstr(last, "--")) && dashes < cache + n) last = dashes + 2;
        snprintf(name, size, "%.*s", (int)(cache + n - last), last);
    } else if (is_file) {
        strip_file(name);
    }
    if (!says_nothing(name) || !own || !*own) return;
    const char *part = strrchr(own, '/');
    snprintf(name, size, "%s", part ? part + 1 : own);
}
