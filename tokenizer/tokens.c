#include "tokenizer/tokens.h"

#include "kernels/base/array.h"

Status tokens_push(Tokens *tokens, int32_t id, Error *error) {
    return tokens_append(tokens, &id, 1, error);
}

Status tokens_append(Tokens *tokens, const int32_t *ids, int64_t n, Error *error) {
    if (n <= 0) return STATUS_OK;
    if (!array_reserve(&tokens->ids, sizeof *ids, (size_t)tokens->n, (size_t)n, &tokens->capacity))
        return error_set(error, STATUS_MEMORY, "no memory for %lld tokens", (long long)(tokens->n + n));
    memcpy(tokens->ids + tokens->n, ids, (size_t)n * sizeof *ids);
    tokens->n += n;
    return STATUS_OK;
}

void tokens_free(Tokens *tokens) {
    free(tokens->ids);
    *tokens = (Tokens){0};
}
