// Statements: from tokens to a tree.
#include "tokenizer/chat/jinja/parse_internal.h"

static Nodes parse_body(Parser *p, const char *const *ends);

static void close_tag(Parser *p) {
    if (p->token->type != LEX_CLOSE) parse_wrong(p, "the end of the tag");
    parse_next(p);
}

// The body behind a tag until one of `ends` (NULL ends them), at whose name the parser is then.
static Nodes body(Parser *p, const char *const *ends) {
    close_tag(p);
    return parse_body(p, ends);
}

static Nodes whole_body(Parser *p, const char *end) {
    Nodes nodes = body(p, (const char *const[]){end, NULL});
    parse_next(p);
    return nodes;
}

// A name, one of a namespace (a.b), or several of them in parentheses or with commas between.
static Node *parse_target(Parser *p) {
    Node *node = NULL;
    bool parentheses = parse_skip(p, '(');
    do {
        if (node && parse_at_name(p, "in")) break;
        Node *name = parse_node(p, NODE_NAME);
        parse_into_name(p, name);
        if (parse_skip(p, '.')) {
            Node *get = parse_node(p, NODE_GET);
            get->a = name;
            parse_into_name(p, get);
            name = get;
        }
        if (!node) {
            node = name;
        } else if (node->type == NODE_TUPLE) {
            parse_push(p, &node->items, name);
        } else {
            Node *tuple = parse_node(p, NODE_TUPLE);
            parse_push(p, &tuple->items, node);
            parse_push(p, &tuple->items, name);
            node = tuple;
        }
    } while (parse_skip(p, ','));
    if (parentheses) parse_expect(p, ')');
    return node;
}

static Node *parse_for(Parser *p) {
    Node *node = parse_node(p, NODE_FOR);
    parse_next(p);
    node->a = parse_target(p);
    if (!parse_skip_name(p, "in")) parse_wrong(p, "\"in\"");
    node->b = parse_tuple(p, false);
    if (parse_skip_name(p, "if")) node->c = parse_expression(p);
    if (parse_at_name(p, "recursive"))
        jinja_fail(p->arena, STATUS_UNSUPPORTED, "recursive loops are not supported");
    p->loops++;
    node->body = body(p, (const char *const[]){"endfor", "else", NULL});
    p->loops--;
    bool other = parse_at_name(p, "else");
    parse_next(p);
    if (other) node->other = whole_body(p, "endfor");
    return node;
}

static Node *parse_if(Parser *p) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    Node *node = parse_node(p, NODE_IF);
    size_t n = 0;
    for (bool more = true; more; n++) {
        bool other = parse_at_name(p, "else");
        parse_next(p);
        if (!other) parse_push(p, &node->items, parse_tuple(p, true));
        node->bodies = jinja_grow(p->arena, node->bodies, n, sizeof *node->bodies);
        Nodes nodes = body(p, other ? ends + 2 : ends);
        node->bodies[n] = nodes;
        more = !parse_at_name(p, "endif");
    }
    node->n_names = n; // of bodies
    parse_next(p);
    return node;
}

static Node *parse_set(Parser *p) {
    Node *node = parse_node(p, NODE_SET);
    parse_next(p);
    node->a = parse_target(p);
    if (parse_skip(p, '=')) {
        node->b = parse_tuple(p, true);
        return node;
    }
    node->type = NODE_SET_BLOCK;
    while (parse_skip(p, '|')) node->b = parse_filter(p, node->b);
    node->body = whole_body(p, "endset");
    return node;
}

// The parameters of a macro: those with a default are the last.
static void parse_parameters(Parser *p, Node *node) {
    parse_expect(p, '(');
    while (!parse_at(p, ')')) {
        node->names = jinja_grow(p->arena, node->names, node->n_names, sizeof *node->names);
        node->names[node->n_names++] = parse_name(p);
        if (parse_skip(p, '='))
            parse_push(p, &node->items, parse_expression(p));
        else if (node->items.n)
            jinja_fail(p->arena, STATUS_UNSUPPORTED, "a parameter without a default behind one that has one");
        if (!parse_skip(p, ',')) break;
    }
    parse_expect(p, ')');
}

static Node *parse_macro(Parser *p) {
    Node *node = parse_node(p, NODE_MACRO);
    int loops = p->loops;
    p->loops = 0;
    parse_next(p);
    node->name = parse_name(p);
    parse_parameters(p, node);
    node->body = whole_body(p, "endmacro");
    p->loops = loops;
    return node;
}

static Node *parse_call(Parser *p) {
    Node *node = parse_node(p, NODE_CALL_BLOCK);
    int loops = p->loops;
    p->loops = 0;
    parse_next(p);
    node->name = "caller";
    if (parse_at(p, '(')) parse_parameters(p, node);
    node->b = parse_expression(p);
    if (node->b->type != NODE_CALL) parse_wrong(p, "a call of a macro");
    node->body = whole_body(p, "endcall");
    p->loops = loops;
    return node;
}

static Node *parse_filter_block(Parser *p) {
    Node *node = parse_node(p, NODE_FILTER_BLOCK);
    parse_next(p);
    do node->b = parse_filter(p, node->b);
    while (parse_skip(p, '|'));
    node->body = whole_body(p, "endfilter");
    return node;
}

static Node *parse_with(Parser *p) {
    Node *node = parse_node(p, NODE_WITH);
    parse_next(p);
    while (p->token->type != LEX_CLOSE) {
        if (node->items.n) parse_expect(p, ',');
        Node *name = parse_node(p, NODE_NAME);
        parse_into_name(p, name);
        parse_push(p, &node->items, name);
        parse_expect(p, '=');
        parse_push(p, &node->items, parse_expression(p));
    }
    node->body = whole_body(p, "endwith");
    return node;
}

static Node *parse_generation(Parser *p) {
    Node *node = parse_node(p, NODE_SCOPE);
    int loops = p->loops;
    p->loops = 0;
    parse_next(p);
    node->body = whole_body(p, "endgeneration");
    p->loops = loops;
    return node;
}

static Node *parse_jump(Parser *p) {
    Node *node = parse_node(p, parse_at_name(p, "break") ? NODE_BREAK : NODE_CONTINUE);
    if (!p->loops) jinja_fail(p->arena, STATUS_UNSUPPORTED, "\"%s\" outside of a loop", p->token->name);
    parse_next(p);
    return node;
}

static Node *parse_statement(Parser *p) {
    static const struct {
        const char *name;
        Node *(*parse)(Parser *);
    } statements[] = {
        {"for", parse_for},       {"if", parse_if},
        {"set", parse_set},       {"macro", parse_macro},
        {"call", parse_call},     {"filter", parse_filter_block},
        {"with", parse_with},     {"break", parse_jump},
        {"continue", parse_jump}, {"generation", parse_generation},
    };
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!parse_at_name(p, statements[i].name)) continue;
        parse_deeper(p);
        Node *node = statements[i].parse(p);
        p->depth--;
        close_tag(p);
        return node;
    }
    if (p->token->type != LEX_NAME) parse_wrong(p, "a statement");
    jinja_fail(p->arena, STATUS_UNSUPPORTED, "{%% %.60s %%} is not supported here", p->token->name);
}

static bool ends_here(const Parser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (p->token[1].type == LEX_NAME && !strcmp(p->token[1].name, *ends)) return true;
    return false;
}

static Nodes parse_body(Parser *p, const char *const *ends) {
    Nodes nodes = {0};
    for (;;) {
        if (p->token->type == LEX_DATA) {
            Node *node = parse_node(p, NODE_TEXT);
            node->constant = p->token->value;
            parse_push(p, &nodes, node);
            parse_next(p);
        } else if (p->token->type == LEX_END) {
            if (ends) jinja_fail(p->arena, STATUS_UNSUPPORTED, "{%% %s %%} is missing", *ends);
            return nodes;
        } else if (p->token->op == '%' && ends_here(p, ends)) {
            parse_next(p);
            return nodes;
        } else if (p->token->op == '%') {
            parse_next(p);
            parse_push(p, &nodes, parse_statement(p));
        } else {
            parse_next(p);
            Node *node = parse_node(p, NODE_PRINT);
            node->a = parse_tuple(p, true);
            close_tag(p);
            parse_push(p, &nodes, node);
        }
    }
}

static void parse_all(Jinja *jinja, const char *text, size_t size) {
    if (setjmp(jinja->arena.failed)) return;
    Parser p = {.arena = &jinja->arena, .token = jinja_lex(&jinja->arena, text, size)};
    jinja->body = parse_body(&p, NULL);
}

Status jinja_parse(const char *text, size_t size, Jinja **out, Error *error) {
    *out = NULL;
    if (size > (4u << 20))
        return error_set(error, STATUS_UNSUPPORTED, "the chat template has more than 4 MB");
    Jinja *jinja = calloc(1, sizeof *jinja);
    if (!jinja) return error_no_memory(error, "the chat template");
    jinja->arena.left = (size_t)256 << 20;
    jinja->arena.error = error;
    parse_all(jinja, text, size);
    jinja->arena.error = NULL;
    Status status = jinja->arena.status;
    if (status)
        jinja_free(jinja);
    else
        *out = jinja;
    return status;
}

void jinja_free(Jinja *jinja) {
    if (!jinja) return;
    jinja_arena_free(&jinja->arena);
    free(jinja);
}
