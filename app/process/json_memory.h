// What happens where there is no memory for JSON.
#ifndef PALAVER_APP_PROCESS_JSON_MEMORY_H
#define PALAVER_APP_PROCESS_JSON_MEMORY_H

#include <stddef.h>

// From now on jansson never sees an allocation fail. It cannot stand that: json_dumps() leaves out a key and says
// nothing, json_loadb() writes behind its buffer. A reserve, taken here, makes up for a short want of memory. Where
// that is not enough either, the program ends: what happened is said on stderr, without allocating, the terminal is
// given back, and the exit status is 1. What was written before, the journal among it, is whole.
//
// `allocate` is malloc(), or in tests what fails when they want. Once in a program, before the first JSON.
void json_memory_guard(void *(*allocate)(size_t size));

#endif
