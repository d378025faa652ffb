// What of a programming language is coloured: its words, comments and strings.
#ifndef PALAVER_APP_LANGUAGE_H
#define PALAVER_APP_LANGUAGE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Language {
    const char *names;           // as the first word behind a fence says it, with a blank on each side
    const char *words;           // likewise
    const char *line_comment[2]; // what begins one; NULL: nothing
    const char *comment, *end;   // of one that may hold lines; NULL: there is none
    const char *quotes;          // characters that begin and end a string within a line
    const char *long_quotes[2];  // what begins and ends one that may hold lines
    bool any_case;               // of the words
    bool tags;                   // a word behind `<` or `</` is one
} Language;

// The language that a fence's info string names (n bytes), or NULL.
const Language *language_find(const char *info, size_t n);
bool language_has_word(const Language *language, const char *word, size_t n);

#endif
