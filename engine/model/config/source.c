#include "engine/model/config/source.h"

#include <stdio.h>
#include <string.h>

const char *source_gguf_key(const ParamSource *source, const char *key, char text[KEY_SIZE]) {
    if (key[0] == '.') return key + 1;
    snprintf(text, KEY_SIZE, "%s.%s", source->architecture->gguf, key);
    return text;
}

const char *source_config_key(const ParamSource *source, const char *key) {
    const Architecture *a = source->architecture;
    for (size_t i = 0; a && i < sizeof a->aliases / sizeof *a->aliases; i++) {
        if (!a->aliases[i].usual) break;
        if (strcmp(a->aliases[i].usual, key) != 0) continue;
        bool other = a->aliases[i].both && json_member(source->config, a->aliases[i].own) == NULL &&
                     json_member(source->config, key) != NULL;
        return other ? key : a->aliases[i].own;
    }
    return key;
}

const char *source_key(const ParamSource *source, Key key, char text[KEY_SIZE]) {
    return source->config || !key.gguf ? source_config_key(source, key.hf)
                                       : source_gguf_key(source, key.gguf, text);
}

const char *source_short_key(const ParamSource *source, Key key) {
    return source->config || !key.gguf ? source_config_key(source, key.hf) : key.gguf;
}
