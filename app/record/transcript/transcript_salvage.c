// What is whole of a damaged log: every record that can still be read, with the turns under the names that they get.
#include "app/record/transcript/transcript_salvage.h"

#include "app/record/transcript/transcript_internal.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/array.h"
#include "kernels/base/text/utf8.h"

#include <stdlib.h>
#include <string.h>

// Where a turn is whose name in the damaged log was `name`: turns before it may be lost, which changes the names
// behind.
typedef struct Renamed {
    char name[TREE_NAME_ROOM];
    int index;
} Renamed;

typedef struct Salvage {
    Transcript *transcript;
    TranscriptLoss *loss;
    Renamed *renamed; // [n]
    int n;
    size_t capacity;
} Salvage;

static int find(const Salvage *s, const char *name) {
    if (!strcmp(name, "0")) return TREE_START;
    for (int i = s->n - 1; i >= 0; i--)
        if (!strcmp(s->renamed[i].name, name)) return s->renamed[i].index;
    return TREE_NONE;
}

static bool remember(Salvage *s, const char *name, int index) {
    if (!array_reserve(&s->renamed, sizeof *s->renamed, (size_t)s->n, 1, &s->capacity)) return false;
    Renamed *new = &s->renamed[s->n++];
    snprintf(new->name, sizeof new->name, "%s", name);
    new->index = index;
    return true;
}

static bool set_name(const Salvage *s, json_t *record, const char *field, int index) {
    char name[TREE_NAME_ROOM];
    tree_name(transcript_tree(s->transcript), index, name);
    return !json_object_set_new(record, field, json_string(name));
}

// A turn goes behind its parent, or, where that is lost, behind the last turn that is not.
static bool rename_turn(const Salvage *s, json_t *record, const char *parent_name) {
    const Tree *tree = transcript_tree(s->transcript);
    int parent = parent_name ? find(s, parent_name) : TREE_NONE;
    if (parent == TREE_NONE) parent = tree->head;
    char node[2 * TREE_NAME_ROOM];
    snprintf(node, sizeof node, "%d.%d", tree_turn(tree, parent) + 1, tree_next_attempt(tree, parent));
    return set_name(s, record, "parent", parent) && !json_object_set_new(record, "node", json_string(node));
}

static bool take_as_it_is(Salvage *s, const json_t *record) {
    Error ignored;
    char *line = json_dumps(record, JSON_COMPACT);
    bool ok = line && !transcript_take_line(s->transcript, line, strlen(line), &ignored);
    free(line);
    return ok;
}

// Ids, figures and evictions that are damaged cost no more than themselves: the texts count, which are read again. The
// ids go first, since the rest is worth having without them.
static bool take_texts(Salvage *s, json_t *record) {
    static const char *const FACTS[2][10] = {
        {"ids", "gone"},
        {"left_out", "seed", "position", "next", "interrupted", "finish", "tokens", "seconds", "overflow"},
    };
    if (take_as_it_is(s, record)) return true;
    if (!json_is_string(json_object_get(record, "reply"))) return false;
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < 10 && FACTS[step][i]; i++) json_object_del(record, FACTS[step][i]);
        if (!take_as_it_is(s, record)) continue;
        s->loss->n_reduced++;
        return true;
    }
    return false;
}

// False: the record cannot be used.
static bool take_record(Salvage *s, json_t *record) {
    const char *kind = json_string_value(json_object_get(record, "record"));
    const char *node = json_string_value(json_object_get(record, "node"));
    char name[TREE_NAME_ROOM] = "";
    if (!kind) return false;
    bool is_turn = !strcmp(kind, "turn");
    int index = node && !is_turn ? find(s, node) : TREE_NONE;
    if (node) snprintf(name, sizeof name, "%s", node);
    if (is_turn && !rename_turn(s, record, json_string_value(json_object_get(record, "parent"))))
        return false;
    if (!is_turn && node && (index == TREE_NONE || !set_name(s, record, "node", index))) return false;
    return take_texts(s, record) && (!is_turn || remember(s, name, transcript_tree(s->transcript)->head));
}

// A log whose header is lost begins with a header that knows nothing.
static bool need_header(Salvage *s) {
    static const char HEADER[] = "{\"record\":\"palaver\",\"format\":2,\"model\":{}}";
    Error ignored;
    return s->transcript->has_header ||
           !transcript_take_line(s->transcript, HEADER, sizeof HEADER - 1, &ignored);
}

// What a person said holds no zero bytes: U+FFFD stands for them. Whether there were some.
static bool mend_zeros(json_t *record) {
    static const char *const fields[] = {"user", "system", "text"};
    bool some = false;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *value = json_object_get(record, fields[i]);
        const char *text = json_string_value(value);
        size_t left = json_string_length(value);
        if (!text || strlen(text) == left) continue;
        some = true;
        Text mended = {0};
        while (left && (*text ? text_add(&mended, text, 1) : text_add_code(&mended, UTF8_REPLACEMENT)))
            text++, left--;
        if (!left) (void)json_object_set_new(record, fields[i], json_stringn(mended.bytes, mended.size));
        text_free(&mended);
    }
    return some;
}

json_t *transcript_salvage_record(const char *line, size_t size, bool *whole) {
    json_t *record = json_loadb(line, size, JSON_ALLOW_NUL, NULL);
    const bool loaded = record;
    if (!record) { // a bad byte within a text costs that character
        char *clean = text_clean(line, size, NULL);
        record = clean ? json_loads(clean, JSON_ALLOW_NUL, NULL) : NULL;
        free(clean);
    }
    *whole = !mend_zeros(record) && loaded;
    if (json_is_object(record)) return record;
    json_decref(record);
    return NULL;
}

static bool take_line(Salvage *s, const char *line, size_t size) {
    bool whole;
    json_t *record = transcript_salvage_record(line, size, &whole);
    const char *kind = json_string_value(json_object_get(record, "record"));
    bool is_header = kind && !strcmp(kind, "palaver");
    bool ok = record && (is_header || need_header(s)) && take_record(s, record);
    s->loss->n_mended += ok && !whole;
    json_decref(record);
    return ok && whole;
}

// Reads every record [size] that can be read; a turn whose parent is lost follows the last that is not. The
// transcript's log is another one than the damaged. STATUS_FILE: there is no turn.
static Status salvage(const char *text, size_t size, Transcript **transcript, TranscriptLoss *loss,
                      Error *error) {
    Salvage s = {.loss = loss};
    *loss = (TranscriptLoss){0};
    *transcript = NULL;
    Status status = transcript_blank(&s.transcript, error);
    if (status) return status;
    long long number = 0;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        int mended = loss->n_mended;
        number++;
        if (!take_line(&s, text + at, length)) {
            loss->n_lost += loss->n_mended == mended;
            if (!loss->line) loss->line = number;
        }
        at += length + 1;
    }
    free(s.renamed);
    if (transcript_tree(s.transcript)->n) {
        *transcript = s.transcript;
        return STATUS_OK;
    }
    transcript_free(s.transcript);
    return error_set(error, STATUS_FILE, "no turn in it is whole");
}

Status transcript_recover(const char *name, const char *text, size_t size, Transcript **transcript,
                          char *note, Error *error) {
    TranscriptLoss loss;
    Error second;
    *note = 0;
    Status status = transcript_parse(name, text, size, transcript, error);
    if (status != STATUS_FILE) return status;
    if (salvage(text, size, transcript, &loss, &second)) return STATUS_FILE; // the first error says more
    const int n = transcript_tree(*transcript)->n;
    snprintf(note, TRANSCRIPT_NOTE_ROOM,
             "%s: what is whole is here, %d turn%s; records lost: %d, mended with U+FFFD: %d, "
             "kept as texts only: %d",
             error->message, n, n == 1 ? "" : "s and attempts", loss.n_lost, loss.n_mended, loss.n_reduced);
    *error = (Error){0};
    return STATUS_OK;
}
