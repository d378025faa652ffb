#include "app/terminal/text_shown.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t text_decode(const char *bytes, size_t n, uint32_t *code) {
    *code = TEXT_REPLACEMENT;
    int length = n ? utf8_next(bytes, n, code) : 0;
    return length < 0 ? 1 : (size_t)length;
}

size_t text_encode(uint32_t code, char out[4]) {
    bool none = code > 0x10FFFF || (code >= 0xD800 && code < 0xE000);
    return (size_t)utf8_write(none ? TEXT_REPLACEMENT : code, out);
}

bool text_is_skin_tone(uint32_t code) {
    return code >= 0x1F3FB && code <= 0x1F3FF;
}

bool text_is_control(uint32_t code) {
    return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
}

size_t text_first_bad(const char *text, size_t size) {
    size_t at = 0, used;
    for (; at < size; at += used) {
        uint32_t code;
        used = text_decode(text + at, size - at, &code);
        if (!used || !text[at] || (code == TEXT_REPLACEMENT && used == 1)) break;
    }
    return at;
}

Status text_refuse(const char *name, const TextBad *bad, Error *error) {
    const char *text = bad->text;
    size_t line = 1, begin = 0;
    for (size_t i = 0; i < bad->at; i++)
        if (text[i] == '\n' || (text[i] == '\r' && text[i + 1] != '\n')) line++, begin = i + 1;
    error_set(error, STATUS_FILE, "this is no text in %s: byte %zu of the line is 0x%02x%s%s", bad->encoding,
              bad->at - begin + 1, (unsigned)(unsigned char)text[bad->at], text[bad->at] ? "; " : "",
              text[bad->at] ? bad->way_out : "");
    return name ? error_prefix(error, "%s:%zu: ", name, line) : STATUS_FILE;
}

Status text_check(const char *name, const char *text, size_t size, Error *error) {
    const TextBad bad = {text, text_first_bad(text, size), "UTF-8", "iconv converts other encodings"};
    return bad.at < size ? text_refuse(name, &bad, error) : STATUS_OK;
}

char *text_clean(const char *bytes, size_t n, size_t *dropped) {
    Text out = {0};
    if (dropped) *dropped = 0;
    bool ok = text_add(&out, "", 0);
    for (size_t i = 0; ok && i < n;) {
        uint32_t code;
        size_t used = text_decode(bytes + i, n - i, &code);
        if (!used) used = n - i; // cut at the end: one replacement
        if (code == '\r') {
            if (i + 1 == n || bytes[i + 1] != '\n') ok = text_add(&out, "\n", 1);
        } else if (!text_is_control(code)) {
            ok = text_add_code(&out, code);
        } else if (dropped) {
            ++*dropped;
        }
        i += used;
    }
    if (!ok) text_free(&out);
    return out.bytes;
}

size_t text_harmless(uint32_t code, bool utf8, char sign[TEXT_SIGN]) {
    int n;
    if (utf8 && code < 0x20 && text_is_control(code)) return text_encode(0x2400 + code, sign);
    if (utf8 && code == 0x7F) return text_encode(0x2421, sign);
    if (text_is_control(code) && code < 0x80)
        n = snprintf(sign, TEXT_SIGN, "^%c", (char)(code ^ 0x40));
    else if (text_is_control(code))
        n = snprintf(sign, TEXT_SIGN, utf8 ? "\\u%04x" : "<%02x>", (unsigned)code);
    else if (code != '\n' && code != '\t' && utf8_is_obeyed(code))
        n = snprintf(sign, TEXT_SIGN, "\\u%04x", (unsigned)code);
    else
        return text_encode(code, sign);
    return (size_t)n;
}

bool text_add_harmless(Text *text, uint32_t code, bool utf8) {
    char sign[TEXT_SIGN];
    return text_add(text, sign, text_harmless(code, utf8, sign));
}

bool text_add_shown(Text *text, const char *bytes, size_t n, bool utf8) {
    bool ok = text_add(text, "", 0);
    for (size_t i = 0; ok && i < n;) {
        uint32_t code;
        size_t used = text_decode(bytes + i, n - i, &code);
        ok = text_add_harmless(text, code, utf8);
        i += used ? used : n - i;
    }
    return ok;
}

void text_print_escaped(FILE *out, const char *bytes, size_t n) {
    for (size_t i = 0, size; i < n;) {
        char sign[TEXT_SIGN];
        i += utf8_spell(bytes + i, n - i, sign, &size);
        fwrite(sign, 1, size, out);
    }
}

typedef enum Spelling { AS_TEXT, IN_MARKS, AS_NAME, AS_PATH } Spelling; // a path: each of its names

// Whether a byte of a name cannot stand for itself: see text_name(), text_in_marks().
static bool is_misread(const char *text, size_t i, Spelling spelling) {
    const bool path = spelling == AS_PATH, first = !i || (path && text[i - 1] == '/'),
               last = !text[i + 1] || (path && text[i + 1] == '/');
    if (spelling == IN_MARKS) return text[i] == '\\' && (text[i + 1] == 'x' || text[i + 1] == 'u');
    if (text[i] == ' ') return first || last;
    if (text[i] == '"' || text[i] == '\'') return path && !i; // it would begin a path in marks
    return text[i] == '\\' && (last || strchr("xu \"'", text[i + 1]));
}

static TextEscaped escape(const char *text, Spelling spelling) {
    static const char ELLIPSIS[] = "…";
    TextEscaped escaped;
    size_t at = 0, n = strlen(text);
    for (size_t i = 0, used = 1, size; i < n; i += used, at += size) {
        if (at > sizeof escaped.text - TEXT_SIGN - sizeof ELLIPSIS) {
            memcpy(escaped.text + at, ELLIPSIS, sizeof ELLIPSIS);
            return escaped;
        }
        if (spelling != AS_TEXT && is_misread(text, i, spelling))
            size = (size_t)snprintf(escaped.text + at, TEXT_SIGN, "\\x%02x", (unsigned)text[i]), used = 1;
        else
            used = utf8_spell(text + i, n - i, escaped.text + at, &size);
    }
    escaped.text[at] = 0;
    return escaped;
}

TextEscaped text_escaped(const char *text) {
    return escape(text, AS_TEXT);
}

TextEscaped text_name(const char *name) {
    return escape(name, AS_NAME);
}

TextEscaped text_in_marks(const char *name) {
    return escape(name, IN_MARKS);
}

TextEscaped text_path(const char *path) {
    return escape(path, AS_PATH);
}

TextEscaped text_shell_word(const char *text) {
    const TextEscaped plain = text_escaped(text);
    bool quoted = !*text;
    for (const char *c = plain.text; *c; c++)
        quoted =
            quoted || ((unsigned char)*c < 0x80 && !isalnum((unsigned char)*c) && !strchr("._-+,@%", *c));
    if (!quoted) return plain;
    TextEscaped word;
    size_t at = 0;
    word.text[at++] = '\'';
    for (const char *c = plain.text; *c && at + 6 < sizeof word.text; c++) {
        static const char INNER[] = "'\\''";
        if (*c != '\'')
            word.text[at++] = *c;
        else
            memcpy(word.text + at, INNER, sizeof INNER - 1), at += sizeof INNER - 1;
    }
    memcpy(word.text + at, "'", 2);
    return word;
}

void text_print_quoted(FILE *out, const char *bytes, size_t n) {
    fputc('"', out);
    for (size_t i = 0, used; i < n; i += used) {
        used = strcspn(bytes + i, "\n\t\r");
        if (used > n - i) used = n - i;
        if (used) {
            text_print_escaped(out, bytes + i, used);
            continue;
        }
        fputs(bytes[i] == '\n' ? "\\n" : bytes[i] == '\t' ? "\\t" : "\\r", out);
        used = 1;
    }
    fputc('"', out);
}

wchar_t *text_to_wide(const char *bytes) {
    size_t n = strlen(bytes);
    if (n >= SIZE_MAX / sizeof(wchar_t) - 1) return NULL;
    wchar_t *wide = malloc((n + 1) * sizeof *wide); // never more characters than bytes
    if (!wide) return NULL;
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t used = text_decode(bytes + i, n - i, &code);
        wide[count++] = (wchar_t)code;
        i += used ? used : n - i;
    }
    wide[count] = 0;
    return wide;
}

char *text_from_wide(const wchar_t *wide, size_t n) {
    Text out = {0};
    bool ok = text_add(&out, "", 0);
    for (size_t i = 0; ok && i < n; i++) ok = text_add_code(&out, (uint32_t)wide[i]);
    if (!ok) text_free(&out);
    return out.bytes;
}

int text_width(wchar_t c, int column, TextLayout layout) {
    if (c == L'\t') {
        int to_stop = 8 - column % 8, room = layout.width - column;
        return room > 0 && to_stop > room ? room : to_stop < layout.width ? to_stop : layout.width;
    }
    if (text_is_skin_tone((uint32_t)c)) return 0;
    int width = wcwidth(c);
    return width < 0 ? 1 : width; // what cannot be shown is shown as one sign
}

TextPlace text_place(const wchar_t *wide, size_t n, TextPlace start, TextLayout layout) {
    TextPlace place = start;
    for (size_t i = 0; i < n; i++) {
        if (wide[i] == L'\n') {
            place = (TextPlace){place.row + 1, layout.indent};
            continue;
        }
        int width = text_width(wide[i], place.column, layout);
        if (place.column + width > layout.width) {
            place = (TextPlace){place.row + 1, 0};
            width = text_width(wide[i], 0, layout);
        }
        place.column += width;
    }
    return place;
}

int text_columns(const char *text, size_t n) {
    int columns = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t used = text_decode(text + i, n - i, &code);
        int width = code == '\t' ? 8 - columns % 8 : code ? wcwidth((wchar_t)code) : -1;
        columns += width < 0 ? 2 : width;
        i += used ? used : n - i;
    }
    return columns;
}

bool text_is_blank(const char *text) {
    return text[strspn(text, " \t\r\n")] == 0;
}

const char *text_plural(int64_t n) {
    return n == 1 ? "" : "s";
}
