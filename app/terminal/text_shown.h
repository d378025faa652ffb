// UTF-8 as the terminal side needs it: decoding that survives any bytes, wide characters for libedit, and
// the forms of a text that are safe to send and safe to show.
#ifndef PALAVER_TERMINAL_TEXT_SHOWN_H
#define PALAVER_TERMINAL_TEXT_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <wchar.h>

#include "kernels/base/status.h"
#include "kernels/base/text/text.h"
#include "kernels/base/text/utf8.h"

#define TEXT_REPLACEMENT 0xFFFDu

// Decodes the character at the beginning of n bytes. Returns how many bytes it takes: 1 and
// TEXT_REPLACEMENT for a byte that begins no valid character, 0 where n bytes are the beginning of one
// that is not complete.
size_t text_decode(const char *bytes, size_t n, uint32_t *code);

// Writes a character (replaced if it is none) to `out` and returns its 1…4 bytes.
size_t text_encode(uint32_t code, char out[4]);

// C0 other than \n and \t, DEL, C1.
bool text_is_control(uint32_t code);
// A colour for the emoji before it: terminals draw both as one, or the colour beside it.
bool text_is_skin_tone(uint32_t code);

// The text without control characters, \r\n and \r as \n, bad bytes as U+FFFD. To free(); NULL: no memory. *dropped
// (may be NULL) counts the control characters that are left out.
char *text_clean(const char *bytes, size_t n, size_t *dropped);
// How that is told: their count, and the plural of it.
#define TEXT_DROPPED "(%zu control character%s left out)"

// Whether text that enters, from wherever, can be taken: UTF-8 without zero bytes. It is taken as it is or not at all.
// STATUS_FILE says where the first bad byte is: NAME:LINE and its number in that line; `name` NULL: the number alone,
// of a text that is one line.
Status text_check(const char *name, const char *text, size_t size, Error *error);
// The index of the first byte for which it is not taken; `size`: all of it is fine.
size_t text_first_bad(const char *text, size_t size);
// What text_check() says of such a byte of `text`, of which the encoding was expected, and what there is to do.
typedef struct TextBad {
    const char *text;
    size_t at;
    const char *encoding, *way_out;
} TextBad;
Status text_refuse(const char *name, const TextBad *bad, Error *error);

// The visible form of a character that a terminal would obey instead of showing (␛, \u009b, \u202e); others as they
// are. Without UTF-8 signs of the kind ^[ and <9b>. Writes it to `sign`, without a NUL, and returns its bytes.
enum { TEXT_SIGN = UTF8_SIGN };
size_t text_harmless(uint32_t code, bool utf8, char sign[TEXT_SIGN]);
// Adds that.
bool text_add_harmless(Text *text, uint32_t code, bool utf8);
// The same for a text, whose bad bytes are shown as U+FFFD. All that is foreign and meant for people goes through here,
// or through the next.
bool text_add_shown(Text *text, const char *bytes, size_t n, bool utf8);
// For names and values that stand within a line, spelled as in errors (utf8_spell). Asks for no memory.
void text_print_escaped(FILE *out, const char *bytes, size_t n);
// The same for a message: "[%s is deleted]", text_escaped(name).text. An ellipsis ends what takes more than a path can.
enum { TEXT_ESCAPED_ROOM = 4096 };
typedef struct TextEscaped {
    char text[TEXT_ESCAPED_ROOM];
} TextEscaped;
TextEscaped text_escaped(const char *text);
// The name of a conversation or a model as it is shown wherever it stands, which is also how it is typed: the same, and
// \xNN are a blank at either end, and a backslash at the end, where a line would go on, or before what would read as such
// a sign, or before a blank or a quotation mark, where commands take it away. No two names are shown alike.
TextEscaped text_name(const char *name);
// The same as it is typed within quotation marks, which keep blanks and other backslashes.
TextEscaped text_in_marks(const char *name);
// A path as it is shown: each of its names so, and \x22 or \x27 a quotation mark at its beginning, which would be taken for
// an opening one. The last is spelled as the list of models spells it.
TextEscaped text_path(const char *path);
// What text_escaped() says as a word for a shell, in quotation marks where one would read it otherwise:
// "palaver --resume=%s".
TextEscaped text_shell_word(const char *text);

// The same in quotation marks, with \n and \t; a token's text, of which blanks are to be seen.
void text_print_quoted(FILE *out, const char *bytes, size_t n);

// Between UTF-8 and libedit's wide characters. To free(); NULL: no memory.
wchar_t *text_to_wide(const char *bytes);
char *text_from_wide(const wchar_t *wide, size_t n);

// Whether there is nothing but spaces, tabs and line ends.
bool text_is_blank(const char *text);

// The columns that n bytes of UTF-8 without newlines take.
int text_columns(const char *text, size_t n);

// What makes a noun of n plural: "s", or nothing when n is 1.
const char *text_plural(int64_t n);

// Where text stands in a terminal of `width` columns: a line that follows a \n begins in column `indent`, tabs go to
// multiples of 8, marks of width 0 and skin tones take no column, and a row wraps when the next character does not fit any more: a
// full row is column == width.
typedef struct TextPlace {
    int row, column;
} TextPlace;
typedef struct TextLayout {
    int width, indent;
} TextLayout;
TextPlace text_place(const wchar_t *wide, size_t n, TextPlace start, TextLayout layout);
// The columns a character takes at a place, a tab's depending on it.
int text_width(wchar_t c, int column, TextLayout layout);

#endif
