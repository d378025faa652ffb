#include "tests/support/model/chat_golden.h"

#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

static Error error;

Tokenizer *chat_tokenizer(const char *name) {
    char folder[200];
    Tokenizer *tokenizer;
    snprintf(folder, sizeof folder, "tests/golden/chat/%s", name);
    if (tokenizer_open_folder(folder, &tokenizer, &error)) fail_msg("%s", error.message);
    return tokenizer;
}

ChatTemplate *chat_template_named(const char *name) {
    ChatTemplate *chat_template;
    if (chat_template_open(name, &chat_template, &error)) fail_msg("%s", error.message);
    return chat_template;
}

int32_t chat_piece(const Tokenizer *tokenizer, const char *text) {
    int32_t id = tokenizer_find(tokenizer, text);
    assert_true(id >= 0);
    return id;
}

char *chat_text(const ChatTemplate *chat_template, const Tokenizer *tokenizer, const Message *messages, int n,
                bool prompt) {
    char *text;
    size_t size;
    if (chat_template_render_text(chat_template, tokenizer, &(ChatTalk){messages, n, prompt}, &text, &size,
                                  &error))
        fail_msg("%s", error.message);
    assert_int_equal(strlen(text), size);
    return text;
}

Tokens chat_ids(const ChatTemplate *chat_template, const Tokenizer *tokenizer, const Message *messages, int n,
                bool prompt, ChatSpan *spans) {
    Tokens tokens = {0};
    if (chat_template_render(chat_template, tokenizer, &(ChatTalk){messages, n, prompt}, &tokens, spans,
                             &error))
        fail_msg("%s", error.message);
    return tokens;
}

void chat_check_spans(const ChatSpan *spans, int n, const Tokens *tokens) {
    assert_int_equal(spans[0].begin, 0);
    for (int i = 0; i < n; i++) {
        if (i) assert_int_equal(spans[i].begin, spans[i - 1].end);
        assert_true(spans[i].begin <= spans[i].text_begin && spans[i].text_begin <= spans[i].text_end);
        assert_true(spans[i].text_end <= spans[i].end && spans[i].end <= tokens->n);
    }
}
