// Memory for C++ libraries that do not survive the lack of it: toml++ terminates in its noexcept functions, protobuf (in
// sentencepiece) destroys what it has only half built. What they can take at most is asked for before they are called.
#ifndef PALAVER_BASE_ROOM_H
#define PALAVER_BASE_ROOM_H

#include <cstddef>
#include <cstdint>
#include <new>

// Whether `fixed` bytes and `each` for every one of `size` can be had now: they are taken and given back.
inline bool room_for(std::size_t fixed, std::size_t each, std::size_t size) {
    if (size > (SIZE_MAX / 2 - fixed) / each) return false;
    void *volatile room = ::operator new(fixed + each * size, std::nothrow);
    ::operator delete(room);
    return room != nullptr;
}

#endif
