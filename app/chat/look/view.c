#include "app/chat/look/view.h"

#include "app/chat/chat_internal.h"
#include "app/terminal/screen/page.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/token_shown.h"
#include "engine/cache/kv_cache.h"
#include "kernels/base/text/utf8.h"

#include <stdio.h>
#include <string.h>

// Whom a token belongs to: the template's own literals, or the text of a message.
static const char *owner_of(Chat *chat, const ConversationView *view, int64_t index, int *span) {
    while (*span < view->n_spans && index >= view->spans[*span].end) ++*span;
    if (*span >= view->n_spans) return "template";
    if (index < view->spans[*span].text_begin || index >= view->spans[*span].text_end) return "template";
    for (int i = 0, k = 0; i < conversation_length(chat->conversation); i++) {
        const Message *message = conversation_message(chat->conversation, i);
        if (message->evicted) continue;
        if (k++ == *span) return chat_role_name(message->role);
    }
    return "template";
}

// How many of the view's tokens are in the cache as they are.
static int64_t cached_prefix(Chat *chat, const ConversationView *view) {
    return session_known(conversation_session(chat->conversation), view->tokens.ids, view->tokens.n);
}

// Of these, how many are what the model saw last, and not left in a branch.
static int64_t seen_prefix(Chat *chat, const ConversationView *view) {
    const Session *session = conversation_session(chat->conversation);
    return kv_common_prefix(session_tokens(session), session_cached(session), view->tokens.ids,
                            view->tokens.n);
}

// A dangling beginning of a character becomes U+FFFD.
static void end_character(Utf8Stream *characters, FILE *out) {
    char text[UTF8_STREAM_ROOM(0)] = "";
    fwrite(text, 1, utf8_stream_flush(characters, text), out);
}

static void print_bytes(Utf8Stream *characters, const char *bytes, size_t size, FILE *out) {
    char text[UTF8_STREAM_ROOM(256)] = "";
    for (size_t n; size > 0; bytes += n, size -= n) {
        n = size < 256 ? size : 256;
        fwrite(text, 1, utf8_stream_push(characters, bytes, n, text), out);
    }
}

// A character whose bytes come from several tokens is printed with the last of them: marks stand before it.
static void print_text(Chat *chat, const ConversationView *view, int64_t from, FILE *out) {
    const Tokenizer *tokenizer = engine_tokenizer(chat->model.engine);
    int64_t cached = cached_prefix(chat, view);
    const char *before = "";
    Utf8Stream characters = {0};
    int span = 0;
    for (int64_t i = from; i < view->tokens.n; i++) {
        const char *owner = owner_of(chat, view, i, &span);
        int32_t id = view->tokens.ids[i];
        size_t size;
        if (i == cached && i) fputs("⟨cache ends here⟩", out);
        if (strcmp(owner, before)) end_character(&characters, out);
        if (strcmp(owner, before)) fprintf(out, "%s[%s] ", i > from ? "\n" : "", owner);
        before = owner;
        if (tokenizer_kind(tokenizer, id) == TOKEN_CONTROL) {
            end_character(&characters, out);
            const char *piece = tokenizer_piece(tokenizer, id, &size);
            fputs("⟪", out);
            fwrite(piece, 1, size, out);
            fputs("⟫", out);
        } else {
            const char *bytes =
                tokenizer_bytes(tokenizer, i ? view->tokens.ids[i - 1] : -1, id, false, &size);
            print_bytes(&characters, bytes, size, out);
        }
    }
    end_character(&characters, out);
    fputc('\n', out);
}

static void print_tokens(Chat *chat, const ConversationView *view, FILE *out) {
    const Tokenizer *tokenizer = engine_tokenizer(chat->model.engine);
    int64_t cached = cached_prefix(chat, view);
    int span = 0;
    for (int64_t i = 0; i < view->tokens.n; i++) {
        const char *owner = owner_of(chat, view, i, &span);
        int32_t id = view->tokens.ids[i];
        fprintf(out, "%6lld %7d  %-9s  %s  ", (long long)i, id, owner, i < cached ? "cached" : "new   ");
        token_print(out, tokenizer, i ? view->tokens.ids[i - 1] : -1, id);
        fputs(tokenizer_kind(tokenizer, id) == TOKEN_CONTROL ? "  (special)\n" : "\n", out);
    }
}

// The last token up to `index` that begins a character.
static int64_t character_begin(Chat *chat, const ConversationView *view, int64_t index) {
    const Tokenizer *tokenizer = engine_tokenizer(chat->model.engine);
    for (int64_t i = index; i > 0 && i > index - 4; i--) {
        size_t size;
        const char *bytes =
            tokenizer_bytes(tokenizer, view->tokens.ids[i - 1], view->tokens.ids[i], false, &size);
        if (size == 0 || !utf8_continues(*bytes)) return i;
    }
    return index;
}

// Whether a thought begins at a token that the cache holds, with its token or in its channel.
static bool begins_thought(const Chat *chat, const int32_t *held, int64_t place) {
    const Thoughts *t = &chat->thoughts;
    if (t->channels.tokenizer) return place > 0 && held[place - 1] == t->channels.channel;
    return t->begin >= 0 && held[place] == t->begin;
}

static void print_change(Chat *chat, int64_t place, const int32_t *held, int32_t is, FILE *out) {
    const int32_t was = held[place];
    const Tokenizer *tokenizer = engine_tokenizer(chat->model.engine);
    fprintf(out, "; at %lld it holds ", (long long)place);
    token_print(out, tokenizer, was, was);
    fputs(" instead of ", out);
    token_print(out, tokenizer, is, is);
    fputs(begins_thought(chat, held, place) ? ", as the template leaves thoughts out of earlier replies"
                                            : ", as the conversation was changed",
          out);
}

// Where the cache begins to miss, and why.
static void print_difference(Chat *chat, const ConversationView *view, FILE *out) {
    const Session *session = conversation_session(chat->conversation);
    int64_t cached = cached_prefix(chat, view), held = session_cached(session);
    fprintf(out, "%lld of %lld tokens are in the cache", (long long)cached, (long long)view->tokens.n);
    if (cached > seen_prefix(chat, view))
        fputs(", where the conversation has been before", out);
    else if (cached < held && cached < view->tokens.n)
        print_change(chat, cached, session_tokens(session), view->tokens.ids[cached], out);
    else if (cached < held)
        fprintf(out, "; it holds %lld more, which left the conversation", (long long)(held - cached));
    fputs(cached < view->tokens.n ? "; the next turn reads:\n" : "\n", out);
    if (cached < view->tokens.n) print_text(chat, view, character_begin(chat, view, cached), out);
}

Status view_print(Chat *chat, ViewKind kind, Error *error) {
    ConversationView view;
    Page page = {0};
    Status status = conversation_view(chat->conversation, false, &view, error);
    if (status) return status;
    status = page_open(&page, error);
    if (!status) {
        if (kind == VIEW_TEXT) print_text(chat, &view, 0, page.stream);
        if (kind == VIEW_TOKENS) print_tokens(chat, &view, page.stream);
        if (kind == VIEW_DIFF) print_difference(chat, &view, page.stream);
        page_show(&page, chat->screen);
    }
    conversation_view_free(&view);
    return status;
}

Status view_print_tokens(Screen *screen, const Tokenizer *tokenizer, const char *text, size_t size,
                         Error *error) {
    Tokens tokens = {0};
    Page page = {0};
    Status status = tokenizer_encode(tokenizer, text, size, false, &tokens, error);
    if (!status) status = page_open(&page, error);
    if (!status) {
        for (int64_t i = 0; i < tokens.n; i++) {
            fprintf(page.stream, "%7d  ", tokens.ids[i]);
            token_print(page.stream, tokenizer, i ? tokens.ids[i - 1] : -1, tokens.ids[i]);
            fputc('\n', page.stream);
        }
        fprintf(page.stream, "%lld token%s\n", (long long)tokens.n, text_plural(tokens.n));
        page_show(&page, screen);
    }
    tokens_free(&tokens);
    return status;
}
