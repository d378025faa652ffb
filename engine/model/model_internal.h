// What model.c puts together, part by part.
#ifndef PALAVER_ENGINE_MODEL_INTERNAL_H
#define PALAVER_ENGINE_MODEL_INTERNAL_H

#include "engine/model/model.h"
#include "engine/model/config/source.h"

// Names of modules in GGUF files, without ".weight" or ".bias"; those of layers stand behind "blk.N.".
extern const char *const GGUF_MODULES[N_MODULES];

// Everything but the weights: the parts below, one after the other.
Status model_read_params(Model *model, ParamSource *source, Error *error);

// Every row of the table, one after the other; NULL behind the last.
const Architecture *model_architecture_at(int i);
// source->architecture.
Status model_find_architecture(ParamSource *source, Error *error);
// Sizes, norm, activation and biases into model->shape and its neighbours; checked against each other.
Status model_read_shape(Model *model, const ParamSource *source, Error *error);
// Its sizes, checked against each other; the first of these.
Status model_read_sizes(Model *model, const ParamSource *source, Error *error);
// What its files must not ask for; once sizes are known.
Status model_check_refusals(const DecoderShape *shape, const ParamSource *source, Error *error);
// What the files call a size of the shape, whose key in LLaMA's config.json is `key`; in GGUF without the architecture before
// it.
const char *model_size_key(const ParamSource *source, const char *key);
// Where a model has as many heads for keys as for queries, and its files say otherwise.
Status model_refuse_kv_heads(const DecoderShape *shape, const ParamSource *source, Error *error);
// shape.latent and the cache's one row, of an architecture that has one; before the shape's heads are checked.
Status model_read_latent(Model *model, const ParamSource *source, Error *error);
// What YaRN does to the scores of such; once the scheme is known, before frequencies are made.
struct RopeSpec;
Status model_scale_latent(Model *model, const ParamSource *source, struct RopeSpec *spec, Error *error);
// context_length, and what positions are told by: model->shape.rope, inv_freq and scaling, or n_positions; after the
// shape.
Status model_read_positions(Model *model, const ParamSource *source, Error *error);
// Gives the rope so many tables of so many sets, the only way to change either number: a row that was there comes
// to its new place; one that was not begins as a copy of its table's first, or of the last table's: each is written.
Status model_make_rows(Model *model, int n_tables, int n_sets, Error *error);
// The first table's sets, by the scheme; after rope's size and the context.
Status model_make_sets(Model *model, const struct RopeSpec *spec, const ParamSource *source, Error *error);
// Its halves' frequencies are those of heads of half the size, in 16 bits.
Status model_make_two_dimensional(Model *model, const ParamSource *source, Error *error);
// That rope.dimension_sections leaves no pair without a position; after the rope's size.
Status model_check_sections(const Model *model, const ParamSource *source, Error *error);
// How far beyond the trained context dynamic NTK may have sets.
int64_t model_dynamic_reach(const Model *model);
// shape.temperature_…: it grows with the trained contexts that a position is away from the beginning.
Status model_read_temperature(Model *model, const struct RopeSpec *spec, const ParamSource *source,
                              Error *error);
Status model_read_windows(Model *model, const ParamSource *source, Error *error);
// How long a window is, at least `least`; *window holds the default.
Status model_read_window_length(const ParamSource *source, int least, int64_t *window, Error *error);
// model->layer_ropes and shape.rope.of_layers; after positions and windows.
Status model_read_layer_ropes(Model *model, const ParamSource *source, Error *error);
// What multiplies or caps embeddings, residuals, scores and logits; after sizes and norms.
Status model_read_scales(Model *model, const ParamSource *source, Error *error);
// model->multipliers, and what of them goes into *residual and the scale of scores, which is known; in model_read_scales().
Status model_read_multipliers(Model *model, const ParamSource *source, double *residual, Error *error);
// Multiplies a layer's weights by them, if there are any.
Status model_multiply_layer(Model *model, int layer, Error *error);
// Whether a key of GGUF is one of the architecture's scales.
bool model_scales_have(const Architecture *architecture, const char *gguf);
// Special ids and sampling defaults; after the shape, for ids are checked against vocab_size.
Status model_read_generation(Model *model, const ParamSource *source, Error *error);
// Tensors that repeat what config.json says say the same.
Status model_check_buffers(const Model *model, const ParamSource *source, Error *error);
// layers, head, n_parameters, weight_bytes.
Status model_read_weights(Model *model, const ParamSource *source, Error *error);

// shape.experts; after the shape. STATUS_UNSUPPORTED: experts where the architecture has none.
Status model_read_experts(Model *model, const ParamSource *source, Error *error);
// Whether config.json says that a layer has experts.
bool model_expects_experts(const ParamSource *source, int layer);
// The experts of a layer of which the file has some; *there: it does.
Status model_take_experts(Model *model, const ParamSource *source, int layer, bool *there, Error *error);
// Memory for that, once for all layers.
Status model_hold_experts(Model *model, Error *error);
// The matrices that expand a layer's latent, as files have them: in one, of each head first the rows of keys, or apart.
typedef struct LatentTensors {
    const CheckpointTensor *both;  // [n_heads*(plain_dim + value_dim), rank]; NULL: apart
    const CheckpointTensor *k, *v; // [n_heads, rank, plain_dim], [n_heads, value_dim, rank]
} LatentTensors;
// k_up and v_up, in memory of the model's where they are not so in the file.
Status model_take_latent(Model *model, const ParamSource *source, int layer, const LatentTensors *from,
                         Error *error);
// Where heads differ by layer: global_head_dim and token_size, after the shape; the rest after the windows.
Status model_read_global_head(Model *model, const ParamSource *source, Error *error);
Status model_read_layer_heads(Model *model, const ParamSource *source, Error *error);
// Of a GGUF file how many KV heads each layer has: none in those that do not attend. heads [n_layers].
Status model_find_headless(const Model *model, const ParamSource *source, LayerHeads *heads, Error *error);
// Layers that convolve: how wide the feed-forward part is beside them, after the sizes; which they are, after the windows;
// and a layer's taps, and its matrix apart that was read into wk.
Status model_adjust_ffn(Model *model, const ParamSource *source, Error *error);
Status model_read_convolution(Model *model, const ParamSource *source, Error *error);
Status model_take_convolution(Model *model, const ParamSource *source, int layer, Error *error);
// Layers that recur: which they are, and shape.delta, after the rope; and all of such a layer's weights but its norms and
// feed-forward part.
Status model_read_delta(Model *model, const ParamSource *source, Error *error);
Status model_take_delta(Model *model, const ParamSource *source, int layer, Error *error);
// Of an architecture whose layers are one part alone (Architecture.one_part): which part a layer is.
typedef enum LayerOfOne { PART_UNKNOWN, PART_RECURS, PART_ATTENDS, PART_DENSE, PART_EXPERTS } LayerOfOne;
LayerOfOne model_part_of(const ParamSource *source, int layer);
bool model_has_part(const ParamSource *source, int n_layers, LayerOfOne part);
// Of how many layers config.json says it, under which key.
int64_t model_count_parts(const ParamSource *source);
const char *model_parts_key(const ParamSource *source);
void model_take_parts(const ParamSource *source); // which are then no longer unread
// heads [n_layers]: which recur, and which part each lacks.
Status model_read_parts(const Model *model, const ParamSource *source, LayerHeads *heads, Error *error);
// Norms of heads that are apart, and norms without weights: model->unit_norm, after the experts; those of the model, and of a
// layer.
Status model_read_unit_norm(Model *model, const ParamSource *source, Error *error);
void model_set_unit_norms(Model *model, const ParamSource *source);
Status model_take_head_norms(Model *model, const ParamSource *source, int layer, Error *error);
// The tensor of a layer whose name is `stem` and `end`, in a Hugging Face folder under any of the names that a whole
// model, one saved without its head, and a part of a larger one have; NULL: there is none.
const CheckpointTensor *model_find_of_layer(const ParamSource *source, int layer, const char *stem,
                                            const char *end);
// The tensor of a module, "weight" or "bias", under any of these names; layer -1: of the whole model. NULL: there is
// none.
const CheckpointTensor *model_find_tensor(const ParamSource *source, Module module, int layer,
                                          const char *kind);
// STATUS_FILE: it is missing.
Status model_missing_tensor(const Model *model, const ParamSource *source, Module module, int layer,
                            const char *kind, Error *error);
// Weights that files hold otherwise than ops want them. The first `n` rows, or elements of a vector, of what `all`
// holds; `all` keeps the rest.
Matrix model_take_first(Matrix *all, int64_t n);
// A layer's wq and bq, which hold q, k and v, into its matrices of q and kv rows; head by head in memory of the
// model's.
Status model_split_qkv(Model *model, const ParamSource *source, int index, int64_t q, int64_t kv,
                       Error *error);
// A layer's wq and bq, which hold each head's queries and its gate, into those of all queries and attn_gate; in memory of
// the model's.
Status model_split_gates(Model *model, int layer, Error *error);
// Likewise w_gate and b_gate, whose first n rows are the gate's.
void model_split_gate_up(LayerWeights *layer, int64_t n);
// A layer's matrices of attention and of its feed-forward part, which were taken as [in, out], into [out, in]; in memory of the
// model's.
Status model_turn_layer(Model *model, int index, Error *error);
// Divides every row of the output matrix by its length, in memory of the model's and in the file's type, as the model's
// own code does when it first writes.
Status model_norm_head(Model *model, Error *error);
// Likewise every column, as all of the last norm's weights, which is the same.
Status model_norm_columns(Model *model, const ParamSource *source, Error *error);
// A layer's numbers of xIELU, of a shape with it.
Status model_take_xielu(Model *model, const ParamSource *source, int layer, Error *error);
// The learned attention sinks of a layer, where the architecture has them.
Status model_take_sinks(Model *model, const ParamSource *source, int layer, Error *error);

// Experts whose matrices a file has transposed (ExpertNames.transposed), as they come.
typedef struct TransposedExperts {
    const CheckpointTensor *gate_up, *gate_up_bias, *down, *down_bias;
    bool halves; // of matrices without biases
} TransposedExperts;
// Puts them in order, in memory of the model's.
Status model_turn_experts(Model *model, const ParamSource *source, int layer, const TransposedExperts *from,
                          Error *error);
// The same of their biases alone, where the matrices are in order.
Status model_turn_biases(Model *model, const ParamSource *source, int layer, const TransposedExperts *from,
                         Error *error);
// A tensor that is a matrix (rows 0: a vector) of this shape, counted and no longer unread. It may be a copy that
// describes a tensor of the file, which has its name, in other dimensions.
Status model_take_tensor(Model *model, const ParamSource *source, const CheckpointTensor *tensor,
                         int64_t rows, int64_t cols, Matrix *matrix, Error *error);
// One whose dimensions, whatever they are, make a vector of n elements. tensor NULL: nothing is done.
Status model_take_vector(Model *model, const ParamSource *source, const CheckpointTensor *tensor, int64_t n,
                         Matrix *vector, Error *error);

#endif
