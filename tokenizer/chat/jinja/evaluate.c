// What expressions give.
#include "tokenizer/chat/jinja/jinja_internal.h"

// ---- names, attributes, items ------------------------------------------------------------------------------------

static Value look_up(Interp *in, const char *name) {
    for (const Scope *scope = in->scope; scope; scope = scope->outer) {
        const Value *found = jinja_find(&scope->names, name);
        if (found) return *found;
    }
    const Function *function = jinja_global(name);
    return function ? (Value){VALUE_FUNCTION, {.function = function}} : jinja_undefined(name);
}

static Value attribute(Interp *in, Value object, const char *name) {
    bool forbidden = false;
    if (object.type == VALUE_LOOP && !jinja_loop_method(name)) return jinja_loop_member(object.as.loop, name);
    if (!jinja_method(object, name, &forbidden) && !forbidden) return jinja_absent();
    Method *method = jinja_alloc(in->arena, sizeof *method);
    *method = (Method){object, name};
    return (Value){VALUE_METHOD, {.method = method}};
}

// An item by its number or key; absent if there is none.
static Value item(Interp *in, Value object, Value key) {
    if (object.type == VALUE_DICT || object.type == VALUE_NAMESPACE) {
        const Value *found = jinja_find_key(object.as.dict, key);
        return found ? *found : jinja_absent();
    }
    if (key.type != VALUE_INT && key.type != VALUE_BOOL) return jinja_absent();
    int64_t at = key.type == VALUE_INT ? key.as.integer : key.as.truth;
    if (object.type == VALUE_TEXT) {
        const OriginText *text = object.as.text;
        int64_t n = (int64_t)jinja_length(text);
        if (at < 0) at += n;
        if (at < 0 || at >= n) return jinja_absent();
        size_t from = jinja_offset(text, (size_t)at);
        uint32_t code;
        return jinja_part_value(in->arena, text, from, from + jinja_character(text, from, &code));
    }
    if (!jinja_is_sequence(object)) return jinja_absent();
    const List *list = object.as.list;
    if (at < 0) at += (int64_t)list->n;
    return at < 0 || at >= (int64_t)list->n ? jinja_absent() : list->items[at];
}

static char *c_string(Interp *in, const OriginText *text) {
    char *copy = jinja_alloc(in->arena, text->size + 1);
    if (text->size) memcpy(copy, text->data, text->size);
    return copy;
}

Value jinja_get(Interp *in, Value object, Value key, bool attribute_first) {
    const char *name = key.type == VALUE_TEXT ? c_string(in, key.as.text) : NULL;
    if (object.type == VALUE_UNDEFINED)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "\"%.60s\" is undefined",
                   object.as.name ? object.as.name : "it");
    Value found = name && attribute_first ? attribute(in, object, name) : item(in, object, key);
    if (found.type == VALUE_ABSENT && name)
        found = attribute_first ? item(in, object, key) : attribute(in, object, name);
    return found.type == VALUE_ABSENT ? jinja_undefined(name) : found;
}

// a.name: as jinja_get() does it.
static Value get_attribute(Interp *in, Value object, const Node *node) {
    if (object.type == VALUE_UNDEFINED) return jinja_get(in, object, node->constant, true);
    Value found = attribute(in, object, node->name);
    if (found.type == VALUE_ABSENT) found = item(in, object, node->constant);
    return found.type == VALUE_ABSENT ? jinja_undefined(node->name) : found;
}

// A bound of a slice: where it stands in n items, as Python counts.
static int64_t bound(Interp *in, const Node *node, int64_t n, int64_t step, int64_t absent) {
    Value value = node ? jinja_evaluate(in, node) : jinja_none();
    if (value.type == VALUE_NONE) return absent;
    int64_t at = jinja_int_of(in, value, 0);
    if (at < 0) at += n;
    if (at < 0) at = step < 0 ? -1 : 0;
    if (at >= n) at = step < 0 ? n - 1 : n;
    return at;
}

static Value slice(Interp *in, const Node *node) {
    Value object = jinja_evaluate(in, node->a);
    Value given = node->items.items[2] ? jinja_evaluate(in, node->items.items[2]) : jinja_none();
    int64_t step = given.type == VALUE_NONE ? 1 : jinja_int_of(in, given, 1);
    if (step == 0) jinja_fail(in->arena, STATUS_UNSUPPORTED, "a slice with steps of 0");
    if (object.type != VALUE_TEXT && object.type != VALUE_LIST && object.type != VALUE_TUPLE) {
        if (object.type == VALUE_UNDEFINED) return jinja_get(in, object, jinja_none(), false);
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a slice of a %s", jinja_type_name(object));
    }
    const OriginText *text = object.type == VALUE_TEXT ? object.as.text : NULL;
    int64_t n = text ? (int64_t)jinja_length(text) : (int64_t)object.as.list->n;
    int64_t from = bound(in, node->items.items[0], n, step, step < 0 ? n - 1 : 0);
    int64_t to = bound(in, node->items.items[1], n, step, step < 0 ? -1 : n);
    if (text && step == 1) {
        size_t begin = jinja_offset(text, (size_t)from);
        return jinja_part_value(in->arena, text, begin, to > from ? jinja_offset(text, (size_t)to) : begin);
    }
    const List *all = jinja_iterate(in, object);
    Value list = jinja_list(in->arena, text ? VALUE_LIST : object.type);
    if (!text && step == 1) { // nothing changes a list: they share their items
        if (to > from) *list.as.list = (List){.items = all->items + from, .n = (size_t)(to - from)};
        return list;
    }
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        jinja_append(in->arena, list.as.list, all->items[i]);
        if (step > 0 ? step > to - i : step < to - i) break;
    }
    if (!text) return list;
    Buffer buffer = {0};
    for (size_t i = 0; i < list.as.list->n; i++)
        jinja_add_text(in->arena, &buffer, list.as.list->items[i].as.text);
    return jinja_take(in->arena, &buffer);
}

// ---- calls -------------------------------------------------------------------------------------------------------

static bool compare_chain(Interp *in, const Node *node) {
    Value left = jinja_evaluate(in, node->a);
    for (size_t i = 0; i < node->items.n; i++) {
        Value right = jinja_evaluate(in, node->items.items[i]);
        if (!jinja_compare_by(in, node->ops[i], left, right)) return false;
        left = right;
    }
    return true;
}

static Args evaluate_args(Interp *in, const Node *node) {
    Args args = {0};
    List list = {0};
    for (size_t i = 0; i < node->items.n; i++) {
        const Node *item = node->items.items[i];
        Value value = jinja_evaluate(in, item->type == NODE_SPREAD ? item->a : item);
        if (item->type != NODE_SPREAD) {
            jinja_append(in->arena, &list, value);
        } else if (item->op == '*') {
            const List *more = jinja_iterate(in, value);
            for (size_t k = 0; k < more->n; k++) jinja_append(in->arena, &list, more->items[k]);
        } else {
            if (value.type != VALUE_DICT)
                jinja_fail(in->arena, STATUS_UNSUPPORTED, "** before a %s", jinja_type_name(value));
            for (size_t k = 0; k < value.as.dict->n; k++)
                jinja_put(in->arena, &args.named, value.as.dict->keys[k], value.as.dict->values[k]);
        }
    }
    args.items = list.items;
    args.n = list.n;
    for (size_t i = 0; i < node->named.n; i++)
        jinja_put(in->arena, &args.named, jinja_string(in->arena, node->names[i]),
                  jinja_evaluate(in, node->named.items[i]));
    return args;
}

// The arguments in the order of the function's parameters.
Value jinja_apply(Interp *in, const Function *function, Value self, const Args *args) {
    jinja_charge(in, 1 + jinja_weight(self));
    if (!function->parameters) return function->call(in, self, args);
    Args bound = {.items = jinja_alloc(in->arena, 8 * sizeof(Value))};
    size_t used = 0;
    bool optional = false;
    for (const char *at = function->parameters; *at;) {
        if (*at == ' ' || *at == ';') {
            optional = optional || *at++ == ';';
            at += *at == ' ';
            continue;
        }
        size_t length = strcspn(at, " ;");
        char name[32];
        memcpy(name, at, length);
        name[length] = 0;
        at += length;
        const Value *named = jinja_find(&args->named, name);
        used += named != NULL;
        if (bound.n < args->n)
            bound.items[bound.n] = args->items[bound.n];
        else if (named)
            bound.items[bound.n] = *named;
        else if (!optional)
            jinja_fail(in->arena, STATUS_UNSUPPORTED, "%s() needs \"%s\"", function->name, name);
        bound.n++;
    }
    if (args->n > bound.n || used < args->named.n)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "%s() with these arguments is not supported",
                   function->name);
    return function->call(in, self, &bound);
}

static Value call(Interp *in, Value callee, const Args *args) {
    bool forbidden = false;
    switch (callee.type) {
    case VALUE_FUNCTION:
        return jinja_apply(in, callee.as.function, jinja_none(), args);
    case VALUE_MACRO:
        return jinja_run_macro(in, callee.as.macro, args);
    case VALUE_METHOD: {
        const Method *method = callee.as.method;
        const Function *function = jinja_method(method->self, method->name, &forbidden);
        if (!function)
            jinja_fail(in->arena, STATUS_UNSUPPORTED, "%s of a %s %s", method->name,
                       jinja_type_name(method->self),
                       forbidden ? "is not allowed, or not supported" : "does not exist");
        return jinja_apply(in, function, method->self, args);
    }
    case VALUE_UNDEFINED:
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "it calls \"%.60s\", which is undefined",
                   callee.as.name ? callee.as.name : "something");
    default:
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s cannot be called", jinja_type_name(callee));
    }
}

// ---- expressions -------------------------------------------------------------------------------------------------

static Value evaluate_items(Interp *in, const Node *node) {
    Value list = jinja_list(in->arena, node->type == NODE_LIST ? VALUE_LIST : VALUE_TUPLE);
    for (size_t i = 0; i < node->items.n; i++)
        jinja_append(in->arena, list.as.list, jinja_evaluate(in, node->items.items[i]));
    return list;
}

static Value evaluate_dict(Interp *in, const Node *node) {
    Value dict = jinja_dict(in->arena);
    for (size_t i = 0; i < node->items.n; i += 2) {
        Value key = jinja_evaluate(in, node->items.items[i]);
        jinja_put(in->arena, dict.as.dict, key, jinja_evaluate(in, node->items.items[i + 1]));
    }
    return dict;
}

static Value evaluate_concat(Interp *in, const Node *node) {
    Buffer buffer = {0};
    for (size_t i = 0; i < node->items.n; i++)
        jinja_print(in, &buffer, jinja_evaluate(in, node->items.items[i]));
    return jinja_take(in->arena, &buffer);
}

// As with jinja2, a filter that is not known is an error where it is used.
static const Function *named_function(Interp *in, const Node *node) {
    bool test = node->type == NODE_TEST;
    const Function *function = test ? jinja_test(node->name) : jinja_filter(node->name);
    if (!function)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "the %s \"%.60s\" is not supported",
                   test ? "test" : "filter", node->name);
    return function;
}

static Value evaluate_node(Interp *in, const Node *node) {
    Value a;
    Args args;
    switch (node->type) {
    case NODE_CONSTANT:
        return node->constant;
    case NODE_NAME:
        return look_up(in, node->name);
    case NODE_LIST:
    case NODE_TUPLE:
        return evaluate_items(in, node);
    case NODE_DICT:
        return evaluate_dict(in, node);
    case NODE_GET:
        a = jinja_evaluate(in, node->a);
        return get_attribute(in, a, node);
    case NODE_ITEM:
        a = jinja_evaluate(in, node->a);
        return jinja_get(in, a, jinja_evaluate(in, node->b), false);
    case NODE_SLICE:
        return slice(in, node);
    case NODE_CALL:
        a = jinja_evaluate(in, node->a);
        args = evaluate_args(in, node);
        return call(in, a, &args);
    case NODE_FILTER:
    case NODE_TEST:
        a = jinja_evaluate(in, node->a);
        args = evaluate_args(in, node);
        return jinja_apply(in, named_function(in, node), a, &args);
    case NODE_NOT:
        return jinja_bool(!jinja_truth(in, jinja_evaluate(in, node->a)));
    case NODE_NEGATE:
    case NODE_PLUS:
        return jinja_sign(in, jinja_evaluate(in, node->a), node->type == NODE_NEGATE);
    case NODE_AND:
    case NODE_OR:
        a = jinja_evaluate(in, node->a);
        return jinja_truth(in, a) == (node->type == NODE_OR) ? a : jinja_evaluate(in, node->b);
    case NODE_IF_ELSE:
        if (jinja_truth(in, jinja_evaluate(in, node->b))) return jinja_evaluate(in, node->a);
        return node->c ? jinja_evaluate(in, node->c) : jinja_undefined(NULL);
    case NODE_BINARY:
        a = jinja_evaluate(in, node->a);
        return jinja_binary(in, node->op, a, jinja_evaluate(in, node->b));
    case NODE_COMPARE:
        return jinja_bool(compare_chain(in, node));
    case NODE_CONCAT:
        return evaluate_concat(in, node);
    default:
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "this is no expression");
    }
}

Value jinja_evaluate(Interp *in, const Node *node) {
    in->arena->line = node->line;
    jinja_charge(in, 1);
    if (++in->depth > 600) jinja_fail(in->arena, STATUS_UNSUPPORTED, "it is nested too deeply");
    Value value = evaluate_node(in, node);
    in->depth--;
    in->arena->line = node->line;
    return value;
}
