// Functions that every template may call, and what "loop" knows.
#include "tokenizer/chat/jinja/jinja_internal.h"

#include <locale.h>
#include <time.h>

static Value call_range(Interp *in, Value self, const Args *args) {
    (void)self;
    Value list = jinja_list(in->arena, VALUE_VIEW);
    bool one = args->items[1].type == VALUE_ABSENT;
    int64_t from = one ? 0 : jinja_int_of(in, args->items[0], 0), to = jinja_int_of(in, args->items[!one], 0);
    int64_t step = jinja_int_of(in, args->items[2], 1);
    if (step == 0) jinja_fail(in->arena, STATUS_UNSUPPORTED, "a range with steps of 0");
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        if (list.as.list->n == 100000)
            jinja_fail(in->arena, STATUS_UNSUPPORTED, "a range of more than 100000 numbers");
        jinja_append(in->arena, list.as.list, jinja_int(i));
        if (__builtin_add_overflow(i, step, &(int64_t){0})) break;
    }
    return list;
}

static Value call_dict(Interp *in, Value self, const Args *args) {
    (void)self;
    Value dict = jinja_dict(in->arena);
    for (size_t i = 0; i < args->n; i++) {
        const Dict *from = args->items[i].as.dict;
        if (args->n > 1 || args->items[i].type != VALUE_DICT)
            jinja_fail(in->arena, STATUS_UNSUPPORTED, "a dictionary of a %s is not supported",
                       jinja_type_name(args->items[i]));
        for (size_t k = 0; k < from->n; k++)
            jinja_put(in->arena, dict.as.dict, from->keys[k], from->values[k]);
    }
    for (size_t k = 0; k < args->named.n; k++)
        jinja_put(in->arena, dict.as.dict, args->named.keys[k], args->named.values[k]);
    return dict;
}

static Value call_namespace(Interp *in, Value self, const Args *args) {
    Value space = call_dict(in, self, args);
    space.type = VALUE_NAMESPACE;
    return space;
}

static Value call_raise(Interp *in, Value self, const Args *args) {
    (void)self;
    const OriginText *text = jinja_to_text(in, args->items[0]).as.text;
    jinja_fail(in->arena, STATUS_USAGE, "%.*s", text->size < 500 ? (int)text->size : 500, text->data);
}

static Value call_strftime_now(Interp *in, Value self, const Args *args) {
    (void)self;
    const OriginText *text = jinja_text_of(in, args->items[0], "the form of a date");
    char format[200] = "", date[500];
    time_t now = (time_t)in->now;
    struct tm tm;
    if (text->size >= sizeof format || !localtime_r(&now, &tm))
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a date of this form is not supported");
    if (text->size) memcpy(format, text->data, text->size);
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); // names of days and months in English
    if (!plain) jinja_fail(in->arena, STATUS_MEMORY, "there is not enough memory");
    size_t size = strftime_l(date, sizeof date, format, &tm, plain);
    freelocale(plain);
    char *copy = jinja_alloc(in->arena, size + 1);
    memcpy(copy, date, size);
    return jinja_text(in->arena, copy, size, JINJA_TEMPLATE);
}

const Function *jinja_global(const char *name) {
    static const Function globals[] = {
        {"range", "start; stop step", call_range},     {"dict", NULL, call_dict},
        {"namespace", NULL, call_namespace},           {"raise_exception", "message", call_raise},
        {"strftime_now", "format", call_strftime_now},
    };
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (!strcmp(globals[i].name, name)) return &globals[i];
    return NULL;
}

// ---- loop --------------------------------------------------------------------------------------------------------

static Value loop_cycle(Interp *in, Value self, const Args *args) {
    if (!args->n) jinja_fail(in->arena, STATUS_UNSUPPORTED, "a cycle of nothing");
    return args->items[self.as.loop->at % args->n];
}

static Value loop_changed(Interp *in, Value self, const Args *args) {
    Value now = jinja_list(in->arena, VALUE_TUPLE);
    for (size_t i = 0; i < args->n; i++) jinja_append(in->arena, now.as.list, args->items[i]);
    bool changed = self.as.loop->changed.type == VALUE_ABSENT || !jinja_equal(now, self.as.loop->changed);
    self.as.loop->changed = now;
    return jinja_bool(changed);
}

const Function *jinja_loop_method(const char *name) {
    static const Function methods[] = {{"cycle", NULL, loop_cycle}, {"changed", NULL, loop_changed}};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(methods[i].name, name)) return &methods[i];
    return NULL;
}

Value jinja_loop_member(const Loop *loop, const char *name) {
    const int64_t at = (int64_t)loop->at, n = (int64_t)loop->list->n;
    if (!strcmp(name, "index")) return jinja_int(at + 1);
    if (!strcmp(name, "index0")) return jinja_int(at);
    if (!strcmp(name, "revindex")) return jinja_int(n - at);
    if (!strcmp(name, "revindex0")) return jinja_int(n - at - 1);
    if (!strcmp(name, "first")) return jinja_bool(at == 0);
    if (!strcmp(name, "last")) return jinja_bool(at == n - 1);
    if (!strcmp(name, "length")) return jinja_int(n);
    if (!strcmp(name, "depth")) return jinja_int(1); // recursive loops would be deeper
    if (!strcmp(name, "depth0")) return jinja_int(0);
    if (!strcmp(name, "previtem")) return at ? loop->list->items[at - 1] : jinja_undefined("previtem");
    if (!strcmp(name, "nextitem"))
        return at + 1 < n ? loop->list->items[at + 1] : jinja_undefined("nextitem");
    return jinja_absent();
}
