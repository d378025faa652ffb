#include "engine/tuning/dispatch_file.h"

#include "kernels/base/file.h"
#include "kernels/base/path.h"
#include "kernels/base/text/toml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 16,
    MOST_SIDE = 1 << 26, // rows or columns of a matrix
    MOST_CUDA = 1000000, // version numbers of CUDA
};
static const double LEAST_READ = 1, MOST_READ = 1e6; // GB/s

// ---- where ----------------------------------------------------------------------------------------------------

Status dispatch_file_path(const CardFacts *card, const Model *model, char *path, Error *error) {
    const DecoderShape *s = &model->shape;
    char name[sizeof card->name], tail[sizeof card->name + 160];
    snprintf(name, sizeof name, "%s", card->name);
    for (char *p = name; *p; p++) {
        bool plain = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        if (!plain) *p = '-';
    }
    snprintf(tail, sizeof tail, "dispatch/%s-%d.h%d-i%d-q%d-kv%d-d%d-v%d.%s.toml", name, card->compute,
             s->hidden_size, s->intermediate_size, s->n_heads, s->n_kv_heads, s->head_dim, s->vocab_size,
             dtype_name(model_main_type(model)));
    return path_cache(tail, path, error);
}

// ---- reading --------------------------------------------------------------------------------------------------

// A place in the file, and where what is wrong with it goes.
typedef struct Reader {
    const char *name;
    Error *error;
} Reader;

static Status refuse(const Reader *r, const TomlNode *node, const char *what) {
    const char *key = node->key ? node->key : "";
    return error_set(r->error, STATUS_FILE, "%s:%zu: %.60s%s%s", r->name, node->line, key, *key ? ": " : "",
                     what);
}

// A table has these keys, each once (TOML sees to that), and no other.
static Status check_keys(const Reader *r, const TomlNode *table, const char *const *keys, size_t n) {
    for (size_t i = 0; i < table->n_children; i++) {
        size_t k = 0;
        while (k < n && strcmp(table->children[i].key, keys[k]) != 0) k++;
        if (k == n) return refuse(r, &table->children[i], "no key of such a file");
    }
    for (size_t k = 0; k < n; k++)
        if (!toml_child(table, keys[k]))
            return error_set(r->error, STATUS_FILE, "%s:%zu: %s is missing", r->name, table->line, keys[k]);
    return STATUS_OK;
}

static Status read_integer(const Reader *r, const TomlNode *table, const char *key, int least, int most,
                           int *value) {
    const TomlNode *node = toml_child(table, key);
    char what[80];
    snprintf(what, sizeof what, "expected an integer from %d to %d", least, most);
    if (node->type != TOML_INTEGER || node->integer < least || node->integer > most)
        return refuse(r, node, what);
    *value = (int)node->integer;
    return STATUS_OK;
}

static Status read_type(const Reader *r, const TomlNode *table, DType *type) {
    const TomlNode *node = toml_child(table, "type");
    if (node->type != TOML_STRING) return refuse(r, node, "expected the name of a type");
    for (*type = DTYPE_F32; *type < DTYPE_COUNT; (*type)++)
        if (!strcmp(dtype_name(*type), node->string) && strlen(node->string) == node->length)
            return STATUS_OK;
    return refuse(r, node, "no such type");
}

static Status read_row(const Reader *r, const TomlNode *table, DispatchTable *to) {
    static const char *const KEYS[] = {"n_out", "n_in", "type", "flat_from", "library_from"};
    DispatchRow *row = &to->rows[to->n];
    if (table->type != TOML_TABLE) return refuse(r, table, "expected tables");
    Status status = check_keys(r, table, KEYS, sizeof KEYS / sizeof *KEYS);
    if (!status) status = read_integer(r, table, "n_out", 1, MOST_SIDE, &row->n_out);
    if (!status) status = read_integer(r, table, "n_in", 1, MOST_SIDE, &row->n_in);
    if (!status) status = read_type(r, table, &row->type);
    if (!status) status = read_integer(r, table, "flat_from", 1, DISPATCH_GEMV_MOST + 1, &row->flat_from);
    if (!status)
        status = read_integer(r, table, "library_from", row->flat_from, DISPATCH_LAST_N, &row->library_from);
    for (int i = 0; i < to->n && !status; i++)
        if (to->rows[i].n_out == row->n_out && to->rows[i].n_in == row->n_in && to->rows[i].type == row->type)
            status = refuse(r, table, "stands there twice");
    if (!status) to->n++;
    return status;
}

static Status read_rows(const Reader *r, const TomlNode *root, DispatchTable *to) {
    const TomlNode *rows = toml_child(root, "linear");
    if (rows->type != TOML_ARRAY || rows->n_children < 1 || rows->n_children > DISPATCH_MOST_ROWS)
        return refuse(r, rows, "expected some tables [[linear]]");
    Status status = STATUS_OK;
    for (size_t i = 0; i < rows->n_children && !status; i++) status = read_row(r, &rows->children[i], to);
    return status;
}

static Status read_date(const Reader *r, const TomlNode *root, char date[11]) {
    static const char FORM[] = "dddd-dd-dd";
    const TomlNode *node = toml_child(root, "date");
    bool good = node->type == TOML_STRING && node->length == strlen(FORM);
    for (size_t i = 0; good && FORM[i]; i++)
        good = FORM[i] == 'd' ? node->string[i] >= '0' && node->string[i] <= '9' : node->string[i] == '-';
    if (!good) return refuse(r, node, "expected a date like \"2026-11-22\"");
    memcpy(date, node->string, strlen(FORM) + 1);
    return STATUS_OK;
}

// The same card, and code of the same kind; a driver may be another by now.
static Status check_card(const Reader *r, const TomlNode *root, const CardFacts *card, CardFacts *facts) {
    const TomlNode *name = toml_child(root, "card");
    Status status = STATUS_OK;
    if (name->type != TOML_STRING || name->length != strlen(card->name) ||
        strcmp(name->string, card->name) != 0)
        status = refuse(r, name, "another card than this one");
    if (!status) status = read_integer(r, root, "compute", 1, 9999, &facts->compute);
    if (!status && facts->compute != card->compute)
        status = refuse(r, toml_child(root, "compute"), "code of another kind than this palaver's");
    if (!status) status = read_integer(r, root, "driver", 0, MOST_CUDA, &facts->driver);
    if (!status) status = read_integer(r, root, "cuda", 0, MOST_CUDA, &facts->runtime);
    if (!status) snprintf(facts->name, sizeof facts->name, "%s", card->name);
    return status;
}

static Status read_file(const Reader *r, const TomlNode *root, const CardFacts *card, DispatchFile *file) {
    static const char *const KEYS[] = {"version", "card", "compute",   "driver",
                                       "cuda",    "date", "read_gb_s", "linear"};
    int version = 0;
    const TomlNode *node = toml_child(root, "version");
    if (!node) return error_set(r->error, STATUS_FILE, "%s: version is missing", r->name);
    // First: of another version nothing else is known.
    Status status = read_integer(r, root, "version", 0, INT32_MAX, &version);
    if (!status && version != DISPATCH_FILE_VERSION)
        status = refuse(r, node, "of another version of palaver");
    if (!status) status = check_keys(r, root, KEYS, sizeof KEYS / sizeof *KEYS);
    if (!status) status = check_card(r, root, card, &file->card);
    if (!status) status = read_date(r, root, file->date);
    if (status) return status;
    node = toml_child(root, "read_gb_s");
    bool number = node->type == TOML_FLOAT || node->type == TOML_INTEGER;
    if (!number || !(node->number >= LEAST_READ && node->number <= MOST_READ))
        return refuse(r, node, "expected a speed in GB/s");
    file->read_speed = 1e9 * node->number;
    return read_rows(r, root, &file->table);
}

Status dispatch_file_parse(const char *name, const char *text, size_t length, const CardFacts *card,
                           DispatchFile *file, Error *error) {
    TomlNode *root;
    *file = (DispatchFile){0};
    Status status = toml_parse(name, text, length, &root, error);
    if (status) return error->status = status == STATUS_MEMORY ? status : STATUS_FILE;
    status = read_file(&(Reader){name, error}, root, card, file);
    toml_free(root);
    return status;
}

Status dispatch_file_read(const char *path, const CardFacts *card, DispatchFile *file, bool *missing,
                          Error *error) {
    char *text;
    size_t size;
    Status status = file_read_regular(path, MOST_BYTES, &text, &size, missing, error);
    if (status || *missing) return status;
    status = dispatch_file_parse(path, text, size, card, file, error);
    free(text);
    return status;
}

// ---- writing --------------------------------------------------------------------------------------------------

static void print_file(const DispatchFile *file, FILE *out) {
    fprintf(out,
            "# Which implementation of a linear layer serves how many rows, as `palaver tune` has measured "
            "it: GEMV\n"
            "# below flat_from, the flat GEMM below library_from, cuBLASLt from there on. Without this file "
            "palaver\n"
            "# takes what is built in for the card's class. Only steps whose rows may show in each other go "
            "by it:\n"
            "# conversations decoded together and pieces of prompts have kernels of their own.\n"
            "version = %d\ncard = \"%s\"\ncompute = %d\ndriver = %d\ncuda = %d\ndate = \"%s\"\nread_gb_s = "
            "%.1f\n",
            DISPATCH_FILE_VERSION, file->card.name, file->card.compute, file->card.driver, file->card.runtime,
            file->date, file->read_speed / 1e9);
    for (int i = 0; i < file->table.n; i++) {
        const DispatchRow *row = &file->table.rows[i];
        fprintf(out,
                "\n[[linear]]\nn_out = %d\nn_in = %d\ntype = \"%s\"\nflat_from = %d\nlibrary_from = %d\n",
                row->n_out, row->n_in, dtype_name(row->type), row->flat_from, row->library_from);
    }
}

Status dispatch_file_write(const char *path, const DispatchFile *file, Error *error) {
    char *text = NULL;
    size_t size;
    for (const char *p = file->card.name; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
            return error_set(error, STATUS_UNSUPPORTED, "a card called %s", file->card.name);
    Status status = path_make_folder_of(path, 0755, error);
    if (status) return status;
    FILE *out = open_memstream(&text, &size);
    if (out) print_file(file, out);
    if (!out || fclose(out))
        status = error_set(error, STATUS_MEMORY, "no memory for a dispatch table");
    else
        status = file_write(path, text, size, 0644, error);
    free(text);
    return status;
}
