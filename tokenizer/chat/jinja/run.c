// What statements do, and the render as a whole.
#include "tokenizer/chat/jinja/jinja_internal.h"

#include <jansson.h>

typedef enum Flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } Flow;

static Flow run(Interp *in, const Nodes *body);

static Scope *open_scope(Interp *in, Scope *outer) {
    Scope *scope = jinja_alloc(in->arena, sizeof *scope);
    scope->outer = outer;
    return scope;
}

static void define(Interp *in, const char *name, Value value) {
    jinja_put(in->arena, &in->scope->names, jinja_string(in->arena, name), value);
}

static void assign(Interp *in, const Node *target, Value value) {
    if (target->type == NODE_NAME) {
        jinja_put(in->arena, &in->scope->names, target->constant, value);
    } else if (target->type == NODE_GET) {
        Value space = jinja_evaluate(in, target->a);
        if (space.type != VALUE_NAMESPACE)
            jinja_fail(in->arena, STATUS_UNSUPPORTED, "an attribute is set of what is no namespace");
        jinja_put(in->arena, space.as.dict, target->constant, value);
    } else {
        const List *list = jinja_iterate(in, value);
        if (list->n != target->items.n)
            jinja_fail(in->arena, STATUS_UNSUPPORTED, "%zu values for %zu names", list->n, target->items.n);
        for (size_t i = 0; i < list->n; i++) assign(in, target->items.items[i], list->items[i]);
    }
}

// What a body writes, in a scope of its own.
static Value captured(Interp *in, const Nodes *body, Scope *scope) {
    Buffer buffer = {0}, *out = in->out;
    Scope *before = in->scope;
    in->out = &buffer;
    in->scope = scope;
    run(in, body);
    in->out = out;
    in->scope = before;
    return jinja_take(in->arena, &buffer);
}

// The filters of a block, the innermost of which has no object.
static Value filtered(Interp *in, const Node *filter, Value value) {
    if (!filter) return value;
    value = filtered(in, filter->a, value);
    Node whole = *filter, object = {.type = NODE_CONSTANT, .line = filter->line, .constant = value};
    whole.a = &object;
    return jinja_evaluate(in, &whole);
}

// The items of a loop that its condition lets through.
static List *chosen(Interp *in, const Node *node, Scope *outer) {
    Value items = jinja_evaluate(in, node->b);
    if (items.type == VALUE_NONE && node->b->type == NODE_NAME)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "it asks for %.60s, and there are none", node->b->name);
    List *all = jinja_iterate(in, items), *some;
    if (!node->c) return all;
    some = jinja_alloc(in->arena, sizeof *some);
    for (size_t i = 0; i < all->n; i++) {
        in->scope = open_scope(in, outer);
        assign(in, node->a, all->items[i]);
        if (jinja_truth(in, jinja_evaluate(in, node->c))) jinja_append(in->arena, some, all->items[i]);
    }
    in->scope = outer;
    return some;
}

static Flow run_for(Interp *in, const Node *node) {
    Scope *outer = in->scope;
    Loop *loop = jinja_alloc(in->arena, sizeof *loop);
    const List *list = chosen(in, node, outer);
    loop->list = list;
    int64_t n_macros = in->n_macros;
    for (; loop->at < list->n; loop->at++) {
        if (--in->steps < 0) jinja_fail(in->arena, STATUS_UNSUPPORTED, "it takes too many steps");
        if (in->n_macros != n_macros || !loop->at) in->scope = open_scope(in, outer);
        n_macros = in->n_macros;
        in->scope->names.n = 0; // the one of the last round, unless a macro has kept it
        jinja_put(in->arena, &in->scope->names, in->loop_name, (Value){VALUE_LOOP, {.loop = loop}});
        assign(in, node->a, list->items[loop->at]);
        if (run(in, &node->body) == FLOW_BREAK) break;
    }
    in->scope = outer;
    Flow flow = FLOW_ON;
    if (!list->n && node->other.n) {
        in->scope = open_scope(in, outer);
        flow = run(in, &node->other);
        in->scope = outer;
    }
    return flow;
}

static Flow run_if(Interp *in, const Node *node) {
    for (size_t i = 0; i < node->items.n; i++)
        if (jinja_truth(in, jinja_evaluate(in, node->items.items[i]))) return run(in, &node->bodies[i]);
    return node->n_names > node->items.n ? run(in, &node->bodies[node->items.n]) : FLOW_ON;
}

static const Macro *make_macro(Interp *in, const Node *node) {
    Macro *macro = jinja_alloc(in->arena, sizeof *macro);
    macro->node = node;
    macro->scope = in->scope;
    in->n_macros++;
    return macro;
}

Value jinja_run_macro(Interp *in, const Macro *macro, const Args *args) {
    const Node *node = macro->node;
    Scope *scope = open_scope(in, macro->scope), *before = in->scope;
    size_t used = 0, n = node->n_names;
    if (++in->depth > 600) jinja_fail(in->arena, STATUS_UNSUPPORTED, "it is nested too deeply");
    in->scope = scope;
    if (macro->caller) define(in, "caller", (Value){VALUE_MACRO, {.macro = macro->caller}});
    for (size_t i = 0; i < n; i++) {
        const Value *named = jinja_find(&args->named, node->names[i]);
        used += named != NULL;
        Value value = jinja_undefined(node->names[i]);
        if (i < args->n)
            value = args->items[i];
        else if (named)
            value = *named;
        else if (i + node->items.n >= n)
            value = jinja_evaluate(in, node->items.items[i + node->items.n - n]);
        define(in, node->names[i], value);
    }
    if (args->n > n || used < args->named.n)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "the macro %s does not take these arguments", node->name);
    in->scope = before;
    Value value = captured(in, &node->body, scope);
    in->depth--;
    return value;
}

static void run_call_block(Interp *in, const Node *node) {
    Value callee = jinja_evaluate(in, node->b->a);
    if (callee.type != VALUE_MACRO)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a call block calls what is no macro");
    Macro *macro = jinja_alloc(in->arena, sizeof *macro);
    *macro = *callee.as.macro;
    macro->caller = make_macro(in, node);
    Node call = *node->b, constant = {.type = NODE_CONSTANT, .line = node->line};
    constant.constant = (Value){VALUE_MACRO, {.macro = macro}};
    call.a = &constant;
    jinja_print(in, in->out, jinja_evaluate(in, &call));
}

static Flow run_with(Interp *in, const Node *node) {
    Scope *outer = in->scope, *inner = open_scope(in, outer);
    for (size_t i = 0; i < node->items.n; i += 2) {
        Value value = jinja_evaluate(in, node->items.items[i + 1]);
        in->scope = inner;
        assign(in, node->items.items[i], value);
        in->scope = outer;
    }
    in->scope = inner;
    Flow flow = run(in, &node->body);
    in->scope = outer;
    return flow;
}

static Flow run_node(Interp *in, const Node *node) {
    Value value;
    switch (node->type) {
    case NODE_TEXT:
        jinja_add_text(in->arena, in->out, node->constant.as.text);
        return FLOW_ON;
    case NODE_PRINT:
        value = jinja_evaluate(in, node->a);
        jinja_print(in, in->out, value);
        return FLOW_ON;
    case NODE_FOR:
        return run_for(in, node);
    case NODE_IF:
        return run_if(in, node);
    case NODE_SET:
        assign(in, node->a, jinja_evaluate(in, node->b));
        return FLOW_ON;
    case NODE_SET_BLOCK:
        value = captured(in, &node->body, open_scope(in, in->scope));
        assign(in, node->a, filtered(in, node->b, value));
        return FLOW_ON;
    case NODE_MACRO:
        define(in, node->name, (Value){VALUE_MACRO, {.macro = make_macro(in, node)}});
        return FLOW_ON;
    case NODE_CALL_BLOCK:
        run_call_block(in, node);
        return FLOW_ON;
    case NODE_FILTER_BLOCK:
        value = captured(in, &node->body, open_scope(in, in->scope));
        jinja_print(in, in->out, filtered(in, node->b, value));
        return FLOW_ON;
    case NODE_WITH:
        return run_with(in, node);
    case NODE_SCOPE:
        jinja_print(in, in->out, captured(in, &node->body, open_scope(in, in->scope)));
        return FLOW_ON;
    case NODE_BREAK:
        return FLOW_BREAK;
    case NODE_CONTINUE:
        return FLOW_CONTINUE;
    default:
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "this is no statement");
    }
}

static Flow run(Interp *in, const Nodes *body) {
    Flow flow = FLOW_ON;
    if (++in->depth > 600) jinja_fail(in->arena, STATUS_UNSUPPORTED, "it is nested too deeply");
    for (size_t i = 0; i < body->n && flow == FLOW_ON; i++) {
        in->arena->line = body->items[i]->line;
        if (--in->steps < 0) jinja_fail(in->arena, STATUS_UNSUPPORTED, "it takes too many steps");
        flow = run_node(in, body->items[i]);
    }
    in->depth--;
    return flow;
}

// ---- the context -------------------------------------------------------------------------------------------------

static Value from_json(Interp *in, const json_t *json, int origin) {
    Value value;
    const char *key;
    json_t *member;
    if (++in->depth > 600) jinja_fail(in->arena, STATUS_UNSUPPORTED, "the messages are nested too deeply");
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        value = jinja_dict(in->arena);
        json_object_foreach((json_t *)json, key, member) {
            int its = !strcmp(key, "role") && origin >= JINJA_MESSAGE ? JINJA_TEMPLATE : origin;
            jinja_put(in->arena, value.as.dict, jinja_string(in->arena, key), from_json(in, member, its));
        }
        break;
    case JSON_ARRAY:
        value = jinja_list(in->arena, VALUE_LIST);
        for (size_t i = 0; i < json_array_size(json); i++)
            jinja_append(in->arena, value.as.list, from_json(in, json_array_get(json, i), origin));
        break;
    case JSON_STRING:
        value = jinja_text(in->arena, json_string_value(json), json_string_length(json), origin);
        break;
    case JSON_INTEGER:
        value = jinja_int(json_integer_value(json));
        break;
    case JSON_REAL:
        value = jinja_float(json_real_value(json));
        break;
    case JSON_NULL:
        value = jinja_none();
        break;
    default:
        value = jinja_bool(json_is_true(json));
        break;
    }
    in->depth--;
    return value;
}

static void fill_context(Interp *in, const json_t *context) {
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)context, name, member) {
        size_t length = strlen(name);
        bool token = length > 6 && !strcmp(name + length - 6, "_token"), messages = !strcmp(name, "messages");
        Value value = messages ? jinja_list(in->arena, VALUE_LIST)
                               : from_json(in, member, token ? JINJA_TEMPLATE : JINJA_SETTING);
        for (size_t i = 0; messages && i < json_array_size(member); i++)
            jinja_append(in->arena, value.as.list,
                         from_json(in, json_array_get(member, i), JINJA_MESSAGE + (int)i));
        define(in, name, value);
    }
}

// Bytes of text in the context: what a render may take of memory and steps grows with it.
static size_t context_size(const json_t *json) {
    size_t size = 64, i;
    const char *key;
    json_t *member;
    if (json_is_string(json)) size += json_string_length(json);
    json_array_foreach((json_t *)json, i, member) size += context_size(member);
    json_object_foreach((json_t *)json, key, member) size += context_size(member);
    return size;
}

static void render(const Jinja *jinja, const json_t *context, int64_t now, Arena *arena, Buffer *out) {
    if (setjmp(arena->failed)) return;
    size_t size = context_size(context);
    Interp in = {.arena = arena, .out = out, .now = now, .steps = 20000000 + 16 * (int64_t)size};
    arena->left = ((size_t)256 << 20) + 64 * size;
    in.loop_name = jinja_string(arena, "loop");
    in.scope = open_scope(&in, NULL);
    fill_context(&in, context);
    in.scope = open_scope(&in, in.scope);
    run(&in, &jinja->body);
}

Status jinja_render(const Jinja *jinja, const json_t *context, int64_t now, JinjaText *out, Error *error) {
    Arena arena = {.error = error};
    Buffer buffer = {0};
    *out = (JinjaText){0};
    render(jinja, context, now, &arena, &buffer);
    if (!arena.status) {
        *out = (JinjaText){malloc(buffer.size + 1), buffer.size,
                           malloc((buffer.n_runs + 1) * sizeof *out->runs), buffer.n_runs};
        if (!out->data || !out->runs) {
            jinja_text_free(out);
            arena.status = error_no_memory(error, "the conversation's text");
        } else {
            if (buffer.size) memcpy(out->data, buffer.data, buffer.size);
            if (buffer.n_runs) memcpy(out->runs, buffer.runs, buffer.n_runs * sizeof *out->runs);
            out->data[buffer.size] = 0;
        }
    }
    jinja_arena_free(&arena);
    return arena.status;
}

void jinja_text_free(JinjaText *text) {
    free(text->data);
    free(text->runs);
    *text = (JinjaText){0};
}
