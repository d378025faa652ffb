// Chat templates: messages in, token ids out.
//
// A template is a TOML file (config/chat/*.toml; the built-in ones are embedded): the literals around each role's
// text, what to do with a system message, and trimming. Or it is a model's own Jinja text, executed (jinja/).
// Rendering gives the ids that the model's Jinja template, rendered and tokenized, would give, except that nothing a
// person wrote can become a control token.
#ifndef PALAVER_TOKENIZER_CHAT_TEMPLATE_H
#define PALAVER_TOKENIZER_CHAT_TEMPLATE_H

#include "tokenizer/chat/message.h"
#include "tokenizer/tokenizer.h"

typedef struct ChatTemplate ChatTemplate; // opaque, immutable after opening

// What is rendered: messages [n], as the model sees them (message_seen()), and with `generation_prompt` the opening of
// an assistant's message behind them.
typedef struct ChatTalk {
    const Message *messages;
    int n;
    bool generation_prompt;
} ChatTalk;

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

// The template for a model by its own Jinja text (NULL: it has none). A set of talks is rendered by the text itself,
// as jinja2 would, and by the built-in templates: the one that gives the same, byte for byte, is taken (with BOS, a
// default system prompt and trimming as the text has them). Where none does, the text is the template (its name is
// "jinja"). Where it cannot be executed, the best guess for the vocabulary is opened, and the notice says why.
Status chat_template_recognise(const char *jinja, const Tokenizer *tokenizer, ChatTemplate **chat_template,
                               Error *error);

// A Jinja text as the template, whatever it amounts to. STATUS_UNSUPPORTED names the line and what is not understood.
Status chat_template_open_jinja(const char *jinja, const Tokenizer *tokenizer, ChatTemplate **chat_template,
                                Error *error);

// Variables for a Jinja text: `arguments` is a JSON object ("": none), `thinking` 1 or 0 whether the model thinks
// before it answers (enable_thinking, or thinking, whichever the text knows), -1: as it is made. A built-in template
// that was recognised is left for the model's own text while there are any. STATUS_USAGE: the text knows no such
// variable, or there is none; what was set before stays. Not while a conversation is being answered.
Status chat_template_set(ChatTemplate *chat_template, const Tokenizer *tokenizer, const char *arguments,
                         int thinking, Error *error);

// Whether `arguments` can be set at all: "", or a JSON object with none of the names that palaver sets itself.
bool chat_template_takes(const char *arguments);

// One line that the user should see (the template is a guess, and why), or NULL.
const char *chat_template_notice(const ChatTemplate *chat_template);

// A control piece of the template that the vocabulary lacks, so that it can only be spelled as text; NULL: none.
const char *chat_template_lacking(const ChatTemplate *chat_template, const Tokenizer *tokenizer);

const char *chat_template_name(const ChatTemplate *chat_template);

// Appends the ids of a talk. An assistant's message that has ids is rendered with these in place of its text. BOS is
// among them where the template or the model wants it. `spans` [n] may be NULL. What the template cannot express (a
// system message in the middle, two user turns in a row where it alternates) is rendered as well as it can be; a Jinja
// text may refuse it with STATUS_USAGE, and its own words.
Status chat_template_render(const ChatTemplate *chat_template, const Tokenizer *tokenizer,
                            const ChatTalk *talk, Tokens *tokens, ChatSpan *spans, Error *error);

// The same as text, for display: BOS and control pieces are spelled out, and replies are their text, not
// their ids. *text is malloc'd and ends with a NUL that *size does not count.
Status chat_template_render_text(const ChatTemplate *chat_template, const Tokenizer *tokenizer,
                                 const ChatTalk *talk, char **text, size_t *size, Error *error);

// Whether the id ends a reply: the template's own end pieces, or one of the model's.
bool chat_template_is_end(const ChatTemplate *chat_template, const Tokenizer *tokenizer, int32_t id);

// Strings that end a reply where no control token does: those the template names (Alpaca's "###
// Instruction:"), and its end pieces, which a model whose vocabulary lacks them can only write as text. *n
// may be 0.
const char *const *chat_template_stop_strings(const ChatTemplate *chat_template, int *n);

#endif
