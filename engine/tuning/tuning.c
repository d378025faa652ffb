#include "engine/tuning/tuning.h"

#include "engine/engine_internal.h"

#include <stdlib.h>

enum { RUNS = 7 }; // of a trial, of which the fastest counts: what disturbs makes it longer only

const int TUNING_ROWS[TUNING_COUNTS] = {1,  2,  3,  4,  5,  6,  8,  9,  12, 16, 17, 20,
                                        24, 28, 32, 33, 40, 48, 56, 64, 65, 80, 96, 128};

struct Tuning {
    Engine *engine;
    const TuningOps *ops;
    int n_layers;
    TuningLayer layers[TUNING_MOST_LAYERS];
};

void tuning_set_room(EngineOptions *options) {
    options->context_size = 2 * TUNING_MOST_ROWS;
    options->n_rows = TUNING_MOST_ROWS;
}

static void add_layer(Tuning *t, LinearKind kind, int l) {
    const Forward *f = &t->engine->forward;
    LinearShape shape = t->ops->shape(f->backend, kind, f->layers[l], f->head);
    if (shape.type == DTYPE_COUNT) return;
    TuningLayer *g = t->layers;
    while (g < t->layers + t->n_layers && !(g->kind == kind && g->shape.n_out == shape.n_out &&
                                            g->shape.n_in == shape.n_in && g->shape.type == shape.type))
        g++;
    if (g == t->layers + TUNING_MOST_LAYERS) return; // more there are not of any model
    if (g == t->layers + t->n_layers) t->n_layers++, *g = (TuningLayer){kind, shape, 0};
    g->n_layers++;
}

Status tuning_open(Engine *engine, Tuning **out, Error *error) {
    *out = NULL;
    const Forward *f = &engine->forward;
    const TuningOps *ops = f->backend->ops->tuning;
    if (!ops)
        return error_set(error, STATUS_UNSUPPORTED,
                         "there is nothing to tune: on the %s each operation has one implementation",
                         f->backend->ops->name);
    if (f->max_tokens < TUNING_MOST_ROWS || f->max_logits < TUNING_MOST_ROWS ||
        engine->cache.layout.n_slots < TUNING_MOST_ROWS)
        return error_set(error, STATUS_USAGE, "measuring wants an engine for %d rows", TUNING_MOST_ROWS);
    Tuning *t = calloc(1, sizeof *t);
    if (!t) return error_set(error, STATUS_MEMORY, "no memory to tune with");
    t->engine = engine, t->ops = ops;
    for (LinearKind kind = 0; kind < LINEAR_LOGITS; kind++)
        for (int l = 0; l < f->model->shape.n_layers; l++) add_layer(t, kind, l);
    add_layer(t, LINEAR_LOGITS, 0);
    if (t->n_layers == 0) {
        tuning_close(t);
        return error_set(error, STATUS_UNSUPPORTED,
                         "there is nothing to tune: no layer of this model has a choice");
    }
    *out = t;
    return STATUS_OK;
}

void tuning_close(Tuning *t) {
    free(t);
}

int tuning_n_layers(const Tuning *t) {
    return t->n_layers;
}
const TuningLayer *tuning_layer(const Tuning *t, int i) {
    return &t->layers[i];
}

Status tuning_read_speed(Tuning *t, double *bytes_a_second, Error *error) {
    return t->ops->read_speed(t->engine->backend, bytes_a_second, error);
}

// ---- a step of n rows ---------------------------------------------------------------------------------------------

// One token at position 0 of each of n sequences, in a slot each. Where layers recur, which would want as many states, it is n
// tokens of one sequence.
static Status begin_rows(Tuning *t, int n, Error *error) {
    const Forward *f = &t->engine->forward;
    const KvCache *cache = &t->engine->cache;
    int32_t ids[TUNING_MOST_ROWS], positions[TUNING_MOST_ROWS], slots[TUNING_MOST_ROWS];
    StepSequence sequences[TUNING_MOST_ROWS];
    const bool apart = !cache->states;
    for (int i = 0; i < n; i++) {
        ids[i] = (int32_t)((i * (int64_t)7919 + 3) % f->model->shape.vocab_size);
        positions[i] = apart ? 0 : i, slots[i] = i;
        sequences[i] = (StepSequence){.first_token = i, .n_tokens = 1, .n_slots = 1, .pages = &slots[i]};
    }
    if (!apart) sequences[0] = (StepSequence){.n_tokens = n, .n_slots = n, .pages = slots, .state_from = -1};
    const Step step = {
        n, apart ? n : 1, ids, positions, slots, sequences, apart ? 1 : n, cache->slot_positions, STEP_ANY};
    return f->backend->ops->begin(f->backend, &step,
                                  kv_layer_attending(cache->layers, f->model->shape.n_layers), error);
}

static Status time_way(Tuning *t, const LinearTrial *trial, double *seconds, Error *error) {
    Backend *backend = t->engine->forward.backend;
    double best = 0;
    *seconds = 0;
    Status status = t->ops->prepare(backend, trial, error);
    if (status == STATUS_UNSUPPORTED) return STATUS_OK;
    for (int i = 0; i < RUNS && !status; i++) {
        double time;
        status = t->ops->run(backend, &time, error);
        if (i == 0 || time < best) best = time;
    }
    *seconds = best;
    return status;
}

Status tuning_measure(Tuning *t, int n, TuningTimes *times, Error *error) {
    const Forward *f = &t->engine->forward;
    const Step step = {.n_tokens = n};
    const Pass pass = forward_pass_of(f, &step, &t->engine->cache, NULL);
    Status status = begin_rows(t, n, error);
    for (int i = 0; i < t->n_layers && !status; i++) {
        LinearTrial trial = {t->layers[i].shape, LINEAR_GEMV, forward_pass_in, &pass, pass.buffers};
        times[i] = (TuningTimes){.choice = t->ops->choice(f->backend, &trial.shape, n)};
        for (; trial.way < LINEAR_N_WAYS && !status; trial.way++)
            status = time_way(t, &trial, &times[i].seconds[trial.way], error);
    }
    return status;
}

// ---- what follows from the times ------------------------------------------------------------------------------------

LinearWay tuning_best(const TuningTimes *times) {
    LinearWay best = LINEAR_LIBRARY;
    for (LinearWay way = LINEAR_GEMV; way < LINEAR_LIBRARY; way++)
        if (times->seconds[way] > 0 && times->seconds[way] < times->seconds[best]) best = way;
    return best;
}

double tuning_excess(const TuningTimes *times, LinearWay way) {
    return times->seconds[way] / times->seconds[tuning_best(times)];
}

static LinearWay way_by(const DispatchRow *row, int n) {
    return n < row->flat_from ? LINEAR_GEMV : n < row->library_from ? LINEAR_FLAT : LINEAR_LIBRARY;
}

// How much longer than by the best ways all of it takes; ways that are not there do not come into question.
static double excess_of(const DispatchRow *row, const int *rows, const TuningTimes *times, int counts) {
    double sum = 0;
    for (int i = 0; i < counts; i++) {
        LinearWay way = way_by(row, rows[i]);
        sum += times[i].seconds[way] > 0 ? tuning_excess(&times[i], way) - 1 : 1e9;
    }
    return sum;
}

int tuning_library_from(const Tuning *t, const LinearShape *shape) {
    return t->ops->library_from(t->engine->backend, shape->type);
}

DispatchRow tuning_row(const LinearShape *shape, const int *rows, const TuningTimes *times, int counts,
                       int beyond) {
    const int last = rows[counts - 1];
    DispatchRow best = {shape->n_out, shape->n_in, shape->type, 1, 1};
    double least = excess_of(&best, rows, times, counts);
    for (int flat = 1; flat <= DISPATCH_GEMV_MOST + 1; flat++)
        for (int i = 0; i <= counts; i++) {
            DispatchRow row = best;
            row.flat_from = flat, row.library_from = i < counts ? rows[i] : last + 1;
            if (row.library_from < flat) continue;
            double excess = excess_of(&row, rows, times, counts);
            if (excess < least) least = excess, best = row;
        }
    if (best.library_from > last && best.library_from < beyond) best.library_from = beyond;
    return best;
}
