// Weights as files hold them: what a backend is given to load.
#ifndef PALAVER_KERNELS_WEIGHTS_H
#define PALAVER_KERNELS_WEIGHTS_H

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A matrix (or, with rows = 1, a vector) in a file's own type, in mapped host memory. data == NULL: absent.
typedef struct Matrix {
    DType type;
    int64_t rows, cols; // cols is the contiguous dimension, a multiple of the type's block size
    const void *data;   // [rows, cols]
    // Of experts, one below the other: where a file has them apart, each expert's rows by themselves, rows / n_pieces
    // of them; data is then the first one's. NULL: all rows follow each other.
    const void *const *pieces; // [n_pieces]
    int n_pieces;
    float input_scale; // of DTYPE_E4M3: a fixed scale of its input's rounding (kernels/fp8.h); 0: it has none
    // host [cols]: column i is multiplied with element order[i] of the input, each with one. Matrices of one input have one
    // order. Dense wq, wk and wv, wo, w_gate and w_up, w_down may have one, where there are no latents. NULL: with the i-th.
    const int32_t *order;
    // What the CPU backend has made of it for itself (kernels/cpu/loops/fixed.h); NULL: nothing.
    const void *fixed;
} Matrix;

// Expert e's rows, of a matrix that holds those of n.
static inline Matrix matrix_of_expert(const Matrix *all, int e, int n) {
    const int64_t rows = all->rows / n;
    Matrix one = {all->type, rows, all->cols, NULL, NULL, 0, all->input_scale, NULL, NULL};
    if (all->data)
        one.data = all->pieces ? all->pieces[e]
                               : (const char *)all->data + e * rows * dtype_row_bytes(all->type, all->cols);
    return one;
}

// What of a layer a backend has, where another has the rest (kernels/split). Of the first part gate_up and down are called
// only if it has a w_up, of a size of its own, and of the second nothing else is.
typedef enum LayerPart {
    LAYER_WHOLE,
    LAYER_WITHOUT_EXPERTS, // attention, and of the feed-forward part what every token takes: a dense one, or none
    LAYER_EXPERTS,         // the feed-forward part, whose shared expert may be missing
} LayerPart;

// The numbers of a layer's xIELU (ACTIVATION_XIELU), as its formula has them: softplus is already taken.
typedef struct Xielu {
    float alpha_p, alpha_n, beta, eps;
} Xielu;

// The weights of one decoder layer, as the file has them. Absent ones have data == NULL.
typedef struct LayerWeights {
    Matrix attn_norm, attn_norm_bias; // [hidden_size]; a bias only with layer norm. Absent: h = x (OLMo 2)
    Matrix wq, bq;                    // [n_heads*head_dim, hidden_size], [n_heads*head_dim]
    Matrix wk, bk;                    // [n_kv_heads*head_dim, hidden_size], [n_kv_heads*head_dim]
    Matrix wv, bv;                    // likewise
    // RMS norms before RoPE: [head_dim], of each head (Qwen3), or [n_heads*head_dim] and [n_kv_heads*head_dim], of all
    // heads of a token as one row (OLMo 2). With head_layer_norms: layer norms of each head with weights of its own,
    // [n_heads*head_dim] and [n_kv_heads*head_dim].
    Matrix q_norm, k_norm;
    Matrix v_norm;                  // [head_dim] RMS norm of each head of v (Gemma 4); absent: none
    Matrix wo, bo;                  // [hidden_size, n_heads*head_dim], [hidden_size]
    Matrix attn_post_norm;          // [hidden_size] of what attention adds to x (Gemma 2); absent: none
    Matrix ffn_norm, ffn_norm_bias; // [hidden_size]; absent: h = x
    Matrix w_gate, b_gate;          // [intermediate_size, hidden_size], [intermediate_size]; absent: no gate
    Matrix w_up, b_up;              // likewise
    Matrix w_down, b_down;          // [hidden_size, intermediate_size], [hidden_size]
    Matrix ffn_post_norm;           // [hidden_size] of what the feed-forward part adds to x; absent: none
    // A layer with a router is one of experts (Experts below). Its w_gate, w_up and w_down are then those of all
    // experts one below the other, [n·size, hidden_size] and [n·hidden_size, size], and so are their biases.
    Matrix router, router_bias;                 // [n, hidden_size], [n]
    Matrix choice_bias;                         // [n]: added to the scores that choose, not to the weights
    Matrix shared_gate, shared_up, shared_down; // of the expert that every token takes; absent: there is none
    Matrix shared_router;                       // [1, hidden_size]: its own weight's; absent: 1
    // Of experts beside a dense part (Experts.beside): norms of what the router and the experts read, and of what the dense
    // part and the experts give, [hidden_size] each; and what each expert's weight is multiplied by, [n].
    Matrix router_norm, expert_norm, shared_post_norm, expert_post_norm, expert_scale;
    // Of a shape with a latent (Latent below), whose wq is [n_heads*(plain_dim + rotary_dim), q_rank or hidden_size], wk
    // [rank + rotary_dim, hidden_size] and wo [hidden_size, n_heads*value_dim]; wv is absent, and so are biases.
    Matrix q_down, q_down_norm; // [q_rank, hidden_size], [q_rank]; absent: q_rank is 0
    Matrix latent_norm;         // [rank]
    Matrix k_up, v_up;          // [n_heads*rank, plain_dim], [n_heads*value_dim, rank]: f32, f16 or bf16
    // Of a layer that convolves (Convolution in kernels/decoder_shape.h), whose wq, wk and wv are [hidden_size, hidden_size]:
    // [1, hidden_size*taps], element after element, and [hidden_size]; the bias may be absent.
    Matrix conv, conv_bias;
    // What attention gives is multiplied with sigmoid(attn_gate·h + attn_gate_bias) before wo, h as of wq (Qwen3-Next):
    // [n_heads*head_dim, hidden_size], [n_heads*head_dim]; absent: it is not.
    // [n_heads*head_dim, hidden_size], with DecoderShape.head_gates [n_heads, hidden_size].
    Matrix attn_gate, attn_gate_bias;
    // Of a layer that recurs (DeltaRule in kernels/decoder_shape.h), whose wq and wk are [n_key_heads*key_dim, hidden_size],
    // wv and attn_gate [n_value_heads*value_dim, hidden_size], wo [hidden_size, n_value_heads*value_dim], and conv
    // [1, channels*taps]: [n_value_heads, hidden_size] both, [n_value_heads] both, [value_dim]. Of one that adds, which has no
    // w_beta, state_norm is [n_value_heads*value_dim] or absent, conv_bias [channels] or absent, and skip [n_value_heads]; bq,
    // bk, bv and attn_gate_bias, as long as their matrices have rows, may be there.
    Matrix w_beta, w_decay, decay_rate, decay_bias, state_norm, skip;
    // What the token's own part of a per-layer embedding (below) adds: [size, hidden_size], [hidden_size, size],
    // [hidden_size]; absent: nothing.
    Matrix token_gate, token_up, token_norm;
    int index;     // of the layer
    float x_scale; // x is multiplied by it at the layer's end; 0 means 1
    Xielu xielu;   // of a shape with ACTIVATION_XIELU; else zeros
    LayerPart part;
    bool norms_rows; // q_norm and k_norm are parts of norms of whole rows (kernels/shards)
} LayerWeights;

typedef struct HeadWeights {
    Matrix embedding; // [vocab_size, hidden_size]
    Matrix positions; // [n_positions, hidden_size], where positions are learned
    // Of per-layer embeddings: [vocab_size, n_layers*size], [n_layers*size, hidden_size], [size]
    Matrix token_embedding, token_projection, token_norm;
    Matrix embedding_norm, embedding_norm_bias; // [hidden_size], of what embed() gives (BLOOM)
    Matrix norm, norm_bias;                     // [hidden_size]
    Matrix output, output_bias; // [vocab_size, hidden_size], [vocab_size]; output has the same data as
                                // embedding where the head is tied
} HeadWeights;

#ifdef __cplusplus
}
#endif
#endif
