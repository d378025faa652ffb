// From the bytes a terminal sends to keys: UTF-8, control characters, escape sequences and bracketed paste.
// Sequences that mean nothing to the editor are swallowed whole, so that an unknown key never types its tail.
#ifndef PALAVER_APP_KEYS_H
#define PALAVER_APP_KEYS_H

#include <stdbool.h>
#include <stdint.h>
#include <wchar.h>

#include "app/terminal/text_shown.h"

// Every key the editor knows. The order is free; there are at most 32 from KEY_ENTER on, because the
// editor gives each one of the 32 C1 codes in libedit's key map, which no text contains.
typedef enum Key {
    KEY_NONE,   // nothing yet, or nothing that matters
    KEY_CHAR,   // *character
    KEY_QUIT,   // Ctrl-\: not the editor's business
    KEY_REPORT, // no key: keys->column is where the terminal says that its cursor is (CSI 6 n asks)
    KEY_ENTER,
    KEY_NEWLINE, // Ctrl-J, Alt-Enter, Shift-Enter where the terminal tells
    KEY_PASTE,   // keys->paste is what was pasted; the caller empties it
    KEY_COMPOSE, // Ctrl-G
    KEY_TAB,
    KEY_INTERRUPT,
    KEY_SUSPEND,
    KEY_EOF,
    KEY_UP,
    KEY_DOWN,
    KEY_LEFT,
    KEY_RIGHT,
    KEY_HOME,
    KEY_END,
    KEY_WORD_LEFT,
    KEY_WORD_RIGHT,
    KEY_BACKSPACE,
    KEY_DELETE,
    KEY_KILL_END,
    KEY_KILL_ALL,
    KEY_KILL_WORD_LEFT,
    KEY_KILL_WORD_RIGHT,
    KEY_YANK,
    KEY_TRANSPOSE,
    KEY_CLEAR,
    KEY_SEARCH,
    KEY_FINISH, // the last four are the editor's own: libedit's end of line,
    KEY_PLACE,  // a text that waits to be put in,
    KEY_REDRAW, // nothing but drawing again,
    KEY_INSERT, // and a character
    KEY_COUNT
} Key;

// Decoder state; all zero is the beginning.
typedef struct Keys {
    int state;
    char bytes[32]; // of the character or sequence that is under way
    int n;
    bool bad;   // a byte came that is no UTF-8, and was left out; the caller takes it back
    int column; // of KEY_REPORT, from 0
    Text paste;
    bool paste_lost; // no memory for the paste, or longer than KEYS_MAX_PASTE: its rest was dropped
} Keys;

#define KEYS_MAX_PASTE ((size_t)16 << 20)

// Takes one byte. KEY_CHAR fills *character, never a control character.
Key keys_feed(Keys *keys, unsigned char byte, wchar_t *character);
// Whether ESC has come and nothing behind it: a key of its own where nothing follows at once. keys_escape() takes it
// for that.
bool keys_wait_behind_escape(const Keys *keys);
void keys_escape(Keys *keys);
void keys_free(Keys *keys);

#endif
