// Which template a model's own Jinja text amounts to.
#include "tokenizer/chat/chat_template_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// ---- normal form -------------------------------------------------------------------------------------

// Copies the string that begins at the quote `*from`, escapes resolved, and moves both ends on.
static void copy_string(const char **from, char **to) {
    const char *in = *from;
    char *out = *to, quote = *in++;
    *out++ = CHAT_QUOTE;
    for (; *in && *in != quote; in++) {
        if (*in != '\\' || !in[1]) {
            *out++ = *in;
            continue;
        }
        in++;
        *out++ = *in == 'n' ? '\n' : *in == 't' ? '\t' : *in == 'r' ? '\r' : *in;
    }
    *out++ = CHAT_QUOTE;
    *from = *in ? in + 1 : in;
    *to = out;
}

static bool begins(const char *text, const char *start) {
    return !strncmp(text, start, strlen(start));
}

// message.content is message['content']; returns how many bytes were read, 0 when it is none.
static size_t copy_attribute(const char *from, char **to) {
    static const char *const names[] = {"content", "role"};
    if (*from != '.') return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(from + 1, names[i], length) != 0 || isalnum((unsigned char)from[1 + length]) ||
            from[1 + length] == '_')
            continue;
        char *out = *to;
        *out++ = '[', *out++ = CHAT_QUOTE;
        memcpy(out, names[i], length);
        out += length;
        *out++ = CHAT_QUOTE, *out++ = ']';
        *to = out;
        return length + 1;
    }
    return 0;
}

char *chat_normal_jinja(const char *jinja) {
    // A byte becomes at most one, but for .role (5 bytes), which becomes 8, and an unclosed string.
    char *normal = malloc(strlen(jinja) * 2 + 4), *to = normal;
    if (!normal) return NULL;
    bool inside = false; // of {{ }} or {% %}
    for (const char *from = jinja; *from;) {
        size_t read;
        if (!inside && begins(from, "{#")) {
            const char *end = strstr(from, "#}");
            from = end ? end + 2 : from + strlen(from);
        } else if (!inside && (begins(from, "{{") || begins(from, "{%"))) {
            *to++ = from[0], *to++ = from[1];
            from += from[2] == '-' || from[2] == '+' ? 3 : 2;
            inside = true;
        } else if (inside && begins(from + (*from == '-'), "}}")) {
            *to++ = '}', *to++ = '}';
            from += *from == '-' ? 3 : 2;
            inside = false;
        } else if (inside && begins(from + (*from == '-'), "%}")) {
            *to++ = '%', *to++ = '}';
            from += *from == '-' ? 3 : 2;
            inside = false;
        } else if (inside && (*from == '\'' || *from == '"')) {
            copy_string(&from, &to);
        } else if (inside && (read = copy_attribute(from, &to)) > 0) {
            from += read;
        } else if (isspace((unsigned char)*from)) {
            from++;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
    return normal;
}

bool chat_normal_contains(const char *normal, const char *marker) {
    char text[512];
    size_t length = strlen(marker);
    if (length >= sizeof text) return false;
    for (size_t i = 0; i <= length; i++) text[i] = marker[i] == '\'' ? CHAT_QUOTE : marker[i];
    return strstr(normal, text) != NULL;
}

// ---- matching ----------------------------------------------------------------------------------------

static bool any(const char *normal, const ChatStrings *markers) {
    for (int i = 0; i < markers->count; i++)
        if (chat_normal_contains(normal, markers->items[i])) return true;
    return false;
}

bool chat_template_matches(const ChatTemplate *candidate, const char *normal) {
    if (!candidate->n_markers || any(normal, &candidate->unmarkers)) return false;
    for (int i = 0; i < candidate->n_markers; i++)
        if (!any(normal, &candidate->markers[i].alternatives)) return false;
    return true;
}

// A default system prompt in the Jinja text: a string in which the opening literal of the system turn is
// followed by text and the piece that ends the turn. *text is malloc'd, NULL where there is none.
static Status find_default_system(const char *normal, const ChatTemplate *to, char **text, Error *error) {
    const char *before = to->turns[CHAT_SYSTEM].before, *after = to->turns[CHAT_SYSTEM].after;
    size_t end_length = strcspn(after, "\n");
    *text = NULL;
    if (!*before || !end_length) return STATUS_OK;
    for (const char *at = normal; (at = strstr(at, before)) != NULL; at++) {
        const char *begin = at + strlen(before), *end = begin;
        while (*end && *end != CHAT_QUOTE && strncmp(end, after, end_length) != 0) end++;
        if (end == begin || !*end || *end == CHAT_QUOTE) continue;
        *text = strndup(begin, (size_t)(end - begin));
        return *text ? STATUS_OK : error_set(error, STATUS_MEMORY, "not enough memory for the chat template");
    }
    return STATUS_OK;
}

// What the model's own text says better than the file: BOS, trimming, and the default system prompt.
static Status adopt(const char *normal, ChatTemplate *to, Error *error) {
    if (!strstr(to->turns[CHAT_USER].before, "{bos}")) to->bos = strstr(normal, "bos_token") != NULL;
    if (any(normal, &to->trims))
        for (int role = 0; role < CHAT_ROLES; role++) to->turns[role].trim = CHAT_TRIM_TEXT;
    if (to->default_system && strstr(normal, to->default_system)) return STATUS_OK;
    free(to->default_system);
    return find_default_system(normal, to, &to->default_system, error);
}

static Status find_match(const char *normal, ChatTemplate **found, Error *error) {
    int n;
    const ChatBuiltin *builtins = chat_builtins(&n);
    for (int i = 0; i < n; i++) {
        ChatTemplate *candidate;
        Status status = chat_open_builtin(&builtins[i], &candidate, error);
        if (status) return status;
        if (chat_template_matches(candidate, normal)) {
            status = adopt(normal, candidate, error);
            if (!status) *found = candidate;
            if (status) chat_template_close(candidate);
            return status;
        }
        chat_template_close(candidate);
    }
    return STATUS_OK;
}

static bool speaks(const ChatTemplate *candidate, const Tokenizer *tokenizer) {
    for (int i = 0; i < candidate->vocabulary.count; i++)
        if (tokenizer_find(tokenizer, candidate->vocabulary.items[i]) < 0) return false;
    return candidate->vocabulary.count > 0;
}

// The first template whose pieces the vocabulary has; Alpaca's plain words, which any model can read, if
// none.
static Status guess(const Tokenizer *tokenizer, ChatTemplate **found, Error *error) {
    int n;
    const ChatBuiltin *builtins = chat_builtins(&n);
    for (int i = 0; i < n; i++) {
        ChatTemplate *candidate;
        Status status = chat_open_builtin(&builtins[i], &candidate, error);
        if (status) return status;
        if (speaks(candidate, tokenizer)) {
            *found = candidate;
            return STATUS_OK;
        }
        chat_template_close(candidate);
    }
    return chat_template_open("alpaca", found, error);
}

Status chat_template_recognise(const char *jinja, const Tokenizer *tokenizer, ChatTemplate **chat_template,
                               bool *recognised, Error *error) {
    *chat_template = NULL;
    Status status = STATUS_OK;
    if (jinja) {
        char *normal = chat_normal_jinja(jinja);
        status = normal ? find_match(normal, chat_template, error)
                        : error_set(error, STATUS_MEMORY, "not enough memory for the chat template");
        free(normal);
    }
    *recognised = *chat_template != NULL;
    return status || *recognised ? status : guess(tokenizer, chat_template, error);
}
