#include "kernels/cpu/cpu.h"

#include <math.h>

Status cpu_sample(Backend *backend, const float *logits, const SampleParams *params, int32_t *id,
                  Error *error) {
    int n = cpu_backend(backend)->shape->vocab_size;
    (void)params;
    *id = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(logits[i])) return error_set(error, STATUS_DEVICE, "sample: logit %d is not a number", i);
        if (logits[i] > logits[*id]) *id = i;
    }
    return STATUS_OK;
}
