// Methods of texts, as far as templates use them.
#include "tokenizer/chat/jinja/jinja_internal.h"

#include "tokenizer/chat/jinja/space.h"
#include "kernels/base/text/utf8.h"

#include <utf8proc.h>

// ---- both ends ---------------------------------------------------------------------------------------------------

static bool is_one_of(const OriginText *characters, const char *character, size_t size) {
    OriginText one = {.data = character, .size = size};
    return jinja_search(characters, &one, 0, false) != SIZE_MAX;
}

static Value strip(Interp *in, Value self, const Args *args, bool left, bool right) {
    const OriginText *text = self.as.text;
    size_t from = 0, to = text->size, length;
    uint32_t code;
    if (args->items[0].type <= VALUE_NONE) {
        if (left) from = space_before(text->data, to);
        if (right) to -= space_after(text->data + from, to - from);
        return jinja_part_value(in->arena, text, from, to);
    }
    const OriginText *characters = jinja_text_of(in, args->items[0], "what is stripped");
    while (left && from < to &&
           is_one_of(characters, text->data + from, length = jinja_character(text, from, &code)))
        from += length;
    while (right && to > from) {
        size_t at = to - 1;
        while (at > from && utf8_continues(text->data[at]) && to - at < 4) at--;
        if (jinja_character(text, at, &code) != to - at) at = to - 1;
        if (!is_one_of(characters, text->data + at, to - at)) break;
        to = at;
    }
    return jinja_part_value(in->arena, text, from, to);
}

static Value text_strip(Interp *in, Value self, const Args *args) {
    return strip(in, self, args, true, true);
}
static Value text_lstrip(Interp *in, Value self, const Args *args) {
    return strip(in, self, args, true, false);
}
static Value text_rstrip(Interp *in, Value self, const Args *args) {
    return strip(in, self, args, false, true);
}

static bool has_end(Interp *in, const OriginText *text, Value part, bool last) {
    if (part.type == VALUE_TUPLE) {
        for (size_t i = 0; i < part.as.list->n; i++)
            if (has_end(in, text, part.as.list->items[i], last)) return true;
        return false;
    }
    const OriginText *end = jinja_text_of(in, part, "what a text begins or ends with");
    return end->size <= text->size &&
           (!end->size || !memcmp(text->data + (last ? text->size - end->size : 0), end->data, end->size));
}

static Value text_startswith(Interp *in, Value self, const Args *args) {
    return jinja_bool(has_end(in, self.as.text, args->items[0], false));
}
static Value text_endswith(Interp *in, Value self, const Args *args) {
    return jinja_bool(has_end(in, self.as.text, args->items[0], true));
}
static Value text_removeprefix(Interp *in, Value self, const Args *args) {
    size_t cut = has_end(in, self.as.text, args->items[0], false) ? args->items[0].as.text->size : 0;
    return jinja_part_value(in->arena, self.as.text, cut, self.as.text->size);
}
static Value text_removesuffix(Interp *in, Value self, const Args *args) {
    size_t cut = has_end(in, self.as.text, args->items[0], true) ? args->items[0].as.text->size : 0;
    return jinja_part_value(in->arena, self.as.text, 0, self.as.text->size - cut);
}

// ---- parts -------------------------------------------------------------------------------------------------------

static void split_space(Interp *in, List *list, const OriginText *text, int64_t most, bool last) {
    size_t from = space_before(text->data, text->size), to = text->size;
    to -= space_after(text->data + from, to - from);
    if (last) jinja_fail(in->arena, STATUS_UNSUPPORTED, "rsplit() by white space is not supported");
    while (from < to) {
        size_t end = from, length;
        uint32_t code;
        while (end < to && !space_before(text->data + end, (length = jinja_character(text, end, &code))))
            end += length;
        if (most-- == 0) end = text->size;
        jinja_append(in->arena, list, jinja_part_value(in->arena, text, from, end));
        from = end + space_before(text->data + end, text->size - end);
    }
}

static Value split(Interp *in, Value self, const Args *args, bool last) {
    const OriginText *text = self.as.text;
    Value list = jinja_list(in->arena, VALUE_LIST);
    int64_t most = jinja_int_of(in, args->items[1], -1);
    if (args->items[0].type <= VALUE_NONE) {
        split_space(in, list.as.list, text, most, last && most >= 0);
        return list;
    }
    const OriginText *separator = jinja_text_of(in, args->items[0], "what a text is split at");
    if (!separator->size) jinja_fail(in->arena, STATUS_UNSUPPORTED, "a text is split at nothing");
    size_t from = 0, to = text->size, at;
    for (; !last && most-- != 0 && (at = jinja_search(text, separator, from, false)) != SIZE_MAX;
         from = at + separator->size)
        jinja_append(in->arena, list.as.list, jinja_part_value(in->arena, text, from, at));
    List back = {0};
    for (OriginText head = *text;
         last && most-- != 0 && (at = jinja_search(&head, separator, 0, true)) != SIZE_MAX;
         head.size = to = at)
        jinja_append(in->arena, &back, jinja_part_value(in->arena, text, at + separator->size, to));
    jinja_append(in->arena, list.as.list, jinja_part_value(in->arena, text, from, to));
    while (back.n) jinja_append(in->arena, list.as.list, back.items[--back.n]);
    return list;
}

static Value text_split(Interp *in, Value self, const Args *args) {
    return split(in, self, args, false);
}
static Value text_rsplit(Interp *in, Value self, const Args *args) {
    return split(in, self, args, true);
}

static bool ends_line(uint32_t code) {
    return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

static Value text_splitlines(Interp *in, Value self, const Args *args) {
    const OriginText *text = self.as.text;
    Value list = jinja_list(in->arena, VALUE_LIST);
    bool keep = jinja_truth_of(in, args->items[0], false);
    for (size_t from = 0; from < text->size;) {
        size_t end = from;
        uint32_t code;
        size_t length = 0;
        while (end < text->size && !ends_line((length = jinja_character(text, end, &code), code)))
            end += length;
        size_t next = end < text->size ? end + length : end;
        if (next < text->size && text->data[end] == '\r' && text->data[next] == '\n') next++;
        jinja_append(in->arena, list.as.list, jinja_part_value(in->arena, text, from, keep ? next : end));
        from = next;
    }
    return list;
}

static Value part_around(Interp *in, Value self, const Args *args, bool last) {
    const OriginText *text = self.as.text,
                     *separator = jinja_text_of(in, args->items[0], "what a text is parted at");
    Value tuple = jinja_list(in->arena, VALUE_TUPLE);
    size_t at = jinja_search(text, separator, 0, last), end = at + separator->size;
    if (at == SIZE_MAX) at = end = last ? 0 : text->size;
    jinja_append(in->arena, tuple.as.list, jinja_part_value(in->arena, text, 0, at));
    jinja_append(in->arena, tuple.as.list, jinja_part_value(in->arena, text, at, end));
    jinja_append(in->arena, tuple.as.list, jinja_part_value(in->arena, text, end, text->size));
    return tuple;
}
static Value text_partition(Interp *in, Value self, const Args *args) {
    return part_around(in, self, args, false);
}
static Value text_rpartition(Interp *in, Value self, const Args *args) {
    return part_around(in, self, args, true);
}

// Where something stands, in characters; -1: nowhere.
static int64_t position(Interp *in, Value self, const Args *args, bool last) {
    const OriginText *text = self.as.text,
                     *part = jinja_text_of(in, args->items[0], "what is looked for in a text");
    int64_t from = jinja_int_of(in, args->items[1], 0);
    if (from < 0) jinja_fail(in->arena, STATUS_UNSUPPORTED, "find() from the end is not supported");
    size_t at = jinja_search(text, part, jinja_offset(text, (size_t)from), last);
    OriginText head = {.data = text->data, .size = at};
    return at == SIZE_MAX ? -1 : (int64_t)jinja_length(&head);
}
static Value text_find(Interp *in, Value self, const Args *args) {
    return jinja_int(position(in, self, args, false));
}
static Value text_rfind(Interp *in, Value self, const Args *args) {
    return jinja_int(position(in, self, args, true));
}
static Value text_index(Interp *in, Value self, const Args *args) {
    int64_t at = position(in, self, args, false);
    if (at < 0) jinja_fail(in->arena, STATUS_UNSUPPORTED, "index() finds nothing");
    return jinja_int(at);
}
static Value text_count(Interp *in, Value self, const Args *args) {
    const OriginText *text = self.as.text,
                     *part = jinja_text_of(in, args->items[0], "what is counted in a text");
    int64_t n = 0;
    if (!part->size) return jinja_int((int64_t)jinja_length(text) + 1);
    for (size_t at = 0; (at = jinja_search(text, part, at, false)) != SIZE_MAX; at += part->size) n++;
    return jinja_int(n);
}

static Value text_replace(Interp *in, Value self, const Args *args) {
    return jinja_apply(in, jinja_filter("replace"), self, args);
}
static Value text_join(Interp *in, Value self, const Args *args) {
    const List *list = jinja_iterate(in, args->items[0]);
    Buffer buffer = {0};
    for (size_t i = 0; i < list->n; i++) {
        if (i) jinja_add_text(in->arena, &buffer, self.as.text);
        jinja_add_text(in->arena, &buffer, jinja_text_of(in, list->items[i], "an item that is joined"));
    }
    return jinja_take(in->arena, &buffer);
}

// ---- letters -----------------------------------------------------------------------------------------------------

static bool is_letter(uint32_t code) {
    return utf8proc_category((utf8proc_int32_t)code) >= UTF8PROC_CATEGORY_LU &&
           utf8proc_category((utf8proc_int32_t)code) <= UTF8PROC_CATEGORY_LO;
}

// Every character of a text, in the case that `how` says: 'u'pper, 'l'ower, 'c'apitalize, 't'itle (words begin where
// the one before is no letter).
static Value cased(Interp *in, Value self, char how) {
    const OriginText *text = self.as.text;
    Buffer buffer = {0};
    bool inside = false; // of a word
    for (size_t at = 0, length, run = 0; at < text->size; at += length) {
        uint32_t code;
        length = jinja_character(text, at, &code);
        while (text->runs[run].end <= at) run++;
        bool upper = how == 'u' || (how != 'l' && !inside);
        inside = how == 'c' || is_letter(code);
        utf8proc_uint8_t bytes[4];
        bool byte = length == 1 && code >= 0x80; // no UTF-8
        utf8proc_int32_t other =
            upper ? utf8proc_toupper((utf8proc_int32_t)code) : utf8proc_tolower((utf8proc_int32_t)code);
        if (byte || other == (utf8proc_int32_t)code)
            jinja_add(in->arena, &buffer, text->data + at, length, text->runs[run].origin);
        else if (code == 0xDF) // sharp s
            jinja_add(in->arena, &buffer, how == 'u' ? "SS" : "Ss", 2, text->runs[run].origin);
        else
            jinja_add(in->arena, &buffer, (char *)bytes, (size_t)utf8proc_encode_char(other, bytes),
                      text->runs[run].origin);
    }
    return jinja_take(in->arena, &buffer);
}
static Value text_upper(Interp *in, Value self, const Args *args) {
    (void)args;
    return cased(in, self, 'u');
}
static Value text_lower(Interp *in, Value self, const Args *args) {
    (void)args;
    return cased(in, self, 'l');
}
static Value text_capitalize(Interp *in, Value self, const Args *args) {
    (void)args;
    return cased(in, self, 'c');
}
static Value text_title(Interp *in, Value self, const Args *args) {
    (void)args;
    return cased(in, self, 't');
}

static Value all_are(const OriginText *text, bool (*is)(uint32_t)) {
    uint32_t code;
    for (size_t at = 0; at < text->size;) {
        at += jinja_character(text, at, &code);
        if (!is(code)) return jinja_bool(false);
    }
    return jinja_bool(text->size > 0);
}
static bool is_decimal(uint32_t code) {
    return utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_ND;
}
static Value text_isdigit(Interp *in, Value self, const Args *args) {
    (void)in, (void)args;
    return all_are(self.as.text, is_decimal);
}
static Value text_isalpha(Interp *in, Value self, const Args *args) {
    (void)in, (void)args;
    return all_are(self.as.text, is_letter);
}
static Value text_isspace(Interp *in, Value self, const Args *args) {
    (void)in, (void)args;
    const OriginText *text = self.as.text;
    return jinja_bool(text->size && space_before(text->data, text->size) == text->size);
}

// "{}", "{0}" and "{name}" stand for arguments; {{ and }} for braces.
static Value text_format(Interp *in, Value self, const Args *args) {
    const OriginText *text = self.as.text;
    Buffer buffer = {0};
    size_t done = 0, next = 0;
    for (size_t at = 0; at < text->size; at++) {
        char c = text->data[at];
        if (c != '{' && c != '}') continue;
        bool twice = at + 1 < text->size && text->data[at + 1] == c;
        OriginText part = jinja_part(in->arena, text, done, at + twice);
        jinja_add_text(in->arena, &buffer, &part);
        done = at + 1 + twice;
        at += twice;
        if (twice) continue;
        const char *end = memchr(text->data + at, '}', text->size - at);
        char name[64] = "", *rest = name;
        if (c == '}' || !end || (size_t)(end - text->data) - done >= sizeof name)
            jinja_fail(in->arena, STATUS_UNSUPPORTED, "format() with this text is not supported");
        memcpy(name, text->data + done, (size_t)(end - text->data) - done);
        size_t index = *name ? strtoul(name, &rest, 10) : next++;
        const Value *value = *rest             ? jinja_find(&args->named, name)
                             : index < args->n ? &args->items[index]
                                               : NULL;
        if (!value || *name == '-')
            jinja_fail(in->arena, STATUS_UNSUPPORTED, "format() of {%s} is not supported", name);
        jinja_print(in, &buffer, *value);
        at = (size_t)(end - text->data);
        done = at + 1;
    }
    OriginText part = jinja_part(in->arena, text, done, text->size);
    jinja_add_text(in->arena, &buffer, &part);
    return jinja_take(in->arena, &buffer);
}

const Function jinja_text_methods[] = {
    {"strip", "; chars", text_strip},
    {"lstrip", "; chars", text_lstrip},
    {"rstrip", "; chars", text_rstrip},
    {"split", "; sep maxsplit", text_split},
    {"rsplit", "; sep maxsplit", text_rsplit},
    {"splitlines", "; keepends", text_splitlines},
    {"startswith", "prefix", text_startswith},
    {"endswith", "suffix", text_endswith},
    {"removeprefix", "prefix", text_removeprefix},
    {"removesuffix", "suffix", text_removesuffix},
    {"partition", "sep", text_partition},
    {"rpartition", "sep", text_rpartition},
    {"find", "sub; start", text_find},
    {"rfind", "sub; start", text_rfind},
    {"index", "sub; start", text_index},
    {"count", "sub", text_count},
    {"replace", "old new; count", text_replace},
    {"join", "iterable", text_join},
    {"upper", "", text_upper},
    {"lower", "", text_lower},
    {"capitalize", "", text_capitalize},
    {"title", "", text_title},
    {"isdigit", "", text_isdigit},
    {"isnumeric", "", text_isdigit},
    {"isdecimal", "", text_isdigit},
    {"isalpha", "", text_isalpha},
    {"isspace", "", text_isspace},
    {"format", NULL, text_format},
    {0},
};
