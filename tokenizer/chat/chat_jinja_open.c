// Opening a model's own Jinja template: what it says of itself, and the variables that it is given.
#include "tokenizer/chat/channels.h"
#include "tokenizer/chat/chat_template_internal.h"
#include "tokenizer/chat/jinja/space.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static bool all_space(const char *text, size_t size) {
    return space_before(text, size) == size;
}

static void forget(ChatStrings *strings) {
    for (int i = 0; i < strings->count; i++) free(strings->items[i]);
    free(strings->items);
    *strings = (ChatStrings){0};
}

static bool push_string(ChatStrings *strings, const char *text, size_t size) {
    strings->items = calloc(2, sizeof *strings->items);
    if (!strings->items) return false;
    strings->items[0] = strndup(text, size);
    strings->count = strings->items[0] != NULL;
    return strings->count == 1;
}

// What ends a reply: the first control piece of the text between a reply and what follows. Where that has none, the
// model writes its words, of which the first line stops a reply.
static Status learn_end(ChatTemplate *to, const Tokenizer *tokenizer, const char *after, size_t size,
                        Error *error) {
    Tokens ids = {0};
    Status status = tokenizer_encode_spans(tokenizer, &(TextSpan){after, size, true}, 1, true, &ids, error);
    bool whole = true, found = false;
    Channels channels;
    channels_find(&channels, tokenizer);
    for (int64_t i = 0; !status && i < ids.n && !found; i++) {
        TokenKind kind = tokenizer_kind(tokenizer, ids.ids[i]);
        size_t length;
        const char *piece = tokenizer_piece(tokenizer, ids.ids[i], &length);
        found = kind == TOKEN_CONTROL;
        // Of several messages that a reply is, this ends one: what ends the reply the vocabulary knows.
        if (found && !(channels.tokenizer && ids.ids[i] == channels.end))
            whole = push_string(&to->ends, piece, length);
    }
    tokens_free(&ids);
    size_t space = space_before(after, size);
    size_t line = 0;
    while (space + line < size && after[space + line] != '\n') line++;
    line -= space_after(after + space, line);
    const char *close = line && after[space] == '<' ? memchr(after + space, '>', line) : NULL;
    if (close) line = (size_t)(close - after - space) + 1; // one piece is enough
    if (!status && !found && line) whole = push_string(&to->stops, after + space, line);
    return status ? status : whole ? STATUS_OK : error_no_memory(error, "the chat template");
}

static const Message sample[] = {{.role = CHAT_USER, .text = "one", .size = 3},
                                 {.role = CHAT_ASSISTANT, .text = "two", .size = 3},
                                 {.role = CHAT_USER, .text = "three", .size = 5}};

// What opens a reply: what follows the user's text in the simplest talk there is. malloc'd.
static Status learn_prompt(ChatTemplate *to, const Tokenizer *tokenizer, char **prompt, Error *error) {
    JinjaText text;
    *prompt = NULL;
    Status status = chat_jinja_once(to, tokenizer, &(ChatTalk){sample, 1, true}, false, &text, error);
    const char *said = status ? NULL : memmem(text.data, text.size, "one", 3);
    if (!said && !to->parts && status != STATUS_MEMORY) { // templates of models that see take lists of parts
        Error ignored;
        jinja_text_free(&text);
        to->parts = true;
        if (!learn_prompt(to, tokenizer, prompt, &ignored)) return STATUS_OK;
        to->parts = false;
        return status
                   ? status
                   : error_set(error, STATUS_UNSUPPORTED, "chat template: it leaves out what the user says");
    }
    if (!status && !said)
        status = error_set(error, STATUS_UNSUPPORTED, "chat template: it leaves out what the user says");
    if (!status && !(*prompt = strdup(said + 3))) status = error_no_memory(error, "the chat template");
    if (!status) to->bos = chat_jinja_begins_with_bos(tokenizer, &text);
    jinja_text_free(&text);
    return status;
}

// What stands between the texts of a short talk tells what ends a reply, and the white space before one. What was
// learned before is forgotten.
static Status learn(ChatTemplate *to, const Tokenizer *tokenizer, Error *error) {
    JinjaText text;
    char *prompt;
    Error ignored;
    forget(&to->ends);
    forget(&to->stops);
    to->reply_space = 0;
    to->parts = false;
    Status status = learn_prompt(to, tokenizer, &prompt, error);
    if (!status && !chat_jinja_once(to, tokenizer, &(ChatTalk){sample, 3, true}, false, &text, &ignored)) {
        const char *one = strstr(text.data, "one"), *two = one ? strstr(one + 3, "two") : NULL;
        const char *three = two ? strstr(two + 3, "three") : NULL;
        size_t before = two ? (size_t)(two - one - 3) : 0, size = strlen(prompt);
        if (two && before >= size && !memcmp(one + 3, prompt, size) &&
            all_space(one + 3 + size, before - size))
            to->reply_space = before - size;
        if (three) status = learn_end(to, tokenizer, two + 3, (size_t)(three - two - 3), error);
        jinja_text_free(&text);
    }
    free(prompt);
    return status;
}

Status chat_jinja_open(const char *jinja, const Tokenizer *tokenizer, int64_t now, ChatTemplate **out,
                       Error *error) {
    *out = NULL;
    ChatTemplate *to = calloc(1, sizeof *to);
    if (!to) return error_no_memory(error, "the chat template");
    to->now = now;
    to->name = strdup(CHAT_JINJA);
    to->source = strdup(jinja);
    Status status = to->name && to->source ? jinja_parse(jinja, strlen(jinja), &to->jinja, error)
                                           : error_no_memory(error, "the chat template");
    if (!status) status = learn(to, tokenizer, error);
    if (status)
        chat_template_close(to);
    else
        *out = to;
    return status;
}

const ChatTemplate *chat_jinja_of(const ChatTemplate *to) {
    return to->jinja ? to : to->own && to->own->arguments ? to->own : NULL;
}

// ---- variables ---------------------------------------------------------------------------------------------------

// Whether thinking is to be said to a text, by the name that it has for it.
static Status add_thinking(const ChatTemplate *to, json_t *arguments, int thinking, Error *error) {
    static const char *const names[] = {"enable_thinking", "thinking"};
    for (int i = 0; i < 2 && thinking >= 0; i++) {
        if (!strstr(to->source, names[i])) continue;
        return json_object_set_new(arguments, names[i], json_boolean(thinking))
                   ? error_no_memory(error, "the chat template")
                   : STATUS_OK;
    }
    if (thinking < 0) return STATUS_OK;
    return error_set(error, STATUS_USAGE, "the model's chat template does not ask whether to think");
}

static json_t *parse_arguments(const char *text) {
    json_t *arguments = *text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : json_object();
    if (json_is_object(arguments)) return arguments;
    json_decref(arguments);
    return NULL;
}

// The first of the names that is not the user's to set, or NULL.
static const char *name_of_ours(const json_t *arguments) {
    for (const char *const *name = chat_jinja_names; *name; name++)
        if (json_object_get(arguments, *name)) return *name;
    return NULL;
}

bool chat_template_takes(const char *text) {
    json_t *arguments = parse_arguments(text);
    bool takes = arguments && !name_of_ours(arguments);
    json_decref(arguments);
    return takes;
}

static Status read_arguments(const ChatTemplate *to, const char *text, json_t **arguments, Error *error) {
    const char *name;
    json_t *value;
    *arguments = parse_arguments(text);
    if (!*arguments)
        return error_set(error, STATUS_USAGE,
                         "template_args: expected a JSON object like {\"enable_thinking\": false}");
    name = name_of_ours(*arguments);
    if (name) return error_set(error, STATUS_USAGE, "template_args: palaver itself sets \"%s\"", name);
    json_object_foreach(*arguments, name, value) {
        if (!strstr(to->source, name))
            return error_set(error, STATUS_USAGE, "the model's chat template knows no \"%.60s\"", name);
    }
    return STATUS_OK;
}

Status chat_template_set(ChatTemplate *chat_template, const Tokenizer *tokenizer, const char *text,
                         int thinking, Error *error) {
    ChatTemplate *to = chat_template->jinja ? chat_template : chat_template->own;
    if (!*text && thinking < 0 && (!to || !to->arguments)) return STATUS_OK;
    if (!to)
        return error_set(error, STATUS_USAGE, "the template %s asks nothing; only a model's own may",
                         chat_template->name);
    json_t *arguments, *before = to->arguments;
    Status status = read_arguments(to, text, &arguments, error);
    if (!status) status = add_thinking(to, arguments, thinking, error);
    if (!status) {
        to->arguments = json_object_size(arguments) ? json_incref(arguments) : NULL;
        status = learn(to, tokenizer, error);
        Error ignored;
        if (status) {
            json_decref(to->arguments);
            to->arguments = before;
            (void)learn(to, tokenizer, &ignored);
        } else {
            json_decref(before);
        }
    }
    json_decref(arguments);
    return status;
}
