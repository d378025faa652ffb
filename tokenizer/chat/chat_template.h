// Chat templates as data: messages in, token ids out.
//
// A template is a TOML file (config/chat/*.toml; the built-in ones are embedded): the literals around each
// role's text, what to do with a system message, trimming, and the markers by which a model's own Jinja
// template is recognised. Rendering gives the ids that the model's Jinja template, rendered and tokenized,
// would give, except that nothing a person wrote can become a control token.
#ifndef PALAVER_TOKENIZER_CHAT_TEMPLATE_H
#define PALAVER_TOKENIZER_CHAT_TEMPLATE_H

#include "kernels/base/status.h"
#include "tokenizer/tokenizer.h"

typedef struct ChatTemplate ChatTemplate; // opaque, immutable after opening

typedef enum ChatRole { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT } ChatRole;
const char *chat_role_name(ChatRole role); // "system", "user", "assistant"
int chat_role_find(const char *name);      // a ChatRole, or -1

// One message. An assistant's message may carry the ids it was sampled as; they are then taken as they are in
// place of its text.
typedef struct ChatMessage {
    ChatRole role;
    const char *text; // [size] UTF-8
    size_t size;
    const int32_t *ids; // [n_ids] or NULL
    int64_t n_ids;
} ChatMessage;

// Where a message lies among the rendered ids: [begin, end), its literals included. The spans follow each
// other and cover everything: BOS and a default system prompt belong to the first span, the generation prompt
// to none. Where a token straddles the border of two messages it belongs to the earlier one. [text_begin,
// text_end) are the ids that hold the message's own text.
typedef struct ChatSpan {
    int64_t begin, text_begin, text_end, end;
} ChatSpan;

// A built-in template by name ("chatml"), or a file (anything with a '/' or ending in .toml). An unknown name
// is STATUS_USAGE with the nearest one.
Status chat_template_open(const char *name_or_path, ChatTemplate **chat_template, Error *error);
void chat_template_close(ChatTemplate *chat_template);

// The template for a model by its own Jinja text (NULL: it has none), by the markers of the built-in ones.
// Where nothing matches, the best guess for the vocabulary is opened and *recognised is false: tell the user.
// A default system prompt that stands in the Jinja text is taken from there.
Status chat_template_recognise(const char *jinja, const Tokenizer *tokenizer, ChatTemplate **chat_template,
                               bool *recognised, Error *error);

// A control piece of the template that the vocabulary lacks, so that it can only be spelled as text; NULL: none.
const char *chat_template_lacking(const ChatTemplate *chat_template, const Tokenizer *tokenizer);

const char *chat_template_name(const ChatTemplate *chat_template);
const char *const *chat_template_names(int *n); // the built-in ones, for completion

// Appends the rendered ids, BOS included where the template or the model wants it. `spans` [n_messages] may
// be NULL. With generation_prompt the opening of an assistant's message follows. What the template cannot
// express (a system message in the middle, two user turns in a row where it alternates) is rendered as well
// as it can be, or STATUS_USAGE.
Status chat_template_render(const ChatTemplate *chat_template, const Tokenizer *tokenizer,
                            const ChatMessage *messages, int n_messages, bool generation_prompt,
                            Tokens *tokens, ChatSpan *spans, Error *error);

// The same as text, for display: BOS and control pieces are spelled out, and replies are their text, not
// their ids. *text is malloc'd and ends with a NUL that *size does not count.
Status chat_template_render_text(const ChatTemplate *chat_template, const Tokenizer *tokenizer,
                                 const ChatMessage *messages, int n_messages, bool generation_prompt,
                                 char **text, size_t *size, Error *error);

// Whether the id ends a reply: the template's own end pieces, or one of the model's.
bool chat_template_is_end(const ChatTemplate *chat_template, const Tokenizer *tokenizer, int32_t id);

// Strings that end a reply where no control token does: those the template names (Alpaca's "###
// Instruction:"), and its end pieces, which a model whose vocabulary lacks them can only write as text. *n
// may be 0.
const char *const *chat_template_stop_strings(const ChatTemplate *chat_template, int *n);

#endif
