#include "app/models/facts.h"

#include "engine/backend.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/weights/conversion.h"
#include "engine/model/model.h"
#include "kernels/base/machine/memory.h"
#include "kernels/base/path.h"
#include "kernels/tuning.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { WORTH_HAVING = 4096 }; // tokens of context that a model has to have room for before it is said to fit

// The name of the type that most bytes of the tensors have.
static void name_type(const Checkpoint *checkpoint, char *type, size_t size) {
    enum { MOST = 32 };
    const char *names[MOST];
    size_t bytes[MOST], n = 0, best = 0;
    for (int64_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const CheckpointTensor *t = checkpoint_tensor(checkpoint, i);
        size_t k = 0;
        while (k < n && strcmp(names[k], t->type_name)) k++;
        if (k == MOST) continue;
        if (k == n) names[n] = t->type_name, bytes[n++] = 0;
        bytes[k] += t->bytes;
        if (bytes[k] > bytes[best]) best = k;
    }
    if (n) snprintf(type, size, "%s", names[best]);
}

// Weights as they would be held, and a cache for a talk of some length.
static int64_t need_of(const Model *model, const EngineOptions *as) {
    KvLayout layout;
    int64_t weights = conversion_bytes(model, as->weights, as->head);
    int64_t tokens = model->context_length < WORTH_HAVING ? model->context_length : WORTH_HAVING;
    if (as->context_size > 0) tokens = as->context_size;
    if (weights < 0) weights = model_weight_bytes(model);
    CacheOptions cache = as->cache;
    cache.n_sequences = 1;
    bool fine = !kv_cache_layout(&cache, &model->shape, (int)tokens, &layout, NULL);
    return weights + (fine ? kv_cache_bytes(&layout) : 0);
}

static void describe(const Checkpoint *checkpoint, ModelFacts *facts) {
    for (int i = 0; i < checkpoint_n_files(checkpoint); i++) {
        int64_t bytes;
        (void)checkpoint_file(checkpoint, i, &bytes);
        facts->bytes += bytes;
    }
    name_type(checkpoint, facts->type, sizeof facts->type);
}

// A message about the whole model begins with its path, which stands elsewhere.
static void note_problem(ModelFacts *facts, const char *path, const char *message) {
    size_t n = strlen(path);
    if (!strncmp(message, path, n)) {
        message += n;
        message += strspn(message, ": ");
    }
    snprintf(facts->problem, sizeof facts->problem, "%s", message);
}

void facts_of_model(const char *path, const EngineOptions *as, ModelFacts *facts) {
    Checkpoint *checkpoint;
    Model *model;
    Error error;
    struct stat file;
    *facts = (ModelFacts){0};
    if (checkpoint_open(path, &checkpoint, &error)) {
        note_problem(facts, path, error.message);
        if (!stat(path, &file) && S_ISREG(file.st_mode)) facts->bytes = file.st_size;
        return;
    }
    describe(checkpoint, facts);
    if (model_from_checkpoint(checkpoint, &model, &error)) {
        note_problem(facts, path, error.message);
        return;
    }
    facts->n_parameters = model->n_parameters;
    facts->context = model->context_length;
    facts->need = need_of(model, as);
    model_close(model);
}

void facts_of_device(const char *device, FactsDevice *found) {
    DeviceKind kind;
    CardFacts card;
    const Ops *cuda;
    Error why;
    int64_t total;
    if (!device) device = "auto";
    bool gpu = !backend_device_kind(device, &kind, &why) && kind != DEVICE_CPU &&
               !backend_cuda_ops(&cuda, &why) && cuda->tuning &&
               !cuda->tuning->card(kind == DEVICE_AUTO ? "cuda" : device, &card, &why);
    *found = (FactsDevice){.name = "memory"};
    if (gpu) {
        memcpy(found->name, card.name, sizeof found->name);
        found->available = card.available;
    } else {
        memory_available("", &total, &found->available);
    }
}
