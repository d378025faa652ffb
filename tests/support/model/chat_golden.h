// The small tokenizers of tests/golden/chat and the built-in templates, and what a talk becomes with them. What fails
// fails the test.
#ifndef PALAVER_TESTS_CHAT_GOLDEN_H
#define PALAVER_TESTS_CHAT_GOLDEN_H

#include "tokenizer/chat/chat_template.h"

Tokenizer *chat_tokenizer(const char *name); // "bytes", "prepend", "metaspace"
ChatTemplate *chat_template_named(const char *name);
int32_t chat_piece(const Tokenizer *tokenizer, const char *text); // the id of a piece that is there

// A talk as text, to free(), and as ids with its spans [n] (may be NULL).
char *chat_text(const ChatTemplate *chat_template, const Tokenizer *tokenizer, const Message *messages, int n,
                bool prompt);
Tokens chat_ids(const ChatTemplate *chat_template, const Tokenizer *tokenizer, const Message *messages, int n,
                bool prompt, ChatSpan *spans);

// Fails unless spans follow each other from 0, and each holds its text.
void chat_check_spans(const ChatSpan *spans, int n, const Tokens *tokens);

#endif
