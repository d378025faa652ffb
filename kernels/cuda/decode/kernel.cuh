// The decoding kernel: prologue, layers, logits. Instantiated by kernel.cu.
#ifndef PALAVER_KERNELS_CUDA_DECODE_KERNEL_CUH
#define PALAVER_KERNELS_CUDA_DECODE_KERNEL_CUH

#include "kernels/cuda/decode/attend.cuh"
#include "kernels/cuda/decode/cards.cuh"
#include "kernels/cuda/decode/choose.cuh"
#include "kernels/cuda/decode/fill.cuh"
#include "kernels/cuda/decode/recur.cuh"
#include "kernels/cuda/decode/rows.cuh"
#include "kernels/cuda/device/element.cuh"

// The pages of this block's split, and which of its slots are seen, chunk by chunk; the token's own is not in the cache
// yet.
template <int SLOTS>
__device__ inline void fill_masks(const DecodeArguments &a, const CacheShare &c, uint32_t *masks,
                                  int32_t *pages) {
    int n_pages = ((c.end - 1) >> c.page_shift) - c.first_page + 1;
    for (int i = threadIdx.x; i < n_pages; i += DECODE_THREADS) pages[i] = __ldg(a.pages + c.first_page + i);
    for (int i = threadIdx.x; i < c.n_chunks; i += DECODE_THREADS) {
        bool is_sink = i < c.sinks;
        int first = c.index(i), high = a.position - (is_sink ? a.n_evicted : 0);
        int low = !is_sink && a.n_evicted > 0 ? a.n_sinks + a.n_evicted : 0;
        int from = c.sinks > 0 && !is_sink ? a.n_sinks : 0, to = is_sink ? min(a.n_sinks, c.end) : c.end;
        int slot = __ldg(a.pages + (first >> c.page_shift)) + (first & (int)((1u << c.page_shift) - 1));
        int32_t position[SLOTS];
        uint32_t bits[2] = {0, 0};
#pragma unroll
        for (int j = 0; j < SLOTS; j++) {
            int index = first + j;
            bool counts = index >= from && index < to && index != a.index;
            position[j] = counts ? a.slot_positions[slot + j] : -1;
        }
#pragma unroll
        for (int j = 0; j < SLOTS; j++) {
            if (position[j] < low || position[j] > high) continue;
            int age = high - position[j];
            if (a.windows[0] <= 0 || age < a.windows[0]) bits[0] |= 1u << j;
            if (a.windows[1] <= 0 || age < a.windows[1]) bits[1] |= 1u << j;
        }
        masks[i] = bits[0];
        if (a.n_windows > 1) masks[c.n_chunks + i] = bits[1];
    }
}

// Block b < n_kv_heads·n_splits attends for KV head b % n_kv_heads, the others only do the GEMV.
template <int LANES, int HEADS, class Cache, class Heads>
__device__ inline CacheShare share_of_cache(const Heads &heads, const uint32_t *masks, const int32_t *pages) {
    const DecodeArguments &a = heads.a;
    int b = blockIdx.x;
    CacheShare c = {};
    c.any = b < heads.n_kv_heads() * heads.n_splits();
    if (!c.any) return c;
    c.kv_head = b % heads.n_kv_heads();
    c.split = b / heads.n_kv_heads();
    c.chunk_slots = decode_passes(Cache::KIND, HEADS) / Heads::EIGHTS * (32 / LANES);
    c.begin = heads.first() + c.split * heads.split_slots();
    c.end = min(c.begin + heads.split_slots(), a.n_slots);
    c.owner = a.index >= c.begin && a.index < c.end;
    bool rounds = Cache::KIND != DECODE_F16 && c.owner;
    c.pieces =
        rounds && a.feeds_back ? (feedback_floats(a.head_dim) + FEEDBACK_PIECE - 1) / FEEDBACK_PIECE : 0;
    c.parts = (heads.group() + HEADS - 1) / HEADS;
    c.streams = min((DECODE_WARPS - (rounds ? 1 : 0)) / c.parts, heads.most_streams());
    int prefix = a.n_evicted > 0 ? min(max(a.n_sinks - c.begin, 0), c.end - c.begin) : 0;
    c.sinks = (prefix + c.chunk_slots - 1) / c.chunk_slots;
    c.twice = prefix % c.chunk_slots != 0 && prefix < c.end - c.begin;
    c.n_chunks = (c.end - c.begin + c.chunk_slots - 1) / c.chunk_slots + c.twice;
    c.page_shift = a.page_shift;
    c.first_page = c.begin >> a.page_shift;
    c.pages = pages;
    c.masks = masks;
    return c;
}

// Where a phase's input comes from, for a kernel of such formats, and with code for halves or without.
template <DecodeFormats FORMATS, bool HALVES, DecodeOthers OTHERS>
__device__ inline InputSource input_of(const DecodeArguments &a, const PhaseOfLayer &at) {
    const DecodeLayer &l = at.l;
    const int phase = at.phase, layer = at.layer;
    const DecodePhaseShape &p = a.phases[phase];
    bool last = phase == PHASE_LOGITS;
    InputSource s;
    s.round = a.round + layer + (phase == PHASE_QKV ? 0 : 1); // qkv takes what the layer before has left
    s.from = phase == PHASE_QKV && layer == 0 ? NULL : p.from;
    s.counter = p.awaited;
    s.target = s.round * gridDim.x - a.early;
    s.cols = p.pieces * p.cols, s.width = p.pieces * p.pitch;
    if (OTHERS == DECODE_RECURS && phase == PHASE_OUT && at.gated->recurs) s.cols = s.width = a.state_width;
    if (OTHERS == DECODE_KINDS && phase == PHASE_OUT) s.cols = s.width = a.heads[at.kind->wide].q_dim;
    s.gap = p.pitch - p.cols, s.piece_factor = a.size_factor;
    s.keep = p.keep;
    if (HALVES && a.is_halved(phase)) s.from += (blockIdx.x & 1) * s.cols;
    s.norm = last ? a.norm : l.norm[phase];
    s.post = phase == PHASE_GATE_UP ? l.out_post : last ? l.down_post : NULL;
    if (phase == PHASE_QKV && layer > 0) s.post = (&l)[-1].down_post;
    if (OTHERS == DECODE_KINDS)
        s.x_scale = last ? at.kind->x_scale : phase == PHASE_QKV && layer > 0 ? at.kind[-1].x_scale : 1;
    const int forms = (last ? a.output_forms : l.forms[phase]) & decode_forms(FORMATS);
    s.floats = forms & FORM_FLOATS, s.quants = forms & FORM_QUANTS;
    s.halves = forms & FORM_HALVES, s.whole = forms & FORM_WHOLE;
    return s;
}

// Warps that compute take registers over from those that fill rings: 12·144 + 4·80 are 16·128.
template <bool MORE> __device__ inline void share_registers(bool computes) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if (computes)
        take_registers<MORE ? 152 : 144>();
    else
        give_registers<MORE ? 56 : 80>();
#endif
}

// ---- the prologue: what a block has in shared memory ------------------------------------------------------------

// The barrier at which fillers wait for a layer's experts, behind those of the rings.
__device__ __forceinline__ uint32_t choice_barrier(uint32_t barriers) {
    return barriers + DECODE_WARPS * DECODE_MAX_STAGES * 2 * 8;
}

// Behind it: what place_of() says of the block.
__device__ __forceinline__ uint32_t multiplied_place(uint32_t barriers) {
    return choice_barrier(barriers) + 8;
}

// For each ring `full` barriers, then `empty` ones.
__device__ __forceinline__ void start_barriers(uint32_t barriers) {
    static_assert(DECODE_WARPS * DECODE_MAX_STAGES * 2 <= DECODE_ALL_THREADS, "a thread a barrier");
    if (threadIdx.x < DECODE_WARPS * DECODE_MAX_STAGES * 2) {
        bool empty = threadIdx.x % (2 * DECODE_MAX_STAGES) >= DECODE_MAX_STAGES;
        barrier_init(barriers + threadIdx.x * 8, !empty ? FULL_ARRIVALS : CHECKED ? 32 : 1);
    }
    if (threadIdx.x == DECODE_ALL_THREADS - 1) barrier_init(choice_barrier(barriers), 1);
    if (threadIdx.x == 0) tell_place(multiplied_place(barriers), 0, PHASE_QKV);
    show_barriers();
}

// Where a phase's input lies.
__device__ __forceinline__ Input shared_input(const DecodeShared &at, char *memory) {
    Input x;
    x.floats = (float *)(memory + at.input);
    x.quants = memory + at.quants;
    x.plane = at.quant_plane;
    x.scales = (float *)(x.quants + 2 * at.quant_plane);
    x.sums = (float *)(memory + at.quant_sums);
    return x;
}

// The ring of a warp that computes.
__device__ __forceinline__ Ring ring_of(const DecodeShared &at, char *memory, uint32_t barriers, int warp) {
    Ring ring;
    ring.slots = memory + at.ring + warp * at.n_stages * at.slot_bytes;
    ring.full = barriers + warp * DECODE_MAX_STAGES * 16;
    ring.empty = ring.full + DECODE_MAX_STAGES * 8;
    ring.parity = 0, ring.taken = 0;
    ring.n_stages = at.n_stages, ring.slot_bytes = at.slot_bytes;
    return ring;
}

// Of every table of frequencies, cos and sin of the position; behind them those of a query that looks at the sinks.
__device__ __forceinline__ void fill_turns(const DecodeArguments &a, float2 *rope) {
    const int pairs = a.rotary_dim / 2, n = layer_turns(a);
    for (int table = 0; table < a.n_tables; table++) {
        const double *inv_freq = a.inv_freq + table * a.table_stride;
        for (int i = threadIdx.x; i < n; i += DECODE_THREADS) {
            double sine, cosine; // of multiples of pi: no table for huge angles, no stack
            int position = a.position - (i < pairs ? 0 : a.n_evicted);
            sincospi(position * inv_freq[i < pairs ? i : i - pairs] * 0.31830988618379067, &sine, &cosine);
            rope[table * n + i] =
                make_float2(a.magnitude[table] * (float)cosine, a.magnitude[table] * (float)sine);
        }
    }
}

__device__ __forceinline__ void fill_residual(const DecodeArguments &a, float *residual) {
    const int id = a.drawn ? max(*a.drawn, 0) : a.id;
    const char *embedding = a.embedding.data + (int64_t)id * a.embedding.row_bytes;
    float scale = a.embedding_scale * (a.embedding.scales ? a.embedding.scales[id] : 1);
#pragma unroll 1
    for (int i = threadIdx.x; i < a.hidden; i += DECODE_THREADS)
        residual[i] = scale * row_element(a.embedding.format, embedding, a.hidden, i);
}

// ---- the kernel -------------------------------------------------------------------------------------------------

// Grid: a block a multiprocessor, all at once. Block: DECODE_WARPS warps that compute, DECODE_FILLERS that fill rings.
template <int LANES, int HEADS, class Cache, bool EXPERTS, DecodeFormats FORMATS, bool CARDS = false,
          DecodeOthers OTHERS = DECODE_ALIKE>
__global__ void __launch_bounds__(DECODE_ALL_THREADS, 1)
    decode_kernel(const __grid_constant__ DecodeArguments a) {
    extern __shared__ __align__(128) char memory[];
    constexpr bool RECURS = OTHERS == DECODE_RECURS, KINDS = OTHERS == DECODE_KINDS;
    __shared__ CacheShare share, wide_share; // the latter of the second kind
    const DecodeShared &at = a.shared;
    constexpr bool SCALED = Cache::KIND != DECODE_F16;
    const DecodeLayer *layers = THIS_BLOCK.near ? (const DecodeLayer *)(memory + at.layers) : a.layers;
    const DecodeScales *scales = THIS_BLOCK.near ? (const DecodeScales *)(memory + at.scales) : a.scales;
    const DecodeGated *gated =
        RECURS ? THIS_BLOCK.near ? (const DecodeGated *)(memory + at.gated) : a.gated : NULL;
    const DecodeKind *kinds = KINDS ? (const DecodeKind *)(memory + a.kinds_at) : NULL;
    uint32_t *masks = (uint32_t *)(memory + at.masks), *wide_masks = (uint32_t *)(memory + a.wide_masks_at);
    int32_t *wide_pages = (int32_t *)(memory + a.wide_pages_at);
    int32_t *pages = (int32_t *)(memory + at.pages);
    ChosenExperts &chosen = *(ChosenExperts *)(memory + at.chosen);
    int warp = threadIdx.x / 32;
    uint32_t barriers = shared_at(memory + at.barriers);

    auto bring = [&](void *to, const void *from, size_t each) {
        for (int i = threadIdx.x; i < a.n_layers * (int)each / 4; i += DECODE_ALL_THREADS)
            ((uint32_t *)to)[i] = __ldg((const uint32_t *)from + i);
    };
    if (THIS_BLOCK.near) bring(memory + at.layers, a.layers, sizeof *layers);
    if (THIS_BLOCK.near && SCALED) bring(memory + at.scales, a.scales, sizeof *scales);
    if (THIS_BLOCK.near && RECURS) bring(memory + at.gated, a.gated, sizeof *gated);
    if (KINDS) bring(memory + a.kinds_at, a.kinds, sizeof *kinds);
    start_barriers(barriers);
    if constexpr (KINDS) {
        if (threadIdx.x == 0)
            share = share_of_cache<LANES, HEADS, Cache>(KindHeads<0>{a, *kinds}, masks, pages);
        if (threadIdx.x == 32)
            wide_share = share_of_cache<LANES, HEADS, Cache>(KindHeads<1>{a, *kinds}, wide_masks, wide_pages);
    } else if (threadIdx.x == 0) {
        share = share_of_cache<LANES, HEADS, Cache>(AlikeHeads{a}, masks, pages);
    }
    __syncthreads();
    if (warp >= DECODE_WARPS) {
        share_registers<HEADS == 4 || RECURS>(false);
        return fill_rings(Filler<Cache, EXPERTS, OTHERS>{a, layers, scales, gated, kinds, share, wide_share,
                                                         chosen, choice_barrier(barriers),
                                                         multiplied_place(barriers)},
                          shared_at(memory + at.ring), barriers, warp - DECODE_WARPS);
    }
    share_registers<HEADS == 4 || RECURS>(true);

    float2 *rope = (float2 *)(memory + at.rope);
    float *residual = (float *)(memory + at.residual), *sums = (float *)(memory + at.sums);
    Input x = shared_input(at, memory);
    Ring ring = ring_of(at, memory, barriers, warp);

    constexpr int CHUNK = decode_passes(Cache::KIND, HEADS) * (32 / LANES);
    if (share.any) fill_masks<CHUNK>(a, share, masks, pages);
    if (KINDS && wide_share.any)
        fill_masks<CHUNK / KindHeads<1>::EIGHTS>(a, wide_share, wide_masks, wide_pages);
    if (CHECKED)
        named_barrier_sync<3, DECODE_ALL_THREADS>();
    else
        named_barrier_arrive<3, DECODE_ALL_THREADS>();
    if (blockIdx.x == 0 && threadIdx.x == 0) a.slot_positions[a.slot] = a.position;
    fill_turns(a, rope);

    if (threadIdx.x < 32) sums[threadIdx.x] = 0;
    fill_residual(a, residual);

    // As many as leave enough registers. Experts have none wider than four turns, and code that is run once a phase.
    constexpr int WHOLE_TURNS = DECODE_WARPS == 12 && LANES == 16 && HEADS < 4 ? 8 : 6,
                  TURNS = EXPERTS ? 4 : WHOLE_TURNS;
    // One loop over phases rather than five calls a layer: the code is there once, and stays in its cache.
    int layer = 0, phase = PHASE_QKV;
#pragma unroll 1
    for (;;) {
        const DecodeLayer &l = layers[layer];
        if (RECURS && phase == PHASE_ATTEND && gated[layer].recurs) {
            recur_phase<DECODE_WARPS>(a, gated[layer], layer, memory + at.input, multiplied_place(barriers));
        } else if (phase == PHASE_ATTEND) {
            const int turn = RECURS ? gated[layer].turn : KINDS ? kinds[layer].turn : layer;
            const DecodeLayerView view = {l, scales[layer], layer, turn};
            if constexpr (KINDS) {
                if (kinds[layer].wide)
                    attend_phase<LANES, HEADS, Cache, EXPERTS>(KindHeads<1>{a, kinds[layer]}, view,
                                                               memory + at.input, rope, wide_share, ring,
                                                               multiplied_place(barriers));
                else
                    attend_phase<LANES, HEADS, Cache, EXPERTS>(KindHeads<0>{a, kinds[layer]}, view,
                                                               memory + at.input, rope, share, ring,
                                                               multiplied_place(barriers));
            } else {
                attend_phase<LANES, HEADS, Cache, EXPERTS>(AlikeHeads{a}, view, memory + at.input, rope,
                                                           share, ring, multiplied_place(barriers));
            }
        } else {
            const PhaseOfLayer here = {l, phase, layer, RECURS ? gated + layer : NULL,
                                       KINDS ? kinds + layer : NULL};
            float scale;
            if (EXPERTS && phase == PHASE_GATE_UP) { // whose input is the router's
                choose_experts(a, l, layer, chosen, choice_barrier(barriers));
                scale = sums[ROUTED_SCALE];
            } else {
                constexpr bool HALVES = decode_halves<Cache::KIND, CARDS, OTHERS>();
                const InputSource from = input_of<FORMATS, HALVES, OTHERS>(a, here);
                const bool of_down = phase == PHASE_QKV || phase == PHASE_LOGITS;
                const bool of_x = from.from && phase != PHASE_OUT && phase != PHASE_DOWN;
                if (CARDS && of_x)
                    scale = load_shares(a.eps, a.shares[a.card] + of_down * a.n_cards * a.hidden, a.n_cards,
                                        from, x, residual, sums);
                else if (HALVES && of_x && a.is_halved(of_down ? PHASE_DOWN : PHASE_OUT))
                    scale = load_shares(a.eps, from.from, 2, from, x, residual, sums);
                else if (RECURS && phase == PHASE_OUT && here.gated->gate != GATE_NONE)
                    scale = load_gated_input<GATED_TURNS>(a, *here.gated, from, x, sums);
                else
                    scale = KINDS && from.post
                                ? take_added_input<ADDED_TURNS, true>(a.eps, from, x, residual, sums)
                            : OTHERS == DECODE_ALIKE && from.post
                                ? load_added_input<ADDED_TURNS>(a.eps, from, x, residual, sums)
                            : from.whole ? load_whole_input<WHOLE_TURNS, RECURS>(a, from, x, residual, sums)
                                         : load_input<TURNS, EXPERTS>(a, from, x, residual, sums);
                if (EXPERTS && phase == PHASE_ROUTE) sums[ROUTED_SCALE] = scale;
            }
            if (threadIdx.x == 0) tell_place(multiplied_place(barriers), layer, phase);
            if (EXPERTS && phase == PHASE_ROUTE)
                route_rows(a, here, x, scale, ring);
            else
                gemv_rows<Cache::KIND, FORMATS, EXPERTS, CARDS, OTHERS>(
                    a, here, PhaseInput{x, scale, residual}, chosen, ring);
        }
        if (phase == PHASE_LOGITS) break;
        arrive(a.phases[phase].arrived);
        if (++phase == PHASE_ROUTE && !EXPERTS) phase++;
        if (phase == PHASE_LOGITS && layer + 1 < a.n_layers) phase = PHASE_QKV, layer++;
    }
}

template <DecodeCacheKind KIND> struct CacheOf;
template <> struct CacheOf<DECODE_F16> { typedef CacheF16 Cache; };
template <> struct CacheOf<DECODE_INT8> { typedef CacheInt8 Cache; };
template <> struct CacheOf<DECODE_INT4> { typedef CacheInt4 Cache; };

static cudaError_t launch_blocks(void (*kernel)(DecodeArguments), const DecodeArguments *a, int n_blocks,
                                 cudaStream_t stream) {
    cudaError_t code =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, a->shared.total);
    if (code != cudaSuccess) return code;
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative; // all blocks at once, or none
    together.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)n_blocks);
    config.blockDim = dim3((unsigned)a->threads);
    config.dynamicSmemBytes = (size_t)a->shared.total;
    config.stream = stream;
    config.attrs = &together;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, *a);
}

template <DecodeCacheKind KIND, int LANES, int HEADS, bool EXPERTS, DecodeFormats FORMATS, bool RECURS>
cudaError_t decode_launch(const DecodeArguments *a, int n_blocks, cudaStream_t stream) {
    typedef typename CacheOf<KIND>::Cache Cache;
    constexpr DecodeOthers OTHERS = RECURS ? DECODE_RECURS : DECODE_ALIKE;
    return launch_blocks(decode_kernel<LANES, HEADS, Cache, EXPERTS, FORMATS, false, OTHERS>, a, n_blocks,
                         stream);
}

#endif
