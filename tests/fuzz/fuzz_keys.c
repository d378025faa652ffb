// What a terminal may send: bytes become keys, pastes become clean text, lines become turns. No byte makes a control
// character of a typed one, and the rules of turns hold for any text.
#include "app/terminal/editor/keys.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/turn_lines.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_clean(const char *text) {
    size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t used = text_decode(text + i, n - i, &code);
        if (!used || text_is_control(code)) abort();
        i += used;
    }
    wchar_t *wide = text_to_wide(text);
    char *back = wide ? text_from_wide(wide, wcslen(wide)) : NULL;
    if (!back || strcmp(back, text) != 0) abort();
    const TextLayout layout = {7, 2};
    TextPlace place = {0, 0};
    for (const wchar_t *c = wide; *c; c++) {
        TextPlace next = text_place(c, 1, place, layout);
        if (next.row < place.row || next.column < 0 || next.column > layout.width) abort();
        place = next;
    }
    free(wide);
    free(back);
}

// A text and what is taken off it; a turn of lines ends where the whole text ends.
static void check_turn(char *text) {
    size_t before = strlen(text);
    TurnEnd end = turn_end(text);
    turn_unblock(text);
    if (strlen(text) > before || (end == TURN_MORE_BLOCK && strlen(text) != before)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Keys keys = {0};
    for (size_t i = 0; i < size; i++) {
        wchar_t character = 0;
        Key key = keys_feed(&keys, data[i], &character);
        if (key >= KEY_PLACE) abort(); // the editor's own
        if (key == KEY_CHAR && text_is_control((uint32_t)character)) abort();
        if (key != KEY_PASTE) continue;
        char *clean = text_clean(keys.paste.bytes, keys.paste.size, NULL);
        if (!clean) abort();
        check_clean(clean);
        text_free(&keys.paste);
        free(clean);
    }
    keys_free(&keys);
    char *clean = text_clean((const char *)data, size, NULL);
    if (!clean) abort();
    check_clean(clean);
    check_turn(clean);
    free(clean);
    return 0;
}
