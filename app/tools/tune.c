#include "app/tools/tune.h"

#include "app/process/signals.h"
#include "app/tools/shape.h"
#include "engine/backend.h"
#include "engine/model/model.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *tune_layer_name(LinearKind kind) {
    static const char *const NAMES[LINEAR_N_KINDS] = {"qkv", "out", "gate_up", "down", "logits"};
    return NAMES[kind];
}

const char *tune_way_name(LinearWay way) {
    static const char *const NAMES[LINEAR_N_WAYS] = {"-", "GEMV", "flat", "library"};
    return NAMES[way];
}

Status tune_measure(Program *program, Tuning *tuning, TuneTimes times, Error *error) {
    Status status = STATUS_OK;
    for (int i = 0; i < TUNING_COUNTS && !status; i++) {
        screen_progress_steps(program->screen, "measuring", (uint64_t)i, TUNING_COUNTS);
        if (*signals_interrupt()) status = error_set(error, STATUS_INTERRUPTED, "tuning was interrupted");
        if (!status) status = tuning_measure(tuning, TUNING_ROWS[i], times[i], error);
    }
    screen_progress_end(program->screen);
    return status;
}

// ---- the table ------------------------------------------------------------------------------------------------

// Times of one layer by TUNING_ROWS, from those of all.
static void times_of(TuneTimes times, int layer, TuningTimes of[TUNING_COUNTS]) {
    for (int i = 0; i < TUNING_COUNTS; i++) of[i] = times[i][layer];
}

static const DispatchRow *row_of(const DispatchTable *table, const LinearShape *shape) {
    for (int i = 0; i < table->n; i++)
        if (table->rows[i].n_out == shape->n_out && table->rows[i].n_in == shape->n_in &&
            table->rows[i].type == shape->type)
            return &table->rows[i];
    return NULL;
}

// A row for each shape and type; where two kinds of layers share one, by the times of the first.
static void fill_table(const Tuning *tuning, TuneTimes times, DispatchTable *table) {
    table->n = 0;
    for (int l = 0; l < tuning_n_layers(tuning) && table->n < DISPATCH_MOST_ROWS; l++) {
        const LinearShape *shape = &tuning_layer(tuning, l)->shape;
        TuningTimes of[TUNING_COUNTS];
        if (row_of(table, shape)) continue;
        times_of(times, l, of);
        table->rows[table->n++] =
            tuning_row(shape, TUNING_ROWS, of, TUNING_COUNTS, tuning_library_from(tuning, shape));
    }
}

// "1 to 4" of numbers from `from` on to below `to`; a dash where there is none.
static const char *range(int from, int to, char text[32]) {
    if (to <= from)
        snprintf(text, 32, "-");
    else if (to == from + 1)
        snprintf(text, 32, "%d", from);
    else
        snprintf(text, 32, "%d to %d", from, to - 1);
    return text;
}

static void print_table(const Tuning *tuning, const DispatchFile *file, FILE *out) {
    fprintf(out, "card      %s, reads %.0f GB/s\n", file->card.name, file->read_speed / 1e9);
    fprintf(out, "%-9s %-24s %-12s %-12s %s\n", "rows of x", "", "GEMV", "flat GEMM", "library");
    for (int l = 0; l < tuning_n_layers(tuning); l++) {
        const TuningLayer *layer = tuning_layer(tuning, l);
        const DispatchRow *row = row_of(&file->table, &layer->shape);
        char what[48], gemv[32], flat[32];
        if (!row) continue;
        snprintf(what, sizeof what, "[%d, %d] %s", row->n_out, row->n_in, dtype_name(row->type));
        fprintf(out, "%-9s %-24s %-12s %-12s from %d\n", tune_layer_name(layer->kind), what,
                range(1, row->flat_from, gemv), range(row->flat_from, row->library_from, flat),
                row->library_from);
    }
    fprintf(
        out,
        "It counts for prompts and for one conversation; where rows must not show in each other, as among "
        "many\nconversations (--jsonl), each kind of step has kernels of its own.\n");
}

static Status tune(Program *program, const CardFacts *card, FILE *out, Error *error) {
    TuningTimes(*times)[TUNING_MOST_LAYERS] = calloc(TUNING_COUNTS, sizeof *times);
    DispatchFile *file = calloc(1, sizeof *file);
    Tuning *tuning = NULL;
    char path[PATH_ROOM];
    time_t now = time(NULL);
    Status status = times && file ? tuning_open(program->engine, &tuning, error)
                                  : error_set(error, STATUS_MEMORY, "no memory to tune with");
    if (!status) status = dispatch_file_path(card, engine_model(program->engine), path, error);
    if (!status) status = tuning_read_speed(tuning, &file->read_speed, error);
    if (!status) status = tune_measure(program, tuning, times, error);
    if (!status) {
        file->card = *card;
        strftime(file->date, sizeof file->date, "%Y-%m-%d", localtime(&now));
        fill_table(tuning, times, &file->table);
        print_table(tuning, file, out);
        status = dispatch_file_write(path, file, error);
    }
    if (!status) fprintf(out, "kept      %s\n", path);
    tuning_close(tuning);
    free(times);
    free(file);
    return status;
}

// ---- the command ------------------------------------------------------------------------------------------------

// Whether there is a device with a choice, before a model is read for it.
static Status find_card(const Program *program, CardFacts *card, Error *error) {
    const char *device = program->settings.engine.device ? program->settings.engine.device : "auto";
    DeviceKind kind;
    const Ops *ops;
    Error why;
    Status status = backend_device_kind(device, &kind, error);
    if (status) return status;
    if (kind == DEVICE_CPU)
        return error_set(error, STATUS_DEVICE,
                         "there is nothing to tune on device \"%s\": tune measures a GPU's kernels", device);
    if (backend_names_several(device))
        return error_set(error, STATUS_USAGE,
                         "tune measures one card's kernels: \"cuda:0\" instead of \"%s\"", device);
    status = backend_cuda_ops(&ops, &why);
    if (!status && ops->tuning) status = ops->tuning->card(device, card, &why);
    if (!status && ops->tuning) return STATUS_OK;
    return error_set(error, status == STATUS_USAGE ? status : STATUS_DEVICE,
                     "there is nothing to tune here: tune measures a GPU's kernels; %s",
                     status ? why.message : "this device has no choice of them");
}

// What is no shape, or no type of weights, is told on any machine.
static Status check_shape(const Options *options, Error *error) {
    Model *model;
    if (!options->shape) return STATUS_OK;
    Status status = shape_model(options, &model, error);
    if (!status) model_close(model);
    return status;
}

int tune_main(Program *program) {
    Error error;
    CardFacts card;
    const Options *o = &program->options;
    Status status = check_shape(o, &error);
    if (!status) status = find_card(program, &card, &error);
    if (status) return program_fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_RUNTIME);
    if (!o->shape && program_find_model(program, NULL, &error))
        return program_fail(program, &error, EXIT_MODEL);
    tuning_set_room(&program->settings.engine);
    status = o->shape ? shape_open(program, &error) : program_load_model(program, &error);
    if (status) return program_fail(program, &error, status == STATUS_USAGE ? EXIT_USAGE : EXIT_MODEL);
    return program_finish(program, tune(program, &card, stdout, &error), &error);
}
