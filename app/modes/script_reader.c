#include "app/modes/script_reader.h"

#include "app/modes/line_reader.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/turn_lines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUED = 64 }; // turns that are read ahead

struct ScriptReader {
    LineReader *lines;
    ItemQueue *queue;
    const char *name;
    TextEncoding encoding;
    TurnLines gathered; // of the turn in hand
    long long first;    // its first line
};

void script_turn_free(ScriptTurn *turn) {
    if (!turn) return;
    free(turn->text);
    free(turn);
}

static Status out_of_memory(const ScriptReader *r, long long line, Error *error) {
    return error_set(error, STATUS_MEMORY, "%s:%lld: out of memory", r->name, line);
}

// Takes the turn over.
static Status put(ScriptReader *r, const ScriptTurn *turn, Error *error) {
    ScriptTurn *item = malloc(sizeof *item);
    if (!item) {
        free(turn->text);
        return out_of_memory(r, turn->line, error);
    }
    *item = *turn;
    if (item_queue_put(r->queue, item)) return STATUS_OK;
    script_turn_free(item);
    return STATUS_INTERRUPTED;
}

static Status put_end(ScriptReader *r, long long line, const char *why, Error *error) {
    ScriptTurn turn = {.line = line};
    error_set(&turn.error, STATUS_USAGE, "%s", why);
    Status status = put(r, &turn, error);
    return status ? status : STATUS_INTERRUPTED; // what follows is not read
}

// Adds a line to the turn in hand; a turn that is whole goes to the queue.
static Status gather(ScriptReader *r, const char *line, long long number, Error *error) {
    TurnLines *turn = &r->gathered;
    if (!turn->open && (text_is_blank(line) || line[0] == '#')) return STATUS_OK;
    if (!turn->open) r->first = number;
    if (!turn_add_line(turn, line, strlen(line))) return out_of_memory(r, number, error);
    if (turn->open) return STATUS_OK;
    if (text_is_blank(turn->text)) {
        turn_clear(turn);
        return STATUS_OK;
    }
    ScriptTurn whole = {.line = r->first, .text = turn->text};
    *turn = (TurnLines){0};
    return put(r, &whole, error);
}

static Status take_line(void *context, const Line *line, Error *error) {
    ScriptReader *r = context;
    if (line->too_long) return put_end(r, line->number, "the line is too long", error);
    Error why;
    size_t size = line->size;
    char *text = malloc(size + 1);
    if (!text) return out_of_memory(r, line->number, error);
    memcpy(text, size ? line->text : "", size);
    text[size] = 0;
    Status status = encoding_take(NULL, r->encoding, &text, &size, &why)
                        ? put_end(r, line->number, why.message, error)
                        : gather(r, text, line->number, error);
    free(text);
    return status;
}

static Status take_end(void *context, Error *error) {
    ScriptReader *r = context;
    if (!r->gathered.open) return STATUS_OK;
    return put_end(r, r->first,
                   r->gathered.block ? "the input ends within this turn: \"\"\" is missing"
                                     : "the input ends within this turn: its last line ends in \\",
                   error);
}

Status script_reader_open(int file, const char *name, TextEncoding encoding, ScriptReader **out,
                          Error *error) {
    *out = NULL;
    ScriptReader *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, STATUS_MEMORY, "out of memory");
    r->name = name;
    r->encoding = encoding;
    Status status = item_queue_open(QUEUED, &r->queue, error);
    LineReaderOptions options = {.file = file,
                                 .name = name,
                                 .queue = r->queue,
                                 .on_demand = isatty(file),
                                 .line = take_line,
                                 .end = take_end,
                                 .context = r};
    if (!status) status = line_reader_open(&options, &r->lines, error);
    if (status)
        (void)script_reader_close(r, &(Error){0});
    else
        *out = r;
    return status;
}

QueueState script_reader_take(ScriptReader *r, int milliseconds, ScriptTurn **turn) {
    void *item;
    QueueState state = item_queue_take(r->queue, milliseconds, &item);
    *turn = state == QUEUE_ITEM ? item : NULL;
    return state;
}

Status script_reader_close(ScriptReader *r, Error *error) {
    if (!r) return STATUS_OK;
    Status status = line_reader_close(r->lines, error);
    for (ScriptTurn *turn; r->queue && script_reader_take(r, 0, &turn) == QUEUE_ITEM;) script_turn_free(turn);
    item_queue_close(r->queue);
    turn_clear(&r->gathered);
    free(r);
    return status;
}
