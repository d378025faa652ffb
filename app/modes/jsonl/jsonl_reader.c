#include "app/modes/jsonl/jsonl_reader.h"

#include "app/modes/line_reader.h"
#include "app/terminal/text_shown.h"

#include <stdlib.h>
#include <string.h>

struct JsonlReader {
    LineReader *lines;
    ItemQueue *queue;
    const Settings *settings;
    const char *system;
    long long number; // of the lines that are not blank
    Text gathered;    // an object over several lines
    bool open;
    long long first; // its first line
};

static bool is_blank(const Line *line) {
    for (size_t i = 0; i < line->size; i++)
        if (!strchr(" \t\r", line->text[i]) || !line->text[i]) return false;
    return !line->too_long;
}

// Takes the item over.
static Status put(JsonlReader *r, JsonlLine *item, long long number, Error *error) {
    if (!item) return error_set(error, STATUS_MEMORY, "stdin:%lld: out of memory", number);
    item->line = number;
    item->number = r->number++;
    if (item_queue_put(r->queue, item)) return STATUS_OK;
    jsonl_line_free(item);
    return STATUS_INTERRUPTED;
}

static Status put_wrong(JsonlReader *r, long long number, Error *error) {
    Error wrong;
    error_set(&wrong, STATUS_FILE, "the line is longer than %d MB", LINE_LIMIT >> 20);
    return put(r, jsonl_line_wrong(&wrong), number, error);
}

// The object that was begun over several lines, as far as it is there.
static Status put_gathered(JsonlReader *r, Error *error) {
    bool too_long = r->gathered.size > LINE_LIMIT;
    Status status = too_long
                        ? put_wrong(r, r->first, error)
                        : put(r, jsonl_line_read(r->gathered.bytes, r->gathered.size, r->settings, r->system),
                              r->first, error);
    r->gathered.size = 0;
    r->open = false;
    return status;
}

static bool is_sign(const Line *line, char sign) {
    size_t n = line->size;
    while (n && strchr(" \t\r", line->text[n - 1]) && line->text[n - 1]) n--;
    return n == 1 && line->text[0] == sign;
}

// A line that is { alone begins an object that is written over several lines, indented, and ends with one that is }
// alone. *taken: the line is part of it. A line that is neither indented nor its end is one by itself, and what came
// before is torn.
static Status gather(JsonlReader *r, const Line *line, bool *taken, Error *error) {
    bool ends = is_sign(line, '}'), begins = !r->open && is_sign(line, '{');
    bool inside = r->open && !line->too_long && (ends || !line->size || strchr(" \t", line->text[0]));
    Status status = r->open && !inside ? put_gathered(r, error) : STATUS_OK;
    *taken = begins || inside;
    if (status || !*taken) return status;
    if (begins) r->open = true, r->first = line->number;
    bool fits = r->gathered.size <= LINE_LIMIT;
    if (fits && (!text_add(&r->gathered, line->text, line->size) || !text_add(&r->gathered, "\n", 1)))
        return error_set(error, STATUS_MEMORY, "stdin:%lld: out of memory", line->number);
    return inside && ends ? put_gathered(r, error) : STATUS_OK;
}

static Status take_line(void *context, const Line *line, Error *error) {
    JsonlReader *r = context;
    bool taken;
    if (!r->open && is_blank(line)) return STATUS_OK;
    Status status = gather(r, line, &taken, error);
    if (status || taken) return status;
    if (line->too_long) return put_wrong(r, line->number, error);
    return put(r, jsonl_line_read(line->text, line->size, r->settings, r->system), line->number, error);
}

static Status take_end(void *context, Error *error) {
    JsonlReader *r = context;
    return r->open ? put_gathered(r, error) : STATUS_OK;
}

Status jsonl_reader_open(int file, ItemQueue *queue, const Settings *settings, const char *system,
                         JsonlReader **out, Error *error) {
    *out = NULL;
    JsonlReader *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, STATUS_MEMORY, "out of memory");
    *r = (JsonlReader){.queue = queue, .settings = settings, .system = system};
    json_object_seed(0); // once, before two threads use JSON
    LineReaderOptions options = {
        .file = file, .name = "stdin", .queue = queue, .line = take_line, .end = take_end, .context = r};
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
    text_free(&r->gathered);
    free(r);
    return status;
}
