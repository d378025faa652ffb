#include "tokenizer/normalize.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "kernels/base/array.h"
#include "kernels/base/text/utf8.h"

Status normalizer_add(Normalizer *normalizer, NormalizeKind kind, TokenText what, TokenText with,
                      Error *error) {
    if (normalizer->n == MAX_NORMALIZE_STEPS) {
        return error_set(error, STATUS_UNSUPPORTED, "more than %d normalizers", MAX_NORMALIZE_STEPS);
    }
    if (kind == NORMALIZE_REPLACE && what.size == 0) {
        return error_set(error, STATUS_FILE, "a normalizer replaces the empty text");
    }
    NormalizeStep step = {.kind = kind};
    Status status = text_append(&step.what, what.text, what.size, error);
    if (!status) status = text_append(&step.with, with.text, with.size, error);
    if (status) {
        text_free(&step.what);
        text_free(&step.with);
        return status;
    }
    normalizer->steps[normalizer->n++] = step;
    return STATUS_OK;
}

void normalizer_free(Normalizer *normalizer) {
    for (int i = 0; i < normalizer->n; i++) {
        text_free(&normalizer->steps[i].what);
        text_free(&normalizer->steps[i].with);
    }
    *normalizer = (Normalizer){0};
}

// See normalizer_run().
enum { MAX_GROWTH = 64, FREE_GROWTH = 64 << 10 };

static Status check_growth(size_t size, size_t limit, Error *error) {
    if (size <= limit) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "the normalizer of the tokenizer's file makes more than %d times as much of this text",
                     MAX_GROWTH);
}

bool normalizer_prepends(const Normalizer *normalizer) {
    for (int i = 0; i < normalizer->n; i++) {
        if (normalizer->steps[i].kind == NORMALIZE_PREPEND) return true;
    }
    return false;
}

// Replaces; stops with an error once `out` is longer than `limit`.
static Status replace_all(const NormalizeStep *step, const char *text, size_t size, size_t limit, Text *out,
                          Error *error) {
    size_t done = 0;
    Status status = STATUS_OK;
    while (!status && done < size) {
        status = check_growth(out->size, limit, error);
        if (status) break;
        const char *hit = memmem(text + done, size - done, step->what.bytes, step->what.size);
        size_t stop = hit ? (size_t)(hit - text) : size;
        status = text_append(out, text + done, stop - done, error);
        if (hit && !status) status = text_append(out, step->with.bytes, step->with.size, error);
        done = hit ? stop + step->what.size : size;
    }
    return status;
}

// ---- Unicode's normal forms ---------------------------------------------------------------------------------------

typedef struct Codes {
    utf8proc_int32_t *data; // [capacity]
    size_t n, capacity;
} Codes;

static Status codes_reserve(Codes *codes, size_t more, Error *error) {
    if (array_reserve(&codes->data, sizeof *codes->data, codes->n, more, &codes->capacity)) return STATUS_OK;
    return error_set(error, STATUS_MEMORY, "no memory to normalize a text");
}

// Whether a combining mark came after Unicode 9. The tokenizers package's normalizer is of that age: to it these are
// characters like any other, and models have learnt from what it gave.
static bool is_late_mark(utf8proc_int32_t code) {
    static const struct {
        utf8proc_int32_t first, last;
    } ranges[] = {
        {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
        {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
        {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
        {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
        {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
        {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x16FF0, 0x16FF1},
        {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}};
    size_t low = 0, high = sizeof ranges / sizeof *ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof ranges / sizeof *ranges && code >= ranges[low].first;
}

static int combining_class(utf8proc_int32_t code) {
    return is_late_mark(code) ? 0 : utf8proc_get_property(code)->combining_class;
}

typedef struct Mark {
    uint32_t order; // combining class << 24 would not hold the place, so both are compared
    int32_t code;
    size_t place;
} Mark;

static int mark_compare(const void *a, const void *b) {
    const Mark *x = a, *y = b;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

// Puts a run of combining marks in canonical order. utf8proc's own way is quadratic in the run.
static Status order_run(utf8proc_int32_t *codes, size_t n, Error *error) {
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++)
        sorted = combining_class(codes[i - 1]) <= combining_class(codes[i]);
    if (sorted) return STATUS_OK;
    Mark *marks = malloc(n * sizeof *marks);
    if (!marks) return error_set(error, STATUS_MEMORY, "no memory to normalize a text");
    for (size_t i = 0; i < n; i++) marks[i] = (Mark){(uint32_t)combining_class(codes[i]), codes[i], i};
    qsort(marks, n, sizeof *marks, mark_compare);
    for (size_t i = 0; i < n; i++) codes[i] = marks[i].code;
    free(marks);
    return STATUS_OK;
}

static Status order_marks(utf8proc_int32_t *codes, size_t n, Error *error) {
    Status status = STATUS_OK;
    for (size_t i = 0; i < n && !status;) {
        size_t start = i;
        while (i < n && combining_class(codes[i]) != 0) i++;
        if (i - start > 1) status = order_run(codes + start, i - start, error);
        if (i == start) i++;
    }
    return status;
}

static Status decompose(const char *text, size_t size, utf8proc_option_t options, Codes *codes,
                        Error *error) {
    for (size_t i = 0; i < size;) {
        uint32_t code;
        int length = utf8_next(text + i, size - i, &code);
        i += length > 0 ? (size_t)length : 1;
        Status status = codes_reserve(codes, 32, error); // the longest decomposition has 18
        if (status) return status;
        int boundary = 0;
        utf8proc_ssize_t n =
            utf8proc_decompose_char((utf8proc_int32_t)code, codes->data + codes->n, 32, options, &boundary);
        if (n < 0 || n > 32) return error_set(error, STATUS_UNSUPPORTED, "U+%04X cannot be normalized", code);
        codes->n += (size_t)n;
    }
    return STATUS_OK;
}

// Composes in place, in stretches that begin at late marks: nothing composes across them.
static Status compose_codes(Codes *codes, Error *error) {
    size_t written = 0;
    for (size_t start = 0, stop; start < codes->n; start = stop) {
        for (stop = start + 1; stop < codes->n && !is_late_mark(codes->data[stop]);) stop++;
        utf8proc_ssize_t n = utf8proc_normalize_utf32(codes->data + start, (utf8proc_ssize_t)(stop - start),
                                                      UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        if (n < 0) return error_set(error, STATUS_UNSUPPORTED, "a text cannot be normalized");
        memmove(codes->data + written, codes->data + start, (size_t)n * sizeof *codes->data);
        written += (size_t)n;
    }
    codes->n = written;
    return STATUS_OK;
}

static Status normal_form(NormalizeKind kind, const char *text, size_t size, Text *out, Error *error) {
    bool compose = kind == NORMALIZE_NFC || kind == NORMALIZE_NFKC;
    bool compatible = kind == NORMALIZE_NFKC || kind == NORMALIZE_NFKD;
    Codes codes = {0};
    Status status = codes_reserve(&codes, size + 1, error);
    if (!status) {
        utf8proc_option_t options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
        status = decompose(text, size, options, &codes, error);
    }
    if (!status) status = order_marks(codes.data, codes.n, error);
    if (!status && compose) status = compose_codes(&codes, error);
    if (!status) status = text_grow(out, 4 * codes.n, error);
    for (size_t i = 0; i < codes.n && !status; i++) {
        out->size += (size_t)utf8_write((uint32_t)codes.data[i], out->bytes + out->size);
    }
    free(codes.data);
    return status;
}

static bool is_ascii(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] >= 0x80) return false;
    }
    return true;
}

static Status step_run(const NormalizeStep *step, const char *text, size_t size, size_t limit, Text *out,
                       Error *error) {
    if (step->kind == NORMALIZE_REPLACE) return replace_all(step, text, size, limit, out, error);
    if (step->kind != NORMALIZE_PREPEND) return normal_form(step->kind, text, size, out, error);
    Status status = text_append(out, step->with.bytes, step->with.size, error);
    return status ? status : text_append(out, text, size, error);
}

Status normalizer_run(const Normalizer *normalizer, TokenText text, bool inside, Text *buffer,
                      TokenText *result, Error *error) {
    *result = text;
    Status status = STATUS_OK;
    const size_t limit = text.size < SIZE_MAX / MAX_GROWTH ? text.size * MAX_GROWTH + FREE_GROWTH : SIZE_MAX;
    for (int i = 0; i < normalizer->n && !status && result->size; i++) {
        const NormalizeStep *step = &normalizer->steps[i];
        if (step->kind <= NORMALIZE_NFKD && is_ascii(result->text, result->size)) continue;
        if (step->kind == NORMALIZE_PREPEND && inside) continue;
        Text next = {0};
        status = step_run(step, result->text, result->size, limit, &next, error);
        if (!status) status = check_growth(next.size, limit, error);
        text_free(buffer);
        *buffer = next;
        *result = (TokenText){next.bytes, next.size};
    }
    return status;
}
