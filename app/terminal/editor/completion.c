// Tab: what the caller offers, put in or listed.
#include "app/terminal/editor/completion.h"

#include "app/terminal/editor/editor_internal.h"
#include "kernels/base/text/utf8.h"

#include <stdlib.h>
#include <string.h>

#include "app/terminal/tty.h"
#include "kernels/base/array.h"

#define MAX_LISTED 200

typedef struct Candidate {
    char *text;
    char final;
    int group;
} Candidate;

struct Completion {
    Candidate *candidates;
    size_t count, capacity;
    size_t start;
    int group; // of what is added
};

void completion_add(Completion *completion, size_t start, const char *text, char final) {
    if (!array_reserve(&completion->candidates, sizeof *completion->candidates, completion->count, 1,
                       &completion->capacity))
        return; // one candidate less
    char *copy = text_clean(text, strlen(text), NULL);
    if (!copy) return;
    completion->start = start;
    completion->candidates[completion->count++] = (Candidate){copy, final, completion->group};
}

void completion_begin_group(Completion *completion) {
    completion->group++;
}

// Numbers in them by their size: turn 2.1 is before 10.1.
static int by_group_and_text(const void *a, const void *b) {
    const Candidate *one = a, *other = b;
    return one->group != other->group ? one->group - other->group : strverscmp(one->text, other->text);
}

// Bytes that all candidates begin with, whole characters.
static size_t common_size(const Completion *completion) {
    const char *first = completion->candidates[0].text;
    size_t n = strlen(first);
    for (size_t i = 1; i < completion->count; i++) {
        size_t same = 0;
        while (same < n && first[same] == completion->candidates[i].text[same]) same++;
        n = same;
    }
    while (n && utf8_continues(first[n])) n--;
    return n;
}

// A newline or tab in a name would tear the columns of a list.
static void add_shown(Text *out, const char *text) {
    for (const char *c = text; *c; c++) text_add(out, (unsigned char)*c < ' ' ? "?" : c, 1);
}

static int characters_of(const char *text) {
    int characters = 0;
    for (const char *c = text; *c; c++) characters += !utf8_continues(*c);
    return characters;
}

static int width_of(const char *text) {
    wchar_t *wide = text_to_wide(text);
    int width = wide ? wcswidth(wide, wcslen(wide)) : -1;
    free(wide);
    return width < 0 ? characters_of(text) : width; // control characters among them have a place each
}

// A folder is told from other names by its slash.
static bool is_folder(const Candidate *candidate) {
    return candidate->final == '/';
}

static void list(Editor *editor, const Completion *completion) {
    size_t count = completion->count < MAX_LISTED ? completion->count : MAX_LISTED;
    int widest = 1, screen = tty_width();
    for (size_t i = 0; i < count; i++) {
        int width = width_of(completion->candidates[i].text) + is_folder(&completion->candidates[i]);
        if (width > widest) widest = width;
    }
    size_t columns = (size_t)(screen / (widest + 2));
    if (columns < 1) columns = 1;
    size_t rows = (count + columns - 1) / columns;
    Text out = {0};
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = row; i < count; i += rows) {
            const char *text = completion->candidates[i].text;
            const bool folder = is_folder(&completion->candidates[i]);
            add_shown(&out, text);
            if (folder) text_add(&out, "/", 1);
            int blanks = i + rows < count ? widest + 2 - width_of(text) - folder : 0;
            for (; blanks > 0; blanks--) text_add(&out, " ", 1);
        }
        text_add(&out, "\r\n", 2);
    }
    paint_leave(editor);
    tty_write(out.bytes);
    text_free(&out);
    if (count < completion->count) tty_write("…\r\n");
    paint_redraw(editor);
}

// Puts `n` bytes of the first candidate in the place of what stands between start and the cursor.
static bool put_in(Editor *editor, const Completion *completion, const char *typed, size_t n, char final) {
    char *text = malloc(n + 2);
    if (!text) return false;
    memcpy(text, completion->candidates[0].text, n);
    text[n] = final;
    text[n + 1] = 0;
    el_wdeletestr(editor->el, characters_of(typed));
    bool ok = line_insert(editor, text);
    free(text);
    return ok;
}

static KeyEffect complete_at(Editor *editor, Completion *completion, char *text, size_t cursor) {
    editor->options.complete(editor->options.context, text, cursor, completion);
    if (!completion->count || completion->start > cursor) return KEY_BELL;
    qsort(completion->candidates, completion->count, sizeof *completion->candidates, by_group_and_text);
    text[cursor] = 0;
    const char *typed = text + completion->start;
    size_t common = common_size(completion);
    bool single = completion->count == 1;
    bool further = single || common > strlen(typed) ||
                   (common == strlen(typed) && strncmp(typed, completion->candidates[0].text, common) != 0);
    if (further) {
        editor->tabs = single ? 0 : 1;
        char final = single ? completion->candidates[0].final : 0;
        return put_in(editor, completion, typed, common, final) ? KEY_CHANGED : KEY_BELL;
    }
    if (++editor->tabs < 2) return KEY_BELL;
    list(editor, completion);
    return KEY_DONE;
}

KeyEffect completion_tab(Editor *editor) {
    if (!editor->options.complete) return KEY_BELL;
    char *text = line_text(editor);
    if (!text) return KEY_BELL;
    Completion completion = {0};
    KeyEffect result = complete_at(editor, &completion, text, line_cursor(editor));
    for (size_t i = 0; i < completion.count; i++) free(completion.candidates[i].text);
    free(completion.candidates);
    free(text);
    return result;
}
