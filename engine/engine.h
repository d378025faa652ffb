// palaver's engine: a model that is loaded once, and conversations that live in a cache.
//
//   text → chat template + tokenizer → tokens → session (keeps the cached prefix) → forward (ops, KV cache)
//        → logits → sampler → token → UTF-8 stream → text
//
// An Engine is a loaded model on a backend. A Session is one stream of tokens: its log, its slots in the KV
// cache, the logits after its last token. A Conversation (conversation.h) keeps messages on top of a session, a
// Scheduler (scheduler.h) answers many conversations at once.
// Nothing here prints, exits or keeps global state; one thread uses an engine at a time.
#ifndef PALAVER_ENGINE_ENGINE_H
#define PALAVER_ENGINE_ENGINE_H

#include "engine/cache/overflow.h"
#include "engine/options.h"
#include "kernels/base/status.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

struct Model;        // engine/model/model.h
struct Profile;      // engine/profile.h
struct SampleParams; // kernels/step.h
struct Tokenizer;    // tokenizer/tokenizer.h

typedef struct Engine Engine;
typedef struct Session Session;

// ---- Engine --------------------------------------------------------------------------------------------

// What one of several cards takes, and what was free on it, in bytes.
enum { ENGINE_CARDS_MOST = 16 };
typedef struct EngineCard {
    char name[16]; // "cuda:1"
    int64_t weights, cache, scratch, available;
} EngineCard;

// What memory goes where, in bytes. Known before anything of it is allocated.
typedef struct EngineMemory {
    int64_t weights;   // mapped from the files or converted (CPU), or uploaded (GPU)
    int64_t cache;     // KV cache: keys, values, scales, positions
    int64_t scratch;   // activations, logits, the backend's own
    int64_t available; // free on the device before loading
    // Of a model larger than the device, whose first layers lie on the host: those above are the device's then, but for
    // the cache, which is all of it.
    int host_layers, n_layers; // host_layers 0: there are none, and the following mean nothing
    bool only_experts;         // of those layers only the experts lie there, and nothing of the cache
    int64_t host_weights, host_cache, host_scratch, host_available;
    // Where each layer is cut over several cards: what each takes. Those above are then in the measure of a whole cache:
    // all of it fits where they do.
    int n_cards; // 0: they are not several
    EngineCard cards[ENGINE_CARDS_MOST];
} EngineMemory;

// Loads the model: opens and checks its files and its tokenizer, compares the memory it needs with what is
// free, hands the weights to the backend. STATUS_FILE, STATUS_UNSUPPORTED, STATUS_MEMORY or STATUS_INTERRUPTED
// on failure, with *engine = NULL.
Status engine_open(const EngineOptions *options, Engine **engine, Error *error);
// The same over an open Model, which the engine takes over (also if it fails). There is no tokenizer then, only ids.
Status engine_open_model(struct Model *model, const EngineOptions *options, Engine **engine, Error *error);
void engine_close(Engine *engine);

// What a rank other than 0 of several processes does instead (options->world): holds its layers of the model, which it takes
// over, and computes as rank 0 asks, until that ends. What has to be the same everywhere is rank 0's to say; device and
// threads are its own. STATUS_FATAL: rank 0 is lost.
Status engine_serve(struct Model *model, const EngineOptions *options, Error *error);

const struct Model *engine_model(const Engine *engine);
const struct Tokenizer *engine_tokenizer(const Engine *engine); // NULL after engine_open_model()
// The model's own Jinja chat template, NULL if it has none.
const char *engine_jinja_template(const Engine *engine);
EngineMemory engine_memory(const Engine *engine);
// Of a model whose first layers lie on the host: what the newest token that was evaluated by itself took of each, or one
// of those tried at loading, in seconds. 0: there was none.
typedef struct EngineTokenTimes {
    double host, device;
    int visits_from; // tokens of a step from which on the host's layers are computed on the device; 0: never
} EngineTokenTimes;
EngineTokenTimes engine_token_times(const Engine *engine);
double engine_load_seconds(const Engine *engine); // that reading the weights, or uploading them, took
int engine_context_size(const Engine *engine);    // most tokens of a session
int64_t engine_token_bytes(const Engine *engine); // of the cache for one token
int engine_chunk(const Engine *engine);
int engine_rows(const Engine *engine);
int engine_full_sessions(const Engine *engine); // sessions of the full size that the cache has room for
// STATUS_FILE: another program has written to the model's files since they were opened, and the weights are read from
// there.
Status engine_check_files(const Engine *engine, Error *error);
// Bytes of the weights with linear layers held in this type and the output matrix as it is; -1: they cannot be.
int64_t engine_weight_bytes(const Engine *engine, WeightType weights);
DType engine_cache_type(const Engine *engine);
// One line: backend, device, how it is used ("cpu: 2 threads, AVX2").
void engine_describe_backend(const Engine *engine, char *text, size_t size);
// One line: by what weights of attention are kept in range, and what share of them fell back (Softmax). Asks the device.
Status engine_describe_softmax(const Engine *engine, char *text, size_t size, Error *error);
// Times every op of the steps that follow: see profile.h. NULL ends it.
void engine_set_profile(Engine *engine, struct Profile *profile);
// Which kernels serve how many rows of linear layers, where the backend has a choice.
typedef struct EngineDispatch {
    char origin[64]; // of the table: "measured 2026-11-22", "built in for Hopper"; "": there is no choice
    char note[sizeof((Error *)0)->message +
              80];     // why a file of measured times is not used; "": there is none, or it is
    double read_speed; // bytes a second at which the device reads, from that file; 0: not known
} EngineDispatch;
const EngineDispatch *engine_dispatch(const Engine *engine);
// Why a better backend is not used ("no CUDA plug-in beside palaver"), or "".
const char *engine_backend_note(const Engine *engine);
// Whether that one is there at all: on a machine that has none the note is nothing to be told unasked.
bool engine_sees_better(const Engine *engine);
// Why nothing is guessed of what comes next (engine/talk/drafts/drafts.h); NULL: it can be.
const char *engine_cannot_draft(const Engine *engine);
// Whether tokens are taken back one by one; else what came before them with the same step is evaluated again.
bool engine_takes_back(const Engine *engine);
// Seconds that a step of n tokens of one session takes, about, to be compared with others.
double engine_step_seconds(const Engine *engine, int n);
// Why what is cached cannot come closer to the front, so that "shift" and "shift-inplace" re-evaluate; NULL: it can.
const char *engine_cannot_shift(const Engine *engine);

// ---- Session -------------------------------------------------------------------------------------------

// One stream of tokens of at most engine_context_size(). Its slots come from the engine's cache as they are needed.
Status session_open(Engine *engine, Session **session, Error *error);
void session_close(Session *session);

// Polled between steps: a nonzero flag ends the work in hand with STATUS_INTERRUPTED. NULL: never.
void session_set_interrupt(Session *session, const atomic_int *flag);
bool session_interrupted(const Session *session); // whether that flag is set
void session_set_progress(Session *session, Progress progress);

const int32_t *session_tokens(const Session *session); // the log, valid until the session changes
int64_t session_length(const Session *session);        // tokens in the log
int64_t session_cached(const Session *session);        // of these, with keys and values in the cache

typedef struct SyncReport {
    int64_t cached;    // tokens of the longest common prefix, kept
    int64_t evaluated; // tokens read in
    double seconds;    // until the logits of the last token are there
} SyncReport;

// Makes the log equal to `tokens` [n], n >= 1: keeps the longest prefix that is cached, here or in a branch that was
// left before, and evaluates what is new in chunks; afterwards session_logits() speak of the last token. What does not
// go on is kept as a branch while no one needs its slots. n beyond the context size, or a cache without a free page, is
// STATUS_CONTEXT. When it fails or is interrupted, the log keeps the part that is common to old and new and what was
// evaluated, so that nothing is computed twice. `report` may be NULL.
Status session_sync(Session *session, const int32_t *tokens, int64_t n, SyncReport *report, Error *error);

// The first half of that: the log becomes the longest cached prefix of `tokens`, and nothing is evaluated. Returns
// its length.
int64_t session_recall(Session *session, const int32_t *tokens, int64_t n);
// That length, here or in a branch, and nothing changes.
int64_t session_known(const Session *session, const int32_t *tokens, int64_t n);

// Evicts the tokens [from, from + n), out of the log as well. How what follows them stays usable is the policy's:
// OVERFLOW_SHIFT leaves the cache as it is and sees it through two rotations, OVERFLOW_SHIFT_INPLACE turns its keys,
// and everything else, or a model that cannot be shifted, or a `from` other than the last time, has it evaluated again
// by the next call that needs logits.
Status session_evict(Session *session, int64_t from, int64_t n, OverflowPolicy policy, Error *error);

// Drops what is cached of tokens that have seen evicted ones, in the log and in branches: for a text to which these
// never belonged.
void session_drop_shifted(Session *session);

// How many tokens stay in front of what a shift evicted: the `from` at which more can be; -1: nothing was.
int64_t session_sinks(const Session *session);

// For streams without turns: if n more tokens do not fit, evicts what overflow_n_evicted() says, more where that is
// too little. STATUS_CONTEXT: they cannot fit, or the policy is OVERFLOW_STOP.
Status session_make_room(Session *session, const OverflowSettings *settings, int64_t n, Error *error);

// Says that the text will have n_tokens in the end. Where frequencies go by the length of the text (dynamic NTK,
// LongRoPE) its pieces are then read with those of that length, or of the whole context where it is longer, from the
// first on, as in one pass over all of it. 0, as at first: the text is what is there.
void session_expect(Session *session, int64_t n_tokens);

// Appends `tokens` [n] to the log, in pieces for which room is made when the context is full, and evaluates them.
// The logits after each go to `logits`, host float32 [n, vocab_size], or nowhere (NULL).
Status session_stream(Session *session, const int32_t *tokens, int64_t n, const OverflowSettings *settings,
                      float *logits, Error *error);

// Draws the next token with `params` from the logits of the last token and appends it to the log. The token is
// evaluated by the next call that needs its logits. STATUS_CONTEXT if no slot is left to evaluate the last token.
Status session_sample(Session *session, const struct SampleParams *params, int32_t *token, Error *error);

// Evaluates what is pending and copies the logits of the last token, float32 [vocab_size], to the host.
Status session_logits(Session *session, float *logits, Error *error);

// Like session_sync, but also copies the logits of every evaluated position from `from` on to `logits` (host float32
// [n - from, vocab_size]): for perplexity and for tests. The prefix before `from` may come from the cache.
Status session_logits_of(Session *session, const int32_t *tokens, int64_t n, int64_t from, float *logits,
                         Error *error);

#endif
