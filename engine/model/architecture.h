// What an architecture adds to the numbers in a model's files.
#ifndef PALAVER_ENGINE_ARCHITECTURE_H
#define PALAVER_ENGINE_ARCHITECTURE_H

#include "kernels/ops.h"

// Which layers of an architecture look through a sliding window, where its files announce one.
typedef enum WindowRule {
    WINDOW_NEVER,
    WINDOW_EVERY_LAYER,
    WINDOW_UPPER_LAYERS, // only with use_sliding_window; those of layer_types, else from max_window_layers on
    WINDOW_PERIODIC,     // those of layer_types, else all but every period-th
    WINDOW_LISTED,       // those of layer_types, else none
    WINDOW_LOCAL,        // those that attention_types calls "local"
    WINDOW_CHUNKS, // none slides: layers see chunks of attention_chunk_size; those of layer_types, else those that turn
} WindowRule;

// Which layers turn queries and keys, and by which frequencies.
typedef enum RopeRule {
    ROPE_ON_ALL,
    ROPE_BY_WINDOW,         // layers behind a window have frequencies of their own
    ROPE_IN_WINDOWS,        // layers without a window turn nothing
    ROPE_IN_WINDOWS_IF_ANY, // the same, where the files say how long a window is
    ROPE_LISTED, // no_rope_layers says 0 of those that turn nothing, else every no_rope_layer_interval-th
    ROPE_NEVER,  // no layer turns anything
    // layer_rope_theta says the base of those that turn, and 0 of others; without it, and in GGUF without
    // attention.rope_pattern, all do, or with periods_from_last those that these have windows.
    ROPE_BY_BASES,
    // All or none: position_embedding_type says "rope" where they turn, GGUF's rope.scaling.finetuned not that they do not.
    ROPE_SWITCHED,
} RopeRule;

// Whose positions pairs of a head turn by, where a token has several: those of the first, second and third section one after the
// other again and again, or first all of the first section.
typedef enum SectionRule { SECTIONS_NONE, SECTIONS_IN_TURN, SECTIONS_IN_BLOCKS } SectionRule;

// Heads of queries and keys that are divided by their root mean square, without a weight.
typedef enum UnitNorms {
    UNIT_NORMS_NONE,
    UNIT_NORMS_TURNING, // of layers that turn (Llama 4): use_qk_norm, true without it
    UNIT_NORMS_ALL,     // of all, which GGUF's converter writes out as weights
} UnitNorms;

// The parts of a model that have a weight, and perhaps a bias.
typedef enum Module {
    MODULE_ATTN_NORM,
    MODULE_Q,
    MODULE_K,
    MODULE_V,
    MODULE_QKV, // all three in one
    MODULE_Q_NORM,
    MODULE_K_NORM,
    MODULE_ATTN_GATE, // of what attention gives, where it is apart from the queries
    MODULE_O,
    MODULE_ATTN_POST_NORM, // of what attention adds
    MODULE_FFN_NORM,
    MODULE_GATE,
    MODULE_UP,
    MODULE_GATE_UP, // both in one, the gate first
    MODULE_DOWN,
    MODULE_FFN_POST_NORM, // of what the feed-forward part adds
    // Of latent attention: down to a low rank and up again; GGUF has the last in one or in two.
    MODULE_Q_DOWN,
    MODULE_Q_DOWN_NORM,
    MODULE_Q_UP,
    MODULE_KV_DOWN, // with the rotary part
    MODULE_LATENT_NORM,
    MODULE_KV_UP,
    MODULE_K_UP,
    MODULE_V_UP,
    MODULE_CONV_IN, // of layers that convolve: what makes keys, queries and values, one below the other
    MODULE_CONV,
    MODULE_CONV_OUT,
    // Of layers that recur: queries, keys and values one below the other, with the gate's between them, or it apart; and
    // likewise what decides how much of the state is written and how much is kept; of a state space, all of it is in
    // MODULE_DELTA_QKV_GATE: gate, values, keys, queries and what decides.
    MODULE_DELTA_QKV,
    MODULE_DELTA_GATE,
    MODULE_DELTA_QKV_GATE,
    MODULE_DELTA_BETA,
    MODULE_DELTA_DECAY,
    MODULE_DELTA_BETA_DECAY,
    MODULE_DELTA_CONV,
    MODULE_DELTA_NORM,
    MODULE_DELTA_OUT,
    MODULE_DELTA_RATES, // whole names of numbers for each head, as the following
    MODULE_DELTA_BIAS,
    MODULE_DELTA_SKIP,
    MODULE_TOKEN_GATE, // of per-layer embeddings
    MODULE_TOKEN_UP,
    MODULE_TOKEN_NORM,
    MODULE_EMBEDDING, // from here on of the model, not of a layer
    MODULE_POSITIONS,
    MODULE_TOKEN_EMBEDDING, // of all layers
    MODULE_TOKEN_PROJECTION,
    MODULE_TOKEN_HEAD_NORM,
    MODULE_EMBEDDING_NORM,
    MODULE_NORM,
    MODULE_OUTPUT,
    N_MODULES
} Module;

// Which modules have biases.
enum { BIAS_QKV = 1, BIAS_O = 2, BIAS_FFN = 4, BIAS_NORM = 8, BIAS_OUTPUT = 16, BIAS_CONV = 32 };

// How a model knows where a token stands.
typedef enum PositionKind {
    POSITIONS_ROPE,
    POSITIONS_LEARNED,
    POSITIONS_ALIBI,
    POSITIONS_OF_STATES, // by the order in which states take tokens in: nothing attends
} PositionKind;

typedef struct Key {
    const char *hf;   // of config.json, NULL: none
    const char *gguf; // without "llama.", NULL: none; with a leading dot it is a whole key (".general.name")
} Key;

// A number, switch or word of which palaver has code for one value only; absent and null mean that value.
typedef struct Fixed {
    const char *object; // of config.json that holds the key; NULL: the outermost
    Key key;            // no name: the end of a list
    double value;       // of switches 0 or 1
    const char *other;  // what other values mean
    const char *word;   // instead of a number; NULL: none
} Fixed;

// Numbers that multiply or cap something, each under a key of its own. 0: the architecture has no such key; NAN: it has,
// and none is meant where the file is silent; else what is meant then (in GGUF what follows from the shape).
typedef struct Scales {
    double query;               // query_pre_attn_scalar: scores are multiplied by the inverse of its root
    double attention;           // attention_multiplier: scores are multiplied by it
    double normed_queries;      // qk_scale_factor: queries behind their norm are, in GGUF by its weights
    double embedding, residual; // embedding_multiplier, residual_multiplier
    double logits, logits_over; // logit_scale; logits_scaling, which divides
    double attention_cap, logit_cap;
    double depth; // scale_depth: residuals are multiplied by it over the root of the number of layers
    double width; // dim_model_base: logits are divided by the hidden size over it
} Scales;

// Where a layer's experts lie in a file: of each by itself, with its number in the name, or all in one. NULL: not so.
typedef struct ExpertNames {
    const char *router;           // with ".weight", perhaps ".bias", behind it
    const char *choice_bias;      // a whole name
    const char *gate, *up, *down; // of expert %d
    const char *gate_up,
        *all_down; // whole names: [n, 2·size, hidden_size], gates first, [n, hidden_size, size]
    // The two are [n, hidden_size, 2·size], each gate beside its up, or with `halves` all gates before all ups, and
    // [n, size, hidden_size]; "_bias" behind their names are biases.
    bool transposed, halves;
    bool either_way; // transposed or not, as their sizes say
} ExpertNames;

// Which layers have experts, as config.json says.
typedef enum ExpertLayers {
    EXPERTS_IN_ALL,
    EXPERTS_SPARSE,       // by mlp_only_layers and decoder_sparse_step
    EXPERTS_BEHIND_DENSE, // from first_k_dense_replace on
    EXPERTS_BY_TYPES,     // those that mlp_layer_types calls sparse, else as EXPERTS_BEHIND_DENSE
    EXPERTS_WITHIN,       // from moe_layer_start_index to moe_layer_end_index, every moe_layer_interval-th
    EXPERTS_LISTED,       // those of moe_layers, else every interleave_moe_layer_step-th
    EXPERTS_ALONE,        // those that are experts alone (Architecture.one_part), if any is
} ExpertLayers;

// Sizes of latent attention (ops.h, Latent), where config.json does not say them. rank 0: none.
typedef struct LatentSizes {
    int64_t rank, q_rank, plain_dim, rotary_dim, value_dim;
} LatentSizes;

// The mixture of experts of an architecture.
typedef struct ExpertRules {
    bool there;
    ExpertNames names[2]; // in a Hugging Face folder, of yesterday and of today
    int n, n_active;      // where config.json does not say how many there are, and how many a token takes
    const char *size, *shared_size; // keys of config.json; size NULL: intermediate_size
    // Of the expert that every token takes, in a Hugging Face folder: gate (NULL: before up, in one), up, down, and its router,
    // if it has one.
    const char *shared[4];
    const char *shared_count; // instead of its size: how many of the others it is as large as
    bool shared_alike;        // it is as large as one of them
    // Experts beside a dense part (ops.h, Experts.beside), which is `shared`: whole names of the router's norm, the experts',
    // that of what the dense part gives, of what the experts give, and of the numbers that multiply their weights.
    const char *beside[5];
    ExpertLayers layers;
    int dense; // of either of these, layers before those with experts where config.json does not say
    bool scale_key, groups; // routed_scaling_factor means something; n_group and topk_group do
    double scale;           // without that key; 0: 1
    bool groups_named;      // the latter two only where topk_method says so
    RouterScore score;
    double jitter; // of SparseMixer; without router_jitter_noise, which says it
    bool scales_input;
    bool renormalise;      // without a key, or where it is absent
    bool renormalise_key;  // norm_topk_prob means something
    bool renormalise_many; // but not where a token takes one expert
    bool guarded;          // Experts.guarded
    bool ungated;          // neither they nor the shared one have gates
    bool gguf_renormalise; // GGUF's converter leaves unsaid what a model of this kind does
} ExpertRules;

// What a file's numbers leave unsaid. The defaults are those of transformers' configuration classes.
typedef struct Architecture {
    const char *name; // model_type of config.json
    // model_type of a config.json whose text_config is of this architecture, beside parts that do not write text; NULL:
    // none.
    const char *whole;
    bool
        parts_beside; // its config.json has the numbers of such parts beside those of text, without a text_config
    // Several rows may be of one name: the first whose conditions hold is meant. In config.json values of keys, absent ones
    // being 0, a key that is there, and one that is not; in GGUF a tensor that is there; NULL: no condition.
    struct {
        const char *key;
        double value;
    } when[2];
    const char *with_key, *without_key, *when_tensor;
    const char *with_meta; // the same of a key of GGUF, without the architecture before it
    int64_t when_layers;   // the number of layers in GGUF, where nothing else tells; 0: any
    // Of transformers without its end, where it does not follow from the name; other classes as a whole: is_class_of().
    const char *class_name, *other_classes[2];
    const char *gguf; // general.architecture of GGUF; NULL: palaver reads it from Hugging Face folders only
    // Names of weights in a Hugging Face folder: base, which files saved without the head leave out; layer, behind
    // it; and modules, NULL where there are none. The head's own matrix stands outside of the base.
    const char *base, *layer;
    const char *modules[N_MODULES];
    // Its files have layers behind the last that predict further tokens: their tensors are left alone. Of a Hugging Face
    // folder how their names begin, where it is not with the number of such a layer.
    bool predicts_further;
    const char *further;
    const char *sinks;                   // name of a layer's learned attention sinks; NULL: there are none
    const char *gguf_modules[N_MODULES]; // where GGUF's names are not those of all; NULL: they are
    struct {
        const char *usual, *own; // key of config.json: as LLaMA has it, as this architecture has it
        bool both;               // the class takes either, or shapes of weights prove it; else its own alone
    } aliases[12];               // those that differ; NULL ends them
    Fixed fixed[16];
    const char *ignored[40]; // keys of config.json that its class takes and that weights or nothing decide
    const char *ignored_rope[2]; // the same within rope_scaling and rope_parameters
    const char *ignored_gguf[5]; // the same of GGUF's keys
    // How names of tensors end that are no weights: masks that old files were saved with.
    const char *buffers[3];
    // A Hugging Face file's MODULE_QKV: q, k, v of head 0, of head 1, …; the queries that share a key, and key and value,
    // again and again; else all q, all k, all v.
    bool qkv_by_head, qkv_by_group;
    bool transposed; // a Hugging Face file's matrices of layers are [in, out]

    unsigned biases; // BIAS_…
    // Those that config.json decides: BIAS_QKV (and O) by attention_bias, BIAS_FFN by mlp_bias.
    unsigned bias_keys;
    bool parallel_key; // use_parallel_residual means something
    bool gelu_is_tanh; // config.json's "gelu" means the approximation
    bool
        seen_both_ways; // what stands before a text's first bos_token_id, and positions go by both sides of it
    bool deep_norm;   // residuals are normed, times the root of twice the number of layers (arXiv:2203.00555)
    bool one_kv_head; // whatever config.json says of them
    bool head_gates;  // MODULE_ATTN_GATE has a row a head
    int default_taps; // of a convolution; 0: 3
    bool convolves;   // layers may: those that layer_types calls "conv", in GGUF those without KV heads
    // Layers may recur: those that layer_types calls "linear_attention", else all but every full_attention_interval-th.
    bool recurs;
    // They are state spaces (DeltaRule.adds): those that layer_types calls "mamba" or "linear_attention", all without it; in
    // GGUF those without KV heads.
    bool state_space;
    // Sizes of a state space where config.json does not say them. value_dim 0: heads of values have together the hidden size
    // times mamba_expand, or so many elements as mamba_d_ssm says; else a size of their own.
    DeltaRule usual_space;
    // Every layer is a state space alone (Mamba 2), with a size of heads of its own that is to fit mamba_expand as well, and
    // perhaps biases, as mamba_proj_bias says. Files do not say how many heads attend and how wide a feed-forward part is; GGUF
    // files say 0.
    bool spaces_alone;
    double
        least_step; // time_step_min of config.json is DeltaRule.least_step, and this without it; 0: there is none
    bool
        one_part; // each layer is one part alone: attention, what stands in its place, or a feed-forward part
    // A layer of files is two of ours beside each other: a state space, and attention with the feed-forward part. Their norm of the
    // state is there where mamba_rms_norm says so, in GGUF where it is.
    bool paired;
    bool gguf_keys_alternate; // DeltaRule.keys_alternate, in GGUF
    bool query_gates;  // each head's rows of MODULE_Q are followed by those of a gate of what attention gives
    bool ffn_adjusted; // config.json's intermediate size is what Lfm2MLP makes its own of
    bool ffn_halved;   // files tell the feed-forward part's two sizes together
    bool gguf_gate_apart; // GGUF files have the two of MODULE_GATE_UP one by one
    bool rope_ratio;      // rope_ratio multiplies the base
    bool turns_back;      // pairs turn by the negative of an angle
    bool norms_turned;    // norms of queries and keys come after RoPE
    bool rope_alpha;      // "dynamic" with an alpha: a base that is multiplied once and for all
    bool temperature; // queries are sharper far into a text: llama_4_scaling_beta beside the rope's numbers
    bool temperature_unturned; // the same of layers that turn nothing, by attn_scale and floor_scale
    int normed_vocab;    // a vocabulary of this size: every row of the head's matrix is divided by its length
    bool normed_columns; // norm_head says whether its columns are
    bool fixed_act;      // the class has one activation, and no key for it
    bool head_dim_told;  // a head_dim of null is none, as the class has no such key of its own
    bool fixed_eps;      // the same of the norm's epsilon
    bool longrope_alone; // rope scaling is LongRoPE, which has names of its own in older files
    bool longrope_mscale; // its magnitude is what short_mscale and long_mscale say
    bool partial_rotary;  // partial_rotary_factor means something
    bool qk_norm, parallel_residual, default_tied;
    bool qk_norm_key; // use_qk_norm says whether there is one; in GGUF its tensor
    // It is a layer norm of each head with weights of its own, of one tensor, or of one for each head ("norms.%d").
    bool head_layer_norms;
    bool
        heads_by_window; // layers without a window have other heads, and the last ones may borrow keys and values
    bool unit_scores; // scores are not scaled
    bool value_norm;  // heads of values are divided by their root mean square
    // A layer's numbers of xIELU, where hidden_act says it: "alpha_p", "alpha_n", "beta" and "eps" behind this name. NULL:
    // the architecture has it not.
    const char *xielu;
    const char *x_scale; // name of a number of each layer that multiplies x at its end; NULL: there is none
    UnitNorms unit_norms;
    bool plain_norms;         // those of layers and the last have no weights
    bool embedding_unit_norm; // embeddings are divided by their root mean square
    bool last_norm_whole;     // offset_norms is not of the last one
    double post_norm_eps;     // of norms behind parts (post_norm_eps); 0: that of all
    int gguf_no_unit_norm;    // in GGUF not of models of so many experts
    bool qk_norm_rows;        // qk_norm is of all heads of a token as one row
    bool offset_norms;        // config.json's weights of norms are less by 1 (GGUF's converter adds it)
    NormKind norm;
    double norm_eps;
    Activation activation;
    PositionKind positions;
    bool scaled_alibi;           // ALiBi's distances are taken before scores are scaled
    int position_offset;         // rows of learned positions before the first
    RopeKind hf_rope, gguf_rope; // GGUF's converter permutes LLaMA's Q and K to interleaved pairs
    WindowRule window_rule;
    int window_period;  // of WINDOW_PERIODIC
    bool period_key;    // in config.json sliding_window_pattern may say another one
    bool window_behind; // the first layer of a period has none, not the last
    bool
        periods_from_last; // periods are counted from the last layer backwards, and say as well which layers turn
    // WINDOW_UPPER_LAYERS without use_sliding_window, from this layer on where max_window_layers is absent; 0: only with it.
    int unasked_window_layers;
    RopeRule rope_rule;
    SectionRule sections;
    int default_sections; // pairs of SECTIONS_IN_BLOCKS together, where config.json has no mrope_section
    bool rotary_dim_key;  // files may say the part that turns in elements (rotary_dim)
    bool unscaled_whole;  // without a scheme whole heads turn, whatever part is said
    bool
        ropes_of_kinds; // its class means ropes of two kinds of layers without rope_parameters, whatever stands outside
    double default_base, default_window_base; // of the rope, and of ROPE_BY_WINDOW; 0: 10000, and the same
    Scales scales;
    bool logits_capped;             // always: final_logit_softcapping may not be null
    bool embedding_root;            // embeddings are multiplied by the root of the hidden size
    const char *embedding_root_key; // in config.json only where this says so; NULL: always
    int gguf_wide_layers; // of so many layers, GGUF's scores go by hidden size / heads instead of the head size
    bool windows_alike;   // of every layer, whatever layer_types says
    int64_t default_context, default_window, default_chunk;
    bool context_ends; // palaver has no code for what is computed beyond it
    int64_t
        default_head_dim; // of config.json without the key; 0, as in GGUF or if it is null: hidden_size / n_heads
    int64_t default_rotary_dim; // 0: the rotary part decides
    double default_rotary_part; // 0: the whole head
    double
        default_proportional; // this part of a head's pairs turns, where config.json has no rope_parameters; 0: all
    // YaRN by this factor, from so many tokens on, its borders not rounded, where config.json says nothing of rope
    // scaling; 0: none.
    double default_yarn;
    // The same by LLaMA 3's scheme, its borders at 1 and 4 turns, with the default base, which programs take alike only where
    // config.json has no rope_theta, or that one, and no empty rope_scaling; 0: none.
    double default_llama3;
    int64_t default_original; // of either
    bool gguf_yarn_whole;     // of a GGUF file YaRN's borders are not rounded, as config.json's truncate says
    // GGUF files leave unsaid the scales, which are the defaults, and from which context on LongRoPE's longer factors hold, which
    // is all of it.
    bool gguf_silent;
    LatentSizes latent;  // value_dim 0: hidden size / heads
    bool interleave_key; // rope_interleave means something
    ExpertRules experts;
    int ffn_ratio; // intermediate size to hidden size where files need not say; 0: they do
} Architecture;

#endif
