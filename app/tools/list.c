#include "app/tools/list.h"

#include "app/models/facts.h"
#include "app/models/models.h"
#include "app/terminal/screen/page.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/text/format.h"
#include "kernels/base/text/json.h"
#include "kernels/base/text/utf8.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// What is printed, and beside what.
typedef struct Listing {
    Program *program;
    ModelList list;
    char standard[PATH_ROOM]; // the default model's path; "": there is none
    FactsDevice device;
    int widest, most; // columns of the names, and how many these may take
    int window;       // columns of a window that has no room for the table; 0: it has
} Listing;

static bool is_wanted(const Listing *l, const ModelEntry *entry) {
    const char *part = l->program->options.model;
    return !part || strcasestr(entry->name, part) || strcasestr(entry->name, text_escaped(part).text);
}

static bool is_default(const Listing *l, const ModelEntry *entry) {
    char path[PATH_MAX];
    return *l->standard && realpath(entry->path, path) && !strcmp(path, l->standard);
}

static bool fits(const Listing *l, const ModelFacts *facts) {
    return !l->device.available || facts->need <= l->device.available;
}

// ---- for people -------------------------------------------------------------------------------------------------

enum {                // columns
    BESIDE_NAME = 54, // of the others
    LEAST_NAME = 56,  // of a name that is shown whole in any window
    LEAST_CUT = 24,   // that are left of one that is not
    LEAST_BELOW = 8,  // the same where the rest stands below it
    INDENT = 4,       // of what is said of a model below its name
};
enum { VERDICT_ROOM = sizeof((ModelFacts *)0)->problem + 2 * FORMAT_ROOM + 16 };

static void describe_fit(const Listing *l, const ModelFacts *facts, char verdict[VERDICT_ROOM]) {
    char need[FORMAT_ROOM], have[FORMAT_ROOM];
    if (*facts->problem) {
        snprintf(verdict, VERDICT_ROOM, "no: %s", facts->problem);
        return;
    }
    format_bytes((double)facts->need, need);
    format_bytes((double)l->device.available, have);
    if (fits(l, facts))
        snprintf(verdict, VERDICT_ROOM, "yes");
    else
        snprintf(verdict, VERDICT_ROOM, "no: %s of %s", need, have);
}

// A name as it is shown; to free(), NULL: no memory.
static char *shown_name(const Listing *l, const ModelEntry *entry) {
    char *shown = NULL;
    size_t n;
    FILE *stream = open_memstream(&shown, &n);
    if (stream) page_middle(stream, entry->name, l->most);
    if (stream && fclose(stream)) free(shown), shown = NULL;
    return shown;
}

// What the columns say of a model.
typedef struct ListRow {
    char bytes[FORMAT_ROOM], type[24], count[FORMAT_ROOM], context[24], verdict[VERDICT_ROOM];
} ListRow;

static void describe(const Listing *l, const ModelEntry *entry, ListRow *row) {
    ModelFacts facts;
    *row = (ListRow){0};
    facts_of_model(entry->path, &l->program->settings.engine, &facts);
    if (facts.bytes) format_bytes((double)facts.bytes, row->bytes);
    if (facts.n_parameters) format_count(facts.n_parameters, row->count);
    if (facts.context) snprintf(row->context, sizeof row->context, "%" PRId64, facts.context);
    snprintf(row->type, sizeof row->type, "%s", facts.type);
    describe_fit(l, &facts, row->verdict);
}

static void print_row(const Listing *l, const ModelEntry *entry, FILE *out) {
    ListRow row;
    describe(l, entry, &row);
    fputs(is_default(l, entry) ? "* " : "  ", out);
    char *name = shown_name(l, entry);
    fprintf(out, "%s%*s  %-7s %-8s %-6s %-8s %-12s ", name ? name : "",
            l->widest - (name ? text_columns(name, strlen(name)) : 0), "", row.bytes, row.type, row.count,
            row.context, models_place_name(entry->place));
    free(name);
    text_print_escaped(out, row.verdict, strlen(row.verdict));
    fputc('\n', out);
}

// In a window that is too narrow for the table: the name, and below it what else the columns say, from word to word.
static void print_below(const Listing *l, const ModelEntry *entry, FILE *out) {
    ListRow row;
    char words[sizeof row + 100], *rest = words;
    int column = l->window;
    describe(l, entry, &row);
    fputs(is_default(l, entry) ? "* " : "  ", out);
    const int columns = text_columns(entry->name, strlen(entry->name));
    page_middle(out, entry->name, columns <= LEAST_NAME ? columns : l->most);
    snprintf(words, sizeof words, "%s %s, %s%s%s%s%s%s fits: %s", row.bytes, row.type,
             models_place_name(entry->place), *row.count ? ", parameters: " : "", row.count,
             *row.context ? ", context: " : "", row.context, ",", row.verdict);
    for (char *word; (word = strsep(&rest, " "));) {
        int width = text_columns(word, strlen(word));
        if (!*word) continue;
        bool breaks = column + 1 + width > l->window;
        fprintf(out, "%s%*s", breaks ? "\n" : "", breaks ? INDENT : 1, "");
        column = (breaks ? INDENT : column + 1) + width;
        text_print_escaped(out, word, strlen(word));
    }
    fputc('\n', out);
}

// The columns of the widest name of at most `most`; *longer: there are others. 0: there is none.
static int widest_name(const Listing *l, int most, bool *longer) {
    int widest = 0;
    *longer = false;
    for (size_t i = 0; i < l->list.count; i++) {
        const char *name = l->list.entries[i].name;
        const int width = is_wanted(l, &l->list.entries[i]) ? text_columns(name, strlen(name)) : 0;
        if (width > most)
            *longer = true;
        else if (width > widest)
            widest = width;
    }
    return widest;
}

// How wide the column of names is. One name that is longer than all others pushes no row out of the window, nor does it
// take the table away where the others leave room for it.
static void lay_out(Listing *l) {
    const Screen *screen = l->program->screen;
    const bool terminal = screen_traits(screen)->reply_terminal;
    const int width = screen_width(screen), room = width - BESIDE_NAME;
    bool longer;
    int widest = widest_name(l, terminal ? LEAST_NAME : INT_MAX, &longer);
    const int needed = !longer ? widest : !widest ? LEAST_NAME : widest > LEAST_CUT ? widest : LEAST_CUT;
    const bool below = terminal && screen_traits(screen)->wraps && needed > room;
    if (below)
        l->most = width - 2 > LEAST_BELOW ? width - 2 : LEAST_BELOW;
    else
        l->most = !terminal ? INT_MAX : room > needed ? room : needed;
    l->window = below ? width : 0;
    if (longer) widest = widest_name(l, INT_MAX, &longer);
    l->widest = widest > l->most ? l->most : widest;
    if (l->widest < (int)strlen("NAME")) l->widest = (int)strlen("NAME");
}

static void print_table(Listing *l, FILE *out) {
    size_t n = 0;
    lay_out(l);
    for (size_t i = 0; i < l->list.count; i++) {
        if (!is_wanted(l, &l->list.entries[i])) continue;
        if (n++ == 0 && !l->window)
            fprintf(out, "  %-*s  %-7s %-8s %-6s %-8s %-12s %s\n", l->widest, "NAME", "SIZE", "TYPE",
                    "PARAMS", "CONTEXT", "WHERE", "FITS");
        (l->window ? print_below : print_row)(l, &l->list.entries[i], out);
    }
    if (!n)
        screen_notice(l->program->screen, l->list.count ? "[no model of such a name is here]"
                                                        : "[no model is here: `make model` fetches one]");
}

// ---- for programs -----------------------------------------------------------------------------------------------

// JSON's strings are UTF-8: a path that is not is the list of its bytes, as journalctl has it.
static json_t *json_of_path(const char *path) {
    size_t n = strlen(path);
    if (utf8_valid_run(path, n) == n) return json_stringn(path, n);
    json_t *bytes = json_array();
    for (size_t i = 0; i < n && bytes; i++) {
        if (!json_array_append_new(bytes, json_integer((unsigned char)path[i]))) continue;
        json_decref(bytes);
        bytes = NULL;
    }
    return bytes;
}

static json_t *row_of(const Listing *l, const ModelEntry *entry) {
    ModelFacts facts;
    facts_of_model(entry->path, &l->program->settings.engine, &facts);
    bool known = facts.n_parameters > 0;
    return json_pack("{s:s, s:o, s:s, s:I, s:s, s:o, s:o, s:o, s:b, s:s}", "name", entry->name, "path",
                     json_of_path(entry->path), "where", models_place_name(entry->place), "bytes",
                     (json_int_t)facts.bytes, "type", facts.type, "parameters",
                     known ? json_integer(facts.n_parameters) : json_null(), "context",
                     facts.context ? json_integer(facts.context) : json_null(), "fits",
                     known ? json_boolean(fits(l, &facts)) : json_false(), "default", is_default(l, entry),
                     "problem", facts.problem);
}

static Status print_json(const Listing *l, FILE *out, Error *error) {
    json_t *rows = json_array();
    bool ok = rows != NULL;
    for (size_t i = 0; i < l->list.count && ok; i++)
        if (is_wanted(l, &l->list.entries[i]))
            ok = !json_array_append_new(rows, row_of(l, &l->list.entries[i]));
    char *text = ok ? json_harmless(rows, JSON_INDENT(1)) : NULL;
    ok = text != NULL;
    if (ok) fprintf(out, "%s\n", text);
    free(text);
    json_decref(rows);
    return ok ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
}

static void print_names(const Listing *l, FILE *out) {
    for (size_t i = 0; i < l->list.count; i++)
        if (is_wanted(l, &l->list.entries[i])) fprintf(out, "%s\n", l->list.entries[i].name);
}

// ---- all ----------------------------------------------------------------------------------------------------------

// Without a default there is nothing to mark, and no error.
static void find_default(Listing *l, const char *folder) {
    char path[PATH_ROOM], whole[PATH_MAX];
    const char *name = l->program->settings.model.path;
    Error ignored;
    if (!models_path(*name ? name : NULL, folder, path, &ignored) && realpath(path, whole))
        snprintf(l->standard, sizeof l->standard, "%s", whole);
}

int list_main(Program *program) {
    const Options *options = &program->options;
    char folder[PATH_ROOM];
    Error error;
    Listing l = {.program = program};
    const char *beside = path_program(folder) ? folder : NULL;
    Status status = models_find(beside, &l.list, &error);
    if (!status && options->names) {
        print_names(&l, stdout);
    } else if (!status) {
        find_default(&l, beside);
        facts_of_device(program->settings.engine.device, &l.device);
        if (options->json)
            status = print_json(&l, stdout, &error);
        else
            print_table(&l, stdout);
    }
    models_free(&l.list);
    return program_finish(program, status, &error);
}
