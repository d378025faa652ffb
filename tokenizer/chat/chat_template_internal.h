// What a chat template's file says. Inner header of the room.
#ifndef PALAVER_TOKENIZER_CHAT_TEMPLATE_INTERNAL_H
#define PALAVER_TOKENIZER_CHAT_TEMPLATE_INTERNAL_H

#include "kernels/base/text/toml.h"
#include "tokenizer/chat/chat_template.h"
#include "tokenizer/chat/jinja/jinja.h"

enum { CHAT_ROLES = 3 };

// What is taken off both ends of a role's text: nothing, white space, or the white space of the whole turn,
// in which a system prompt may stand before the user's text.
typedef enum ChatTrim { CHAT_TRIM_NONE, CHAT_TRIM_TEXT, CHAT_TRIM_TURN } ChatTrim;

// Where a system message stands: in a turn of its own, or before the text of the next, or of the last user
// turn.
typedef enum ChatPlace { CHAT_PLACE_OWN_TURN, CHAT_PLACE_FIRST_USER, CHAT_PLACE_LAST_USER } ChatPlace;

typedef struct ChatStrings {
    char **items; // [count] then NULL
    int count;
} ChatStrings;

// Literals may hold {bos} and {eos}, which stand for the tokenizer's pieces.
typedef struct ChatTurn {
    char *before, *after;
    ChatTrim trim;
} ChatTurn;

struct ChatTemplate {
    char *name;
    bool bos; // begins with BOS whether or not the model wants it
    ChatTurn turns[CHAT_ROLES];
    ChatPlace place;
    char *default_system; // of a talk that has no system message; NULL: none. "" is a turn without text
    char *prompt;         // opens the reply
    char *think_begin, *think_end; // around what is forgotten of earlier replies, or NULL
    ChatStrings ends;              // pieces that end a reply
    ChatStrings stops;             // strings that end a reply
    ChatStrings vocabulary;        // pieces by which an unknown model is guessed to be of this kind
    char *notice;                  // one line that the user should see, or NULL
    // A model's own template is executed; of the above it has a name, ends, stops and bos.
    Jinja *jinja;
    char *source;             // its text
    struct json_t *arguments; // variables of the user's, or NULL
    int64_t now;              // the time that it knows, in seconds since 1970
    bool parts;               // contents are lists of parts, each with a type and its text
    size_t reply_space;       // white space that it puts before replies in the past, but not where one begins
    ChatTemplate *own; // of a built-in template that was recognised: the text that it was recognised from
};

// One built-in template.
typedef struct ChatBuiltin {
    const char *name;
    const char *begin, *end; // its TOML text
} ChatBuiltin;
const ChatBuiltin *chat_builtins(int *n);
Status chat_open_builtin(const ChatBuiltin *builtin, ChatTemplate **chat_template, Error *error);

// Reads a parsed file. Errors name the place in `file`.
Status chat_read(const char *file, const char *name, const TomlNode *root, ChatTemplate **chat_template,
                 Error *error);

// The model's own template: see chat_template_open_jinja(), and rendering as of chat_template.h.
#define CHAT_JINJA "jinja"
const ChatTemplate *
chat_jinja_of(const ChatTemplate *chat_template); // the text to execute; NULL: it is a built-in one
Status chat_jinja_open(const char *jinja, const Tokenizer *tokenizer, int64_t now,
                       ChatTemplate **chat_template, Error *error);
Status chat_jinja_render(const ChatTemplate *chat_template, const Tokenizer *tokenizer, const ChatTalk *talk,
                         Tokens *tokens, ChatSpan *spans, Error *error);
// The text of the messages, with origins, or by_ids that of the ids that replies are kept as.
Status chat_jinja_once(const ChatTemplate *chat_template, const Tokenizer *tokenizer, const ChatTalk *talk,
                       bool by_ids, JinjaText *text, Error *error);
extern const char *const chat_jinja_names[]; // that every text is told by palaver, NULL at the end
bool chat_jinja_begins_with_bos(const Tokenizer *tokenizer, const JinjaText *text);
Status chat_jinja_text(const ChatTemplate *chat_template, const Tokenizer *tokenizer, const ChatTalk *talk,
                       char **text, size_t *size, Error *error);

#endif
