// The weights of a quantised folder: found, put in place of their parts, and made when they are asked for.
//
// All of them have their places in one range of addresses that nobody may read until a weight is made there, so that a
// reader who does not ask ends at once instead of computing with something else.
#include "engine/files/quantized/quantized.h"
#include "kernels/base/array.h"
#include "kernels/base/machine/memory.h"
#include "kernels/base/text/text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 65536, ROWS_A_PART = 32, MOST_KINDS = 3 }; // PAGE: a multiple of every machine's

typedef struct Quantized {
    QuantWeight *weights;
    size_t n, capacity;
    char *region; // NULL: none yet
    size_t bytes;
    char notice[500];
    Fp8Inputs fp8_inputs, fp8_suited; // as the makers have them, and as the weights' scales suit
} Quantized;

// ---- finding ------------------------------------------------------------------------------------------------

// Scales of activations and of a cache, which are no weights.
static bool is_activation_scale(const QuantConfig *config, const char *name) {
    static const char *const ENDS[] = {
        ".input_scale", ".activation_scale", ".input_scale_ub", ".output_scale", ".input_zero_point",
        ".k_scale",     ".v_scale",          ".q_scale",        ".kv_scale",     ".prob_scale"};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        if (text_has_suffix(name, ENDS[i]))
            return config->method == QUANT_FP8 || config->method == QUANT_COMPRESSED;
    return false;
}

static bool is_input_scale(const char *name) {
    return text_has_suffix(name, ".input_scale") || text_has_suffix(name, ".activation_scale") ||
           text_has_suffix(name, ".input_scale_ub");
}

static Status check_listed(const QuantReader *r) {
    const char *entry = quant_names_ignored(r->config, r->stem);
    char shown[96];
    if (!entry) return STATUS_OK;
    text_copy_printable(shown, sizeof shown, entry, strlen(entry));
    return error_set(
        r->error, STATUS_FILE,
        "%s: \"%s\" is in the list of what is not quantised, but tensor %s is: one of the two is wrong; "
        "fetch the model again",
        r->config->path, shown, r->main->name);
}

typedef Status (*Opener)(QuantReader *r, QuantWeight *w);

// Of experts, a tensor has no ".weight" behind its name.
static Status read_weight(QuantReader *r, Opener open, size_t stem, Quantized *q) {
    char *name = malloc(stem + sizeof ".weight");
    bool room = name && array_reserve(&q->weights, sizeof *q->weights, q->n, 1, &q->capacity);
    if (!room) {
        free(name);
        return error_set(r->error, STATUS_MEMORY, "%s: out of memory", r->config->path);
    }
    memcpy(name, r->main->name, stem);
    name[stem] = '\0';
    r->stem = name;
    QuantWeight *w = &q->weights[q->n++];
    *w = (QuantWeight){.tensor = {.name = name, .supported = true, .n_dims = 2, .file = r->main->file}};
    Status status = check_listed(r);
    if (!status) status = open(r, w);
    if (!w->n_experts) snprintf(name + stem, sizeof ".weight", ".weight");
    if (status) return status;
    CheckpointTensor *t = &w->tensor;
    int64_t *size = t->shape;
    for (int i = 0; i < CHECKPOINT_MAX_DIMS; i++) size[i] = 1;
    if (w->n_experts > 0) t->n_dims = 3, *size++ = w->n_experts;
    size[0] = w->n_experts > 0 ? w->rows / w->n_experts : w->rows;
    size[1] = w->cols;
    t->bytes = (size_t)(w->rows * dtype_row_bytes(t->type, w->cols));
    snprintf(t->type_name, sizeof t->type_name, "%s", dtype_name(t->type));
    return STATUS_OK;
}

static Status find_weights(QuantReader *r, Quantized *q, bool *scales) {
    Checkpoint *c = r->checkpoint;
    for (int64_t i = 0; i < c->n_tensors; i++) {
        r->main = &c->tensors[i];
        size_t integers = quant_integers_stem(r->config, r->main),
               numbers = quant_numbers_stem(r->config, r->main), codes = quant_mxfp4_stem(r->config, r->main);
        if (integers + numbers + codes > 0) {
            Opener open = integers ? quant_integers_open : numbers ? quant_numbers_open : quant_mxfp4_open;
            Status status = read_weight(r, open, integers + numbers + codes, q);
            if (status) return status;
        } else if (is_activation_scale(r->config, r->main->name)) {
            r->taken[i] = true;
            *scales = *scales || r->config->fp8_inputs == FP8_INPUTS_KEPT || !is_input_scale(r->main->name);
        }
    }
    if (q->n > 0) return STATUS_OK;
    return error_set(
        r->error, STATUS_FILE,
        "%s: says that the weights are quantised by %s, but no tensor is; fetch the model again, or take "
        "quantization_config out of the file",
        r->config->path, r->config->name);
}

// ---- the checkpoint's table -----------------------------------------------------------------------------------

static Status reserve(Quantized *q, const char *path, Error *error) {
    for (size_t i = 0; i < q->n; i++) q->bytes += (q->weights[i].tensor.bytes + PAGE - 1) / PAGE * PAGE;
    void *region = mmap(NULL, q->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED)
        return error_set(error, STATUS_MEMORY, "%s: no range of %zu addresses for the weights", path,
                         q->bytes);
    q->region = region;
    char *at = region;
    for (size_t i = 0; i < q->n; i++) {
        q->weights[i].tensor.data = at;
        q->weights[i].tensor.method = q->weights[i].method;
        at += (q->weights[i].tensor.bytes + PAGE - 1) / PAGE * PAGE;
    }
    return STATUS_OK;
}

// Weights in place of what was taken.
static Status replace(Checkpoint *c, const Quantized *q, const bool *taken, Error *error) {
    int64_t kept = 0;
    for (int64_t i = 0; i < c->n_tensors; i++) {
        if (taken[i])
            free((void *)c->tensors[i].name);
        else
            c->tensors[kept++] = c->tensors[i];
    }
    c->n_tensors = kept;
    for (size_t i = 0; i < q->n; i++) {
        Status status = checkpoint_add_tensor(c, q->weights[i].tensor.name, &q->weights[i].tensor, error);
        if (status) return status;
    }
    return checkpoint_sort(c, error);
}

// What is not as the files have it: one sentence for each kind of weight that is rounded, of the first few, and one for
// activations.
static void write_notice(Quantized *q, bool activations) {
    const QuantWeight *kinds[MOST_KINDS];
    size_t counts[MOST_KINDS] = {0}, n = 0, size = 0, room = sizeof q->notice;
    for (size_t i = 0; i < q->n; i++) {
        const QuantWeight *w = &q->weights[i];
        size_t k = 0;
        while (w->numbers && k < n &&
               (strcmp(kinds[k]->method, w->method) != 0 || kinds[k]->tensor.type != w->tensor.type))
            k++;
        if (!w->numbers || k == MOST_KINDS) continue;
        if (k == n) kinds[n++] = w;
        counts[k]++;
    }
    for (size_t k = 0; k < n && size < room; k++)
        size += (size_t)snprintf(q->notice + size, room - size,
                                 "%s%zu weights (%s) are rounded to %s: no kernel reads "
                                 "them as they lie",
                                 k ? "; " : "", counts[k], kinds[k]->method, kinds[k]->tensor.type_name);
    if (activations && size < room)
        snprintf(q->notice + size, room - size,
                 "%sactivations stay as they are, which the makers round to 8 bits", size ? "; " : "");
}

static void note_fp8(Quantized *q, Fp8Inputs inputs) {
    for (size_t i = 0; i < q->n; i++) {
        const QuantWeight *w = &q->weights[i];
        if (w->tensor.type != DTYPE_E4M3) continue;
        if (w->groups > 1) q->fp8_suited = FP8_INPUTS_GROUPS;
        if (q->fp8_suited == FP8_INPUTS_KEPT) q->fp8_suited = FP8_INPUTS_ROWS;
        q->fp8_inputs = inputs;
    }
}

// Folders of the first AutoGPTQ and AutoAWQ say in a file of its own what stands in config.json since.
static Status adopt_config(Checkpoint *checkpoint, Error *error) {
    static const char *const FILES[][2] = {{"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}};
    Status status = STATUS_OK;
    for (int i = 0; i < 2 && !status && checkpoint->is_folder && !quant_config_is_there(checkpoint); i++) {
        json_t *value;
        status = checkpoint_folder_json(checkpoint, FILES[i][0], &value, error);
        if (!json_is_object(value)) {
            json_decref(value);
            continue;
        }
        bool failed = !json_member(value, "quant_method") &&
                      json_object_set_new(value, "quant_method", json_string(FILES[i][1]));
        failed = json_object_set_new(checkpoint->config, "quantization_config", value) || failed;
        if (failed) status = error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint->path);
    }
    return status;
}

Status quantized_open(Checkpoint *checkpoint, Error *error) {
    QuantConfig config;
    Status status = adopt_config(checkpoint, error);
    if (status || !quant_config_is_there(checkpoint)) return status;
    status = quant_config_read(checkpoint, &config, error);
    if (status) return status;
    Quantized *q = calloc(1, sizeof *q);
    bool *taken = calloc((size_t)checkpoint->n_tensors + 1, sizeof *taken), scales = false;
    checkpoint->quantized = q;
    if (!q || !taken) {
        free(taken);
        return error_set(error, STATUS_MEMORY, "%s: out of memory", config.path);
    }
    QuantReader reader = {.config = &config, .checkpoint = checkpoint, .taken = taken, .error = error};
    status = find_weights(&reader, q, &scales);
    if (!status) status = quant_order_columns(&reader, q->weights, q->n);
    if (!status) status = reserve(q, config.path, error);
    if (!status) status = replace(checkpoint, q, taken, error);
    free(taken);
    if (!status) write_notice(q, scales || config.rounds_activations);
    if (!status) note_fp8(q, config.fp8_inputs);
    return status;
}

void quantized_close(Quantized *q) {
    if (!q) return;
    for (size_t i = 0; i < q->n; i++) {
        free((void *)q->weights[i].tensor.name);
        free(q->weights[i].columns);
    }
    if (q->region) munmap(q->region, q->bytes);
    free(q->weights);
    free(q);
}

bool checkpoint_is_quantized(const Checkpoint *checkpoint) {
    return checkpoint->quantized != NULL;
}

Fp8Inputs checkpoint_fp8_inputs(const Checkpoint *checkpoint, bool asked) {
    const Quantized *q = checkpoint->quantized;
    if (!q) return FP8_INPUTS_KEPT;
    return q->fp8_inputs || !asked ? q->fp8_inputs : q->fp8_suited;
}

const char *checkpoint_notice(const Checkpoint *checkpoint) {
    const Quantized *q = checkpoint->quantized;
    return q && q->notice[0] ? q->notice : NULL;
}

// ---- making -----------------------------------------------------------------------------------------------------

// Checked against what is free: unlike pages of files, these cannot be taken back.
static Status open_room(const CheckpointTensor *t, Error *error) {
    int64_t total, available;
    memory_available("", &total, &available);
    bool room = total == 0 || (int64_t)t->bytes <= available;
    if (room && mprotect((void *)t->data, t->bytes, PROT_READ | PROT_WRITE) == 0) return STATUS_OK;
    return error_set(error, STATUS_MEMORY, "%s: no memory for the %zu bytes of a quantised weight", t->name,
                     t->bytes);
}

typedef struct Making {
    const QuantWeight *weight;
    _Atomic int64_t bad; // the first row with a misfit; the number of rows: none
} Making;

static void make_part(void *context, int64_t part, int thread) {
    (void)thread;
    Making *m = context;
    int64_t first = part * ROWS_A_PART, left = m->weight->rows - first;
    int64_t bad = quant_blocks_write(m->weight, first, left < ROWS_A_PART ? left : ROWS_A_PART);
    int64_t known = atomic_load(&m->bad);
    while (bad >= 0 && bad < known && !atomic_compare_exchange_weak(&m->bad, &known, bad)) continue;
}

// The weight in whose room an address lies; NULL: none.
static QuantWeight *find_weight(const Quantized *q, const void *data) {
    const char *at = data;
    if (!q || !q->region || at < q->region || at >= q->region + q->bytes) return NULL;
    size_t low = 0, high = q->n; // the first that begins behind it is in (low, high]
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if ((const char *)q->weights[middle].tensor.data <= at)
            low = middle;
        else
            high = middle;
    }
    return &q->weights[low];
}

bool quantized_stored(const Quantized *q, const void *data, int piece, bool *is_weight, const void **bytes,
                      size_t *n) {
    const QuantWeight *w = find_weight(q, data);
    *is_weight = w != NULL;
    if (!w) return false;
    // The last three are numbers that were read from tensors of one element, or from the config.
    const struct {
        const void *bytes;
        size_t n;
    } pieces[] = {{w->weight.data, w->weight.bytes},
                  {w->scale.data, w->scale.bytes},
                  {w->zero.data, w->zero.bytes},
                  {w->order.data, w->order.bytes},
                  {w->map.data, w->map.bytes},
                  {w->nested.data, w->nested.bytes},
                  {w->nested_map.data, w->nested_map.bytes},
                  {&w->scale_factor, sizeof w->scale_factor},
                  {w->book, sizeof w->book},
                  {&w->nested_offset, sizeof w->nested_offset}};
    if (piece >= (int)(sizeof pieces / sizeof *pieces)) return false;
    *bytes = pieces[piece].bytes, *n = pieces[piece].bytes ? pieces[piece].n : 0;
    return true;
}

Status checkpoint_make(const Checkpoint *checkpoint, const void *data, Threads *threads, Error *error) {
    QuantWeight *w = find_weight(checkpoint->quantized, data);
    if (!w || w->made) return STATUS_OK;
    const CheckpointTensor *t = &w->tensor;
    Status status = open_room(t, error);
    if (status) return status;
    Making making = {w, w->rows};
    int64_t parts = (w->rows + ROWS_A_PART - 1) / ROWS_A_PART;
    if (threads) threads_run(threads, parts, make_part, &making);
    for (int64_t part = 0; part < parts && !threads; part++) make_part(&making, part, 0);
    if (making.bad < w->rows)
        return error_set(error, STATUS_FILE,
                         "%s: %s: row %lld has a scale or a code that is no number, or too large for %s: the "
                         "file is damaged, fetch "
                         "it again",
                         checkpoint_file(checkpoint, t->file, NULL), t->name, (long long)making.bad,
                         t->type_name);
    w->made = true;
    return STATUS_OK;
}

void checkpoint_drop_made(const Checkpoint *checkpoint) {
    const Quantized *q = checkpoint->quantized;
    for (size_t i = 0; q && i < q->n; i++) {
        QuantWeight *w = &q->weights[i];
        if (!w->made) continue;
        void *data = (void *)w->tensor.data;
        w->made = mmap(data, w->tensor.bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED;
    }
}
