// A text through a small context of a model's first layer, from which tokens leave again and again.
#ifndef PALAVER_TESTS_SHIFT_STREAM_H
#define PALAVER_TESTS_SHIFT_STREAM_H

#include "engine/engine_internal.h"

typedef struct ShiftStream {
    Engine *engine;
    KvCache cache;
    int n_layers; // that the model's files have
    int vocab;
} ShiftStream;

// The model ROOT/NAME, of one layer: its keys and values depend on token and position alone, so what is left gives the
// same logits whether it was shifted, in either way, or read again. Ends the test where that fails.
ShiftStream shift_stream_open(const char *root, const char *name, const char *device);
void shift_stream_close(ShiftStream *s);

// A text of n tokens, two and then three tokens at a time. Returns the largest distance from reading what is left
// again;
// *control: the largest from reading it at its old places.
double shift_stream_text(ShiftStream *s, const int32_t *ids, int n, bool in_place, double *control);

#endif
