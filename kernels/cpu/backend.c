// The CPU backend's table, its opening and closing, and its memory, which is host memory.
#include "kernels/alibi.h"
#include "kernels/base/clock.h"
#include "kernels/base/machine/memory.h"
#include "kernels/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64

// ---- opening ------------------------------------------------------------------------------------------

static Status check_options(const BackendOptions *o, Error *error) {
    const DecoderShape *s = o->shape;
    if (s->n_layers < 1 || s->hidden_size < 1 || s->n_heads < 1 || s->n_kv_heads < 1 || s->head_dim < 1 ||
        s->intermediate_size < 1 || s->vocab_size < 1)
        return error_set(error, STATUS_UNSUPPORTED, "cpu: a decoder with a dimension of zero or less");
    if (s->n_heads % s->n_kv_heads != 0)
        return error_set(error, STATUS_UNSUPPORTED, "cpu: %d heads cannot share %d KV heads evenly",
                         s->n_heads, s->n_kv_heads);
    const bool fits =
        s->heads_of_layers || s->rope.rotary_dim <= s->head_dim; // else the model has seen to it
    if (s->rope.rotary_dim < 0 || s->rope.rotary_dim % 2 != 0 || !fits)
        return error_set(error, STATUS_UNSUPPORTED, "cpu: a rotary dimension of %d in heads of %d",
                         s->rope.rotary_dim, s->head_dim);
    if (o->max_tokens < 1 || o->max_logits < 1)
        return error_set(error, STATUS_USAGE, "cpu: steps of %d tokens and %d rows of logits", o->max_tokens,
                         o->max_logits);
    if (o->device != NULL && strncmp(o->device, "cpu:", 4) == 0 && strcmp(o->device, "cpu:reference") != 0 &&
        strcmp(o->device, "cpu:exact") != 0)
        return error_set(error, STATUS_USAGE, "device \"%s\": there are cpu, cpu:exact and cpu:reference",
                         o->device);
    return STATUS_OK;
}

// "cpu": the fastest loops for this machine, "cpu:exact" with exact products of 16-bit floats; "cpu:reference": the plain
// ones.
static const Loops *choose_loops(const char *device) {
    if (device != NULL && strcmp(device, "cpu:reference") == 0) return loops_reference();
    const Loops *fast = loops_fast();
    return fast ? fast : loops_reference();
}

static void make_exact(CpuBackend *cpu) {
    cpu->exact_loops = *cpu->loops;
    cpu->exact_loops.quantize_fixed = NULL, cpu->exact_loops.fill_fixed = NULL;
    snprintf(cpu->exact_name, sizeof cpu->exact_name, "%s, exact", cpu->loops->name);
    cpu->exact_loops.name = cpu->exact_name;
    cpu->loops = &cpu->exact_loops;
}

static int choose_threads(const BackendOptions *options) {
    return options->n_threads > 0 ? options->n_threads : threads_available();
}

static CpuBackend with_options(const BackendOptions *options) {
    return (CpuBackend){
        .base.ops = ops_cpu(),
        .shape = options->shape,
        .max_tokens = options->max_tokens,
        .max_logits = options->max_logits,
        .loops = choose_loops(options->device),
        .makes_up = options->random_weights,
    };
}

static int64_t cpu_scratch_bytes(const Backend *backend, int n_rows, int n_slots) {
    (void)n_rows, (void)n_slots; // they share what a step of max_tokens has
    CpuBackend cpu = *(const CpuBackend *)backend;
    return cpu_scratch_layout(&cpu, threads_count(cpu.threads), NULL) +
           sample_scratch_bytes(cpu.shape->vocab_size);
}

static void cpu_close(Backend *backend) {
    if (backend == NULL) return;
    CpuBackend *cpu = cpu_backend(backend);
    cpu_free_weights(cpu);
    threads_close(cpu->threads);
    sample_scratch_close(cpu->sampling);
    free(cpu->pages);
    free(cpu->scratch);
    free(cpu->stamps);
    free(cpu);
}

static Status cpu_open(const BackendOptions *options, Backend **out, Error *error) {
    Status status = check_options(options, error);
    if (status) return status;
    CpuBackend *cpu = malloc(sizeof *cpu);
    if (cpu == NULL) return error_set(error, STATUS_MEMORY, "cpu: not enough memory to open");
    *cpu = with_options(options);
    if (options->device && !strcmp(options->device, "cpu:exact")) make_exact(cpu);
    status = threads_open(choose_threads(options), &cpu->threads, error);
    if (!status) status = sample_scratch_open(cpu->shape->vocab_size, &cpu->sampling, error);
    if (!status) {
        int n_threads = threads_count(cpu->threads);
        int64_t bytes = cpu_scratch_layout(cpu, n_threads, NULL);
        cpu->scratch = bytes < 0 ? NULL : memory_of_large_pages(bytes);
        if (cpu->scratch == NULL)
            status = error_set(error, STATUS_MEMORY,
                               "cpu: no memory to work on %d tokens at a time; take fewer", cpu->max_tokens);
        else
            cpu_scratch_layout(cpu, n_threads, cpu->scratch);
    }
    for (int h = 0; !status && h < cpu->shape->n_heads; h++)
        cpu->slopes[h] = alibi_slope(h, cpu->shape->n_heads) *
                         (cpu->shape->alibi_scaled ? cpu->shape->attention_scale : 1);
    if (status) {
        cpu_close(&cpu->base);
        return status;
    }
    *out = &cpu->base;
    return STATUS_OK;
}

static void cpu_describe(const Backend *backend, char *text, size_t size) {
    const CpuBackend *cpu = (const CpuBackend *)backend;
    int n = threads_count(cpu->threads);
    snprintf(text, size, "%d thread%s, %s", n, n == 1 ? "" : "s", cpu->loops->name);
}

const char *cpu_loops_name(const Backend *backend) {
    return backend->ops == ops_cpu() ? ((const CpuBackend *)backend)->loops->name : NULL;
}

static void cpu_memory(const Backend *backend, int64_t *total, int64_t *available) {
    (void)backend;
    memory_available("", total, available);
}

// ---- memory -------------------------------------------------------------------------------------------

static Status cpu_alloc(Backend *backend, size_t bytes, void **memory, Error *error) {
    (void)backend;
    size_t padded = bytes > SIZE_MAX - CACHE_LINE ? SIZE_MAX : bytes + CACHE_LINE;
    char *start = calloc(1, padded); // calloc: large ones come as untouched zero pages
    if (start == NULL) return error_set(error, STATUS_MEMORY, "cpu: no memory for %zu MB", bytes >> 20);
    // The byte before the block tells free() how far it was moved up for alignment: 1..64.
    size_t shift = CACHE_LINE - (uintptr_t)start % CACHE_LINE;
    start[shift - 1] = (char)shift;
    *memory = start + shift;
    // cppcheck-suppress memleak; cpu_free() finds the start again
    return STATUS_OK;
}

static void cpu_free(Backend *backend, void *memory) {
    (void)backend;
    if (memory == NULL) return;
    char *start = memory;
    free(start - start[-1]);
}

static Status cpu_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error) {
    (void)backend, (void)error;
    memcpy(memory, host, bytes);
    return STATUS_OK;
}

static Status cpu_read_floats(Backend *backend, const void *activations, int64_t n, float *host,
                              Error *error) {
    (void)backend, (void)error;
    memcpy(host, activations, (size_t)n * sizeof *host);
    return STATUS_OK;
}

static Status cpu_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error) {
    (void)backend, (void)error;
    memcpy(host, memory, bytes);
    return STATUS_OK;
}

static Status cpu_softmax_counts(Backend *backend, SoftmaxCounts *counts, Error *error) {
    (void)error;
    const AttendCounts *from = &cpu_backend(backend)->counts;
    *counts = (SoftmaxCounts){from->parts, from->again};
    return STATUS_OK;
}

// ---- profiles -----------------------------------------------------------------------------------------

static Status cpu_stamp(Backend *backend, int i, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    if (i < 0 || i >= OPS_MAX_STAMPS) return error_set(error, STATUS_USAGE, "cpu: stamp %d", i);
    if (!cpu->stamps) cpu->stamps = malloc(OPS_MAX_STAMPS * sizeof *cpu->stamps);
    if (!cpu->stamps) return error_set(error, STATUS_MEMORY, "cpu: no memory for a profile");
    cpu->stamps[i] = clock_seconds();
    return STATUS_OK;
}

static Status cpu_stamp_seconds(Backend *backend, int n, double *seconds, Error *error) {
    const CpuBackend *cpu = cpu_backend(backend);
    if (n < 0 || n >= OPS_MAX_STAMPS || !cpu->stamps)
        return error_set(error, STATUS_USAGE, "cpu: %d stamps", n);
    for (int i = 0; i < n; i++) seconds[i] = cpu->stamps[i + 1] - cpu->stamps[i];
    return STATUS_OK;
}

// Measured with SmolLM2-135M in Q4_1 on two cores of a Zen 3: 2, 3, 4, 6 and 8 tokens take 1.5, 1.56, 1.79, 2.08 and 2.26
// times as long as one.
static double cpu_step_seconds(const Backend *backend, double bytes, int n) {
    (void)backend;
    return bytes / 20e9 * (n > 1 ? 1.2 + 0.14 * n : 1);
}

// ---- the table ----------------------------------------------------------------------------------------

const Ops *ops_cpu(void) {
    static const Ops OPS = {
        .name = "cpu",
        .activation_bytes = sizeof(float),
        .chunk = 512, // enough to unpack weights for, little enough to stop soon
        .w8 = true,
        .open = cpu_open,
        .close = cpu_close,
        .describe = cpu_describe,
        .memory = cpu_memory,
        .scratch_bytes = cpu_scratch_bytes,
        .alloc = cpu_alloc,
        .free = cpu_free,
        .write = cpu_write,
        .read = cpu_read,
        .read_floats = cpu_read_floats,
        .load_layer = cpu_load_layer,
        .load_head = cpu_load_head,
        .begin = cpu_begin,
        .embed = cpu_embed,
        .qkv = cpu_qkv,
        .narrow = cpu_narrow,
        .attend = cpu_attend,
        .out = cpu_out,
        .gate_up = cpu_gate_up,
        .down = cpu_down,
        .logits = cpu_logits,
        .cache_attention = cpu_cache_attention,
        .copy_slots = cpu_copy_slots,
        .shift_keys = cpu_shift_keys,
        .sample = cpu_sample,
        .stamp = cpu_stamp,
        .stamp_seconds = cpu_stamp_seconds,
        .softmax_counts = cpu_softmax_counts,
        .layer_weights = cpu_layer_weights,
        .step_seconds = cpu_step_seconds,
    };
    return &OPS;
}
