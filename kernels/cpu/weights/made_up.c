#include "kernels/cpu/weights/made_up.h"

#include "kernels/cpu/loops/quant.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 1 << 20, // that a thread fills at a time
    PATTERN_BLOCKS = 509,  // a prime: no row repeats the one before
    LARGEST_BLOCK = 256,   // bytes
};

struct MadeUp {
    MadeUp *next;
    _Alignas(64) char data[];
};

void made_up_free(MadeUp *made) {
    while (made) {
        MadeUp *next = made->next;
        free(made);
        made = next;
    }
}

// Where it is written again and again, block after block.
typedef struct Filling {
    const char *pattern; // [PATTERN_BLOCKS] blocks
    int64_t pattern_bytes;
    char *to;
    int64_t bytes;
} Filling;

static void fill_piece(void *context, int64_t part, int thread) {
    (void)thread;
    const Filling *f = context;
    const int64_t end = (part + 1) * PIECE_BYTES < f->bytes ? (part + 1) * PIECE_BYTES : f->bytes;
    for (int64_t i = part * PIECE_BYTES; i < end;) {
        const int64_t in = i % f->pattern_bytes,
                      n = end - i < f->pattern_bytes - in ? end - i : f->pattern_bytes - in;
        memcpy(f->to + i, f->pattern + in, (size_t)n);
        i += n;
    }
}

static uint32_t scrambled(uint32_t i) {
    i = (i ^ i >> 16) * 0x7feb352du;
    i = (i ^ i >> 15) * 0x846ca68bu;
    return i ^ i >> 16;
}

// One element of a plain type.
static void put(DType type, float value, char *to) {
    const uint16_t half = type == DTYPE_F16 ? quant_to_half(value) : quant_to_bfloat(value);
    if (type == DTYPE_F32)
        memcpy(to, &value, sizeof value);
    else
        memcpy(to, &half, sizeof half);
}

// A block of codes. Every two bytes of it are a half whose size is between 0.0005 and 0.008, wherever the type has its
// scales; of blocks of 256, whose scales are multiplied with others, up to 15, one below 0.0005. MXFP4 has an exponent in
// front.
static void put_block(DType type, int64_t bytes, uint32_t seed, char *to) {
    const bool twice = dtype_block_size(type) == 256;
    const unsigned set = twice ? 0 : 0x10, free = twice ? 0x0f : 0x8f;
    for (int64_t i = 0; i < bytes; i++) to[i] = (char)(set | (scrambled(seed + (uint32_t)i) & free));
    if (type == DTYPE_MXFP4) to[0] = 120;
}

static Status make(const Matrix *m, Threads *threads, MadeUp **made, Error *error) {
    const bool plain = m->type <= DTYPE_BF16;
    const int64_t block = dtype_block_bytes(m->type), bytes = m->rows * dtype_row_bytes(m->type, m->cols);
    char pattern[PATTERN_BLOCKS * LARGEST_BLOCK];
    if ((!plain && !quant_is_type(m->type)) || block > LARGEST_BLOCK)
        return error_set(error, STATUS_UNSUPPORTED, "cpu: weights of %s cannot be made up",
                         dtype_name(m->type));
    MadeUp *own = aligned_alloc(64, (sizeof *own + (size_t)bytes + 63) / 64 * 64);
    if (!own) return error_set(error, STATUS_MEMORY, "cpu: no memory for %lld MB", (long long)(bytes >> 20));
    own->next = *made;
    *made = own;
    for (uint32_t i = 0; i < PATTERN_BLOCKS; i++) {
        const float random = (float)(scrambled(i) & 0xffff) / 32768 - 1;
        if (plain)
            put(m->type, m->rows == 1 ? 1 : random / 32, pattern + i * block);
        else
            put_block(m->type, block, i * LARGEST_BLOCK, pattern + i * block);
    }
    Filling filling = {pattern, PATTERN_BLOCKS * block, own->data, bytes};
    threads_run(threads, (bytes + PIECE_BYTES - 1) / PIECE_BYTES, fill_piece, &filling);
    return STATUS_OK;
}

Status made_up_matrices(Matrix *matrices, int n, Threads *threads, MadeUp **made, Error *error) {
    Status status = STATUS_OK;
    for (int i = 0; i < n && !status; i++) {
        const void *before = matrices[i].data;
        if (!before) continue;
        status = make(&matrices[i], threads, made, error);
        if (!status) matrices[i].data = (*made)->data;
    }
    return status;
}
