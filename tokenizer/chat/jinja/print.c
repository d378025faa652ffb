// Values as text: Python's str() and repr(), and JSON.
#include "tokenizer/chat/jinja/jinja_internal.h"

#include <math.h>
#include <stdio.h>
#include <utf8proc.h>

static void add_part(Interp *in, Buffer *to, const OriginText *text, size_t from, size_t end) {
    if (from >= end) return;
    OriginText part = jinja_part(in->arena, text, from, end);
    jinja_add_text(in->arena, to, &part);
}

// The shortest digits that read back as the same number, written as Python writes them.
static void print_float(Interp *in, Buffer *to, double value) {
    char text[64];
    if (!isfinite(value)) {
        jinja_add_string(in->arena, to, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    int digits = 1;
    do snprintf(text, sizeof text, "%.*e", digits - 1, value);
    while (strtod(text, NULL) != value && ++digits <= 17);
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int decimals = digits - 1 - exponent;
        snprintf(text, sizeof text, "%.*f", decimals > 1 ? decimals : 1, value);
    } else {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
    }
    jinja_add_string(in->arena, to, text);
}

static bool is_printable(uint32_t code) {
    if (code < 0x7F) return code >= 0x20;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

static void represent_text(Interp *in, Buffer *to, const OriginText *text) {
    bool single = text->size && memchr(text->data, '\'', text->size);
    char quote = single && !memchr(text->data, '"', text->size) ? '"' : '\'';
    size_t done = 0, length;
    jinja_add(in->arena, to, &quote, 1, JINJA_TEMPLATE);
    for (size_t at = 0; at < text->size; at += length) {
        uint32_t code;
        char escape[16] = "";
        length = jinja_character(text, at, &code);
        const char *letter = code ? strchr("\\\n\r\t", (int)(code < 128 ? code : 1)) : NULL;
        if (letter && *letter)
            snprintf(escape, sizeof escape, "\\%c",
                     code == '\n'   ? 'n'
                     : code == '\r' ? 'r'
                     : code == '\t' ? 't'
                                    : '\\');
        else if (code == (uint32_t)quote)
            snprintf(escape, sizeof escape, "\\%c", quote);
        else if (!is_printable(code))
            snprintf(escape, sizeof escape,
                     code < 0x100     ? "\\x%02x"
                     : code < 0x10000 ? "\\u%04x"
                                      : "\\U%08x",
                     code);
        if (!*escape) continue;
        add_part(in, to, text, done, at);
        jinja_add_string(in->arena, to, escape);
        done = at + length;
    }
    add_part(in, to, text, done, text->size);
    jinja_add(in->arena, to, &quote, 1, JINJA_TEMPLATE);
}

static void print_scalar(Interp *in, Buffer *to, Value value) {
    char number[32];
    switch (value.type) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
        break;
    case VALUE_NONE:
        jinja_add_string(in->arena, to, "None");
        break;
    case VALUE_BOOL:
        jinja_add_string(in->arena, to, value.as.truth ? "True" : "False");
        break;
    case VALUE_INT:
        snprintf(number, sizeof number, "%lld", (long long)value.as.integer);
        jinja_add_string(in->arena, to, number);
        break;
    case VALUE_FLOAT:
        print_float(in, to, value.as.real);
        break;
    default:
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s as text is not supported", jinja_type_name(value));
    }
}

void jinja_represent(Interp *in, Buffer *to, Value value) {
    bool list = value.type == VALUE_LIST;
    if (++in->depth > 600) jinja_fail(in->arena, STATUS_UNSUPPORTED, "a value is nested too deeply");
    if (value.type == VALUE_UNDEFINED) {
        jinja_add_string(in->arena, to, "Undefined");
    } else if (value.type == VALUE_TEXT) {
        represent_text(in, to, value.as.text);
    } else if (list || value.type == VALUE_TUPLE) {
        const List *items = value.as.list;
        jinja_add_string(in->arena, to, list ? "[" : "(");
        for (size_t i = 0; i < items->n; i++) {
            if (i) jinja_add_string(in->arena, to, ", ");
            jinja_represent(in, to, items->items[i]);
        }
        if (!list && items->n == 1) jinja_add_string(in->arena, to, ",");
        jinja_add_string(in->arena, to, list ? "]" : ")");
    } else if (value.type == VALUE_DICT) {
        const Dict *dict = value.as.dict;
        jinja_add_string(in->arena, to, "{");
        for (size_t i = 0; i < dict->n; i++) {
            if (i) jinja_add_string(in->arena, to, ", ");
            jinja_represent(in, to, dict->keys[i]);
            jinja_add_string(in->arena, to, ": ");
            jinja_represent(in, to, dict->values[i]);
        }
        jinja_add_string(in->arena, to, "}");
    } else {
        print_scalar(in, to, value);
    }
    in->depth--;
}

void jinja_print(Interp *in, Buffer *to, Value value) {
    if (value.type == VALUE_TEXT)
        jinja_add_text(in->arena, to, value.as.text);
    else if (value.type == VALUE_LIST || value.type == VALUE_TUPLE || value.type == VALUE_DICT)
        jinja_represent(in, to, value);
    else
        print_scalar(in, to, value);
}

Value jinja_to_text(Interp *in, Value value) {
    Buffer buffer = {0};
    if (value.type == VALUE_TEXT) return value;
    jinja_print(in, &buffer, value);
    return jinja_take(in->arena, &buffer);
}

// ---- JSON --------------------------------------------------------------------------------------------------------

typedef struct JsonStyle {
    Value indent; // a text, or none: all in one line
    const OriginText *between, *colon;
    bool ascii, sorted;
} JsonStyle;

static void json_text(Interp *in, Buffer *to, const OriginText *text, const JsonStyle *style) {
    size_t done = 0, length;
    jinja_add_string(in->arena, to, "\"");
    for (size_t at = 0; at < text->size; at += length) {
        uint32_t code;
        char escape[16] = "";
        length = jinja_character(text, at, &code);
        static const char letters[] = "\"\\\n\r\t\b\f", names[] = "\"\\nrtbf";
        const char *letter = code && code < 128 ? strchr(letters, (int)code) : NULL;
        if (letter)
            snprintf(escape, sizeof escape, "\\%c", names[letter - letters]);
        else if (style->ascii && code >= 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                     0xDC00 + (code & 0x3FF));
        else if (code < 0x20 || (style->ascii && code >= 0x7F && code != 0x7F))
            snprintf(escape, sizeof escape, "\\u%04x", code);
        if (!*escape) continue;
        add_part(in, to, text, done, at);
        jinja_add_string(in->arena, to, escape);
        done = at + length;
    }
    add_part(in, to, text, done, text->size);
    jinja_add_string(in->arena, to, "\"");
}

static void json_line(Interp *in, Buffer *to, const JsonStyle *style, int depth) {
    if (style->indent.type != VALUE_TEXT) return;
    jinja_add_string(in->arena, to, "\n");
    for (; depth; depth--) jinja_add_text(in->arena, to, style->indent.as.text);
}

static void json_value(Interp *in, Buffer *to, Value value, const JsonStyle *style, int depth);

static void json_dict(Interp *in, Buffer *to, const Dict *dict, const JsonStyle *style, int depth) {
    size_t *order = jinja_alloc(in->arena, (dict->n + 1) * sizeof *order);
    for (size_t i = 0; i < dict->n; i++) {
        size_t at = i;
        if (dict->keys[i].type != VALUE_TEXT)
            jinja_fail(in->arena, STATUS_UNSUPPORTED, "JSON with keys that are no text is not supported");
        for (; style->sorted && at && jinja_compare(in, dict->keys[order[at - 1]], dict->keys[i]) > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    jinja_add_string(in->arena, to, "{");
    for (size_t i = 0; i < dict->n; i++) {
        if (i) jinja_add_text(in->arena, to, style->between);
        json_line(in, to, style, depth + 1);
        json_text(in, to, dict->keys[order[i]].as.text, style);
        jinja_add_text(in->arena, to, style->colon);
        json_value(in, to, dict->values[order[i]], style, depth + 1);
    }
    if (dict->n) json_line(in, to, style, depth);
    jinja_add_string(in->arena, to, "}");
}

static void json_value(Interp *in, Buffer *to, Value value, const JsonStyle *style, int depth) {
    if (++in->depth > 600) jinja_fail(in->arena, STATUS_UNSUPPORTED, "a value is nested too deeply");
    switch (value.type) {
    case VALUE_TEXT:
        json_text(in, to, value.as.text, style);
        break;
    case VALUE_NONE:
        jinja_add_string(in->arena, to, "null");
        break;
    case VALUE_BOOL:
        jinja_add_string(in->arena, to, value.as.truth ? "true" : "false");
        break;
    case VALUE_INT:
    case VALUE_FLOAT:
        print_scalar(in, to, value);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
        jinja_add_string(in->arena, to, "[");
        for (size_t i = 0; i < value.as.list->n; i++) {
            if (i) jinja_add_text(in->arena, to, style->between);
            json_line(in, to, style, depth + 1);
            json_value(in, to, value.as.list->items[i], style, depth + 1);
        }
        if (value.as.list->n) json_line(in, to, style, depth);
        jinja_add_string(in->arena, to, "]");
        break;
    case VALUE_DICT:
        json_dict(in, to, value.as.dict, style, depth);
        break;
    default:
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s has no JSON", jinja_type_name(value));
    }
    in->depth--;
}

Value jinja_to_json(Interp *in, Value self, const Args *args) {
    Value indent = args->items[1], separators = args->items[2];
    bool lines = indent.type > VALUE_NONE;
    JsonStyle style = {.ascii = jinja_truth_of(in, args->items[0], false),
                       .sorted = jinja_truth_of(in, args->items[3], false)};
    style.between = jinja_string(in->arena, lines ? "," : ", ").as.text;
    style.colon = jinja_string(in->arena, ": ").as.text;
    if (separators.type > VALUE_NONE) {
        const List *two = jinja_iterate(in, separators);
        if (two->n != 2) jinja_fail(in->arena, STATUS_UNSUPPORTED, "tojson has two separators");
        style.between = jinja_text_of(in, two->items[0], "a separator");
        style.colon = jinja_text_of(in, two->items[1], "a separator");
    }
    if (indent.type == VALUE_TEXT) {
        style.indent = indent;
    } else if (lines) {
        int64_t n = jinja_int_of(in, indent, 0);
        style.indent = jinja_binary(in, '*', jinja_string(in->arena, " "), jinja_int(n > 0 ? n : 0));
    }
    Buffer buffer = {0};
    json_value(in, &buffer, self, &style, 0);
    return jinja_take(in->arena, &buffer);
}
