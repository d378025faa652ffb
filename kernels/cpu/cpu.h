// What the files of the CPU backend share: its state, and the ops of its table.
//
// An op is a file in ops, or in a room where it takes more: attention, cache, sample, and weights, which takes layers
// over; step.c begins a step. loops has the arithmetic, x86 and arm the same faster.
//
// Each op checks its arguments, puts the activations into the form its weights want, and hands parts of the
// work (a head, some rows of a matrix, some queries) to the threads; the arithmetic is in loops.h. Whichever
// thread does a part, and however many tokens a step has, each element is computed in the same order: results
// do not depend on the number of threads.
#ifndef PALAVER_KERNELS_CPU_CPU_H
#define PALAVER_KERNELS_CPU_CPU_H

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/sample/sample.h"
#include "kernels/cpu/weights/made_up.h"
#include "kernels/ops.h"

// A norm over the hidden size, of the shape's kind.
typedef struct Norm {
    float *weight; // norm_offset added; NULL: there is no norm
    float *bias;   // NULL: none
} Norm;

// Vectors are converted to float32 when they are loaded; matrices stay in the mapped file.
struct Layer {
    Layer *next;          // of the backend's list
    LayerWeights weights; // as the file has them
    Norm attn_norm, attn_post_norm, ffn_norm, ffn_post_norm, token_norm;
    Norm router_norm, expert_norm, shared_post_norm, expert_post_norm; // of experts beside a dense part
    float *q_norm, *k_norm, *v_norm;                                   // norm_offset added; NULL: none
    float *q_down_norm, *latent_norm;                                  // NULL: none
    bool row_norms;                                     // q_norm and k_norm are of whole rows, not of heads
    float *bq, *bk, *bv, *bo, *b_gate, *b_up, *b_down;  // NULL: none
    float *router_bias, *choice_bias, *expert_scale;    // NULL: none
    float *conv, *conv_bias;                            // NULL: none
    float *attn_gate_bias;                              // NULL: none
    float *decay_rate, *decay_bias, *state_norm, *skip; // of a layer that recurs; else NULL
    float *vectors;                                     // the allocation they all lie in
    void *panels; // of its matrices of 16-bit floats (weights/panels.c); NULL: none
};

struct Head {
    Head *next;
    HeadWeights weights;
    Norm embedding_norm, norm;
    float *output_bias, *token_norm; // NULL: none
    float *vectors;
};

// Which experts a step's tokens take: pairs of a token and an expert, expert after expert, in order of the tokens.
typedef struct CpuRoutes {
    float *scores;   // [max_tokens, n] of the router, then of one token what it made of them
    int32_t *chosen; // [max_tokens, n_active] experts
    float *weights;  // likewise
    int32_t *start;  // [n + 1] the first pair of each expert
    int32_t *used;   // [n] the experts that have pairs
    int32_t *tokens; // [max_tokens·n_active] of each pair
    float *weight;   // likewise
    int n_used;
} CpuRoutes;

typedef struct CpuBackend {
    Backend base;
    const DecoderShape *shape;
    int max_tokens, max_logits;
    const Loops *loops;
    Loops exact_loops; // which of "cpu:exact" they are
    char exact_name[40];
    Threads *threads;
    Layer *layers; // all that were loaded
    Head *heads;
    bool makes_up; // their weights: BackendOptions.random_weights
    MadeUp *made_up;

    // The current step.
    int n_tokens, n_sequences, n_tiles;
    int32_t *ids, *positions, *slots, *before; // [max_tokens]; before: what slot_positions held
    StepSequence *sequences;                   // [max_tokens], their pages in `pages`
    int page_size;
    int32_t *pages; // the tables of all sequences, an allocation that grows
    size_t pages_capacity;
    TokenTile *tiles;           // [max_tokens]
    int32_t *slot_positions;    // the caller's
    float *cos, *sin;           // [n_tables, max_tokens, rotary_dim/2], times the table's magnitude
    float *sink_cos, *sink_sin; // the same for each sequence: of -n_evicted, without magnitude

    float *temperatures;          // [max_tokens] of queries; where the shape has no beta they are not there
    float *shift_cos, *shift_sin; // [n_tables, rotary_dim/2], of shift_keys()
    float *slopes;                // [n_heads] of ALiBi

    // Scratch, all of it one allocation.
    void *scratch;
    float *normed; // [max(max_tokens, max_logits, pairs of routes), hidden_size]
    int8_t *q;     // quantised activations of up to the widest rows, see Activations
    float *scale, *sum;
    int16_t *sums;
    int8_t *w8; // the same in the form for DTYPE_W8
    W8Scale *w8_scale;
    int16_t *fixed; // the same as 16-bit floats take it
    float *fixed_scale;
    float *ordered; // rows as matrices with an order take them, of shapes with orders_inputs
    float *fp8;     // the same as DTYPE_E4M3 takes it, of shapes with fp8_inputs
    float *k, *v;   // [max_tokens, decoder_key_rows()]
    // Of latents: what q_down gives; expanded queries, then values; inputs of products of heads, [n_heads, max_tokens,
    // of_heads_width].
    float *q_down, *expanded, *of_heads; // [max_tokens, q_rank], [max_tokens, n_heads*(head, or value_dim)]
    int64_t of_heads_width;
    // Of layers that recur: what they convolve, all q, all k, all v; betas and decays; what a thread adds up. Of these, and of
    // those whose attention has a gate: gates, which wait for attend() where `gated` says so.
    float *mixed, *rates,
        *deltas;      // [max_tokens, channels], 2·[max_tokens, n_value_heads], [n_threads, value_dim]
    float *gates;     // [max_tokens, decoder_pass_width()]
    int64_t gated;    // gates of a token; 0: there are none
    float *of_tokens; // [max_tokens, n_layers, token_size] rows of per-layer embeddings
    float *
        token_part; // 2·[max_tokens, the larger of token_size and hidden_size]; also what experts and dense part give
    float *up;            // [max_tokens, decoder_ffn_width()]
    CpuRoutes routes;     // of the layer of experts that is computed
    char *thread_scratch; // [n_threads, thread_bytes]
    int64_t thread_bytes;
    SampleScratch *sampling;

    AttendCounts counts; // since open()

    double *stamps; // [OPS_MAX_STAMPS], NULL before the first
} CpuBackend;

static inline CpuBackend *cpu_backend(Backend *backend) {
    return (CpuBackend *)backend;
}

static inline void *cpu_thread_scratch(CpuBackend *cpu, int thread) {
    return cpu->thread_scratch + thread * cpu->thread_bytes;
}

// ---- backend.c ------------------------------------------------------------------------------------------

// Which loops a backend was opened with, "AVX2": others add in another order. NULL: it is none of the CPU's.
const char *cpu_loops_name(const Backend *backend);

// ---- scratch.c ----------------------------------------------------------------------------------------

// Lays out the scratch of a backend whose shape, sizes, loops and threads are set, and returns its bytes; if
// base is not NULL, points the members into it. -1 if the shape is impossible.
int64_t cpu_scratch_layout(CpuBackend *cpu, int n_threads, char *base);

// ---- ops/linear.c -------------------------------------------------------------------------------------

// Rows x [n, cols] in the form that the matrices (NULLs and absent ones are skipped) want.
Activations cpu_activations(CpuBackend *cpu, const float *x, int64_t n, int64_t cols, const Matrix *const *w,
                            int n_matrices);

// As they are multiplied with 16-bit floats whose smallest differences count: of routers, which choose.
static inline Activations cpu_exact(Activations x) {
    x.fixed = NULL;
    return x;
}

// The same for h = norm(x); the rows are x[tokens[i]], or x[i] if tokens is NULL.
typedef struct NormedRows {
    const float *x;
    const int32_t *tokens;
    int64_t n;
    Norm norm;
    bool exact; // 16-bit floats are multiplied with the floats themselves
} NormedRows;
Activations cpu_normed(CpuBackend *cpu, const NormedRows *rows, const Matrix *const *w, int n_matrices);

// Where the angles of a layer's tokens, or of its sequences, begin in cos, sin, sink_cos and sink_sin.
static inline int64_t cpu_angles(const CpuBackend *cpu, const KvLayer *kv) {
    return (int64_t)kv->rope * cpu->max_tokens * (cpu->shape->rope.rotary_dim / 2);
}

// y [hidden_size] = norm(x); y may be x.
void cpu_norm_row(const CpuBackend *cpu, Norm norm, const float *x, float *y);
// The same of a norm behind a part.
void cpu_norm_row_behind(const CpuBackend *cpu, Norm norm, const float *x, float *y);

// Parts into which n rows are best cut, and the first row of a part (of part n_parts: n).
int64_t cpu_row_parts(const CpuBackend *cpu, int64_t n);
int64_t cpu_part_start(int64_t n, int64_t n_parts, int64_t part);

// y [n, n_rows of stride] += bias in rows [gemm->first, gemm->end), after a GEMM; bias NULL: none.
void cpu_add_bias(const Gemm *gemm, const float *bias);

// x [n, hidden_size] += norm(W·y + bias) (bias NULL: none; a norm without weight: none), with y as activations.
typedef struct AddedLinear {
    const Matrix *w;
    const float *bias;
    Norm norm;
} AddedLinear;
void cpu_add_linear(CpuBackend *cpu, const AddedLinear *linear, const Activations *y, float *x);

// y [x->n, w->rows] = w·x
void cpu_multiply(CpuBackend *cpu, const Matrix *w, const Activations *x, float *y);

// ---- weights/panels.c -----------------------------------------------------------------------------------

// What a layer's matrices of 16-bit floats are multiplied as, if the loops do and memory has room: layer->panels.
void cpu_make_panels(CpuBackend *cpu, Layer *layer);

// matrix_of_expert() with its panels.
Matrix cpu_expert_matrix(const Matrix *all, int expert, int n);

// ---- ops/token_rows.c -----------------------------------------------------------------------------------

// cpu->of_tokens of the step, from x as embed() gives it; what they add at a layer's end; and x times the layer's scale.
void cpu_make_token_rows(CpuBackend *cpu, const Head *head, const float *x);
void cpu_add_token_rows(CpuBackend *cpu, const Layer *layer, float *x);
void cpu_scale_x(const CpuBackend *cpu, const Layer *layer, float *x);

// ---- ops/gate_up.c --------------------------------------------------------------------------------------

// gate absent: none. Biases NULL: none.
typedef struct GatedLinear {
    Matrix gate, up;
    const float *b_gate, *b_up;
    const Xielu *xielu; // of shapes with it
} GatedLinear;

// Rows [first, end) of both for all activations: g and up [h->n, up.rows].
typedef struct GatedRows {
    const Activations *h;
    int64_t first, end;
    float *g, *up;
    const float *scales; // [h->n] of each activation; NULL: none
} GatedRows;

// g = activation(gate·h + b_gate) · (up·h + b_up), h times its scale, in one thread; `up` of the rows is scratch.
void cpu_gated_rows(CpuBackend *cpu, const GatedLinear *w, const GatedRows *rows, void *scratch);
// The same for all rows, in parts.
void cpu_gated(CpuBackend *cpu, const GatedLinear *w, const Activations *h, float *g);

// ---- ops/route.c ----------------------------------------------------------------------------------------

// A token's choice: logits [n] are overwritten; bias [n] (NULL: none) is added to what chooses; ids and weights
// [n_active]. See Experts.
void route_choose(const Experts *experts, float *logits, const float *bias, int32_t *ids, float *weights);

// cpu->routes, of all tokens' logits in routes.scores.
void cpu_route(CpuBackend *cpu, const Layer *layer);

// ---- ops/experts.c --------------------------------------------------------------------------------------

void cpu_experts_gate_up(CpuBackend *cpu, const Layer *layer, const float *x, float *g);
void cpu_experts_down(CpuBackend *cpu, const Layer *layer, const float *g, float *x);

// ---- ops/latent.c: of layers with a latent --------------------------------------------------------------

// qkv() of a layer whose norms are of whole rows is these two, and those norms between them: q, cpu->k and cpu->v have
// products with their biases; then RoPE, and keys into their slots.
void cpu_qkv_products(CpuBackend *cpu, const Layer *layer, const void *x, const KvLayer *kv, void *q);
void cpu_qkv_finish(CpuBackend *cpu, const Layer *layer, const KvLayer *kv, void *q);
Status cpu_latent_qkv(CpuBackend *cpu, const Layer *layer, const float *x, const KvLayer *kv, float *q);
// What wo takes [n_tokens, n_heads*value_dim], in scratch, of what attend() gave.
const float *cpu_latent_values(CpuBackend *cpu, const Layer *layer, const float *y);

// ---- ops/convolve.c: of layers that convolve ------------------------------------------------------------

Status cpu_convolve(CpuBackend *cpu, const Layer *layer, const float *x, const KvLayer *kv, float *y,
                    Error *error);

// ---- ops/delta.c: of layers that recur -----------------------------------------------------------------

Status cpu_delta(CpuBackend *cpu, const Layer *layer, const float *x, const KvLayer *kv, float *y,
                 Error *error);

// ---- ops/gate.c: of layers whose attention has a gate ----------------------------------------------------

// A norm behind a part; of a share of the part none, for all are normed once they are added up.
Norm cpu_norm_behind(const CpuBackend *cpu, Norm norm);
// The gates of qkv()'s tokens, from what it has normed; cpu->gated says whether there are any.
void cpu_make_gates(CpuBackend *cpu, const Layer *layer, const Activations *h);
// y [n_tokens, width] times them, if there are.
void cpu_apply_gates(CpuBackend *cpu, float *y, int64_t width);

// ---- weights/weights.c: load_layer, load_head; the rest: one op of ops.h each -------------------------

Status cpu_load_layer(Backend *, const LayerWeights *host, Layer **layer, Error *error);
Status cpu_load_head(Backend *, const HeadWeights *host, Head **head, Error *error);
const LayerWeights *cpu_layer_weights(const Layer *layer);
void cpu_free_weights(CpuBackend *cpu);

Status cpu_begin(Backend *, const Step *step, const KvLayer *kv, Error *error);
Status cpu_narrow(Backend *, const Step *step, const NarrowRows *rows, const KvLayer *kv, Error *error);
Status cpu_embed(Backend *, const Head *head, void *x, Error *error);
Status cpu_qkv(Backend *, const Layer *layer, const void *x, const KvLayer *kv, void *q, Error *error);
Status cpu_attend(Backend *, const void *q, const KvLayer *kv, int window, void *y, Error *error);
Status cpu_out(Backend *, const Layer *layer, const void *y, void *x, Error *error);
Status cpu_gate_up(Backend *, const Layer *layer, const void *x, void *g, Error *error);
Status cpu_down(Backend *, const Layer *layer, const void *g, void *x, Error *error);
Status cpu_logits(Backend *, const Head *head, const void *x, const LogitRows *rows, float *logits,
                  Error *error);
Status cpu_cache_attention(Backend *, const CacheAttention *attention, Error *error);
Status cpu_copy_slots(Backend *, const CacheSlots *from, const int32_t *to, Error *error);
Status cpu_shift_keys(Backend *, const CacheSlots *slots, int32_t delta, Error *error);
Status cpu_sample(Backend *, const float *logits, int n_rows, const SampleParams *params, int32_t *ids,
                  Error *error);

#endif
