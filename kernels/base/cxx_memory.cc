#include "kernels/base/cxx_memory.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>

namespace {

constexpr std::size_t RESERVE = std::size_t{1} << 20; // more than toml++ takes for a file of settings

// Handlers take no context, so what they need is static.
std::atomic<void *> reserve;
std::atomic<bool> wanting; // the reserve is used up, and more was asked for
void (*end_program)();

void give_reserve() {
    if (void *last = reserve.exchange(nullptr)) {
        std::free(last);
        return; // and the allocation is tried again
    }
    wanting = true;
    throw std::bad_alloc();
}

[[noreturn]] void end_or_abort() {
    if (wanting) end_program();
    std::abort(); // a defect, which memory has nothing to do with
}

} // namespace

extern "C" void cxx_memory_guard(void (*end)(void)) {
    end_program = end;
    reserve = std::malloc(RESERVE);
    std::set_new_handler(give_reserve);
    std::set_terminate(end_or_abort);
}
