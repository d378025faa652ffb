// Multi-head latent attention: its sizes, and the matrices by which heads expand the latent, as ops want them (ops.h,
// Latent).
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/rope_spec.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADS = 1 << 10, MOST_SIZE = 1 << 16, ALIGNMENT = 64 };

// ---- sizes ---------------------------------------------------------------------------------------------

static const Key RANK = {"kv_lora_rank", "attention.kv_lora_rank"},
                 QUERY_RANK = {"q_lora_rank", "attention.q_lora_rank"},
                 TURNED = {"qk_rope_head_dim", "rope.dimension_count"};

// What a head has in a GGUF file, whose other keys go by what is cached: since 2025 the row of all heads, before a head's own.
static const Key KEY_LENGTH = {NULL, "attention.key_length"}, VALUE_LENGTH = {NULL, "attention.value_length"},
                 OWN_KEY_LENGTH = {NULL, "attention.key_length_mla"},
                 OWN_VALUE_LENGTH = {NULL, "attention.value_length_mla"};

static bool has_own_lengths(const ParamSource *source) {
    char text[KEY_SIZE];
    return !source->config && checkpoint_meta(source->checkpoint, source_key(source, OWN_KEY_LENGTH, text));
}

// Keys with what is turned.
static Status read_gguf(const ParamSource *source, LatentSizes *sizes, Error *error) {
    const bool own = has_own_lengths(source);
    sizes->plain_dim = -1;
    Status status = param_integer(source, own ? OWN_KEY_LENGTH : KEY_LENGTH, &sizes->plain_dim, error);
    return status ? status
                  : param_integer(source, own ? OWN_VALUE_LENGTH : VALUE_LENGTH, &sizes->value_dim, error);
}

// The row is the latent and what is turned, its values the latent.
static Status check_gguf_row(const ParamSource *source, const LatentSizes *sizes, Error *error) {
    int64_t key = -1, value = -1;
    if (!has_own_lengths(source)) return STATUS_OK;
    Status status = param_integer(source, KEY_LENGTH, &key, error);
    if (!status) status = param_integer(source, VALUE_LENGTH, &value, error);
    if (status || (key == sizes->rank + sizes->rotary_dim && value == sizes->rank)) return status;
    return error_set(
        error, STATUS_FILE,
        "%s: keys of %lld (%s) and values of %lld (%s) in the cache, for a latent of %lld (%s) and %lld "
        "turned elements (%s)",
        source->path, (long long)key, KEY_LENGTH.gguf, (long long)value, VALUE_LENGTH.gguf,
        (long long)sizes->rank, RANK.gguf, (long long)sizes->rotary_dim, TURNED.gguf);
}

static Status read_sizes(const DecoderShape *shape, const ParamSource *source, LatentSizes *s, Error *error) {
    const bool is_gguf = !source->config, shared = s->value_dim == 0; // among heads
    if (is_gguf) *s = (LatentSizes){.rank = -1, .rotary_dim = -1, .value_dim = -1};
    if (shared) s->value_dim = shape->hidden_size / shape->n_heads;
    Status status = param_integer(source, RANK, &s->rank, error);
    if (!status) status = param_integer(source, QUERY_RANK, &s->q_rank, error);
    if (!is_gguf && json_is_null(json_object_get(source->config, "q_lora_rank"))) s->q_rank = 0;
    if (!status) status = param_integer(source, TURNED, &s->rotary_dim, error);
    if (!status) status = param_integer(source, (Key){"qk_nope_head_dim", NULL}, &s->plain_dim, error);
    if (!status) status = param_integer(source, (Key){"v_head_dim", NULL}, &s->value_dim, error);
    return status || !is_gguf ? status : read_gguf(source, s, error);
}

// The first that is missing, odd or beyond every model is named. Of a GGUF file's keys what is turned is then left out.
static Status check_sizes(const DecoderShape *shape, const ParamSource *source, LatentSizes *s,
                          Error *error) {
    const bool own = has_own_lengths(source);
    const int64_t within = source->config ? 0 : s->rotary_dim; // of what is told of keys
    const struct {
        Key key;
        int64_t value, least, most;
    } sizes[] = {
        {{"num_attention_heads", "attention.head_count"}, shape->n_heads, 1, MOST_HEADS},
        {RANK, s->rank, 1, MOST_SIZE},
        {QUERY_RANK, s->q_rank, 0, MOST_SIZE},
        {TURNED, s->rotary_dim, 2, MOST_SIZE},
        {{"qk_nope_head_dim", own ? OWN_KEY_LENGTH.gguf : KEY_LENGTH.gguf}, s->plain_dim, 1, MOST_SIZE},
        {{"v_head_dim", own ? OWN_VALUE_LENGTH.gguf : VALUE_LENGTH.gguf}, s->value_dim, 1, MOST_SIZE}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[KEY_SIZE];
        const char *key = source_key(source, sizes[i].key, text);
        if (!source->config && sizes[i].value == -1)
            return error_set(error, STATUS_FILE, "%s: %s is missing", source->path, key);
        if (sizes[i].value < sizes[i].least || sizes[i].value > sizes[i].most)
            return error_set(error, STATUS_FILE, "%s: %s is %lld; palaver takes %lld to %lld", source->path,
                             key, (long long)sizes[i].value, (long long)sizes[i].least,
                             (long long)sizes[i].most);
    }
    if (s->rotary_dim % 2 != 0 || s->plain_dim <= within)
        return error_set(error, STATUS_FILE,
                         "%s: %lld turned elements (%s), of keys of %lld (%s): they must be an even number, "
                         "and leave some",
                         source->path, (long long)s->rotary_dim, source_short_key(source, TURNED),
                         (long long)s->plain_dim, source_short_key(source, sizes[4].key));
    s->plain_dim -= within;
    return STATUS_OK;
}

Status model_read_latent(Model *model, const ParamSource *source, Error *error) {
    DecoderShape *shape = &model->shape;
    LatentSizes s = source->architecture->latent;
    Status status = read_sizes(shape, source, &s, error);
    if (!status) status = check_sizes(shape, source, &s, error);
    if (!status) status = check_gguf_row(source, &s, error);
    if (status) return status;
    // Files count the heads that keys are expanded to; the newer GGUF files the one row that is cached.
    if (shape->n_kv_heads != 0 && shape->n_kv_heads != shape->n_heads &&
        (source->config || shape->n_kv_heads != 1))
        return model_refuse_kv_heads(shape, source, error);
    if (source->config &&
        !json_object_get(source->config, "num_key_value_heads")) // for the class may mean another number
        return error_set(error, STATUS_FILE, "%s: num_key_value_heads is missing", source->path);
    // transformers' name for what is turned, or for that of which it is a part
    const bool of_whole = source->architecture->partial_rotary;
    const int64_t head = of_whole ? s.plain_dim + s.rotary_dim : s.rotary_dim;
    if (source->config && shape->head_dim != 0 && shape->head_dim != head)
        return error_set(error, STATUS_FILE, "%s: head_dim is %d, but qk_%s_head_dim %lld", source->path,
                         shape->head_dim, of_whole ? "nope_head_dim + qk_rope" : "rope", (long long)head);
    if (source->config && json_is_null(json_object_get(source->config, "num_key_value_heads")))
        return param_refuse_null(source, NULL, "num_key_value_heads", error);
    shape->latent = (Latent){(int)s.rank, (int)s.q_rank, (int)s.plain_dim, (int)s.value_dim, 1e-6f};
    shape->rope.rotary_dim = (int)s.rotary_dim;
    shape->head_dim = (int)(s.rank + s.rotary_dim);
    shape->n_kv_heads = 1;
    return STATUS_OK;
}

// ---- how YaRN sharpens scores --------------------------------------------------------------------------

Status model_scale_latent(Model *model, const ParamSource *source, RopeSpec *spec, Error *error) {
    static const Key PART = {NULL, "rope.scaling.yarn_log_multiplier"};
    double part = 0.1 * spec->mscale_all_dim; // of the factor's logarithm; GGUF's converter multiplies it out
    char text[KEY_SIZE];
    if (model->shape.latent.rank == 0) return STATUS_OK;
    if (!source->config) {
        part = 0;
        Status status = param_number(source, PART, &part, error);
        if (status) return status;
        // Magnitudes of both halves of YaRN cancel each other in all of these models, as llama.cpp takes for granted.
        if (model->rope_scaling == ROPE_SCALING_YARN) spec->attention_factor = 1;
    }
    if (!(part >= 0 && part < 1e3))
        return error_set(error, STATUS_FILE, "%s: rope: %s is %g", source->path,
                         source->config ? "mscale_all_dim" : source_key(source, PART, text),
                         source->config ? spec->mscale_all_dim : part);
    if (model->rope_scaling == ROPE_SCALING_NONE || !(spec->factor > 1)) return STATUS_OK;
    const double sharper = 1 + part * log(spec->factor);
    model->shape.attention_scale = (float)((double)model->shape.attention_scale * sharper * sharper);
    return STATUS_OK;
}

// ---- weights -------------------------------------------------------------------------------------------

// A tensor whose first two of three dimensions are one.
static CheckpointTensor flattened(const CheckpointTensor *tensor) {
    CheckpointTensor flat = *tensor;
    if (flat.n_dims != 3) return flat;
    flat.n_dims = 2;
    flat.shape[0] *= flat.shape[1], flat.shape[1] = flat.shape[2];
    return flat;
}

// Rows of heads, on the way from a file's matrix to one of the model's; transposed: of a head its columns.
typedef struct Expansion {
    const Matrix *from;
    int64_t first, head_rows; // in `from`, of the first head, and from one head to the next
    int64_t rows;             // of a head that are taken
    bool transposed;
    Matrix *to; // type, rows and cols are there, and data is memory to be filled
} Expansion;

static void put_row(DType type, char *to, int64_t at, int64_t step, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++, at += step) {
        if (type == DTYPE_F32)
            ((float *)(void *)to)[at] = x[i];
        else
            ((uint16_t *)(void *)to)[at] = type == DTYPE_F16 ? quant_to_half(x[i]) : quant_to_bfloat(x[i]);
    }
}

static void expand(const Expansion *e, int n_heads, char *to, float *row) {
    const Matrix *from = e->from;
    const int64_t bytes = dtype_row_bytes(from->type, from->cols);
    for (int64_t head = 0; head < n_heads; head++)
        for (int64_t r = 0; r < e->rows; r++) {
            quant_load(from->type, (const char *)from->data + (head * e->head_rows + e->first + r) * bytes, 0,
                       from->cols, row);
            const int64_t start = head * e->rows * from->cols;
            if (e->transposed)
                put_row(e->to->type, to, start + r, e->rows, row, from->cols);
            else
                put_row(e->to->type, to, start + r * from->cols, 1, row, from->cols);
        }
    e->to->data = to;
}

static DType plain_type(DType type) {
    return dtype_block_size(type) == 1 && type <= DTYPE_BF16 ? type : DTYPE_F16;
}

// Both in memory of the model's.
static Status expand_both(Model *model, int layer, const Expansion both[2], Error *error) {
    const Checkpoint *checkpoint = model->checkpoint;
    size_t bytes[2], row = 0;
    for (int i = 0; i < 2; i++) {
        const size_t needed =
            (size_t)(both[i].to->rows * dtype_row_bytes(both[i].to->type, both[i].to->cols));
        bytes[i] = (needed + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if ((size_t)both[i].from->cols > row) row = (size_t)both[i].from->cols;
    }
    if (!model->gathered) model->gathered = calloc((size_t)model->shape.n_layers, sizeof *model->gathered);
    float *floats = malloc(row * sizeof *floats);
    char *memory = aligned_alloc(ALIGNMENT, bytes[0] + bytes[1]);
    Status status = STATUS_OK;
    if (!model->gathered || !floats || !memory) {
        status = error_set(error, STATUS_MEMORY, "no memory for the matrices of a layer's latent");
        free(memory);
    } else {
        model->gathered[layer] = memory;
        for (int i = 0; i < 2 && !status; i++) {
            status = checkpoint_make(checkpoint, both[i].from->data, NULL, error);
            if (!status) expand(&both[i], model->shape.n_heads, memory + (i ? bytes[0] : 0), floats);
        }
        checkpoint_drop_made(checkpoint);
    }
    free(floats);
    return status;
}

Status model_take_latent(Model *model, const ParamSource *source, int layer, const LatentTensors *from,
                         Error *error) {
    const DecoderShape *s = &model->shape;
    const int64_t heads = s->n_heads, rank = s->latent.rank, plain = s->latent.plain_dim,
                  value = s->latent.value_dim;
    LayerWeights *to = &model->layers[layer];
    Matrix all = {0}, keys = {0}, values = {0};
    Status status;
    if (from->both) {
        status = model_take_tensor(model, source, from->both, heads * (plain + value), rank, &all, error);
    } else {
        const CheckpointTensor k = flattened(from->k), v = flattened(from->v);
        status = model_take_tensor(model, source, &k, heads * rank, plain, &keys, error);
        if (!status) status = model_take_tensor(model, source, &v, heads * value, rank, &values, error);
    }
    if (status) return status;
    if (!from->both && plain_type(keys.type) == keys.type && plain_type(values.type) == values.type) {
        to->k_up = keys, to->v_up = values;
        return STATUS_OK;
    }
    to->k_up =
        (Matrix){.type = plain_type(from->both ? all.type : keys.type), .rows = heads * rank, .cols = plain};
    to->v_up = (Matrix){
        .type = plain_type(from->both ? all.type : values.type), .rows = heads * value, .cols = rank};
    const Expansion of_both[] = {{&all, 0, plain + value, plain, true, &to->k_up},
                                 {&all, plain, plain + value, value, false, &to->v_up}},
                    apart[] = {{&keys, 0, rank, rank, false, &to->k_up},
                               {&values, 0, value, value, false, &to->v_up}};
    const int64_t held = to->k_up.rows * dtype_row_bytes(to->k_up.type, plain) +
                         to->v_up.rows * dtype_row_bytes(to->v_up.type, rank);
    const int64_t in_file = from->both ? all.rows * dtype_row_bytes(all.type, rank)
                                       : keys.rows * dtype_row_bytes(keys.type, plain) +
                                             values.rows * dtype_row_bytes(values.type, rank);
    model->weight_bytes += held - in_file;
    return expand_both(model, layer, from->both ? of_both : apart, error);
}
