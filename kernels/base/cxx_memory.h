// What C++ libraries do without memory: they throw where nothing may be thrown, and end the process by abort().
#ifndef PALAVER_BASE_CXX_MEMORY_H
#define PALAVER_BASE_CXX_MEMORY_H

#ifdef __cplusplus
extern "C" {
#endif

// From here on a reserve makes up for a short want of C++'s; a lasting one is std::bad_alloc, which wrappers catch, and where a
// library lets it through nobody's hands, `end` is called, which does not return. Called once, at the start.
void cxx_memory_guard(void (*end)(void));

#ifdef __cplusplus
}
#endif
#endif
