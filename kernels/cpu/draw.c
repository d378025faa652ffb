#include "kernels/cpu/cpu.h"

Status cpu_sample(Backend *backend, const float *logits, const SampleParams *params, int32_t *id,
                  Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    return sample_logits(logits, cpu->shape->vocab_size, cpu->sampling, params, id, error);
}
