// Blocks of GGUF's formats taken apart into the forms of formats.cuh, and made-up weights for measuring.
#ifndef PALAVER_KERNELS_CUDA_WEIGHTS_REPACK_CUH
#define PALAVER_KERNELS_CUDA_WEIGHTS_REPACK_CUH

#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/device/codes.cuh"

// ---- block formats (GGUF's), one group of 32 elements at a time -------------------------------------------------

struct Group {
    int q[32];
    float scale[2], min[2]; // of the first and the last sixteen
    uint32_t steps, units;  // of Q2_K the same as the file has it: bytes scale | min·16, and f16 (d, -dmin)
};

__device__ inline float half_at(const uint8_t *bytes) {
    return __half2float(__ushort_as_half((unsigned short)(bytes[0] | bytes[1] << 8)));
}

__device__ void unpack_nibbles(const uint8_t *bytes, Group *g) {
    for (int i = 0; i < 16; i++) {
        g->q[i] = bytes[i] & 15;
        g->q[i + 16] = bytes[i] >> 4;
    }
}

__device__ void unpack_fifth_bits(const uint8_t *bytes, Group *g) {
    for (int i = 0; i < 32; i++) g->q[i] |= (bytes[i / 8] >> i % 8 & 1) << 4;
}

// Six-bit scales and minimums of Q4_K and Q5_K: see kernels/cpu/loops/quant.c.
__device__ void unpack_k_scales(const uint8_t *block, int group, Group *g) {
    const uint8_t *s = block + 4;
    int scale = group < 4 ? s[group] & 63 : (s[group + 4] & 15) | s[group - 4] >> 6 << 4;
    int min = group < 4 ? s[group + 4] & 63 : s[group + 4] >> 4 | s[group] >> 6 << 4;
    g->scale[0] = g->scale[1] = half_at(block) * scale;
    g->min[0] = g->min[1] = -(half_at(block + 2) * min);
}

__device__ void unpack_k_nibbles(const uint8_t *bytes, int group, Group *g) {
    for (int i = 0; i < 32; i++) g->q[i] = bytes[group / 2 * 32 + i] >> group % 2 * 4 & 15;
}

__device__ void unpack_q6_k(const uint8_t *block, int group, Group *g) {
    const uint8_t *low = block + group / 4 * 64 + group % 2 * 32, *high = block + 128 + group / 4 * 32;
    for (int i = 0; i < 32; i++)
        g->q[i] = ((low[i] >> group % 4 / 2 * 4 & 15) | (high[i] >> group % 4 * 2 & 3) << 4) - 32;
    for (int i = 0; i < 2; i++) g->scale[i] = half_at(block + 208) * (int8_t)block[192 + group * 2 + i];
}

__device__ void unpack_q2_k(const uint8_t *block, int group, Group *g) {
    for (int i = 0; i < 32; i++) g->q[i] = block[16 + group / 4 * 32 + i] >> group % 4 * 2 & 3;
    for (int i = 0; i < 2; i++) {
        g->scale[i] = half_at(block + 80) * (block[group * 2 + i] & 15);
        g->min[i] = -(half_at(block + 82) * (block[group * 2 + i] >> 4));
    }
    g->steps = block[group * 2] | block[group * 2 + 1] << 8;
    g->units = (block[80] | block[81] << 8 | block[82] << 16 | (uint32_t)block[83] << 24) ^ 0x80000000;
}

__device__ void unpack_q3_k(const uint8_t *block, int group, Group *g) {
    const uint8_t *s = block + 96;
    for (int i = 0; i < 32; i++)
        g->q[i] = (block[32 + group / 4 * 32 + i] >> group % 4 * 2 & 3) + 4 * (block[i] >> group & 1) - 4;
    for (int i = 0; i < 2; i++) {
        int j = group * 2 + i;
        int scale = (s[j % 8] >> j / 8 * 4 & 15) | (s[8 + j % 4] >> j / 4 * 2 & 3) << 4;
        g->scale[i] = half_at(block + 108) * (scale - 32);
    }
}

__device__ void unpack_iq4_xs(const uint8_t *block, int group, Group *g) {
    int scale = (block[4 + group / 2] >> group % 2 * 4 & 15) | ((block[2] | block[3] << 8) >> group * 2 & 3)
                                                                   << 4;
    g->scale[0] = g->scale[1] = half_at(block) * (scale - 32);
    unpack_nibbles(block + 8 + group * 16, g);
}

// A half has scales from 2^-24 on; those below become 0, as their weights nearly are. upload.cu refuses too large ones.
__device__ void unpack_mxfp4(const uint8_t *block, Group *g) {
    g->scale[0] = g->scale[1] = block[0] < 2 ? 0 : __int_as_float((block[0] - 1) << 23);
    unpack_nibbles(block + 1, g);
    for (int &q : g->q) q = q == 8 ? 0 : q; // one zero is enough: see Book
}

__device__ void unpack_nf4(const uint8_t *block, int group, Group *g) {
    g->scale[0] = __uint_as_float(block[0] | block[1] << 8 | block[2] << 16 | (uint32_t)block[3] << 24);
    for (int i = 0; i < 32; i++) g->q[i] = block[4 + group * 16 + i / 2] >> i % 2 * 4 & 15;
}

__device__ void unpack_group(DType type, const uint8_t *row, int64_t group, Group *g) {
    g->min[0] = g->min[1] = 0;
    if (type == DTYPE_MXFP4) return unpack_mxfp4(row + group * 17, g);
    if (type == DTYPE_NF4) return unpack_nf4(row + group / 2 * 36, (int)(group % 2), g);
    if (type >= DTYPE_Q4_K && type != DTYPE_IQ4_NL) {
        int64_t bytes = type == DTYPE_Q4_K   ? 144
                        : type == DTYPE_Q5_K ? 176
                        : type == DTYPE_Q6_K ? 210
                        : type == DTYPE_Q2_K ? 84
                        : type == DTYPE_Q3_K ? 110
                                             : 136;
        const uint8_t *block = row + group / 8 * bytes;
        int in = (int)(group % 8);
        if (type == DTYPE_Q6_K) return unpack_q6_k(block, in, g);
        if (type == DTYPE_Q2_K) return unpack_q2_k(block, in, g);
        if (type == DTYPE_Q3_K) return unpack_q3_k(block, in, g);
        if (type == DTYPE_IQ4_XS) return unpack_iq4_xs(block, in, g);
        unpack_k_scales(block, in, g);
        unpack_k_nibbles(block + (type == DTYPE_Q4_K ? 16 : 48), in, g);
        if (type == DTYPE_Q5_K)
            for (int i = 0; i < 32; i++) g->q[i] |= (block[16 + i] >> in & 1) << 4;
        return;
    }
    bool with_min = type == DTYPE_Q4_1 || type == DTYPE_Q5_1,
         fifth = type == DTYPE_Q5_0 || type == DTYPE_Q5_1;
    int head = with_min ? 4 : 2, quants = type == DTYPE_Q8_0 ? 32 : 16;
    const uint8_t *block = row + group * (head + (fifth ? 4 : 0) + quants);
    g->scale[0] = g->scale[1] = half_at(block);
    if (with_min) g->min[0] = g->min[1] = half_at(block + 2);
    if (type == DTYPE_Q8_0) {
        for (int i = 0; i < 32; i++) g->q[i] = (int8_t)block[2 + i];
        return;
    }
    unpack_nibbles(block + head + (fifth ? 4 : 0), g);
    if (fifth) unpack_fifth_bits(block + head, g);
    if (type == DTYPE_Q5_0)
        for (int i = 0; i < 32; i++) g->q[i] -= 16;
}

__device__ inline uint32_t pack_bytes(const int *q) {
    return (q[0] & 255) | (q[1] & 255) << 8 | (q[2] & 255) << 16 | (uint32_t)(q[3] & 255) << 24;
}

// A group's words of FORMAT_Q3, and of FORMAT_Q2 with what of a record is its own: see codes.cuh.
__device__ inline void put_q3_group(const Group &g, char *chunk, int group) {
    uint32_t words[3] = {0, 0, 0};
    for (int i = 0; i < 32; i++) {
        uint32_t q = (uint32_t)(g.q[i] + 4);
        int four = i / 4, at = i % 4 * 8;
        if (four < 6) {
            words[four / 2] |= q << (at + four % 2 * 3);
        } else {
            words[four - 6] |= (q & 3) << (at + 6);
            words[2] |= q >> 2 << (at + four);
        }
    }
    uint32_t first = __half_as_ushort(__float2half_rn(g.scale[0])),
             last = __half_as_ushort(__float2half_rn(g.scale[1]));
    *(uint4 *)(chunk + group * 16) = make_uint4(words[0], words[1], words[2], first | last << 16);
}
__device__ inline void put_q2_group(const Group &g, char *chunk, int n, int group) {
    uint32_t words[2] = {0, 0};
    for (int i = 0; i < 32; i++)
        words[i / 8 % 2] |= (uint32_t)g.q[i] << (i % 4 * 8 + i / 4 % 2 * 2 + i / 16 * 4);
    char *record = chunk + quant_bytes(FORMAT_Q2, n) + group / 16 * Q2_RECORD;
    *(uint2 *)(chunk + group * 8) = make_uint2(words[0], words[1]);
    *(uint16_t *)(record + group % 16 * 2) =
        (uint16_t)((g.steps >> 4 & 0xff) | (g.steps & 15) << 8 | (g.steps & 0xf000));
    if (group % 8 == 0) *(uint32_t *)(record + 32 + group % 16 / 8 * 4) = g.units;
}

// A group's words of a wide format, and its rest with its scales: see codes.cuh.
__device__ inline void put_wide_group(int format, const Group &g, char *chunk, int n, int group) {
    const bool six = format == FORMAT_Q6;
    const int offset = six ? 32 : format == FORMAT_Q5 ? 16 : 0, lower = six ? 6 : 5, kept = 8 - lower;
    uint32_t words[4] = {0, 0, 0, 0}, rest[2] = {0, 0};
    for (int i = 0; i < 16; i++) {
        const uint32_t first = (uint32_t)(g.q[i] + offset), last = (uint32_t)(g.q[i + 16] + offset);
        const int four = i / 4, at = i % 4 * 8, left = lower - kept; // bits that are left of the last's
        words[four] |= (first | last >> left << lower) << at;
        if (six)
            rest[four % 2] |= (last & 15) << (at + four / 2 * 4);
        else
            rest[0] |= (last & 3) << (at + 2 * four);
    }
    *(uint4 *)(chunk + group * 16) = make_uint4(words[0], words[1], words[2], words[3]);
    uint32_t *records = (uint32_t *)(chunk + quant_bytes(format, n));
    uint32_t scale = __half_as_ushort(__float2half_rn(g.scale[0])),
             other = __half_as_ushort(__float2half_rn(six ? g.scale[1] : g.min[0]));
    if (six) {
        records += group * 3;
        records[0] = rest[0], records[1] = rest[1], records[2] = scale | other << 16;
    } else if (format == FORMAT_Q5M) {
        ((uint2 *)records)[group] = make_uint2(rest[0], scale | other << 16);
    } else {
        records += group / 2 * 3;
        records[group % 2] = rest[0];
        ((uint16_t *)(records + 2))[group % 2] = (uint16_t)scale;
    }
}

// Words of a group's codes that lie as a codebook wants them.
__device__ inline uint32_t book_word(const int *first, const int *last) {
    uint32_t word = 0;
    for (int i = 0; i < 4; i++) word |= (uint32_t)first[i] << 4 * i | (uint32_t)last[i] << (16 + 4 * i);
    return word;
}

// Codes of Q4_0 and of codebooks as numbers, in forms that have no other codes.
__device__ inline void decode_group(DType type, int format, Group *g) {
    int own = type == DTYPE_Q4_0                             ? FORMAT_Q4
              : type == DTYPE_IQ4_NL || type == DTYPE_IQ4_XS ? FORMAT_IQ4
              : type == DTYPE_MXFP4                          ? FORMAT_FP4
              : type == DTYPE_NF4                            ? FORMAT_NF4
                                                             : format;
    if (own == format) return;
    for (int &q : g->q) q = own == FORMAT_Q4 ? q - 8 : book_entry(own, q);
}

// One thread a group. Row r of the source becomes row first + r·stride of w. Grid: [n rows, groups / 64].
__global__ void __launch_bounds__(64) repack_kernel(DType type, const uint8_t *source, int64_t source_bytes,
                                                    Weight w, int64_t first, int stride) {
    int group = blockIdx.y * blockDim.x + threadIdx.x, col = group * 32, full = chunk_elements(w.format);
    if (col >= w.cols) return;
    Group g;
    unpack_group(type, source + blockIdx.x * source_bytes, group, &g);
    decode_group(type, w.format, &g);
    char *chunk = w.data + (first + (int64_t)blockIdx.x * stride) * w.row_bytes +
                  (int64_t)(col / full) * chunk_bytes(w.format, full);
    int n = min(full, w.cols - col / full * full), i = col % full;
    if (w.format == FORMAT_Q2) return put_q2_group(g, chunk, n, i / 32);
    if (w.format == FORMAT_Q3) return put_q3_group(g, chunk, i / 32);
    if (format_wide(w.format)) {
        put_wide_group(w.format, g, chunk, n, i / 32);
        return;
    }
    uint32_t words[8]; // bytes one by one would cost a write each
    if (format_book(w.format)) {
        for (int j = 0; j < 4; j++) words[j] = book_word(&g.q[j * 4], &g.q[j * 4 + 16]);
        *(uint4 *)(chunk + i / 2) = make_uint4(words[0], words[1], words[2], words[3]);
    } else if (format_nibbles(w.format)) {
        for (int j = 0; j < 4; j++) words[j] = pack_bytes(&g.q[j * 4]) | pack_bytes(&g.q[j * 4 + 16]) << 4;
        *(uint4 *)(chunk + i / 2) = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
        for (int j = 0; j < 8; j++) words[j] = pack_bytes(&g.q[j * 4]);
        *(uint4 *)(chunk + i) = make_uint4(words[0], words[1], words[2], words[3]);
        *(uint4 *)(chunk + i + 16) = make_uint4(words[4], words[5], words[6], words[7]);
    }
    __half *scales = (__half *)(chunk + quant_bytes(w.format, n));
    if (w.format == FORMAT_NF4) {
        if (i % 64 == 0) ((float *)scales)[i / 64] = g.scale[0];
        return;
    }
    if (w.format == FORMAT_Q8 || w.format == FORMAT_Q4 || format_book(w.format)) {
        scales[i / 32] = __float2half_rn(g.scale[0]);
    } else {
        scales[i / 16] = __float2half_rn(g.scale[0]);
        scales[i / 16 + 1] = __float2half_rn(w.format == FORMAT_Q8S ? g.scale[1] : g.min[0]);
    }
}

// Rows of W8 (kernels/w8.h) taken apart into integers and scales, 16 bytes a thread and turn. Rows as repack_kernel's.
__global__ void __launch_bounds__(256)
    repack_w8_kernel(const char *source, int64_t source_bytes, Weight w, int64_t first, int stride) {
    const char *from = source + blockIdx.x * source_bytes;
    int64_t r = first + (int64_t)blockIdx.x * stride;
    for (int64_t i = threadIdx.x * 16; i < w.row_bytes; i += 256 * 16)
        *(uint4 *)(w.data + r * w.row_bytes + i) = *(const uint4 *)(from + i);
    if (threadIdx.x == 0) w.scales[r] = *(const float *)(from + w.row_bytes);
}

// Rows of e4m3 (kernels/dtype.h) taken apart into numbers and scales, 16 bytes a thread and turn. Rows as repack_kernel's.
__global__ void __launch_bounds__(256)
    repack_e4m3_kernel(const char *source, int64_t source_bytes, Weight w, int64_t first, int stride) {
    const char *from = source + blockIdx.x * source_bytes;
    char *to = w.data + (first + (int64_t)blockIdx.x * stride) * w.row_bytes;
    const int full = chunk_elements(FORMAT_E4M3);
    for (int col = threadIdx.x * 16; col < w.cols; col += 256 * 16) {
        const uint32_t *block = (const uint32_t *)(from + (int64_t)(col / 128) * 132),
                       *codes = block + 1 + col % 128 / 4;
        char *chunk = to + (int64_t)(col / full) * chunk_bytes(FORMAT_E4M3, full);
        const int n = min(full, w.cols - col / full * full), i = col % full;
        *(uint4 *)(chunk + i) = make_uint4(codes[0], codes[1], codes[2], codes[3]);
        if (i % 128 != 0) continue;
        uint32_t *scales = (uint32_t *)(chunk + quant_bytes(FORMAT_E4M3, n));
        scales[i / 128] = *block;
        for (int j = i / 128 + 1; i + 128 >= n && j % 4; j++) scales[j] = 0;
    }
}

// Two bytes of integers from -127 to 127 of any bits.
__device__ inline uint16_t random_w8(uint32_t bits) {
    uint32_t low = bits & 255, high = bits >> 8 & 255;
    return (uint16_t)((low == 128 ? 127 : low) | (high == 128 ? 127 : high) << 8);
}

// The largest of a format's integers, about.
__device__ inline float random_span(int format) {
    return format == FORMAT_FP4                          ? 12
           : format == FORMAT_Q2                         ? 1.5f
           : format == FORMAT_Q3                         ? 4
           : format == FORMAT_E4M3                       ? 172
           : format == FORMAT_NF4                        ? 1
           : format == FORMAT_Q4 || format == FORMAT_Q4M ? 8
           : format == FORMAT_Q5 || format == FORMAT_Q5M ? 16
           : format == FORMAT_Q6                         ? 32
                                                         : 128;
}

// Half a word at byte `in` of a chunk of Q2 or Q3, of which `quants` are codes. Q2's scales and minimums of any bits are
// about 8 in the mean.
__device__ inline uint16_t random_packed(int format, int in, int quants, float step, uint32_t bits) {
    if (format == FORMAT_Q3) return in % 16 >= 12 ? __half_as_ushort(__float2half_rn(step)) : (uint16_t)bits;
    if (in < quants || (in - quants) % Q2_RECORD < 32) return (uint16_t)bits;
    return __half_as_ushort(__float2half_rn(in / 2 % 2 ? -1.5f / 8 * step : step / 8));
}

// Made-up weights, for measuring: quants of any bits, scales and plain values such that a row's norm is about 1, as
// trained ones' are. One block of 256 threads a row.
__global__ void random_kernel(Weight w, int64_t first, int stride, uint32_t seed) {
    int64_t r = first + (int64_t)blockIdx.x * stride;
    uint16_t *row = (uint16_t *)(w.data + r * w.row_bytes);
    int full = chunk_elements(w.format), whole = chunk_bytes(w.format, full);
    float scale = 1.7f * rsqrtf((float)w.cols); // of numbers uniform in (-1, 1)
    if (w.scales && threadIdx.x == 0) w.scales[r] = scale / 128;
    for (int i = threadIdx.x; i < w.row_bytes / 2; i += blockDim.x) {
        uint32_t h = (uint32_t)(r * w.row_bytes / 2 + i) * 2654435761u + seed;
        h = (h ^ h >> 16) * 0x7feb352du;
        h = (h ^ h >> 15) * 0x846ca68bu;
        h ^= h >> 16;
        float value = ((float)(h & 0xffff) - 32767.5f) / 32768 * scale;
        if (w.format == FORMAT_F16) row[i] = __half_as_ushort(__float2half_rn(value));
        if (w.format == FORMAT_BF16) row[i] = __bfloat16_as_ushort(__float2bfloat16_rn(value));
        if (w.format == FORMAT_F32 && i % 2 == 0) ((float *)row)[i / 2] = value;
        if (w.format == FORMAT_W8) row[i] = 2 * i < w.cols ? random_w8(h) : 0;
        if (!format_grouped(w.format)) continue;
        int chunk = i * 2 / whole, in = i * 2 % whole, n = min(full, w.cols - chunk * full);
        int quants = quant_bytes(w.format, n);
        float step = scale / random_span(w.format);
        if (format_packed(w.format)) {
            row[i] = random_packed(w.format, in, quants, step, h);
            continue;
        }
        if (w.format == FORMAT_E4M3) { // without the codes of NaN
            row[i] = (uint16_t)(in < quants ? h & 0xfefe : __float_as_uint(step) >> i % 2 * 16);
            continue;
        }
        if (w.format == FORMAT_NF4) {
            row[i] = (uint16_t)(in < quants ? h : __float_as_uint(step) >> i % 2 * 16);
            continue;
        }
        const bool pairs = w.format == FORMAT_Q8M || w.format == FORMAT_Q4M || w.format == FORMAT_Q5M;
        bool is_min = pairs && (in - quants) / 2 % 2;
        float min = w.format == FORMAT_Q4M ? -7.5f * step : w.format == FORMAT_Q5M ? -15.5f * step : 0;
        // The halves of a record of a wide format: two or four of codes, two of scales.
        const int halves = w.format == FORMAT_Q5M ? 4 : 6;
        const bool code = in < quants || (format_wide(w.format) && (in - quants) / 2 % halves < halves - 2);
        row[i] = code ? (uint16_t)h : __half_as_ushort(__float2half_rn(is_min ? min : step));
    }
}

#endif
