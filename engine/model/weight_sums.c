#include "engine/model/weight_sums.h"

#include "kernels/base/checksum.h"
#include "kernels/base/hash.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 16 << 20, TURN_US = 2000 };

struct WeightSums {
    const Model *model;
    int64_t n;      // tensors
    int *layers;    // [n]
    bool *wanted;   // [n]
    uint64_t *sums; // [n]
    pthread_t thread;
    bool has_thread;
    atomic_int reached;
    atomic_bool stops, done;
    _Atomic int64_t left; // bytes
};

// ---- which tensor is whose ------------------------------------------------------------------------------------------

// The first part of a name, between dots, that is a number; -1: none.
static int layer_of(const char *name) {
    while (*name) {
        const size_t n = strcspn(name, ".");
        if (n > 0 && n < 7 && strspn(name, "0123456789") == n) return atoi(name);
        name += n + (name[n] == '.');
    }
    return -1;
}

static bool holds(const CheckpointTensor *t, const Matrix *m) {
    const uintptr_t at = (uintptr_t)m->data, from = (uintptr_t)t->data;
    return m->data && at >= from && at - from < t->bytes;
}

static bool uses(const WeightSums *s, int64_t i, const WeightPart *p) {
    const CheckpointTensor *t = checkpoint_tensor(s->model->checkpoint, i);
    const HeadWeights *head = &s->model->head;
    const int layer = s->layers[i];
    if (layer >= 0) return layer >= p->first && layer < p->first + p->n;
    if (holds(t, &head->output) || holds(t, &s->model->file_output))
        return p->is_last; // also where it is tied
    return !holds(t, &head->embedding) && !holds(t, &head->positions) && !holds(t, &head->token_embedding);
}

int weight_sums_layer(const WeightSums *s, int64_t tensor) {
    return s->layers[tensor];
}

Status weight_sums_open(const Model *model, WeightSums **out, Error *error) {
    WeightSums *s = *out = calloc(1, sizeof *s);
    if (!s) return error_set(error, STATUS_MEMORY, "no memory for sums");
    s->model = model;
    s->n = model->checkpoint ? checkpoint_n_tensors(model->checkpoint) : 0;
    s->layers = calloc((size_t)s->n + 1, sizeof *s->layers);
    s->wanted = calloc((size_t)s->n + 1, sizeof *s->wanted);
    s->sums = calloc((size_t)s->n + 1, sizeof *s->sums);
    if (!s->layers || !s->wanted || !s->sums) {
        weight_sums_close(s);
        *out = NULL;
        return error_set(error, STATUS_MEMORY, "no memory for sums");
    }
    for (int64_t i = 0; i < s->n; i++) s->layers[i] = layer_of(checkpoint_tensor(model->checkpoint, i)->name);
    return STATUS_OK;
}

void weight_sums_want(WeightSums *s, const WeightPart *part) {
    for (int64_t i = 0; i < s->n; i++) {
        if (s->wanted[i] || !uses(s, i, part)) continue;
        s->wanted[i] = true;
        s->left += (int64_t)checkpoint_tensor(s->model->checkpoint, i)->bytes;
    }
}

// ---- summing --------------------------------------------------------------------------------------------------------

static uint64_t sum_bytes(const WeightSums *s, uint64_t sum, const char *bytes, size_t n) {
    for (size_t at = 0; at < n && !atomic_load(&s->stops); at += PIECE)
        sum = checksum_step(sum, checksum_of(bytes + at, n - at < PIECE ? n - at : PIECE));
    return checksum_step(sum, n);
}

static uint64_t sum_tensor(const WeightSums *s, int64_t i) {
    const Checkpoint *c = s->model->checkpoint;
    const CheckpointTensor *t = checkpoint_tensor(c, i);
    uint64_t sum = HASH(HASH_START, t->input_scale);
    const void *bytes;
    size_t n;
    for (int part = 0; checkpoint_stored(c, i, part, &bytes, &n); part++) sum = sum_bytes(s, sum, bytes, n);
    return sum ? sum : 1;
}

static void *run(void *context) {
    WeightSums *s = context;
    for (int layer = -1; layer < s->model->shape.n_layers; layer++) {
        while (layer > 0 && layer - 1 > atomic_load(&s->reached) && !atomic_load(&s->stops)) usleep(TURN_US);
        for (int64_t i = 0; i < s->n && !atomic_load(&s->stops); i++) {
            if (s->layers[i] != layer || !s->wanted[i]) continue;
            if (!s->sums[i]) s->sums[i] = sum_tensor(s, i);
            atomic_fetch_sub(&s->left, (int64_t)checkpoint_tensor(s->model->checkpoint, i)->bytes);
        }
    }
    atomic_store(&s->done, true);
    return NULL;
}

Status weight_sums_begin(WeightSums *s, int layer, Error *error) {
    if (s->has_thread) return STATUS_OK;
    atomic_store(&s->reached, layer);
    s->has_thread = !pthread_create(&s->thread, NULL, run, s);
    return s->has_thread ? STATUS_OK : error_set(error, STATUS_MEMORY, "no thread for sums");
}

void weight_sums_reach(WeightSums *s, int layer) {
    if (s) atomic_store(&s->reached, layer);
}

bool weight_sums_wait(WeightSums *s, int milliseconds) {
    for (int us = 0; us < milliseconds * 1000 && !atomic_load(&s->done); us += TURN_US) usleep(TURN_US);
    return atomic_load(&s->done);
}

int64_t weight_sums_left(const WeightSums *s) {
    return atomic_load(&s->left);
}

void weight_sums_close(WeightSums *s) {
    if (!s) return;
    atomic_store(&s->stops, true);
    if (s->has_thread) pthread_join(s->thread, NULL);
    free(s->layers);
    free(s->wanted);
    free(s->sums);
    free(s);
}

// ---- comparing ------------------------------------------------------------------------------------------------------

const uint64_t *weight_sums_values(const WeightSums *s, int64_t *n) {
    *n = s->n;
    return s->sums;
}

int64_t weight_sums_differ(const WeightSums *s, const WeightPart *part, const uint64_t *others, int64_t n) {
    if (n != s->n) return 0;
    for (int64_t i = 0; i < n; i++)
        if (uses(s, i, part) && s->sums[i] != others[i]) return i;
    return -1;
}
