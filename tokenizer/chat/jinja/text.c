// Text whose bytes keep their origin.
#include "tokenizer/chat/jinja/jinja_internal.h"

#include "kernels/base/text/utf8.h"

Value jinja_text(Arena *arena, const char *data, size_t size, int origin) {
    OriginText *text = jinja_alloc(arena, sizeof *text + sizeof(JinjaRun));
    JinjaRun *run = (JinjaRun *)(text + 1);
    *run = (JinjaRun){size, origin};
    *text = (OriginText){.data = data, .size = size, .runs = run, .n_runs = size > 0};
    return (Value){VALUE_TEXT, {.text = text}};
}

Value jinja_string(Arena *arena, const char *string) {
    return jinja_text(arena, string, strlen(string), JINJA_TEMPLATE);
}

// The first run that reaches beyond `at`.
static size_t run_at(const OriginText *text, size_t at) {
    size_t low = 0, high = text->n_runs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (text->runs[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// The runs of [from, to) into `runs`, which has room for them; returns their number, with NULL only that.
static size_t part_runs(const OriginText *text, size_t from, size_t to, JinjaRun *runs) {
    size_t first = run_at(text, from), last = run_at(text, to - 1), n = last - first + 1;
    for (size_t i = 0; i < n && runs; i++)
        runs[i] = (JinjaRun){text->runs[first + i].end - from, text->runs[first + i].origin};
    if (runs) runs[n - 1].end = to - from;
    return n;
}

OriginText jinja_part(Arena *arena, const OriginText *text, size_t from, size_t to) {
    if (from >= to) return (OriginText){.data = text->data};
    size_t n = part_runs(text, from, to, NULL);
    JinjaRun *runs = jinja_alloc(arena, n * sizeof *runs);
    part_runs(text, from, to, runs);
    return (OriginText){.data = text->data + from, .size = to - from, .runs = runs, .n_runs = n};
}

// In one piece of memory: loops over the characters of a text make many.
Value jinja_part_value(Arena *arena, const OriginText *text, size_t from, size_t to) {
    size_t n = from < to ? part_runs(text, from, to, NULL) : 0;
    OriginText *part = jinja_alloc(arena, sizeof *part + n * sizeof(JinjaRun));
    *part = (OriginText){.data = text->data + (n ? from : 0), .size = n ? to - from : 0, .n_runs = n};
    if (n) {
        JinjaRun *runs = (JinjaRun *)(part + 1);
        part_runs(text, from, to, runs);
        part->runs = runs;
    }
    return (Value){VALUE_TEXT, {.text = part}};
}

void jinja_add(Arena *arena, Buffer *buffer, const char *data, size_t size, int origin) {
    if (!size) return;
    if (buffer->capacity - buffer->size < size) {
        size_t capacity = buffer->size + size + buffer->capacity / 2 + 64;
        char *grown = jinja_alloc(arena, capacity);
        if (buffer->size) memcpy(grown, buffer->data, buffer->size);
        buffer->data = grown;
        buffer->capacity = capacity;
    }
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    if (!buffer->n_runs || buffer->runs[buffer->n_runs - 1].origin != origin) {
        buffer->runs = jinja_grow(arena, buffer->runs, buffer->n_runs, sizeof *buffer->runs);
        buffer->runs[buffer->n_runs++].origin = origin;
    }
    buffer->runs[buffer->n_runs - 1].end = buffer->size;
}

void jinja_add_text(Arena *arena, Buffer *buffer, const OriginText *text) {
    size_t from = 0;
    for (size_t i = 0; i < text->n_runs; i++) {
        jinja_add(arena, buffer, text->data + from, text->runs[i].end - from, text->runs[i].origin);
        from = text->runs[i].end;
    }
}

void jinja_add_string(Arena *arena, Buffer *buffer, const char *string) {
    jinja_add(arena, buffer, string, strlen(string), JINJA_TEMPLATE);
}

Value jinja_take(Arena *arena, Buffer *buffer) {
    OriginText *text = jinja_alloc(arena, sizeof *text);
    *text = (OriginText){.data = buffer->data ? buffer->data : "",
                         .size = buffer->size,
                         .runs = buffer->runs,
                         .n_runs = buffer->n_runs};
    return (Value){VALUE_TEXT, {.text = text}};
}

// Bytes that are no UTF-8 are characters of their own.
size_t jinja_character(const OriginText *text, size_t at, uint32_t *code) {
    unsigned char byte = (unsigned char)text->data[at];
    *code = byte;
    if (byte < 0x80) return 1;
    int length = utf8_next(text->data + at, text->size - at, code);
    return length > 0 ? (size_t)length : 1;
}

size_t jinja_length(const OriginText *text) {
    size_t n = 0;
    uint32_t code;
    for (size_t at = 0; at < text->size; n++) at += jinja_character(text, at, &code);
    return n;
}

size_t jinja_offset(const OriginText *text, size_t characters) {
    size_t at = 0;
    uint32_t code;
    for (; characters && at < text->size; characters--) at += jinja_character(text, at, &code);
    return at;
}

size_t jinja_search(const OriginText *text, const OriginText *part, size_t from, bool last) {
    if (part->size > text->size || from > text->size - part->size) return SIZE_MAX;
    if (!last) {
        const char *found = part->size ? memmem(text->data + from, text->size - from, part->data, part->size)
                                       : text->data + from;
        return found ? (size_t)(found - text->data) : SIZE_MAX;
    }
    for (size_t at = text->size - part->size + 1; at-- > from;)
        if (!part->size || !memcmp(text->data + at, part->data, part->size)) return at;
    return SIZE_MAX;
}

bool jinja_is(Value value, const char *string) {
    return value.type == VALUE_TEXT && value.as.text->size == strlen(string) &&
           !memcmp(value.as.text->data, string, value.as.text->size);
}
