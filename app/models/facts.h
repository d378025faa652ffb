// What can be said of a model without loading it, and of the memory there is for it.
#ifndef PALAVER_APP_MODEL_FACTS_H
#define PALAVER_APP_MODEL_FACTS_H

#include "engine/options.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ModelFacts {
    int64_t bytes;        // of its files
    char type[24];        // that most of the weights have: "q4_1"; "": not known
    int64_t n_parameters; // 0: not known
    int64_t context;      // tokens that it is made for; 0: not known
    int64_t need;         // bytes of weights and a cache that is worth having; 0: not known
    char problem[sizeof((Error *)0)->message]; // why palaver cannot take it, without its path; "": it can
} ModelFacts;

// Opens the model's files, and closes them again. `as`: how it would be held (weights, head, cache).
void facts_of_model(const char *path, const EngineOptions *as, ModelFacts *facts);

// Where a model would run, and how much is free there: bytes; 0: nobody knows.
typedef struct FactsDevice {
    char name[256]; // "NVIDIA H200", "memory"
    int64_t available;
} FactsDevice;
// `device` as the setting has it; without a usable GPU it is the machine's memory.
void facts_of_device(const char *device, FactsDevice *found);

#endif
