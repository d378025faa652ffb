// The decoding kernel on several cards (kernels/shards): how x is put together of what all of them add to it.
//
// A row of out or down is a share on every card. Who has computed one stores it into every card's memory, its own too, as
// blocks store activations for each other: a float whose lowest four bits say in which layer it was written. Every block
// adds all cards' shares, in the order of ranks, to its own copy of x, which so is the same to the bit on all of them.
//
//   card 0   out: rows ─ share 0 ─→ [card 0: shares 0, 1] ─→ x' = x + share 0 + share 1 ─→ gate_up …
//                              ╳                                         of every block
//   card 1   out: rows ─ share 1 ─→ [card 1: shares 0, 1] ─→ x' = x + share 0 + share 1 ─→ gate_up …
//
// On one card x is put together likewise of what both halves of rows of out or of down add, where these go in halves
// (DecodeArguments.halved).
//
// A place is written again a layer later. The card that writes it has by then all shares of the phase between, which a
// block publishes after it has read the place: so every block must have rows of both phases.
#ifndef PALAVER_KERNELS_CUDA_DECODE_CARDS_CUH
#define PALAVER_KERNELS_CUDA_DECODE_CARDS_CUH

#include "kernels/cuda/decode/exchange.cuh"
#include "kernels/cuda/device/ptx_peers.cuh"

// Row `row` of out, or of down, to all cards.
__device__ inline void publish_share(const DecodeArguments &a, bool of_down, int row, float value,
                                     unsigned round) {
    const uint32_t bits = (__float_as_uint(value) & ~(uint32_t)ROUND_BITS) | (round & ROUND_BITS);
    for (int card = 0; card < a.n_cards; card++)
        store_share(a.shares[card] + ((int64_t)of_down * a.n_cards + a.card) * a.hidden + row, bits);
}

enum { SHARE_TURNS = 3, SHARES_AT_ONCE = 2 };

// Adds the shares of two cards from `card` on to f, elements first + t·INPUT_SPAN …: all loads at once, again until all
// are there.
__device__ inline void receive_shares(const InputSource &s, const uint32_t *from, int n_cards, int card,
                                      int first, float4 (&f)[SHARE_TURNS]) {
    uint4 v[SHARES_AT_ONCE][SHARE_TURNS];
    Patience patience;
    const uint32_t none = s.round & ROUND_BITS; // what is not there: zero, in time
    uint32_t wrong;
    for (;;) {
        wrong = 0;
#pragma unroll
        for (int c = 0; c < SHARES_AT_ONCE; c++)
#pragma unroll
            for (int t = 0; t < SHARE_TURNS; t++) {
                v[c][t] = make_uint4(none, none, none, none);
                if (card + c < n_cards && first + t * INPUT_SPAN < s.cols)
                    v[c][t] = load_shares_4(from + (card + c) * s.cols + first + t * INPUT_SPAN);
            }
#pragma unroll
        for (int c = 0; c < SHARES_AT_ONCE; c++)
#pragma unroll
            for (int t = 0; t < SHARE_TURNS; t++)
                wrong |= (v[c][t].x ^ s.round) | (v[c][t].y ^ s.round) | (v[c][t].z ^ s.round) |
                         (v[c][t].w ^ s.round);
        if (!(wrong & ROUND_BITS)) break;
        patience.look_again();
    }
#pragma unroll
    for (int c = 0; c < SHARES_AT_ONCE; c++) {
        if (card + c >= n_cards) continue;
#pragma unroll
        for (int t = 0; t < SHARE_TURNS; t++) {
            const float4 y = carried_4(v[c][t]);
            f[t] = make_float4(f[t].x + y.x, f[t].y + y.y, f[t].z + y.z, f[t].w + y.w);
        }
    }
}

// A phase's input as load_input() brings it, where it is x after all cards' shares, or both halves': `from` [n_cards, cols].
static __device__ __noinline__ float load_shares(float eps, const uint32_t *from, int n_cards, InputSource s,
                                                 Input x, float *residual, float *sums) {
    const int mine = threadIdx.x * 4;
    float squares = 0;
#pragma unroll 1
    for (int begin = 0; begin < s.cols; begin += SHARE_TURNS * INPUT_SPAN) {
        float4 norms[SHARE_TURNS], f[SHARE_TURNS] = {};
        int at[SHARE_TURNS];
#pragma unroll
        for (int t = 0; t < SHARE_TURNS; t++) { // before the shares are there: they come from far
            at[t] = begin + t * INPUT_SPAN + mine;
            norms[t] = make_float4(1, 1, 1, 1);
            if (s.norm && at[t] < s.cols) norms[t] = __ldg((const float4 *)(s.norm + at[t]));
        }
        if (begin == 0) await(s.counter, s.target); // this card's
#pragma unroll 1
        for (int card = 0; card < n_cards; card += SHARES_AT_ONCE)
            receive_shares(s, from, n_cards, card, at[0], f);
#pragma unroll
        for (int t = 0; t < SHARE_TURNS; t++) {
            if (at[t] < s.cols) {
                const float4 before = *(const float4 *)(residual + at[t]);
                f[t] =
                    make_float4(before.x + f[t].x, before.y + f[t].y, before.z + f[t].z, before.w + f[t].w);
                *(float4 *)(residual + at[t]) = f[t];
                squares += f[t].x * f[t].x + f[t].y * f[t].y + f[t].z * f[t].z + f[t].w * f[t].w;
                f[t] = make_float4(f[t].x * norms[t].x, f[t].y * norms[t].y, f[t].z * norms[t].z,
                                   f[t].w * norms[t].w);
                if (s.floats) *(float4 *)(x.floats + float_index(at[t])) = f[t];
            }
            if (s.halves) store_halves(x, f[t], at[t], s.cols);
        }
        if (s.quants) store_quants<SHARE_TURNS>(x, f, at, s.cols);
    }
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
    sync_warps();
    return s.norm ? rsqrtf(__fdividef(sum_of_warps(sums), (float)s.cols) + eps) : 1;
}

#endif
