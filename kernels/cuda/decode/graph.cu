// decode, a token for each of several sequences: the ops, captured once as a graph for each size of step and replayed.
// A graph reads all that changes from a step to the next from device memory, which is laid out with room to spare.
#include "kernels/cuda/attention/split.cuh"
#include "kernels/cuda/flat/flat.cuh"
#include "kernels/cuda/peers/peers.cuh"

#include <stdlib.h>
#include <string.h>

enum { MOST_GRAPHS = 32 };

// What a graph was captured for.
struct GraphKey {
    StageRoom room;
    StepKind kind;
    bool evicted, tempered;
    uint32_t page_size;
    const void *step, *parts, *arrived, *handover, *slot_positions, *logits, *x;
};

struct DecodeGraph {
    GraphKey key;
    cudaGraphExec_t graph;
    uint64_t used; // number of the step that used it last
};

struct DecodeGraphs {
    char *memory;
    void *x, *q, *g;
    // The model and the cache of all graphs.
    const Head *head;
    Layer **layers;
    KvLayer *kv;
    int *windows;
    DecodeGraph graphs[MOST_GRAPHS];
    int n_graphs;
    uint64_t n_steps;
};

static void forget_graphs(DecodeGraphs *b) {
    for (int i = 0; i < b->n_graphs; i++) cudaGraphExecDestroy(b->graphs[i].graph);
    b->n_graphs = 0;
}

void decode_graphs_close(DecodeGraphs *b) {
    if (!b) return;
    forget_graphs(b);
    if (b->memory) cudaFree(b->memory);
    free(b->layers);
    free(b->kv);
    free(b->windows);
    free(b);
}

// Rows of the largest graph.
int decode_graph_rows(const CudaBackend *cuda) {
    return cuda->max_tokens < FLAT_MOST ? cuda->max_tokens : FLAT_MOST;
}

static size_t lay_out(const CudaBackend *cuda, DecodeGraphs *b, char *base) {
    const DecoderShape *s = cuda->shape;
    size_t rows = (size_t)decode_graph_rows(cuda), used = 0;
    auto take = [&](size_t elements) {
        char *at = base + used;
        used += (rows * elements * 4 + 255) / 256 * 256;
        return at;
    };
    b->x = take((size_t)s->hidden_size);
    b->q = take((size_t)decoder_pass_width(s));
    b->g = take((size_t)decoder_ffn_width(s));
    return used;
}

size_t decode_graphs_bytes(const CudaBackend *cuda) {
    DecodeGraphs b;
    return lay_out(cuda, &b, NULL) + cuda_room_bytes(cuda_handover_bytes(cuda));
}

static Status graphs_open(CudaBackend *cuda, Error *error) {
    DecodeGraphs *b = (DecodeGraphs *)calloc(1, sizeof *b);
    if (!b) return error_set(error, STATUS_MEMORY, "no memory for decoding");
    size_t n = (size_t)cuda->shape->n_layers, bytes = lay_out(cuda, b, NULL);
    b->layers = (Layer **)calloc(n, sizeof *b->layers);
    b->kv = (KvLayer *)calloc(n, sizeof *b->kv);
    b->windows = (int *)calloc(n, sizeof *b->windows);
    Status status = STATUS_OK;
    if (!b->layers || !b->kv || !b->windows)
        status = error_set(error, STATUS_MEMORY, "no memory for decoding");
    if (!status)
        status = cuda_check(device_allocate(&cuda->device, &b->memory, bytes), error,
                            "%zu bytes for decoding", bytes);
    if (!status)
        status = cuda_check(cudaMemsetAsync(b->memory, 0, bytes, cuda->device.stream), error, "decoding");
    if (status) {
        decode_graphs_close(b);
        return status;
    }
    lay_out(cuda, b, b->memory);
    cuda->graphs = b;
    return STATUS_OK;
}

// Graphs of another model or cache are of no use any more.
static void take_model(const CudaBackend *cuda, const DecodeStep *t) {
    DecodeGraphs *b = cuda->graphs;
    size_t n = (size_t)cuda->shape->n_layers;
    if (b->head == t->head && !memcmp(b->layers, t->layers, n * sizeof *b->layers) &&
        !memcmp(b->kv, t->kv, n * sizeof *b->kv) && !memcmp(b->windows, t->windows, n * sizeof *b->windows))
        return;
    forget_graphs(b);
    b->head = t->head;
    memcpy(b->layers, t->layers, n * sizeof *b->layers);
    memcpy(b->kv, t->kv, n * sizeof *b->kv);
    memcpy(b->windows, t->windows, n * sizeof *b->windows);
}

// ---- the step ------------------------------------------------------------------------------------------------

// Everything from the step that was staged to its logits, to the stream: the engine's own loop, in this step's memory.
static Status decode_staged(CudaBackend *cuda, const DecodeStep *t, Error *error) {
    const DecodeGraphs *b = cuda->graphs;
    const PassBuffers buffers = {b->x, b->q, b->g, t->logits};
    Status status = cuda_begin_staged(cuda, error);
    return status ? status : t->pass(t->context, &buffers, error);
}

static Status capture(CudaBackend *cuda, const DecodeStep *t, cudaGraphExec_t *exec, Error *error) {
    cudaGraph_t graph = NULL;
    Status status = cuda_check(cudaStreamBeginCapture(cuda->device.stream, cudaStreamCaptureModeThreadLocal),
                               error, "capturing a step");
    if (status) return status;
    status = decode_staged(cuda, t, error);
    cudaError_t code = cudaStreamEndCapture(cuda->device.stream, &graph);
    if (!status) status = cuda_check(code, error, "capturing a step");
    if (!status) status = cuda_check(cudaGraphInstantiate(exec, graph, 0), error, "a graph of a step");
    if (!status && cuda->peers) // before any card begins it
        status = cuda_check(cudaGraphUpload(*exec, cuda->device.stream), error, "a graph of a step");
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError(); // of a capture that was broken off
    return status;
}

// The graph for a key, captured if there is none; in the place of the one that was used longest ago if there is no
// room.
static Status find_graph(CudaBackend *cuda, const DecodeStep *t, const GraphKey *key, DecodeGraph **found,
                         Error *error) {
    DecodeGraphs *b = cuda->graphs;
    DecodeGraph *oldest = b->graphs;
    for (int i = 0; i < b->n_graphs; i++) {
        *found = &b->graphs[i];
        if (!memcmp(&b->graphs[i].key, key, sizeof *key)) return STATUS_OK;
        if (b->graphs[i].used < oldest->used) oldest = *found;
    }
    cudaGraphExec_t graph;
    Status status = capture(cuda, t, &graph, error);
    if (status) return status;
    if (b->n_graphs < MOST_GRAPHS)
        oldest = &b->graphs[b->n_graphs++];
    else
        cudaGraphExecDestroy(oldest->graph);
    memcpy(&oldest->key, key, sizeof *key);
    oldest->graph = graph;
    *found = oldest;
    return STATUS_OK;
}

// n rounded up to one of four sizes between a power of two and the next.
static int with_room(int n, int least) {
    int step = least;
    while (step * 8 <= n) step *= 2;
    return (n + step - 1) / step * step;
}

static int rows_of_graph(const CudaBackend *cuda, int n) {
    int rows = 1;
    while (rows < n) rows *= 2;
    return rows < decode_graph_rows(cuda) ? rows : decode_graph_rows(cuda);
}

// Everything of a step before its launch.
static Status prepare(CudaBackend *cuda, const DecodeStep *t, DecodeGraph **graph, Error *error) {
    const DecoderShape *s = cuda->shape;
    const AttendHeads heads = {s->n_heads, s->n_kv_heads, s->head_dim},
                      widest = {s->n_heads, decoder_least_kv_heads(s), decoder_most_head_dim(s)};
    SplitPlan plan;
    Status status = cuda_check_step(cuda, t->step, error);
    if (!status && !cuda->graphs) status = graphs_open(cuda, error);
    if (!status) status = cuda_reserve_handover(cuda, error);
    if (!status)
        status = cuda_split_plan(cuda, t->step, &heads, kv_layer_attending(t->kv, s->n_layers), &plan, error);
    if (status) return status;
    StageRoom room = cuda_stage_room(cuda, t->step, &plan);
    room.tokens = rows_of_graph(cuda, room.tokens);
    room.splits = with_room(room.splits, 8);
    room.pages = with_room(room.pages, 64);
    Staging staging = {t->step, t->drawn, &plan, NULL, &room};
    status = cuda_stage(cuda, &staging, error);
    if (!status) status = split_reserve(cuda, &widest, error); // not while it is captured
    if (!status) status = cuda_settle_upload(cuda, error);
    if (status) return status;
    cuda->step.kind =
        STEP_DECODING; // also of a step of any kind: but for GEMMs its ops are those of rows that decode
    take_model(cuda, t);

    GraphKey key;
    memset(&key, 0, sizeof key); // padding too: keys are compared byte by byte
    key.room = room, key.kind = t->step->kind, key.evicted = cuda->step.evicted;
    key.tempered = cuda->step.tempered;
    key.page_size = cuda->step.pages.size;
    key.step = cuda->scratch.step.memory, key.parts = cuda->scratch.parts.memory,
    key.arrived = cuda->scratch.arrived.memory;
    key.handover = cuda->scratch.handover.memory, key.slot_positions = cuda->step.slot_positions,
    key.logits = t->logits, key.x = t->x;
    return find_graph(cuda, t, &key, graph, error);
}

Status cuda_decode_graph(CudaBackend *cuda, const DecodeStep *t, Error *error) {
    DecodeGraph *graph;
    Status status = prepare(cuda, t, &graph, error);
    // No card begins a step that another cannot: they wait for each other's words.
    if (cuda->peers && !peers_meet(cuda->peers, !status) && !status)
        return error_set(error, STATUS_UNSUPPORTED, "decode: another card cannot");
    if (status) return status;
    graph->used = ++cuda->graphs->n_steps;
    return cuda_check(cudaGraphLaunch(graph->graph, cuda->device.stream), error, "decode: %d sequences",
                      t->step->n_sequences);
}
