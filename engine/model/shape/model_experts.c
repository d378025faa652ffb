// Mixtures of experts: where the weights of each expert lie.
#include "engine/model/model_internal.h"
#include "engine/model/config/unread.h"
#include "kernels/cpu/loops/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What config.json says of a layer must be what its tensors show.
static Status check_layer(const ParamSource *source, int layer, bool there, Error *error) {
    if (model_expects_experts(source, layer) == there) return STATUS_OK;
    return error_set(error, STATUS_FILE,
                     "%s: layer %d has %s router, where a %s model's config says otherwise", source->path,
                     layer, there ? "a" : "no", source->architecture->name);
}

// As llama.cpp's converter writes them; of Mixtral's first files each expert's by itself.
static const ExpertNames GGUF_NAMES[] = {{.router = "ffn_gate_inp",
                                          .choice_bias = "exp_probs_b.bias",
                                          .gate = "ffn_gate.%d.weight",
                                          .up = "ffn_up.%d.weight",
                                          .down = "ffn_down.%d.weight"}};

enum { NAME_SIZE = 160, GATES = 0, UPS = 1, DOWNS = 2 };
static const int BOTH[] = {GATES, UPS};

typedef struct ExpertReader {
    Model *model;
    const ParamSource *source;
    int layer;
    const ExpertNames *names;
    LayerWeights *to;
    const void **rows[3]; // of this layer
} ExpertReader;

static const CheckpointTensor *find(const ExpertReader *r, const char *stem, const char *end) {
    return model_find_of_layer(r->source, r->layer, stem, end);
}

static const CheckpointTensor *find_expert(const ExpertReader *r, const char *pattern, int expert) {
    char stem[NAME_SIZE];
    // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the table's own "experts.%d.w1"
    snprintf(stem, sizeof stem, pattern, expert);
    return find(r, stem, "");
}

static Status missing(const ExpertReader *r, const char *stem, Error *error) {
    return error_set(error, STATUS_FILE,
                     "%s: layer %d: tensor %s is missing: the model is incomplete, or no %s model",
                     checkpoint_path(r->model->checkpoint), r->layer, stem, r->model->architecture);
}

static Status missing_expert(const ExpertReader *r, const char *pattern, int expert, Error *error) {
    char stem[NAME_SIZE];
    // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the table's own "experts.%d.w1"
    snprintf(stem, sizeof stem, pattern, expert);
    return missing(r, stem, error);
}

static Matrix *place_of(const ExpertReader *r, int kind) {
    return kind == GATES ? &r->to->w_gate : kind == UPS ? &r->to->w_up : &r->to->w_down;
}

static int64_t rows_of(const ExpertReader *r, int kind) {
    return kind == DOWNS ? r->model->shape.hidden_size : r->model->shape.experts.size;
}

static int64_t cols_of(const ExpertReader *r, int kind) {
    return kind == DOWNS ? r->model->shape.experts.size : r->model->shape.hidden_size;
}

// One tensor for each expert: all of one type.
static Status take_each(const ExpertReader *r, int kind, const char *pattern, Error *error) {
    const int n = r->model->shape.experts.n;
    Matrix *all = place_of(r, kind);
    for (int e = 0; e < n; e++) {
        const CheckpointTensor *tensor = find_expert(r, pattern, e);
        if (!tensor) return missing_expert(r, pattern, e, error);
        Matrix one;
        Status status =
            model_take_tensor(r->model, r->source, tensor, rows_of(r, kind), cols_of(r, kind), &one, error);
        if (status) return status;
        if (e > 0 && one.type != all->type)
            return error_set(error, STATUS_UNSUPPORTED, "%s: %s is %s, that of expert 0 is %s",
                             checkpoint_path(r->model->checkpoint), tensor->name, dtype_name(one.type),
                             dtype_name(all->type));
        r->rows[kind][e] = one.data;
        const float scale = e > 0 && all->input_scale > one.input_scale ? all->input_scale : one.input_scale;
        *all = (Matrix){.type = one.type,
                        .rows = n * one.rows,
                        .cols = one.cols,
                        .data = r->rows[kind][0],
                        .pieces = r->rows[kind],
                        .n_pieces = n,
                        .input_scale = scale};
    }
    return STATUS_OK;
}

// One tensor [n, rows, cols] for all, of which `kinds` lie in each expert one below the other.
static Status take_stacked(const ExpertReader *r, const CheckpointTensor *tensor, const int *kinds,
                           int n_kinds, Error *error) {
    const int64_t n = r->model->shape.experts.n, rows = rows_of(r, kinds[0]), cols = cols_of(r, kinds[0]);
    CheckpointTensor flat = *tensor;
    Matrix all;
    if (tensor->n_dims == 3 && tensor->shape[0] == n && tensor->shape[1] == n_kinds * rows) {
        flat.n_dims = 2;
        flat.shape[0] = n * n_kinds * rows, flat.shape[1] = tensor->shape[2];
    }
    Status status = model_take_tensor(r->model, r->source, &flat, n * n_kinds * rows, cols, &all, error);
    if (status) return status;
    const int64_t bytes = rows * dtype_row_bytes(all.type, cols);
    for (int64_t e = 0; e < n; e++)
        for (int k = 0; k < n_kinds; k++)
            r->rows[kinds[k]][e] = (const char *)all.data + (e * n_kinds + k) * bytes;
    for (int k = 0; k < n_kinds; k++)
        *place_of(r, kinds[k]) = (Matrix){.type = all.type,
                                          .rows = n * rows,
                                          .cols = cols,
                                          .data = r->rows[kinds[k]][0],
                                          .pieces = r->rows[kinds[k]],
                                          .n_pieces = (int)n};
    return STATUS_OK;
}

static Status take_gguf(const ExpertReader *r, Error *error) {
    static const char *const STACKED[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    const char *const each[] = {r->names->gate, r->names->up, r->names->down};
    const Experts *e = &r->model->shape.experts;
    Matrix *biases[] = {&r->to->b_gate, &r->to->b_up, &r->to->b_down};
    const bool ungated = r->source->architecture->experts.ungated;
    const CheckpointTensor *both = ungated ? NULL : find(r, "ffn_gate_up_exps", ".weight");
    Status status = both ? take_stacked(r, both, BOTH, 2, error) : STATUS_OK;
    for (int kind = both ? DOWNS : ungated ? UPS : GATES; kind <= DOWNS && !status; kind++) {
        const CheckpointTensor *all = find(r, STACKED[kind], ".weight");
        status = all ? take_stacked(r, all, &kind, 1, error) : take_each(r, kind, each[kind], error);
        if (!status)
            status = model_take_vector(r->model, r->source, find(r, STACKED[kind], ".bias"),
                                       e->n * rows_of(r, kind), biases[kind], error);
    }
    return status;
}

static Status take_folder(const ExpertReader *r, Error *error) {
    static const int LAST[] = {DOWNS};
    const ExpertNames *names = r->names;
    if (names->gate_up) {
        const CheckpointTensor *gate_up = find(r, names->gate_up, ""), *down = find(r, names->all_down, "");
        if (!gate_up || !down) return missing(r, gate_up ? names->all_down : names->gate_up, error);
        const TransposedExperts all = {gate_up, find(r, names->gate_up, "_bias"), down,
                                       find(r, names->all_down, "_bias"), names->halves};
        const int64_t hidden = r->model->shape.hidden_size, wide = 2 * (int64_t)r->model->shape.experts.size;
        const bool lies = names->either_way && gate_up->n_dims == 3 && gate_up->shape[2] == hidden;
        if (lies && hidden == wide)
            return error_set(
                error, STATUS_UNSUPPORTED,
                "%s: %s is as wide as it is high, and may be transposed or not: palaver cannot tell",
                r->source->path, gate_up->name);
        const bool in_order = lies || (gate_up->method && down->method); // quantised ones are made so
        if (names->transposed && !in_order)
            return model_turn_experts(r->model, r->source, r->layer, &all, error);
        Status status = take_stacked(r, gate_up, BOTH, 2, error);
        if (!status) status = take_stacked(r, down, LAST, 1, error);
        if (!status && names->transposed)
            status = model_turn_biases(r->model, r->source, r->layer, &all, error);
        return status;
    }
    Status status = names->gate ? take_each(r, GATES, names->gate, error) : STATUS_OK;
    if (!status) status = take_each(r, UPS, names->up, error);
    return status ? status : take_each(r, DOWNS, names->down, error);
}

// The two in one, the gate first.
static Status take_shared_gate_up(const ExpertReader *r, const char *name, Error *error) {
    const int64_t wide = r->model->shape.experts.shared_size, hidden = r->model->shape.hidden_size;
    const CheckpointTensor *tensor = find(r, name, ".weight");
    if (!tensor) return missing(r, name, error);
    Status status =
        model_take_tensor(r->model, r->source, tensor, 2 * wide, hidden, &r->to->shared_up, error);
    r->to->shared_gate = model_take_first(&r->to->shared_up, wide);
    return status;
}

// The expert that every token takes; its router is a row, of GGUF a vector.
static Status take_shared(const ExpertReader *r, Error *error) {
    static const char *const GGUF[] = {"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp",
                                       "ffn_gate_inp_shexp"},
                             *const DENSE[] = {"ffn_gate", "ffn_up", "ffn_down", NULL};
    const ExpertRules *rules = &r->source->architecture->experts;
    const char *const *names = r->source->config ? rules->shared : rules->beside[0] ? DENSE : GGUF;
    Matrix *parts[] = {&r->to->shared_gate, &r->to->shared_up, &r->to->shared_down};
    const int64_t wide = r->model->shape.experts.shared_size, hidden = r->model->shape.hidden_size;
    const bool in_one = !rules->ungated && !names[GATES];
    Status status = in_one ? take_shared_gate_up(r, names[UPS], error) : STATUS_OK;
    for (int i = in_one ? DOWNS : rules->ungated ? UPS : GATES; i <= DOWNS && !status; i++) {
        const CheckpointTensor *tensor = find(r, names[i], ".weight");
        if (!tensor) return missing(r, names[i], error);
        status = model_take_tensor(r->model, r->source, tensor, i == DOWNS ? hidden : wide,
                                   i == DOWNS ? wide : hidden, parts[i], error);
    }
    if (status || !rules->shared[3]) return status;
    const CheckpointTensor *tensor = find(r, names[3], ".weight");
    return tensor ? model_take_vector(r->model, r->source, tensor, hidden, &r->to->shared_router, error)
                  : missing(r, names[3], error);
}

// What experts beside a dense part have more.
static Status take_beside(const ExpertReader *r, Error *error) {
    static const char *const GGUF[] = {"ffn_gate_inp.scale", "pre_ffw_norm_2.weight",
                                       "post_ffw_norm_1.weight", "post_ffw_norm_2.weight",
                                       "ffn_down_exps.scale"};
    const bool there = r->source->architecture->experts.beside[0] != NULL;
    const char *const *names = r->source->config ? r->source->architecture->experts.beside : GGUF;
    Matrix *parts[] = {&r->to->router_norm, &r->to->expert_norm, &r->to->shared_post_norm,
                       &r->to->expert_post_norm, &r->to->expert_scale};
    Status status = STATUS_OK;
    for (int i = 0; i < 5 && there && !status; i++) {
        const CheckpointTensor *tensor = find(r, names[i], "");
        if (!tensor) return missing(r, names[i], error);
        status = model_take_vector(r->model, r->source, tensor,
                                   i == 4 ? r->model->shape.experts.n : r->model->shape.hidden_size, parts[i],
                                   error);
    }
    return status;
}

// The names by which the file has them: those of the first experts that are there, else the first.
static const ExpertNames *names_of(ExpertReader *r) {
    if (!r->source->config) return GGUF_NAMES;
    const ExpertNames *names = r->source->architecture->experts.names;
    for (int i = 0; i < 2 && names[i].router; i++) {
        if (names[i].gate_up ? find(r, names[i].gate_up, "") != NULL : find_expert(r, names[i].up, 0) != NULL)
            return &names[i];
    }
    return names;
}

Status model_take_experts(Model *model, const ParamSource *source, int layer, bool *there, Error *error) {
    const Experts *e = &model->shape.experts;
    *there = false;
    if (e->n == 0) return STATUS_OK;
    ExpertReader r = {.model = model, .source = source, .layer = layer, .to = &model->layers[layer]};
    for (int kind = 0; kind < 3; kind++)
        r.rows[kind] = model->expert_rows + ((int64_t)layer * 3 + kind) * e->n;
    r.names = names_of(&r);
    const CheckpointTensor *router = find(&r, r.names->router, ".weight");
    *there = router != NULL;
    Status status = check_layer(source, layer, *there, error);
    if (status || !*there) return status;
    status = model_take_tensor(model, source, router, e->n, model->shape.hidden_size, &r.to->router, error);
    if (!status)
        status = model_take_vector(model, source, find(&r, r.names->router, ".bias"), e->n,
                                   &r.to->router_bias, error);
    if (!status && r.names->choice_bias)
        status = model_take_vector(model, source, find(&r, r.names->choice_bias, ""), e->n,
                                   &r.to->choice_bias, error);
    if (!status) status = source->config ? take_folder(&r, error) : take_gguf(&r, error);
    if (!status && e->shared_size > 0) status = take_shared(&r, error);
    if (!status) status = take_beside(&r, error);
    return status;
}

Status model_take_sinks(Model *model, const ParamSource *source, int layer, Error *error) {
    const Architecture *a = source->architecture;
    const DecoderShape *s = &model->shape;
    const ExpertReader r = {.model = model, .source = source, .layer = layer};
    Matrix sinks;
    if (!a->sinks) return STATUS_OK;
    const CheckpointTensor *tensor =
        source->config ? find(&r, a->sinks, "") : find(&r, "attn_sinks", ".weight");
    if (!tensor) return missing(&r, a->sinks, error);
    Status status = model_take_tensor(model, source, tensor, 0, s->n_heads, &sinks, error);
    if (status) return status;
    if (!model->sink_scores)
        model->sink_scores = calloc((size_t)s->n_layers * (size_t)s->n_heads, sizeof *model->sink_scores);
    if (!model->sink_scores) return error_set(error, STATUS_MEMORY, "no memory for attention sinks");
    quant_load(sinks.type, sinks.data, 0, s->n_heads, model->sink_scores + (int64_t)layer * s->n_heads);
    model->shape.sink_scores = model->sink_scores;
    return STATUS_OK;
}

Status model_hold_experts(Model *model, Error *error) {
    const DecoderShape *s = &model->shape;
    if (s->experts.n == 0) return STATUS_OK;
    model->expert_rows = calloc((size_t)s->n_layers * 3 * (size_t)s->experts.n, sizeof *model->expert_rows);
    return model->expert_rows ? STATUS_OK
                              : error_set(error, STATUS_MEMORY, "no memory for %d experts", s->experts.n);
}
