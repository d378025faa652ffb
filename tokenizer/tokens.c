#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

static Status tokens_reserve(Tokens *tokens, int64_t more, Error *error) {
    if (more <= tokens->capacity - tokens->n) return STATUS_OK;
    if (more > INT64_MAX / 16 - tokens->n) return error_set(error, STATUS_MEMORY, "too many tokens");
    int64_t capacity = tokens->n + more;
    if (capacity < 2 * tokens->capacity) capacity = 2 * tokens->capacity;
    if (capacity < 32) capacity = 32;
    int32_t *ids = realloc(tokens->ids, (size_t)capacity * sizeof *ids);
    if (!ids) return error_set(error, STATUS_MEMORY, "no memory for %lld tokens", (long long)capacity);
    tokens->ids = ids;
    tokens->capacity = capacity;
    return STATUS_OK;
}

Status tokens_push(Tokens *tokens, int32_t id, Error *error) {
    return tokens_append(tokens, &id, 1, error);
}

Status tokens_append(Tokens *tokens, const int32_t *ids, int64_t n, Error *error) {
    if (n <= 0) return STATUS_OK;
    Status status = tokens_reserve(tokens, n, error);
    if (status) return status;
    memcpy(tokens->ids + tokens->n, ids, (size_t)n * sizeof *ids);
    tokens->n += n;
    return STATUS_OK;
}

void tokens_free(Tokens *tokens) {
    free(tokens->ids);
    *tokens = (Tokens){0};
}
