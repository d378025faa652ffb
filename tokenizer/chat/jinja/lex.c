// From text to tokens: what stands outside of tags, and names, texts, numbers and operators within.
#include "tokenizer/chat/jinja/jinja_internal.h"

#include "tokenizer/chat/jinja/space.h"
#include "kernels/base/text/utf8.h"

#include <ctype.h>

typedef struct Lexer {
    Arena *arena;
    const char *text;
    size_t size, at;
    int line;
    bool line_starts; // the last tag ended with the end of a line
    char open[200];   // brackets that are open within a tag
    int n_open;
    Token *tokens;
    size_t n;
} Lexer;

static Token *push(Lexer *lexer, TokenType type) {
    lexer->tokens = jinja_grow(lexer->arena, lexer->tokens, lexer->n, sizeof *lexer->tokens);
    lexer->tokens[lexer->n] = (Token){.type = type, .line = lexer->line};
    return &lexer->tokens[lexer->n++];
}

static bool at(const Lexer *lexer, const char *text) {
    size_t length = strlen(text);
    return lexer->size - lexer->at >= length && !memcmp(lexer->text + lexer->at, text, length);
}

static void skip(Lexer *lexer, size_t n) {
    for (; n; n--) lexer->line += lexer->text[lexer->at++] == '\n';
    lexer->arena->line = lexer->line;
}

static void skip_space(Lexer *lexer) {
    skip(lexer, space_before(lexer->text + lexer->at, lexer->size - lexer->at));
}

// Behind the end of a tag: what "-" takes away, and the end of the line, which goes after blocks.
static void end_tag(Lexer *lexer, bool dash, bool block) {
    size_t from = lexer->at;
    if (dash)
        skip_space(lexer);
    else if (block && at(lexer, "\n"))
        skip(lexer, 1);
    lexer->line_starts = lexer->at > from && lexer->text[lexer->at - 1] == '\n';
}

// The data [from, to) before a tag that begins with `sign`, or '\0'.
static void add_data(Lexer *lexer, size_t from, size_t to, char sign, bool block) {
    const char *data = lexer->text + from;
    size_t size = to - from;
    if (sign == '-') {
        size -= space_after(data, size);
    } else if (sign != '+' && block) {
        const char *newline = size ? memrchr(data, '\n', size) : NULL;
        size_t line = newline ? (size_t)(newline - data) + 1 : 0;
        if ((line || lexer->line_starts) && space_before(data + line, size - line) == size - line)
            size = line;
    }
    if (size) push(lexer, LEX_DATA)->value = jinja_text(lexer->arena, data, size, JINJA_TEMPLATE);
}

// ---- within tags -------------------------------------------------------------------------------------------------

static int hex(Lexer *lexer, const char *digits, size_t n, size_t left) {
    int code = 0;
    for (size_t i = 0; i < n; i++) {
        if (i >= left || !isxdigit((unsigned char)digits[i]))
            jinja_fail(lexer->arena, STATUS_UNSUPPORTED, "a \\ that is cut short in a text");
        code = code * 16 + (digits[i] <= '9' ? digits[i] - '0' : (digits[i] | 32) - 'a' + 10);
    }
    return code;
}

// What stands for the escape behind a backslash at `in`; returns how many bytes of it were read.
static size_t escape(Lexer *lexer, Buffer *to, const char *in, size_t left) {
    static const char letters[] = "nrtabfv\\'\"", meanings[] = "\n\r\t\a\b\f\v\\'\"";
    Arena *arena = lexer->arena;
    char bytes[4] = {0};
    const char *letter = *in ? strchr(letters, *in) : NULL;
    if (*in == '\n') return 1;
    if (letter) {
        jinja_add(arena, to, &meanings[letter - letters], 1, JINJA_TEMPLATE);
        return 1;
    }
    size_t n = *in == 'x' ? 2 : *in == 'u' ? 4 : *in == 'U' ? 8 : 0;
    int code;
    if (n) {
        code = hex(lexer, in + 1, n, left - 1);
        n++;
    } else if (*in >= '0' && *in <= '7') {
        for (code = 0; n < 3 && n < left && in[n] >= '0' && in[n] <= '7'; n++) code = code * 8 + in[n] - '0';
    } else {
        if (*in == 'N')
            jinja_fail(arena, STATUS_UNSUPPORTED, "characters by their names (\\N) are not supported");
        jinja_add_string(arena, to, "\\");
        return 0;
    }
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        jinja_fail(arena, STATUS_UNSUPPORTED, "a \\ that names no character");
    jinja_add(arena, to, bytes, (size_t)utf8_write((uint32_t)code, bytes), JINJA_TEMPLATE);
    return n;
}

static void lex_text(Lexer *lexer) {
    char quote = lexer->text[lexer->at];
    Buffer buffer = {0};
    Token *token = push(lexer, LEX_TEXT);
    size_t i = lexer->at + 1;
    while (i < lexer->size && lexer->text[i] != quote) {
        if (lexer->text[i] == '\\' && i + 1 < lexer->size) {
            i++;
            i += escape(lexer, &buffer, lexer->text + i, lexer->size - i);
        } else {
            jinja_add(lexer->arena, &buffer, lexer->text + i++, 1, JINJA_TEMPLATE);
        }
    }
    if (i >= lexer->size) jinja_fail(lexer->arena, STATUS_UNSUPPORTED, "a text is not closed");
    token->value = jinja_take(lexer->arena, &buffer);
    skip(lexer, i + 1 - lexer->at);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static void lex_number(Lexer *lexer) {
    char digits[64];
    size_t n = 0, i = lexer->at;
    bool real = false;
    for (; i < lexer->size && n + 1 < sizeof digits; i++) {
        char c = lexer->text[i], next = i + 1 < lexer->size ? lexer->text[i + 1] : 0;
        bool exponent = (c == 'e' || c == 'E') && (is_digit(next) || next == '-' || next == '+');
        bool point = c == '.' && !real && is_digit(next);
        if (c == '_') continue;
        if (!is_digit(c) && !exponent && !point) break;
        real = real || exponent || point;
        digits[n++] = c;
        if (exponent && !is_digit(next)) digits[n++] = lexer->text[++i];
    }
    digits[n] = 0;
    if ((i < lexer->size && is_name(lexer->text[i])) || n > 18 + 40 * (size_t)real)
        jinja_fail(lexer->arena, STATUS_UNSUPPORTED, "the number %s… is not supported", digits);
    push(lexer, LEX_NUMBER)->value =
        real ? jinja_float(strtod(digits, NULL)) : jinja_int(strtoll(digits, NULL, 10));
    skip(lexer, i - lexer->at);
}

static void lex_name(Lexer *lexer) {
    size_t size = 0;
    while (lexer->at + size < lexer->size && is_name(lexer->text[lexer->at + size])) size++;
    char *name = jinja_alloc(lexer->arena, size + 1);
    memcpy(name, lexer->text + lexer->at, size);
    push(lexer, LEX_NAME)->name = name;
    skip(lexer, size);
}

static void lex_operator(Lexer *lexer) {
    static const struct {
        const char *text;
        int op;
    } pairs[] = {{"==", OP_EQ}, {"!=", OP_NE},    {"<=", OP_LE},
                 {">=", OP_GE}, {"**", OP_POWER}, {"//", OP_FLOOR}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (at(lexer, pairs[i].text)) {
            push(lexer, LEX_OPERATOR)->op = pairs[i].op;
            skip(lexer, 2);
            return;
        }
    char c = lexer->text[lexer->at];
    if (!c || !strchr("+-*/%~<>=.:,|()[]{}", c))
        jinja_fail(lexer->arena, STATUS_UNSUPPORTED, "the character \"%c\" in a tag", c);
    if (strchr("([{", c)) {
        if (lexer->n_open == sizeof lexer->open)
            jinja_fail(lexer->arena, STATUS_UNSUPPORTED, "too many brackets");
        lexer->open[lexer->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c) && (!lexer->n_open || lexer->open[--lexer->n_open] != c)) {
        jinja_fail(lexer->arena, STATUS_UNSUPPORTED, "a \"%c\" that closes nothing", c);
    }
    push(lexer, LEX_OPERATOR)->op = (unsigned char)c;
    skip(lexer, 1);
}

// The end of the tag, which `close` ('}' or '%') begins; with "-" or "+" before it.
static bool lex_close(Lexer *lexer, char close) {
    const char *text = lexer->text + lexer->at;
    size_t left = lexer->size - lexer->at;
    bool signed_ = left > 2 && (*text == '-' || (*text == '+' && close == '%'));
    if (lexer->n_open || left < 2u + signed_ || text[signed_] != close || text[signed_ + 1] != '}')
        return false;
    push(lexer, LEX_CLOSE)->op = (unsigned char)close;
    char sign = *text;
    skip(lexer, 2u + signed_);
    end_tag(lexer, sign == '-', close == '%' && sign != '+');
    return true;
}

static void lex_tag(Lexer *lexer, char close) {
    lexer->n_open = 0;
    push(lexer, LEX_OPEN)->op = (unsigned char)close;
    for (;;) {
        skip_space(lexer);
        if (lexer->at >= lexer->size) jinja_fail(lexer->arena, STATUS_UNSUPPORTED, "a tag is not closed");
        if (lex_close(lexer, close)) return;
        char c = lexer->text[lexer->at];
        if (c == '\'' || c == '"')
            lex_text(lexer);
        else if (is_digit(c))
            lex_number(lexer);
        else if (is_name(c))
            lex_name(lexer);
        else
            lex_operator(lexer);
    }
}

// ---- the whole ---------------------------------------------------------------------------------------------------

static void lex_comment(Lexer *lexer) {
    while (lexer->at < lexer->size && !at(lexer, "#}")) skip(lexer, 1);
    if (lexer->at >= lexer->size) jinja_fail(lexer->arena, STATUS_UNSUPPORTED, "a comment is not closed");
    char sign = lexer->text[lexer->at - 1];
    skip(lexer, 2);
    end_tag(lexer, sign == '-', sign != '+');
}

// Whether {% NAME %} stands here; *size gets its length, *begins and *ends the signs in it.
static bool at_bare_tag(const Lexer *lexer, const char *name, size_t *size, char *begins, char *ends) {
    const char *text = lexer->text + lexer->at, *end = lexer->text + lexer->size, *from = text;
    if (end - text < 2 || text[0] != '{' || text[1] != '%') return false;
    text += 2;
    *begins = *ends = 0;
    if (text < end && (*text == '-' || *text == '+')) *begins = *text++;
    text += space_before(text, (size_t)(end - text));
    size_t length = strlen(name);
    if ((size_t)(end - text) < length || memcmp(text, name, length) != 0) return false;
    text += length;
    text += space_before(text, (size_t)(end - text));
    if (text < end && (*text == '-' || *text == '+')) *ends = *text++;
    if (end - text < 2 || text[0] != '%' || text[1] != '}') return false;
    *size = (size_t)(text + 2 - from);
    return true;
}

static void lex_raw(Lexer *lexer, size_t size, bool dash) {
    char begins, ends;
    skip(lexer, size);
    end_tag(lexer, dash, false);
    size_t from = lexer->at;
    while (lexer->at < lexer->size && !at_bare_tag(lexer, "endraw", &size, &begins, &ends)) skip(lexer, 1);
    if (lexer->at >= lexer->size) jinja_fail(lexer->arena, STATUS_UNSUPPORTED, "{%% raw %%} is not closed");
    add_data(lexer, from, lexer->at, begins, true);
    skip(lexer, size);
    end_tag(lexer, ends == '-', ends != '+');
}

Token *jinja_lex(Arena *arena, const char *text, size_t size) {
    Lexer lexer = {.arena = arena, .line = 1, .line_starts = true};
    char *source = jinja_alloc(arena, size + 1);
    for (size_t i = 0; i < size; i++) { // the ends of lines are \n
        if (text[i] == '\r' && i + 1 < size && text[i + 1] == '\n') continue;
        source[lexer.size++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (lexer.size && source[lexer.size - 1] == '\n') lexer.size--;
    lexer.text = source;
    arena->line = 1;
    while (lexer.at < lexer.size) {
        size_t from = lexer.at, raw = 0;
        while (lexer.at < lexer.size && !at(&lexer, "{{") && !at(&lexer, "{%") && !at(&lexer, "{#"))
            lexer.at++;
        char kind = lexer.at < lexer.size ? source[lexer.at + 1] : 0, ends = 0;
        char sign = kind && lexer.at + 2 < lexer.size ? source[lexer.at + 2] : 0;
        if (sign != '-' && sign != '+') sign = 0;
        add_data(&lexer, from, lexer.at, sign, kind == '%' || kind == '#');
        size_t tag = lexer.at - from;
        lexer.at = from;
        skip(&lexer, tag);
        if (!kind) break;
        if (at_bare_tag(&lexer, "raw", &raw, &sign, &ends)) {
            lex_raw(&lexer, raw, ends == '-');
            continue;
        }
        skip(&lexer, 2u + (sign != 0));
        if (kind == '#')
            lex_comment(&lexer);
        else
            lex_tag(&lexer, kind == '{' ? '}' : '%');
    }
    push(&lexer, LEX_END);
    return lexer.tokens;
}
