#include "kernels/base/json.h"

#include "kernels/base/text.h"

#include <string.h>

Status json_parse(const char *name, const char *text, size_t size, json_t **value, Error *error) {
    json_error_t problem;
    *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    if (*value != NULL) return STATUS_OK;
    char shown[JSON_ERROR_TEXT_LENGTH]; // it quotes the file
    text_copy_printable(shown, sizeof shown, problem.text, strlen(problem.text));
    return error_set(error, STATUS_FILE, "%s:%d: not valid JSON: %s", name, problem.line, shown);
}
