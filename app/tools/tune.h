// `palaver tune MODEL`: measures which implementation of each linear layer is fastest for how many rows, and keeps the
// table for later runs; `palaver bench --dispatch` shows the same times beside what the table takes.
#ifndef PALAVER_APP_TUNE_H
#define PALAVER_APP_TUNE_H

#include "app/program.h"
#include "engine/tuning/tuning.h"

int tune_main(Program *program); // the exit status

// The times of every layer by TUNING_ROWS, with a progress bar: [TUNING_COUNTS][TUNING_MOST_LAYERS].
typedef TuningTimes TuneTimes[TUNING_COUNTS][TUNING_MOST_LAYERS];
Status tune_measure(Program *program, Tuning *tuning, TuneTimes times, Error *error);

const char *tune_layer_name(LinearKind kind); // "gate_up"
const char *tune_way_name(LinearWay way);     // "GEMV"

// `palaver bench --dispatch`: a table of these, and how often what is taken takes longer than 1.02 times the best.
Status tune_show(Program *program, FILE *out, Error *error);

#endif
