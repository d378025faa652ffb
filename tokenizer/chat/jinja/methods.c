// Arguments, and the methods of lists and dictionaries.
#include "tokenizer/chat/jinja/jinja_internal.h"

// ---- arguments ---------------------------------------------------------------------------------------------------

int64_t jinja_int_of(Interp *in, Value value, int64_t absent) {
    if (value.type == VALUE_ABSENT) return absent;
    if (value.type == VALUE_BOOL) return value.as.truth;
    if (value.type != VALUE_INT)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s where a number is needed", jinja_type_name(value));
    return value.as.integer;
}

const OriginText *jinja_text_of(Interp *in, Value value, const char *what) {
    if (value.type != VALUE_TEXT)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "%s is a %s, not text", what, jinja_type_name(value));
    return value.as.text;
}

bool jinja_truth_of(Interp *in, Value value, bool absent) {
    return value.type == VALUE_ABSENT ? absent : jinja_truth(in, value);
}

// ---- lists and dictionaries --------------------------------------------------------------------------------------

static Value list_index(Interp *in, Value self, const Args *args) {
    for (size_t i = 0; i < self.as.list->n; i++)
        if (jinja_equal(self.as.list->items[i], args->items[0])) return jinja_int((int64_t)i);
    jinja_fail(in->arena, STATUS_UNSUPPORTED, "index() finds nothing");
}
static Value list_count(Interp *in, Value self, const Args *args) {
    int64_t n = 0;
    (void)in;
    for (size_t i = 0; i < self.as.list->n; i++) n += jinja_equal(self.as.list->items[i], args->items[0]);
    return jinja_int(n);
}

static Value dict_get(Interp *in, Value self, const Args *args) {
    (void)in;
    const Value *found = jinja_find_key(self.as.dict, args->items[0]);
    return found ? *found : args->items[1].type == VALUE_ABSENT ? jinja_none() : args->items[1];
}
static Value dict_keys(Interp *in, Value self, const Args *args) {
    Value list = jinja_list(in->arena, VALUE_VIEW);
    (void)args;
    list.as.list->items = self.as.dict->keys;
    list.as.list->n = self.as.dict->n;
    return list;
}
static Value dict_values(Interp *in, Value self, const Args *args) {
    Value list = jinja_list(in->arena, VALUE_VIEW);
    (void)args;
    list.as.list->items = self.as.dict->values;
    list.as.list->n = self.as.dict->n;
    return list;
}
static Value dict_items(Interp *in, Value self, const Args *args) {
    Value list = jinja_list(in->arena, VALUE_VIEW);
    (void)args;
    for (size_t i = 0; i < self.as.dict->n; i++) {
        Value pair = jinja_list(in->arena, VALUE_TUPLE);
        jinja_append(in->arena, pair.as.list, self.as.dict->keys[i]);
        jinja_append(in->arena, pair.as.list, self.as.dict->values[i]);
        jinja_append(in->arena, list.as.list, pair);
    }
    return list;
}
static Value dict_copy(Interp *in, Value self, const Args *args) {
    (void)in, (void)args;
    return self; // nothing changes it
}

// ---- tables ------------------------------------------------------------------------------------------------------

static const Function list_methods[] = {{"index", "value", list_index}, {"count", "value", list_count}, {0}};
static const Function dict_methods[] = {
    {"get", "key; default", dict_get}, {"keys", "", dict_keys}, {"values", "", dict_values},
    {"items", "", dict_items},         {"copy", "", dict_copy}, {0},
};
// What Python has besides: it stands before keys of the same name, and cannot be called.
static const char *const text_others[] = {"casefold", "center",   "encode",       "expandtabs", "format_map",
                                          "isalnum",  "isascii",  "isidentifier", "islower",    "isprintable",
                                          "istitle",  "isupper",  "ljust",        "maketrans",  "rindex",
                                          "rjust",    "swapcase", "translate",    "zfill",      NULL};
static const char *const list_others[] = {"append", "clear",  "copy",    "extend", "insert",
                                          "pop",    "remove", "reverse", "sort",   NULL};
static const char *const dict_others[] = {"clear",      "fromkeys", "pop", "popitem",
                                          "setdefault", "update",   NULL};
static const char *const no_others[] = {NULL};

const Function *jinja_method(Value self, const char *name, bool *forbidden) {
    const Function *functions = NULL;
    const char *const *others = no_others;
    switch (self.type) {
    case VALUE_TEXT:
        functions = jinja_text_methods, others = text_others;
        break;
    case VALUE_LIST:
        functions = list_methods, others = list_others;
        break;
    case VALUE_TUPLE:
        functions = list_methods;
        break;
    case VALUE_DICT:
        functions = dict_methods, others = dict_others;
        break;
    case VALUE_LOOP:
        return jinja_loop_method(name);
    default:
        return NULL;
    }
    for (; functions->name; functions++)
        if (!strcmp(functions->name, name)) return functions;
    for (; *others; others++) *forbidden = *forbidden || !strcmp(*others, name);
    return NULL;
}
