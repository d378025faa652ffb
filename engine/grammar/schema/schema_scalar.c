// Strings and numbers.
#include "engine/grammar/schema/schema_internal.h"

#include "engine/grammar/regex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- strings ------------------------------------------------------------------------------------------------------

#define DATE                                                                                                 \
    "[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"            \
    "02-(0[1-9]|1[0-9]|2[0-8]))"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define LABEL "[a-z0-9]{1,15}(-[a-z0-9]{1,15}){0,2}"
#define HOST LABEL "(\\." LABEL "){0,2}\\.[a-z]{2,12}"
#define EMAIL "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,32}){0,2}@" HOST
#define PATH "(/[A-Za-z0-9._~-]{1,64}){0,8}"
#define URI "https?://" HOST PATH "/?"
#define GROUP "[0-9a-f]{1,4}"
#define POINTER "(/([A-Za-z0-9._-]|~[01]){0,32}){0,8}"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P([0-9]{1,4}[YMWD]|T[0-9]{1,4}[HMS])"},
    {"uuid", "[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}"},
    {"email", EMAIL},
    {"idn-email", EMAIL},
    {"hostname", HOST},
    {"idn-hostname", HOST},
    {"ipv4", OCTET "(\\." OCTET "){3}"},
    {"ipv6", "(" GROUP ":){7}" GROUP "|(" GROUP ":){1,6}:" GROUP "|::" GROUP},
    {"uri", URI},
    {"iri", URI},
    {"uri-reference", URI "|/|(/[A-Za-z0-9._~-]{1,64}){1,8}"},
    {"iri-reference", URI "|/|(/[A-Za-z0-9._~-]{1,64}){1,8}"},
    {"uri-template", URI "(\\{[A-Za-z0-9_]{1,32}\\})?"},
    {"json-pointer", POINTER},
    {"relative-json-pointer", "(0|[1-9])(#|" POINTER ")"},
    {"regex", "\\^?([A-Za-z0-9_ .][*+?]?){1,32}\\$?"},
};

static Expr quoted(Schema *s, Expr text) {
    return expr_seq(s->builder, schema_word(s, "\""), expr_seq(s->builder, text, schema_word(s, "\"")));
}

static Expr of_format(Schema *s, const json_t *format) {
    const char *name = json_string_value(format);
    for (size_t i = 0; name && i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, name))
            return quoted(
                s, regex_read(s->builder, formats[i].pattern, strlen(formats[i].pattern), REGEX_WHOLE));
    schema_enter(s, "format", NULL);
    schema_refuse(s, "no format that palaver knows");
    return EXPR_NOTHING;
}

static Expr of_pattern(Schema *s, const json_t *pattern) {
    size_t path = schema_enter(s, "pattern", NULL);
    const char *text = json_string_value(pattern);
    if (!text) schema_wrong(s, "it is a string");
    Expr whole = text && !schema_failed(s)
                     ? regex_read(s->builder, text, json_string_length(pattern), REGEX_JSON_STRING)
                     : EXPR_NOTHING;
    if (schema_failed(s) && !strstr(s->builder->error.message, "#/"))
        error_prefix(&s->builder->error, "#%s: ", s->path);
    schema_leave(s, path);
    return quoted(s, whole);
}

// A schema of a string's one keyword, or of each in a list.
static void list_texts(Schema *s, const char *keyword, json_t *value, json_t **all, size_t *n) {
    const bool many = json_is_array(value); // its first is the mark
    const size_t count = many ? json_array_size(value) : value != NULL;
    for (size_t i = many; i < count && !schema_failed(s); i++) {
        json_t *text = many ? json_array_get(value, i) : value;
        if (*n == SCHEMA_MOST_BOTH)
            schema_refuse(s, "more patterns, formats and lengths than can be written by together");
        else
            all[(*n)++] = schema_keep(s, json_pack("{s:s,s:O}", "type", "string", keyword, text));
    }
}

static Expr of_lengths(Schema *s, const json_t *json) {
    const int least = schema_count(s, json, "minLength", 0), most = schema_count(s, json, "maxLength", -1);
    if (most >= 0 && most < least) return EXPR_NEVER;
    return quoted(s, expr_repeat(s->builder, schema_common(s, SCHEMA_CHARACTER), least, most));
}

// A pattern of characters of one kind, together with lengths. False: it is none, or it failed.
static bool of_counted(Schema *s, const json_t *json, const json_t *pattern, Expr *whole) {
    const int counts[] = {schema_count(s, json, "minLength", 0), schema_count(s, json, "maxLength", -1)};
    if (schema_failed(s)) return false;
    const size_t path = schema_enter(s, "pattern", NULL), size = json_string_length(pattern);
    const bool counted = regex_read_counted(s->builder, json_string_value(pattern), size, counts, whole);
    if (schema_failed(s)) error_prefix(&s->builder->error, "#%s: ", s->path);
    schema_leave(s, path);
    if (counted) *whole = *whole == EXPR_NEVER ? EXPR_NEVER : quoted(s, *whole);
    return counted;
}

Expr schema_string(Schema *s, json_t *json) {
    static const char *const counts[] = {"minLength", "maxLength"};
    json_t *pattern = json_object_get(json, "pattern"), *format = json_object_get(json, "format");
    json_t *all[SCHEMA_MOST_BOTH], *lengths = NULL;
    size_t n = 0;
    list_texts(s, "pattern", pattern, all, &n);
    list_texts(s, "format", format, all, &n);
    for (size_t i = 0; i < 2 && !schema_failed(s); i++) {
        json_t *count = json_object_get(json, counts[i]);
        if (count && !lengths) lengths = schema_keep(s, json_pack("{s:s}", "type", "string"));
        if (count && lengths) json_object_set(lengths, counts[i], count);
    }
    if (lengths && n == SCHEMA_MOST_BOTH)
        schema_refuse(s, "more patterns, formats and lengths than can be written by together");
    if (schema_failed(s)) return EXPR_NOTHING;
    if (lengths) all[n++] = lengths;
    Expr whole;
    if (lengths && n == 2 && json_is_string(pattern) && of_counted(s, json, pattern, &whole)) return whole;
    if (schema_failed(s)) return EXPR_NOTHING;
    if (n > 1) return schema_both(s, all, (int)n);
    if (pattern) return of_pattern(s, pattern);
    if (format) return of_format(s, format);
    return lengths ? of_lengths(s, json) : schema_common(s, SCHEMA_STRING);
}

// ---- numbers in digits --------------------------------------------------------------------------------------------

static int64_t power(int digits) {
    int64_t p = 1;
    while (digits-- > 0) p *= 10;
    return p;
}

static Expr digits(Schema *s, int n) {
    return expr_repeat(s->builder, expr_byte(s->builder, '0', '9'), n, n);
}

// Numbers low to high in n digits each, zeros in front.
static Expr fixed(Schema *s, int64_t low, int64_t high, int n) {
    Builder *b = s->builder;
    int64_t p = power(n - 1);
    if (n == 0) return EXPR_NOTHING;
    int first = (int)(low / p), last = (int)(high / p);
    if (first == last)
        return expr_seq(b, expr_byte(b, '0' + first, '0' + first), fixed(s, low % p, high % p, n - 1));
    Expr whole = EXPR_NEVER;
    if (low % p != 0) {
        whole = expr_seq(b, expr_byte(b, '0' + first, '0' + first), fixed(s, low % p, p - 1, n - 1));
        first++;
    }
    if (high % p != p - 1) {
        whole = expr_alt(b, whole,
                         expr_seq(b, expr_byte(b, '0' + last, '0' + last), fixed(s, 0, high % p, n - 1)));
        last--;
    }
    if (first <= last)
        whole = expr_alt(b, whole, expr_seq(b, expr_byte(b, '0' + first, '0' + last), digits(s, n - 1)));
    return whole;
}

// Numbers low to high, 0 <= low, without zeros in front.
static Expr range(Schema *s, int64_t low, int64_t high) {
    Expr whole = EXPR_NEVER;
    for (int n = 1; n <= 18; n++) {
        int64_t least = n == 1 ? 0 : power(n - 1), most = power(n) - 1;
        if (low > least) least = low;
        if (high < most) most = high;
        if (least <= most) whole = expr_alt(s->builder, whole, fixed(s, least, most, n));
    }
    return whole;
}

static Expr negative(Schema *s, Expr magnitude) {
    return expr_seq(s->builder, schema_word(s, "-"), magnitude);
}

static const double MOST = 999999999999999.0; // a double holds it with its neighbours

typedef struct Bounds {
    double low, high;
    bool has_low, has_high, low_open, high_open;
} Bounds;

static double bound_of(Schema *s, const json_t *json, const char *keyword, bool *there) {
    const json_t *value = json_object_get(json, keyword);
    *there = value != NULL;
    if (!value) return 0;
    size_t path = schema_enter(s, keyword, NULL);
    if (!json_is_number(value)) schema_wrong(s, "it is a number");
    double bound = json_number_value(value);
    if (fabs(bound) > MOST) schema_refuse(s, "bounds of up to 15 digits can be written by");
    schema_leave(s, path);
    return bound;
}

static Bounds read_bounds(Schema *s, const json_t *json) {
    Bounds b;
    bool open;
    b.low = bound_of(s, json, "minimum", &b.has_low);
    b.high = bound_of(s, json, "maximum", &b.has_high);
    double low = bound_of(s, json, "exclusiveMinimum", &open);
    b.low_open = open && (!b.has_low || low >= b.low);
    if (b.low_open) b.low = low, b.has_low = true;
    double high = bound_of(s, json, "exclusiveMaximum", &open);
    b.high_open = open && (!b.has_high || high <= b.high);
    if (b.high_open) b.high = high, b.has_high = true;
    return b;
}

static Expr integer_between(Schema *s, const Bounds *b) {
    int64_t low = (int64_t)(b->has_low ? ceil(b->low) : -MOST),
            high = (int64_t)(b->has_high ? floor(b->high) : MOST);
    if (b->low_open && (double)low == b->low) low++;
    if (b->high_open && (double)high == b->high) high--;
    Expr whole = low < 0 && low <= high ? negative(s, range(s, high < 0 ? -high : 1, -low)) : EXPR_NEVER;
    return high >= 0 && low <= high ? expr_alt(s->builder, whole, range(s, low > 0 ? low : 0, high)) : whole;
}

// How many decimals a bound is written with; −1: too many.
static int decimals_of(double bound) {
    for (int n = 0; n <= 6; n++) {
        char text[64];
        snprintf(text, sizeof text, "%.*f", n, bound);
        if (strtod(text, NULL) == bound) return n;
    }
    return -1;
}

// Numbers with n decimals from low to high, 0 <= low, both in units of 10^-n.
static Expr decimals_between(Schema *s, int64_t low, int64_t high, int n) {
    Builder *b = s->builder;
    const int64_t unit = power(n), first = low / unit, last = high / unit;
    const Expr point = schema_word(s, ".");
    if (low > high) return EXPR_NEVER;
    int64_t end = first == last ? high % unit : unit - 1;
    Expr whole = expr_seq(b, range(s, first, first), expr_seq(b, point, fixed(s, low % unit, end, n)));
    if (first == last) return whole;
    whole = expr_alt(b, whole,
                     expr_seq(b, range(s, last, last), expr_seq(b, point, fixed(s, 0, high % unit, n))));
    if (first + 1 < last)
        whole =
            expr_alt(b, whole, expr_seq(b, range(s, first + 1, last - 1), expr_seq(b, point, digits(s, n))));
    return whole;
}

// Numbers from low to high, 0 <= low, both in units of 10^-n: whole ones, and those with up to n decimals, or, between
// whole numbers, up to six.
static Expr magnitudes_between(Schema *s, int64_t low, int64_t high, int n) {
    Builder *b = s->builder;
    Expr whole = range(s, (low + power(n) - 1) / power(n), high / power(n));
    for (int k = 1; k <= n; k++) {
        const int64_t unit = power(n - k);
        whole = expr_alt(b, whole, decimals_between(s, (low + unit - 1) / unit, high / unit, k));
    }
    if (n > 0 || low >= high) return whole;
    Expr some = expr_seq(b, schema_word(s, "."), expr_repeat(b, expr_byte(b, '0', '9'), 1, 6));
    return expr_alt(b, whole, expr_seq(b, range(s, low, high - 1), some));
}

static Expr number_between(Schema *s, const Bounds *b) {
    int of_low = b->has_low ? decimals_of(b->low) : 0, of_high = b->has_high ? decimals_of(b->high) : 0;
    int n = of_low > of_high ? of_low : of_high;
    if (of_low < 0 || of_high < 0) {
        schema_refuse(s, "bounds of up to six decimals can be written by");
        return EXPR_NOTHING;
    }
    if (b->low_open || b->high_open) n = n < 4 ? n + 2 : 6; // there is something between a bound and the next
    const double most = (double)(power(15 - n) - 1);
    if ((b->has_low && fabs(b->low) > most) || (b->has_high && fabs(b->high) > most)) {
        schema_refuse(s, "bounds of up to 15 digits can be written by");
        return EXPR_NOTHING;
    }
    int64_t low = llround((b->has_low ? b->low : -most) * (double)power(n)) + b->low_open;
    int64_t high = llround((b->has_high ? b->high : most) * (double)power(n)) - b->high_open;
    if (low > high) return EXPR_NEVER;
    Expr whole = low < 0 ? negative(s, magnitudes_between(s, high < 0 ? -high : 0, -low, n)) : EXPR_NEVER;
    return high >= 0 ? expr_alt(s->builder, whole, magnitudes_between(s, low > 0 ? low : 0, high, n)) : whole;
}

// ---- multiples ----------------------------------------------------------------------------------------------------

enum { MOST_DIGITS = 9, MOST_LISTED = 1024 }; // of a multiple without bounds; multiples that are written out

typedef struct Multiples {
    int rules[SCHEMA_MOST_MULTIPLE]; // by the remainder so far: 1 + the rule; 0: not yet
} Multiples;

// Up to `left` more digits, behind which the number has no remainder.
static Expr digits_behind(Schema *s, const Multiples *below, int unit, int remainder, int left) {
    Expr whole = remainder == 0 ? EXPR_NOTHING : EXPR_NEVER;
    for (int digit = 0; digit < 10 && left > 0; digit++) {
        const int rule = below->rules[(10 * remainder + digit) % unit];
        const Expr more = expr_seq(s->builder, expr_byte(s->builder, '0' + digit, '0' + digit),
                                   expr_call(s->builder, rule - 1));
        whole = expr_alt(s->builder, whole, more);
    }
    return whole;
}

// Positive multiples, by the remainder that their first digits leave: a rule for each and each count of digits left.
static Expr positive_multiples(Schema *s, int unit) {
    Builder *b = s->builder;
    Multiples now = {0}, below;
    Expr whole = EXPR_NEVER;
    for (int left = 0; left < MOST_DIGITS && !schema_failed(s); left++) {
        below = now;
        for (int r = 0; r < unit; r++) now.rules[r] = 1 + expr_rule(b, "a multiple", 10);
        for (int r = 0; r < unit; r++)
            expr_define(b, now.rules[r] - 1, digits_behind(s, &below, unit, r, left));
    }
    for (int digit = 1; digit < 10 && unit > 0 && !schema_failed(s); digit++)
        whole = expr_alt(
            b, whole,
            expr_seq(b, expr_byte(b, '0' + digit, '0' + digit), expr_call(b, now.rules[digit % unit] - 1)));
    return whole;
}

// Multiples from low (0 or more) on, up to high or, where that is negative, without end.
static Expr multiples_from(Schema *s, int64_t low, int64_t high, int unit) {
    if (low <= unit && high < 0) return positive_multiples(s, unit);
    int64_t first = (low + unit - 1) / unit * unit;
    if (first == 0) first = unit;
    Expr whole = EXPR_NEVER;
    for (int i = 0; i < MOST_LISTED && (high < 0 || first <= high); i++, first += unit) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)first);
        whole = expr_alt(s->builder, whole, schema_word(s, text));
    }
    return whole;
}

static Expr multiples_between(Schema *s, const Bounds *b, int unit) {
    int64_t low = b->has_low ? (int64_t)ceil(b->low) : INT64_MIN,
            high = b->has_high ? (int64_t)floor(b->high) : INT64_MAX;
    if (b->low_open && (double)low == b->low) low++;
    if (b->high_open && (double)high == b->high) high--;
    Expr whole = low <= 0 && high >= 0 ? schema_word(s, "0") : EXPR_NEVER;
    if (high > 0)
        whole =
            expr_alt(s->builder, whole, multiples_from(s, low > 0 ? low : 0, b->has_high ? high : -1, unit));
    if (low < 0)
        whole = expr_alt(s->builder, whole,
                         negative(s, multiples_from(s, high < 0 ? -high : 0, b->has_low ? -low : -1, unit)));
    return whole;
}

Expr schema_number(Schema *s, json_t *json, bool integer) {
    const json_t *multiple = json_object_get(json, "multipleOf");
    const double unit = multiple ? json_number_value(multiple) : 1;
    if (!(unit >= 1 && unit <= SCHEMA_MOST_MULTIPLE && unit == floor(unit))) {
        schema_enter(s, "multipleOf", NULL);
        schema_refuse(s, "only multiples of whole numbers from 1 to 1000 can be written by");
    }
    Bounds bounds = read_bounds(s, json);
    if (schema_failed(s)) return EXPR_NOTHING;
    integer = integer || multiple;
    if (unit > 1) return multiples_between(s, &bounds, (int)unit);
    if (!bounds.has_low && !bounds.has_high)
        return schema_common(s, integer ? SCHEMA_INTEGER : SCHEMA_NUMBER);
    return integer ? integer_between(s, &bounds) : number_between(s, &bounds);
}
