// Linear layers measured in their step, and how fast the card reads: kernels/tuning.h.
#include "kernels/cuda/gemm/gemm.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/tuning.h"

#include <stdlib.h>

// A trial that is ready: its step as a graph, for launching the ops one by one would be what is measured of small models.
struct Measurement {
    LinearShape shape; // of the layers that go cuda->way
    cudaGraphExec_t graph;
    cudaEvent_t begin, end;
};

void measurement_close(Measurement *m) {
    if (!m) return;
    if (m->graph) cudaGraphExecDestroy(m->graph);
    if (m->begin) cudaEventDestroy(m->begin);
    if (m->end) cudaEventDestroy(m->end);
    free(m);
}

static Status measurement_open(CudaBackend *cuda, Error *error) {
    if (cuda->measurement) return STATUS_OK;
    Measurement *m = (Measurement *)calloc(1, sizeof *m);
    if (!m) return error_set(error, STATUS_MEMORY, "no memory to measure with");
    cudaError_t code = cudaEventCreate(&m->begin);
    if (code == cudaSuccess) code = cudaEventCreate(&m->end);
    Status status = cuda_check(code, error, "an event");
    if (status)
        measurement_close(m);
    else
        cuda->measurement = m;
    return status;
}

// ---- reading ---------------------------------------------------------------------------------------------------

enum { READ_AHEAD = 8 };

// Reads n pieces of 16 bytes, and writes only what cannot be: so that reading is not left out. Grid: any, block: any.
__global__ void __launch_bounds__(512) read_kernel(const uint4 *from, int64_t n, unsigned *never) {
    int64_t stride = (int64_t)gridDim.x * blockDim.x;
    uint4 sum = make_uint4(0, 0, 0, 0);
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += READ_AHEAD * stride) {
        uint4 v[READ_AHEAD];
#pragma unroll
        for (int k = 0; k < READ_AHEAD; k++) v[k] = load_streaming(from + min(i + k * stride, n - 1));
#pragma unroll
        for (int k = 0; k < READ_AHEAD; k++)
            sum.x |= v[k].x, sum.y |= v[k].y, sum.z |= v[k].z, sum.w |= v[k].w;
    }
    if ((sum.x & sum.y & sum.z & sum.w) == 0x7fc1a55e) *never = 1;
}

static void launch_read(const CudaBackend *cuda, const void *from, size_t bytes) {
    read_kernel<<<4 * cuda->device.card.n_sms, 512, 0, cuda->device.stream>>>(
        (const uint4 *)from, (int64_t)(bytes / 16), (unsigned *)cuda->scratch.rows);
}

// ---- trials ----------------------------------------------------------------------------------------------------

static const Linear *linear_of(LinearKind kind, const Layer *layer, const Head *head) {
    const Linear *const all[] = {&layer->qkv, &layer->out, &layer->gate_up, &layer->down, &head->output};
    return all[kind];
}

static LinearShape tuning_shape(const Backend *, LinearKind kind, const Layer *layer, const Head *head) {
    const Linear *w = linear_of(kind, layer, head);
    // Experts have ways of their own; and layers may lack a part.
    bool experts = layer->router && (kind == LINEAR_GATE_UP || kind == LINEAR_DOWN);
    return LinearShape{w->rows, w->cols,
                       experts || w->rows == 0 ? DTYPE_COUNT : dispatch_type((Format)w->part[0].format)};
}

// As cuda_gemm() would have it, what becomes of the sums aside: the way does not go by that.
static LinearWay way_of(const CudaBackend *cuda, const LinearShape *shape, int n, LinearWay way) {
    GemmCase c = {};
    c.kind = STEP_ANY, c.operand = cuda->operand;
    c.n = n, c.rows = shape->n_out, c.cols = shape->n_in, c.n_parts = 1;
    c.format = format_of(shape->type);
    c.table = cuda->tuned ? &cuda->dispatch : NULL, c.way = way;
    way = dispatch_linear(&cuda->device.card, &c);
    bool tensor_cores = dispatch_flat(&cuda->device.card, c.operand, c.format) != FLAT_PLAIN;
    return way == LINEAR_FLAT && c.way == LINEAR_FLAT && !tensor_cores ? LINEAR_BY_TABLE : way;
}

LinearWay measured_way(const CudaBackend *cuda, int rows, int cols, DType type) {
    if (cuda->way == LINEAR_BY_TABLE) return LINEAR_BY_TABLE;
    const LinearShape *s = &cuda->measurement->shape;
    return s->n_out == rows && s->n_in == cols && s->type == type ? cuda->way : LINEAR_BY_TABLE;
}

static LinearWay tuning_choice(const Backend *backend, const LinearShape *shape, int n) {
    return way_of((const CudaBackend *)backend, shape, n, LINEAR_BY_TABLE);
}

static Status capture_trial(CudaBackend *cuda, const LinearTrial *t, Error *error) {
    Measurement *m = cuda->measurement;
    cudaStream_t stream = cuda->device.stream;
    cudaGraph_t graph = NULL;
    if (m->graph) cudaGraphExecDestroy(m->graph);
    m->graph = NULL;
    Status status =
        cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), error, "capturing");
    if (status) return status;
    status = t->pass(t->context, &t->buffers, error);
    cudaError_t code = cudaStreamEndCapture(stream, &graph);
    if (!status) status = cuda_check(code, error, "capturing");
    if (!status) status = cuda_check(cudaGraphInstantiate(&m->graph, graph, 0), error, "a graph of layers");
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError(); // of a capture that was broken off
    return status;
}

static Status tuning_prepare(Backend *backend, const LinearTrial *t, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    if (way_of(cuda, &t->shape, cuda->step.n_tokens, t->way) == LINEAR_BY_TABLE) return STATUS_UNSUPPORTED;
    Status status = measurement_open(cuda, error);
    if (!status) cuda->way = t->way, cuda->measurement->shape = t->shape;
    if (!status) status = t->pass(t->context, &t->buffers, error); // sees to scratch, plans and code
    if (!status) status = capture_trial(cuda, t, error);
    cuda->way = LINEAR_BY_TABLE;
    return status ? error_prefix(error, "measuring: ") : STATUS_OK;
}

static Status tuning_run(Backend *backend, double *seconds, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    cudaStream_t stream = cuda->device.stream;
    Measurement *m = cuda->measurement;
    if (!m || !m->graph) return error_set(error, STATUS_USAGE, "cuda: nothing is ready to be measured");
    float milliseconds = 0;
    cudaError_t code = cudaEventRecord(m->begin, stream);
    if (code == cudaSuccess) code = cudaGraphLaunch(m->graph, stream);
    if (code == cudaSuccess) code = cudaEventRecord(m->end, stream);
    if (code == cudaSuccess) code = cudaEventSynchronize(m->end);
    if (code == cudaSuccess) code = cudaEventElapsedTime(&milliseconds, m->begin, m->end);
    *seconds = 1e-3 * milliseconds;
    return cuda_check(code, error, "measuring");
}

// ---- the card --------------------------------------------------------------------------------------------------

enum { READ_BYTES = 1 << 30, READ_RUNS = 12 };

static Status time_reading(CudaBackend *cuda, const char *memory, size_t bytes, double *best, Error *error) {
    const Measurement *m = cuda->measurement;
    cudaStream_t stream = cuda->device.stream;
    cudaError_t code = cudaMemsetAsync((void *)memory, 0, bytes, stream);
    *best = 0;
    for (int i = 0; i < READ_RUNS && code == cudaSuccess; i++) {
        float milliseconds = 0;
        code = cudaEventRecord(m->begin, stream);
        launch_read(cuda, memory, bytes);
        if (code == cudaSuccess) code = cudaEventRecord(m->end, stream);
        if (code == cudaSuccess) code = cudaEventSynchronize(m->end);
        if (code == cudaSuccess) code = cudaEventElapsedTime(&milliseconds, m->begin, m->end);
        if (milliseconds > 0 && (double)bytes / milliseconds * 1e3 > *best)
            *best = (double)bytes / milliseconds * 1e3;
    }
    return cuda_check(code, error, "reading %zu bytes", bytes);
}

static Status tuning_read_speed(Backend *backend, double *bytes_a_second, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Status status = measurement_open(cuda, error);
    char *memory = NULL;
    size_t bytes = READ_BYTES;
    while (!status && bytes > (64 << 20) && cudaMalloc(&memory, bytes) != cudaSuccess) {
        cudaGetLastError();
        memory = NULL, bytes /= 2; // a full card: of less
    }
    if (!status && !memory)
        status = error_set(error, STATUS_MEMORY, "cuda: no memory to measure reading with");
    if (!status) status = time_reading(cuda, memory, bytes, bytes_a_second, error);
    if (memory) cudaFree(memory);
    return status;
}

static const char *tuning_built_in(const Backend *backend) {
    return dispatch_class(&((const CudaBackend *)backend)->device.card);
}

static int tuning_library_from(const Backend *backend, DType type) {
    return dispatch_library_from(&((const CudaBackend *)backend)->device.card, type);
}

const TuningOps CUDA_TUNING = {
    .card = device_card,
    .built_in = tuning_built_in,
    .library_from = tuning_library_from,
    .shape = tuning_shape,
    .choice = tuning_choice,
    .prepare = tuning_prepare,
    .run = tuning_run,
    .read_speed = tuning_read_speed,
};
