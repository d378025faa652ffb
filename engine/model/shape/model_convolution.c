// Layers that convolve instead of attending (LFM 2): which they are, how wide the feed-forward part is beside them, and
// where their weights lie.
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"
#include "engine/model/model_internal.h"

#include <stdlib.h>
#include <string.h>

// ---- which they are ----------------------------------------------------------------------------------------

// Of architectures whose layers may have windows: their length, and where layer_types is silent which layers have one.
static Status read_window(Model *model, const ParamSource *source, LayerHeads *heads, Error *error) {
    int64_t window = source->architecture->default_window;
    if (window == 0) return STATUS_OK;
    if (json_is_null(json_object_get(source->config, "sliding_window")))
        return param_refuse_null(source, NULL, "sliding_window", error);
    Status status = model_read_window_length(source, 1, &window, error);
    model->sliding_window = (int)window;
    // Two of four convolve; of those that attend every other one has a window, but the first layer convolves.
    for (int l = 0; l < model->shape.n_layers; l++) {
        heads[l].convolves = l % 2 != 0 || l == 0;
        model->attention_windows[l] = l % 4 == 0 && l > 0 ? (int)window : 0;
    }
    return status;
}

static Status refuse_types(const Model *model, const ParamSource *source, Error *error) {
    return error_set(error, STATUS_FILE,
                     "%s: layer_types should name %d layers, \"conv\"%s or \"full_attention\"", source->path,
                     model->shape.n_layers,
                     source->architecture->default_window > 0 ? ", \"sliding_attention\"" : "");
}

// config.json: by name in layer_types, else all that full_attn_idxs does not have.
static Status kinds_from_config(Model *model, const ParamSource *source, LayerHeads *heads, Error *error) {
    const bool windows = source->architecture->default_window > 0;
    const json_t *types = json_object_get(source->config, "layer_types"),
                 *attending = json_object_get(source->config, "full_attn_idxs");
    const int n = model->shape.n_layers;
    unread_take_key(source, NULL, "layer_types"), unread_take_key(source, NULL, "full_attn_idxs");
    Status status = read_window(model, source, heads, error);
    if (status) return status;
    if (json_is_array(types)) {
        for (int l = 0; l < n; l++) {
            const char *type = json_string_value(json_array_get(types, (size_t)l));
            if (json_array_size(types) != (size_t)n || !type) return refuse_types(model, source, error);
            const bool slides = windows && strcmp(type, "sliding_attention") == 0;
            heads[l].convolves = strcmp(type, "conv") == 0;
            model->attention_windows[l] = slides ? model->sliding_window : 0;
            if (!heads[l].convolves && !slides && strcmp(type, "full_attention") != 0)
                return refuse_types(model, source, error);
        }
        return STATUS_OK;
    }
    if (!json_is_array(attending)) return STATUS_OK; // all attend
    for (int l = 0; l < n; l++) heads[l].convolves = true;
    for (size_t i = 0; i < json_array_size(attending); i++) {
        const json_t *layer = json_array_get(attending, i);
        const json_int_t at = json_is_integer(layer) ? json_integer_value(layer) : -1;
        if (at < 0 || at >= n)
            return error_set(error, STATUS_FILE, "%s: full_attn_idxs[%zu] is none of %d layers", source->path,
                             i, n);
        heads[at].convolves = false;
    }
    return STATUS_OK;
}

static Status read_taps(Model *model, const ParamSource *source, Error *error) {
    static const Key KEY = {"conv_L_cache", "shortconv.l_cache"};
    const int usual = source->architecture->default_taps;
    int64_t taps = !source->config ? -1 : usual > 0 ? usual : 3;
    char text[KEY_SIZE];
    const DecoderShape *s = &model->shape;
    Status status = param_integer(source, KEY, &taps, error);
    if (!status) status = param_bool(source, (Key){"conv_bias", NULL}, &model->conv_bias, error);
    if (status) return status;
    if (!source->config && taps == -1)
        return error_set(error, STATUS_FILE, "%s: %s is missing", source->path,
                         source_key(source, KEY, text));
    model->shape.convolution.taps = taps < 1 || taps > CONVOLUTION_MOST_TAPS ? 0 : (int)taps;
    if (s->convolution.taps == 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: a convolution over %lld tokens (%s); palaver runs 1 to %d", source->path,
                         (long long)taps, source_short_key(source, KEY), CONVOLUTION_MOST_TAPS);
    if (s->n_heads * s->head_dim != s->hidden_size || s->n_heads % 2 != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: %d heads (%s) of %d (%s) beside a convolution over %d elements (%s); palaver "
                         "runs models with "
                         "as many of both, and an even number of heads",
                         source->path, s->n_heads, model_size_key(source, "num_attention_heads"), s->head_dim,
                         model_size_key(source, "head_dim"), s->hidden_size,
                         model_size_key(source, "hidden_size"));
    return STATUS_OK;
}

// Keys that mean nothing where every layer attends.
static void leave_taps(const ParamSource *source) {
    char text[KEY_SIZE];
    if (source->config)
        unread_take_key(source, NULL, "conv_L_cache"), unread_take_key(source, NULL, "conv_bias");
    else
        unread_take_meta(source, source_gguf_key(source, "shortconv.l_cache", text));
}

Status model_read_convolution(Model *model, const ParamSource *source, Error *error) {
    DecoderShape *s = &model->shape;
    const bool by_window = source->architecture->rope_rule == ROPE_BY_WINDOW;
    bool some = false;
    if (!source->architecture->convolves) return STATUS_OK;
    LayerHeads *heads = calloc((size_t)s->n_layers, sizeof *heads);
    int *ropes = calloc((size_t)s->n_layers, sizeof *ropes);
    Status status = STATUS_OK;
    if (!heads || !ropes) status = error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    if (!status)
        status = source->config ? kinds_from_config(model, source, heads, error)
                                : model_find_headless(model, source, heads, error);
    for (int l = 0; l < s->n_layers && !source->config && !status; l++)
        heads[l].convolves = heads[l].n_kv_heads == 0;
    for (int l = 0; l < s->n_layers && !status; l++) some |= heads[l].convolves;
    if (!status && some) status = read_taps(model, source, error);
    if (!status && !some && by_window)
        status = error_set(error, STATUS_UNSUPPORTED, "%s: layer_types without a layer that is \"conv\"",
                           source->path);
    if (status || !some) {
        if (!status) leave_taps(source);
        free(heads), free(ropes);
        return status;
    }
    for (int l = 0; l < s->n_layers; l++) {
        heads[l].n_kv_heads = heads[l].convolves ? s->n_heads / 2 : s->n_kv_heads;
        heads[l].head_dim = s->head_dim, heads[l].lender = l;
        ropes[l] = heads[l].convolves ? -1 : by_window && model->attention_windows[l] > 0 ? 1 : 0;
    }
    s->heads_of_layers = model->layer_heads = heads, s->rope.of_layers = model->layer_ropes = ropes;
    model->usual_intermediate = s->intermediate_size;
    return STATUS_OK;
}

// As the class does (Lfm2MLP): two thirds of what is said, times a factor, up to the next multiple.
Status model_adjust_ffn(Model *model, const ParamSource *source, Error *error) {
    int64_t multiple = 256;
    double factor = 1;
    bool adjusted = true;
    int *size = &model->shape.intermediate_size;
    if (!source->architecture->ffn_adjusted || !source->config) return STATUS_OK;
    Status status = param_integer(source, (Key){"block_multiple_of", NULL}, &multiple, error);
    if (!status) status = param_bool(source, (Key){"block_auto_adjust_ff_dim", NULL}, &adjusted, error);
    if (!status) status = param_number(source, (Key){"block_ffn_dim_multiplier", NULL}, &factor, error);
    if (status || !adjusted) return status;
    if (multiple < 1 || multiple > 1 << 16 || !(factor > 0 && factor < 1e3))
        return error_set(error, STATUS_FILE,
                         "%s: a feed-forward part of %d (%s) times two thirds of %g "
                         "(block_ffn_dim_multiplier), in multiples of %lld (block_multiple_of)",
                         source->path, *size, model_size_key(source, "intermediate_size"), factor,
                         (long long)multiple);
    int64_t wide = (int64_t)(2 * (double)*size / 3);
    wide = (int64_t)(factor * (double)wide);
    wide = (wide + multiple - 1) / multiple * multiple;
    if (wide < 1 || wide > 1 << 22)
        return error_set(error, STATUS_FILE, "%s: a feed-forward part of %lld, made of %d (%s)", source->path,
                         (long long)wide, *size, model_size_key(source, "intermediate_size"));
    *size = (int)wide;
    return STATUS_OK;
}

// ---- their weights -----------------------------------------------------------------------------------------

// [hidden_size, taps], in a Hugging Face folder [hidden_size, 1, taps], as a vector.
static Status take_taps(Model *model, const ParamSource *source, int layer, Matrix *conv, Error *error) {
    const DecoderShape *s = &model->shape;
    const CheckpointTensor *tensor = model_find_tensor(source, MODULE_CONV, layer, "weight");
    if (!tensor) return model_missing_tensor(model, source, MODULE_CONV, layer, "weight", error);
    CheckpointTensor flat = *tensor;
    const int last = tensor->n_dims - 1;
    const bool fits = (last == 1 || (last == 2 && tensor->shape[1] == 1)) &&
                      tensor->shape[0] == s->hidden_size && tensor->shape[last] == s->convolution.taps;
    if (!fits)
        return error_set(error, STATUS_FILE, "%s: %s: expected [%d, 1, %d] or [%d, %d], file has other sizes",
                         source->path, tensor->name, s->hidden_size, s->convolution.taps, s->hidden_size,
                         s->convolution.taps);
    flat.n_dims = 1, flat.shape[0] = (int64_t)s->hidden_size * s->convolution.taps;
    return model_take_tensor(model, source, &flat, 0, (int64_t)s->hidden_size * s->convolution.taps, conv,
                             error);
}

Status model_take_convolution(Model *model, const ParamSource *source, int layer, Error *error) {
    const int64_t n = model->shape.hidden_size;
    LayerWeights *to = &model->layers[layer];
    Status status = take_taps(model, source, layer, &to->conv, error);
    if (status) return status;
    Matrix in = to->wk, in_bias = to->bk;
    to->wk = model_take_first(&in, n), to->bk = model_take_first(&in_bias, n);
    to->wq = model_take_first(&in, n), to->bq = model_take_first(&in_bias, n);
    to->wv = in, to->bv = in_bias;
    if (!model->conv_bias) return STATUS_OK;
    const CheckpointTensor *bias = model_find_tensor(source, MODULE_CONV, layer, "bias");
    if (!bias) return model_missing_tensor(model, source, MODULE_CONV, layer, "bias", error);
    return model_take_tensor(model, source, bias, 0, n, &to->conv_bias, error);
}
