// What the two halves of the parser share: expressions (parse.c) and statements (parse_tag.c). Inner header of the
// room.
#ifndef PALAVER_TOKENIZER_CHAT_JINJA_PARSE_INTERNAL_H
#define PALAVER_TOKENIZER_CHAT_JINJA_PARSE_INTERNAL_H

#include "tokenizer/chat/jinja/jinja_internal.h"

typedef struct Parser {
    Arena *arena;
    const Token *token; // the next one
    int depth;
    int loops; // that are open: where break and continue may stand
} Parser;

Node *parse_node(Parser *p, NodeType type);
void parse_push(Parser *p, Nodes *nodes, Node *node);
void parse_next(Parser *p);
bool parse_at(const Parser *p, int op);
bool parse_at_name(const Parser *p, const char *name);
bool parse_skip(Parser *p, int op); // and says whether it was there
bool parse_skip_name(Parser *p, const char *name);
void parse_expect(Parser *p, int op);
const char *parse_name(Parser *p);
void parse_into_name(Parser *p, Node *node); // the node's name, and its constant
void parse_deeper(Parser *p);                // the caller takes one off p->depth again
__attribute__((noreturn)) void parse_wrong(Parser *p, const char *expected);

Node *parse_expression(Parser *p);
Node *parse_tuple(Parser *p, bool with_if);  // one, or several with commas between
Node *parse_filter(Parser *p, Node *object); // the name behind a |, with its arguments

#endif
