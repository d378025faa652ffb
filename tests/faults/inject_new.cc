// C++'s memory comes from malloc() of inject.c, so that it fails as well.
#include <cstdlib>
#include <new>

// As the standard asks: the handler may find memory, or throws.
template <typename Take> static void *take_or_throw(Take take) {
    for (;;) {
        if (void *memory = take()) return memory;
        std::new_handler handler = std::get_new_handler();
        if (!handler) throw std::bad_alloc();
        handler();
    }
}

static void *take(std::size_t size) {
    return take_or_throw([size] { return std::malloc(size ? size : 1); });
}

static void *take_aligned(std::size_t size, std::align_val_t alignment) {
    return take_or_throw([size, alignment]() -> void * {
        void *memory;
        return posix_memalign(&memory, static_cast<std::size_t>(alignment), size ? size : 1) ? nullptr
                                                                                             : memory;
    });
}

static void *take_or_null(std::size_t size) noexcept {
    try {
        return take(size);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void *operator new(std::size_t size) {
    return take(size);
}
void *operator new[](std::size_t size) {
    return take(size);
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    return take_or_null(size);
}
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
    return take_or_null(size);
}
void *operator new(std::size_t size, std::align_val_t alignment) {
    return take_aligned(size, alignment);
}
void *operator new[](std::size_t size, std::align_val_t alignment) {
    return take_aligned(size, alignment);
}

void operator delete(void *memory) noexcept {
    std::free(memory);
}
void operator delete[](void *memory) noexcept {
    std::free(memory);
}
void operator delete(void *memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete[](void *memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete(void *memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete[](void *memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete[](void *memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
