// What stands behind "is".
#include "tokenizer/chat/jinja/jinja_internal.h"

static Value is_defined(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type != VALUE_UNDEFINED);
}
static Value is_undefined(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_UNDEFINED);
}
static Value is_none(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_NONE);
}
static Value is_string(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_TEXT);
}
static Value is_mapping(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_DICT);
}
static Value is_iterable(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_UNDEFINED || (v.type >= VALUE_TEXT && v.type <= VALUE_DICT) ||
                      v.type == VALUE_LOOP);
}
static Value is_sequence(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_UNDEFINED || v.type == VALUE_TEXT || v.type == VALUE_LIST ||
                      v.type == VALUE_TUPLE || v.type == VALUE_DICT);
}
static Value is_number(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_BOOL || v.type == VALUE_INT || v.type == VALUE_FLOAT);
}
static Value is_integer(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_INT);
}
static Value is_float(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_FLOAT);
}
static Value is_boolean(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_BOOL);
}
static Value is_true(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_BOOL && v.as.truth);
}
static Value is_false(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type == VALUE_BOOL && !v.as.truth);
}
static Value is_callable(Interp *in, Value v, const Args *a) {
    (void)in, (void)a;
    return jinja_bool(v.type >= VALUE_MACRO || v.type == VALUE_UNDEFINED);
}
static Value is_odd(Interp *in, Value v, const Args *a) {
    (void)a;
    return jinja_bool(jinja_int_of(in, v, 0) % 2 != 0);
}
static Value is_even(Interp *in, Value v, const Args *a) {
    (void)a;
    return jinja_bool(jinja_int_of(in, v, 0) % 2 == 0);
}
static Value is_divisible(Interp *in, Value v, const Args *a) {
    Value rest = jinja_binary(in, '%', v, a->items[0]);
    return jinja_bool(!jinja_truth(in, rest));
}
static Value is_equal(Interp *in, Value v, const Args *a) {
    (void)in;
    return jinja_bool(jinja_equal(v, a->items[0]));
}
static Value is_unequal(Interp *in, Value v, const Args *a) {
    (void)in;
    return jinja_bool(!jinja_equal(v, a->items[0]));
}
static Value is_in(Interp *in, Value v, const Args *a) {
    return jinja_bool(jinja_contains(in, v, a->items[0]));
}
static Value is_less(Interp *in, Value v, const Args *a) {
    return jinja_bool(jinja_compare(in, v, a->items[0]) < 0);
}
static Value is_greater(Interp *in, Value v, const Args *a) {
    return jinja_bool(jinja_compare(in, v, a->items[0]) > 0);
}
static Value is_at_most(Interp *in, Value v, const Args *a) {
    return jinja_bool(jinja_compare(in, v, a->items[0]) <= 0);
}
static Value is_at_least(Interp *in, Value v, const Args *a) {
    return jinja_bool(jinja_compare(in, v, a->items[0]) >= 0);
}

// Whether the text has letters, all of them of one case: they are those that the other case would change.
static Value of_one_case(Interp *in, Value v, const char *other) {
    const OriginText *text = jinja_text_of(in, jinja_to_text(in, v), "a text");
    Value whole = {VALUE_TEXT, {.text = text}};
    Args none = {0};
    Value upper = jinja_apply(in, jinja_filter("upper"), whole, &none);
    Value lower = jinja_apply(in, jinja_filter("lower"), whole, &none);
    return jinja_bool(!jinja_equal(upper, lower) && jinja_equal(*other == 'u' ? lower : upper, whole));
}
static Value is_lower(Interp *in, Value v, const Args *a) {
    (void)a;
    return of_one_case(in, v, "upper");
}
static Value is_upper(Interp *in, Value v, const Args *a) {
    (void)a;
    return of_one_case(in, v, "lower");
}

const Function *jinja_test(const char *name) {
    static const Function tests[] = {
        {"defined", "", is_defined},
        {"undefined", "", is_undefined},
        {"none", "", is_none},
        {"string", "", is_string},
        {"mapping", "", is_mapping},
        {"iterable", "", is_iterable},
        {"sequence", "", is_sequence},
        {"number", "", is_number},
        {"integer", "", is_integer},
        {"float", "", is_float},
        {"boolean", "", is_boolean},
        {"true", "", is_true},
        {"false", "", is_false},
        {"callable", "", is_callable},
        {"odd", "", is_odd},
        {"even", "", is_even},
        {"divisibleby", "num", is_divisible},
        {"equalto", "other", is_equal},
        {"eq", "other", is_equal},
        {"==", "other", is_equal},
        {"ne", "other", is_unequal},
        {"!=", "other", is_unequal},
        {"in", "seq", is_in},
        {"lt", "other", is_less},
        {"lessthan", "other", is_less},
        {"<", "other", is_less},
        {"gt", "other", is_greater},
        {"greaterthan", "other", is_greater},
        {">", "other", is_greater},
        {"le", "other", is_at_most},
        {"<=", "other", is_at_most},
        {"ge", "other", is_at_least},
        {">=", "other", is_at_least},
        {"lower", "", is_lower},
        {"upper", "", is_upper},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(tests[i].name, name)) return &tests[i];
    return NULL;
}
