// Layers that differ in more than their weights (Gemma 4): the size and number of heads, whose keys and values they
// look at, and how wide their feed-forward part is.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"

#include <stdio.h>
#include <stdlib.h>

// What config.json says of the layers without a window.
typedef struct Global {
    int64_t head_dim, n_kv_heads; // 0: as the others
    bool same_values;             // their values are their keys
} Global;

// What says how many heads of which size a layer has.
static const char *keys_of_heads(const ParamSource *source, bool slides) {
    if (!source->config)
        return slides ? "attention.head_count_kv, attention.key_length_swa"
                      : "attention.head_count_kv, attention.key_length";
    if (json_is_object(json_object_get(source->config, "per_layer_config"))) return "per_layer_config";
    return slides ? "num_key_value_heads, head_dim" : "num_global_key_value_heads, global_head_dim";
}

static Status check_sizes(const Model *model, const ParamSource *source, const LayerHeads *heads,
                          Error *error) {
    const DecoderShape *s = &model->shape;
    if (heads->head_dim < 2 || heads->head_dim > 1 << 16 || heads->head_dim % 2 != 0 ||
        heads->n_kv_heads < 1 || s->n_heads % heads->n_kv_heads != 0 ||
        (int64_t)s->n_heads * heads->head_dim > 1 << 24)
        return error_set(error, STATUS_FILE,
                         "%s: a layer has %d heads of %d for keys (%s), for %d heads (%s)", source->path,
                         heads->n_kv_heads, heads->head_dim,
                         keys_of_heads(source, model->attention_windows[heads->lender] > 0), s->n_heads,
                         model_size_key(source, "num_attention_heads"));
    return STATUS_OK;
}

// Today's form: an object of each layer that differs.
static Status read_object(Model *model, const ParamSource *source, const json_t *all, LayerHeads *heads,
                          Error *error) {
    const char *key;
    json_t *own;
    unread_take_key(source, NULL, "per_layer_config");
    json_object_foreach((json_t *)all, key, own) {
        char *end;
        const long layer = strtol(key, &end, 10);
        const json_t *dim = json_object_get(own, "head_dim"),
                     *n = json_object_get(own, "num_key_value_heads");
        const size_t known = (dim ? 1 : 0) + (n ? 1 : 0);
        if (*end != '\0' || layer < 0 || layer >= model->shape.n_layers || json_object_size(own) != known ||
            (dim && !json_is_integer(dim)) || (n && !json_is_integer(n)))
            return error_set(
                error, STATUS_UNSUPPORTED,
                "%s: per_layer_config.%s is not of a layer, or says something else than its heads",
                source->path, key);
        if (dim) heads[layer].head_dim = (int)json_integer_value(dim);
        if (n) heads[layer].n_kv_heads = (int)json_integer_value(n);
    }
    return STATUS_OK;
}

static Status read_heads(Model *model, const ParamSource *source, const Global *global, LayerHeads *heads,
                         Error *error) {
    const json_t *all = json_object_get(source->config, "per_layer_config");
    Status status = STATUS_OK;
    for (int l = 0; l < model->shape.n_layers; l++) {
        const bool slides = model->attention_windows[l] > 0;
        heads[l] = (LayerHeads){
            .n_kv_heads = model->shape.n_kv_heads, .head_dim = model->shape.head_dim, .lender = l};
        if (slides || json_is_object(all)) continue;
        heads[l].head_dim = (int)global->head_dim;
        if (global->same_values && global->n_kv_heads > 0) heads[l].n_kv_heads = (int)global->n_kv_heads;
    }
    if (json_is_object(all)) status = read_object(model, source, all, heads, error);
    for (int l = 0; l < model->shape.n_layers && !status; l++) {
        status = check_sizes(model, source, &heads[l], error);
        const bool slides = model->attention_windows[l] > 0;
        // Frequencies are of the two kinds of layers.
        if (!status && heads[l].head_dim != (slides ? model->shape.head_dim : global->head_dim))
            status = error_set(error, STATUS_UNSUPPORTED,
                               "%s: layer %d has heads of %d (%s), another size than its kind", source->path,
                               l, heads[l].head_dim, keys_of_heads(source, slides));
    }
    return status;
}

// The last ones look at what the last before them of their kind has stored.
static Status read_lenders(Model *model, const ParamSource *source, LayerHeads *heads, Error *error) {
    static const Key SHARED = {"num_kv_shared_layers", "attention.shared_kv_layers"};
    int64_t shared = 0;
    Status status = param_integer(source, SHARED, &shared, error);
    const char *key = source_short_key(source, SHARED);
    const int n = model->shape.n_layers, own = n - (int)shared;
    if (status) return status;
    if (shared < 0 || shared >= n)
        return error_set(error, STATUS_FILE, "%s: %lld of %d layers share keys and values (%s)", source->path,
                         (long long)shared, n, key);
    for (int l = own; l < n; l++) {
        int lender = own - 1;
        while (lender >= 0 && (model->attention_windows[lender] > 0) != (model->attention_windows[l] > 0))
            lender--;
        if (lender < 0)
            return error_set(
                error, STATUS_FILE,
                "%s: no layer of layer %d's kind has keys that it can look at: %lld share theirs (%s)",
                source->path, l, (long long)shared, key);
        heads[l] = heads[lender];
        heads[l].lender = lender;
    }
    return STATUS_OK;
}

// A number of every layer, or one for all, which is there already; `numbers` [n_layers].
static Status read_gguf_numbers(const Model *model, const ParamSource *source, const char *key,
                                int64_t *numbers, Error *error) {
    char text[KEY_SIZE];
    const MetaValue *list = checkpoint_meta(source->checkpoint, source_gguf_key(source, key, text));
    MetaCursor cursor = {0};
    if (!list || list->type != META_ARRAY) return STATUS_OK;
    for (int l = 0; l < model->shape.n_layers; l++) {
        MetaValue value;
        if (!checkpoint_meta_next(list, &cursor, &value) || value.type != META_INTEGER || value.integer < 1 ||
            value.integer > 1 << 22)
            return error_set(error, STATUS_FILE, "%s: %s has no number for layer %d of %d", source->path,
                             text, l, model->shape.n_layers);
        numbers[l] = value.integer;
    }
    return STATUS_OK;
}

static Status read_gguf_kv_heads(const Model *model, const ParamSource *source, LayerHeads *heads,
                                 Error *error) {
    int64_t *numbers = calloc((size_t)model->shape.n_layers, sizeof *numbers);
    if (!numbers) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    for (int l = 0; l < model->shape.n_layers; l++) numbers[l] = heads[l].n_kv_heads;
    Status status = read_gguf_numbers(model, source, "attention.head_count_kv", numbers, error);
    for (int l = 0; l < model->shape.n_layers && !status; l++) {
        heads[l].n_kv_heads = (int)numbers[l];
        status = check_sizes(model, source, &heads[l], error);
    }
    free(numbers);
    return status;
}

// The layers that borrow keys and values may be wider than the others, and no others.
static Status read_gguf_widths(Model *model, const ParamSource *source, const LayerHeads *heads,
                               Error *error) {
    DecoderShape *s = &model->shape;
    int64_t *numbers = calloc((size_t)s->n_layers, sizeof *numbers);
    if (!numbers) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    for (int l = 0; l < s->n_layers; l++) numbers[l] = s->intermediate_size;
    Status status = read_gguf_numbers(model, source, "feed_forward_length", numbers, error);
    const int64_t usual = numbers[0], last = numbers[s->n_layers - 1];
    for (int l = 0; l < s->n_layers && !status; l++)
        if (numbers[l] != (heads[l].lender == l ? usual : last) || numbers[l] > last)
            status = error_set(error, STATUS_UNSUPPORTED,
                               "%s: layer %d is %lld wide, where the first is %lld and the last %lld "
                               "(feed_forward_length); palaver runs "
                               "models whose layers differ only where they borrow keys",
                               source->path, l, (long long)numbers[l], (long long)usual, (long long)last);
    model->usual_intermediate = (int)usual, s->intermediate_size = (int)last;
    free(numbers);
    return status;
}

// Whether values are keys: the first layer without a window has no matrix of values.
static bool values_are_keys(const Model *model, const ParamSource *source) {
    int l = 0;
    while (l < model->shape.n_layers - 1 && model->attention_windows[l] > 0) l++;
    return !model_find_tensor(source, MODULE_V, l, "weight") &&
           model_find_tensor(source, MODULE_K, l, "weight");
}

static Status read_global(const Model *model, const ParamSource *source, Global *global, Error *error) {
    *global = (Global){.head_dim = model->global_head_dim};
    if (!source->config) {
        global->same_values = values_are_keys(model, source);
        return STATUS_OK;
    }
    Status status =
        param_integer(source, (Key){"num_global_key_value_heads", NULL}, &global->n_kv_heads, error);
    if (!status) status = param_bool(source, (Key){"attention_k_eq_v", NULL}, &global->same_values, error);
    return status;
}

// The size of heads that per_layer_config has, where it is there: those that differ are those without a window.
static int64_t listed_head(const ParamSource *source, int usual, int64_t global) {
    const json_t *all = json_object_get(source->config, "per_layer_config");
    if (!json_is_object(all)) return global;
    const char *key;
    json_t *own;
    int64_t dim = usual;
    json_object_foreach((json_t *)all, key, own) {
        const json_t *found = json_object_get(own, "head_dim");
        if (json_is_integer(found)) dim = json_integer_value(found);
    }
    return dim;
}

// In GGUF a key's length is that of the layers without a window; the others' has a key of its own.
static Status read_gguf_heads(Model *model, const ParamSource *source, int64_t *global, Error *error) {
    const int64_t whole = model->shape.head_dim;
    int64_t own = whole, value = whole, own_value = -1, turned = -1;
    Status status = param_integer(source, (Key){NULL, "attention.key_length_swa"}, &own, error);
    if (!status) status = param_integer(source, (Key){NULL, "attention.value_length"}, &value, error);
    if (!status) status = param_integer(source, (Key){NULL, "attention.value_length_swa"}, &own_value, error);
    if (!status) status = param_integer(source, (Key){NULL, "rope.dimension_count_swa"}, &turned, error);
    if (status) return status;
    if (own < 2 || own > whole || value != whole || (own_value >= 0 && own_value != own) ||
        (turned >= 0 && turned != own))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: heads of %lld (attention.key_length) with values of %lld (attention.value_length), behind a "
            "window %lld (attention.key_length_swa) with values of %lld (attention.value_length_swa), of "
            "which %lld turn (rope.dimension_count_swa); palaver runs models whose values are as long as "
            "their keys, which "
            "behind a window are no longer than elsewhere and turn whole",
            source->path, (long long)whole, (long long)value, (long long)own,
            (long long)(own_value >= 0 ? own_value : own), (long long)(turned >= 0 ? turned : own));
    *global = whole;
    model->shape.head_dim = (int)own;
    return STATUS_OK;
}

Status model_read_global_head(Model *model, const ParamSource *source, Error *error) {
    const bool is_gguf = !source->config;
    static const Key DIM = {"global_head_dim", "attention.key_length"},
                     ROWS = {"hidden_size_per_layer_input", "embedding_length_per_layer_input"};
    int64_t dim = 512, rows = is_gguf ? 0 : 256, vocab = is_gguf ? model->shape.vocab_size : 262144;
    if (!source->architecture->heads_by_window) return STATUS_OK;
    const bool tokens =
        is_gguf || source->architecture->modules[MODULE_TOKEN_GATE]; // of per-layer embeddings
    if (!tokens) rows = 0;
    Status status =
        is_gguf ? read_gguf_heads(model, source, &dim, error) : param_integer(source, DIM, &dim, error);
    if (!is_gguf) dim = listed_head(source, model->shape.head_dim, dim);
    if (!status && tokens) status = param_integer(source, ROWS, &rows, error);
    if (!status && tokens)
        status = param_integer(source, (Key){"vocab_size_per_layer_input", NULL}, &vocab, error);
    if (!status && rows > 0 && vocab != model->shape.vocab_size)
        status = error_set(error, STATUS_UNSUPPORTED,
                           "%s: vocab_size_per_layer_input is %lld, of a vocabulary of %d; palaver runs "
                           "models where it is the same",
                           source->path, (long long)vocab, model->shape.vocab_size);
    if (!status && (dim < 2 || dim > 1 << 16 || dim % 2 != 0 || rows < 0 || rows > 1 << 16))
        status = error_set(error, STATUS_FILE,
                           "%s: heads of %lld without a window (%s), %lld elements for each layer (%s)",
                           source->path, (long long)dim, source_short_key(source, DIM), (long long)rows,
                           source_short_key(source, ROWS));
    model->global_head_dim = (int)dim;
    model->shape.token_size = (int)rows;
    return status;
}

Status model_read_layer_heads(Model *model, const ParamSource *source, Error *error) {
    DecoderShape *s = &model->shape;
    Global global;
    bool wide = false;
    if (!source->architecture->heads_by_window) return STATUS_OK;
    LayerHeads *heads = calloc((size_t)s->n_layers, sizeof *heads);
    if (!heads) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    model->layer_heads = heads;
    Status status = read_global(model, source, &global, error);
    if (!status) status = read_heads(model, source, &global, heads, error);
    if (!status && !source->config) status = read_gguf_kv_heads(model, source, heads, error);
    if (!status) status = read_lenders(model, source, heads, error);
    if (!status && global.same_values && heads[s->n_layers - 1].lender != s->n_layers - 1)
        status = error_set(error, STATUS_UNSUPPORTED,
                           "%s: num_kv_shared_layers beside attention_k_eq_v, which no model has together",
                           source->path);
    if (!status) status = param_bool(source, (Key){"use_double_wide_mlp", NULL}, &wide, error);
    if (status) return status;
    if (model->attention_windows[s->n_layers - 1] > 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: the last layer has a window (%s), which a %s model's never has", source->path,
                         source->config ? "layer_types" : "attention.sliding_window_pattern",
                         model->architecture);
    model->same_values = global.same_values;
    model->usual_intermediate = s->intermediate_size;
    if (!source->config) status = read_gguf_widths(model, source, heads, error);
    if (wide && heads[s->n_layers - 1].lender != s->n_layers - 1) s->intermediate_size *= 2;
    s->heads_of_layers = heads;
    return status;
}

Status model_find_headless(const Model *model, const ParamSource *source, LayerHeads *heads, Error *error) {
    char text[KEY_SIZE];
    const char *key = source_gguf_key(source, "attention.head_count_kv", text);
    const MetaValue *list = checkpoint_meta(source->checkpoint, key);
    const int n = model->shape.n_layers, usual = model->shape.n_kv_heads;
    const bool listed = list && list->type == META_ARRAY;
    MetaCursor cursor = {0};
    for (int l = 0; l < n; l++) {
        MetaValue value = {.type = META_INTEGER, .integer = usual};
        if (listed && (list->count != n || !checkpoint_meta_next(list, &cursor, &value) ||
                       value.type != META_INTEGER || (value.integer != 0 && value.integer != usual)))
            return error_set(error, STATUS_FILE, "%s: %s should have a number for each of %d layers, 0 or %d",
                             source->path, key, n, usual);
        heads[l].n_kv_heads = (int)value.integer;
    }
    return STATUS_OK;
}
