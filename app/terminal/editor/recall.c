// Earlier turns: the arrows.
#include "app/terminal/editor/editor_internal.h"

#include <stdlib.h>

void recall_reset(Editor *editor) {
    free(editor->draft);
    free(editor->search.original);
    editor->draft = NULL;
    editor->search = (Search){0};
    editor->recalled = editor->history ? history_count(editor->history) : 0;
}

static bool show_entry(Editor *editor, size_t i) {
    size_t count = history_count(editor->history);
    if (editor->recalled == count && i != count) {
        free(editor->draft);
        editor->draft = line_text(editor);
        if (!editor->draft) return false;
    }
    editor->recalled = i;
    return line_replace(editor, i == count ? (editor->draft ? editor->draft : "")
                                           : history_entry(editor->history, i));
}

KeyEffect recall_older(Editor *editor) {
    if (editor->recalled == 0) return KEY_BELL;
    return show_entry(editor, editor->recalled - 1) ? KEY_CHANGED : KEY_BELL;
}

KeyEffect recall_newer(Editor *editor) {
    if (editor->recalled >= history_count(editor->history)) return KEY_BELL;
    return show_entry(editor, editor->recalled + 1) ? KEY_CHANGED : KEY_BELL;
}
