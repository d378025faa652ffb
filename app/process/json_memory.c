#include "app/process/json_memory.h"

#include "app/process/fatal.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { RESERVE = 1 << 20 }; // bytes: more than a record of a long turn takes

// Libraries' hooks take no context, so what they need is static, as signal handlers' is.
static void *(*allocator)(size_t size);
static void *_Atomic reserve; // NULL: used up

static _Noreturn void end(void) {
    fatal("palaver: out of memory: nothing is left for a line of JSON, so palaver ends here; what was "
          "written before, the journal among it, is whole\n");
}

static void *allocate_or_end(size_t size) {
    void *memory = allocator(size);
    if (memory || size == 0) return memory;
    free(atomic_exchange(&reserve, NULL));
    memory = allocator(size);
    if (!memory) end();
    return memory;
}

void json_memory_guard(void *(*allocate)(size_t size)) {
    allocator = allocate;
    free(atomic_exchange(&reserve, malloc(RESERVE)));
    json_set_alloc_funcs(allocate_or_end, free);
}
