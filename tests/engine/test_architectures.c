// The table of architectures in tests/ARCHITECTURES.md, made here by a run over the models of tests/golden: which kinds
// of files give transformers' logits, on the CPU by plain and by fast loops, and what happens when the context is full.
// What a GPU gave stands in tests/gpu/within_bounds.txt, test-gpu's own lines. A table that says something else fails,
// and build/ARCHITECTURES.md is then the one that holds.
#include "engine/model/architectures/architectures.h"
#include "engine/model/model_internal.h"
#include "tests/support/files.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/engine/shift_stream.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char TABLE[] = "tests/ARCHITECTURES.md", MADE[] = "build/ARCHITECTURES.md",
                  GPU_RUN[] = "tests/gpu/within_bounds.txt";

enum { MOST_ROWS = 128, NAMES_SIZE = 512 };

typedef struct Row {
    const char *name; // model_type
    bool gguf;        // its files may be GGUF
    char models[NAMES_SIZE];
    int n_hf, n_gguf, n_cuda, n_files, n_shift;
    char no_shift[160]; // the last of its models that cannot, and why
} Row;

typedef struct Table {
    Row rows[MOST_ROWS];
    int n;
    char *gpu; // the run's lines
} Table;

static Error error;

// ---- rows --------------------------------------------------------------------------------------------------

static Row *row_of(Table *t, const char *name) {
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->rows[i].name, name) == 0) return &t->rows[i];
    return NULL;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const Row *)a)->name, ((const Row *)b)->name);
}

static void make_rows(Table *t) {
    const Architecture *a;
    for (int i = 0; (a = model_architecture_at(i)) != NULL; i++) {
        Row *row = row_of(t, a->name);
        if (!row) {
            assert_true(t->n < MOST_ROWS);
            row = &t->rows[t->n++];
            row->name = a->name;
        }
        row->gguf |= a->gguf != NULL;
    }
    qsort(t->rows, (size_t)t->n, sizeof *t->rows, by_name);
}

// ---- one model -----------------------------------------------------------------------------------------------

// Whether the files' logits are transformers' in float32, and whose they are.
static void check_logits(const char *root, const char *file, const char *golden_of, char *architecture,
                         size_t size) {
    static const char *const DEVICES[] = {"cpu:reference", "cpu:exact"};
    GoldenSet set;
    if (golden_model_read(root, golden_of, &set, &error)) fail_msg("%s", error.message);
    for (int d = 0; d < 2; d++) {
        Engine *engine;
        if (golden_model_open(root, file, DEVICES[d], DTYPE_F32, &engine, &error))
            fail_msg("%s", error.message);
        snprintf(architecture, size, "%s", engine_model(engine)->architecture);
        for (int i = 0; i < set.n; i++) {
            const GoldenCase *c = &set.cases[i];
            const size_t n = (size_t)(c->n - c->from) * (size_t)c->vocab;
            float *logits = calloc(n, sizeof *logits);
            if (golden_model_evaluate(engine, c, c->n, logits, &error)) fail_msg("%s", error.message);
            double distance = golden_distance(logits, c->expected, n);
            if (!(distance <= 1e-5)) fail_msg("%s/%s, %s: %g", root, file, c->name, distance);
            free(logits);
        }
        engine_close(engine);
    }
    golden_model_free(&set);
}

// Counts what an eviction without reading again gives, where it is allowed.
static void check_shift(const char *root, const char *file, const char *golden_of, Row *row) {
    GoldenSet set;
    double control;
    if (golden_model_read(root, golden_of, &set, &error)) fail_msg("%s", error.message);
    ShiftStream s = shift_stream_open(root, file, "cpu:exact");
    const char *why = engine_cannot_shift(s.engine);
    for (int i = 0; i < 2 && !why; i++) {
        double worst = shift_stream_text(&s, set.cases[0].ids, set.cases[0].n, i, &control);
        if (!(worst <= 1e-5)) fail_msg("%s/%s: %g from reading again", root, file, worst);
    }
    shift_stream_close(&s);
    golden_model_free(&set);
    if (why)
        snprintf(row->no_shift, sizeof row->no_shift, "not %s: %s", file, why);
    else
        row->n_shift++;
}

// Into the row of its own architecture, or that of the folder with the same weights, which is returned.
static Row *note_model(Table *t, const char *folder, const char *file, const char *golden_of, Row *row) {
    const bool is_gguf = row != NULL;
    char root[256], architecture[64], line[256];
    snprintf(root, sizeof root, GOLDEN "/%s", folder);
    check_logits(root, file, golden_of, architecture, sizeof architecture);
    if (!row) row = row_of(t, architecture);
    if (!row) {
        fail_msg("%s/%s is of %s, which has no row", folder, file, architecture);
        return NULL;
    }
    (*(is_gguf ? &row->n_gguf : &row->n_hf))++;
    snprintf(line, sizeof line, "within bounds: %s/%s\n", folder, file);
    row->n_files++;
    row->n_cuda += strstr(t->gpu, line) != NULL;
    if (is_gguf) return row;
    check_shift(root, file, golden_of, row);
    const size_t n = strlen(row->models);
    snprintf(row->models + n, sizeof row->models - n, "%s%s", n ? ", " : "", file);
    return row;
}

static bool there_is(const char *root, const char *name, const char *inside) {
    char path[512];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s%s", root, name, inside);
    return stat(path, &status) == 0;
}

// Every model of a folder that has logits, in the order of their names, and the GGUF file of its weights behind it.
static void note_folder(Table *t, const char *folder) {
    char root[256], file[300];
    struct dirent **entries;
    snprintf(root, sizeof root, GOLDEN "/%s", folder);
    const int n = scandir(root, &entries, NULL, alphasort);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (name[0] != '.' && there_is(root, name, "/config.json") && there_is(root, name, "/golden.json")) {
            Row *row = note_model(t, folder, name, name, NULL);
            snprintf(file, sizeof file, "%.255s.gguf", name);
            if (there_is(root, file, "")) note_model(t, folder, file, name, row);
        }
        free(entries[i]);
    }
    free(entries);
}

// ---- the table -----------------------------------------------------------------------------------------------

static void write_row(FILE *out, const Row *r) {
    char cuda[32];
    const char *gguf = r->n_gguf ? "yes" : r->gguf ? "read, no test" : "–";
    const char *shift = r->n_shift ? "yes" : r->no_shift[0] ? "" : "no test";
    if (r->n_files && r->n_cuda == r->n_files)
        snprintf(cuda, sizeof cuda, "yes");
    else if (r->n_cuda)
        snprintf(cuda, sizeof cuda, "%d of %d files", r->n_cuda, r->n_files);
    else
        snprintf(cuda, sizeof cuda, "no run");
    fprintf(out, "| %s | %s | %s | %s | %s | %s%s%s | %s |\n", r->name, r->n_hf ? "yes" : "read, no test",
            gguf, r->n_files ? "yes" : "no test", cuda, shift, r->n_shift && r->no_shift[0] ? "; " : "",
            r->no_shift, r->models[0] ? r->models : "–");
}

static void write_table(FILE *out, const Table *t) {
    fputs("# Architectures, as tests found them\n\n"
          "Made by `tests/engine/test_architectures.c`, which fails where a run finds something else. HF, "
          "GGUF: files\n"
          "of that kind with the same random weights give Hugging Face transformers' logits to 1e-5 of the "
          "largest, in\n"
          "float32; CPU: by plain loops and by the fast ones; CUDA: within 16-bit bounds on the card whose "
          "lines are\n"
          "`tests/gpu/within_bounds.txt` (`make test-gpu`); shift: what is left of a full context gives "
          "without reading\n"
          "it again what reading it again gives, else why the program reads again. –: only as folders.\n\n"
          "| architecture | HF | GGUF | CPU | CUDA | shift | models of tests/golden |\n"
          "|---|---|---|---|---|---|---|\n",
          out);
    for (int i = 0; i < t->n; i++) write_row(out, &t->rows[i]);
}

static void the_table_is_what_a_run_finds(void **state) {
    (void)state;
    static Table table;
    Bytes gpu = bytes_of_file(GPU_RUN), old;
    char *text = NULL;
    size_t size = 0;
    bytes_add(&gpu, (const uint8_t *)"", 1);
    table.gpu = (char *)gpu.data;
    make_rows(&table);
    note_folder(&table, "models");
    note_folder(&table, "architectures");
    note_folder(&table, "dense");
    note_folder(&table, "experts");
    note_folder(&table, "latent");
    note_folder(&table, "convolution");
    note_folder(&table, "delta");
    note_folder(&table, "state_space");
    FILE *made = open_memstream(&text, &size);
    assert_non_null(made);
    write_table(made, &table);
    fclose(made);
    old = there_is("tests", "ARCHITECTURES.md", "") ? bytes_of_file(TABLE) : (Bytes){0};
    const bool stale = !old.data || old.size != size || memcmp(old.data, text, size) != 0;
    if (stale) {
        made = fopen(MADE, "w");
        assert_non_null(made);
        fwrite(text, 1, size, made);
        fclose(made);
    }
    bytes_free(&gpu);
    bytes_free(&old);
    free(text);
    if (stale) fail_msg("%s is stale; what the run found: cp %s %s", TABLE, MADE, TABLE);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_table_is_what_a_run_finds)};
    return test_main("architectures", argc, argv, tests);
}
