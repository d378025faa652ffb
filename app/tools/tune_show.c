#include "app/tools/tune.h"

#include <stdlib.h>

static const double ALLOWED = 1.02; // times the best way's

typedef struct Verdict {
    int n, n_slower;
    double worst;
    LinearKind worst_kind;
    int worst_rows;
} Verdict;

static void print_time(double seconds, FILE *out) {
    if (seconds > 0)
        fprintf(out, " %9.2f", 1e6 * seconds);
    else
        fprintf(out, " %9s", "-");
}

static void print_layer(const TuningLayer *layer, TuneTimes times, int l, Verdict *verdict, FILE *out) {
    fprintf(out, "%s [%d, %d] %s, %d layer%s\n%6s %9s %9s %9s  taken\n", tune_layer_name(layer->kind),
            layer->shape.n_out, layer->shape.n_in, dtype_name(layer->shape.type), layer->n_layers,
            layer->n_layers == 1 ? "" : "s", "rows", "GEMV", "flat", "library");
    for (int i = 0; i < TUNING_COUNTS; i++) {
        const TuningTimes *t = &times[i][l];
        double excess = tuning_excess(t, t->choice);
        fprintf(out, "%6d", TUNING_ROWS[i]);
        for (LinearWay way = LINEAR_GEMV; way < LINEAR_N_WAYS; way++) print_time(t->seconds[way], out);
        fprintf(out, "  %s", tune_way_name(t->choice));
        verdict->n++;
        if (!(excess <= ALLOWED)) {
            fprintf(out, ", %.2f times %s", excess, tune_way_name(tuning_best(t)));
            verdict->n_slower++;
        }
        if (excess > verdict->worst)
            verdict->worst = excess, verdict->worst_kind = layer->kind, verdict->worst_rows = TUNING_ROWS[i];
        fputc('\n', out);
    }
}

Status tune_show(Program *program, FILE *out, Error *error) {
    TuningTimes(*times)[TUNING_MOST_LAYERS] = calloc(TUNING_COUNTS, sizeof *times);
    Tuning *tuning = NULL;
    Verdict verdict = {0};
    Status status = times ? tuning_open(program->engine, &tuning, error)
                          : error_set(error, STATUS_MEMORY, "no memory to tune with");
    if (!status) status = tune_measure(program, tuning, times, error);
    if (!status) {
        char backend[200];
        engine_describe_backend(program->engine, backend, sizeof backend);
        fprintf(out,
                "backend   %s\ndispatch  %s; microseconds a step, where these layers go so and the others as "
                "they do:\n",
                backend, engine_dispatch(program->engine)->origin);
        for (int l = 0; l < tuning_n_layers(tuning); l++)
            print_layer(tuning_layer(tuning, l), times, l, &verdict, out);
        fprintf(out, "within %.2f times the best: %d of %d; worst %.2f (%s, %d rows)\n", ALLOWED,
                verdict.n - verdict.n_slower, verdict.n, verdict.worst, tune_layer_name(verdict.worst_kind),
                verdict.worst_rows);
    }
    tuning_close(tuning);
    free(times);
    return status;
}
