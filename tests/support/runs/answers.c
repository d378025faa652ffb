#include "tests/support/runs/answers.h"

#include "tests/support/test.h"

#include <string.h>

Answers answers_of(const Run *run) {
    Answers a = {.n = 0};
    for (const char *line = run->out, *end; line && *line; line = end + 1) {
        json_error_t why;
        end = strchr(line, '\n');
        if (!end) fail_msg("half a line: %s", line);
        assert_true(a.n < ANSWERS_MOST);
        a.each[a.n++] = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, &why);
        if (!a.each[a.n - 1]) fail_msg("%s: %.*s", why.text, (int)(end - line), line);
    }
    return a;
}

void answers_free(Answers *a) {
    for (int i = 0; i < a->n; i++) json_decref(a->each[i]);
}

const json_t *answers_find(const Answers *a, int number) {
    const json_t *found = NULL;
    for (int i = 0; i < a->n; i++) {
        const json_t *id = json_object_get(a->each[i], "id");
        const json_t *line = json_object_get(a->each[i], "line");
        if (json_integer_value(json_is_integer(id) ? id : line) != number) continue;
        if (found) fail_msg("%d is answered twice", number);
        found = a->each[i];
    }
    if (!found) fail_msg("%d is not answered", number);
    return found;
}

const char *answer_word(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

json_t *answer_message(const json_t *object, size_t i) {
    return json_array_get(json_object_get(object, "messages"), i);
}
