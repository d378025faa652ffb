// Quantised weights on their way from shared memory to the tensor cores: what a lane holds of products of 16 columns, in
// halves.
//
// A tile has rows of 128 bytes of quants, swizzled as ptx_wgmma.cuh has it, and their scales beside it, row after row. A warp
// takes 16 rows of it. Of every 16 columns lane l = 4·g + t holds 2t, 2t + 1, 2t + 8 and 2t + 9, of rows g and g + 8: the
// fragment of both mma.m16n8k16 and wgmma. Byte i of a group of nibbles has columns i and i + 16, so that the same
// bytes give the values of a group's first product and of its second; codes of a codebook lie likewise, in words' halves.
// A warp's reads fall into different banks.
//
// The numbers are made as the format says, with one rounding: 1024 + q as a half is q behind the bits of 1024, so that q, or
// q less the format's offset, is an exact difference. Upper nibbles stay where they are, as multiples of 16.
#ifndef PALAVER_KERNELS_CUDA_GEMM_UNPACK_CUH
#define PALAVER_KERNELS_CUDA_GEMM_UNPACK_CUH

#include "kernels/cuda/device/codes.cuh"
#include "kernels/cuda/device/ptx.cuh"

// AT_ONCE: groups whose scales are in registers; of a whole tile begin() brings them.
template <int FORMAT, int AT_ONCE = format_nibbles(FORMAT) ? 8 : 4> struct Unpack {
    static constexpr bool NIBBLES = format_nibbles(FORMAT), BOOK = format_book(FORMAT),
                          PAIRS = FORMAT == FORMAT_Q8M || FORMAT == FORMAT_Q4M;
    static constexpr int COLUMNS = NIBBLES ? 256 : 128, GROUPS = COLUMNS / 32; // of a tile
    // Of a tile's row: what its groups have, and what a tensor copy brings: 16 bytes at least, at multiples of 16. A
    // tile of Q8 finds its own in the first or the second half of them.
    static constexpr int WORDS =
        AT_ONCE / (PAIRS || FORMAT == FORMAT_Q8S ? 1 : 2);           // of AT_ONCE groups' scales
    static constexpr int TILE_SCALES = GROUPS / AT_ONCE * WORDS * 4; // bytes of a tile's row
    static constexpr int SCALE_BYTES = TILE_SCALES < 16 ? 16 : TILE_SCALES;
    static constexpr int RAW = NIBBLES ? 2 : 4; // words of a group that hold a lane's bytes

    // In quads a lane's columns of a product are neighbours, 4t to 4t + 3, and come by ldmatrix, where x's are the same.
    static constexpr int QUAD_GROUPS = NIBBLES ? 2 : 1; // of four matrices

    uint32_t quants; // of row g in shared memory: its first piece's place, from word t / 2 on
    uint32_t quads;  // the row that the lane names to ldmatrix
    uint32_t scales; // of row g
    int n_groups;    // that are there; the others count as zeros
    uint32_t s[2][WORDS];
    uint32_t selector; // of a lane's bytes among those of two words

    __device__ Unpack() {
        bool odd = threadIdx.x % 2;
        selector = BOOK      ? (odd ? 0x7351 : 0x6240)
                   : NIBBLES ? (odd ? 0x7362 : 0x5140)
                             : (odd ? 0x4342 : 0x4140);
    }

    static constexpr int TILES_A_BOX = SCALE_BYTES / TILE_SCALES; // of scales

    // A tile, the step-th of its rows'; this warp's begin at `row`. Groups from n_groups on are not there: they count as
    // zeros.
    __device__ void begin(uint32_t tile, uint32_t scales_of_tile, int step, int row, int groups_there) {
        int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        quants = (tile + (row + g) * 128 + t / 2 * 4) ^ g << 4;
        const int lane = threadIdx.x % 32;
        quads = (tile + (row + lane % 16) * 128) ^ (lane % 8 ^ lane / 16) << 4;
        scales = scales_of_tile + (row + g) * SCALE_BYTES + step % TILES_A_BOX * TILE_SCALES;
        n_groups = groups_there;
        if (AT_ONCE == GROUPS) load_scales(0);
    }

    // The scales of AT_ONCE groups from `group` on, a multiple of it.
    __device__ void load_scales(int group) {
        uint32_t from = scales + group / AT_ONCE * WORDS * 4;
        load_words<WORDS>(from, s[0]);
        load_words<WORDS>(from + 8 * SCALE_BYTES, s[1]);
        if (n_groups >= GROUPS) return;
        constexpr int EACH = AT_ONCE / WORDS; // groups of a word
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            int first = group + EACH * i;
            uint32_t there = first >= n_groups ? 0 : first + EACH > n_groups ? 0xffff : ~0u;
            s[0][i] &= there, s[1][i] &= there;
        }
    }

    // The words of a group, of rows g and g + 8.
    __device__ void load(int group, uint32_t raw[2][RAW]) const {
#pragma unroll
        for (int i = 0; i < RAW / 2; i++) {
            uint32_t piece = quants ^ (group * RAW / 2 + i) << 4;
#pragma unroll
            for (int r = 0; r < 2; r++) {
                load_words<1>(piece + r * 1024, &raw[r][2 * i]);
                load_words<1>(piece + r * 1024 + 8, &raw[r][2 * i + 1]);
            }
        }
    }

    // The words of QUAD_GROUPS groups from `group` on, rows g and g + 8 in turns.
    __device__ void load_quads(int group, uint32_t raw[4]) const {
        load_matrices(raw, quads ^ group * (NIBBLES ? 1 : 2) << 4);
    }

    // Of row r, the values of a word of nibbles: its bytes 0 and 1 are the columns of a fragment's first half, 2 and 3 of its
    // second, the lower nibbles of the first product.
    __device__ void nibbles_of_row(int group, int r, uint32_t w, uint32_t a[2][4]) const {
        const uint32_t high = w >> 8, scale = scale_of(group, 0, r), min = min_of(group, r);
        a[0][r] = value(lower_nibbles(w), scale, min);
        a[0][r + 2] = value(lower_nibbles(high), scale, min);
        a[1][r] = value(upper_nibbles(w), scale, min);
        a[1][r + 2] = value(upper_nibbles(high), scale, min);
    }

    // The fragments of the group's two products, in quads.
    __device__ void fragments_in_quads(int group, const uint32_t raw[4], uint32_t a[2][4]) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            if constexpr (NIBBLES) {
                nibbles_of_row(group, r, __byte_perm(raw[group % 2 * 2 + r], 0, 0x3120), a);
            } else {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    uint32_t scale = scale_of(group, i, r), min = min_of(group, r);
                    uint32_t w = raw[2 * i + r] ^ 0x80808080;
                    a[i][r] = value(raised_pair(w, 0x4140), scale, min);
                    a[i][r + 2] = value(raised_pair(w, 0x4342), scale, min);
                }
            }
        }
    }

    // The fragments of the group's two products.
    __device__ void fragments(int group, const uint32_t raw[2][RAW], uint32_t a[2][4]) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            if constexpr (FORMAT == FORMAT_NF4) {
                uint32_t w = __byte_perm(raw[r][0], raw[r][1], selector), scale = scale_of(group, 0, r);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    uint32_t v[2];
                    nf4_halves(i ? w >> 16 : w, v);
                    a[i][r] = value(*(__half2 *)&v[0], scale, 0);
                    a[i][r + 2] = value(*(__half2 *)&v[1], scale, 0);
                }
            } else if constexpr (BOOK) {
                uint32_t w = __byte_perm(raw[r][0], raw[r][1], selector), scale = scale_of(group, 0, r);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    uint32_t raised = book_bytes<FORMAT>(i ? w >> 16 : w);
                    a[i][r] = value(raised_pair(raised, 0x4140), scale, 0);
                    a[i][r + 2] = value(raised_pair(raised, 0x4342), scale, 0);
                }
            } else if constexpr (NIBBLES) {
                nibbles_of_row(group, r, __byte_perm(raw[r][0], raw[r][1], selector), a);
            } else {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    uint32_t scale = scale_of(group, i, r), min = min_of(group, r);
                    a[i][r] = value(byte_pair(raw[r][2 * i]), scale, min);
                    a[i][r + 2] = value(byte_pair(raw[r][2 * i + 1]), scale, min);
                }
            }
        }
    }

  private:
    // Of the group's i-th product, twice.
    __device__ uint32_t scale_of(int group, int i, int r) const {
        if constexpr (FORMAT == FORMAT_NF4) // of two groups
            return half_of(__uint_as_float(s[r][group % AT_ONCE * WORDS / AT_ONCE])) * 0x10001;
        bool upper = FORMAT == FORMAT_Q8S ? i == 1 : !PAIRS && group % 2 == 1;
        return twice(s[r][group % AT_ONCE * WORDS / AT_ONCE], upper);
    }
    __device__ uint32_t min_of(int group, int r) const {
        return PAIRS ? twice(s[r][group % AT_ONCE * WORDS / AT_ONCE], true) : 0;
    }
    // A half of a word in both: what multiplies by it reads it so, and needs no instruction for it.
    __device__ static uint32_t twice(uint32_t word, bool upper) {
        const __half2 pair = *(__half2 *)&word, both = upper ? __high2half2(pair) : __low2half2(pair);
        return *(uint32_t *)&both;
    }
    __device__ static uint32_t value(__half2 q, uint32_t scale, uint32_t min) {
        q = PAIRS ? __hfma2(q, *(__half2 *)&scale, *(__half2 *)&min) : __hmul2(q, *(__half2 *)&scale);
        return *(uint32_t *)&q;
    }
    __device__ static __half2 lower_nibbles(uint32_t w) {
        uint32_t raised = selected(w, 0x000f000f);
        return __hsub2(*(__half2 *)&raised, __float2half2_rn(PAIRS ? 1024 : 1032));
    }
    __device__ static __half2 upper_nibbles(uint32_t w) {
        uint32_t raised = selected(w, 0x00f000f0);
        return __hfma2(*(__half2 *)&raised, __float2half2_rn(0.0625f), __float2half2_rn(PAIRS ? -64 : -72));
    }
    // (w & mask) | the bits of 1024 in both halves, in one instruction.
    __device__ static uint32_t selected(uint32_t w, uint32_t mask) {
        return masked(w, mask, 0x64006400);
    }
    __device__ __half2 byte_pair(uint32_t word) const {
        return raised_pair(word ^ 0x80808080, selector);
    }
    // Two bytes above -128.
    __device__ static __half2 raised_pair(uint32_t word, uint32_t which) {
        uint32_t raised = __byte_perm(word, 0x64646464, which);
        return __hsub2(*(__half2 *)&raised, __float2half2_rn(1152));
    }
};

// Groups that have their scales in four words (codes.cuh): a lane reads all of one, as three others of its row do.
template <int FORMAT> struct UnpackPacked {
    static constexpr bool TWO = FORMAT == FORMAT_Q2; // bits, and records beside
    static constexpr int COLUMNS = TWO ? Q2_RECORD_ELEMENTS : 256, GROUPS = COLUMNS / 32, RAW = 4,
                         SCALE_BYTES = TWO ? Q2_RECORD : 0, TILES_A_BOX = 1;
    uint32_t quants;   // of row g in shared memory: its first group's place
    uint32_t records;  // its record
    int n_groups;      // that are there; the others count as zeros
    uint32_t selector; // of a lane's two bytes of a word, each in a half
    int shift;         // of the lane's codes in them

    __device__ UnpackPacked() {
        selector = threadIdx.x % 2 ? 0x4342 : 0x4140;
        shift = threadIdx.x % 4 / 2 * (TWO ? 2 : 3);
    }
    __device__ void begin(uint32_t tile, uint32_t records_of_tile, int, int row, int groups_there) {
        int g = threadIdx.x % 32 / 4;
        quants = (tile + (row + g) * 128) ^ g << 4;
        records = records_of_tile + (row + g) * SCALE_BYTES;
        n_groups = groups_there;
    }
    __device__ void load_scales(int) {}
    __device__ void load(int group, uint32_t raw[2][RAW]) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            if constexpr (TWO) {
                const uint32_t record = records + r * 8 * SCALE_BYTES;
                load_words<2>((quants ^ group / 2 << 4) + r * 1024 + group % 2 * 8, raw[r]);
                load_words<1>(record + group / 2 * 4, &raw[r][2]);
                load_words<1>(record + 32 + group / 8 * 4, &raw[r][3]);
            } else {
                load_words<4>((quants ^ group << 4) + r * 1024, raw[r]);
            }
            if (group >= n_groups) raw[r][2] = raw[r][3] = 0;
        }
    }
    __device__ void fragments(int group, const uint32_t raw[2][RAW], uint32_t a[2][4]) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const uint32_t *w = raw[r];
            uint32_t first = pair_of(w[0]), second = pair_of(w[1]);
            if constexpr (TWO) {
                const uint4 q = make_uint4(0, 0, group % 2 ? w[2] >> 16 : w[2] & 0xffff, w[3]);
                const uint32_t scales = packed_scales(q, 0), last = packed_scales(q, 1);
                a[0][r] = value(first >> shift & 0x00030003, scales, 0);
                a[0][r + 2] = value(second >> shift & 0x00030003, scales, 0);
                a[1][r] = value(first >> shift >> 4 & 0x00030003, last, 0);
                a[1][r + 2] = value(second >> shift >> 4 & 0x00030003, last, 0);
            } else {
                uint32_t third = pair_of(w[2]), spread = shift ? second : first;
                a[0][r] = value(first >> shift & 0x00070007, w[3], 0);
                a[0][r + 2] = value(second >> shift & 0x00070007, w[3], 0);
                a[1][r] = value(third >> shift & 0x00070007, w[3], 1);
                a[1][r + 2] =
                    value((spread >> 6 & 0x00030003) | (third >> (4 + shift / 3) & 0x00040004), w[3], 1);
            }
        }
    }

  private:
    // The lane's two bytes of a word.
    __device__ uint32_t pair_of(uint32_t word) const {
        return __byte_perm(word, 0, selector);
    }
    // Of codes in both halves; scales: see codes.cuh.
    __device__ static uint32_t value(uint32_t codes, uint32_t scales, int i) {
        codes |= 0x64006400;
        __half2 q = __hsub2(*(__half2 *)&codes, __float2half2_rn(FORMAT == FORMAT_Q2 ? 1024 : 1028));
        uint32_t scale = __byte_perm(scales, 0, i ? 0x3232 : 0x1010), min = __byte_perm(scales, 0, 0x3232);
        q = FORMAT == FORMAT_Q2 ? __hfma2(q, *(__half2 *)&scale, *(__half2 *)&min)
                                : __hmul2(q, *(__half2 *)&scale);
        return *(uint32_t *)&q;
    }
};
template <int AT_ONCE> struct Unpack<FORMAT_Q2, AT_ONCE> : UnpackPacked<FORMAT_Q2> {};
template <int AT_ONCE> struct Unpack<FORMAT_Q3, AT_ONCE> : UnpackPacked<FORMAT_Q3> {};

// Numbers of 8 bits, whose scale is that of a whole tile's row: a box of scales is four tiles'.
template <int AT_ONCE> struct Unpack<FORMAT_E4M3, AT_ONCE> {
    static constexpr int COLUMNS = 128, GROUPS = COLUMNS / 32, SCALE_BYTES = 16, TILES_A_BOX = 4, RAW = 4;
    uint32_t quants;   // of row g in shared memory: its first piece's place, from word t / 2 on
    int n_groups;      // that are there; the others count as zeros
    uint32_t scale[2]; // of rows g and g + 8, as e4m3_scale() makes it
    int shift;         // of a lane's two bytes in a word

    __device__ Unpack() { shift = threadIdx.x % 2 * 16; }
    __device__ void begin(uint32_t tile, uint32_t scales_of_tile, int step, int row, int groups_there) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        quants = (tile + (row + g) * 128 + t / 2 * 4) ^ g << 4;
        n_groups = groups_there;
        const uint32_t from = scales_of_tile + (row + g) * SCALE_BYTES + step % TILES_A_BOX * 4;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            uint32_t bits;
            load_words<1>(from + r * 8 * SCALE_BYTES, &bits);
            scale[r] = e4m3_scale(__uint_as_float(bits));
        }
    }
    __device__ void load_scales(int) {}
    __device__ void load(int group, uint32_t raw[2][RAW]) const {
#pragma unroll
        for (int i = 0; i < RAW; i++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                load_words<1>((quants ^ (group * 2 + i / 2) << 4) + r * 1024 + i % 2 * 8, &raw[r][i]);
                if (group >= n_groups) raw[r][i] = 0; // scales lie there, which need be no numbers
            }
    }
    __device__ void fragments(int, const uint32_t raw[2][RAW], uint32_t a[2][4]) const {
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                a[i][r] = e4m3_scaled(raw[r][2 * i] >> shift, scale[r]);
                a[i][r + 2] = e4m3_scaled(raw[r][2 * i + 1] >> shift, scale[r]);
            }
    }
};

// Wide codes (codes.cuh), whose records lie where others have scales. A lane finds its codes' lower bits, or all of those
// of a group's first product, where nibbles lie; of the second product the upper bits are above them, as multiples of 4
// or 8, and the rest is put below these.
template <int FORMAT> struct UnpackWide {
    static constexpr int COLUMNS = 256, GROUPS = COLUMNS / 32, TILES_A_BOX = 1, RAW = 4,
                         SCALE_BYTES = wide_rest_bytes(FORMAT, COLUMNS);
    static constexpr bool SIX = FORMAT == FORMAT_Q6, MIN = FORMAT == FORMAT_Q5M;
    uint32_t quants, records; // of row g in shared memory
    int n_groups;             // that are there; the others count as zeros
    uint32_t selector;        // of a lane's bytes among those of two words
    uint32_t halves;          // of its two bytes of the rest, each in a half
    uint32_t factor;          // that brings its bits of these where they belong

    __device__ UnpackWide() {
        bool odd = threadIdx.x % 2, second = threadIdx.x % 4 / 2;
        selector = odd ? 0x7362 : 0x5140;
        halves = odd ? 0x4342 : 0x4140;
        factor = SIX ? 4 : second ? 2 : 8;
    }
    __device__ void begin(uint32_t tile, uint32_t records_of_tile, int, int row, int groups_there) {
        int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        quants = (tile + (row + g) * 128 + t / 2 * 4) ^ g << 4;
        records = records_of_tile + (row + g) * SCALE_BYTES;
        n_groups = groups_there;
    }
    __device__ void load_scales(int) {}
    // Two words of codes, one of the rest, the scales.
    __device__ void load(int group, uint32_t raw[2][RAW]) const {
        const int second = threadIdx.x % 4 / 2;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            uint32_t piece = (quants ^ group << 4) + r * 1024, record = records + r * 8 * SCALE_BYTES;
            load_words<1>(piece, &raw[r][0]);
            load_words<1>(piece + 8, &raw[r][1]);
            if constexpr (SIX) {
                load_words<1>(record + group * 12 + second * 4, &raw[r][2]);
                load_words<1>(record + group * 12 + 8, &raw[r][3]);
            } else if constexpr (MIN) {
                load_words<2>(record + group * 8, &raw[r][2]);
            } else {
                load_words<1>(record + group / 2 * 12 + group % 2 * 4, &raw[r][2]);
                load_words<1>(record + group / 2 * 12 + 8, &raw[r][3]);
            }
            if (group >= n_groups) raw[r][3] = 0;
        }
    }
    __device__ void fragments(int group, const uint32_t raw[2][RAW], uint32_t a[2][4]) const {
        constexpr uint32_t LOWER = SIX ? 0x003f003f : 0x001f001f, UPPER = LOWER ^ 0x00ff00ff,
                           REST = SIX ? 0x003c003c : 0x00180018;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            uint32_t w = __byte_perm(raw[r][0], raw[r][1], selector), high = w >> 8, scales = raw[r][3];
            uint32_t rest = __byte_perm(raw[r][2], 0, halves) * factor, min = __byte_perm(scales, 0, 0x3232);
            uint32_t low_scale = __byte_perm(scales, 0, FORMAT == FORMAT_Q5 && group % 2 ? 0x3232 : 0x1010);
            uint32_t last_scale = SIX ? min : low_scale;
            a[0][r] = lower(masked(w, LOWER, 0x64006400), low_scale, min);
            a[0][r + 2] = lower(masked(high, LOWER, 0x64006400), low_scale, min);
            a[1][r] = upper(masked(w, UPPER, 0x64006400) | (rest & REST), last_scale, min);
            a[1][r + 2] = upper(masked(high, UPPER, 0x64006400) | (rest >> 4 & REST), last_scale, min);
        }
    }

  private:
    static constexpr int OFFSET = SIX ? 32 : MIN ? 0 : 16; // of codes
    // Of 1024 + q.
    __device__ static uint32_t lower(uint32_t raised, uint32_t scale, uint32_t min) {
        return value(__hsub2(*(__half2 *)&raised, __float2half2_rn(1024 + OFFSET)), scale, min);
    }
    // Of 1024 + 4·q of six bits, 1024 + 8·q of five.
    __device__ static uint32_t upper(uint32_t raised, uint32_t scale, uint32_t min) {
        return value(__hfma2(*(__half2 *)&raised, __float2half2_rn(SIX ? 0.25f : 0.125f),
                             __float2half2_rn(SIX ? -256 - OFFSET : -128 - OFFSET)),
                     scale, min);
    }
    __device__ static uint32_t value(__half2 q, uint32_t scale, uint32_t min) {
        q = MIN ? __hfma2(q, *(__half2 *)&scale, *(__half2 *)&min) : __hmul2(q, *(__half2 *)&scale);
        return *(uint32_t *)&q;
    }
};
template <int AT_ONCE> struct Unpack<FORMAT_Q5, AT_ONCE> : UnpackWide<FORMAT_Q5> {};
template <int AT_ONCE> struct Unpack<FORMAT_Q5M, AT_ONCE> : UnpackWide<FORMAT_Q5M> {};
template <int AT_ONCE> struct Unpack<FORMAT_Q6, AT_ONCE> : UnpackWide<FORMAT_Q6> {};

#endif
