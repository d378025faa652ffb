// What an engine will take of the device's memory, known before any of it is taken.
#ifndef PALAVER_ENGINE_MEMORY_PLAN_H
#define PALAVER_ENGINE_MEMORY_PLAN_H

#include "engine/engine_internal.h"

// Settles the context size, how many windows the cache has room for, and engine->memory [bytes]. STATUS_MEMORY: weights,
// scratch and cache do not fit in what is free; STATUS_USAGE: a context that the model or the cache cannot have.
Status memory_plan(Engine *engine, const EngineOptions *options, const BackendOptions *backend, Error *error);

#endif
