// A model as data: what its architecture is made of, and where its weights lie in the files.
//
// Nothing here computes. forward.c reads these values; architectures differ by them, never by code. They come
// from a Hugging Face config.json or from a GGUF file's metadata, and every weight is checked against them.
#ifndef PALAVER_ENGINE_MODEL_H
#define PALAVER_ENGINE_MODEL_H

#include "engine/files/checkpoint.h"
#include "engine/options.h"
#include "kernels/ops.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MODEL_MAX_LAYERS = 1024,
    MODEL_MAX_EOS = 16,
    MODEL_N_GENERATION = 7, // settings of sampling that makers recommend
};

// Rope scaling schemes. The frequencies of the last two go by the length of the whole text.
typedef enum RopeScaling {
    ROPE_SCALING_NONE,
    ROPE_SCALING_LINEAR,  // all frequencies divided by factor (Chen et al., arXiv:2306.15595)
    ROPE_SCALING_LLAMA3,  // low ones divided, high ones kept, a ramp between (Llama 3.1's reference code)
    ROPE_SCALING_YARN,    // the same by parts in the index, and a magnitude (Peng et al., arXiv:2309.00071)
    ROPE_SCALING_FACTORS, // divided one by one by a GGUF file's rope_freqs.weight
    ROPE_SCALING_DYNAMIC, // "dynamic NTK": a base that grows with what a text is longer than the trained context
    ROPE_SCALING_LONGROPE, // divided one by one by other factors within and beyond it, and a magnitude (Ding et al.,
                           // arXiv:2402.13753)
    ROPE_SCALING_PROPORTIONAL, // a part of the pairs of a head, by the frequencies of the whole (Gemma 4)
} RopeScaling;

// What the model's makers recommend for sampling.
typedef struct GenerationDefault {
    const char *key; // of palaver's settings: "temperature", "top_k" …
    double value;    // NAN: not said
} GenerationDefault;

// What multiplies norms, taps and w_decay of layers as they are read, scores, and what a state space gives; ffn_norm 0: nothing is.
// Or post_norms: the norms of what parts add, which are then all; 0: they are not.
typedef struct Multipliers {
    double attention_norm, state_norm, ffn_norm;
    double queries, keys, values, decay; // of a state space's taps, and of w_decay
    double scores, state;
    double post_norms;
} Multipliers;

typedef struct Model {
    char architecture[64]; // as config.json names it: "llama", "qwen3", "gpt_neox"
    char name[128];        // what the files call the model, "" if they do not

    DecoderShape shape; // its rope.inv_freq is the array below
    // [shape.n_layers], pointing into the mapped files, or where rows had to be put in another order, into `gathered`
    // [shape.n_layers]; that is NULL where nothing had to.
    LayerWeights *layers;
    const void *
        *expert_rows;   // [shape.n_layers, 3, experts.n] of gates, ups and downs; NULL: there are no experts
    float *sink_scores; // shape.sink_scores; NULL: there are none
    void **gathered;
    Multipliers multipliers;
    void **multiplied; // [shape.n_layers] what was multiplied by these; NULL: nothing
    HeadWeights head;
    void *normed_head; // head.output, where its rows were divided by their length; NULL: they were not
    // Where weights are converted (conversion.h): layers [shape.n_layers] and output as the files have them, and memory
    // for what was converted and is used where it is, [shape.n_layers + 1] with the head's last. NULL: nothing is.
    WeightType weights, head_weights;
    LayerWeights *file_layers;
    Matrix file_output;
    void **converted;
    // [shape.n_layers] of layers that become int8 what channels of g are divided by, [intermediate size], powers of two
    // (engine/smoothing.h); NULL: nothing. The whole is NULL where no layer was measured.
    float **smoothing;
    int sliding_window; // that the files announce, whichever layers have it; 0: none
    int *
        attention_windows; // [shape.n_layers] sliding window of each layer in tokens, itself included; 0: none;
                           // below 0: it sees chunks of so many
    LayerHeads *layer_heads; // shape.heads_of_layers; NULL: they are alike
    int global_head_dim;     // of layers without a window, where they differ
    int usual_intermediate;  // of layers that are not twice as wide
    bool conv_bias;          // of layers that convolve, or recur
    bool state_norm;         // of state spaces
    bool state_bias;         // likewise, of their products
    bool same_values;        // layers without a window have keys for values
    int chunk;               // tokens of those chunks; 0: no layer has them
    float *
        unit_norm; // [a head's size, or shape.hidden_size] what a norm without weights has for them; NULL: they are not

    bool tied_head; // the output matrix is the embedding
    double
        residual_scale; // what layers add is multiplied by it: x is kept divided by it, so that nothing else shows it
    bool qk_norm, qkv_bias, o_bias, ffn_bias, norm_bias, output_bias;

    int64_t context_length; // positions the model is made for, scaling included
    bool context_ends;      // what is computed beyond them palaver cannot
    double rope_base;
    RopeScaling rope_scaling;
    double rope_factor;   // of linear, llama3, yarn, dynamic, longrope; else 1
    double *inv_freq;     // [shape.rope.n_tables, shape.rope.n_sets, shape.rope.rotary_dim/2] after scaling
    double window_base;   // of the second table, for layers behind a window; 0: there is none
    int *layer_ropes;     // [shape.n_layers] what shape.rope.of_layers says; NULL: all alike
    int64_t rope_trained; // tokens of the longest texts that set 0 is for

    int32_t bos_id;      // -1: none
    bool seen_both_ways; // what stands before the first bos_id of a text
    int n_eos;
    int32_t eos_ids[MODEL_MAX_EOS]; // any of these ends a reply; those of generation_config.json included
    GenerationDefault generation[MODEL_N_GENERATION];
    // Keys of generation_config.json that ask for what palaver does not do, ", " between them; "": none do.
    char unfollowed[256];
    char
        other_parts[128]; // of a model that does more than write text, whose tensors are left alone; "": none

    int64_t n_active_parameters; // of n_parameters those that a token meets
    int64_t n_parameters;        // elements of the weights that are used, a tied head counted once
    int64_t weight_bytes;        // their bytes in the files
    int64_t converted_bytes;     // what they take more where they are converted, or less
    Checkpoint *checkpoint;      // owned
} Model;

// Opens the files at `path` (see checkpoint_open) and describes the model in them. Errors besides those of
// checkpoint_open: an unknown architecture (STATUS_UNSUPPORTED, with those palaver knows), a missing or
// contradictory hyperparameter, a missing weight, or one of another shape: one line with both sides.
Status model_open(const char *path, Model **model, Error *error);

// The same over an open Checkpoint, which the Model takes over; if it fails, the Checkpoint is closed.
Status model_from_checkpoint(Checkpoint *checkpoint, Model **model, Error *error);

void model_close(Model *model); // closes the Checkpoint as well; NULL is fine

bool model_is_eos(const Model *model, int32_t id);

// How many tokens of a text see each other, those behind them too; 0: none do. What was cached with others is worthless.
int64_t model_prefix(const Model *model, const int32_t *tokens, int64_t n);

// Which set of the rope's frequencies a text of n tokens is read with: its tokens all with one, as by a pass of
// transformers over the whole text at once. What was cached with another is worthless.
int model_rope_set(const Model *model, int64_t n_tokens);

// Whether a text that was read with `set` may grow to n tokens, one by one, before it is read again. With dynamic NTK
// every token changes the frequencies of all: they stay while the text grows by an eighth and as far as they cover (a
// set for n tokens beyond the trained context covers factor·n). transformers turns new tokens by new frequencies and
// leaves those that it has cached.
bool model_rope_holds(const Model *model, int set, int64_t n_tokens);

// Makes the sets for texts of up to `context` tokens, before a backend is opened: until then dynamic NTK has the first.
// STATUS_USAGE: there would be too many of them (never for a context of up to context_length).
Status model_reach_context(Model *model, int64_t context, Error *error);

// ---- memory arithmetic: what to compare with what is free, before anything is allocated -------------------

// Bytes of all weights as they are held: mapped from the files and read, converted, or uploaded.
int64_t model_weight_bytes(const Model *model);

// Elements, and bytes as they are held, of the experts that a token does not take.
int64_t model_idle_parameters(const Model *model);
int64_t model_idle_bytes(const Model *model);

// The type that most of the layers' bytes have.
DType model_main_type(const Model *model);

#endif
