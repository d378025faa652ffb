#include "kernels/cpu/cpu.h"

Status cpu_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params, int32_t *ids,
                  Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const int n = cpu->shape->vocab_size;
    if (n_rows < 1 || n_rows > cpu->max_logits)
        return error_set(error, STATUS_USAGE, "sample: %d rows: 1 to %d", n_rows, cpu->max_logits);
    for (int i = 0; i < n_rows; i++) {
        Error of_row;
        Status status =
            sample_logits(logits + (int64_t)i * n, n, cpu->sampling, &params[i], &ids[i], &of_row);
        if (status && status != STATUS_DEVICE) return error_set(error, status, "%s", of_row.message);
    }
    return STATUS_OK;
}
