// Which kernel runs: pure functions of the step's kind, its rows, the weights' format, the shapes and the card. No
// other file decides, so that what a step computes, and in which order it adds, cannot depend on what ran before it.
// Plain C, tested as a table without a GPU (tests/kernels/test_dispatch.c); `palaver bench --profile` prints what was
// chosen.
//
// Kinds of steps (kernels/ops.h): ANY is one conversation, its prompts and its replies (engine/session/session.c); READING and
// DECODING are prompts and replies of many at once (engine/batch.c). So 8 tokens of a chat's prompt in q4_0 take the
// table of dispatch_linear, on Hopper the flat kernels; 8 tokens of one of many prompts unpack; 8 rows that decode are flat.
//
// A step (dispatch_step):
//   persistent   one token of one sequence of kind ANY, where decode/decode.cuh takes the model and its rings find room
//   graph        else one token of each of at most 64 sequences, of kind ANY or DECODING
//   ops          everything else
//
// A GEMM (dispatch_gemm). "16 bit" is f16 or bf16, "gates" what can be activated in a tile's registers (GATE_TILES).
// For steps of kind ANY a table says from how many rows on which of three ways is taken (dispatch_linear); it is the
// one that `palaver tune` has measured, else the one built in for the card's class. Where a row's bits must not tell of
// its neighbours, nobody may choose by their number: DECODING always takes the flat kernels, READING what is below.
//   kind      epilogue        operand, weights, card                      kernel
//   ANY, GEMV way: heads                                                  separate
//   ANY, GEMV way: any other                                              GEMV
//   DECODING; ANY, flat way:
//             heads           plain heads of 64 or 128, one matrix of
//                             those that flat GEMMs take by wgmma or mma  flat
//             heads           else                                        separate: store, then dispatch_heads
//             any other                                                   flat
//   ANY, library's way:
//             heads           plain heads of 64 or 128, 16 bit, sm_90,
//             gated           gates, 16 bit, sm_90,
//                             three quarters of the tiles' time of use    tile
//             heads, gated, activated: else                               separate
//             store, sums, float, add                                     library (cuBLASLt)
//   READING   heads, gated    as ANY, of use or not                       tile, else separate
//   READING   add             16 bit, sm_90, multiples of 8               tile, else library
//   READING   float           (logits)                                    flat
//   READING   store, sums                                                 library, the algorithm of 1,024 rows
//   ANY, READING  all parts in quantised formats, operand f16, sm_90: unpack for what is tile or library above, of use
//             or not
// activated by xIELU, of every kind, operand and format: separate
// with E4M3 whose inputs are rounded too (kernels/fp8.h), sm_90, rows of x for which it would be unpack above, but for
// floats; multiples of 128 columns, 16 bit:
//   plain heads of 64 or 128, gated (gates), store, add, all without biases   tile
//   anything else                                                             separate
// with W8, whose sums are exact, so that of steps of every kind (16 bit, rows of W in eights, else flat):
//   up to 64 rows of x on sm_90, up to 4 on others: heads as with DECODING, any other          flat
//   more: plain heads of 64 or 128, gated (gates), store, add, all without biases, sm_90       tile
//   heads else                                                                                 separate
//   anything else (in steps that count their rows: flat)                                       library
//
// A flat GEMM (dispatch_flat), by the format of each matrix:
//   the operand type's, 16 bit, and quantised ones with operands in f16: wgmma on sm_90 (quantised up to 32 rows mma.sync,
//   the same bits), mma on other cards; W8: wgmma on sm_90; everything else: plain
//
// A tile's rows of x in unpack (dispatch_unpack): 128 where that takes less than 256, else 256. ANY: of 128, clusters share
// their columns out, too, where that takes less.
//
// A tile's columns (dispatch_tile_columns): heads, add: 128 where that takes less than four fifths of the time of 256,
// else 256; gated: 192 where that takes less time than 256.
//
// Attention (dispatch_attend), tiles of many tokens; the first that fits:
//   plain        operands in float32, or a mask
//   wgmma        f16 cache, heads of 64 or 128, sm_90, no ALiBi, no cap, no chunks, nothing evicted; READING: no window, in order
//   halves       other caches of one sequence of 64 tokens or more, kind ANY: brought to f16, then wgmma
//   tile f16     f16 cache without ALiBi and cap, heads of 64, 80, 96, 128 or 256
//   tile any     the same for other caches, ALiBi and caps
//   plain
// and tiles of few tokens, those of a short step or of a sequence of one:
//   split        operands in 16 bit, no mask, rows of multiples of 16 bytes, pages of powers of two
//   plain
//
// Layers of experts (dispatch_experts), whose rows' bits must not tell where a prompt was cut or who decodes beside:
//   rows         ANY, one token; where there is no flat one, up to 4 tokens, and DECODING (and with it every graph)
//   flat         DECODING; ANY, up to 16 tokens an expert in the mean, 64 of quantised W: W of a 16-bit operand's type,
//                and quantised ones with operands in f16, or in bf16 where gates are clamped; by wgmma on sm_90, else mma
//   grouped      everything else: tiles for all experts at once, on sm_90 by wgmma (experts/grouped.cu), on other cards
//                by mma: W of a 16-bit operand's type, and quantised ones with operands in f16; else a GEMM for each
// The persistent kernel takes a model's one token where all layers have up to 256 experts and none for all tokens.
//
// Heads that follow a stored qkv (dispatch_heads):
//   whole        plain heads of 64 or 128
//   together     64 tokens or more whose keys are rounded with feedback, not DECODING: four tokens a warp
//   any          everything else
#ifndef PALAVER_KERNELS_CUDA_DISPATCH_H
#define PALAVER_KERNELS_CUDA_DISPATCH_H

#include "kernels/cuda/device/format.h"
#include "kernels/dispatch_table.h"
#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

// What of a card decides.
typedef struct Card {
    int compute; // compute capability times ten of the code that it runs: 80 where a later card runs code for 8.0
    int n_sms;           // multiprocessors
    size_t shared_limit; // bytes of shared memory that a block may ask for
} Card;

// What code for a capability can do; nothing else of this header asks for a capability.
typedef struct CardFeatures {
    int compute;  // the lowest; up to the next row's
    bool overlap; // a kernel may begin while the one before it ends: device/launch.cuh
    bool wgmma;   // products by warpgroups, copies of tiles for clusters: "sm_90a", which is Hopper's alone
} CardFeatures;

// The table's row of the card.
const CardFeatures *dispatch_features(const Card *card);

// ---- steps -------------------------------------------------------------------------------------------------

typedef enum StepPath { STEP_PATH_OPS, STEP_PATH_GRAPH, STEP_PATH_PERSISTENT } StepPath;

typedef struct StepCase {
    StepKind kind;
    int n_tokens, n_sequences;
    int most_rows; // of a graph
    const DecoderShape *shape;
    bool has_code; // the persistent kernel has code for the model's layers and the cache
} StepCase;

StepPath dispatch_step(const Card *card, const StepCase *step);

// Lanes of the persistent kernel that share a head's elements, eight each: 8, 16 or 32; 0: no kernel for this head
// size.
int dispatch_decode_lanes(int head_dim);
// Query heads of a KV head that one warp of it takes together. Few, and many warps share the work of a short context;
// many, and each key of a long one is brought to fewer warps.
int dispatch_decode_heads(int group, int lanes, int n_slots);

// ---- GEMMs: y [n, rows] = x [n, cols] · Wᵀ -------------------------------------------------------------------

typedef enum GemmKernel {
    GEMM_SEPARATE, // none has this epilogue: store, then a kernel of the op's own
    GEMM_GEMV,     // gemm/gemv.cu: on CUDA cores, at most GEMV_MOST rows of x
    GEMM_FLAT,     // flat/flat.cu: W is the tall side of the tensor cores' GEMM, rows of x the flat one
    GEMM_TILE,     // gemm/tile.cu: 256 rows of x by some columns, by clusters of two blocks
    GEMM_LIBRARY,  // gemm/library.cu: cuBLASLt
    GEMM_UNPACK,   // gemm/unpack_gemm.cu: quantised W unpacked on its way to the tensor cores
} GemmKernel;

// What becomes of the sums.
typedef enum GemmEpilogue {
    EPILOGUE_STORE, // y = sum + bias, in the operand type
    EPILOGUE_FLOAT, // the same in float32
    EPILOGUE_ADD,   // y += sum + bias, in float32
    EPILOGUE_GATED, // y [n, rows / 2] = activation(gate) · up, rows gate 0, up 0, gate 1, …, in the operand type
    EPILOGUE_ACTIVATE, // y = activation(sum + bias), in the operand type
    EPILOGUE_HEADS, // y [n, n_heads·head_dim] = queries, in the operand type; keys and values to their slots
    EPILOGUE_SUMS, // STORE in float32, for a kernel that goes on with them: they are rounded once, at its end
} GemmEpilogue;

typedef struct GemmCase {
    StepKind kind;
    DType operand; // of x
    int n, rows, cols;
    int n_parts;      // matrices that W is made of
    Format format;    // of the first
    bool quantised;   // all of them are, with an even number of rows each
    bool plain;       // one of them has no flat kernel on tensor cores, though the first may have
    Fp8Inputs inputs; // how inputs may be rounded, which W's scales suit
    bool rounded;     // and that they are
    GemmEpilogue epilogue;
    bool biased;  // something is added besides
    bool counted; // Gemm.count: results of some rows only are wanted; the library would write all
    Activation activation;
    int head_dim; // EPILOGUE_HEADS, as the following
    // RoPE over whole heads, pairs half a head apart, no norms; a cache in f16, keys not rotated.
    bool plain_heads;
    bool octets; // the cache's strides are multiples of 8 elements
    // Of kind ANY:
    const DispatchTable *table; // NULL, or without a row that fits: the built-in one
    LinearWay way;              // to be measured, whatever the table says
} GemmCase;

GemmKernel dispatch_gemm(const Card *card, const GemmCase *gemm);

// Whether x is rounded to e4m3 before the GEMM (kernels/fp8.h): where its kernel is tiles of FP8 by FP8.
bool dispatch_fp8(const Card *card, const GemmCase *gemm);

enum { GEMV_MOST = DISPATCH_GEMV_MOST };
// Shared memory of a row of x that is rounded to 8 bits: integers, scales of 32, sums of 16.
#define GEMV_INPUT_BYTES(cols) ((cols) + ((cols) / 8 + 15) / 16 * 16 + ((cols) / 4 + 15) / 16 * 16)

// The way of a GEMM of kind ANY; one that has no kernel for it gives way to the next. LINEAR_BY_TABLE: `way` was asked
// for and has none.
LinearWay dispatch_linear(const Card *card, const GemmCase *gemm);

// The table built in for a class of cards, and the class: "Hopper", "cards without Hopper's code".
const DispatchTable *dispatch_built_in(const Card *card);
const char *dispatch_class(const Card *card);
// library_from of its row for weights of a type; 0: it has none.
int dispatch_library_from(const Card *card, DType type);
// Weights of which type stand for a format in a table; DTYPE_COUNT: none, its kernels are not chosen by tables.
DType dispatch_type(Format format);

typedef enum FlatKernel { FLAT_PLAIN, FLAT_MMA, FLAT_WGMMA } FlatKernel;
FlatKernel dispatch_flat(const Card *card, DType operand, Format format);

// Rows of x up to which W8 takes flat GEMMs: by wgmma, by products of four bytes.
enum { W8_FLAT_MOST = 64, W8_PLAIN_MOST = 4 };

enum { TILE_TOKENS = 128 }; // rows of x of a block of gemm/tile.cu; two blocks share W's

// Columns of y, that is rows of W, of a tile: 128, 192 or 256.
int dispatch_tile_columns(const Card *card, GemmEpilogue epilogue, int n, int rows);

// Tiles of unpack: their rows of x, 256 or 128, and whether clusters share out tiles' columns, too.
typedef struct UnpackTiles {
    int tokens;
    bool shared;
} UnpackTiles;
UnpackTiles dispatch_unpack(const Card *card, StepKind kind, int n, int rows, int cols);
// Into how many runs of columns these are shared out, at most.
int64_t dispatch_unpack_runs(int64_t tiles, int cols);

typedef enum HeadsKernel { HEADS_ANY, HEADS_TOGETHER, HEADS_WHOLE } HeadsKernel;
enum { HEADS_TOGETHER_TOKENS = 4 };
typedef struct HeadsCase {
    StepKind kind;
    int n, head_dim;
    bool plain;             // GemmCase.plain_heads
    bool feedback_in_quads; // keys are rounded with feedback, four elements a lane at a time
} HeadsCase;
HeadsKernel dispatch_heads(const HeadsCase *heads);

// How a layer of experts is computed: by GEMVs of each token, or by GEMMs of each expert, flat ones or those of tiles of
// many tokens.
typedef enum ExpertsWay { EXPERTS_ROWS, EXPERTS_FLAT, EXPERTS_GROUPED } ExpertsWay;
enum {
    EXPERTS_ROWS_MOST = 4,
    EXPERTS_ROWS_MOST_FLAT = 1, // where there are flat ones
    EXPERTS_FLAT_MOST = 16,     // pairs of an expert, in the mean
    EXPERTS_FLAT_UNPACKED_MOST = 64,
};
typedef struct ExpertsStep {
    StepKind kind, gemms; // CudaStep.kind, gemm_kind
    int n_pairs, n;       // of tokens and the experts that these take; experts
    int n_tokens;
    bool flat, unpacked; // experts/flat.cuh has kernels for the layer; both of its matrices are quantised
} ExpertsStep;
ExpertsWay dispatch_experts(const ExpertsStep *step);
// Pairs of a flat GEMM's tile: 8, 16, 32 or 64.
int dispatch_expert_pairs(int n_pairs, int n);

// Whether their GEMMs are tiles of all of them by mma, of EXPERT_TILE_PAIRS pairs of a token and an expert
// (experts/tiles.cuh). Hopper has tiles of its own (experts/grouped.cu).
enum { EXPERT_TILE_PAIRS = 128 };
typedef struct ExpertsCase {
    DType operand; // of pairs and g
    Format gate_up, down;
    int hidden, size; // columns of the two
} ExpertsCase;
bool dispatch_experts_by_mma(const Card *card, const ExpertsCase *experts);

// Products of heads with matrices of their own (latent/products.cu): tokens that GEMVs take, and elements that these do.
enum { HEAD_PRODUCT_FEW = 16, HEAD_PRODUCT_COLS = 1536 };

// ---- attention ---------------------------------------------------------------------------------------------

typedef enum AttendKernel {
    ATTEND_PLAIN,    // attention/plain.cu: float32
    ATTEND_TILE_ANY, // attention/tile.cuh
    ATTEND_TILE_F16,
    ATTEND_HALVES,     // attention/halves.cu, then ATTEND_WGMMA
    ATTEND_WGMMA,      // attention/wgmma.cu
    ATTEND_SPLIT,      // attention/split.cuh
    ATTEND_WIDE,       // attention/wide_cache.cu
    ATTEND_WIDE_WGMMA, // attention/wide_wgmma.cu
} AttendKernel;

enum {
    ATTEND_ROWS = 128,             // tokens × the heads that share a KV head, of a tile
    ATTEND_KEYS = 64,              // that a tile kernel takes at a time
    ATTEND_WGMMA_STATIC = 6 << 10, // shared memory that attention/wgmma.cu declares itself, at most
    ATTEND_FEW = 64,           // tokens of a step of kind ANY up to which all its tiles are of few tokens,
    ATTEND_FEW_BY_WGMMA = 128, // or at most: dispatch_few_tokens()
    FLAT_BESIDE = 32,          // rows of x up to which a flat GEMM leaves half of a multiprocessor to others
};
// What ATTEND_WIDE has code for, a row of latents and heads, and what it declares.
enum { ATTEND_LATENT_ROW = 576, ATTEND_WIDE_HEAD = 512, ATTEND_WIDE_STATIC = 6 << 10 };
// Bytes of its shared memory on the cards that have least: 16 queries, two stages of 32 rows, which are 16 keys and 16 values
// where these are not the same.
#define ATTEND_WIDE_BYTES(head_dim)                                                                          \
    (2 * ((16 + 2 * 32) * ((size_t)(head_dim) + 8) + 16 * (32 + 8)) + (size_t)ATTEND_WIDE_STATIC)
// Bytes of shared memory that the kernels declare, without what grows with the slots.
#define ATTEND_WIDE_WGMMA_BYTES (3 * 64 * (size_t)ATTEND_WIDE_HEAD * 2 + 1024)
#define ATTEND_WGMMA_BYTES(head_dim) (1280 * (size_t)(head_dim) + 2048)
#define ATTEND_TILE_KEYS(head_dim) ((head_dim) <= 128 ? ATTEND_KEYS : ATTEND_KEYS / 2)
#define ATTEND_TILE_BYTES(head_dim)                                                                          \
    (4 * ATTEND_TILE_KEYS(head_dim) * ((size_t)(head_dim) + 8) * 2 + 2 * ATTEND_TILE_KEYS(head_dim) * 4 +    \
     ATTEND_ROWS * 4)

typedef struct AttendCase {
    StepKind kind;
    int few_tokens;       // tiles of few tokens, of at most so many; 0: of many
    DType operand, cache; // types of the queries and of keys and values
    int n_sequences, n_tokens;
    int group;               // query heads that share a KV head
    int head_dim, tile_rows; // the most of a tile: its tokens × the query heads that share a KV head
    bool alibi, masked;      // masked: a mask of the caller's is added
    bool capped;             // scores are capped
    bool latent, sinks;      // keys are values; there are learned sinks
    bool evicted;            // a sequence has evicted tokens behind its sinks
    bool in_order;           // tokens lie at the indexes of their positions
    int window;              // the attention window; 0: none; below 0: chunks
    size_t n_slots;          // the most of a sequence
    uint32_t page_size;
    bool octets;         // the cache's strides are multiples of 8 elements
    bool whole_pieces;   // its rows, strides and beginnings are multiples of 16 bytes
    int scale_group;     // elements of a scale, where the cache has scales
    size_t halves_bytes; // scratch for a cache in f16 that there is
    size_t halves_want;  // and that this one takes
    size_t split_shared; // bytes of shared memory that the kernel of splits asks for
    int n_splits;
} AttendCase;

AttendKernel dispatch_attend(const Card *card, const AttendCase *attend);

// ---- splits of tiles of few tokens ---------------------------------------------------------------------------

enum { MOST_SPLITS = 256 }; // of a tile

typedef struct SplitCase {
    StepKind kind;
    DType cache;
    int n_kv_heads;
    int row_tiles;   // blocks that share a tile's rows of a KV head
    int blocks_a_sm; // of the kernel, that a multiprocessor holds; 0: not the kernel of splits
    bool
        beside; // a flat GEMM follows that brings its weights meanwhile, where it finds room: flat/flat_ring.cuh
    int64_t slots;   // of the sequence; not DECODING: the most of any
    int64_t indexes; // not DECODING: that all tiles of few tokens look at, one after the other
    bool wide;       // of heads so wide that 64 keep a block busy as long as 128 of others
    bool once;       // in one round, as blocks of 64 rows: dispatch_splits_by_wgmma()
    int row_blocks; // of a step of one sequence: blocks that share the rows of all its tiles of a KV head; else 0
} SplitCase;

// What attends in splits: tiles of at most `tokens` tokens.
typedef struct SplitRowsCase {
    DType cache;
    int n_kv_heads, head_dim, tokens, rows; // rows: tokens × the heads that share a KV head
    bool evicted;                           // a sequence has evicted tokens behind its sinks
    bool based;                             // scores have bases that were measured: no running maxima
} SplitRowsCase;
enum { SPLIT_WGMMA_ROWS = 64 };
// Whether prompts of layers that recur are multiplied by wgmma (recurring/delta_wgmma.cu) or mma.sync.
bool dispatch_chunks_by_wgmma(const Card *card);
// Whether a block takes 64 rows by wgmma (attention/split_wgmma.cu) or 16 by mma.sync.
bool dispatch_splits_by_wgmma(const Card *card, const SplitRowsCase *rows);

// Tokens of a step of kind ANY up to which all its tiles are of few tokens, by a whole tile of them and the most slots of a
// sequence: where 64 rows are a block's, as many as one round of blocks takes, if the cache is not so long that the kernel of
// many tokens, whose blocks go through keys in half the time, makes up for what it does before the first.
int dispatch_few_tokens(const Card *card, const SplitRowsCase *tile, int n_slots);

// Into how many splits tiles of many tokens are cut, which are so many blocks: where these leave multiprocessors idle, with
// a cache that is long enough. Not where it must not show where a prompt was cut.
int dispatch_tile_splits(const Card *card, StepKind kind, int blocks, int n_slots);
int dispatch_most_tile_splits(const Card *card); // of all tiles and KV heads

// Indexes of a split.
int dispatch_split_slots(const Card *card, const SplitCase *split);

// ---- names, for bench --profile --------------------------------------------------------------------------------

const char *dispatch_gemm_name(GemmKernel kernel);
const char *dispatch_flat_name(FlatKernel kernel);
const char *dispatch_heads_name(HeadsKernel kernel);
const char *dispatch_attend_name(AttendKernel kernel);

#ifdef __cplusplus
}
#endif
#endif
