// The channels of OpenAI's harmony format (gpt-oss), told apart by token id: a reply is several messages,
//
//     <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
//
// of which those in `analysis` are thoughts. A person sees no headers; thoughts stand between <think> and </think>, as
// other models write them, and so they stand in the text of a message.
#ifndef PALAVER_TOKENIZER_CHAT_CHANNELS_H
#define PALAVER_TOKENIZER_CHAT_CHANNELS_H

#include "tokenizer/tokenizer.h"

typedef struct Channels {
    const Tokenizer *tokenizer; // NULL: the vocabulary knows no channels
    int32_t start, channel, message, end;
    // Where a reply stands.
    bool header;   // between messages, or in the header of one
    bool naming;   // in the name of a channel
    bool thinking; // in a message that is a thought
    bool spoken;   // a message that is none has ended
    char name[16];
    size_t n_name;
} Channels;

// Looks for the four control tokens, and stands at the beginning of a reply.
void channels_find(Channels *channels, const Tokenizer *tokenizer);
void channels_begin(Channels *channels);

// Takes the next token of a reply. *bytes [*size] are the token's, and become what a person sees of it; where there are
// no channels all stays as it is.
void channels_token(Channels *channels, int32_t id, const char **bytes, size_t *size);

// The last message of a reply's ids [n] that is no thought, [*from, *to): what a template takes for the reply. Without
// channels all of them.
void channels_answer(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, int64_t *from, int64_t *to);

// The same of a reply's text. Without channels all of it.
TokenText channels_answer_text(const Tokenizer *tokenizer, TokenText text);

// Appends the ids that a model would have written for a reply's text, which goes on behind them.
Status channels_encode(const Tokenizer *tokenizer, TokenText text, Tokens *tokens, Error *error);

#endif
