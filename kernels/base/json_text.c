#include "kernels/base/json_text.h"

#include <string.h>

bool is_printable(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] < ' ' || text[i] > '~') return false;
    }
    return true;
}

void copy_printable(char *to, size_t size, const char *from, size_t length) {
    size_t n = length < size - 1 ? length : size - 1;
    for (size_t i = 0; i < n; i++) to[i] = from[i] < ' ' || from[i] > '~' ? '?' : from[i];
    to[n] = '\0';
}

Status json_parse(const char *name, const char *text, size_t size, json_t **value, Error *error) {
    json_error_t problem;
    *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    if (*value != NULL) return STATUS_OK;
    char shown[JSON_ERROR_TEXT_LENGTH]; // it quotes the file
    copy_printable(shown, sizeof shown, problem.text, strlen(problem.text));
    return error_set(error, STATUS_FILE, "%s:%d: not valid JSON: %s", name, problem.line, shown);
}
