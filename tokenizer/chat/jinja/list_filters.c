// What stands behind "|": the filters for lists, and for what can be gone through like one.
#include "tokenizer/chat/jinja/filters_internal.h"

static Value filter_length(Interp *in, Value self, const Args *args) {
    (void)args;
    if (self.type == VALUE_TEXT) return jinja_int((int64_t)jinja_length(self.as.text));
    if (jinja_is_sequence(self)) return jinja_int((int64_t)self.as.list->n);
    if (self.type == VALUE_DICT) return jinja_int((int64_t)self.as.dict->n);
    if (self.type == VALUE_UNDEFINED) return jinja_int(0);
    if (self.type == VALUE_LOOP) return jinja_int((int64_t)self.as.loop->list->n);
    jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s has no length", jinja_type_name(self));
}

static Value filter_list(Interp *in, Value self, const Args *args) {
    (void)args;
    Value list = jinja_list(in->arena, VALUE_LIST);
    *list.as.list = *jinja_iterate(in, self);
    return list;
}

static Value filter_first(Interp *in, Value self, const Args *args) {
    (void)args;
    const List *list = jinja_iterate(in, self);
    return list->n ? list->items[0] : jinja_undefined("first");
}

static Value filter_last(Interp *in, Value self, const Args *args) {
    (void)args;
    if (self.type == VALUE_GENERATOR)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a generator has no last item");
    const List *list = jinja_iterate(in, self);
    return list->n ? list->items[list->n - 1] : jinja_undefined("last");
}

// "a.b" or "0": what an item has under these names, one after the other.
static Value attribute_of(Interp *in, Value item, Value path) {
    if (path.type <= VALUE_NONE) return item;
    if (path.type == VALUE_INT) return jinja_get(in, item, path, false);
    const OriginText *text = jinja_text_of(in, path, "the name of an attribute");
    for (size_t from = 0; from <= text->size;) {
        const char *dot = memchr(text->data + from, '.', text->size - from);
        size_t end = dot ? (size_t)(dot - text->data) : text->size;
        Value key = jinja_part_value(in->arena, text, from, end);
        const char *digits = text->data + from;
        if (end > from && *digits >= '0' && *digits <= '9') key = jinja_int(strtoll(digits, NULL, 10));
        item = jinja_get(in, item, key, false);
        from = end + 1;
    }
    return item;
}

static Value filter_join(Interp *in, Value self, const Args *args) {
    const List *list = jinja_iterate(in, self);
    Buffer buffer = {0};
    for (size_t i = 0; i < list->n; i++) {
        if (i && args->items[0].type != VALUE_ABSENT) jinja_print(in, &buffer, args->items[0]);
        jinja_print(in, &buffer, attribute_of(in, list->items[i], args->items[1]));
    }
    return jinja_take(in->arena, &buffer);
}

// A name among the arguments: that of a filter or a test.
static const Function *named(Interp *in, const Args *args, size_t at, bool test) {
    char name[64] = "";
    const OriginText *text =
        jinja_text_of(in, args->items[at], test ? "the name of a test" : "the name of a filter");
    if (text->size < sizeof name) memcpy(name, text->data, text->size);
    const Function *function = test ? jinja_test(name) : jinja_filter(name);
    if (!function)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "the %s \"%s\" is not supported", test ? "test" : "filter",
                   name);
    return function;
}

static Value filter_map(Interp *in, Value self, const Args *args) {
    if (!jinja_truth(in, self)) return jinja_list(in->arena, VALUE_GENERATOR);
    const List *list = jinja_iterate(in, self);
    const Value *attribute = jinja_find(&args->named, "attribute"),
                *standard = jinja_find(&args->named, "default");
    const Function *filter = attribute ? NULL : args->n ? named(in, args, 0, false) : NULL;
    if (!attribute && !filter) jinja_fail(in->arena, STATUS_UNSUPPORTED, "map needs a filter");
    Args rest = {
        .items = filter ? args->items + 1 : NULL, .n = filter ? args->n - 1 : 0, .named = args->named};
    Value out = jinja_list(in->arena, VALUE_GENERATOR);
    for (size_t i = 0; i < list->n; i++) {
        Value item = filter ? jinja_apply(in, filter, list->items[i], &rest)
                            : attribute_of(in, list->items[i], *attribute);
        if (!filter && standard && item.type == VALUE_UNDEFINED) item = *standard;
        jinja_append(in->arena, out.as.list, item);
    }
    return out;
}

// The items for which a test says `wanted`; the test is of the item, or of its attribute, the first argument.
static Value choose(Interp *in, Value self, const Args *args, bool wanted, bool with_attribute) {
    if (!jinja_truth(in, self)) return jinja_list(in->arena, VALUE_GENERATOR);
    const List *list = jinja_iterate(in, self);
    size_t first = with_attribute;
    if (args->n < first) jinja_fail(in->arena, STATUS_UNSUPPORTED, "selectattr needs an attribute");
    const Function *test = args->n > first ? named(in, args, first, true) : NULL;
    Args rest = {.items = test ? args->items + first + 1 : NULL, .n = test ? args->n - first - 1 : 0};
    Value out = jinja_list(in->arena, VALUE_GENERATOR);
    for (size_t i = 0; i < list->n; i++) {
        Value value = with_attribute ? attribute_of(in, list->items[i], args->items[0]) : list->items[i];
        if (test) value = jinja_apply(in, test, value, &rest);
        if (jinja_truth(in, value) == wanted) jinja_append(in->arena, out.as.list, list->items[i]);
    }
    return out;
}
static Value filter_select(Interp *in, Value self, const Args *args) {
    return choose(in, self, args, true, false);
}
static Value filter_reject(Interp *in, Value self, const Args *args) {
    return choose(in, self, args, false, false);
}
static Value filter_selectattr(Interp *in, Value self, const Args *args) {
    return choose(in, self, args, true, true);
}
static Value filter_rejectattr(Interp *in, Value self, const Args *args) {
    return choose(in, self, args, false, true);
}

static Value filter_items(Interp *in, Value self, const Args *args) {
    bool forbidden = false;
    Value out = jinja_list(in->arena, VALUE_GENERATOR);
    if (self.type == VALUE_UNDEFINED) return out;
    if (self.type != VALUE_DICT)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s has no items", jinja_type_name(self));
    *out.as.list = *jinja_apply(in, jinja_method(self, "items", &forbidden), self, args).as.list;
    return out;
}

static Value without_case(Interp *in, Value value, bool with_case) {
    Args none = {0};
    return with_case || value.type != VALUE_TEXT ? value
                                                 : jinja_apply(in, jinja_filter("lower"), value, &none);
}

typedef struct Order {
    Value attribute;
    bool with_case, backwards;
} Order;

static Value sorted(Interp *in, const List *list, Order order) {
    Value out = jinja_list(in->arena, VALUE_LIST);
    Value *keys = jinja_alloc(in->arena, (list->n + 1) * sizeof *keys);
    for (size_t i = 0; i < list->n; i++) {
        Value key = without_case(in, attribute_of(in, list->items[i], order.attribute), order.with_case);
        size_t at = i;
        jinja_append(in->arena, out.as.list, list->items[i]);
        for (; at; at--) {
            if (--in->steps < 0) jinja_fail(in->arena, STATUS_UNSUPPORTED, "it takes too many steps");
            int difference = jinja_compare(in, keys[at - 1], key);
            if (order.backwards ? difference >= 0 : difference <= 0) break;
            keys[at] = keys[at - 1];
            out.as.list->items[at] = out.as.list->items[at - 1];
        }
        keys[at] = key;
        out.as.list->items[at] = list->items[i];
    }
    return out;
}

static Value filter_sort(Interp *in, Value self, const Args *args) {
    Order order = {args->items[2], jinja_truth_of(in, args->items[1], false),
                   jinja_truth_of(in, args->items[0], false)};
    return sorted(in, jinja_iterate(in, self), order);
}

static Value filter_dictsort(Interp *in, Value self, const Args *args) {
    Order order = {jinja_int(0), jinja_truth_of(in, args->items[0], false),
                   jinja_truth_of(in, args->items[2], false)};
    if (jinja_is(args->items[1], "value"))
        order.attribute = jinja_int(1);
    else if (args->items[1].type != VALUE_ABSENT && !jinja_is(args->items[1], "key"))
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "dictsort is by key or by value");
    return sorted(in, jinja_iterate(in, filter_items(in, self, &(Args){0})), order);
}

static Value filter_unique(Interp *in, Value self, const Args *args) {
    const List *list = jinja_iterate(in, self);
    Value out = jinja_list(in->arena, VALUE_GENERATOR), seen = jinja_list(in->arena, VALUE_LIST);
    for (size_t i = 0; i < list->n; i++) {
        Value key = attribute_of(in, list->items[i], args->items[1]);
        key = without_case(in, key, jinja_truth_of(in, args->items[0], false));
        in->steps -= (int64_t)seen.as.list->n;
        if (jinja_contains(in, key, seen)) continue;
        jinja_append(in->arena, seen.as.list, key);
        jinja_append(in->arena, out.as.list, list->items[i]);
    }
    return out;
}

static Value filter_reverse(Interp *in, Value self, const Args *args) {
    (void)args;
    const List *list = jinja_iterate(in, self);
    Value out = jinja_list(in->arena, VALUE_GENERATOR);
    Buffer buffer = {0};
    for (size_t i = list->n; i-- > 0;) {
        jinja_append(in->arena, out.as.list, list->items[i]);
        if (self.type == VALUE_TEXT) jinja_add_text(in->arena, &buffer, list->items[i].as.text);
    }
    return self.type == VALUE_TEXT ? jinja_take(in->arena, &buffer) : out;
}

static Value extreme(Interp *in, Value self, const Args *args, int sign) {
    const List *list = jinja_iterate(in, self);
    bool with_case = jinja_truth_of(in, args->items[0], false);
    size_t best = 0;
    Value best_key = jinja_none();
    for (size_t i = 0; i < list->n; i++) {
        Value key = without_case(in, attribute_of(in, list->items[i], args->items[1]), with_case);
        if (i && jinja_compare(in, key, best_key) * sign <= 0) continue;
        best = i;
        best_key = key;
    }
    return list->n ? list->items[best] : jinja_undefined("min or max");
}
static Value filter_min(Interp *in, Value self, const Args *args) {
    return extreme(in, self, args, -1);
}
static Value filter_max(Interp *in, Value self, const Args *args) {
    return extreme(in, self, args, 1);
}

static Value filter_sum(Interp *in, Value self, const Args *args) {
    const List *list = jinja_iterate(in, self);
    Value sum = args->items[1].type == VALUE_ABSENT ? jinja_int(0) : args->items[1];
    for (size_t i = 0; i < list->n; i++)
        sum = jinja_binary(in, '+', sum, attribute_of(in, list->items[i], args->items[0]));
    return sum;
}

static Value filter_batch(Interp *in, Value self, const Args *args) {
    const List *list = jinja_iterate(in, self);
    int64_t size = jinja_int_of(in, args->items[0], 0);
    Value out = jinja_list(in->arena, VALUE_GENERATOR), row = jinja_list(in->arena, VALUE_LIST);
    if (size < 1) jinja_fail(in->arena, STATUS_UNSUPPORTED, "rows of %lld", (long long)size);
    for (size_t i = 0; i < list->n; i++) {
        if (row.as.list->n == (size_t)size) row = jinja_list(in->arena, VALUE_LIST);
        if (!row.as.list->n) jinja_append(in->arena, out.as.list, row);
        jinja_append(in->arena, row.as.list, list->items[i]);
    }
    while (list->n && args->items[1].type > VALUE_NONE && row.as.list->n < (size_t)size)
        jinja_append(in->arena, row.as.list, args->items[1]);
    return out;
}

const Function *jinja_list_filter(const char *name) {
    static const Function filters[] = {
        {"length", "", filter_length},
        {"count", "", filter_length},
        {"list", "", filter_list},
        {"first", "", filter_first},
        {"last", "", filter_last},
        {"join", "; d attribute", filter_join},
        {"map", NULL, filter_map},
        {"select", NULL, filter_select},
        {"reject", NULL, filter_reject},
        {"selectattr", NULL, filter_selectattr},
        {"rejectattr", NULL, filter_rejectattr},
        {"items", "", filter_items},
        {"dictsort", "; case_sensitive by reverse", filter_dictsort},
        {"sort", "; reverse case_sensitive attribute", filter_sort},
        {"unique", "; case_sensitive attribute", filter_unique},
        {"reverse", "", filter_reverse},
        {"min", "; case_sensitive attribute", filter_min},
        {"max", "; case_sensitive attribute", filter_max},
        {"sum", "; attribute start", filter_sum},
        {"batch", "linecount; fill_with", filter_batch},
    };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (!strcmp(filters[i].name, name)) return &filters[i];
    return NULL;
}
