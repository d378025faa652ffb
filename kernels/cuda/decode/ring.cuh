// The rings through which weights and cache reach the warps of the decoding kernel.
//
// Warps that compute consume, each from a ring of its own; others fill the rings, a lane a ring:
//
//   filling lane ── bulk copy ──→ slot 0 │ slot 1 │ … │ slot n_stages-1 ──→ the computing warp
//                  `full` of a slot completes when its bytes have come,
//                  `empty` when the warp is done with them and the lane may copy again
//
// Before Hopper there are no bulk copies: what a lane would copy, its warp copies together, 16 bytes a lane.
#ifndef PALAVER_KERNELS_CUDA_DECODE_RING_CUH
#define PALAVER_KERNELS_CUDA_DECODE_RING_CUH

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/cache/store.cuh"
#include "kernels/cuda/decode/decode.cuh"

#include <type_traits>

// Whether a lane copies by itself, and how many lanes arrive at `full` of a slot.
#if __CUDA_ARCH__ >= 900
constexpr bool BULK_COPIES = true;
#else
constexpr bool BULK_COPIES = false;
#endif
constexpr int FULL_ARRIVALS = BULK_COPIES ? 1 : 32;

// The part of the cache that an attending block looks at: indexes [begin, end) for one KV head, in chunks. Its
// computing warps form streams of `parts` warps, which go through the stream's chunks together and divide the query
// heads:
//
//   parts = 2       warps 0, 1      warps 2, 3      warps 4, 5      …
//   stream          0               1               2               …  streams-1
//   chunks          0, streams, …   1, streams+1, … 2, streams+2, …
//
// Where tokens were evicted, the first `sinks` chunks are seen as the attention sinks of StepSequence are, and one
// that holds both kinds of indexes comes twice. Where the token itself goes into a quantised cache, its block's last
// warp belongs to no stream: it rounds, by `pieces` of feedback that come through its ring.
struct CacheShare {
    bool any, owner; // owner: the token's own index is in the range
    int pieces;
    int kv_head, split, streams, parts, n_chunks, chunk_slots, begin, end, sinks, twice;
    int page_shift, first_page;
    const int32_t *pages;  // of the range; in shared memory, as the masks
    const uint32_t *masks; // [n_windows, n_chunks] visible slots

    __device__ int index(int chunk) const { // its first
        return begin + (chunk - (chunk >= sinks ? twice : 0)) * chunk_slots;
    }
    __device__ int slot(int index) const {
        return pages[(index >> page_shift) - first_page] + (index & (int)((1u << page_shift) - 1));
    }
};

// The first chunk of a warp, n_chunks if there is none.
__device__ inline int first_chunk(const CacheShare &c, int warp) {
    int stream = warp / c.parts;
    return stream < c.streams ? stream : c.n_chunks;
}

__device__ inline int next_chunk(const CacheShare &c, int window, int chunk) {
    while (chunk < c.n_chunks && c.masks[window * c.n_chunks + chunk] == 0) chunk += c.streams;
    return chunk;
}

// ---- the consuming side: one a warp ----------------------------------------------------------------------------

struct Ring {
    const char *slots;
    uint32_t full, empty, parity;
    int n_stages, slot_bytes, taken;

    __device__ const char *take() {
        barrier_wait(full + taken * 8, parity);
        return slots + taken * slot_bytes;
    }

    // All lanes, after their last read of what take() gave.
    __device__ void give_back() {
        __syncwarp();
        if (CHECKED || threadIdx.x % 32 == 0) barrier_arrive(empty + taken * 8);
        if (++taken == n_stages) taken = 0, parity ^= 1;
    }
};

// ---- the filling side: one a lane ------------------------------------------------------------------------------

template <class Cache> struct Filler {
    static constexpr bool SCALED = Cache::KIND != DECODE_F16;
    const DecodeArguments &a;
    const DecodeLayer *layers;
    const DecodeScales *scales;
    // In shared memory, and where a warp copies for a lane, with registers to spare, in them.
    std::conditional_t<BULK_COPIES, const CacheShare &, const CacheShare> cache;
    uint32_t slots, full, empty;
    int warp, stage;
    uint32_t parity;
    // The next copy: a chunk of a row, row after row of a group, or keys (then values) of a chunk of the cache.
    int layer, phase, unit;
    int row, n_rows, left; // of the group that begins at `unit`: this row, rows, elements from this column on
    int whole, whole_bytes,
        rest; // elements and bytes of a whole chunk; bytes of a row's last, where it is not whole
    int to_odd, to_even,
        step; // bytes to the group's next row, by its number, and from one unit to the warp's next
    const char *group, *column_at; // the group's first row, and where it goes on
    const char *keys;              // of the layer and the KV head
    int64_t to_values;             // bytes from a chunk's keys to its values
    int window;                    // of the layer
    bool second, masked;           // masked: the masks are there
    const char *from;
    uint32_t bytes;

    // What all of a phase's groups have in common; where q, k and v are matrices of their own, of a unit.
    __device__ void begin_rows() {
        const DecodeLayer &l = layers[layer];
        const DecodeMatrix *m = phase == PHASE_LOGITS ? &a.output : &l.rows[phase];
        const bool pairs = phase == PHASE_GATE_UP;
        int r = pairs ? 2 * unit : unit;
        if (phase == PHASE_QKV && l.split_qkv && unit >= a.q_dim) {
            const bool is_key = unit < a.q_dim + a.kv_dim;
            m = is_key ? &l.k : &l.v;
            r -= is_key ? a.q_dim : a.q_dim + a.kv_dim;
        }
        const int row_bytes = m->row_bytes;
        whole = chunk_elements(m->format), whole_bytes = chunk_bytes(m->format, whole);
        rest = chunk_bytes(m->format, a.phases[phase].cols % whole);
        step = (int)gridDim.x * DECODE_WARPS * row_bytes * (pairs ? 2 : 1);
        to_odd = pairs ? row_bytes : step, to_even = pairs ? step - row_bytes : step;
        group = m->data + (int64_t)r * row_bytes;
        begin_group();
    }

    __device__ void begin_group() {
        const int units = units_left(unit, gridDim.x * DECODE_WARPS, a.phases[phase].units);
        n_rows = min(ROWS_AT_ONCE, phase == PHASE_GATE_UP ? 2 * units : units);
        if (phase == PHASE_QKV && layers[layer].split_qkv) n_rows = 1;
        row = 0, left = a.phases[phase].cols;
        from = column_at = group;
        bytes = left < whole ? rest : whole_bytes;
    }

    // Behind a group: the phase's next one, or what comes after the phase.
    __device__ void leave_group() {
        const int units = phase == PHASE_GATE_UP ? n_rows / 2 : n_rows;
        unit += units * gridDim.x * DECODE_WARPS;
        if (unit >= a.phases[phase].units || (phase == PHASE_QKV && layers[layer].split_qkv)) return seek();
        group += (int64_t)units * step;
        begin_group();
    }

    __device__ void begin_chunk() {
        int index = cache.index(unit), n = min(cache.chunk_slots, cache.end - index);
        from = keys + (int64_t)cache.slot(index) * (a.head_dim * cache_bits(Cache::KIND) / 8);
        bytes = (uint32_t)(n * a.head_dim) * cache_bits(Cache::KIND) / 8;
    }

    __device__ void begin_piece() {
        int first = (unit - cache.n_chunks) * FEEDBACK_PIECE, all = feedback_floats(a.head_dim);
        from = (const char *)(scales[layer].feedback + (int64_t)cache.kv_head * all + first);
        bytes = (uint32_t)min(FEEDBACK_PIECE, all - first) * 4;
    }

    __device__ void begin_attending() {
        const DecodeLayer &l = layers[layer];
        keys = l.keys + cache.kv_head * a.cache.head_stride * cache_bits(Cache::KIND) / 8;
        to_values = l.values - l.keys, window = l.window;
        unit = first_chunk(cache, warp);
    }

    // From (phase, unit) on to the next thing there is to copy.
    __device__ void seek() {
        while (phase != PHASE_END) {
            if (phase == PHASE_ATTEND) {
                if (cache.any) {
                    if (!masked) return;
                    unit = next_chunk(cache, window, unit);
                    if (unit < cache.n_chunks) return begin_chunk();
                    if constexpr (SCALED)
                        if (warp == DECODE_WARPS - 1 && unit < cache.n_chunks + cache.pieces)
                            return begin_piece();
                }
            } else if (unit < a.phases[phase].units) {
                return begin_rows();
            }
            phase++;
            if (phase == PHASE_LOGITS && layer + 1 < a.n_layers) phase = PHASE_QKV, layer++;
            unit = warp * gridDim.x + blockIdx.x;
            if (phase == PHASE_ATTEND) begin_attending();
        }
    }

    __device__ void advance() {
        if (SCALED && phase == PHASE_ATTEND && unit >= cache.n_chunks) {
            unit++;
            return seek();
        }
        if (phase == PHASE_ATTEND) {
            second = !second;
            if (second) {
                from += to_values;
                return;
            }
            unit += cache.streams;
            return seek();
        }
        if (++row < n_rows) {
            from += row % 2 ? to_odd : to_even;
            return;
        }
        left -= whole;
        if (left <= 0) return leave_group();
        row = 0;
        from = column_at += bytes;
        if (left < whole) bytes = rest;
    }

    __device__ void next_stage() {
        if (++stage == a.shared.n_stages) stage = 0, parity ^= 1;
    }

    // The next copy, by this lane.
    __device__ void issue() {
        uint32_t barrier = full + stage * 8;
        barrier_expect(barrier, bytes);
        copy_bulk(slots + stage * a.shared.slot_bytes, from, bytes, barrier);
        next_stage();
    }

    // The next copies of those of the warp's first LANES lanes that are `ready`, by the whole warp.
    template <int LANES> __device__ void issue_together(bool ready) {
        constexpr uint32_t USUAL = 2048; // bytes; scales may lie behind
        const int lane = threadIdx.x % 32;
        const uint32_t to = slots + stage * a.shared.slot_bytes, barrier = full + stage * 8;
        const unsigned lanes = __ballot_sync(~0u, ready);
#pragma unroll
        for (int of = 0; of < LANES; of++) {
            if (!(lanes >> of & 1)) continue; // for all lanes
            const uint32_t place = __shfl_sync(~0u, to, of), n = __shfl_sync(~0u, bytes, of);
            const char *piece = (const char *)__shfl_sync(~0u, (unsigned long long)from, of);
            auto copy = [&](uint32_t at) {
                if (at < n) copy_streaming(place + at, piece + at);
            };
#pragma unroll
            for (uint32_t at = 0; at < USUAL; at += 32 * 16) copy(at + lane * 16);
#pragma unroll 1
            for (uint32_t at = USUAL; at < n; at += 32 * 16) copy(at + lane * 16);
            barrier_arrive_behind_copies(__shfl_sync(~0u, barrier, of));
        }
        if (ready) next_stage();
    }
};

// A filling warp, the `filler`-th of them. The first weights set out before it is known which slots are seen; nothing
// of the cache does.
template <class Cache>
__device__ inline void fill_rings(Filler<Cache> f, uint32_t slots, uint32_t barriers, int filler) {
    const DecodeArguments &a = f.a;
    constexpr int EACH = DECODE_WARPS / DECODE_FILLERS;
    int lane = threadIdx.x % 32, warp = filler * EACH + lane % EACH;
    bool filling = lane < EACH, held = true;
    f.warp = warp;
    f.slots = slots + warp * a.shared.n_stages * a.shared.slot_bytes;
    f.full = barriers + warp * DECODE_MAX_STAGES * 16;
    f.empty = f.full + DECODE_MAX_STAGES * 8;
    f.stage = 0, f.parity = 1; // a fresh barrier has passed the phase before its first
    f.layer = 0, f.phase = PHASE_QKV, f.unit = warp * gridDim.x + blockIdx.x, f.second = false;
    f.masked = false;
    if (filling) f.seek();
    for (;;) {
        bool more = filling && f.phase != PHASE_END && (f.masked || f.phase != PHASE_ATTEND);
        bool ready = false;
        for (int turn = 0; turn < (CHECKED ? EACH : 1); turn++) {
            // One lane after the other: racecheck looks at one barrier a warp.
            if (CHECKED && lane != turn) continue;
            ready = more && barrier_passed(f.empty + f.stage * 8, f.parity);
            if constexpr (BULK_COPIES)
                if (ready) {
                    f.issue();
                    f.advance();
                }
        }
        if constexpr (!BULK_COPIES) {
            f.template issue_together<EACH>(ready);
            if (ready) f.advance();
        }
        if (__any_sync(~0u, ready)) continue;
        if (held) { // rings are full, or nothing else can be had before the masks are there
            named_barrier_sync<3, DECODE_ALL_THREADS>();
            held = false;
            f.masked = true;
            if (filling && f.phase == PHASE_ATTEND) f.seek();
        } else if (!__any_sync(~0u, more)) {
            if constexpr (!BULK_COPIES)
                await_all_copies(); // those of a warp that is gone: nothing is said of them
            return;
        }
    }
}

#endif
