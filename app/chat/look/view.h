// /view and /tokens: what the model really sees.
#ifndef PALAVER_APP_VIEW_H
#define PALAVER_APP_VIEW_H

#include "app/chat/chat.h"

typedef enum ViewKind { VIEW_TEXT, VIEW_TOKENS, VIEW_DIFF } ViewKind;
Status view_print(Chat *chat, ViewKind kind, Error *error);
// The tokens of a text, one a line.
Status view_print_tokens(Screen *screen, const Tokenizer *tokenizer, const char *text, size_t size,
                         Error *error);

#endif
