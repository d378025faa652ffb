// Layers and heads on the device, as weights/weights.cu loads them.
#ifndef PALAVER_KERNELS_CUDA_LAYERS_CUH
#define PALAVER_KERNELS_CUDA_LAYERS_CUH

#include "kernels/cuda/device/formats.cuh"
#include "kernels/ops.h"

// Several matrices over the same input, rows one below the other; one of them unless their formats differ.
struct Linear {
    Weight part[3];
    int n_parts, rows, cols;
    float input_scale; // of E4M3: a fixed scale of its input's rounding (kernels/fp8.h); 0: there is none
};

// All parts of it or none.
static inline bool linear_is_w8(const Linear *w) {
    return w->part[0].format == FORMAT_W8;
}

// A norm over the hidden size, of the shape's kind.
struct Norm {
    float *weight; // norm_offset added; NULL: there is no norm
    float *bias;   // NULL: none
};

// What layers' inputs are put in the order of (Matrix.order); NULL: they stay as they are.
struct LayerOrders {
    int32_t *qkv, *out, *gate_up, *down;
};

struct Layer {
    Layer *next;
    char *memory; // of everything below
    Norm attn_norm, attn_post_norm, ffn_norm, ffn_post_norm;
    float *q_norm, *k_norm, *v_norm;            // norm_offset added to the first two; NULL: none
    bool row_norms;                             // these two are of whole rows, not of heads
    float *b_qkv, *bo, *b_gate, *b_up, *b_down; // NULL: none
    Linear qkv, out, down;
    // Of a shape with a latent qkv is wq, or q_down, and wk, and q_up is wq.
    float *q_down_norm, *latent_norm; // NULL: none
    Linear q_up;                      // rows 0: there is none
    Weight k_up, v_up;                // plain
    // Of a layer that convolves, [hidden_size, taps], [hidden_size]; of one that recurs [channels, taps], [channels]; NULL: none.
    float *conv, *conv_bias;
    // A gate behind attention, and its bias; or of a layer that recurs [attn_gate | w_beta | w_decay], without the second where
    // it adds, the latter two by themselves where they cannot lie with the first. rows 0: there are none.
    Linear attn_gate, rates;
    float *attn_gate_bias; // NULL: none
    bool recurs;
    float *decay_rate, *decay_bias, *state_norm, *skip; // of a layer that recurs; NULL: none
    bool gated;                                         // also of experts, the shared one among them
    Linear gate_up; // rows gate 0, up 0, gate 1, up 1, …; without a gate those of up
    // Of experts, whose gate_up and down, and their biases, stand one below the other. router NULL: a dense layer.
    float *router; // [n, hidden_size], behind it the shared expert's row if `shared_routed`
    float *router_bias, *choice_bias; // NULL: none
    bool shared_routed;
    Linear shared_gate_up, shared_down; // rows 0: there is none
    // Of experts beside a dense part, which is the shared one's; the router's norm is divided by √hidden_size.
    Norm router_norm, expert_norm, shared_post_norm, expert_post_norm;
    float *expert_scale; // NULL: 1
    // Of per-layer embeddings: rows 0: there are none.
    Linear token_gate, token_up;
    Norm token_norm;
    int index;     // of the layer
    float x_scale; // of x at the layer's end; 1: nothing is done
    Xielu xielu;   // of shapes with it
    LayerOrders orders;
    // `rates` in the operand type, where no tensor cores take them as they are (recurring/delta.cu). rows 0: there are none.
    Linear rounded_rates;
};

struct Head {
    Head *next;
    char *memory;
    Norm norm, embedding_norm;
    float *output_bias; // NULL: none
    Weight embedding;
    Weight positions; // data NULL: not learned
    Linear output;    // its data is the embedding's where the head is tied
    // Of per-layer embeddings: data NULL, or rows 0: there are none.
    Weight token_embedding;
    Linear token_projection;
    float *token_norm; // [token_size]
};

#endif
