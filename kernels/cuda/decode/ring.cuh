// The rings through which weights and cache reach the warps of the decoding kernel.
//
// Warps that compute consume, each from a ring of its own; others fill the rings, a lane a ring:
//
//   filling lane ── bulk copy ──→ slot 0 │ slot 1 │ … │ slot n_stages-1 ──→ the computing warp
//                  `full` of a slot completes when its bytes have come,
//                  `empty` when the warp is done with them and the lane may copy again
#ifndef PALAVER_KERNELS_CUDA_DECODE_RING_CUH
#define PALAVER_KERNELS_CUDA_DECODE_RING_CUH

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/cache/store.cuh"
#include "kernels/cuda/decode/decode.cuh"

__device__ inline void ring_copy(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier) {
    barrier_expect(barrier, bytes);
    copy_bulk(to, from, bytes, barrier);
}

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
    const DecodeLayer *layers; // these three in shared memory
    const DecodeScales *scales;
    const CacheShare &cache;
    uint32_t slots, full, empty;
    int warp, stage;
    uint32_t parity;
    // The next copy: a chunk of a row, row after row of a group, or keys (then values) of a chunk of the cache.
    int layer, phase, unit;
    int row, n_rows, column, format; // of the group that begins at `unit`; n_rows 0: a new one is to begin
    const DecodeMatrix *matrix;
    int offset;          // bytes from the beginning of a row
    bool second, masked; // masked: the masks are there
    const char *from;
    uint32_t bytes;

    __device__ void begin_group() {
        const DecodeLayer &l = layers[layer];
        int units = units_left(unit, gridDim.x * DECODE_WARPS, a.phases[phase].units);
        matrix = phase == PHASE_LOGITS ? &a.output : &l.rows[phase];
        n_rows = min(ROWS_AT_ONCE, phase == PHASE_GATE_UP ? 2 * units : units);
        if (phase == PHASE_QKV && l.split_qkv) {
            n_rows = 1;
            if (unit >= a.q_dim) matrix = unit < a.q_dim + a.kv_dim ? &l.k : &l.v;
        }
        format = matrix->format;
        row = column = offset = 0;
        begin_copy();
    }

    __device__ void begin_copy() {
        int stride = gridDim.x * DECODE_WARPS, full = chunk_elements(format);
        int r = phase == PHASE_GATE_UP ? 2 * (unit + (row >> 1) * stride) + (row & 1) : unit + row * stride;
        if (phase == PHASE_QKV && matrix != &layers[layer].rows[PHASE_QKV])
            r -= matrix == &layers[layer].k ? a.q_dim : a.q_dim + a.kv_dim;
        from = matrix->data + (int64_t)r * matrix->row_bytes + offset;
        bytes = chunk_bytes(format, min(a.phases[phase].cols - column, full));
    }

    __device__ void begin_chunk() {
        const DecodeLayer &l = layers[layer];
        int index = cache.index(unit), n = min(cache.chunk_slots, cache.end - index);
        int64_t at = cache.kv_head * a.cache.head_stride + (int64_t)cache.slot(index) * a.head_dim;
        from = (second ? l.values : l.keys) + at * cache_bits(Cache::KIND) / 8;
        bytes = (uint32_t)(n * a.head_dim) * cache_bits(Cache::KIND) / 8;
    }

    __device__ void begin_piece() {
        int first = (unit - cache.n_chunks) * FEEDBACK_PIECE, all = feedback_floats(a.head_dim);
        from = (const char *)(scales[layer].feedback + (int64_t)cache.kv_head * all + first);
        bytes = (uint32_t)min(FEEDBACK_PIECE, all - first) * 4;
    }

    // From (phase, unit) on to the next thing there is to copy.
    __device__ void seek() {
        while (phase != PHASE_END) {
            if (phase == PHASE_ATTEND) {
                if (cache.any) {
                    if (!masked) return;
                    unit = next_chunk(cache, layers[layer].window, unit);
                    if (unit < cache.n_chunks) return begin_chunk();
                    if constexpr (SCALED)
                        if (warp == DECODE_WARPS - 1 && unit < cache.n_chunks + cache.pieces)
                            return begin_piece();
                }
            } else if (unit < a.phases[phase].units) {
                return begin_group();
            }
            phase++;
            if (phase == PHASE_LOGITS && layer + 1 < a.n_layers) phase = PHASE_QKV, layer++;
            unit = phase == PHASE_ATTEND ? first_chunk(cache, warp) : warp * gridDim.x + blockIdx.x;
        }
    }

    __device__ void advance() {
        if (SCALED && phase == PHASE_ATTEND && unit >= cache.n_chunks) {
            unit++;
            return seek();
        }
        if (phase == PHASE_ATTEND) {
            second = !second;
            if (second) return begin_chunk();
            unit += cache.streams;
            return seek();
        }
        if (++row < n_rows) return begin_copy();
        row = 0;
        column += chunk_elements(format);
        offset += bytes;
        if (column < a.phases[phase].cols) return begin_copy();
        unit += (phase == PHASE_GATE_UP ? n_rows / 2 : n_rows) * gridDim.x * DECODE_WARPS;
        seek();
    }

    __device__ void issue() {
        ring_copy(slots + stage * a.shared.slot_bytes, from, bytes, full + stage * 8);
        if (++stage == a.shared.n_stages) stage = 0, parity ^= 1;
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
            if (ready) {
                f.issue();
                f.advance();
            }
        }
        if (__any_sync(~0u, ready)) continue;
        if (held) { // rings are full, or nothing else can be had before the masks are there
            named_barrier_sync<3, DECODE_ALL_THREADS>();
            held = false;
            f.masked = true;
            if (filling && f.phase == PHASE_ATTEND) f.seek();
        } else if (!__any_sync(~0u, more)) {
            return;
        }
    }
}

#endif
