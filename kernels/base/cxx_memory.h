// What C++ libraries do without memory: they throw where nothing may be thrown, and end the process by abort().
#ifndef PALAVER_BASE_CXX_MEMORY_H
#define PALAVER_BASE_CXX_MEMORY_H

#ifdef __cplusplus
extern "C" {
#endif

// From here on a reserve makes up for a short want of C++'s; a lasting one is std::bad_alloc, which wrappers catch, and
// where a library lets it through nobody's hands, `end` is called, which does not return. Called once, at the start.
void cxx_memory_guard(void (*end)(void));

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#include <new>

// toml++ terminates in its noexcept functions, protobuf (in sentencepiece) destroys what it has only half built: what
// they can take at most is asked for before they are called. Whether `fixed` bytes and `each` for every one of `size`
// can be had now: they are taken and given back.
inline bool cxx_memory_has(std::size_t fixed, std::size_t each, std::size_t size) {
    if (size > (SIZE_MAX / 2 - fixed) / each) return false;
    void *volatile room = ::operator new(fixed + each * size, std::nothrow);
    ::operator delete(room);
    return room != nullptr;
}
#endif

#endif
