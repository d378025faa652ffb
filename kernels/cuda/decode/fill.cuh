// The filling side of the decoding kernel's rings (ring.cuh): what is copied when, a lane a ring.
#ifndef PALAVER_KERNELS_CUDA_DECODE_FILL_CUH
#define PALAVER_KERNELS_CUDA_DECODE_FILL_CUH

#include "kernels/cuda/cache/store.cuh"
#include "kernels/cuda/decode/ring.cuh"

#include <type_traits>

// What is copied next: of `n_rows` rows, at `first`, first + between, and the same `apart` behind them, chunk after chunk
// of all of them; keys and values of a chunk of the cache are two rows. What a copy takes few instructions for is put
// together once a group of rows, and what a phase's groups have in common once a phase: one lane after the other stands
// still for it, and rings run dry if that takes long.
template <class Cache, bool EXPERTS, DecodeOthers OTHERS> struct Filler {
    static constexpr bool SCALED = Cache::KIND != DECODE_F16, RECURS = OTHERS == DECODE_RECURS,
                          KINDS = OTHERS == DECODE_KINDS;
    typedef std::conditional_t<BULK_COPIES, const CacheShare &, const CacheShare> Share;
    const DecodeArguments &a;
    const DecodeLayer *layers;
    const DecodeScales *scales;
    const DecodeGated *gated; // where layers recur
    const DecodeKind *kinds;  // where they are of two kinds
    // In shared memory, and where a warp copies for a lane, with registers to spare, in them.
    Share cache;
    std::conditional_t<KINDS, Share, const CacheShare &> wide; // of the second kind
    const ChosenExperts &chosen;
    uint32_t choice;     // barrier: a layer's experts are chosen
    uint32_t multiplied; // in shared memory: the phase that the block multiplies, by place_of()
    uint32_t slots, full, empty;
    int warp, stage;
    uint32_t parity;
    int under_way, oldest; // copies that may not have come yet, and the first one's stage
    uint32_t oldest_parity;
    bool masked; // the masks are there
    int layer, phase, unit;
    // Of the phase: its units, its matrix, and where the next group's rows begin, if each follows `unit` by unit.
    int units, row_bytes;
    bool pairs, split;
    uint32_t full_bytes, last_bytes; // of a row's chunks
    int n_chunks;
    const char *data, *next;
    int row, n_rows, chunk; // n_rows 0: to be put together
    int piece, n_pieces;    // DecodePhaseShape.pieces
    int done;               // units that it takes
    const char *first;
    int64_t between, apart;
    int64_t head_at;    // bytes from a layer's keys to those of the KV head
    int first_attended; // the warp's first chunk
    const char *keys;   // of the layer that is attended in, and of the KV head
    int slot_bytes,
        slot_shift; // where layers are of two kinds: from slot to slot, and log2 of the bytes of one's head
    int window;     // of that layer
    uint32_t bytes, offset;
    int ahead;          // the layer up to which qkv is in the L2, or on its way there
    int group_rows;     // of an expert's rows of down
    const int32_t *ids; // of the experts whose rows of down these are
    int part;           // of DecodeGated.parts

    __device__ int first_unit() const { return warp * gridDim.x + blockIdx.x; }
    __device__ static int stride() { return gridDim.x * DECODE_WARPS; }

    __device__ void begin_rows(const char *at, int n) {
        first = at, n_rows = n;
        row = chunk = 0, offset = 0;
        bytes = n_chunks == 1 ? last_bytes : full_bytes;
    }

    // n rows that are one chunk each.
    __device__ void begin_single(const char *at, uint32_t each, int n) {
        n_chunks = 1, last_bytes = each;
        begin_rows(at, n);
    }

    __device__ const char *pair_of_unit(int u) const {
        u += chosen.ahead[__umulhi((unsigned)u, a.size_factor)];
        return data + (int64_t)(2 * u) * row_bytes;
    }

    // A part of a router's row.
    __device__ void begin_part() {
        const int row = unit / a.route_parts, from = (unit - row * a.route_parts) * ROUTE_PART;
        done = stride();
        begin_single(data + ((int64_t)row * a.hidden + from) * 4,
                     (uint32_t)min(ROUTE_PART, a.hidden - from) * 4, 1);
    }

    // The first rows of down of experts, n of them: of those of the chosen ones that are pieces of the block's half.
    __device__ void begin_pieces(int n) {
        const bool halved = a.is_halved(PHASE_DOWN);
        n_pieces = a.phases[PHASE_DOWN].pieces, group_rows = n;
        ids = chosen.ids + (halved ? blockIdx.x % 2 * n_pieces : 0);
        begin_rows(data + ((int64_t)ids[0] * a.hidden + (unit >> halved)) * row_bytes, n);
    }

    // The same rows of the next expert, whose matrix follows by so many others.
    __device__ void begin_next_piece() {
        const int64_t each = (int64_t)a.hidden * row_bytes;
        begin_rows(first + (ids[piece] - ids[piece - 1]) * each, group_rows);
    }

    // While it waits for the router, memory has nothing to do: the warp's rows of the next layer's qkv go into the L2,
    // where experts, which are read once, do not drive them out.
    __device__ void prefetch_next_layer() {
        if (ahead > layer || layer + 1 >= a.n_layers) return;
        const DecodeLayer &l = layers[ahead = layer + 1];
        if (RECURS) {
            const DecodeGated &g = gated[ahead];
            for (int u = first_unit(), at = 0; u < g.units(); u += stride()) {
                while (u >= g.ends[at]) at++;
                const DecodeMatrix &m = g.parts[at];
                prefetch_bulk(m.data + (int64_t)(u - g.begin(at)) * m.row_bytes, (uint32_t)m.row_bytes);
            }
            return;
        }
        const DecodeMatrix *m = &l.rows[PHASE_QKV];
        for (int u = first_unit(); u < a.phases[PHASE_QKV].units; u += stride()) {
            int r = u;
            if (l.split_qkv && u >= a.q_dim) {
                const bool key = u < a.q_dim + a.kv_dim;
                m = key ? &l.k : &l.v, r -= key ? a.q_dim : a.q_dim + a.kv_dim;
            }
            prefetch_bulk(m->data + (int64_t)r * m->row_bytes, (uint32_t)m->row_bytes);
        }
    }

    __device__ void take_matrix(const DecodeMatrix &m) {
        data = m.data, row_bytes = m.row_bytes, n_chunks = m.n_chunks;
        full_bytes = m.chunk_16ths * 16, last_bytes = m.last_16ths * 16;
    }

    // Rows of q, of k or of v, where these are matrices of their own.
    __device__ void begin_split_group() {
        const DecodeLayer &l = layers[layer];
        const QkvRows parts = qkv_rows<OTHERS>(a, KINDS ? kinds + layer : NULL);
        const int begin = unit < parts.q ? 0 : unit < parts.q + parts.kv ? parts.q : parts.q + parts.kv;
        if (begin > 0) take_matrix(begin == parts.q ? l.k : l.v);
        between = (int64_t)stride() * row_bytes, apart = 2 * between;
        const int n = units_left(unit, stride(), parts.end_of_part(unit));
        done = n * stride();
        begin_rows(data + (int64_t)(unit - begin) * row_bytes, n);
    }

    // Rows of one of the matrices of qkv.
    __device__ void begin_gated_group() {
        const DecodeGated &g = gated[layer];
        while (unit >= g.ends[part]) part++;
        take_matrix(g.parts[part]);
        between = (int64_t)stride() * row_bytes, apart = 2 * between;
        const int n = units_left(unit, stride(), g.ends[part]);
        done = n * stride();
        begin_rows(data + (int64_t)(unit - g.begin(part)) * row_bytes, n);
    }

    // Rows of a matrix: a group of units.
    __device__ void begin_group() {
        const int n = units_left(unit, stride(), units);
        if (EXPERTS && phase == PHASE_ROUTE) return begin_part();
        if (RECURS && phase == PHASE_QKV) return begin_gated_group();
        if (!RECURS && phase == PHASE_QKV && split) return begin_split_group();
        done = (pairs ? ROWS_AT_ONCE / 2 : ROWS_AT_ONCE) * stride();
        if (EXPERTS && pairs) {
            begin_rows(pair_of_unit(unit), min(ROWS_AT_ONCE, 2 * n));
            if (n > 1) apart = pair_of_unit(unit + stride()) - first;
        } else if (EXPERTS && phase == PHASE_DOWN) {
            begin_pieces(n);
        } else {
            begin_rows(next, pairs ? min(ROWS_AT_ONCE, 2 * n) : n);
            next += 2 * apart;
        }
    }

    // The share of the cache that the layer's heads go through.
    __device__ const CacheShare &share() const { return KINDS && kinds[layer].wide ? wide : cache; }

    // Keys and values of a chunk; `between` them is the same for all of a layer.
    __device__ void begin_chunk() {
        const CacheShare &c = share();
        const int index = c.index(unit), n = min(c.chunk_slots, c.end - index);
        const int of_slot = KINDS ? 1 << slot_shift : a.head_dim * cache_bits(Cache::KIND) / 8;
        done = c.streams;
        begin_single(keys + (int64_t)c.slot(index) * (KINDS ? slot_bytes : of_slot), (uint32_t)(n * of_slot),
                     2);
    }

    __device__ void begin_piece() {
        int at = (unit - cache.n_chunks) * FEEDBACK_PIECE, all = feedback_floats(a.head_dim);
        done = 1;
        begin_single((const char *)(scales[layer].feedback + (int64_t)cache.kv_head * all + at),
                     (uint32_t)min(FEEDBACK_PIECE, all - at) * 4, 1);
    }

    __device__ void begin_attending() {
        const DecodeLayer &l = layers[layer];
        keys = l.keys + head_at;
        between = l.values - l.keys, window = l.window;
        unit = first_attended;
        if constexpr (KINDS) { // whose slots have the heads one behind the other
            const DecodeHeads &heads = a.heads[kinds[layer].wide];
            const CacheShare &c = share();
            keys = l.keys + c.kv_head * heads.head_stride * 2;
            slot_bytes = (int)heads.slot_stride * 2,
            slot_shift = kinds[layer].wide ? WIDE_SHIFT : USUAL_SHIFT;
            unit = c.any ? first_chunk(c, warp) : 0;
        }
    }

    // Of a phase that multiplies.
    __device__ void begin_phase() {
        unit = first_unit(), units = a.phases[phase].units;
        if (KINDS && phase == PHASE_QKV) units = qkv_rows<OTHERS>(a, kinds + layer).all();
        if (RECURS && phase == PHASE_QKV) units = gated[layer].units(), part = 0;
        if (unit >= units) return;
        pairs = phase == PHASE_GATE_UP, split = layers[layer].split_qkv;
        if (phase == PHASE_LOGITS)
            take_matrix(a.output);
        else
            take_matrix(layers[layer].rows[phase]);
        // A row of experts goes in halves by its pieces: the next unit of the block is as far behind as half as many rows.
        const bool by_pieces = EXPERTS && phase == PHASE_DOWN && a.is_halved(PHASE_DOWN);
        const int64_t of_unit = (int64_t)row_bytes << pairs, step = stride() * of_unit >> by_pieces;
        next = data + unit * of_unit;
        between = pairs ? row_bytes : step, apart = pairs ? step : 2 * step;
    }

    // Whether what comes next lies where the layer's experts do: also the first rows of down, of a warp that has none of
    // gate_up.
    __device__ bool awaits_choice() const {
        return phase == PHASE_GATE_UP || (phase == PHASE_DOWN && unit < stride());
    }

    // Puts together what comes next, unless it is not known yet where that lies.
    __device__ void begin() {
        if (EXPERTS && ++piece < n_pieces) return begin_next_piece();
        unit += done;
        done = piece = 0, n_pieces = 1;
        while (phase != PHASE_END) {
            if (phase == PHASE_ATTEND) {
                if (share().any && !(RECURS && gated[layer].recurs)) {
                    if (!masked) return;
                    unit = next_chunk(share(), window, unit);
                    if (unit < share().n_chunks) return begin_chunk();
                    if constexpr (SCALED)
                        if (warp == DECODE_WARPS - 1 && unit < cache.n_chunks + cache.pieces)
                            return begin_piece();
                }
            } else if (unit < units) {
                if (EXPERTS && awaits_choice() && !barrier_passed(choice, layer & 1)) {
                    if constexpr (BULK_COPIES) prefetch_next_layer();
                    return;
                }
                return begin_group();
            }
            if (++phase == PHASE_ROUTE && !EXPERTS) phase++;
            if (phase == PHASE_LOGITS && layer + 1 < a.n_layers) phase = PHASE_QKV, layer++;
            if (phase == PHASE_ATTEND)
                begin_attending();
            else if (phase != PHASE_END)
                begin_phase();
        }
    }

    __device__ const char *from() const {
        return first + offset + (row & 2 ? apart : 0) + (row & 1 ? between : 0);
    }

    // Whether another copy may be under way.
    __device__ bool may_copy() {
        if constexpr (!BULK_COPIES) return true;
        const bool now = !CHECKED && load_shared_relaxed(multiplied) == place_of(layer, phase);
        const int most = now ? a.copies_now : a.copies_ahead;
        if (under_way >= most && barrier_passed(full + oldest * 8, oldest_parity)) {
            under_way--;
            if (++oldest == a.shared.n_stages) oldest = 0, oldest_parity ^= 1;
        }
        return under_way < most;
    }

    __device__ void advance() {
        if (BULK_COPIES) under_way++;
        if (++stage == a.shared.n_stages) stage = 0, parity ^= 1;
        if (++row < n_rows) return;
        row = 0, offset += bytes;
        if (++chunk == n_chunks) n_rows = 0;
        if (chunk + 1 == n_chunks) bytes = last_bytes;
    }

    // A chunk whose slots do not lie one behind the other.
    __device__ void copy_slots(uint32_t to, const char *first_slot, uint32_t barrier) const {
#pragma unroll 1
        for (uint32_t at = 0; at < bytes; at += 1u << slot_shift, first_slot += slot_bytes)
            copy_bulk(to + at, first_slot, 1u << slot_shift, barrier);
    }

    // The next copy, by this lane.
    __device__ void issue() {
        uint32_t barrier = full + stage * 8;
        barrier_expect(barrier, bytes);
        const uint32_t to = slots + stage * a.shared.slot_bytes;
        if (EXPERTS)
            copy_bulk(to, from(), bytes, barrier, read_once());
        else if (KINDS && phase == PHASE_ATTEND)
            copy_slots(to, from(), barrier);
        else
            copy_bulk(to, from(), bytes, barrier);
        advance();
    }

    // The next copies of those of the warp's first LANES lanes that are `ready`, by the whole warp.
    template <int LANES> __device__ void issue_together(bool ready) {
        constexpr uint32_t USUAL = 2048; // bytes; scales may lie behind
        const int lane = threadIdx.x % 32;
        const uint32_t to = slots + stage * a.shared.slot_bytes, barrier = full + stage * 8;
        const unsigned lanes = __ballot_sync(~0u, ready);
        const char *source = from();
#pragma unroll
        for (int of = 0; of < LANES; of++) {
            if (!(lanes >> of & 1)) continue; // for all lanes
            const uint32_t place = __shfl_sync(~0u, to, of), n = __shfl_sync(~0u, bytes, of);
            const char *piece = (const char *)__shfl_sync(~0u, (unsigned long long)source, of);
            // Where layers are of two kinds a chunk's slots do not lie one behind the other.
            const bool slots_apart = KINDS && phase == PHASE_ATTEND;
            const int shift = KINDS ? __shfl_sync(~0u, slots_apart ? slot_shift : 31, of) : 31;
            const int64_t step = KINDS ? __shfl_sync(~0u, slot_bytes, of) : 0;
            auto copy = [&](uint32_t at) {
                const char *source =
                    KINDS ? piece + (at >> shift) * step + (at & ((1u << shift) - 1)) : piece + at;
                if (at < n) copy_streaming(place + at, source);
            };
#pragma unroll
            for (uint32_t at = 0; at < USUAL; at += 32 * 16) copy(at + lane * 16);
#pragma unroll 1
            for (uint32_t at = USUAL; at < n; at += 32 * 16) copy(at + lane * 16);
            barrier_arrive_behind_copies(__shfl_sync(~0u, barrier, of));
        }
        if (ready) advance();
    }
};

// A filling warp, the `filler`-th of them. The first weights set out before it is known which slots are seen; nothing
// of the cache does; and of experts nothing before they are chosen.
template <class Cache, bool EXPERTS, DecodeOthers OTHERS>
__device__ inline void fill_rings(Filler<Cache, EXPERTS, OTHERS> f, uint32_t slots, uint32_t barriers,
                                  int filler) {
    const DecodeArguments &a = f.a;
    constexpr int EACH = DECODE_WARPS / DECODE_FILLERS;
    int lane = threadIdx.x % 32, warp = filler * EACH + lane % EACH;
    bool filling = lane < EACH, held = true;
    f.warp = warp;
    f.slots = slots + warp * a.shared.n_stages * a.shared.slot_bytes;
    f.full = barriers + warp * DECODE_MAX_STAGES * 16;
    f.empty = f.full + DECODE_MAX_STAGES * 8;
    f.stage = 0, f.parity = 1; // a fresh barrier has passed the phase before its first
    f.under_way = 0, f.oldest = 0, f.oldest_parity = 0;
    f.layer = 0, f.phase = PHASE_QKV, f.begin_phase();
    f.head_at = f.cache.kv_head * a.cache.head_stride * cache_bits(Cache::KIND) / 8;
    f.first_attended = f.cache.any ? first_chunk(f.cache, warp) : 0;
    f.n_rows = 0, f.done = 0, f.piece = 0, f.n_pieces = 1, f.ahead = 0;
    f.masked = false;
    for (;;) {
        const bool going = filling && f.phase != PHASE_END;
        if (going && f.n_rows == 0) f.begin();
        const bool more = going && f.n_rows > 0;
        bool ready = false;
        for (int turn = 0; turn < (CHECKED ? EACH : 1); turn++) {
            // One lane after the other: racecheck looks at one barrier a warp.
            if (CHECKED && lane != turn) continue;
            ready = more && f.may_copy() && barrier_passed(f.empty + f.stage * 8, f.parity);
            if constexpr (BULK_COPIES)
                if (ready) f.issue();
        }
        if constexpr (!BULK_COPIES) f.template issue_together<EACH>(ready);
        if (__any_sync(~0u, ready)) continue;
        if (held) { // rings have all that they may, or nothing else can be had before the masks are there
            named_barrier_sync<3, DECODE_ALL_THREADS>();
            held = false;
            f.masked = true;
        } else if (!__any_sync(~0u, going)) {
            if constexpr (!BULK_COPIES)
                await_all_copies(); // those of a warp that is gone: nothing is said of them
            return;
        }
    }
}

#endif
