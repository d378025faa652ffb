// Expressions: from tokens to a tree.
#include "tokenizer/chat/jinja/parse_internal.h"

Node *parse_node(Parser *p, NodeType type) {
    Node *node = jinja_alloc(p->arena, sizeof *node);
    node->type = type;
    node->line = p->token->line;
    return node;
}

void parse_push(Parser *p, Nodes *nodes, Node *node) {
    nodes->items = jinja_grow(p->arena, nodes->items, nodes->n, sizeof *nodes->items);
    nodes->items[nodes->n++] = node;
}

void parse_next(Parser *p) {
    if (p->token->type != LEX_END) p->token++;
    p->arena->line = p->token->line;
}

bool parse_at(const Parser *p, int op) {
    return p->token->type == LEX_OPERATOR && p->token->op == op;
}

bool parse_at_name(const Parser *p, const char *name) {
    return p->token->type == LEX_NAME && !strcmp(p->token->name, name);
}

bool parse_skip(Parser *p, int op) {
    bool there = parse_at(p, op);
    if (there) parse_next(p);
    return there;
}

bool parse_skip_name(Parser *p, const char *name) {
    bool there = parse_at_name(p, name);
    if (there) parse_next(p);
    return there;
}

void parse_wrong(Parser *p, const char *expected) {
    const Token *t = p->token;
    static const char *const kinds[] = {"the end", "text",   "a tag",    "the end of a tag",
                                        "",        "a text", "a number", "an operator"};
    jinja_fail(p->arena, STATUS_UNSUPPORTED, "expected %s, not %s%s", expected, kinds[t->type],
               t->type == LEX_NAME ? t->name : "");
}

void parse_expect(Parser *p, int op) {
    char expected[] = {'"', (char)op, '"', 0};
    if (!parse_skip(p, op)) parse_wrong(p, expected);
}

const char *parse_name(Parser *p) {
    if (p->token->type != LEX_NAME) parse_wrong(p, "a name");
    const char *name = p->token->name;
    parse_next(p);
    return name;
}

void parse_into_name(Parser *p, Node *node) {
    node->name = parse_name(p);
    node->constant = jinja_string(p->arena, node->name);
}

void parse_deeper(Parser *p) {
    if (++p->depth > 150) jinja_fail(p->arena, STATUS_UNSUPPORTED, "it is nested too deeply");
}

static Node *constant(Parser *p, Value value) {
    Node *node = parse_node(p, NODE_CONSTANT);
    node->constant = value;
    return node;
}

static Node *parse_text(Parser *p) {
    Buffer buffer = {0};
    Node *node = parse_node(p, NODE_CONSTANT);
    for (; p->token->type == LEX_TEXT; parse_next(p))
        jinja_add_text(p->arena, &buffer, p->token->value.as.text);
    node->constant = jinja_take(p->arena, &buffer);
    return node;
}

// Items until `close`; with pairs they are keys and values.
static Node *parse_items(Parser *p, NodeType type, int close) {
    Node *node = parse_node(p, type);
    while (!parse_at(p, close)) {
        parse_push(p, &node->items, parse_expression(p));
        if (type == NODE_DICT) {
            parse_expect(p, ':');
            parse_push(p, &node->items, parse_expression(p));
        }
        if (!parse_skip(p, ',')) break;
    }
    parse_expect(p, close);
    return node;
}

static Node *parse_primary(Parser *p) {
    static const struct {
        const char *name;
        Value value;
    } constants[] = {{"true", {VALUE_BOOL, {.truth = true}}},
                     {"True", {VALUE_BOOL, {.truth = true}}},
                     {"false", {VALUE_BOOL, {.truth = false}}},
                     {"False", {VALUE_BOOL, {.truth = false}}},
                     {"none", {VALUE_NONE, {0}}},
                     {"None", {VALUE_NONE, {0}}}};
    if (p->token->type == LEX_TEXT) return parse_text(p);
    if (p->token->type == LEX_NUMBER) {
        Node *node = constant(p, p->token->value);
        parse_next(p);
        return node;
    }
    if (p->token->type == LEX_NAME) {
        Node *node = parse_node(p, NODE_NAME);
        parse_into_name(p, node);
        for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
            if (!strcmp(node->name, constants[i].name)) {
                node->type = NODE_CONSTANT;
                node->constant = constants[i].value;
            }
        return node;
    }
    if (parse_skip(p, '[')) return parse_items(p, NODE_LIST, ']');
    if (parse_skip(p, '{')) return parse_items(p, NODE_DICT, '}');
    if (!parse_skip(p, '(')) parse_wrong(p, "an expression");
    Node *node = parse_at(p, ')') ? parse_node(p, NODE_TUPLE) : parse_tuple(p, true);
    parse_expect(p, ')');
    return node;
}

static void parse_arguments(Parser *p, Node *call) {
    parse_expect(p, '(');
    while (!parse_at(p, ')')) {
        int spread = p->token->type == LEX_OPERATOR && (p->token->op == '*' || p->token->op == OP_POWER)
                         ? p->token->op
                         : 0;
        if (spread) {
            Node *node = parse_node(p, NODE_SPREAD);
            parse_next(p);
            node->op = spread;
            node->a = parse_expression(p);
            parse_push(p, &call->items, node);
            if (!parse_skip(p, ',')) break;
            continue;
        }
        bool named = p->token->type == LEX_NAME && p->token[1].type == LEX_OPERATOR && p->token[1].op == '=';
        if (named) {
            call->names = jinja_grow(p->arena, call->names, call->n_names, sizeof *call->names);
            call->names[call->n_names++] = parse_name(p);
            parse_next(p);
        }
        parse_push(p, named ? &call->named : &call->items, parse_expression(p));
        if (!parse_skip(p, ',')) break;
    }
    parse_expect(p, ')');
}

static Node *parse_subscript(Parser *p, Node *object) {
    Node *node = parse_node(p, NODE_ITEM), *parts[3] = {0};
    int n = 0;
    node->a = object;
    if (!parse_at(p, ':')) parts[0] = parse_expression(p);
    while (n < 2 && parse_skip(p, ':')) {
        n++;
        if (!parse_at(p, ':') && !parse_at(p, ']')) parts[n] = parse_expression(p);
    }
    parse_expect(p, ']');
    if (n) {
        node->type = NODE_SLICE;
        for (int i = 0; i < 3; i++) parse_push(p, &node->items, parts[i]);
    }
    node->b = parts[0];
    return node;
}

static Node *parse_postfix(Parser *p, Node *object) {
    for (;;) {
        Node *node;
        if (parse_skip(p, '.')) {
            node = parse_node(p, p->token->type == LEX_NUMBER ? NODE_ITEM : NODE_GET);
            node->a = object;
            if (node->type == NODE_ITEM)
                node->b = parse_primary(p);
            else
                parse_into_name(p, node);
        } else if (parse_skip(p, '[')) {
            node = parse_subscript(p, object);
        } else if (parse_at(p, '(')) {
            node = parse_node(p, NODE_CALL);
            node->a = object;
            parse_arguments(p, node);
        } else {
            return object;
        }
        object = node;
    }
}

static Node *parse_test(Parser *p, Node *object) {
    bool negated = parse_skip_name(p, "not");
    Node *node = parse_node(p, NODE_TEST);
    node->a = object;
    node->name = parse_name(p);
    bool starts = p->token->type == LEX_NAME || p->token->type == LEX_TEXT || p->token->type == LEX_NUMBER ||
                  parse_at(p, '[') || parse_at(p, '{');
    if (parse_at(p, '('))
        parse_arguments(p, node);
    else if (starts && !parse_at_name(p, "else") && !parse_at_name(p, "or") && !parse_at_name(p, "and") &&
             !parse_at_name(p, "if") && !parse_at_name(p, "is"))
        parse_push(p, &node->items, parse_postfix(p, parse_primary(p)));
    if (!negated) return node;
    Node *not = parse_node(p, NODE_NOT);
    not ->a = node;
    return not ;
}

Node *parse_filter(Parser *p, Node *object) {
    Node *node = parse_node(p, NODE_FILTER);
    node->a = object;
    node->name = parse_name(p);
    if (parse_at(p, '(')) parse_arguments(p, node);
    return node;
}

static Node *parse_filters(Parser *p, Node *node) {
    for (;;) {
        if (parse_skip(p, '|')) {
            node = parse_filter(p, node);
        } else if (parse_skip_name(p, "is")) {
            node = parse_test(p, node);
        } else if (parse_at(p, '(')) {
            Node *call = parse_node(p, NODE_CALL);
            call->a = node;
            parse_arguments(p, call);
            node = call;
        } else {
            return node;
        }
    }
}

static Node *parse_unary(Parser *p, bool filters) {
    Node *node;
    parse_deeper(p);
    if (parse_at(p, '-') || parse_at(p, '+')) {
        node = parse_node(p, parse_at(p, '-') ? NODE_NEGATE : NODE_PLUS);
        parse_next(p);
        node->a = parse_unary(p, false);
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    p->depth--;
    return filters ? parse_filters(p, node) : node;
}

static Node *binary(Parser *p, Node *left, Node *(*right)(Parser *)) {
    Node *node = parse_node(p, NODE_BINARY);
    node->op = p->token->op;
    parse_next(p);
    node->a = left;
    node->b = right(p);
    return node;
}

static Node *parse_operand(Parser *p) {
    return parse_unary(p, true);
}

static Node *parse_power(Parser *p) {
    Node *left = parse_operand(p);
    while (parse_at(p, OP_POWER)) left = binary(p, left, parse_operand);
    return left;
}

static Node *parse_product(Parser *p) {
    Node *left = parse_power(p);
    while (parse_at(p, '*') || parse_at(p, '/') || parse_at(p, OP_FLOOR) || parse_at(p, '%'))
        left = binary(p, left, parse_power);
    return left;
}

static Node *parse_concat(Parser *p) {
    Node *first = parse_product(p);
    if (!parse_at(p, '~')) return first;
    Node *node = parse_node(p, NODE_CONCAT);
    parse_push(p, &node->items, first);
    while (parse_skip(p, '~')) parse_push(p, &node->items, parse_product(p));
    return node;
}

static Node *parse_sum(Parser *p) {
    Node *left = parse_concat(p);
    while (parse_at(p, '+') || parse_at(p, '-')) left = binary(p, left, parse_concat);
    return left;
}

// The operator of a comparison, read; 0: there is none.
static int comparison(Parser *p) {
    static const int ops[] = {OP_EQ, OP_NE, '<', '>', OP_LE, OP_GE};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (parse_skip(p, ops[i])) return ops[i];
    if (parse_skip_name(p, "in")) return OP_IN;
    if (!parse_at_name(p, "not") || p->token[1].type != LEX_NAME || strcmp(p->token[1].name, "in") != 0)
        return 0;
    parse_next(p);
    parse_next(p);
    return OP_NOT_IN;
}

static Node *parse_comparison(Parser *p) {
    Node *node = NULL, *first = parse_sum(p);
    for (int op; (op = comparison(p)) != 0;) {
        if (!node) node = parse_node(p, NODE_COMPARE);
        node->ops = jinja_grow(p->arena, node->ops, node->items.n, sizeof *node->ops);
        node->ops[node->items.n] = op;
        parse_push(p, &node->items, parse_sum(p));
    }
    if (!node) return first;
    node->a = first;
    return node;
}

static Node *parse_not(Parser *p) {
    if (!parse_at_name(p, "not")) return parse_comparison(p);
    parse_deeper(p);
    Node *node = parse_node(p, NODE_NOT);
    parse_next(p);
    node->a = parse_not(p);
    p->depth--;
    return node;
}

static Node *parse_logic(Parser *p, NodeType type) {
    Node *left = type == NODE_OR ? parse_logic(p, NODE_AND) : parse_not(p);
    while (parse_skip_name(p, type == NODE_OR ? "or" : "and")) {
        Node *node = parse_node(p, type);
        node->a = left;
        node->b = type == NODE_OR ? parse_logic(p, NODE_AND) : parse_not(p);
        left = node;
    }
    return left;
}

// An expression that "if" ends.
static Node *parse_without_if(Parser *p) {
    return parse_logic(p, NODE_OR);
}

Node *parse_expression(Parser *p) {
    parse_deeper(p);
    Node *value = parse_logic(p, NODE_OR);
    while (parse_skip_name(p, "if")) {
        Node *node = parse_node(p, NODE_IF_ELSE);
        node->a = value;
        node->b = parse_logic(p, NODE_OR);
        if (parse_skip_name(p, "else")) node->c = parse_expression(p);
        value = node;
    }
    p->depth--;
    return value;
}

Node *parse_tuple(Parser *p, bool with_if) {
    Node *first = with_if ? parse_expression(p) : parse_without_if(p);
    if (!parse_at(p, ',')) return first;
    Node *node = parse_node(p, NODE_TUPLE);
    parse_push(p, &node->items, first);
    while (parse_skip(p, ',')) {
        if (p->token->type == LEX_CLOSE || parse_at(p, ')')) break;
        parse_push(p, &node->items, with_if ? parse_expression(p) : parse_without_if(p));
    }
    return node;
}
