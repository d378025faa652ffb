// What engine.c shares with session.c: not for anyone else.
#ifndef PALAVER_ENGINE_ENGINE_INTERNAL_H
#define PALAVER_ENGINE_ENGINE_INTERNAL_H

#include "engine/engine.h"
#include "engine/forward.h"
#include "engine/session/session_slot.h"
#include "engine/calibration.h"
#include "engine/loading/trial.h"
#include "tokenizer/tokenizer.h"

// The step of a token that was being drawn for a session: session_ahead.c. Who evaluates anything, or moves what is
// cached, forgets it.
typedef struct StepAhead {
    const Session *of; // NULL: there is none
    SessionSlot slot;
} StepAhead;

// The logits behind a text of `length` tokens (0: there are none): session_kept.c.
typedef struct KeptLogits {
    float *row; // host [vocab_size]; NULL: none were ever kept
    int64_t length;
    uint64_t text; // checksum of its ids
    int32_t rope_set;
} KeptLogits;

// Which layers of the model this process has.
typedef struct EnginePart {
    int first, n;
    bool is_first, is_last;
} EnginePart;

struct Engine {
    Model *model;
    struct World *world;      // of several processes; NULL: it is alone
    struct RanksFiles *files; // of rank 0 (ranks.c)
    struct WeightSums
        *sums; // of its files, where they are compared with other processes' (ranks.c); else NULL
    EnginePart part;
    Tokenizer *tokenizer;
    char *jinja_template; // NULL: none
    Backend *backend;
    Forward forward;
    const Session *logits_of; // whose last token forward.current speaks of; NULL: nobody's
    StepAhead ahead;
    KeptLogits kept_logits;
    const struct Batch *
        rows_ahead; // whose step ahead has left its logits in the first rows of forward.logits; NULL: nobody's
    uint64_t n_versions; // of sessions: see there
    bool no_steps_ahead; // see EngineOptions
    KvCache cache;
    int context_size;
    int n_rows;
    CalibrationWish calibration;
    struct Vocabulary *vocabulary; // for grammars; NULL: none was needed yet
    bool wants_unified;            // SOFTMAX_UNIFIED was asked for
    CacheOptions cache_options;    // n_sequences as it came to be
    bool fits_layers;              // of a backend of two, the memory plan says how many layers each has
    bool host_is_scarce; // by that plan the CPU's memory has less room for its part than the device's
    SplitTimes trial;    // then measured, else zeros
    EngineMemory memory;
    double load_seconds;
    EngineDispatch dispatch;
    char backend_note[sizeof((Error *)0)->message];
    bool sees_better; // engine_sees_better()
};

// The vocabulary's bytes, for grammars: the engine's, made when they are first asked for.
Status engine_vocabulary(Engine *engine, struct Vocabulary **vocabulary, Error *error);

// ---- memory_plan.c: what an engine will take of the device's memory, known before any of it is taken ---------------

// Settles the context size, how many windows the cache has room for, and engine->memory [bytes]. STATUS_MEMORY:
// weights, scratch and cache do not fit in what is free; STATUS_USAGE: a context that the model or the cache cannot
// have.
Status memory_plan(Engine *engine, const EngineOptions *options, const BackendOptions *backend, Error *error);
// Where the cache that was planned was not to be had (`error` says so): adds the longest context whose cache is, found by
// trying. Returns the error's status.
Status memory_plan_refused(Engine *engine, Error *error);

// ---- placement.c: where the layers run --------------------------------------------------------------------------

// Opens the device that was asked for; with "auto" the GPU if it can take the model, else the CPU, and says why. Loads
// the weights, unless the options want nothing but the plan. What fails leaves nothing behind.
Status placement_open(Engine *engine, const EngineOptions *options, Error *error);
void placement_close(Engine *engine);
// On a device of these ops ("auto": on as few as have room) and, as far as that was asked for or is needed, on the CPU beside
// it.
Status placement_open_on(Engine *engine, const Ops *ops, const char *device, const EngineOptions *options,
                         Error *error);

// ---- loading.c: weights from the model's files to the backend, converted on the way where that is planned ----------

// Fills engine->forward's layers and head. STATUS_INTERRUPTED: the progress says stop.
Status loading_run(Engine *engine, const EngineOptions *options, Error *error);

// ---- ranks.c: several processes, of which this is the first ---------------------------------------------------------

// Meets the others, where there are any; before placement_open().
Status ranks_meet(Engine *engine, const EngineOptions *options, Error *error);
// A backend of all of them; `ops` opens what this one has.
Status ranks_open(Engine *engine, const Ops *ops, const EngineOptions *options, const BackendOptions *backend,
                  Backend **out, Error *error);
void ranks_close(Engine *engine); // before its model and its world

#endif
