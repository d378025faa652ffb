// What the tests of layers that recur have alike: texts, each with its states and its slots, of which steps read some.
#ifndef PALAVER_TESTS_GPU_DELTA_INTERNAL_H
#define PALAVER_TESTS_GPU_DELTA_INTERNAL_H

#include "tests/gpu/model/side.h"

enum { TEXTS = 3, TEXT = 130, PAGE = 256, STEP_MOST = TEXTS * TEXT };

typedef struct DeltaCase {
    Case c;
    DeltaRule rule;
} DeltaCase;

// One text's place: two states in turns, a page of slots.
typedef struct Place {
    int done; // tokens that were read
    int32_t state;
} Place;

typedef struct Texts {
    const DeltaCase *d;
    Side side;
    Place places[TEXTS];
    int layer; // that recurs, of what is done op by op
} Texts;

// A step of the next n[i] tokens of each text, and what it is told by.
typedef struct TextStep {
    Step step;
    int32_t ids[STEP_MOST], positions[STEP_MOST], slots[STEP_MOST], pages[TEXTS];
    StepSequence sequences[TEXTS];
    int text_of[TEXTS];
} TextStep;

// Texts begin again.
void texts_begin(Texts *t);
// On a backend of these ops; to side_close().
void texts_open(Texts *t, const Ops *ops, const char *device, const DeltaCase *d, const TestModel *model);
// A step of the next n[i] tokens of each text, and that it has been.
void texts_make_step(Texts *t, const int n[TEXTS], StepKind kind, TextStep *to);
void texts_end_step(Texts *t, const int n[TEXTS]);

// Of y and of states, read and decoded, by what inputs are rounded to: of one of 16 bits y is by 4e-4 another, in bf16 by 4e-3, and
// by 1.3e-2 where a row of it becomes integers of 8 bits (of normal numbers, heads of 8 to 128, 75 tokens).
typedef struct Bounds {
    double reading, decoding, logits;
} Bounds;

Bounds delta_bounds(const Case *c);

// Op by op against the CPU (delta_ops.c), and whole models (delta_models.c).
void delta_test_ops(const Ops *cuda, const DeltaCase *d, const TestModel *model);
void delta_test_model(const Ops *cuda, const DeltaCase *d, const TestModel *model);

#endif
