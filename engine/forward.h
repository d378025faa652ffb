// The forward pass: the only layer loop there is, for one token or many, one sequence or many. A backend that captures
// a step captures this loop; one kernel that walks the layers on the device itself is tested against it.
#ifndef PALAVER_ENGINE_FORWARD_H
#define PALAVER_ENGINE_FORWARD_H

#include "engine/cache/kv_cache.h"
#include "engine/model/model.h"
#include "engine/narrow.h"
#include "engine/profile.h"
#include "kernels/ops.h"

#include <stdatomic.h>

// Who wants to see queries [n_tokens, n_heads*head_dim], in the backend's memory, before attention overwrites them; or g
// [n_tokens, intermediate size], which enters down. NULL: not that.
typedef struct QueryTap {
    Status (*take)(void *context, int layer, const void *q, int n_tokens, Error *error);
    Status (*take_ffn)(void *context, int layer, const void *g, int n_tokens, Error *error);
    void *context;
} QueryTap;

// Who wants to know how far a step is: told behind each layer, of which so many are done. A device that works on by
// itself may only have been given them.
typedef struct LayerWatch {
    void (*layer)(void *user, int done, int n_layers);
    void *user;
} LayerWatch;

// A step on its way through the model, and who looks on.
typedef struct Pass {
    Backend *backend;
    const DecoderShape *shape;
    const Head *head;
    Layer *const *layers; // [n_layers], as the following
    const KvLayer *kv;
    const int *attention_windows;
    PassBuffers buffers;
    int n_tokens;
    const Narrowed *narrowed;    // tokens that go through the last layer; NULL: all
    bool goes_on;                // behind layers of another process: x is what they made, not embed()
    Profile *profile;            // NULL: none
    const QueryTap *tap;         // NULL: none
    const atomic_int *interrupt; // NULL: never
    const LayerWatch *watch;     // NULL: nobody
} Pass;

// embed, and every layer, of the step that the backend has begun: ops in the order of ops.h.
Status forward_pass(const Pass *pass, Error *error);
// DecodeStep.pass, for a context that is a Pass: the same in other memory, and the logits of all rows.
Status forward_pass_in(const void *pass, const PassBuffers *buffers, Error *error);

typedef struct Forward {
    Backend *backend;
    const Model *model;
    Layer **layers; // [n_layers]
    Head *head;
    int max_tokens, max_logits;
    int stages; // several hosts: a step passes so many one after the other, which work on as many steps at once; else 1
    // Activations in backend memory, for max_tokens tokens.
    void *x;                 // [max_tokens, hidden_size] the residual stream
    void *q;                 // [max_tokens, n_heads*head_dim] queries, then what attention made of them
    void *g;                 // [max_tokens, decoder_ffn_width()]
    float *logits;           // [max_logits, vocab_size]
    float *current;          // of these rows the first that tokens are drawn from; a step's are row 0 on
    Profile *profile;        // NULL: none
    const QueryTap *tap;     // NULL: none
    const LayerWatch *watch; // NULL: none
    bool has_logits; // the last step left the logits of its tokens there already, in order (ops->decode)
    int n_narrowed;  // rows of x that the last step was narrowed to; -1: it has all its tokens'
} Forward;

// The way of a step through all layers.
Pass forward_pass_of(const Forward *forward, const Step *step, const KvCache *cache,
                     const atomic_int *interrupt);

// Bytes of the activations above.
int64_t forward_bytes(const DecoderShape *shape, size_t activation_bytes, int max_tokens, int max_logits);

// Allocates the activations. Layers and head are loaded by the engine.
Status forward_open(Forward *forward, Error *error);
void forward_close(Forward *forward);

// Evaluates a step: fills its slots of the cache and leaves the residual stream of its tokens in forward->x, or of those
// alone that forward_logits() will be asked for next; wanted NULL: all, or no one knows.
// A nonzero *interrupt (may be NULL), polled between layers, ends it with STATUS_INTERRUPTED; what the step put
// into its slots is then worthless.
Status forward_step(Forward *forward, const Step *step, const LogitRows *wanted, const KvCache *cache,
                    const atomic_int *interrupt, Error *error);

// Tokens of the next step of a prompt of which so many are left: where it passes several stages, fewer than could be, so that
// all of them soon have something to do.
int forward_piece(const Forward *forward, int64_t left);

// Where a step passes several stages, what fails on another one is told with what is asked for next. Waits for all steps,
// and tells; elsewhere they have told.
Status forward_settle(Forward *forward, Error *error);

// The logits of n_rows <= max_logits of the step's tokens, into forward->current. tokens: indices into the step; all in
// order for a step of one token for each sequence.
Status forward_logits(Forward *forward, const int32_t *tokens, int n_rows, Error *error);

// Draws a token from each of the n_rows of forward->current: ops.h, sample.
Status forward_sample(Forward *forward, int n_rows, const SampleParams *params, int32_t *ids, Error *error);
// The same in two halves, and whether the backend has them: between them steps ahead may begin.
bool forward_draws_ahead(const Forward *forward);
Status forward_sample_begin(Forward *forward, int n_rows, const SampleParams *params, Error *error);
Status forward_sample_end(Forward *forward, int32_t *ids, Error *error);
// Begins a step of one token for each sequence, of which some are what the draw just begun gives (ops.h,
// DecodeStep.drawn). Their logits go to `logits`, rows of forward->logits. STATUS_UNSUPPORTED without a message: not
// this step.
Status forward_step_ahead(Forward *forward, const Step *step, const int32_t *drawn, const KvCache *cache,
                          float *logits, Error *error);
float *forward_row(const Forward *forward, int row); // of forward->logits
// For steps ahead of one token, which are not to touch what is drawn from: row 0 where forward->current is another,
// else row 1.
float *forward_other_row(const Forward *forward);
// STATUS_OK for an id; for what stands in its place the Status and Error of that row.
Status forward_check_sampled(int32_t id, Error *error);

#endif
