// `palaver bench MODEL`: prefill and decode speed through the real engine, and memory.
#ifndef PALAVER_APP_BENCH_H
#define PALAVER_APP_BENCH_H

#include "app/program.h"

int bench_main(Program *program); // the exit status

// Bytes that decoding one token reads behind `depth` others: weights, keys and values.
double bench_token_bytes(const Engine *engine, double depth);

enum { BENCH_SHARE_ROOM = 40 };
// ", 92% of the card's" where it is known how fast the card reads (`palaver tune`), else "".
const char *bench_share(const Engine *engine, double bytes_a_second, char text[BENCH_SHARE_ROOM]);

#endif
