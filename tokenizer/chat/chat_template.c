// Opening templates, and what they say of themselves.
#include "tokenizer/chat/chat_template_internal.h"

#include "config/embedded.h"
#include "kernels/base/text/nearest.h"
#include "kernels/base/text/quote.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define BUILTIN(name, symbol)                                                                                \
    { name, _binary_config_chat_##symbol##_toml_start, _binary_config_chat_##symbol##_toml_end }
// The order is that of guesses by vocabulary.
static const ChatBuiltin builtins[] = {
    BUILTIN("chatml", chatml),
    BUILTIN("llama-2", llama_2),
    BUILTIN("llama-3", llama_3),
    BUILTIN("llama-3.1", llama_3_1),
    BUILTIN("mistral-v1", mistral_v1),
    BUILTIN("mistral-v2", mistral_v2),
    BUILTIN("mistral-v7", mistral_v7),
    BUILTIN("mistral-v7-tekken", mistral_v7_tekken),
    BUILTIN("mistral-v3", mistral_v3),
    BUILTIN("mistral-v3-tekken", mistral_v3_tekken),
    BUILTIN("zephyr", zephyr),
    BUILTIN("gemma", gemma),
    BUILTIN("phi-3", phi_3),
    BUILTIN("qwen-3", qwen_3),
    BUILTIN("qwen-3-thinking", qwen_3_thinking),
    BUILTIN("vicuna", vicuna),
    BUILTIN("vicuna-lines", vicuna_lines),
    BUILTIN("alpaca", alpaca),
};
enum { N_BUILTINS = sizeof builtins / sizeof *builtins };

const ChatBuiltin *chat_builtins(int *n) {
    *n = N_BUILTINS;
    return builtins;
}

Status chat_open_builtin(const ChatBuiltin *builtin, ChatTemplate **chat_template, Error *error) {
    TomlNode *root;
    size_t size = embedded_size(builtin->begin, builtin->end);
    Status status = toml_parse(builtin->name, builtin->begin, size, &root, error);
    if (status) return status;
    status = chat_read(builtin->name, builtin->name, root, chat_template, error);
    toml_free(root);
    return status;
}

static Status open_file(const char *path, ChatTemplate **chat_template, Error *error) {
    TomlNode *root;
    Status status = toml_parse_file(path, &root, error);
    if (status) return status;
    const char *slash = strrchr(path, '/');
    status = chat_read(path, slash ? slash + 1 : path, root, chat_template, error);
    toml_free(root);
    return status;
}

Status chat_template_open(const char *name_or_path, ChatTemplate **chat_template, Error *error) {
    *chat_template = NULL;
    size_t length = strlen(name_or_path);
    if (strchr(name_or_path, '/') || (length > 5 && !strcmp(name_or_path + length - 5, ".toml")))
        return open_file(name_or_path, chat_template, error);
    for (int i = 0; i < N_BUILTINS; i++)
        if (!strcmp(name_or_path, builtins[i].name))
            return chat_open_builtin(&builtins[i], chat_template, error);
    const char *names[N_BUILTINS];
    for (int i = 0; i < N_BUILTINS; i++) names[i] = builtins[i].name;
    int nearest = nearest_name(name_or_path, names, N_BUILTINS);
    if (nearest >= 0)
        return error_set(error, STATUS_USAGE, "no chat template \"%s\"; did you mean \"%s\"?",
                         quote(name_or_path).text, names[nearest]);
    return error_set(
        error, STATUS_USAGE,
        "no chat template \"%s\"; there are chatml, llama-2, llama-3, mistral-v3, gemma and more, or "
        "name a .toml file",
        quote(name_or_path).text);
}

static void strings_free(ChatStrings *strings) {
    for (int i = 0; i < strings->count; i++) free(strings->items[i]);
    free(strings->items);
}

void chat_template_close(ChatTemplate *chat_template) {
    if (!chat_template) return;
    free(chat_template->name);
    for (int role = 0; role < CHAT_ROLES; role++) {
        free(chat_template->turns[role].before);
        free(chat_template->turns[role].after);
    }
    free(chat_template->default_system);
    free(chat_template->prompt);
    free(chat_template->think_begin);
    free(chat_template->think_end);
    strings_free(&chat_template->ends);
    strings_free(&chat_template->stops);
    strings_free(&chat_template->vocabulary);
    free(chat_template->notice);
    jinja_free(chat_template->jinja);
    free(chat_template->source);
    chat_template_close(chat_template->own);
    json_decref(chat_template->arguments);
    free(chat_template);
}

const char *chat_template_name(const ChatTemplate *chat_template) {
    return chat_template->name;
}

const char *chat_template_notice(const ChatTemplate *chat_template) {
    return chat_template->notice;
}

static const char *first_lacking(const ChatStrings *pieces, const Tokenizer *tokenizer) {
    for (int i = 0; i < pieces->count; i++)
        if (strcmp(pieces->items[i], "{eos}") != 0 && tokenizer_find(tokenizer, pieces->items[i]) < 0)
            return pieces->items[i];
    return NULL;
}

const char *chat_template_lacking(const ChatTemplate *chat_template, const Tokenizer *tokenizer) {
    const char *piece = first_lacking(&chat_template->vocabulary, tokenizer);
    return piece ? piece : first_lacking(&chat_template->ends, tokenizer);
}

bool chat_template_is_end(const ChatTemplate *chat_template, const Tokenizer *tokenizer, int32_t id) {
    if (tokenizer_is_end(tokenizer, id)) return true;
    TokenKind kind = tokenizer_kind(tokenizer, id);
    if (kind != TOKEN_CONTROL && kind != TOKEN_USER_DEFINED) return false;
    for (int i = 0; i < chat_template->ends.count; i++) {
        const char *end = chat_template->ends.items[i];
        if (!strcmp(end, "{eos}") ? id == tokenizer_eos(tokenizer)
                                  : !strcmp(end, tokenizer_piece(tokenizer, id, NULL)))
            return true;
    }
    return false;
}

const char *const *chat_template_stop_strings(const ChatTemplate *chat_template, int *n) {
    *n = chat_template->stops.count;
    return (const char *const *)chat_template->stops.items;
}
