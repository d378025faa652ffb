// JSON by jansson. Out of files: messages that can be shown; a member that is missing and one that is null read the same.
// For stdout: nothing that a terminal would obey.
#ifndef PALAVER_BASE_JSON_H
#define PALAVER_BASE_JSON_H

#include "kernels/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

// json_loadb(), which takes a byte order mark for a fault: here it is skipped.
json_t *json_load_text(const char *text, size_t size, size_t flags, json_error_t *problem);

// json_load_text() of what Python writes, which has numbers that JSON has not: NaN, Infinity and -Infinity become
// {"__float__": "NaN"} and so on, as transformers 5 writes them.
json_t *json_load_python(const char *text, size_t size, size_t flags, json_error_t *problem);

// Parses `size` bytes of JSON, an object or array, no key twice. The caller owns *value, which is NULL after a failure:
// json_refuse() behind `name`.
Status json_parse(const char *name, const char *text, size_t size, json_t **value, Error *error);

// The same of what Python writes.
Status json_parse_python(const char *name, const char *text, size_t size, json_t **value, Error *error);

// What a problem of jansson's is: its text, or one of ours where that names a flag that whoever wrote the file cannot set,
// or says of a file that is cut off what could stand in it.
const char *json_problem(const json_error_t *problem);

// STATUS_FILE: where in `size` bytes that is, and what there is to do about a file that is cut off.
Status json_refuse(size_t size, const json_error_t *problem, Error *error);

// Member `key`, or NULL where it is missing, null, or `object` is no object.
static inline json_t *json_member(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static inline bool json_flag(const json_t *object, const char *key, bool otherwise) {
    const json_t *value = json_member(object, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

// The member's string, or "" where it is none.
static inline const char *json_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_member(object, key));
    return text ? text : "";
}

static inline bool json_text_is(const json_t *object, const char *key, const char *text) {
    return !strcmp(json_text(object, key), text);
}

// The value of member `key` of an object, which `what` names in messages; missing or null leaves *value as it is.
// STATUS_FILE says what it should be, and what it is.
Status json_read_integer(const json_t *object, const char *what, const char *key, int64_t *value,
                         Error *error);
Status json_read_number(const json_t *object, const char *what, const char *key, double *value, Error *error);
Status json_read_bool(const json_t *object, const char *what, const char *key, bool *value, Error *error);
Status json_read_string(const json_t *object, const char *what, const char *key, char *value, size_t size,
                        Error *error); // cut to fit, printable

// The types that a value may have.
enum {
    JSON_A_FLAG = 1,
    JSON_AN_INTEGER = 2,
    JSON_A_STRING = 4,
    JSON_AN_OBJECT = 8,
    JSON_A_LIST = 16,
    JSON_INTEGERS = 32, // in a list
    JSON_STRINGS = 64,
};
typedef struct JsonTyped {
    const char *key;
    unsigned types; // any of these; null and none are of every type
} JsonTyped;
// STATUS_FILE says which member is of another type, what it should be, and what it is.
Status json_check_type(const json_t *object, const char *what, const JsonTyped *typed, Error *error);

// json_text() of what was parsed with JSON_ALLOW_NUL: STATUS_FILE where a zero byte would end it early.
Status json_read_text(const json_t *object, const char *key, const char **text, Error *error);

// A value as jansson writes it, with \uNNNN for what a terminal would obey besides (utf8_is_obeyed): who parses it reads the
// same. To free(); NULL: no memory.
char *json_harmless(const json_t *value, size_t flags);

// The flag of json_dumps() with which the numbers in a value have the fewest digits that are read as the same numbers:
// 0.1 is not written 0.10000000000000001. NULL is a value without any.
size_t json_digits(const json_t *value);
// Any value's text with those and without blanks, to be freed; NULL: no memory.
char *json_compact(const json_t *value);

// Whether two values are equal, as 1 and 1.0 are.
bool json_same(const json_t *a, const json_t *b);

#endif
