// Arithmetic and comparisons, as Python does them.
#include "tokenizer/chat/jinja/jinja_internal.h"

#include <math.h>

static bool is_number(Value v) {
    return v.type == VALUE_INT || v.type == VALUE_FLOAT || v.type == VALUE_BOOL;
}

static double real_of(Value v) {
    return v.type == VALUE_FLOAT ? v.as.real
           : v.type == VALUE_INT ? (double)v.as.integer
                                 : (double)v.as.truth;
}

static int64_t whole_of(Value v) {
    return v.type == VALUE_INT ? v.as.integer : v.as.truth;
}

static Value real_binary(Interp *in, int op, double a, double b) {
    if ((op == '/' || op == OP_FLOOR || op == '%') && b == 0)
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a division by 0");
    switch (op) {
    case '+':
        return jinja_float(a + b);
    case '-':
        return jinja_float(a - b);
    case '*':
        return jinja_float(a * b);
    case '/':
        return jinja_float(a / b);
    case OP_FLOOR:
        return jinja_float(floor(a / b));
    case '%':
        return jinja_float(a - b * floor(a / b));
    default:
        return jinja_float(pow(a, b));
    }
}

static Value whole_binary(Interp *in, int op, int64_t a, int64_t b) {
    int64_t result = 1;
    bool over = false;
    if (op == '/') return real_binary(in, op, (double)a, (double)b);
    if (op == OP_POWER && b < 0) return real_binary(in, op, (double)a, (double)b);
    if ((op == OP_FLOOR || op == '%') && b == 0) jinja_fail(in->arena, STATUS_UNSUPPORTED, "a division by 0");
    if (op == '+') {
        over = __builtin_add_overflow(a, b, &result);
    } else if (op == '-') {
        over = __builtin_sub_overflow(a, b, &result);
    } else if (op == '*') {
        over = __builtin_mul_overflow(a, b, &result);
    } else if (op == OP_POWER) {
        if (a >= -1 && a <= 1 && b > 1) b = 2 - b % 2;
        for (; b > 0 && !over; b--) over = __builtin_mul_overflow(result, a, &result);
    } else if (b == -1) { // the one quotient that does not fit is that of the smallest
        over = op == OP_FLOOR && __builtin_sub_overflow((int64_t)0, a, &result);
        if (op == '%') result = 0;
    } else {
        int64_t quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));
        result = op == OP_FLOOR ? quotient : a - quotient * b;
    }
    if (over) jinja_fail(in->arena, STATUS_UNSUPPORTED, "a number is too large");
    return jinja_int(result);
}

// Python's Markup escapes what is added to it.
static Value add_texts(Interp *in, Value a, Value b) {
    Buffer buffer = {0};
    bool markup = a.as.text->markup || b.as.text->markup;
    Args none = {0};
    if (markup) {
        a = jinja_apply(in, jinja_filter("escape"), a, &none);
        b = jinja_apply(in, jinja_filter("escape"), b, &none);
    }
    jinja_add_text(in->arena, &buffer, a.as.text);
    jinja_add_text(in->arena, &buffer, b.as.text);
    Value sum = jinja_take(in->arena, &buffer);
    return markup ? jinja_apply(in, jinja_filter("safe"), sum, &none) : sum;
}

static Value repeat(Interp *in, Value value, int64_t times) {
    Buffer buffer = {0};
    Value list = value.type == VALUE_TEXT ? jinja_none() : jinja_list(in->arena, value.type);
    if (value.type == VALUE_TEXT && !value.as.text->size) return value;
    if (value.type != VALUE_TEXT && !value.as.list->n) return value;
    for (; times > 0; times--) {
        if (--in->steps < 0) jinja_fail(in->arena, STATUS_UNSUPPORTED, "it takes too many steps");
        if (value.type == VALUE_TEXT) jinja_add_text(in->arena, &buffer, value.as.text);
        for (size_t i = 0; value.type != VALUE_TEXT && i < value.as.list->n; i++)
            jinja_append(in->arena, list.as.list, value.as.list->items[i]);
    }
    return value.type == VALUE_TEXT ? jinja_take(in->arena, &buffer) : list;
}

Value jinja_binary(Interp *in, int op, Value a, Value b) {
    bool lists = a.type == b.type && (a.type == VALUE_LIST || a.type == VALUE_TUPLE);
    if (is_number(a) && is_number(b))
        return a.type == VALUE_FLOAT || b.type == VALUE_FLOAT
                   ? real_binary(in, op, real_of(a), real_of(b))
                   : whole_binary(in, op, whole_of(a), whole_of(b));
    if (op == '+' && a.type == VALUE_TEXT && b.type == VALUE_TEXT) return add_texts(in, a, b);
    if (op == '+' && lists) {
        Value sum = jinja_list(in->arena, a.type);
        for (size_t i = 0; i < a.as.list->n; i++) jinja_append(in->arena, sum.as.list, a.as.list->items[i]);
        for (size_t i = 0; i < b.as.list->n; i++) jinja_append(in->arena, sum.as.list, b.as.list->items[i]);
        return sum;
    }
    bool repeatable = a.type == VALUE_TEXT || a.type == VALUE_LIST || a.type == VALUE_TUPLE;
    if (op == '*' && repeatable && (b.type == VALUE_INT || b.type == VALUE_BOOL))
        return repeat(in, a, whole_of(b));
    if (op == '*' && a.type == VALUE_INT && (b.type == VALUE_TEXT || b.type == VALUE_LIST))
        return repeat(in, b, whole_of(a));
    if (op == '%' && a.type == VALUE_TEXT) {
        Args args = {.items = &b, .n = 1};
        if (b.type == VALUE_TUPLE) args = (Args){.items = b.as.list->items, .n = b.as.list->n};
        return jinja_apply(in, jinja_filter("format"), a, &args);
    }
    const char *name = a.type == VALUE_UNDEFINED ? a.as.name : b.type == VALUE_UNDEFINED ? b.as.name : NULL;
    if (name) jinja_fail(in->arena, STATUS_UNSUPPORTED, "\"%.60s\" is undefined", name);
    char sign[] = {op == OP_POWER ? '*' : op == OP_FLOOR ? '/' : (char)op, 0};
    jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s and a %s cannot be computed with \"%s\"",
               jinja_type_name(a), jinja_type_name(b), sign);
}

size_t jinja_weight(Value value) {
    return value.type == VALUE_TEXT   ? value.as.text->size / 64
           : jinja_is_sequence(value) ? value.as.list->n
                                      : 0;
}

void jinja_charge(Interp *in, size_t steps) {
    in->steps -= (int64_t)steps;
    if (in->steps < 0) jinja_fail(in->arena, STATUS_UNSUPPORTED, "it takes too many steps");
}

bool jinja_compare_by(Interp *in, int op, Value a, Value b) {
    jinja_charge(in, jinja_weight(a) + jinja_weight(b));
    switch (op) {
    case OP_EQ:
        return jinja_equal(a, b);
    case OP_NE:
        return !jinja_equal(a, b);
    case OP_IN:
        return jinja_contains(in, a, b);
    case OP_NOT_IN:
        return !jinja_contains(in, a, b);
    case '<':
        return jinja_compare(in, a, b) < 0;
    case '>':
        return jinja_compare(in, a, b) > 0;
    case OP_LE:
        return jinja_compare(in, a, b) <= 0;
    default:
        return jinja_compare(in, a, b) >= 0;
    }
}

Value jinja_sign(Interp *in, Value value, bool minus) {
    if (!is_number(value))
        jinja_fail(in->arena, STATUS_UNSUPPORTED, "a %s has no sign", jinja_type_name(value));
    if (value.type == VALUE_FLOAT) return jinja_float(minus ? -value.as.real : value.as.real);
    return whole_binary(in, minus ? '-' : '+', 0, whole_of(value));
}
