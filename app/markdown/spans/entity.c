#include "app/markdown/spans/entity.h"

#include "kernels/base/text/utf8.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t code;
} entities[] = {
    {"amp", '&'},      {"lt", '<'},       {"gt", '>'},       {"quot", '"'},     {"apos", '\''},
    {"nbsp", 0xA0},    {"copy", 0xA9},    {"reg", 0xAE},     {"trade", 0x2122}, {"hellip", 0x2026},
    {"mdash", 0x2014}, {"ndash", 0x2013}, {"lsquo", 0x2018}, {"rsquo", 0x2019}, {"ldquo", 0x201C},
    {"rdquo", 0x201D}, {"laquo", 0xAB},   {"raquo", 0xBB},   {"bull", 0x2022},  {"middot", 0xB7},
    {"deg", 0xB0},     {"plusmn", 0xB1},  {"times", 0xD7},   {"divide", 0xF7},  {"minus", 0x2212},
    {"le", 0x2264},    {"ge", 0x2265},    {"ne", 0x2260},    {"asymp", 0x2248}, {"infin", 0x221E},
    {"sum", 0x2211},   {"radic", 0x221A}, {"pi", 0x3C0},     {"alpha", 0x3B1},  {"beta", 0x3B2},
    {"gamma", 0x3B3},  {"delta", 0x3B4},  {"lambda", 0x3BB}, {"mu", 0x3BC},     {"sigma", 0x3C3},
    {"omega", 0x3C9},  {"larr", 0x2190},  {"uarr", 0x2191},  {"rarr", 0x2192},  {"darr", 0x2193},
    {"harr", 0x2194},  {"rArr", 0x21D2},  {"hArr", 0x21D4},  {"check", 0x2713}, {"euro", 0x20AC},
    {"pound", 0xA3},   {"yen", 0xA5},     {"cent", 0xA2},    {"sect", 0xA7},    {"para", 0xB6},
    {"frac12", 0xBD},  {"frac14", 0xBC},  {"frac34", 0xBE},  {"sup2", 0xB2},    {"sup3", 0xB3},
    {"eacute", 0xE9},  {"egrave", 0xE8},  {"agrave", 0xE0},  {"ccedil", 0xE7},  {"ntilde", 0xF1},
    {"auml", 0xE4},    {"ouml", 0xF6},    {"uuml", 0xFC},    {"Auml", 0xC4},    {"Ouml", 0xD6},
    {"Uuml", 0xDC},    {"szlig", 0xDF},   {"aring", 0xE5},   {"oslash", 0xF8},  {"aelig", 0xE6},
    {"lbrace", '{'},   {"rbrace", '}'},   {"lsqb", '['},     {"rsqb", ']'},     {"vert", '|'},
    {"ast", '*'},      {"lowbar", '_'},   {"num", '#'},      {"grave", '`'},    {"bsol", '\\'},
};

static uint32_t valid(unsigned long code) {
    bool none = !code || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000);
    return none ? UTF8_REPLACEMENT : (uint32_t)code;
}

static size_t read_number(const char *text, size_t n, uint32_t *code) {
    const bool hex = n > 2 && (text[2] == 'x' || text[2] == 'X');
    const char *digits = hex ? "0123456789abcdefABCDEF" : "0123456789";
    size_t from = hex ? 3 : 2, at = from;
    char number[9] = "";
    while (at < n && at - from < 8 && text[at] && strchr(digits, text[at])) at++;
    if (at == from || at >= n || text[at] != ';' || at - from > (hex ? 6 : 7)) return 0;
    memcpy(number, text + from, at - from);
    *code = valid(strtoul(number, NULL, hex ? 16 : 10));
    return at + 1;
}

size_t entity_read(const char *text, size_t n, uint32_t *code) {
    if (n > 1 && text[1] == '#') return read_number(text, n, code);
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
        size_t size = strlen(entities[i].name);
        if (n < size + 2 || memcmp(text + 1, entities[i].name, size) != 0 || text[size + 1] != ';') continue;
        *code = entities[i].code;
        return size + 2;
    }
    return 0;
}
