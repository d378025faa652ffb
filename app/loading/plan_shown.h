// Where a model's layers lie, and what they take there, in words: for /stats, inspect and the benchmark.
#ifndef PALAVER_APP_LOADING_PLAN_SHOWN_H
#define PALAVER_APP_LOADING_PLAN_SHOWN_H

#include "engine/engine.h"

enum { PLAN_ROOM = 3000 };

// Of a model on one device a line, of one on a device and the CPU a line for each, and what a token takes of either
// where that was measured, of one over several cards a line for each of them; without a newline at the end.
void plan_shown(const Engine *engine, char text[PLAN_ROOM]);

#endif
