#include "kernels/base/text/json.h"

#include "kernels/base/text/quote.h"
#include "kernels/base/text/text.h"
#include "kernels/base/text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZERO_BYTE "\\u0000: no text may hold a zero byte"

const char *json_problem(const json_error_t *problem) {
    const enum json_error_code code = json_error_code(problem);
    if (code == json_error_null_character || code == json_error_null_byte_in_key) return ZERO_BYTE;
    return code == json_error_premature_end_of_input ? "it ends before all is closed that was begun"
                                                     : problem->text;
}

Status json_refuse(size_t size, const json_error_t *problem, Error *error) {
    if (!size) return error_set(error, STATUS_FILE, "not valid JSON: it is empty; fetch it again");
    const bool cut = json_error_code(problem) == json_error_premature_end_of_input;
    const char *says = json_problem(problem);
    return error_set(error, STATUS_FILE, "line %d, column %d: %s%s%s", problem->line, problem->column,
                     strcmp(says, ZERO_BYTE) != 0 ? "not valid JSON: " : "", says,
                     cut ? ": the file is cut short; fetch it again" : "");
}

json_t *json_load_text(const char *text, size_t size, size_t flags, json_error_t *problem) {
    const size_t mark = utf8_mark(text, size);
    return json_loadb(text + mark, size - mark, flags, problem);
}

// How long the number is that begins at `text`, which JSON has not; 0: it is none.
static size_t other_number(const char *text, size_t size) {
    static const char *const NUMBERS[] = {"NaN", "Infinity", "-Infinity"};
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(NUMBERS[i]);
        if (n <= size && memcmp(text, NUMBERS[i], n) == 0) return n;
    }
    return 0;
}

// text as JSON has it, where outside of strings it has any of them; else *plain stays empty. False: no memory.
static bool without_other_numbers(const char *text, size_t size, Text *plain) {
    static const char BEFORE[] = "{\"__float__\": \"", BEHIND[] = "\"}";
    bool in_string = false, ok = true;
    size_t done = 0;
    for (size_t at = 0, n; at < size && ok; at += n > 0 ? n : 1) {
        n = in_string ? 0 : other_number(text + at, size - at);
        if (text[at] == '"') in_string = !in_string;
        if (n > 0) {
            ok = text_add(plain, text + done, at - done) && text_add(plain, BEFORE, sizeof BEFORE - 1) &&
                 text_add(plain, text + at, n) && text_add(plain, BEHIND, sizeof BEHIND - 1);
            done = at + n;
        } else if (in_string && text[at] == '\\')
            n = 2;
    }
    return ok && (done == 0 || text_add(plain, text + done, size - done));
}

json_t *json_load_python(const char *text, size_t size, size_t flags, json_error_t *problem) {
    Text plain = {0};
    json_t *value = NULL;
    if (without_other_numbers(text, size, &plain))
        value = plain.bytes ? json_load_text(plain.bytes, plain.size, flags, problem)
                            : json_load_text(text, size, flags, problem);
    else
        *problem = (json_error_t){.line = 1, .text = "out of memory"};
    free(plain.bytes);
    return value;
}

// value: what was read of `text`, or NULL.
static Status parsed(const char *name, size_t size, const json_t *value, const json_error_t *problem,
                     Error *error) {
    if (value != NULL) return STATUS_OK;
    const Status status = json_refuse(size, problem, error);
    error_prefix(error, "%s: ", name);
    return status;
}

Status json_parse(const char *name, const char *text, size_t size, json_t **value, Error *error) {
    json_error_t problem;
    *value = size ? json_load_text(text, size, JSON_REJECT_DUPLICATES, &problem) : NULL;
    return parsed(name, size, *value, &problem, error);
}

Status json_parse_python(const char *name, const char *text, size_t size, json_t **value, Error *error) {
    json_error_t problem;
    *value = size ? json_load_python(text, size, JSON_REJECT_DUPLICATES, &problem) : NULL;
    return parsed(name, size, *value, &problem, error);
}

// Whether a terminal obeys a character, or turns the order of others by it: all Bidi_Control of Unicode.
static bool is_harmful(uint32_t code) {
    return code >= 0x7F && (utf8_is_obeyed(code) || code == 0x061C || code == 0x200E || code == 0x200F);
}

// Beyond ASCII a text in JSON has characters in its strings only.
char *json_harmless(const json_t *value, size_t flags) {
    char *text = json_dumps(value, flags), sign[8];
    Text out = {0};
    bool ok = text;
    const char *done = text, *at = text;
    for (uint32_t code; ok && *at;) {
        const int n = utf8_next(at, 4, &code);
        const char *next = at + (n > 0 ? n : 1);
        if (is_harmful(code)) {
            snprintf(sign, sizeof sign, "\\u%04x", (unsigned)code);
            ok = text_add(&out, done, (size_t)(at - done)) && text_add(&out, sign, strlen(sign));
            done = next;
        }
        at = next;
    }
    ok = ok && text_add(&out, done, (size_t)(at - done));
    free(text);
    if (!ok) text_free(&out);
    return out.bytes;
}

size_t json_digits(const json_t *value) {
    enum { LEAST = 15, ENOUGH = 17, READ = JSON_DECODE_ANY | JSON_ALLOW_NUL }; // of an IEEE double
    if (!value) return JSON_REAL_PRECISION(LEAST);
    for (size_t digits = LEAST; digits < ENOUGH; digits++) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_t *read = text ? json_loads(text, READ, NULL) : NULL;
        const bool same = read && json_equal(read, value);
        json_decref(read);
        free(text);
        if (same) return JSON_REAL_PRECISION(digits);
    }
    return JSON_REAL_PRECISION(ENOUGH);
}

char *json_compact(const json_t *value) {
    return json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | json_digits(value));
}

bool json_same(const json_t *a, const json_t *b) {
    return json_is_number(a) && json_is_number(b) ? json_number_value(a) == json_number_value(b)
                                                  : json_equal(a, b);
}

static Status wrong_type(const char *what, const char *key, const char *wanted, const json_t *found,
                         Error *error) {
    const char *is = json_is_array(found)     ? "a list"
                     : json_is_object(found)  ? "an object"
                     : json_is_boolean(found) ? json_is_true(found) ? "true" : "false"
                                              : "null";
    if (json_is_string(found))
        return error_set(error, STATUS_FILE, "%s: %s should be %s, not the text \"%s\"", what, key, wanted,
                         quote_bytes(json_string_value(found), json_string_length(found)).text);
    if (json_is_integer(found))
        return error_set(error, STATUS_FILE, "%s: %s should be %s, not the number %lld", what, key, wanted,
                         (long long)json_integer_value(found));
    if (json_is_real(found))
        return error_set(error, STATUS_FILE, "%s: %s should be %s, not the number %g", what, key, wanted,
                         json_real_value(found));
    const json_t *other = json_object_get(found, "__float__"); // json_load_python()'s
    const size_t n = json_string_length(other);
    if (n > 0 && other_number(json_string_value(other), n) == n) is = json_string_value(other);
    return error_set(error, STATUS_FILE, "%s: %s should be %s, not %s", what, key, wanted, is);
}

Status json_read_integer(const json_t *object, const char *what, const char *key, int64_t *value,
                         Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_integer(found)) return wrong_type(what, key, "an integer", found, error);
    *value = json_integer_value(found);
    return STATUS_OK;
}

Status json_read_number(const json_t *object, const char *what, const char *key, double *value,
                        Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_number(found)) return wrong_type(what, key, "a number", found, error);
    *value = json_number_value(found);
    return STATUS_OK;
}

Status json_read_bool(const json_t *object, const char *what, const char *key, bool *value, Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_boolean(found)) return wrong_type(what, key, "true or false", found, error);
    *value = json_is_true(found);
    return STATUS_OK;
}

Status json_read_string(const json_t *object, const char *what, const char *key, char *value, size_t size,
                        Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_string(found)) return wrong_type(what, key, "a string", found, error);
    text_copy_printable(value, size, json_string_value(found), json_string_length(found));
    return STATUS_OK;
}

static bool is_of(const json_t *value, unsigned types) {
    return (types & JSON_A_FLAG && json_is_boolean(value)) ||
           (types & JSON_AN_INTEGER && json_is_integer(value)) ||
           (types & JSON_A_STRING && json_is_string(value)) ||
           (types & JSON_AN_OBJECT && json_is_object(value)) ||
           (types & (JSON_A_LIST | JSON_INTEGERS | JSON_STRINGS) && json_is_array(value));
}

// "a string or a list".
static const char *name_types(unsigned types, char *text, size_t size) {
    static const char *const NAMES[] = {"true or false",    "an integer", "a string",
                                        "an object",        "a list",     "a list of integers",
                                        "a list of strings"};
    size_t n = 0;
    for (unsigned i = 0; i < sizeof NAMES / sizeof *NAMES && n < size; i++)
        if (types >> i & 1) n += (size_t)snprintf(text + n, size - n, "%s%s", n ? " or " : "", NAMES[i]);
    return text;
}

Status json_check_type(const json_t *object, const char *what, const JsonTyped *typed, Error *error) {
    const json_t *value = json_member(object, typed->key);
    char wanted[128], member[128];
    if (!value) return STATUS_OK;
    if (!is_of(value, typed->types))
        return wrong_type(what, typed->key, name_types(typed->types, wanted, sizeof wanted), value, error);
    const unsigned each = typed->types & JSON_INTEGERS  ? JSON_AN_INTEGER
                          : typed->types & JSON_STRINGS ? JSON_A_STRING
                                                        : 0;
    for (size_t i = 0; each && i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        if (is_of(item, each)) continue;
        snprintf(member, sizeof member, "%s[%zu]", typed->key, i);
        return wrong_type(what, member, name_types(each, wanted, sizeof wanted), item, error);
    }
    return STATUS_OK;
}

Status json_read_text(const json_t *object, const char *key, const char **text, Error *error) {
    *text = json_text(object, key);
    const size_t size = json_string_length(json_member(object, key));
    return strlen(*text) == size ? STATUS_OK : error_set(error, STATUS_FILE, "%s: " ZERO_BYTE, key);
}
