// What the interpreter's files share: memory, values, the tree. Inner header of the room.
//
// Everything that a parse or a render makes lives in an arena that goes as a whole. A failure anywhere leaves by one
// longjmp to jinja_parse() or jinja_render(), which turn it into a Status: nothing but the arena is owned on the way.
#ifndef PALAVER_TOKENIZER_CHAT_JINJA_INTERNAL_H
#define PALAVER_TOKENIZER_CHAT_JINJA_INTERNAL_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/chat/jinja/jinja.h"

// ---- memory and failures -----------------------------------------------------------------------------------------
typedef struct ArenaBlock ArenaBlock;
typedef struct Arena {
    ArenaBlock *blocks;
    size_t left; // bytes that may still be asked for
    jmp_buf failed;
    Status status;
    Error *error;
    int line; // of the template, where the work is; 0: nowhere
} Arena;

void *jinja_alloc(Arena *arena, size_t size); // zeroed; never NULL
void jinja_arena_free(Arena *arena);
__attribute__((noreturn, format(printf, 3, 4))) void jinja_fail(Arena *arena, Status status,
                                                                const char *format, ...);

// Room for one more in an array of `n` that has doubled since 8. Returns the array, moved or not.
void *jinja_grow(Arena *arena, void *items, size_t n, size_t item_size);

// ---- values --------------------------------------------------------------------------------------------------------
typedef struct OriginText {
    const char *data; // [size] UTF-8, not NUL-terminated
    size_t size;
    const JinjaRun *runs; // [n_runs], at least one unless the text is empty
    size_t n_runs;
    bool markup; // came through `safe`: Python's Markup, whose + escapes
} OriginText;

typedef enum ValueType {
    VALUE_ABSENT, // of a parameter that was not given
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_VIEW,      // keys(), values(), items() of a dictionary, or a range: no slices, no printing
    VALUE_GENERATOR, // what map and select give: it can be gone through once
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_FUNCTION,
    VALUE_METHOD,
} ValueType;

typedef struct Value Value;
typedef struct List List;
typedef struct Dict Dict;
typedef struct Macro Macro;
typedef struct Method Method;
typedef struct Loop Loop;
typedef struct Function Function;
typedef struct Interp Interp;

struct Value {
    ValueType type;
    union {
        bool truth;
        int64_t integer;
        double real;
        const OriginText *text;
        List *list;
        Dict *dict; // of namespaces, too
        Loop *loop;
        const Macro *macro;
        const Function *function;
        const Method *method;
        const char *name; // of what is undefined; NULL: nameless
    } as;
};

struct List {
    Value *items; // [n]
    size_t n;
    bool spent; // a generator's items have been taken
};
struct Dict {
    Value *keys, *values; // [n] in the order they came
    size_t n;
};
struct Method {
    Value self;
    const char *name;
};

typedef struct Args {
    Value *items; // [n]
    size_t n;
    Dict named;
} Args;

// One function, filter, test or method. `parameters` are their names with blanks between, those after ";" may be left
// out and are then VALUE_ABSENT; NULL: the function sees the arguments as they came.
struct Function {
    const char *name, *parameters;
    Value (*call)(Interp *in, Value self, const Args *args);
};

// ---- the tree ------------------------------------------------------------------------------------------------------
typedef enum NodeType {
    // expressions
    NODE_CONSTANT,
    NODE_NAME,
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT,   // keys and values by turns
    NODE_GET,    // a . name
    NODE_ITEM,   // a [ b ]
    NODE_SLICE,  // a [ items: first, last, step, each may be NULL ]
    NODE_CALL,   // a ( items, named )
    NODE_FILTER, // a | name ( items, named ); a NULL: of a block
    NODE_TEST,   // a is name ( items )
    NODE_SPREAD, // *a or **a among arguments
    NODE_NOT,
    NODE_NEGATE,
    NODE_PLUS,
    NODE_AND,
    NODE_OR,
    NODE_IF_ELSE, // a if b else c
    NODE_BINARY,  // a op b
    NODE_COMPARE, // a, then items with the operators in text
    NODE_CONCAT,
    // statements
    NODE_TEXT,
    NODE_PRINT,
    NODE_FOR,       // for a (target) in b if c: body, other
    NODE_IF,        // items: conditions; bodies: one each, and perhaps one more
    NODE_SET,       // a = b
    NODE_SET_BLOCK, // a, filter b or NULL, body
    NODE_MACRO,
    NODE_CALL_BLOCK, // call b: body; as a macro, too
    NODE_FILTER_BLOCK,
    NODE_WITH,  // items: targets and values by turns
    NODE_SCOPE, // a generation block
    NODE_BREAK,
    NODE_CONTINUE,
} NodeType;

typedef struct Node Node;
typedef struct Nodes {
    Node **items; // [n]
    size_t n;
} Nodes;
struct Node {
    NodeType type;
    int line, op;
    const char *name;
    Node *a, *b, *c;
    Nodes items, named; // named: values, their names in `names`
    const char **names; // of named arguments; of a macro's parameters, whose defaults are the last of items
    size_t n_names;
    Nodes body, other;
    Nodes *bodies;
    int *ops;
    Value constant;
};

struct Jinja {
    Arena arena;
    Nodes body;
};

// ---- lexing ---------------------------------------------------------------------------------------------------------
typedef enum TokenType {
    LEX_END,
    LEX_DATA,
    LEX_OPEN,
    LEX_CLOSE,
    LEX_NAME,
    LEX_TEXT,
    LEX_NUMBER,
    LEX_OPERATOR
} TokenType;
// The operators by number: "==" and the like; OPEN and CLOSE are {{ }} ('{', '}') or {% %} ('%', '%').
enum { OP_EQ = 256, OP_NE, OP_LE, OP_GE, OP_POWER, OP_FLOOR, OP_IN, OP_NOT_IN };
typedef struct Token {
    TokenType type;
    int line, op;
    const char *name; // of LEX_NAME
    Value value;      // of LEX_DATA, LEX_TEXT, LEX_NUMBER
} Token;
// The tokens of a template, the last is LEX_END.
Token *jinja_lex(Arena *arena, const char *text, size_t size);

// ---- evaluation -----------------------------------------------------------------------------------------------------
typedef struct Scope {
    struct Scope *outer;
    Dict names;
} Scope;
struct Macro {
    const Node *node;
    Scope *scope;
    const Macro *caller;
};
struct Loop {
    const List *list;
    size_t at;
    Value changed; // the arguments of the last changed(), or absent
};
typedef struct Buffer { // a text that grows
    char *data;
    size_t size, capacity;
    JinjaRun *runs;
    size_t n_runs;
} Buffer;
struct Interp {
    Arena *arena;
    Scope *scope;
    Buffer *out;
    int64_t steps; // that are left
    int depth;
    int64_t now;
    int64_t n_macros; // that were made so far, each of which keeps its scope
    Value loop_name;
};

// value.c
Value jinja_absent(void);
Value jinja_undefined(const char *name);
Value jinja_bool(bool truth);
Value jinja_int(int64_t integer);
Value jinja_float(double real);
Value jinja_none(void);
Value jinja_list(Arena *arena, ValueType type);
void jinja_append(Arena *arena, List *list, Value item);
Value jinja_dict(Arena *arena);
void jinja_put(Arena *arena, Dict *dict, Value key, Value value);
const Value *jinja_find(const Dict *dict, const char *name);
const Value *jinja_find_key(const Dict *dict, Value key);
bool jinja_truth(Interp *in, Value value);
bool jinja_equal(Value a, Value b);
int jinja_compare(Interp *in, Value a, Value b); // <0, 0, >0; fails where Python would
const char *jinja_type_name(Value value);
List *jinja_iterate(Interp *in, Value value); // a list of what is in it; a generator is spent by it
bool jinja_contains(Interp *in, Value item, Value container);
bool jinja_is_sequence(Value value); // a list, tuple or view

// text.c
Value jinja_text(Arena *arena, const char *data, size_t size, int origin);
Value jinja_string(Arena *arena, const char *string);                                // the template's
OriginText jinja_part(Arena *arena, const OriginText *text, size_t from, size_t to); // in bytes
Value jinja_part_value(Arena *arena, const OriginText *text, size_t from, size_t to);
void jinja_add(Arena *arena, Buffer *buffer, const char *data, size_t size, int origin);
void jinja_add_text(Arena *arena, Buffer *buffer, const OriginText *text);
void jinja_add_string(Arena *arena, Buffer *buffer, const char *string);
Value jinja_take(Arena *arena, Buffer *buffer);                            // the buffer as a value
size_t jinja_character(const OriginText *text, size_t at, uint32_t *code); // its length in bytes
size_t jinja_length(const OriginText *text);                               // in characters
size_t jinja_offset(const OriginText *text, size_t characters);            // in bytes
size_t jinja_search(const OriginText *text, const OriginText *part, size_t from,
                    bool last); // SIZE_MAX: not there
bool jinja_is(Value value, const char *string);

// print.c
void jinja_print(Interp *in, Buffer *to, Value value);         // str()
void jinja_represent(Interp *in, Buffer *to, Value value);     // repr()
Value jinja_to_text(Interp *in, Value value);                  // always VALUE_TEXT
Value jinja_to_json(Interp *in, Value self, const Args *args); // the filter

// operators.c
Value jinja_binary(Interp *in, int op, Value a, Value b);
bool jinja_compare_by(Interp *in, int op, Value a, Value b);
Value jinja_sign(Interp *in, Value value, bool minus);
void jinja_charge(Interp *in, size_t steps); // takes steps; fails when there are none left
size_t jinja_weight(Value value);            // steps that it takes to look at all of a value

// evaluate.c, run.c
Value jinja_evaluate(Interp *in, const Node *node);
Value jinja_get(Interp *in, Value object, Value key, bool attribute_first);
Value jinja_apply(Interp *in, const Function *function, Value self, const Args *args);
Value jinja_run_macro(Interp *in, const Macro *macro, const Args *args);

// Tables; NULL: there is none.
const Function *jinja_filter(const char *name);
const Function *jinja_test(const char *name);
const Function *jinja_global(const char *name);
const Function *jinja_method(Value self, const char *name,
                             bool *forbidden); // forbidden: Python's sandbox refuses it
extern const Function jinja_text_methods[];    // a nameless one ends them
const Function *jinja_loop_method(const char *name);
Value jinja_loop_member(const Loop *loop, const char *name); // absent: there is none

// Arguments: an integer, a text or a truth with what stands for an absent one.
int64_t jinja_int_of(Interp *in, Value value, int64_t absent);
const OriginText *jinja_text_of(Interp *in, Value value, const char *what);
bool jinja_truth_of(Interp *in, Value value, bool absent);

#endif
