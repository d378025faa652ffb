#include "app/markdown/spans/path.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { LONGEST_WORD = 256 }; // bytes of a word that are looked at

static bool is_word(const char *text, size_t n, size_t at) {
    return at < n && isalnum((unsigned char)text[at]);
}

static size_t word_begin(const char *text, size_t at) {
    const size_t first = at > LONGEST_WORD ? at - LONGEST_WORD : 0;
    while (at > first && !strchr(" \t\n", text[at - 1])) at--;
    return at;
}

// `C:` behind nothing that is a word: a drive.
static bool is_drive(const char *text, size_t at) {
    return at > 1 && text[at - 1] == ':' && isalpha((unsigned char)text[at - 2]) &&
           (at == 2 || !is_word(text, at, at - 3));
}

// A backslash before a letter or a digit escapes nothing.
static bool has_plain_one(const char *text, size_t from, size_t to) {
    for (size_t i = from; i + 1 < to; i++)
        if (text[i] == '\\' && is_word(text, to, i + 1)) return true;
    return false;
}

// `src\.git`, `a\|b`, `dir\*.txt`: an escape in the middle of a word has other signs behind it, or before.
static bool is_in_word(const char *text, size_t n, size_t at) {
    if (!at || !is_word(text, n, at - 1) || at + 1 == n) return false;
    if (text[at + 1] == '*') return at + 2 < n && text[at + 2] == '.' && is_word(text, n, at + 3);
    return strchr(".|", text[at + 1]) && is_word(text, n, at + 2);
}

size_t path_read(const char *text, size_t n, size_t at) {
    const size_t begin = word_begin(text, at);
    const bool server = at == begin && at + 1 < n && text[at + 1] == '\\' && is_word(text, n, at + 2);
    if (!server && !is_drive(text, at) && !has_plain_one(text, begin, at) && !is_in_word(text, n, at))
        return 0;
    size_t used = 1;
    while (at + used < n && text[at + used] == '\\') used++;
    return at + used < n && ispunct((unsigned char)text[at + used]) ? used + 1 : used;
}
