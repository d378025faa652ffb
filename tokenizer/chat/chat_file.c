// A template's TOML file, read key by key.
#include "tokenizer/chat/chat_template_internal.h"

#include "kernels/base/array.h"
#include "kernels/base/text/nearest.h"

#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    const char *file;
    ChatTemplate *to;
    Error *error;
} Reader;

static Status wrong(const Reader *reader, const TomlNode *node, const char *key, const char *expected) {
    return error_set(reader->error, STATUS_FILE, "%s:%zu:%zu: %s: expected %s", reader->file, node->line,
                     node->column, key, expected);
}

static Status no_memory(const Reader *reader) {
    error_no_memory(reader->error, "the chat template");
    error_prefix(reader->error, "%s: ", reader->file);
    return STATUS_MEMORY;
}

static Status unknown(const Reader *reader, const TomlNode *node, const char *const *names, size_t n_names) {
    int nearest = nearest_name(node->key, names, n_names);
    return error_set(reader->error, STATUS_FILE, "%s:%zu:%zu: unknown key \"%.60s\"%s%s%s", reader->file,
                     node->line, node->column, node->key, nearest < 0 ? "; remove it" : "; did you mean \"",
                     nearest < 0 ? "" : names[nearest], nearest < 0 ? "" : "\"?");
}

static bool is_text(const TomlNode *node) {
    return node->type == TOML_STRING && !memchr(node->string, 0, node->length);
}

static Status read_text(const Reader *reader, const TomlNode *node, char **text) {
    if (!is_text(node)) return wrong(reader, node, node->key, "a string");
    free(*text);
    *text = strdup(node->string);
    return *text ? STATUS_OK : no_memory(reader);
}

static Status read_switch(const Reader *reader, const TomlNode *node, bool *state) {
    if (node->type != TOML_BOOLEAN) return wrong(reader, node, node->key, "true or false");
    *state = node->boolean;
    return STATUS_OK;
}

// A list of strings, or one string; `key` is for messages, as the elements of a list have none.
static Status read_strings(const Reader *reader, const TomlNode *node, const char *key,
                           ChatStrings *strings) {
    const TomlNode *items = node->type == TOML_ARRAY ? node->children : node;
    size_t count = node->type == TOML_ARRAY ? node->n_children : 1;
    if (count > 64) return wrong(reader, node, key, "at most 64 strings");
    strings->items = calloc(count + 1, sizeof(char *));
    if (!strings->items) return no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        if (!is_text(&items[i]) || !items[i].length)
            return wrong(reader, &items[i], key, "strings that are not empty");
        strings->items[i] = strdup(items[i].string);
        if (!strings->items[i]) return no_memory(reader);
        strings->count++;
    }
    return STATUS_OK;
}

static Status read_word(const Reader *reader, const TomlNode *node, const char *const *words, int n_words,
                        const char *expected, int *index) {
    for (*index = 0; *index < n_words; ++*index)
        if (is_text(node) && !strcmp(node->string, words[*index])) return STATUS_OK;
    return wrong(reader, node, node->key, expected);
}

static Status read_turn_key(const Reader *reader, const TomlNode *node, ChatRole role) {
    static const char *const names[] = {"before", "after", "trim", "place", "default"};
    static const char *const trims[] = {"nothing", "text", "turn"};
    static const char *const places[] = {"own turn", "first user", "last user"};
    ChatTurn *turn = &reader->to->turns[role];
    if (!strcmp(node->key, "before")) return read_text(reader, node, &turn->before);
    if (!strcmp(node->key, "after")) return read_text(reader, node, &turn->after);
    int index;
    if (!strcmp(node->key, "trim")) {
        Status status = read_word(reader, node, trims, 3, "\"nothing\", \"text\" or \"turn\"", &index);
        if (!status) turn->trim = (ChatTrim)index;
        return status;
    }
    if (role == CHAT_SYSTEM && !strcmp(node->key, "place")) {
        Status status =
            read_word(reader, node, places, 3, "\"own turn\", \"first user\" or \"last user\"", &index);
        if (!status) reader->to->place = (ChatPlace)index;
        return status;
    }
    if (role == CHAT_SYSTEM && !strcmp(node->key, "default"))
        return read_text(reader, node, &reader->to->default_system);
    return unknown(reader, node, names, role == CHAT_SYSTEM ? 5 : 3);
}

static Status read_turn(const Reader *reader, const TomlNode *node, ChatRole role) {
    if (node->type != TOML_TABLE) return wrong(reader, node, node->key, "a section");
    Status status = STATUS_OK;
    for (size_t i = 0; !status && i < node->n_children; i++)
        status = read_turn_key(reader, &node->children[i], role);
    return status;
}

static Status read_think(const Reader *reader, const TomlNode *node) {
    if (node->type != TOML_ARRAY || node->n_children != 2 || !is_text(&node->children[0]) ||
        !is_text(&node->children[1]) || !node->children[0].length || !node->children[1].length)
        return wrong(reader, node, node->key, "two strings, the begin and the end of what is thought");
    Status status = read_text(reader, &node->children[0], &reader->to->think_begin);
    return status ? status : read_text(reader, &node->children[1], &reader->to->think_end);
}

static Status read_key(const Reader *reader, const TomlNode *node) {
    static const char *const names[] = {"bos",  "end",       "stop",       "prompt", "think",
                                        "user", "assistant", "vocabulary", "system"};
    ChatTemplate *to = reader->to;
    int role = chat_role_find(node->key);
    if (role >= 0) return read_turn(reader, node, (ChatRole)role);
    if (!strcmp(node->key, "bos")) return read_switch(reader, node, &to->bos);
    if (!strcmp(node->key, "end")) return read_strings(reader, node, node->key, &to->ends);
    if (!strcmp(node->key, "stop")) return read_strings(reader, node, node->key, &to->stops);
    if (!strcmp(node->key, "prompt")) return read_text(reader, node, &to->prompt);
    if (!strcmp(node->key, "think")) return read_think(reader, node);
    if (!strcmp(node->key, "vocabulary")) return read_strings(reader, node, node->key, &to->vocabulary);
    return unknown(reader, node, names, sizeof names / sizeof *names);
}

// The end pieces are stop strings as well: in a vocabulary that lacks them a model can only write them as
// text.
static Status add_ends_to_stops(const Reader *reader) {
    ChatStrings *stops = &reader->to->stops;
    const ChatStrings *ends = &reader->to->ends;
    size_t n = (size_t)stops->count, capacity = n;
    if (!array_reserve(&stops->items, sizeof *stops->items, n, (size_t)ends->count + 1, &capacity))
        return no_memory(reader);
    for (int i = 0; i < ends->count; i++) {
        if (!strcmp(ends->items[i], "{eos}")) continue;
        stops->items[stops->count] = strdup(ends->items[i]);
        if (!stops->items[stops->count]) return no_memory(reader);
        stops->count++;
    }
    stops->items[stops->count] = NULL;
    return STATUS_OK;
}

// What a file may leave out: literals are empty, and a reply opens as an assistant's turn does.
static Status fill_gaps(const Reader *reader) {
    ChatTemplate *to = reader->to;
    bool whole = true;
    for (int role = 0; role < CHAT_ROLES; role++) {
        if (!to->turns[role].before) whole = (to->turns[role].before = strdup("")) != NULL && whole;
        if (!to->turns[role].after) whole = (to->turns[role].after = strdup("")) != NULL && whole;
    }
    if (whole && !to->prompt) whole = (to->prompt = strdup(to->turns[CHAT_ASSISTANT].before)) != NULL;
    return whole ? STATUS_OK : no_memory(reader);
}

Status chat_read(const char *file, const char *name, const TomlNode *root, ChatTemplate **chat_template,
                 Error *error) {
    *chat_template = NULL;
    Reader reader = {file, calloc(1, sizeof(ChatTemplate)), error};
    if (!reader.to) return no_memory(&reader);
    reader.to->name = strdup(name);
    Status status = reader.to->name ? STATUS_OK : no_memory(&reader);
    for (size_t i = 0; !status && i < root->n_children; i++) status = read_key(&reader, &root->children[i]);
    if (!status && !toml_child(root, "user"))
        status =
            error_set(error, STATUS_FILE, "%s: there is no [user] section; a chat template needs one", file);
    if (!status) status = fill_gaps(&reader);
    if (!status) status = add_ends_to_stops(&reader);
    if (status)
        chat_template_close(reader.to);
    else
        *chat_template = reader.to;
    return status;
}
