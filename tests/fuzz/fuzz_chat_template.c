// Hostile Jinja text, template files and messages, by the first byte: nothing crashes, spans hold, and a text
// never adds a control token.
#include "tokenizer/chat/chat_template_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BUILTINS = 64, N_MESSAGES = 4 };
static Tokenizer *tokenizer; // opened by the first call, for all
static ChatTemplate *templates[MAX_BUILTINS];
static int64_t harmless[MAX_BUILTINS]; // control tokens of the talk whose texts are all "x"
static int n_templates;

// Renders four messages of the same text, checks their spans, and counts the control tokens.
static int64_t render(const ChatTemplate *chat_template, const char *text, size_t size) {
    Message talk[N_MESSAGES];
    ChatSpan spans[N_MESSAGES];
    static const ChatRole roles[N_MESSAGES] = {CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_USER};
    for (int i = 0; i < N_MESSAGES; i++) talk[i] = (Message){.role = roles[i], .text = text, .size = size};
    Tokens tokens = {0};
    if (chat_template_render(chat_template, tokenizer, &(ChatTalk){talk, N_MESSAGES, true}, &tokens, spans,
                             NULL))
        abort();
    int64_t control = 0, before = 0;
    for (int i = 0; i < N_MESSAGES; before = spans[i++].end)
        if (spans[i].begin != before || spans[i].text_begin < before ||
            spans[i].text_end < spans[i].text_begin || spans[i].end < spans[i].text_end ||
            spans[i].end > tokens.n)
            abort();
    for (int64_t i = 0; i < tokens.n; i++)
        control += tokenizer_kind(tokenizer, tokens.ids[i]) == TOKEN_CONTROL;
    tokens_free(&tokens);
    return control;
}

static void start(void) {
    if (tokenizer_open_folder("tests/golden/chat/bytes", &tokenizer, NULL)) abort();
    const ChatBuiltin *builtins = chat_builtins(&n_templates);
    for (int i = 0; i < n_templates; i++) {
        if (chat_template_open(builtins[i].name, &templates[i], NULL)) abort();
        harmless[i] = render(templates[i], "x", 1);
    }
}

// A text that is executed may refuse talks, but not all texts are: then they are as of a file.
static void try_jinja(const char *text) {
    ChatTemplate *chat_template;
    Tokens tokens = {0};
    Message question = {.role = CHAT_USER, .text = "x", .size = 1};
    if (chat_template_recognise(text, tokenizer, &chat_template, NULL)) abort();
    if (!chat_jinja_of(chat_template))
        render(chat_template, "x", 1);
    else if (!chat_template_render(chat_template, tokenizer, &(ChatTalk){&question, 1, true}, &tokens, NULL,
                                   NULL) &&
             !tokens.n)
        abort();
    tokens_free(&tokens);
    chat_template_close(chat_template);
}

static void try_file(const char *text, size_t size) {
    TomlNode *root;
    ChatTemplate *chat_template;
    if (toml_parse("fuzz.toml", text, size, &root, NULL)) return;
    if (!chat_read("fuzz.toml", "fuzz", root, &chat_template, NULL)) render(chat_template, "x", 1);
    chat_template_close(chat_template);
    toml_free(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!tokenizer) start();
    if (!size || size > 20000) return 0;
    char *text = strndup((const char *)data + 1, size - 1);
    if (!text) return 0;
    if (data[0] == 'j') {
        try_jinja(text);
    } else if (data[0] == 'f') {
        try_file(text, strlen(text));
    } else {
        int i = data[0] % n_templates;
        if (render(templates[i], (const char *)data + 1, size - 1) != harmless[i]) abort();
    }
    free(text);
    return 0;
}
