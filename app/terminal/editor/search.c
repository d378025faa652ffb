// Ctrl-R: a search in earlier turns.
#include "app/terminal/editor/editor_internal.h"
#include "kernels/base/text/utf8.h"

#include <stdlib.h>
#include <string.h>

static void set_search_prompt(Search *search) {
    snprintf(search->prompt, sizeof search->prompt, "(%s: %s) ", search->failed ? "not found" : "search",
             search->pattern);
}

// Looks for the pattern in the entries before `before` and shows what it finds, the cursor on it.
static void find(Editor *editor, size_t before) {
    Search *search = &editor->search;
    size_t at = 0, count = history_count(editor->history);
    size_t found = *search->pattern ? history_find(editor->history, search->pattern, before, &at) : count;
    search->failed = found == count && *search->pattern;
    if (found != count) {
        const char *entry = history_entry(editor->history, found);
        wchar_t *head = NULL;
        char *bytes = strndup(entry, at);
        if (bytes) head = text_to_wide(bytes);
        search->at = editor->recalled = found;
        line_replace(editor, entry);
        const LineInfoW *line = el_wline(editor->el);
        if (head) {
            int back = (int)(line->cursor - line->buffer) - (int)wcslen(head);
            if (back) el_cursor(editor->el, -back);
        }
        free(head);
        free(bytes);
    } else if (!*search->pattern) {
        search->at = count;
        line_replace(editor, search->original);
    }
    set_search_prompt(search);
}

KeyEffect search_step(Editor *editor) {
    Search *search = &editor->search;
    if (search->on) {
        find(editor, search->at);
        return search->failed ? KEY_CHANGED | KEY_BELL : KEY_CHANGED;
    }
    char *original = line_text(editor);
    if (!original) return KEY_BELL;
    free(search->original);
    *search = (Search){.on = true, .original = original, .at = history_count(editor->history)};
    if (!editor->draft) editor->draft = strdup(original); // Down comes back to it
    set_search_prompt(search);
    return KEY_CHANGED;
}

// The pattern without its last character, or with one more.
static void change_pattern(Search *search, wchar_t character) {
    size_t n = strlen(search->pattern);
    if (character) {
        char out[4];
        size_t size = text_encode((uint32_t)character, out);
        if (n + size >= sizeof search->pattern) return;
        memcpy(search->pattern + n, out, size);
        search->pattern[n + size] = 0;
    } else {
        while (n && utf8_continues(search->pattern[n - 1])) n--;
        search->pattern[n ? n - 1 : 0] = 0;
    }
}

Key search_key(Editor *editor, Key key, wchar_t character) {
    Search *search = &editor->search;
    size_t count = history_count(editor->history);
    switch (key) {
    case KEY_CHAR:
        change_pattern(search, character);
        find(editor, search->at < count ? search->at + 1 : count);
        return KEY_REDRAW;
    case KEY_BACKSPACE:
        change_pattern(search, 0);
        find(editor, count);
        return KEY_REDRAW;
    case KEY_INTERRUPT:
    case KEY_COMPOSE: // Ctrl-G, which ends a search everywhere else, too
        line_replace(editor, search->original);
        editor->recalled = count;
        search->on = false;
        return KEY_REDRAW;
    case KEY_REDRAW:
        return KEY_REDRAW;
    default:
        search->on = false;
        return key; // the line is as found; the key does its own
    }
}
