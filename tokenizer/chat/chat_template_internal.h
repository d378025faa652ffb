// What a chat template's file says. Inner header of the room.
#ifndef PALAVER_TOKENIZER_CHAT_INTERNAL_H
#define PALAVER_TOKENIZER_CHAT_INTERNAL_H

#include "kernels/base/toml.h"
#include "tokenizer/chat/chat_template.h"

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

// At least one of the alternatives must stand in the normal form of the Jinja text.
typedef struct ChatMarker {
    ChatStrings alternatives;
} ChatMarker;

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
    ChatMarker *markers;           // [n_markers], all must match
    int n_markers;
    ChatStrings unmarkers;  // none may match
    ChatStrings trims;      // any one of them says that every role's text is trimmed
    ChatStrings vocabulary; // pieces by which an unknown model is guessed to be of this kind
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

// The normal form of Jinja text in which markers are looked for: comments, white space and the dashes of tags
// are gone outside of strings; strings have their escapes resolved and stand between the byte CHAT_QUOTE;
// .content and .role are written as subscripts. malloc'd; NULL when out of memory. chat_normal_marker() does
// what markers need: they are written in that form, with ' for the quote.
enum { CHAT_QUOTE = 1 };
char *chat_normal_jinja(const char *jinja);
bool chat_normal_contains(const char *normal, const char *marker);
bool chat_template_matches(const ChatTemplate *candidate, const char *normal);

#endif
