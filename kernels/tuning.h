// What a backend offers to have its linear layers measured: `palaver tune`, `palaver bench --dispatch`.
#ifndef PALAVER_KERNELS_TUNING_H
#define PALAVER_KERNELS_TUNING_H

#include "kernels/dispatch_table.h"
#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a table was measured on.
typedef struct CardFacts {
    char name[256];      // "NVIDIA H200"
    int compute;         // of the code that runs there, times ten: 80 where a Hopper runs code for that
    int driver, runtime; // CUDA's version numbers, as 13000
    int64_t available;   // bytes of its memory that are free
} CardFacts;

// The linear layers, by the op that they belong to.
typedef enum LinearKind {
    LINEAR_QKV,
    LINEAR_OUT,
    LINEAR_GATE_UP,
    LINEAR_DOWN,
    LINEAR_LOGITS,
    LINEAR_N_KINDS
} LinearKind;

// W as it lies on the device; several matrices over the same input are one, of the first one's type.
typedef struct LinearShape {
    int n_out, n_in;
    DType type; // DTYPE_COUNT: one whose kernels are not chosen by tables
} LinearShape;

// Linear layers of one shape and type, measured where they stand: in the step that was begun last, in which they go one way
// and all others as the table in force has it. By itself a layer may be fastest by another: what of its kernel overlaps those
// beside it does not show then.
typedef struct LinearTrial {
    LinearShape shape;
    LinearWay way; // LINEAR_BY_TABLE: as the table in force has it
    // The step in hand, all of it (DecodeStep.pass); what is in the buffers afterwards is worthless.
    Status (*pass)(const void *context, const PassBuffers *buffers, Error *error);
    const void *context;
    PassBuffers buffers;
} LinearTrial;

typedef struct TuningOps {
    // Of the device that BackendOptions.device would open. STATUS_DEVICE: there is none, and why; STATUS_USAGE: its
    // name.
    Status (*card)(const char *device, CardFacts *facts, Error *error);
    // What the built-in table was made for: "Hopper".
    const char *(*built_in)(const Backend *backend);
    // From how many rows on that has the library for weights of a type; 0: it has none of it.
    int (*library_from)(const Backend *backend, DType type);
    LinearShape (*shape)(const Backend *backend, LinearKind kind, const Layer *layer, const Head *head);
    // The way that n rows of a step of kind ANY take by the table in force.
    LinearWay (*choice)(const Backend *backend, const LinearShape *shape, int n);
    // Makes a trial ready, and forgets the one before. STATUS_UNSUPPORTED, without an error message: the way has no
    // kernel for so many rows of this shape.
    Status (*prepare)(Backend *backend, const LinearTrial *trial, Error *error);
    // Runs the step once. *seconds: on the device.
    Status (*run)(Backend *backend, double *seconds, Error *error);
    // Bytes a second at which a kernel that only reads goes through memory much larger than the caches.
    Status (*read_speed)(Backend *backend, double *bytes_a_second, Error *error);
} TuningOps;

#ifdef __cplusplus
}
#endif
#endif
