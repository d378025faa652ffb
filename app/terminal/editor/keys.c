#include "app/terminal/editor/keys.h"

#include <stdlib.h>
#include <string.h>

enum { GROUND, CHARACTER, ESCAPE, CSI, CSI_LINUX, SS3, PASTE };

_Static_assert(KEY_COUNT - KEY_ENTER <= 32, "the editor has one C1 code for each key");

static const char PASTE_END[] = "\033[201~";

static Key control_key(unsigned char byte) {
    static const unsigned char keys[32] = {
        [1] = KEY_HOME,
        [2] = KEY_LEFT,
        [3] = KEY_INTERRUPT,
        [4] = KEY_EOF,
        [5] = KEY_END,
        [6] = KEY_RIGHT,
        [7] = KEY_COMPOSE,
        [8] = KEY_BACKSPACE,
        [9] = KEY_TAB,
        [10] = KEY_NEWLINE,
        [11] = KEY_KILL_END,
        [12] = KEY_CLEAR,
        [13] = KEY_ENTER,
        [14] = KEY_DOWN,
        [16] = KEY_UP,
        [18] = KEY_SEARCH,
        [20] = KEY_TRANSPOSE,
        [21] = KEY_KILL_ALL,
        [23] = KEY_KILL_WORD_LEFT,
        [25] = KEY_YANK,
        [26] = KEY_SUSPEND,
        [28] = KEY_QUIT,
    };
    return byte == 0x7F ? KEY_BACKSPACE : (Key)keys[byte];
}

static Key alt_key(unsigned char byte) {
    switch (byte) {
    case '\r':
    case '\n':
        return KEY_NEWLINE;
    case 0x7F:
    case '\b':
        return KEY_KILL_WORD_LEFT;
    case 'b':
        return KEY_WORD_LEFT;
    case 'f':
        return KEY_WORD_RIGHT;
    case 'd':
        return KEY_KILL_WORD_RIGHT;
    default:
        return byte < 0x20 ? control_key(byte) : KEY_NONE;
    }
}

// Arrows, Home and End, as CSI or SS3 send them; `modified`: with Ctrl or Alt.
static Key arrow_key(unsigned char final, bool modified) {
    switch (final) {
    case 'A':
        return KEY_UP;
    case 'B':
        return KEY_DOWN;
    case 'C':
        return modified ? KEY_WORD_RIGHT : KEY_RIGHT;
    case 'D':
        return modified ? KEY_WORD_LEFT : KEY_LEFT;
    case 'H':
        return KEY_HOME;
    case 'F':
        return KEY_END;
    case 'M':
        return KEY_ENTER; // the keypad's
    default:
        return KEY_NONE;
    }
}

// A complete `CSI parameters final`.
static Key csi_key(Keys *keys, unsigned char final) {
    int value[3] = {0};
    keys->bytes[keys->n] = 0;
    char *rest = keys->bytes;
    for (int i = 0; i < 3; i++) {
        value[i] = (int)strtol(rest, &rest, 10);
        if (*rest != ';') break;
        rest++;
    }
    keys->state = GROUND;
    if (*rest) return KEY_NONE; // private or malformed parameters
    if (final == 'R' && value[1] > 0) {
        keys->column = value[1] - 1;
        return KEY_REPORT;
    }
    bool modified = value[1] > 2;
    if (final == 'u') return value[0] == 13 ? (value[1] > 1 ? KEY_NEWLINE : KEY_ENTER) : KEY_NONE;
    if (final != '~') return final == 'M' ? KEY_NONE : arrow_key(final, modified);
    switch (value[0]) {
    case 1:
    case 7:
        return KEY_HOME;
    case 4:
    case 8:
        return KEY_END;
    case 3:
        return modified ? KEY_KILL_WORD_RIGHT : KEY_DELETE;
    case 27:
        return value[2] == 13 ? KEY_NEWLINE : KEY_NONE; // xterm's modifyOtherKeys
    case 200:
        keys->state = PASTE;
        keys->paste_lost = false;
        text_free(&keys->paste);
        return KEY_NONE;
    default:
        return KEY_NONE;
    }
}

static Key paste_byte(Keys *keys, unsigned char byte) {
    Text *paste = &keys->paste;
    size_t mark = sizeof PASTE_END - 1;
    char c = (char)byte;
    if (paste->size >= KEYS_MAX_PASTE || !text_add(paste, &c, 1)) {
        // Only the end still matters: keep what could be its beginning.
        keys->paste_lost = true;
        if (paste->size < mark) return KEY_NONE;
        memmove(paste->bytes + paste->size - mark, paste->bytes + paste->size - mark + 1, mark - 1);
        paste->bytes[paste->size - 1] = c;
    }
    if (paste->size < mark || memcmp(paste->bytes + paste->size - mark, PASTE_END, mark) != 0)
        return KEY_NONE;
    paste->size -= mark;
    paste->bytes[paste->size] = 0;
    keys->state = GROUND;
    return KEY_PASTE;
}

static Key ground_byte(Keys *keys, unsigned char byte, wchar_t *character) {
    keys->state = GROUND;
    keys->n = 0;
    if (byte == 0x1B) {
        keys->state = ESCAPE;
        return KEY_NONE;
    }
    if (byte < 0x20 || byte == 0x7F) return control_key(byte);
    keys->bytes[0] = (char)byte;
    keys->n = 1;
    uint32_t code;
    if (text_decode(keys->bytes, 1, &code) == 0) {
        keys->state = CHARACTER;
        return KEY_NONE;
    }
    keys->bad = keys->bad || byte >= 0x80;
    *character = (wchar_t)code;
    return byte < 0x80 ? KEY_CHAR : KEY_NONE;
}

static Key character_byte(Keys *keys, unsigned char byte, wchar_t *character) {
    // A byte that cannot go on with the character begins something of its own; the torn one is dropped.
    if ((byte & 0xC0) != 0x80) {
        keys->bad = true;
        return ground_byte(keys, byte, character);
    }
    keys->bytes[keys->n++] = (char)byte;
    uint32_t code;
    size_t used = text_decode(keys->bytes, (size_t)keys->n, &code);
    if (used == 0) return KEY_NONE;
    keys->state = GROUND;
    keys->bad = keys->bad || used < (size_t)keys->n;
    if (used < (size_t)keys->n) return KEY_NONE;
    *character = (wchar_t)code;
    return text_is_control(code) ? KEY_NONE : KEY_CHAR;
}

static Key csi_byte(Keys *keys, unsigned char byte, wchar_t *character) {
    if (byte < 0x20 || byte > 0x7E) return ground_byte(keys, byte, character); // torn: what comes counts
    if (byte == '[' && keys->n == 0) {
        keys->state = CSI_LINUX; // the Linux console's function keys: CSI [ letter
        return KEY_NONE;
    }
    if (byte >= 0x40) return csi_key(keys, byte);
    if (keys->n < (int)sizeof keys->bytes - 1) keys->bytes[keys->n++] = (char)byte;
    return KEY_NONE;
}

Key keys_feed(Keys *keys, unsigned char byte, wchar_t *character) {
    switch (keys->state) {
    case PASTE:
        return paste_byte(keys, byte);
    case CHARACTER:
        return character_byte(keys, byte, character);
    case CSI:
        return csi_byte(keys, byte, character);
    case CSI_LINUX:
        keys->state = GROUND;
        return KEY_NONE;
    case SS3:
        keys->state = GROUND;
        return byte < 0x20 ? control_key(byte) : arrow_key(byte, false);
    case ESCAPE:
        if (byte == 0x1B) return KEY_NONE;
        keys->state = byte == '[' ? CSI : byte == 'O' ? SS3 : GROUND;
        keys->n = 0;
        if (keys->state != GROUND) return KEY_NONE;
        return byte >= 0x80 ? ground_byte(keys, byte, character) : alt_key(byte);
    default:
        return ground_byte(keys, byte, character);
    }
}

bool keys_wait_behind_escape(const Keys *keys) {
    return keys->state == ESCAPE;
}

void keys_escape(Keys *keys) {
    keys->state = GROUND;
}

void keys_free(Keys *keys) {
    text_free(&keys->paste);
    *keys = (Keys){0};
}
