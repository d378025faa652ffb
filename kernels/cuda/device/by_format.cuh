// Kernels that are compiled for weights of one format each, by the format.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_BY_FORMAT_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_BY_FORMAT_CUH

#include "kernels/cuda/device/format.h"

#include <type_traits>
#include <utility>

template <Format FORMAT> using FormatIs = std::integral_constant<Format, FORMAT>;

template <Format FIRST, class Pick, int... I>
auto by_format(int format, Pick pick, std::integer_sequence<int, I...>) {
    static decltype(pick(FormatIs<FIRST>())) const ALL[] = {pick(FormatIs<(Format)(FIRST + I)>())...};
    return ALL[format - FIRST];
}

// pick(FormatIs<FORMAT>()), of formats from FIRST on but W8, which has kernels of its own: a launcher, say
//   by_format<FORMAT_Q8>(w.format, [](auto f) { return unpack_launch<f.value>; })
template <Format FIRST, class Pick> auto by_format(int format, Pick pick) {
    return by_format<FIRST>(format, pick, std::make_integer_sequence<int, FORMAT_W8 - FIRST>());
}

#endif
