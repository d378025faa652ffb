// One token through the whole model in one persistent kernel: what its parts share.
//
// One block on every multiprocessor, of warps that compute and warps that only copy, goes through five phases a layer,
// together:
//
//   qkv → attend → out → gate_up → down, and after the last layer logits
//
// In layers that recur a state goes on in the place of attention (recur.cuh). They, and gates behind attention, have kernels
// of their own, as layers of experts do.
//
// In layers of experts a router's phase comes before gate_up. It publishes its logits, from which every block chooses the
// experts for itself; only then are the addresses known of what is multiplied next.
//
// Weights and cache arrive by copies in the background into rings, one ring a warp. A warp knows long before the
// activations which rows it will multiply, so its ring runs ahead across phases and layers: memory works on while blocks
// wait for each other. Activations go through global memory (the L2) as float32 whose lowest four bits say in which
// round they were written: a reader that finds another round's bits reads again. No fence is needed, and a counter of
// arrivals a phase only tells when reading is worth while, which is when most blocks have arrived.
//
// A buffer is overwritten a layer later, when all have read it: who has all of a phase's input knows that every block with
// rows of the phase before has had all of that one's. So where every block has rows of all phases, none is a layer behind
// another. A model that is too small for that awaits all arrivals.
#ifndef PALAVER_KERNELS_CUDA_DECODE_DECODE_CUH
#define PALAVER_KERNELS_CUDA_DECODE_DECODE_CUH

#include "kernels/cuda/device/built.cuh"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/formats.cuh"
#include "kernels/kv_layout.h"
#include "kernels/shards/shard_ops.h"

// A block's warps: those that compute, and those that fill their rings.
struct DecodeBlock {
    int warps, fillers;
    bool near; // the tables of layers are in shared memory, too
    __host__ __device__ constexpr int threads() const { return (warps + fillers) * 32; }
};

// By the architecture that the code is made for (__CUDA_ARCH__). 16 warps leave 128 registers, of which on Hopper the
// filling ones give some away. Elsewhere they would not do: 12 warps have 168, and their rings find room in the 99 KB
// of cards that are not made for data centres, where the tables stay in the L1.
__host__ __device__ constexpr DecodeBlock decode_block(int architecture) {
    return architecture >= 900 && architecture < 1200 ? DecodeBlock{12, 4, true} : DecodeBlock{8, 4, false};
}

// The block of this code; nothing that runs on the host may go by it, which asks decode_block() for the device's.
#ifdef __CUDA_ARCH__
constexpr DecodeBlock THIS_BLOCK = decode_block(__CUDA_ARCH__);
#else
constexpr DecodeBlock THIS_BLOCK = decode_block(0);
#endif

enum {
    DECODE_WARPS = THIS_BLOCK.warps,
    DECODE_THREADS = DECODE_WARPS * 32, // that compute
    DECODE_FILLERS = THIS_BLOCK.fillers,
    DECODE_ALL_THREADS = THIS_BLOCK.threads(),
    DECODE_MAX_STAGES = 8, // of a ring
    ROWS_AT_ONCE = 4,      // of a warp, against one reading of the input
    ROUND_BITS = 15,       // of an activation's float that carry its round
    FEEDBACK_PIECE = 512,  // floats of key_feedback that a ring's slot holds
    MOST_GROUPS = 8,       // scales of a head of a quantised cache
    MOST_ROUTED = 256,     // experts of a layer
    ROUTE_PART = 512,      // columns of a router's row that a warp multiplies
    PIECE_PITCH = 256,     // elements: where a chosen expert's input of down begins is a multiple of it
};

enum DecodeCacheKind { DECODE_F16, DECODE_INT8, DECODE_INT4 };

// Formats of a model's matrices: any; or few ones, for which dense models with caches in 16 bits have kernels of their own.
// With a third to a half of the instructions those are 2 to 5% faster: what a phase runs first comes from farther away than
// the multiprocessor.
enum DecodeFormats {
    DECODE_ALL,
    DECODE_FEW,
    DECODE_FOUR,
    DECODE_TWO,
    DECODE_FEW_RATES, // where layers recur: their rates are often kept as they were trained
    DECODE_FOUR_RATES,
    DECODE_SETS
};
template <class... Formats> __host__ __device__ constexpr uint64_t format_bits(Formats... formats) {
    return (((uint64_t)1 << formats) | ...);
}
// Which: 16 and 8 bits; what files of four to six bits mix (theirs, and where rows are not of 256s Q5 and Q8); what those of
// two, three and of codebooks do. A model takes the first set that has all of its formats.
__host__ __device__ constexpr uint64_t decode_formats(DecodeFormats set) {
    const uint64_t plain = format_bits(FORMAT_F32, FORMAT_F16, FORMAT_BF16);
    return set == DECODE_FEW_RATES    ? decode_formats(DECODE_FEW) | plain
           : set == DECODE_FOUR_RATES ? decode_formats(DECODE_FOUR) | plain
           : set == DECODE_FEW        ? format_bits(FORMAT_F16, FORMAT_BF16, FORMAT_Q8, FORMAT_W8)
           : set == DECODE_FOUR
               ? format_bits(FORMAT_Q4, FORMAT_Q4M, FORMAT_Q5, FORMAT_Q5M, FORMAT_Q6, FORMAT_Q8)
           : set == DECODE_TWO
               ? format_bits(FORMAT_Q2, FORMAT_Q3, FORMAT_IQ4, FORMAT_Q4M, FORMAT_Q5M, FORMAT_Q6)
               : ~(uint64_t)0;
}

// Bits of an element of the cache; slots of a chunk, divided by those that a warp looks at together for `heads` query
// heads: chunks of 2 KB, with int4 1 KB, and with integers half of it for several heads: registers would not do.
__host__ __device__ constexpr int cache_bits(DecodeCacheKind kind) {
    return kind == DECODE_F16 ? 16 : kind == DECODE_INT8 ? 8 : 4;
}
__host__ __device__ constexpr int decode_passes(DecodeCacheKind kind, int heads) {
    return kind == DECODE_F16 || heads > 1 ? 4 : 8;
}

// Whether its kernel multiplies weights of a format. Those for caches of integers have no registers left for NF4's tables:
// with them they would spill all over, whatever the weights.
__host__ __device__ constexpr bool decode_multiplies(DecodeCacheKind kind, int format,
                                                     DecodeFormats set = DECODE_ALL) {
    return (kind == DECODE_F16 || format != FORMAT_NF4) && (decode_formats(set) & format_bits(format));
}

enum DecodePhase {
    PHASE_QKV,
    PHASE_ATTEND,
    PHASE_OUT,
    PHASE_ROUTE, // of layers of experts
    PHASE_GATE_UP,
    PHASE_DOWN,
    PHASE_LOGITS,
    PHASE_END
};

enum { ROUTED_SCALE = 32 }; // the place behind the sums of warps where the factor of a router's input is kept

struct DecodeMatrix {
    const char *data;
    const float *scales; // of rows, of W8; else NULL
    int row_bytes;
    uint8_t format;
    uint8_t n_chunks, chunk_16ths,
        last_16ths; // of a row: chunks, and 16ths of the bytes of each and of the last
};

// In which forms a phase's matrices want their input: see input.cuh.
enum DecodeForm { FORM_FLOATS = 1, FORM_QUANTS = 2, FORM_HALVES = 4, FORM_WHOLE = 8 };
__host__ __device__ constexpr DecodeForm decode_form(int format) {
    return format == FORMAT_W8           ? FORM_WHOLE
           : format == FORMAT_E4M3       ? FORM_HALVES
           : format_rounds_input(format) ? FORM_QUANTS
                                         : FORM_FLOATS;
}
// Those of a set of formats.
__host__ __device__ constexpr int decode_forms(DecodeFormats set) {
    int forms = 0;
    for (int format = 0; format <= FORMAT_W8; format++)
        if (decode_formats(set) & format_bits(format)) forms |= decode_form(format);
    return forms;
}

struct DecodeLayer {
    DecodeMatrix rows[PHASE_LOGITS], k, v; // rows[PHASE_QKV]: of q, or of all three, merged
    const float *norm[PHASE_LOGITS], *bias[PHASE_LOGITS], *q_norm, *k_norm; // NULL: none
    char *keys, *values;
    const float *out_post, *down_post; // norms of what these phases give, before it is added to x; NULL: none
    const float *bases;                // KvLayer.score_bases; NULL: none
    const float *sinks;                // KvLayer.sink_scores; NULL: none
    // Of experts, as the biases of gate_up and down; of gate_up `bias` is the gate's. NULL: none
    const float *up_bias, *choice_bias;
    int rope;                    // KvLayer.rope
    int window;                  // index into DecodeArguments.windows
    bool split_qkv;              // k and v are matrices of their own
    uint8_t forms[PHASE_LOGITS]; // DecodeForm
};
static_assert(sizeof(DecodeLayer) <= 384,
              "every block has all layers', in shared memory that its rings go without");

// What gives a layer's input of out, once it is there, its last form: nothing; sigmoids of a gate; the delta rule's norm of
// each head and silu of its gate; what the rule that adds has, silu first and the norm over all.
enum DecodeGate { GATE_NONE, GATE_SIGMOID, GATE_STATE, GATE_ADDED };

enum { GATED_PARTS = 5 };
// What a layer has besides in a kernel of gates and layers that recur: the matrices of qkv, one below the other, queries,
// keys and values, gates, rates of a state; those that lie behind each other are one.
struct DecodeGated {
    DecodeMatrix parts[GATED_PARTS];
    int ends[GATED_PARTS]; // the first row behind each
    int n_parts;
    DecodeGate gate;
    int gates_at; // the row of qkv where gates begin, and behind them rates
    int turn;     // of a layer that attends: how many do so before it
    bool recurs;
    const float *conv, *conv_bias, *decay_rate, *decay_bias, *norm, *skip; // conv_bias, skip: NULL: none
    float *states;
    __host__ __device__ int begin(int part) const { return part ? ends[part - 1] : 0; } // its first row
    __host__ __device__ int units() const { return ends[n_parts - 1]; }
};

// Heads of a kind of layers, where there are two kinds (Gemma 4): the usual ones, and those of WIDE_DIM elements.
enum { USUAL_DIM = 256, WIDE_DIM = 512 };
// log2 of the bytes that such a head has of a slot.
enum { USUAL_SHIFT = 9, WIDE_SHIFT = 10 };
static_assert(1 << USUAL_SHIFT == USUAL_DIM * 2 && 1 << WIDE_SHIFT == WIDE_DIM * 2, "elements of 16 bits");
struct DecodeHeads {
    int n_kv_heads, group, rotary_dim, q_dim, kv_dim;
    // Indexes from `first` on, cut into n_splits ranges of split_slots; what is before no layer of the kind sees.
    int first, n_splits, split_slots, combine_elements;
    int streams;                      // of CacheShare, at most: what each leaves takes room from the rings
    int64_t slot_stride, head_stride; // elements of the cache
    uint32_t *parts;                  // as those of DecodeArguments
    unsigned long long *weights;
    unsigned *head_arrived;
    unsigned head_round;
    int n_layers; // of the kind
};

// What a layer has besides in a kernel of two kinds.
struct DecodeKind {
    const float *v_norm; // of each head of values; NULL: none
    float x_scale;       // of x at the layer's end
    int turn;            // layers of its kind before it
    int wide;            // index into DecodeArguments.heads
};

// What a quantised cache has besides, of one layer; see KvLayer.
struct DecodeScales {
    char *keys, *values;
    const float *balance, *feedback; // NULL: none
};

// What a phase multiplies, the same in every layer.
struct DecodePhaseShape {
    int cols, units;             // a unit is a row, in gate_up a pair of rows
    const uint32_t *from;        // [cols] activations of other blocks
    uint32_t *to;                // [units]
    unsigned *awaited, *arrived; // counters of the phase before and of this one
    bool keep;                   // its input is the residual stream
    // Of down of experts: a unit is a row of each of `pieces` matrices, all of `cols`; the p-th one's input begins `pitch`
    // behind that of the one before.
    int pieces, pitch;
};

// The experts that a token takes, in a block's shared memory.
struct ChosenExperts {
    int32_t ids[EXPERTS_MOST_ACTIVE];
    int32_t
        ahead[EXPERTS_MOST_ACTIVE]; // what leads from the chosen ones' units to those of all: (id - j)·size
    float weights[EXPERTS_MOST_ACTIVE];
};

// Where things lie in a block's shared memory, bytes from its beginning.
struct DecodeShared {
    int layers, scales, gated, rope, residual, sums, masks, pages, barriers, chosen, input, quants, ring;
    int quant_sums;  // within quants
    int quant_plane; // bytes from the first to the second half of the groups
    int n_stages, slot_bytes, total;
};

struct DecodeArguments {
    int n_layers, hidden, q_dim, kv_dim;
    int n_kv_heads, group, head_dim, rotary_dim;
    unsigned head_factor; // e / head_dim = e·head_factor >> 22 for e < 4096
    bool interleaved;
    Activation activation;
    float eps, score_scale, embedding_scale, logit_cap; // score_scale: attention_scale·log2 e
    const double *inv_freq;                             // of the sequence's set in the first table
    int n_tables, table_stride;                         // from a table to the next
    float magnitude[ROPE_MOST_TABLES];

    // The token, and the indexes it looks at, of which `index` is its own: cut into n_splits ranges of split_slots.
    int id, position, slot, index, n_slots, n_splits, split_slots;
    const int32_t *drawn;   // on the device: the id instead of `id`, less than 0 any; NULL: none
    int n_sinks, n_evicted; // see StepSequence
    const int32_t *pages;   // [ceil(n_slots / 2^page_shift)]; a chunk lies in one page
    int page_shift;
    int combine_elements; // of a KV head's group that each split puts together
    int32_t *slot_positions;
    DecodeCacheKind kind;
    KvLayer cache;   // what all layers have in common: type, strides, group, how keys are rounded
    int scale_shift; // log2 of the group
    bool feeds_back; // keys are rounded with feedback
    int n_windows, windows[2];

    const DecodeLayer *layers;  // [n_layers]
    const DecodeScales *scales; // [n_layers], of quantised caches
    const DecodeGated *gated;   // [n_layers], of models with gates or layers that recur; NULL: none
    DecodeMatrix embedding, output;
    const float *norm;
    float *logits;
    DeviceCounts *counts;
    Experts experts;      // n 0: all layers are dense; else none is
    int n_taken;          // experts that a token takes: those chosen, and behind them perhaps the shared one
    bool shared_routed;   // whose row is behind the others' of the router; else its weight is 1
    int route_parts;      // of a router's row, a chunk each: a unit of its phase is a part of a row
    int choice_shift;     // log2 of the lanes that an expert has in choose_by_rank()
    unsigned size_factor; // u / experts.size = u·size_factor >> 32, of the chosen ones' units u
    int output_forms;     // DecodeForm

    DecodePhaseShape phases[PHASE_END];
    // Of layers that recur, of which a state is state_floats: the token's goes from one to another, from -1 from zeros. Each head
    // of values is cut into head_parts, a block each. state_width: of what out multiplies there.
    DeltaRule delta;
    int channels, head_parts, state_width, state_from, state_to;
    int64_t state_floats;
    uint32_t *qkv, *attended;
    uint32_t *parts;             // [n_kv_heads, n_splits, group·head_dim]
    unsigned long long *weights; // [n_kv_heads, n_splits, group] (round, log-sum)
    unsigned *head_arrived;      // [n_kv_heads] every 32nd
    unsigned round;              // layers done before this token
    unsigned head_round;         // arrivals at each KV head before this token
    int threads;                 // of a block
    DecodeFormats formats;       // of all layers' matrices and the head's
    DecodeShared shared;

    // Of several cards (cards.cuh): [2, n_cards, hidden] on every card, what each adds to x by out and by down.
    int n_cards, card; // n_cards 0: it is one
    uint32_t *shares[SHARDS_MOST];

    int early; // blocks less than all whose arrival is awaited
    // Copies that a ring has under way at most: of what its block multiplies now, and of what comes behind that. All that is
    // under way stands in one queue, the blocks' exchanges as well: with all stages of all rings in it, it takes 5 µs.
    int copies_now, copies_ahead;
    // Phases whose rows go in halves, a bit each: out and down. Unit u is then the first or second half of row u / 2: of its
    // columns, of which the phase's `cols` are a half's, or of its pieces. Of columns it is in memory the u-th row of `cols`.
    // All units of a block are the same half, u % 2, so that it needs but half of the input. What halves give, [2, hidden],
    // is added to x by who reads it.
    unsigned halved;
    __host__ __device__ bool is_halved(int phase) const { return halved >> phase & 1; }

    int n_attending; // layers

    // Where layers are of two kinds, else NULL; what stands above of heads is the first kind's. In a block's shared memory lie
    // the table, and of the second kind what of the first are DecodeShared.masks and pages.
    const DecodeKind *kinds; // [n_layers]
    DecodeHeads heads[2];
    int kinds_at, wide_masks_at, wide_pages_at;
};

// Turns of a table: of the token's position, and of what its query is for the sinks.
__host__ __device__ inline int layer_turns(const DecodeArguments &a) {
    return (a.n_evicted > 0 ? 2 : 1) * (a.rotary_dim / 2);
}

// An input that is normed before it is added: its most elements, so many a turn of the block.
enum { ADDED_MOST = 6144, ADDED_TURNS = ADDED_MOST / (DECODE_THREADS * 4) };
// Likewise one that gates multiply.
enum { GATED_MOST = 6144, GATED_TURNS = GATED_MOST / (DECODE_THREADS * 4) };
// The longest heads of a state, and convolutions.
enum { RECUR_MOST_DIM = 128, RECUR_MOST_TAPS = 4 };

// What layers are beside those whose heads are alike: some recur, or have gates; or their heads are of two kinds.
enum DecodeOthers { DECODE_ALIKE, DECODE_RECURS, DECODE_KINDS };

// Whether a kernel has code for DecodeArguments.halved.
template <DecodeCacheKind KIND, bool CARDS, DecodeOthers OTHERS>
__host__ __device__ constexpr bool decode_halves() {
    return KIND == DECODE_F16 && !CARDS && OTHERS == DECODE_ALIKE;
}

// Launches the kernel for the arguments' shape on n_blocks multiprocessors.
cudaError_t decode_launch(const DecodeArguments *a, int n_blocks, cudaStream_t stream);
// Whether the kernel for a kind of cache and such heads, whose cache holds n_slots, was built, if there is one.
bool decode_built(DecodeCacheKind kind, const DecoderShape *shape, int n_slots);
// Whether there is one for such heads in a model with layers that recur.
bool decode_has_states(const DecodeArguments *a);

// Rows of q and of k, and of v, of a layer.
struct QkvRows {
    int q, kv;
    __device__ int all() const { return q + 2 * kv; }
    // Where q's end, k's or v's, of which one is `unit`.
    __device__ int end_of_part(int unit) const { return unit < q ? q : unit < q + kv ? q + kv : q + 2 * kv; }
};
template <DecodeOthers OTHERS>
__device__ inline QkvRows qkv_rows(const DecodeArguments &a, const DecodeKind *kind) {
    if constexpr (OTHERS == DECODE_KINDS) return {a.heads[kind->wide].q_dim, a.heads[kind->wide].kv_dim};
    return {a.q_dim, a.kv_dim};
}

// How many of `unit`, unit + stride, … there are below `units`, at most 4.
__device__ inline int units_left(int unit, int stride, int units) {
    return (unit < units) + (unit + stride < units) + (unit + 2 * stride < units) +
           (unit + 3 * stride < units);
}

// The same by the kernel of several cards; cudaErrorInvalidValue: there is none for such a shape. n_blocks 0: it is but
// loaded, which is not done any more while another card waits for this one.
cudaError_t decode_launch_on_cards(const DecodeArguments *a, int n_blocks, cudaStream_t stream);
bool decode_has_cards(const DecodeArguments *a);
bool decode_built_cards(const DecodeArguments *a); // of one that there is
template <int LANES, int HEADS, bool EXPERTS, DecodeFormats FORMATS>
MAY_LACK cudaError_t decode_launch_cards(const DecodeArguments *a, int n_blocks, cudaStream_t stream);

// The same by the kernel for a kind of cache, LANES = dispatch_decode_lanes() and HEADS = dispatch_decode_heads():
// kernel.cu.
typedef cudaError_t DecodeLaunch(const DecodeArguments *a, int n_blocks, cudaStream_t stream);
template <DecodeCacheKind KIND, int LANES, int HEADS, bool EXPERTS, DecodeFormats FORMATS = DECODE_ALL,
          bool RECURS = false>
MAY_LACK cudaError_t decode_launch(const DecodeArguments *a, int n_blocks, cudaStream_t stream);

// The same by the kernel of two kinds of layers, of 256 and 512 elements a head: kernel_kinds.cu.
template <DecodeFormats FORMATS>
MAY_LACK cudaError_t decode_launch_kinds(const DecodeArguments *a, int n_blocks, cudaStream_t stream);

#endif
