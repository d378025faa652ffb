// What stands behind "|": the filters for single values.
#include "tokenizer/chat/jinja/filters_internal.h"

#include "tokenizer/chat/jinja/space.h"

#include <math.h>
#include <stdio.h>

// ---- texts -------------------------------------------------------------------------------------------------------

static Value method(Interp *in, const char *name, Value self, const Args *args) {
    bool forbidden = false;
    self = jinja_to_text(in, self);
    return jinja_apply(in, jinja_method(self, name, &forbidden), self, args);
}
static Value filter_trim(Interp *in, Value self, const Args *args) {
    return method(in, "strip", self, args);
}
static Value filter_upper(Interp *in, Value self, const Args *args) {
    return method(in, "upper", self, args);
}
static Value filter_lower(Interp *in, Value self, const Args *args) {
    return method(in, "lower", self, args);
}
static Value filter_capitalize(Interp *in, Value self, const Args *args) {
    return method(in, "capitalize", self, args);
}

// Words begin behind white space and the characters below, unlike those of Python's title().
static Value filter_title(Interp *in, Value self, const Args *args) {
    const OriginText *text = jinja_to_text(in, self).as.text;
    Buffer buffer = {0};
    for (size_t from = 0, end; from < text->size; from = end) {
        uint32_t code;
        for (end = from; end < text->size;) {
            size_t length = jinja_character(text, end, &code);
            bool between = space_before(text->data + end, length) == length ||
                           (code < 128 && strchr("-({[<", (int)code));
            end += length;
            if (between) break;
        }
        Value word = method(in, "capitalize", jinja_part_value(in->arena, text, from, end), args);
        jinja_add_text(in->arena, &buffer, word.as.text);
    }
    return jinja_take(in->arena, &buffer);
}

static Value filter_replace(Interp *in, Value self, const Args *args) {
    const OriginText *text = jinja_to_text(in, self).as.text,
                     *old = jinja_text_of(in, args->items[0], "what is replaced");
    const OriginText *new = jinja_text_of(in, args->items[1], "the replacement");
    int64_t most = args->items[2].type <= VALUE_NONE ? -1 : jinja_int_of(in, args->items[2], -1);
    Buffer buffer = {0};
    size_t done = 0, at;
    for (; most != 0 && (at = jinja_search(text, old, done, false)) != SIZE_MAX; most -= most > 0) {
        uint32_t code;
        size_t end = at + old->size;
        if (!old->size) end = at < text->size ? at + jinja_character(text, at, &code) : at;
        OriginText part = jinja_part(in->arena, text, done, at),
                   kept = jinja_part(in->arena, text, at, old->size ? at : end);
        jinja_add_text(in->arena, &buffer, &part);
        jinja_add_text(in->arena, &buffer, new);
        jinja_add_text(in->arena, &buffer, &kept);
        if (!old->size && at == text->size) return jinja_take(in->arena, &buffer);
        done = end;
    }
    OriginText part = jinja_part(in->arena, text, done, text->size);
    jinja_add_text(in->arena, &buffer, &part);
    return jinja_take(in->arena, &buffer);
}

static Value filter_indent(Interp *in, Value self, const Args *args) {
    Value text = jinja_to_text(in, self), width = args->items[0], none[1] = {{0}};
    if (width.type != VALUE_TEXT)
        width = jinja_binary(in, '*', jinja_string(in->arena, " "), jinja_int(jinja_int_of(in, width, 4)));
    Value whole = jinja_binary(in, '+', text, jinja_string(in->arena, "\n"));
    const List *lines = method(in, "splitlines", whole, &(Args){.items = none, .n = 1}).as.list;
    bool blank = jinja_truth_of(in, args->items[2], false);
    Buffer buffer = {0};
    if (jinja_truth_of(in, args->items[1], false)) jinja_add_text(in->arena, &buffer, width.as.text);
    for (size_t i = 0; i < lines->n; i++) {
        const OriginText *line = lines->items[i].as.text;
        if (i) jinja_add_string(in->arena, &buffer, "\n");
        if (i && (blank || line->size)) jinja_add_text(in->arena, &buffer, width.as.text);
        jinja_add_text(in->arena, &buffer, line);
    }
    return jinja_take(in->arena, &buffer);
}

static Value filter_string(Interp *in, Value self, const Args *args) {
    (void)args;
    return jinja_to_text(in, self);
}

static Value marked(Interp *in, Value value) {
    OriginText *text = jinja_alloc(in->arena, sizeof *text);
    *text = *jinja_to_text(in, value).as.text;
    text->markup = true;
    return (Value){VALUE_TEXT, {.text = text}};
}
static Value filter_safe(Interp *in, Value self, const Args *args) {
    (void)args;
    return marked(in, self);
}

static Value filter_escape(Interp *in, Value self, const Args *args) {
    static const char *const pairs[][2] = {
        {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
    (void)args;
    Value text = jinja_to_text(in, self);
    for (size_t i = 0; !text.as.text->markup && i < sizeof pairs / sizeof *pairs; i++) {
        Value items[3] = {jinja_string(in->arena, pairs[i][0]), jinja_string(in->arena, pairs[i][1])};
        text = filter_replace(in, text, &(Args){.items = items, .n = 3});
    }
    return marked(in, text);
}

// Python's % for texts: %s, %r, %d, %i and %%, without widths.
static Value filter_format(Interp *in, Value self, const Args *args) {
    const OriginText *text = jinja_to_text(in, self).as.text;
    Buffer buffer = {0};
    size_t done = 0, used = 0;
    for (size_t at = 0; at + 1 < text->size; at++) {
        if (text->data[at] != '%') continue;
        char kind = text->data[at + 1];
        OriginText part = jinja_part(in->arena, text, done, at + (kind == '%'));
        jinja_add_text(in->arena, &buffer, &part);
        done = at++ + 2;
        if (kind == '%') continue;
        if (!strchr("srdi", kind) || used == args->n ||
            ((kind == 'd' || kind == 'i') && args->items[used].type != VALUE_INT))
            jinja_fail(in->arena, STATUS_UNSUPPORTED, "formatting with %%%c of these values is not supported",
                       kind);
        (kind == 'r' ? jinja_represent : jinja_print)(in, &buffer, args->items[used++]);
    }
    if (used < args->n || args->named.n || (text->size > done && text->data[text->size - 1] == '%'))
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "formatting with these values is not supported");
    OriginText part = jinja_part(in->arena, text, done, text->size);
    jinja_add_text(in->arena, &buffer, &part);
    return jinja_take(in->arena, &buffer);
}

// ---- numbers -----------------------------------------------------------------------------------------------------

// The number that the whole text is, without white space around it; false: it is none.
static bool read_number(Interp *in, const OriginText *text, bool whole, Value *number) {
    char digits[64];
    size_t before = space_before(text->data, text->size), size = text->size - before;
    size -= space_after(text->data + before, size);
    if (!size || size >= sizeof digits) return false;
    memcpy(digits, text->data + before, size);
    digits[size] = 0;
    if (strspn(digits, whole ? "+-0123456789" : "+-0123456789.eE") < size) return false;
    char *end;
    *number = whole ? jinja_int(strtoll(digits, &end, 10)) : jinja_float(strtod(digits, &end));
    if (whole && size > 18 && !*end) jinja_fail(in->arena, STATUS_UNSUPPORTED, "a number is too large");
    return !*end && end != digits;
}

static Value filter_int(Interp *in, Value self, const Args *args) {
    Value number = self, absent = args->items[0].type == VALUE_ABSENT ? jinja_int(0) : args->items[0];
    if (jinja_int_of(in, args->items[1], 10) != 10)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "int with a base is not supported");
    if (self.type == VALUE_TEXT && !read_number(in, self.as.text, true, &number) &&
        !read_number(in, self.as.text, false, &number))
        return absent;
    if (number.type == VALUE_BOOL) return jinja_int(number.as.truth);
    if (number.type == VALUE_FLOAT)
        return fabs(number.as.real) < 9e18 ? jinja_int((int64_t)number.as.real) : absent;
    if (number.type == VALUE_UNDEFINED) jinja_fail(in->arena, STATUS_UNSUPPORTED, "int of what is undefined");
    return number.type == VALUE_INT ? number : absent;
}

static Value filter_float(Interp *in, Value self, const Args *args) {
    Value number = self, absent = args->items[0].type == VALUE_ABSENT ? jinja_float(0) : args->items[0];
    if (self.type == VALUE_TEXT && !read_number(in, self.as.text, false, &number)) return absent;
    if (number.type == VALUE_BOOL) return jinja_float(number.as.truth);
    if (number.type == VALUE_INT) return jinja_float((double)number.as.integer);
    if (number.type == VALUE_UNDEFINED)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "float of what is undefined");
    return number.type == VALUE_FLOAT ? number : absent;
}

static Value filter_abs(Interp *in, Value self, const Args *args) {
    (void)args;
    if (self.type == VALUE_FLOAT) return jinja_float(fabs(self.as.real));
    int64_t number = jinja_int_of(in, self, 0);
    return number < 0 ? jinja_binary(in, '-', jinja_int(0), self) : jinja_int(number);
}

static Value filter_round(Interp *in, Value self, const Args *args) {
    Value none[1] = {{0}};
    int64_t precision = jinja_int_of(in, args->items[0], 0);
    double number = filter_float(in, self, &(Args){.items = none, .n = 1}).as.real,
           scale = pow(10, (double)precision);
    if (self.type != VALUE_INT && self.type != VALUE_FLOAT)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s is rounded", jinja_type_name(self));
    if (precision < 0 || precision > 15)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "rounding to %lld digits is not supported",
                   (long long)precision);
    if (jinja_is(args->items[1], "ceil")) return jinja_float(ceil(number * scale) / scale);
    if (jinja_is(args->items[1], "floor")) return jinja_float(floor(number * scale) / scale);
    char digits[400];
    snprintf(digits, sizeof digits, "%.*f", (int)precision,
             number); // rounds the exact number, halves to even, as Python
    Value rounded = jinja_float(strtod(digits, NULL));
    return self.type == VALUE_INT && args->items[1].type == VALUE_ABSENT ? jinja_int((int64_t)rounded.as.real)
                                                                         : rounded;
}

// ---- any value ---------------------------------------------------------------------------------------------------

static Value filter_default(Interp *in, Value self, const Args *args) {
    bool other =
        self.type == VALUE_UNDEFINED || (jinja_truth_of(in, args->items[1], false) && !jinja_truth(in, self));
    if (!other) return self;
    return args->items[0].type == VALUE_ABSENT ? jinja_string(in->arena, "") : args->items[0];
}

static Value filter_attr(Interp *in, Value self, const Args *args) {
    bool forbidden = false;
    char name[64] = "";
    const OriginText *text = jinja_text_of(in, args->items[0], "the name of an attribute");
    if (text->size < sizeof name) memcpy(name, text->data, text->size);
    if (self.type == VALUE_NAMESPACE || jinja_method(self, name, &forbidden))
        return jinja_get(in, self, args->items[0], true);
    return jinja_undefined(NULL);
}

const Function *jinja_filter(const char *name) {
    static const Function filters[] = {
        {"trim", "; chars", filter_trim},
        {"upper", "", filter_upper},
        {"lower", "", filter_lower},
        {"capitalize", "", filter_capitalize},
        {"title", "", filter_title},
        {"replace", "old new; count", filter_replace},
        {"indent", "; width first blank", filter_indent},
        {"string", "", filter_string},
        {"safe", "", filter_safe},
        {"escape", "", filter_escape},
        {"e", "", filter_escape},
        {"format", NULL, filter_format},
        {"int", "; default base", filter_int},
        {"float", "; default", filter_float},
        {"abs", "", filter_abs},
        {"round", "; precision method", filter_round},
        {"default", "; default_value boolean", filter_default},
        {"d", "; default_value boolean", filter_default},
        {"attr", "name", filter_attr},
        {"tojson", "; ensure_ascii indent separators sort_keys", jinja_to_json},
    };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (!strcmp(filters[i].name, name)) return &filters[i];
    return jinja_list_filter(name);
}
