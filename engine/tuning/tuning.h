// How long a step of so many rows takes with the linear layers of one shape by each implementation, and from how many rows
// on which is best. For `palaver tune` and `palaver bench --dispatch`.
#ifndef PALAVER_ENGINE_TUNING_H
#define PALAVER_ENGINE_TUNING_H

#include "engine/tuning/dispatch_file.h"
#include "engine/engine.h"
#include "kernels/tuning.h"

enum {
    TUNING_MOST_LAYERS =
        24,                 // kinds of linear layers, those of different shapes or types counted as different
    TUNING_MOST_ROWS = 128, // of x
    TUNING_COUNTS = 24,
};

// Numbers of rows that are measured, ascending: every one at which a kernel takes another size, and some between.
extern const int TUNING_ROWS[TUNING_COUNTS];

// All layers of a kind that have the same shape and type.
typedef struct TuningLayer {
    LinearKind kind;
    LinearShape shape;
    int n_layers;
} TuningLayer;

typedef struct TuningTimes {
    double seconds
        [LINEAR_N_WAYS]; // a step with the layers by this way; 0: this way has no kernel. [LINEAR_BY_TABLE] is not used
    LinearWay choice; // of the table in force
} TuningTimes;

typedef struct Tuning Tuning;

// Makes room for them in the options of an engine.
void tuning_set_room(EngineOptions *options);

// For an engine with room for TUNING_MOST_ROWS rows and slots, whose cache is empty and afterwards worthless.
// STATUS_UNSUPPORTED: the backend has one implementation of everything. On failure *tuning is NULL.
Status tuning_open(Engine *engine, Tuning **tuning, Error *error);
void tuning_close(Tuning *tuning);

int tuning_n_layers(const Tuning *tuning);
const TuningLayer *tuning_layer(const Tuning *tuning, int i);

// Times all of them [tuning_n_layers] for n rows of x, n <= TUNING_MOST_ROWS.
Status tuning_measure(Tuning *tuning, int n, TuningTimes *times, Error *error);
// Bytes a second at which the card reads.
Status tuning_read_speed(Tuning *tuning, double *bytes_a_second, Error *error);

// The fastest way of a layer, and how much longer than that another takes (1: as long).
LinearWay tuning_best(const TuningTimes *times);
double tuning_excess(const TuningTimes *times, LinearWay way);

// From how many rows on the built-in table has the library for such a layer; 0: it has no such row.
int tuning_library_from(const Tuning *tuning, const LinearShape *shape);

// The row of a table that comes closest to the best way for all `counts` numbers of rows [counts], with times [counts].
// Where that is the flat GEMM to the last, it goes on to `beyond`, if that is more.
DispatchRow tuning_row(const LinearShape *shape, const int *rows, const TuningTimes *times, int counts,
                       int beyond);

#endif
