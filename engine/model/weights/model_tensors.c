// Tensors of a file: under which names they are looked for, and that each has the shape and a type that are wanted.
#include "engine/model/model_internal.h"
#include "engine/model/config/unread.h"

#include <stdio.h>
#include <string.h>

// ---- names -------------------------------------------------------------------------------------------------

enum { NAME_SIZE = 128 };

// How files name a model's tensors: as its class does; saved without the head, which leaves the base out; and as a part
// of a larger model, by transformers 4 and 5 ("language_model.model.layers", "model.language_model.layers").
typedef enum Naming { NAMED_USUAL, NAMED_BARE, NAMED_AS_PART, NAMED_WITHIN, N_NAMINGS } Naming;

static void prefix_of(const ParamSource *source, Module module, Naming naming, char prefix[NAME_SIZE]) {
    static const char *const PREFIXES[] = {"", "", "language_model.", ""};
    const char *base = module == MODULE_OUTPUT || naming == NAMED_BARE ? "" : source->architecture->base;
    snprintf(prefix, NAME_SIZE, "%s%s%s", PREFIXES[naming], base,
             naming == NAMED_WITHIN && module != MODULE_OUTPUT ? "language_model." : "");
}

// As layer_of_files(), before it is known which layers are beside others.
static int layer_in_names(const Architecture *a, int layer) {
    return a->paired ? layer / 2 : layer;
}

// "blk.3.attn_q.weight", or "model.layers.3.self_attn.q_proj.weight". layer -1: a module of the whole model.
static void tensor_name(const ParamSource *source, Module module, int layer, const char *kind, Naming naming,
                        char name[NAME_SIZE]) {
    const Architecture *a = source->architecture;
    const bool is_gguf = !source->config;
    char place[64] = "", prefix[NAME_SIZE] = "";
    const char *own = a->gguf_modules[module], *usual = own ? own : GGUF_MODULES[module];
    const char *stem = is_gguf ? usual : a->modules[module];
    if (module == MODULE_OUTPUT && !is_gguf && naming != NAMED_USUAL)
        stem = "lm_head"; // as transformers renames GPT-NeoX's
    if (!is_gguf) prefix_of(source, module, naming, prefix);
    if (layer >= 0 && is_gguf) snprintf(place, sizeof place, "blk.%d.", layer_in_names(a, layer));
    // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the table's own "layers.%d."
    if (layer >= 0 && !is_gguf) snprintf(place, sizeof place, a->layer, layer_in_names(a, layer));
    snprintf(name, NAME_SIZE, "%.40s%s%s.%s", prefix, place, stem, kind);
}

const CheckpointTensor *model_find_tensor(const ParamSource *source, Module module, int layer,
                                          const char *kind) {
    char name[NAME_SIZE];
    const CheckpointTensor *tensor = NULL;
    for (Naming naming = NAMED_USUAL; naming < (source->whole ? N_NAMINGS : NAMED_AS_PART) && !tensor;
         naming++) {
        tensor_name(source, module, layer, kind, naming, name);
        tensor = checkpoint_find(source->checkpoint, name);
    }
    return tensor;
}

Status model_missing_tensor(const Model *model, const ParamSource *source, Module module, int layer,
                            const char *kind, Error *error) {
    char name[NAME_SIZE];
    tensor_name(source, module, layer, kind, NAMED_USUAL, name);
    return error_set(error, STATUS_FILE, "%s: tensor %s is missing: the model is incomplete, or no %s model",
                     checkpoint_path(model->checkpoint), name, model->architecture);
}

const CheckpointTensor *model_find_of_layer(const ParamSource *source, int layer, const char *stem,
                                            const char *end) {
    static const char *const AROUND[N_NAMINGS][2] = {[NAMED_USUAL] = {"", ""},
                                                     [NAMED_AS_PART] = {"language_model.", ""},
                                                     [NAMED_WITHIN] = {"", "language_model."}};
    const Architecture *a = source->architecture;
    const CheckpointTensor *found = NULL;
    char name[2 * NAME_SIZE], place[64];
    if (!source->config) {
        snprintf(name, sizeof name, "blk.%d.%.100s%.32s", layer_in_names(a, layer), stem, end);
        return checkpoint_find(source->checkpoint, name);
    }
    // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the table's own "layers.%d."
    snprintf(place, sizeof place, a->layer, layer_in_names(a, layer));
    for (int i = 0; i < (source->whole ? N_NAMINGS : NAMED_AS_PART) && !found; i++) {
        snprintf(name, sizeof name, "%s%s%s%s%.100s%.32s", i == NAMED_BARE ? "" : AROUND[i][0],
                 i == NAMED_BARE ? "" : a->base, i == NAMED_BARE ? "" : AROUND[i][1], place, stem, end);
        found = checkpoint_find(source->checkpoint, name);
    }
    return found;
}

// ---- shapes and types --------------------------------------------------------------------------------------

static void shape_text(const CheckpointTensor *tensor, char *text, size_t size) {
    size_t n = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < tensor->n_dims && n < size; i++) {
        n += (size_t)snprintf(text + n, size - n, i == 0 ? "%lld" : ", %lld", (long long)tensor->shape[i]);
    }
    if (n < size) snprintf(text + n, size - n, "] %s", tensor->type_name);
}

// What to take where a file has a type that palaver does not read: of about its bits, with its place in a sentence.
static const char *variant_hint(const char *type_name) {
    static const struct {
        const char *begins, *hint;
    } HINTS[] = {{"iq1_", " (q2_k is nearest)"}, {"iq2_", " (q2_k is nearest)"},
                 {"tq", " (q2_k is nearest)"},   {"q1_", " (q2_k is nearest)"},
                 {"iq3_", " (q3_k is nearest)"}, {"nvfp4", " (mxfp4 or q4_k is nearest)"},
                 {"q8_", " (q8_0 is nearest)"}};
    for (size_t i = 0; i < sizeof HINTS / sizeof *HINTS; i++)
        if (!strncmp(type_name, HINTS[i].begins, strlen(HINTS[i].begins))) return HINTS[i].hint;
    return "";
}

// rows 0: a vector
static Status check_tensor(const Model *model, const CheckpointTensor *tensor, int64_t rows, int64_t cols,
                           Error *error) {
    const char *path = checkpoint_file(model->checkpoint, tensor->file, NULL);
    bool is_vector = rows == 0;
    bool fits = is_vector ? tensor->n_dims == 1 && tensor->shape[0] == cols
                          : tensor->n_dims == 2 && tensor->shape[0] == rows && tensor->shape[1] == cols;
    if (!fits) {
        char expected[64], found[128];
        snprintf(expected, sizeof expected, is_vector ? "[%lld]" : "[%lld, %lld]",
                 (long long)(is_vector ? cols : rows), (long long)cols);
        shape_text(tensor, found, sizeof found);
        return error_set(error, STATUS_FILE, "%s: %s: expected %s, file has %s", path, tensor->name, expected,
                         found);
    }
    if (!tensor->supported) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: tensor %s has type %s; palaver reads f32, f16, bf16, q8_0, "
                         "q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4: take "
                         "another variant of the model%s",
                         path, tensor->name, tensor->type_name, variant_hint(tensor->type_name));
    }
    if (is_vector && dtype_block_size(tensor->type) != 1) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: tensor %s has type %s; a vector must be f32, f16 or bf16", path, tensor->name,
                         tensor->type_name);
    }
    return STATUS_OK;
}

Status model_take_tensor(Model *model, const ParamSource *source, const CheckpointTensor *tensor,
                         int64_t rows, int64_t cols, Matrix *matrix, Error *error) {
    Status status = check_tensor(model, tensor, rows, cols, error);
    if (status) return status;
    *matrix = (Matrix){.type = tensor->type,
                       .rows = rows > 0 ? rows : 1,
                       .cols = cols,
                       .data = tensor->data,
                       .input_scale = tensor->input_scale,
                       .order = tensor->order};
    model->shape.orders_inputs = model->shape.orders_inputs || tensor->order;
    unread_take_tensor(source, checkpoint_find(model->checkpoint, tensor->name));
    model->n_parameters += matrix->rows * matrix->cols;
    model->weight_bytes += (int64_t)tensor->bytes;
    return STATUS_OK;
}

Status model_take_vector(Model *model, const ParamSource *source, const CheckpointTensor *tensor, int64_t n,
                         Matrix *vector, Error *error) {
    if (!tensor) return STATUS_OK;
    CheckpointTensor flat = *tensor;
    for (int d = 1; d < tensor->n_dims; d++) flat.shape[0] *= tensor->shape[d];
    flat.n_dims = 1;
    return model_take_tensor(model, source, &flat, 0, n, vector, error);
}
