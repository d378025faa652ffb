// A decoder's shape: what its layers compute, as values. Every backend and the engine's loop go by it.
#ifndef PALAVER_KERNELS_DECODER_SHAPE_H
#define PALAVER_KERNELS_DECODER_SHAPE_H

#include "kernels/fp8.h"
#include "kernels/weights.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// RMS norm (Zhang & Sennrich, arXiv:1910.07467): x / sqrt(mean(x²) + eps) · w. Layer norm (Ba et al.,
// arXiv:1607.06450): (x − mean(x)) / sqrt(variance(x) + eps) · w + b. Statistics in float32.
typedef enum NormKind { NORM_RMS, NORM_LAYER } NormKind;

// x·sigmoid(x); x·Φ(x) (Hendrycks & Gimpel, arXiv:1606.08415) by its approximation with tanh, and exact; max(x, 0);
// its square (So et al., arXiv:2109.08668). Then that of a gate and an up together (gpt-oss):
// g·sigmoid(1.702·g)·(u + 1), g = min(gate, 7), u = up within ±7. The last, xIELU (Huang & Schlag, arXiv:2411.13010; its
// numbers are each layer's own, LayerWeights.xielu), has no gate beside it, no experts and no per-layer embeddings:
// alpha_p·x² + beta·x of x > 0, else alpha_n·(e^min(x, eps) − 1 − x) + beta·x.
typedef enum Activation {
    ACTIVATION_SILU,
    ACTIVATION_GELU_TANH,
    ACTIVATION_GELU,
    ACTIVATION_RELU,
    ACTIVATION_RELU2,
    ACTIVATION_CLAMPED_SWIGLU,
    ACTIVATION_XIELU
} Activation;
enum { CLAMPED_SWIGLU_LIMIT = 7 };
#define CLAMPED_SWIGLU_ALPHA 1.702f

// A mixture of experts (Shazeer et al., arXiv:1701.06538; Fedus et al., arXiv:2101.03961), in the layers that have a
// router. With h a row of norm(x; ffn_norm):
//   s = softmax(router·h + router_bias), or its sigmoid element by element;
//   the n_active experts with the largest s + choice_bias are chosen, of equal ones the lower ones. With groups, whose
//   experts follow each other, only those of the n_active_groups groups can be whose two largest s + choice_bias add
//   up to most (DeepSeek-V3, arXiv:2412.19437), or with groups_by_best whose largest is (DeepSeek-V2, arXiv:2405.04434);
//   w = s of the chosen, divided by their sum if `renormalise`, times `scale`;
//   x += Σ w[e]·expert_e(h) + sigmoid(shared_router·h)·shared(h), each of them
//   down·(activation(gate·h + b_gate)·(up·h + b_up)) + b_down, or without gates, the shared one too (Nemotron-H),
//   down·activation(up·h + b_up) + b_down.
// To choose by router·h and take the softmax of what is chosen is to renormalise.
// With scales_input (Llama 4) an expert is given w·h instead, and what it gives is added as it is.
// SparseMixer (Liu et al., arXiv:2409.12136) takes two, one after the other: the largest l = router·h + router_bias of
// those that are left, m at expert e. Its w is the softmax at e over those that are left with
// m − l <= 2·jitter·max(|l|, m). Neither biases that choose nor groups, renormalise or scale are in it.
typedef enum RouterScore { ROUTER_SOFTMAX, ROUTER_SIGMOID, ROUTER_SPARSEMIXER } RouterScore;
#define ROUTER_GUARD 1e-6f
enum { EXPERTS_MOST = 1024, EXPERTS_MOST_ACTIVE = 32 };
typedef struct Experts {
    int n, n_active; // n 0: no layer has experts
    int size;        // intermediate size of each
    int shared_size; // of the shared one; 0: there is none
    RouterScore score;
    bool renormalise;
    bool scales_input;
    bool guarded; // ROUTER_GUARD is added to the sum that weights are divided by (LFM 2)
    float scale;
    float jitter;                  // of SparseMixer
    int n_groups, n_active_groups; // n_groups 0 or 1: none
    bool groups_by_best;
    // Behind them and the shared one there may be a norm: x += norm(shared(h) + Σ w[e]·expert_e(h); ffn_post_norm).
    // Experts beside a dense part, which is the shared one's (Gemma 4). The router and the experts have norms of their own:
    // r = router·(norm(x; router_norm)/√hidden_size), h' = norm(x; expert_norm), and with w[e] times expert_scale[e]
    //   x += norm(norm(shared(h); shared_post_norm) + norm(Σ w[e]·expert_e(h'); expert_post_norm); ffn_post_norm)
    bool beside;
} Experts;

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434). What a token leaves in the cache is one row for all heads,
// k = [turned rotary part | latent], and its latent is all values as well. With h = norm(x; attn_norm):
//   [c | r] = wk·h, c [rank], r [rotary_dim];  k = [RoPE(r) | norm(c; latent_norm)];
//   a = norm(q_down·h; q_down_norm), or h where q_rank is 0;  head i of wq·a is [p | s], p [plain_dim], s [rotary_dim].
// The makers expand keys to k_up'·latent and values to v_up·latent, and multiply those. Here each matrix goes to the other
// side of the product ("absorbed"): q_i = [RoPE(s) | k_up_i·p], k_up_i [rank, plain_dim] the transposed matrix of keys;
// attention is that of n_heads queries over one KV head; out: wo·[v_up_i·latents_i]. attention_scale is of the expanded
// heads. So head_dim is rotary_dim + rank, n_kv_heads 1, and KvLayer.v is KvLayer.k: what attend() makes of the rotary
// part of "values" means nothing. The two norms are RMS norms with an epsilon of their own.
typedef struct Latent {
    int rank; // 0: no latent
    int q_rank, plain_dim, value_dim;
    float norm_eps;
} Latent;

// A short convolution in the place of attention (LFM 2; Lfm2ShortConv of transformers), in the layers that
// LayerHeads.convolves names. With h[t] = norm(x[t]; attn_norm) and elements multiplied one by one:
//   p[t] = (wk·h[t] + bk)·(wv·h[t] + bv);  y[t] = (wq·h[t] + bq)·(conv_bias + Σ conv[j]·p[t - (taps - 1) + j]), 0 <= j < taps,
// p of what stands before the text being zeros; x += wo·y + bo. All of them have hidden_size = n_heads·head_dim elements. What
// a token leaves in the cache is p, so that texts are cut, shared and gone on with as everywhere: the first half is its
// key, the second its value, n_heads/2 heads each, which nothing turns. The tokens before it are those of its sequence's
// text (StepSequence.earlier), whatever their positions.
typedef struct Convolution {
    int taps; // 0: no layer has one; at most CONVOLUTION_MOST_TAPS
} Convolution;
enum { CONVOLUTION_MOST_TAPS = 8 };

// A gated delta rule in the place of attention (Yang et al., arXiv:2412.06464; Qwen3NextGatedDeltaNet and
// Qwen3_5GatedDeltaNet of transformers), in the layers that LayerHeads.recurs names. With h[t] = norm(x[t]; attn_norm), and
// n_key_heads heads of queries and keys of key_dim, n_value_heads of values of value_dim:
//   c[t] = [wq·h | wk·h | wv·h];  [q | k | v][t] = silu(Σ conv[j]·c[t - (taps - 1) + j]), 0 <= j < taps, element by element,
//   c of what stands before the text being zeros; each head of q is divided by its length and by √key_dim, each of k by its
//   length, lengths being √(Σ x² + DELTA_LENGTH_EPS);
//   of each head of values, with q and k of the key head that is its (keys_alternate): β = sigmoid(w_beta·h),
//   γ = e^(−decay_rate·softplus(w_decay·h + decay_bias)), and from the state S [key_dim, value_dim], zeros before the text,
//     S ← γ·S;  S ← S + k·(β·(v − kᵀ·S));  y = norm(qᵀ·S; state_norm)·silu(attn_gate·h), a RMS norm of each head;
//   x += wo·y, y [n_value_heads·value_dim].
// With `adds` a token adds to the state instead of correcting it: a state space (Mamba 2; Dao & Gu, arXiv:2405.21060), whose
// C, B and x are q, k and v. Its [q | k | v] are silu(conv_bias + Σ …), of no other lengths, β is softplus(w_decay·h +
// decay_bias), or least_step where that is more, and stands in γ as well; there is no w_beta, and
//     S ← γ·S + k·(β·v);  y = norm((qᵀ·S + skip·v)·silu(attn_gate·h + attn_gate_bias); state_norm),
// a RMS norm over all heads of values that share a head of keys, with a weight for each of their elements; without state_norm
// (Falcon-H1) it is not normed; and y is multiplied by `scale`. Its products may have biases (use_bias of Mamba2Mixer of
// transformers): c[t] = [wq·h + bq | wk·h + bk | wv·h + bv], and decay_bias is then the sum of its two; x += wo·y + bo.
// What a token leaves for those behind it is not in the cache's slots: it is a state of the whole text before them
// (KvLayer.states), which can be gone on from, and not be cut.
typedef struct DeltaRule {
    int n_key_heads, n_value_heads; // n_value_heads 0: no layer has one; a multiple of n_key_heads
    int key_dim, value_dim;
    int taps; // at most CONVOLUTION_MOST_TAPS
    // Head h of values goes with key head h % n_key_heads, as GGUF's converter orders Qwen 3.5's; else with
    // h / (n_value_heads / n_key_heads).
    bool keys_alternate; // not with `adds`
    bool adds;
    float norm_eps;   // of state_norm; the shape's own is another where its residuals are kept divided
    float least_step; // with `adds`: NemotronHMamba2Mixer of transformers, time_step_min; 0: none
    float scale;      // with `adds`: of y; 0 means 1
} DeltaRule;
#define DELTA_LENGTH_EPS 1e-6f

// How the pairs of a head's first rotary_dim elements lie: (i, i + rotary_dim/2), as Hugging Face
// stores them, or (2i, 2i+1), as Meta and GGUF's LLaMA do.
typedef enum RopeKind { ROPE_HALF_SPLIT, ROPE_INTERLEAVED } RopeKind;

// Rotary position embedding (Su et al., arXiv:2104.09864). Pair i at position p turns by the angle
// p·inv_freq[i], computed in double and reduced before it becomes float; cos and sin are multiplied by
// `magnitude` (the attention factor of YaRN and LongRoPE; 1 elsewhere). Scaling schemes are already in inv_freq.
// Those that go by the length of the whole text have a set of frequencies for each range of lengths; a sequence's keys
// and queries are turned by one set (StepSequence), and shift_keys() is for models of one.
// Layers may have frequencies of their own (those behind a window turn faster in Gemma 3, arXiv:2503.19786), or turn
// nothing (NoPE: Kazemnejad et al., arXiv:2305.19466): KvLayer.rope.
typedef struct Rope {
    RopeKind kind;
    int rotary_dim; // even, <= head_dim; further elements are left as they are; 0: no rotary embedding
    const double
        *inv_freq; // host [n_tables, n_sets, rotary_dim/2], owned by the caller for the life of the backend
    double magnitude;       // of the first table
    int n_sets;             // 0 means 1
    int n_tables;           // 0 means 1; at most ROPE_MOST_TABLES
    int other_rotary_dim;   // of the second table, whose further frequencies mean nothing; 0: as the first
    double other_magnitude; // of the second table
    const int *of_layers;   // host [n_layers], the caller's too: for KvLayer.rope; NULL: 0 for all
    // Positions of two dimensions (GLM, arXiv:2103.10360): the first half of the pairs turns by position_within(), the second
    // by position_beyond() (kernels/both_ways.h), of one table without scaling.
    bool two_dimensional;
} Rope;

enum { ROPE_MOST_TABLES = 2 };

// What the heads of a layer are, where layers differ.
typedef struct LayerHeads {
    int n_kv_heads, head_dim;
    int lender; // the layer whose keys and values it looks at, an earlier one; its own number: it has them itself
    bool convolves; // it does not attend: Convolution
    bool recurs;    // nor does it: DeltaRule
    // A layer may lack one of its two parts, and then is the other alone (Nemotron-H; NemotronHBlock of transformers): what
    // mixes tokens, attention or what stands in its place, with qkv, attend and out; or the feed-forward part, with gate_up and
    // down.
    bool no_mixer, no_ffn;
    // Two mixers may read one x (Falcon-H1; FalconH1DecoderLayer of transformers): they are two layers, of which the first has
    // no feed-forward part, and the second is beside it: its qkv and attend come before the first one's out.
    bool beside;
} LayerHeads;

typedef struct DecoderShape {
    // Where no layer attends (Mamba 2) n_heads, n_kv_heads and head_dim mean nothing, and where none has a feed-forward part
    // intermediate_size does not; but they are positive all the same.
    int n_layers, hidden_size, n_heads, n_kv_heads, head_dim, intermediate_size, vocab_size;
    NormKind norm; // of layers, embedding and head
    bool
        head_layer_norms; // LayerWeights.q_norm and k_norm are layer norms (Command R+, StableLM 2 12B), else RMS norms
    float norm_eps;
    float norm_offset;     // added to every norm's weight: 0, or 1 where a file stores w - 1
    float embedding_scale; // 1, or √hidden_size for models that scale their embeddings
    float attention_scale; // multiplies q·k: usually 1/√head_dim
    float
        attention_cap; // scores become cap·tanh(score/cap) before any mask (Gemma 2, arXiv:2408.00118); 0: no cap
    // Queries are multiplied by query_temperature() of position - n_evicted (kernels/temperature.h); beta 0: they are not.
    float temperature_beta;
    int temperature_length;    // > 0 with a beta
    int temperature_ahead;     // positions are counted from so many on (Llama 4: 1)
    bool temperature_unturned; // only in layers whose queries are not turned (KvLayer.rope < 0)
    float logit_scale;         // multiplies logits, without the output's bias; 0 means 1
    float logit_cap;           // likewise of logits; 0: no cap
    Activation activation;
    Rope rope;
    int n_positions;   // rows of HeadWeights.positions: positions end there; 0: not learned, without end
    bool norms_turned; // norms of heads of q and k come after RoPE (Hunyuan): keys cannot be turned any more
    bool parallel_residual; // attention and feed-forward read the same x: gate_up comes before out
    // What a part adds to is not x but so many times what it read (ChatGLM 1: x = α·h + W·y, h = norm(x)); 0: it is x.
    float normed_residual;
    bool alibi; // scores lose slope·distance instead of turning keys (Press et al., arXiv:2108.12409)
    bool
        alibi_scaled; // the same before they are scaled: slopes are multiplied by attention_scale as well (Falcon)
    Experts experts;
    Latent latent;
    Convolution convolution;
    DeltaRule delta;
    // Heads of layers differ (Gemma 4, LFM 2): host [n_layers], the caller's; n_kv_heads and head_dim above are those of most, and
    // the cache has room for the widest. NULL: they are alike. Intermediate sizes then differ as well, up to
    // intermediate_size.
    const LayerHeads *heads_of_layers;
    // Per-layer embeddings (Gemma 3n and 4): every token has a row t of token_size elements for each layer, made by embed()
    // of its id and of its x:
    //   t = (√token_size·token_embedding[id] + norm(token_projection·x / √hidden_size; token_norm)) / √2
    // and at the layer's end x += norm(token_up·(activation(token_gate·x)·t); token_norm). 0: there are none.
    int token_size;
    const float
        *sink_scores; // host [n_layers, n_heads], owned by the caller: KvLayer.sink_scores; NULL: none
    // How inputs of layers in DTYPE_E4M3 are rounded (kernels/fp8.h). The CPU does so, but for latents' products of heads; a
    // device may keep them in 16 bits, which are finer, where it multiplies no FP8 with FP8 or has no time to win by it.
    Fp8Inputs fp8_inputs;
    bool orders_inputs; // a matrix has an order of columns
    int output_rows; // of the output matrix, where a backend has a part of it (kernels/shards); 0: vocab_size
    bool adds_shares;     // likewise: out and down add shares, whose norms come when all of them are added up
    bool gates_attention; // layers that attend may have LayerWeights.attn_gate
    bool norms_experts;   // layers of experts may have ffn_post_norm, behind them and the shared one
    bool last_norm_whole; // norm_offset is not of the last norm
    float post_norm_eps;  // of attn_post_norm and ffn_post_norm; 0: norm_eps
    bool head_gates;      // attn_gate of layers that attend has a row a head
} DecoderShape;

// Of the norms behind parts.
static inline float decoder_post_norm_eps(const DecoderShape *s) {
    return s->post_norm_eps != 0 ? s->post_norm_eps : s->norm_eps;
}

// Rows of HeadWeights.output, and of logits that logits() gives.
static inline int decoder_output_rows(const DecoderShape *s) {
    return s->output_rows > 0 ? s->output_rows : s->vocab_size;
}

static inline int rope_tables(const Rope *rope) {
    return rope->n_tables > 0 ? rope->n_tables : 1;
}

static inline int rope_sets(const Rope *rope) {
    return rope->n_sets > 0 ? rope->n_sets : 1;
}

// The row of rope->inv_freq.
static inline int rope_row(const Rope *rope, int table, int set) {
    return table * rope_sets(rope) + set;
}

// What a layer of a shape with xIELU may not have, or lacks; NULL: all is well.
static inline const char *layer_xielu_fault(const DecoderShape *shape, const LayerWeights *w) {
    if (shape->activation != ACTIVATION_XIELU) return NULL;
    if (w->w_gate.data || w->router.data || shape->token_size > 0)
        return "xIELU beside a gate, experts or per-layer embeddings";
    return w->xielu.alpha_p > 0 ? NULL : "xIELU without its numbers";
}

// Elements of a token's expanded queries, and of what wo takes.
static inline int64_t decoder_query_width(const DecoderShape *s) {
    const int dim = s->latent.rank > 0 ? s->latent.plain_dim + s->rope.rotary_dim : s->head_dim;
    return (int64_t)s->n_heads * dim;
}
static inline int64_t decoder_attended_width(const DecoderShape *s) {
    return (int64_t)s->n_heads * (s->latent.rank > 0 ? s->latent.value_dim : s->head_dim);
}

static inline LayerHeads layer_heads(const DecoderShape *s, int layer) {
    const LayerHeads alike = {.n_kv_heads = s->n_kv_heads, .head_dim = s->head_dim, .lender = layer};
    return s->heads_of_layers ? s->heads_of_layers[layer] : alike;
}

// Whether the layer's norms of q and k are of whole rows, and not of heads.
static inline bool layer_norms_rows(const DecoderShape *shape, const LayerWeights *w) {
    return w->norms_rows ||
           (shape->n_heads > 1 && w->q_norm.data && !shape->head_layer_norms &&
            w->q_norm.cols == (int64_t)shape->n_heads * layer_heads(shape, w->index).head_dim);
}

// Whether layers that attend or convolve have other heads than the shape says, or borrow another one's keys and values.
static inline bool decoder_heads_differ(const DecoderShape *s) {
    for (int l = 0; s->heads_of_layers && l < s->n_layers; l++) {
        const LayerHeads *h = &s->heads_of_layers[l];
        if (!h->recurs && !h->no_mixer &&
            (h->convolves || h->lender != l || h->n_kv_heads != s->n_kv_heads || h->head_dim != s->head_dim))
            return true;
    }
    return false;
}

// The largest head of any layer, the widest row of keys, and the fewest heads that they have.
static inline int decoder_most_head_dim(const DecoderShape *s) {
    int most = s->head_dim;
    for (int l = 0; s->heads_of_layers && l < s->n_layers; l++)
        if (s->heads_of_layers[l].head_dim > most) most = s->heads_of_layers[l].head_dim;
    return most;
}

static inline int64_t decoder_kv_width(const DecoderShape *s) {
    int64_t most = (int64_t)s->n_kv_heads * s->head_dim;
    for (int l = 0; s->heads_of_layers && l < s->n_layers; l++) {
        const int64_t width = (int64_t)s->heads_of_layers[l].n_kv_heads * s->heads_of_layers[l].head_dim;
        if (width > most) most = width;
    }
    return most;
}

// Rows of a layer's wk, and of its wv.
static inline int64_t layer_key_rows(const LayerHeads *heads) {
    return (heads->convolves ? 2 : 1) * (int64_t)heads->n_kv_heads * heads->head_dim;
}

// Those of the layer that has most.
static inline int64_t decoder_key_rows(const DecoderShape *s) {
    int64_t most = (int64_t)s->n_kv_heads * s->head_dim;
    for (int l = 0; s->heads_of_layers && l < s->n_layers; l++)
        if (layer_key_rows(&s->heads_of_layers[l]) > most) most = layer_key_rows(&s->heads_of_layers[l]);
    return most;
}

// Tokens before a token that its convolutions look at.
static inline int decoder_earlier(const DecoderShape *s) {
    return s->convolution.taps > 0 ? s->convolution.taps - 1 : 0;
}

// Elements of what a layer that recurs convolves: queries, keys, values.
static inline int64_t delta_channels(const DeltaRule *d) {
    return 2 * (int64_t)d->n_key_heads * d->key_dim + (int64_t)d->n_value_heads * d->value_dim;
}

// Of what it gives to wo.
static inline int64_t delta_width(const DeltaRule *d) {
    return (int64_t)d->n_value_heads * d->value_dim;
}

// Elements of a token in PassBuffers.q: the queries of the widest layer, or what a layer that recurs gives.
static inline int64_t decoder_pass_width(const DecoderShape *s) {
    const int64_t heads = (int64_t)s->n_heads * decoder_most_head_dim(s), values = delta_width(&s->delta);
    return heads > values ? heads : values;
}

// Floats of one state of a layer that recurs: c of the last taps - 1 tokens, the oldest first, [taps - 1, channels], then S,
// [n_value_heads, key_dim, value_dim].
static inline int64_t delta_state_floats(const DeltaRule *d) {
    return (d->taps - 1) * delta_channels(d) + delta_width(d) * d->key_dim;
}

// Layers that recur.
static inline int decoder_recurring(const DecoderShape *s) {
    int n = 0;
    for (int l = 0; s->heads_of_layers && l < s->n_layers; l++) n += s->heads_of_layers[l].recurs;
    return n;
}

// Layers without a mixer.
static inline int decoder_without_mixer(const DecoderShape *s) {
    int n = 0;
    for (int l = 0; s->heads_of_layers && l < s->n_layers; l++) n += s->heads_of_layers[l].no_mixer;
    return n;
}

// Layers that attend, or convolve over what lies in the cache's slots. Where there is none these hold positions alone.
static inline int decoder_attending(const DecoderShape *s) {
    return s->n_layers - decoder_recurring(s) - decoder_without_mixer(s);
}

static inline int decoder_least_kv_heads(const DecoderShape *s) {
    int least = s->n_kv_heads;
    for (int l = 0; s->heads_of_layers && l < s->n_layers; l++)
        if (s->heads_of_layers[l].n_kv_heads < least) least = s->heads_of_layers[l].n_kv_heads;
    return least;
}

// The rope as a table of frequencies turns heads.
static inline Rope rope_of_table(const Rope *rope, int table) {
    Rope own = *rope;
    if (table == 1 && rope->other_rotary_dim > 0) own.rotary_dim = rope->other_rotary_dim;
    return own;
}

// Whether layer l + 1 is beside it.
static inline bool layer_has_beside(const DecoderShape *s, int l) {
    return s->heads_of_layers && l + 1 < s->n_layers && s->heads_of_layers[l + 1].beside;
}

// The number that layer l has in the model's files, for messages: one beside another is of the same layer there.
static inline int layer_of_files(const DecoderShape *s, int l) {
    int n = l;
    for (int i = 0; s->heads_of_layers && i <= l; i++) n -= s->heads_of_layers[i].beside;
    return n;
}

// Elements of g that a token takes: in a layer of experts a row for each that it chose, and the shared one's; of a layer beside
// another one also what attend() makes.
static inline int64_t decoder_ffn_width(const DecoderShape *s) {
    const int64_t experts =
        s->experts.n ? (int64_t)s->experts.n_active * s->experts.size + s->experts.shared_size : 0;
    int64_t most = experts > s->intermediate_size ? experts : s->intermediate_size;
    for (int l = 0; s->heads_of_layers && l < s->n_layers; l++)
        if (layer_has_beside(s, l) && decoder_pass_width(s) > most) most = decoder_pass_width(s);
    return most;
}

#ifdef __cplusplus
}
#endif
#endif
