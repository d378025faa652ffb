// A plug-in for tests: the CPU's ops under the name "cuda", which fail as $FAULTY wants. It stands where
// libpalaver-cuda.so would, so that what palaver makes of a GPU's troubles can be tested where there is none.
//
//   no-driver   opening finds no driver, and no card
//   old-driver  a driver for CUDA 12.4
//   old-card    a card of compute capability 7.5
//   two-cards   an old one, and one that works; else there is one
//   memory      a card with 1 MB left
//   filled      one that another program fills while the second layer is loaded
//   steps       one with 8 MB left, whose steps take 1 KB for each slot that a row may see
//   fatal       from the second reply on every op says that the device is lost
//   halfway     with the fifth token of a reply
//   no-w8       kernels for the types of files alone
//   (else)      a GPU that works, whose linear layers are given made-up times: a GEMV takes 10 us for each row, a flat
//               GEMM 25 us for up to 64 of them, the library 50 us
//
// As on a GPU, linear layers and the output matrix lie in memory of the backend's own.
//
// The CPU's ops are those of the program that loads it: it is linked with -rdynamic.
#include "kernels/cuda/devices.h"
#include "kernels/ops.h"
#include "kernels/tuning.h"

#include <stdlib.h>
#include <string.h>

static Ops faulty; // filled once, when it is asked for

// Of the one backend that is open.
static DispatchTable table; // n 0: none was given
static int n_rows;          // of the step that was begun last
static double seconds;      // that the trial takes
static int n_layers;        // loaded, or tried

static bool wants(const char *fault) {
    const char *wanted = getenv("FAULTY");
    return wanted && !strcmp(wanted, fault);
}

// ---- cards: what CUDA would say of them, and what the plug-in says then -------------------------------------------

static const DeviceFacts CARDS[] = {{"Paper Cat", 75, 500000000}, {"Paper Tiger", 80, 1000000000}};

static Status check(bool fully, Error *error) {
    DevicesFound found = {.driver = 13000, .runtime = 13000, .n = 1};
    if (wants("no-driver")) found = (DevicesFound){.code = DEVICES_INSUFFICIENT_DRIVER, .runtime = 13000};
    if (wants("old-driver"))
        found = (DevicesFound){.code = DEVICES_INSUFFICIENT_DRIVER, .driver = 12040, .runtime = 13000};
    return devices_check(&found, fully, error);
}

static const DeviceFacts *cards(int *n) {
    *n = wants("two-cards") ? 2 : 1;
    return wants("two-cards") || wants("old-card") ? CARDS : CARDS + 1;
}

static Status choose(const char *device, Error *error) {
    int n, index;
    Status status = check(false, error);
    const DeviceFacts *there = cards(&n);
    return status ? status : devices_choose(device, there, n, &index, error);
}

static Status faulty_devices(char *text, size_t size, Error *error) {
    int n;
    Status status = check(true, error);
    const DeviceFacts *there = cards(&n);
    if (!status) devices_list(there, n, text, size);
    return status;
}

static Status faulty_open(const BackendOptions *options, Backend **backend, Error *error) {
    Status status = choose(options->device, error);
    if (status) return status;
    table = options->dispatch ? *options->dispatch : (DispatchTable){0};
    status = ops_cpu()->open(options, backend, error);
    if (status == STATUS_OK) (*backend)->ops = &faulty;
    return status;
}

static void faulty_memory(const Backend *backend, int64_t *total, int64_t *available) {
    ops_cpu()->memory(backend, total, available);
    if (wants("memory")) *total = 1 << 30, *available = 1000000;
    if (wants("filled")) *total = 1 << 30, *available = n_layers > 1 ? 1000 : 900000000;
    if (wants("steps")) *total = 1 << 30, *available = 8000000;
}

static int64_t faulty_scratch_bytes(const Backend *backend, int n_rows, int window) {
    int64_t bytes = ops_cpu()->scratch_bytes(backend, n_rows, window);
    return wants("steps") ? bytes + (int64_t)n_rows * window * 1000 : bytes;
}

// ---- weights that are uploaded: what load_layer() was given may be gone afterwards ------------------------------

static void *uploaded[4096];
static int n_uploaded;

static Status upload(Matrix *m, Error *error) {
    const size_t bytes = m->data ? (size_t)(m->rows * dtype_row_bytes(m->type, m->cols)) : 0;
    if (bytes == 0) return STATUS_OK;
    void *copy = n_uploaded < 4096 ? malloc(bytes) : NULL;
    if (!copy) return error_set(error, STATUS_MEMORY, "no room for a matrix");
    memcpy(copy, m->data, bytes);
    m->data = uploaded[n_uploaded++] = copy;
    return STATUS_OK;
}

static Status faulty_load_layer(Backend *backend, const LayerWeights *host, Layer **layer, Error *error) {
    LayerWeights w = *host;
    Matrix *all[] = {&w.wq, &w.wk, &w.wv, &w.wo, &w.w_gate, &w.w_up, &w.w_down};
    Status status = STATUS_OK;
    if (++n_layers > 1 && wants("filled"))
        return error_set(error, STATUS_MEMORY, "cuda: no room for a layer");
    for (int i = 0; i < 7 && !status; i++) status = upload(all[i], error);
    return status ? status : ops_cpu()->load_layer(backend, &w, layer, error);
}

static Status faulty_load_head(Backend *backend, const HeadWeights *host, Head **head, Error *error) {
    HeadWeights w = *host;
    Status status = upload(&w.output, error);
    return status ? status : ops_cpu()->load_head(backend, &w, head, error);
}

static void faulty_close(Backend *backend) {
    ops_cpu()->close(backend);
    while (n_uploaded > 0) free(uploaded[--n_uploaded]);
}

// ---- steps ----------------------------------------------------------------------------------------------------

// The first step of a position beyond the first turn's meets the fault, or one within the reply.
static Status faulty_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error) {
    static int n_prompts, n_decoded;
    n_rows = step->n_tokens;
    if (step->n_tokens > 1)
        n_prompts++;
    else
        n_decoded++;
    if ((wants("fatal") && n_prompts > 1) || (wants("halfway") && n_decoded > 4))
        return error_set(error, STATUS_FATAL,
                         "cuda: begin: %d tokens: an illegal memory access was encountered", step->n_tokens);
    return ops_cpu()->begin(backend, step, kv, error);
}

// ---- made-up times ------------------------------------------------------------------------------------------

static Status faulty_card(const char *device, CardFacts *facts, Error *error) {
    *facts = (CardFacts){.name = "Paper Tiger", .compute = 70, .driver = 13000, .runtime = 13000};
    return choose(device, error);
}

static const char *faulty_built_in(const Backend *backend) {
    (void)backend;
    return "paper tigers";
}

static int faulty_library_from(const Backend *backend, DType type) {
    (void)backend, (void)type;
    return 193;
}

static LinearShape faulty_shape(const Backend *backend, LinearKind kind, const Layer *layer,
                                const Head *head) {
    (void)backend, (void)layer, (void)head;
    return (LinearShape){100 + (int)kind, 64, DTYPE_F16};
}

static LinearWay faulty_choice(const Backend *backend, const LinearShape *shape, int n) {
    (void)backend;
    for (int i = 0; i < table.n; i++)
        if (table.rows[i].n_out == shape->n_out)
            return n < table.rows[i].flat_from      ? LINEAR_GEMV
                   : n < table.rows[i].library_from ? LINEAR_FLAT
                                                    : LINEAR_LIBRARY;
    return LINEAR_LIBRARY;
}

static Status faulty_prepare(Backend *backend, const LinearTrial *trial, Error *error) {
    (void)backend, (void)error;
    if (trial->way == LINEAR_GEMV && n_rows > DISPATCH_GEMV_MOST) return STATUS_UNSUPPORTED;
    double flat = n_rows <= 64 ? 25e-6 : 25e-6 + 1e-6 * n_rows;
    seconds = trial->way == LINEAR_GEMV ? 10e-6 * n_rows : trial->way == LINEAR_FLAT ? flat : 50e-6;
    return STATUS_OK;
}

static Status faulty_run(Backend *backend, double *time, Error *error) {
    (void)backend, (void)error;
    *time = seconds;
    return STATUS_OK;
}

static Status faulty_read_speed(Backend *backend, double *bytes_a_second, Error *error) {
    (void)backend, (void)error;
    *bytes_a_second = 123e9;
    return STATUS_OK;
}

static const TuningOps FAULTY_TUNING = {
    .card = faulty_card,
    .built_in = faulty_built_in,
    .library_from = faulty_library_from,
    .shape = faulty_shape,
    .choice = faulty_choice,
    .prepare = faulty_prepare,
    .run = faulty_run,
    .read_speed = faulty_read_speed,
};

__attribute__((visibility("default"))) const Ops *palaver_cuda_ops(int abi);

const Ops *palaver_cuda_ops(int abi) {
    faulty = *ops_cpu();
    faulty.name = "cuda";
    faulty.devices = faulty_devices;
    faulty.open = faulty_open;
    faulty.memory = faulty_memory;
    faulty.scratch_bytes = faulty_scratch_bytes;
    faulty.begin = faulty_begin;
    faulty.load_layer = faulty_load_layer;
    faulty.load_head = faulty_load_head;
    faulty.close = faulty_close;
    faulty.w8 = !wants("no-w8");
    faulty.tuning = &FAULTY_TUNING;
    return abi == OPS_ABI ? &faulty : NULL;
}
