// Values: making, comparing, going through them, as Python does.
#include "tokenizer/chat/jinja/jinja_internal.h"

#include <math.h>

Value jinja_absent(void) {
    return (Value){VALUE_ABSENT, {0}};
}
Value jinja_undefined(const char *name) {
    return (Value){VALUE_UNDEFINED, {.name = name}};
}
Value jinja_bool(bool truth) {
    return (Value){VALUE_BOOL, {.truth = truth}};
}
Value jinja_int(int64_t integer) {
    return (Value){VALUE_INT, {.integer = integer}};
}
Value jinja_float(double real) {
    return (Value){VALUE_FLOAT, {.real = real}};
}
Value jinja_none(void) {
    return (Value){VALUE_NONE, {0}};
}

Value jinja_list(Arena *arena, ValueType type) {
    return (Value){type, {.list = jinja_alloc(arena, sizeof(List))}};
}

void jinja_append(Arena *arena, List *list, Value item) {
    list->items = jinja_grow(arena, list->items, list->n, sizeof *list->items);
    list->items[list->n++] = item;
}

Value jinja_dict(Arena *arena) {
    return (Value){VALUE_DICT, {.dict = jinja_alloc(arena, sizeof(Dict))}};
}

void jinja_put(Arena *arena, Dict *dict, Value key, Value value) {
    Value *found = (Value *)jinja_find_key(dict, key);
    if (found) {
        *found = value;
        return;
    }
    if (key.type == VALUE_LIST || key.type == VALUE_DICT)
        jinja_fail(arena, STATUS_UNSUPPORTED, "a %s cannot be a key", jinja_type_name(key));
    dict->keys = jinja_grow(arena, dict->keys, dict->n, sizeof *dict->keys);
    dict->values = jinja_grow(arena, dict->values, dict->n, sizeof *dict->values);
    dict->keys[dict->n] = key;
    dict->values[dict->n++] = value;
}

const Value *jinja_find(const Dict *dict, const char *name) {
    for (size_t i = 0; i < dict->n; i++)
        if (jinja_is(dict->keys[i], name)) return &dict->values[i];
    return NULL;
}

const Value *jinja_find_key(const Dict *dict, Value key) {
    for (size_t i = 0; i < dict->n; i++)
        if (jinja_equal(dict->keys[i], key)) return &dict->values[i];
    return NULL;
}

const char *jinja_type_name(Value value) {
    static const char *const names[] = {
        "nothing", "undefined value", "None", "bool",      "int",  "float", "str",      "list",  "tuple",
        "view",    "generator",       "dict", "namespace", "loop", "macro", "function", "method"};
    return names[value.type];
}

bool jinja_is_sequence(Value value) {
    return value.type == VALUE_LIST || value.type == VALUE_TUPLE || value.type == VALUE_VIEW;
}

bool jinja_truth(Interp *in, Value value) {
    (void)in;
    switch (value.type) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return value.as.truth;
    case VALUE_INT:
        return value.as.integer != 0;
    case VALUE_FLOAT:
        return value.as.real != 0;
    case VALUE_TEXT:
        return value.as.text->size > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        return value.as.list->n > 0;
    case VALUE_DICT:
        return value.as.dict->n > 0;
    default:
        return true;
    }
}

static bool is_number(Value value) {
    return value.type == VALUE_BOOL || value.type == VALUE_INT || value.type == VALUE_FLOAT;
}

static double number(Value value) {
    return value.type == VALUE_FLOAT ? value.as.real
           : value.type == VALUE_INT ? (double)value.as.integer
                                     : (double)value.as.truth;
}

static bool equal_lists(const List *a, const List *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!jinja_equal(a->items[i], b->items[i])) return false;
    return true;
}

bool jinja_equal(Value a, Value b) {
    if (is_number(a) && is_number(b))
        return a.type == VALUE_INT && b.type == VALUE_INT ? a.as.integer == b.as.integer
                                                          : number(a) == number(b);
    if (a.type != b.type) return false;
    switch (a.type) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return true;
    case VALUE_TEXT:
        return a.as.text->size == b.as.text->size &&
               (!a.as.text->size || !memcmp(a.as.text->data, b.as.text->data, a.as.text->size));
    case VALUE_LIST:
    case VALUE_TUPLE:
        return equal_lists(a.as.list, b.as.list);
    case VALUE_DICT:
        if (a.as.dict->n != b.as.dict->n) return false;
        for (size_t i = 0; i < a.as.dict->n; i++) {
            const Value *other = jinja_find_key(b.as.dict, a.as.dict->keys[i]);
            if (!other || !jinja_equal(a.as.dict->values[i], *other)) return false;
        }
        return true;
    default:
        return a.as.list == b.as.list;
    }
}

// UTF-8 sorts as its code points do.
static int compare_texts(const OriginText *a, const OriginText *b) {
    size_t n = a->size < b->size ? a->size : b->size;
    int difference = n ? memcmp(a->data, b->data, n) : 0;
    if (difference) return difference;
    return a->size < b->size ? -1 : a->size > b->size;
}

int jinja_compare(Interp *in, Value a, Value b) {
    if (is_number(a) && is_number(b)) {
        if (a.type == VALUE_INT && b.type == VALUE_INT)
            return a.as.integer < b.as.integer ? -1 : a.as.integer > b.as.integer;
        double x = number(a), y = number(b);
        return x < y ? -1 : x > y;
    }
    if (a.type == VALUE_TEXT && b.type == VALUE_TEXT) return compare_texts(a.as.text, b.as.text);
    if (a.type == b.type && (a.type == VALUE_LIST || a.type == VALUE_TUPLE)) {
        const List *x = a.as.list, *y = b.as.list;
        for (size_t i = 0; i < x->n && i < y->n; i++)
            if (!jinja_equal(x->items[i], y->items[i])) return jinja_compare(in, x->items[i], y->items[i]);
        return x->n < y->n ? -1 : x->n > y->n;
    }
    jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s and a %s have no order", jinja_type_name(a),
               jinja_type_name(b));
}

List *jinja_iterate(Interp *in, Value value) {
    List *list;
    switch (value.type) {
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        return value.as.list;
    case VALUE_GENERATOR:
        list = jinja_alloc(in->arena, sizeof *list);
        if (!value.as.list->spent) *list = *value.as.list;
        value.as.list->spent = true;
        return list;
    case VALUE_UNDEFINED:
        return jinja_alloc(in->arena, sizeof *list);
    case VALUE_DICT:
        list = jinja_alloc(in->arena, sizeof *list);
        list->items = value.as.dict->keys;
        list->n = value.as.dict->n;
        return list;
    case VALUE_TEXT:
        list = jinja_alloc(in->arena, sizeof *list);
        for (size_t at = 0, length; at < value.as.text->size; at += length) {
            uint32_t code;
            length = jinja_character(value.as.text, at, &code);
            jinja_append(in->arena, list, jinja_part_value(in->arena, value.as.text, at, at + length));
        }
        return list;
    default:
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s has no items", jinja_type_name(value));
    }
}

bool jinja_contains(Interp *in, Value item, Value container) {
    if (container.type == VALUE_TEXT) {
        const OriginText *part = jinja_text_of(in, item, "what is looked for in a text");
        return jinja_search(container.as.text, part, 0, false) != SIZE_MAX;
    }
    if (container.type == VALUE_DICT) return jinja_find_key(container.as.dict, item) != NULL;
    const List *list = jinja_iterate(in, container);
    for (size_t i = 0; i < list->n; i++)
        if (jinja_equal(list->items[i], item)) return true;
    return false;
}
