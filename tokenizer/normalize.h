// Normalizers: what a model's file wants done to text before it is split.
#ifndef PALAVER_TOKENIZER_NORMALIZE_H
#define PALAVER_TOKENIZER_NORMALIZE_H

#include <stdbool.h>

#include "kernels/base/text/text.h"
#include "tokenizer/tokens.h"

typedef enum NormalizeKind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_PREPEND, // puts `with` in front of a text that is not empty
    NORMALIZE_REPLACE, // every `what` becomes `with`
} NormalizeKind;

typedef struct NormalizeStep {
    NormalizeKind kind;
    Text what, with; // owned
} NormalizeStep;

enum { MAX_NORMALIZE_STEPS = 16 };

typedef struct Normalizer {
    NormalizeStep steps[MAX_NORMALIZE_STEPS];
    int n;
} Normalizer; // {0} changes nothing

// Appends a step; the texts are copied. `what` is only for NORMALIZE_REPLACE.
Status normalizer_add(Normalizer *normalizer, NormalizeKind kind, TokenText what, TokenText with,
                      Error *error);
void normalizer_free(Normalizer *normalizer);
bool normalizer_prepends(const Normalizer *normalizer); // whether a step does

// Normalizes valid UTF-8: *result is either the text itself or lies in `buffer`, whose content is replaced. `inside`
// says that the text goes on after bytes that are no UTF-8: nothing is prepended. Linear in the text's length, whatever
// the text. STATUS_UNSUPPORTED where the result would be more than 64 times as long as the text (and 64 KiB): the
// longest compatibility decomposition makes 11 of one, U+2581 for a space 3.
Status normalizer_run(const Normalizer *normalizer, TokenText text, bool inside, Text *buffer,
                      TokenText *result, Error *error);

#endif
