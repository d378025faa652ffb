#include "app/modes/jsonl_reader.h"

#include "app/modes/line_reader.h"

#include <stdlib.h>
#include <string.h>

struct JsonlReader {
    LineReader *lines;
    ItemQueue *queue;
    const Settings *settings;
    const char *system;
    long long number; // of the lines that are not blank
};

static bool is_blank(const Line *line) {
    for (size_t i = 0; i < line->size; i++)
        if (!strchr(" \t\r", line->text[i]) || !line->text[i]) return false;
    return !line->too_long;
}

static Status take_line(void *context, const Line *line, Error *error) {
    JsonlReader *r = context;
    if (is_blank(line)) return STATUS_OK;
    JsonlLine *item;
    if (line->too_long) {
        Error wrong;
        error_set(&wrong, STATUS_FILE, "the line is longer than %d MB", LINE_LIMIT >> 20);
        item = jsonl_line_wrong(&wrong);
    } else {
        item = jsonl_line_read(line->text, line->size, r->settings, r->system);
    }
    if (!item) return error_set(error, STATUS_MEMORY, "stdin:%lld: out of memory", line->number);
    item->line = line->number;
    item->number = r->number++;
    if (item_queue_put(r->queue, item)) return STATUS_OK;
    jsonl_line_free(item);
    return STATUS_INTERRUPTED;
}

Status jsonl_reader_open(int file, ItemQueue *queue, const Settings *settings, const char *system,
                         JsonlReader **out, Error *error) {
    *out = NULL;
    JsonlReader *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, STATUS_MEMORY, "out of memory");
    *r = (JsonlReader){.queue = queue, .settings = settings, .system = system};
    json_object_seed(0); // once, before two threads use JSON
    LineReaderOptions options = {
        .file = file, .name = "stdin", .queue = queue, .line = take_line, .context = r};
    Status status = line_reader_open(&options, &r->lines, error);
    if (status)
        free(r);
    else
        *out = r;
    return status;
}

Status jsonl_reader_close(JsonlReader *r, Error *error) {
    if (!r) return STATUS_OK;
    Status status = line_reader_close(r->lines, error);
    free(r);
    return status;
}
