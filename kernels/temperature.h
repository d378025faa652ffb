// How sharp queries far into a text are (Llama 4, Ministral 3): what multiplies them.
#ifndef PALAVER_KERNELS_TEMPERATURE_H
#define PALAVER_KERNELS_TEMPERATURE_H

#include "kernels/ops.h"

#include <math.h>

// Of a query that sees `position` tokens before itself: 1 + beta·ln(1 + floor((position + ahead)/length)); 1 without a
// beta.
static inline float query_temperature(const DecoderShape *shape, int64_t position) {
    if (shape->temperature_beta == 0) return 1;
    const int64_t times = (position + shape->temperature_ahead) / shape->temperature_length;
    return (float)(1 + (double)shape->temperature_beta * log(1 + (double)times));
}

// Whether it multiplies the queries of a layer.
static inline bool layer_is_tempered(const DecoderShape *shape, const KvLayer *kv) {
    return shape->temperature_beta != 0 && (!shape->temperature_unturned || kv->rope < 0);
}

#endif
