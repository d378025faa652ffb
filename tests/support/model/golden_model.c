#include "tests/support/model/golden_model.h"

#include "engine/engine_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 128, CHUNK = 64 };

static Status read_logits(const char *root, const char *folder, const char *file, GoldenCase *c,
                          Error *error) {
    char path[400];
    size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, file);
    c->expected = malloc(count * sizeof *c->expected);
    if (!c->expected) return error_set(error, STATUS_MEMORY, "no memory for golden logits");
    FILE *stream = fopen(path, "rb");
    bool whole = stream && fread(c->expected, sizeof *c->expected, count, stream) == count;
    if (stream) fclose(stream);
    return whole ? STATUS_OK : error_set(error, STATUS_FILE, "%s: cannot be read", path);
}

static void read_ints(const json_t *array, int32_t *out, int n) {
    for (int i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(array, (size_t)i));
}

static Status read_case(const char *root, const char *folder, const json_t *json, int vocab, GoldenCase *c,
                        Error *error) {
    const json_t *ids = json_object_get(json, "ids");
    const char *name = json_string_value(json_object_get(json, "name")),
               *logits = json_string_value(json_object_get(json, "logits"));
    const json_t *half = json_object_get(json, "half_error");
    *c = (GoldenCase){.n = (int)json_array_size(ids),
                      .from = (int)json_integer_value(json_object_get(json, "from")),
                      .half_error = half ? json_number_value(half) : NAN,
                      .vocab = vocab};
    if (!name || !logits || c->n < 1 || c->n > GOLDEN_MAX_IDS || c->from < 0 || c->from >= c->n || vocab < 1)
        return error_set(error, STATUS_FILE, "%s/%s/golden.json: a case without sense", root, folder);
    snprintf(c->name, sizeof c->name, "%s", name);
    read_ints(ids, c->ids, c->n);
    read_ints(json_object_get(json, "positions"), c->positions, c->n);
    return read_logits(root, folder, logits, c, error);
}

double golden_fixed_bound(const GoldenCase *c) {
    return isnan(c->half_error) ? 2.7e-4 : c->half_error / 8;
}

Status golden_model_read(const char *root, const char *folder, GoldenSet *set, Error *error) {
    char path[400];
    json_error_t why;
    *set = (GoldenSet){0};
    snprintf(path, sizeof path, "%s/%s/golden.json", root, folder);
    json_t *golden = json_load_file(path, 0, &why), *json;
    if (!golden) return error_set(error, STATUS_FILE, "%s: %s", path, why.text);
    int vocab = (int)json_integer_value(json_object_get(golden, "vocab_size"));
    Status status = STATUS_OK;
    size_t i;
    json_array_foreach(json_object_get(golden, "cases"), i, json) {
        if (status || set->n == GOLDEN_MAX_CASES) break;
        status = read_case(root, folder, json, vocab, &set->cases[set->n++], error);
    }
    json_decref(golden);
    return status;
}

void golden_model_free(GoldenSet *set) {
    for (int i = 0; i < set->n; i++) free(set->cases[i].expected);
    *set = (GoldenSet){0};
}

Status golden_model_open(const char *root, const char *name, const char *device, DType cache, Engine **engine,
                         Error *error) {
    char path[400];
    Model *model = NULL;
    *engine = NULL;
    snprintf(path, sizeof path, "%s/%s", root, name);
    Status status = model_open(path, &model, error);
    if (status) return status;
    EngineOptions options = {.device = device,
                             .n_threads = 2,
                             .context_size = CONTEXT,
                             .cache = cache_options(cache),
                             .chunk = CHUNK};
    return engine_open_model(model, &options, engine, error);
}

// One step of n tokens from `first` on, and the logits of those that are asked for.
static Status evaluate_step(Engine *engine, const GoldenCase *c, KvCache *cache, KvSequence *sequence,
                            int first, int n, float *logits, Error *error) {
    int32_t slots[GOLDEN_MAX_IDS], positions[GOLDEN_MAX_IDS]; // the case has its own positions
    Status status = kv_sequence_extend(cache, sequence, n, slots, positions, error);
    StepSequence all = kv_sequence_step(cache, sequence, n);
    all.in_order = false; // for they begin anywhere
    Step step = {.n_tokens = n,
                 .n_sequences = 1,
                 .ids = c->ids + first,
                 .positions = c->positions + first,
                 .slots = slots,
                 .sequences = &all,
                 .page_size = cache->page_size,
                 .slot_positions = cache->slot_positions};
    if (!status) status = forward_step(&engine->forward, &step, NULL, cache, NULL, error);
    for (int32_t i = 0; i < n && !status; i++) {
        if (first + i < c->from) continue;
        status = forward_logits(&engine->forward, &i, 1, error);
        if (!status)
            status = engine->backend->ops->read(
                engine->backend, logits + (size_t)(first + i - c->from) * (size_t)c->vocab,
                engine->forward.logits, (size_t)c->vocab * sizeof(float), error);
    }
    return status;
}

Status golden_model_evaluate(Engine *engine, const GoldenCase *c, int step, float *logits, Error *error) {
    KvCache cache;
    const int prefix = (int)model_prefix(engine->model, c->ids, c->n); // which goes into one step
    KvSequence sequence = {.rope_set = model_rope_set(engine->model, c->positions[c->n - 1] + 1),
                           .n_prefix = prefix};
    CacheOptions options = cache_options(engine_cache_type(engine));
    Status status = kv_cache_open(engine->backend, &options, &engine->model->shape, CONTEXT, &cache, error);
    if (status) return status;
    for (int first = 0, n; first < c->n && !status; first += n) {
        n = first == 0 && step < prefix ? prefix : step;
        if (n > c->n - first) n = c->n - first;
        status = evaluate_step(engine, c, &cache, &sequence, first, n, logits, error);
    }
    kv_sequence_free(&cache, &sequence);
    kv_cache_close(&cache);
    return status;
}

double golden_distance(const float *a, const float *expected, size_t n) {
    double worst = 0, scale = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)expected[i]);
        if (!(d < INFINITY)) return INFINITY;
        if (d > worst) worst = d;
        if (fabs((double)expected[i]) > scale) scale = fabs((double)expected[i]);
    }
    return worst / scale;
}
