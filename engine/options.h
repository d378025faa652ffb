// What an engine is opened with.
#ifndef PALAVER_ENGINE_OPTIONS_H
#define PALAVER_ENGINE_OPTIONS_H

#include "kernels/dtype.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Called between pieces of long work, at most some 20 times a second: `done` of `total` (bytes or tokens).
// Returning false asks to stop; the work ends with STATUS_INTERRUPTED and is rolled back.
typedef struct Progress {
    bool (*step)(void *user, const char *what, int64_t done, int64_t total);
    void *user;
} Progress;

// What a cache is made of.
typedef struct CacheOptions {
    DType type;    // DTYPE_F16, F32, BF16, INT8 or INT4
    int group;     // INT8, INT4: elements that share a scale; 0: 32 or 16, less where the head size wants it
    int layout;    // as kernels/kv_layout.h counts them
    bool paged;    // in pages of page_size slots; else a sequence is one page, and nothing can be shared
    int page_size; // >= 1; multiples of 64 suit the kernels
    int n_sequences; // how many of the full size there is room for
} CacheOptions;

// `type`, groups that suit it, layout 3, one page for one sequence.
CacheOptions cache_options(DType type);

// What linear layers are held in: as the files have them, or converted while they are loaded. int8 is DTYPE_W8,
// multiplied by activations in 8 bits; int4 is DTYPE_Q4_0.
typedef enum WeightType { WEIGHTS_OWN, WEIGHTS_F16, WEIGHTS_BF16, WEIGHTS_INT8, WEIGHTS_INT4 } WeightType;

// How attention over a cache knows how far its weights may grow: by the largest score so far, or by a base that each head
// has from the beginning (cache/score_bases.h), where that is safe. Results are the same but for rounding.
typedef enum Softmax {
    SOFTMAX_AUTO, // SOFTMAX_RUNNING: measured to be as fast, and exact
    SOFTMAX_UNIFIED,
    SOFTMAX_RUNNING,
} Softmax;

// Whether what enters layers in FP8 is rounded to FP8 too (kernels/fp8.h): where their makers do, always, or never.
typedef enum Fp8Rounding { FP8_AS_MADE, FP8_ALWAYS, FP8_NEVER } Fp8Rounding;

enum { DEVICE_LAYERS_FIT = -1 };

// Which of several processes this is, that hold a model together (kernels/hosts/world/world.h).
typedef struct EngineWorld {
    int size, rank;                                 // size 0 or 1: alone
    const char *join;                               // HOST:PORT of rank 0
    const char *key;                                // that all of them know
    int seconds;                                    // to wait for the others; 0: two minutes
    void (*lost)(const char *words, bool told);     // as WorldOptions.lost
    void (*tell)(void *context, const char *words); // as WorldOptions.tell
    void *tell_context;
} EngineWorld;

typedef struct EngineOptions {
    const char *model;      // a Hugging Face folder or a .gguf file
    const char *device;     // "auto", "cpu", "cuda", "cuda:1", "cuda:0,1", "cuda:all"
    const struct Ops *cuda; // for tests: ops that stand for the CUDA plug-in's; NULL: those of the plug-in
    WeightType weights;     // of the layers
    WeightType head;        // of the output matrix: WEIGHTS_OWN or INT8
    int n_threads;          // CPU: 0 = one for each core this process may use
    int device_layers; // how many of the last layers lie on the device, with the head, where the others lie on the CPU;
                       // 0, or as many as there are: all. DEVICE_LAYERS_FIT: all, or as many as fit
    // Where device_layers is DEVICE_LAYERS_FIT, of a mixture of experts: how many of the last layers have their experts on
    // the device, which has all of the model but those of the others. DEVICE_LAYERS_FIT: all, or as many as fit
    int expert_layers;
    int context_size; // tokens; 0 = the model's own, fitted to the memory that is free
    int context_most; // and no more of them than this, or than the model has been made for; 0: as many as are wanted
    CacheOptions cache;
    int n_rows; // most sessions whose newest tokens go through one step (batch.h); 0 = 1. With more than one,
                // cache.n_sequences is what is wanted: as many as fit in the memory that is free are there
    int softmax; // a Softmax
    int fp8;     // an Fp8Rounding
    int chunk;   // most tokens evaluated in one step; 0 = the backend's favourite
    // For comparison: the step of a token begins once the host knows it, also where it could before.
    bool no_steps_ahead;
    bool random_weights; // for measuring: weights are made up, the model's are not read
    bool
        keeps_trials; // what is measured at loading is kept in palaver's cache folder, and counts the next time
    const struct Engine
        *beside;       // another one, which may not have touched yet what it was promised; NULL: none
    bool plans_only;   // backend and memory plan, to look at: nothing is loaded, and nothing can be evaluated
    EngineWorld world; // the others have the layers that are not this one's
    Progress progress;
    const atomic_int *interrupt; // for the tokenizer (tokenizer_set_interrupt); NULL: none
} EngineOptions;

#endif
