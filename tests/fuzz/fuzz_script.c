// Hostile scripts and journals: the first byte chooses. Lines become turns and commands; a log becomes a
// transcript, and what is read of it is written again and read back equal.
#include "app/commands/commands.h"
#include "app/record/export.h"
#include "app/record/transcript/transcript.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/turn_lines.h"

#include <stdlib.h>
#include <string.h>

static void read_script(const char *text, size_t size) {
    TurnLines lines = {0};
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - text) - at + 1 : size - at;
        at += n;
        if (text_check("fuzz", text + at - n, n, NULL)) continue;
        if (!turn_add_line(&lines, text + at - n, n)) abort();
        if (!lines.open) {
            if (commands_is_command(lines.text) && commands_literal(lines.text) != lines.text) abort();
            turn_clear(&lines);
        }
    }
    turn_clear(&lines);
}

static void read_journal(const char *text, size_t size) {
    Transcript *first, *second;
    Error error;
    if (transcript_parse("fuzz", text, size, &first, &error)) {
        if (first || strchr(error.message, '\n')) abort();
        return;
    }
    // Every path leads back to the beginning, and changes can go on from any head.
    const Tree *tree = transcript_tree(first);
    for (int i = 0; i < tree->n; i++)
        if (tree->nodes[i].parent >= i) abort();
    for (int turn = tree_depth(tree); turn > 0; turn--)
        if (tree_turn(tree, tree_at(tree, turn)) != turn) abort();
    TreeEvicted *evicted = malloc(((size_t)tree_depth(tree) + 1) * sizeof *evicted);
    if (!evicted) abort();
    tree_find_evicted(tree, tree->head, evicted);
    free(evicted);
    for (ExportForm form = EXPORT_MD; form <= EXPORT_JSONL; form++) {
        char *out;
        size_t n;
        if (export_branch(first, (ExportNames){"fuzz", "model"}, form, &out, &n, &error) == STATUS_OK)
            free(out);
    }
    TranscriptNode turn = {.role = CHAT_USER, .text = "q", .size = 1, .reply = {.text = "r", .size = 1}};
    (void)transcript_add_turn(first, tree->head, "ask", &turn, &error);
    size_t taken, again;
    const char *log = transcript_log(first, &taken);
    if (transcript_parse("again", log, taken, &second, &error)) abort();
    if (transcript_tree(second)->n != tree->n || transcript_tree(second)->head != tree->head) abort();
    if (memcmp(transcript_log(second, &again), log, taken) || again != taken) abort();
    transcript_free(first);
    transcript_free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    if (data[0] == 's')
        read_script((const char *)data + 1, size - 1);
    else
        read_journal((const char *)data + 1, size - 1);
    return 0;
}
