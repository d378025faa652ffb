#include "engine/profile.h"

#include <stdlib.h>

const char *profile_op_name(ProfileOp op) {
    static const char *const NAMES[PROFILE_N_OPS] = {"begin",   "embed", "qkv",    "attend", "out",
                                                     "gate_up", "down",  "logits", "sample"};
    return NAMES[op];
}

Status profile_begin(Profile *profile, Backend *backend, Error *error) {
    profile->n = 0;
    return backend->ops->stamp(backend, 0, error);
}

Status profile_mark(Profile *profile, Backend *backend, ProfileOp op, Error *error) {
    profile->marks[profile->n] = (unsigned char)op;
    Status status = backend->ops->stamp(backend, ++profile->n, error);
    if (status || profile->n + 1 < OPS_MAX_STAMPS) return status;
    status = profile_end(profile, backend, error);
    return status ? status : profile_begin(profile, backend, error);
}

Status profile_end(Profile *profile, Backend *backend, Error *error) {
    double *seconds = malloc(((size_t)profile->n + 1) * sizeof *seconds);
    if (!seconds) return error_set(error, STATUS_MEMORY, "no memory for a profile");
    Status status = backend->ops->stamp_seconds(backend, profile->n, seconds, error);
    for (int i = 0; i < profile->n && !status; i++) {
        profile->seconds[profile->marks[i]] += seconds[i];
        profile->calls[profile->marks[i]]++;
    }
    free(seconds);
    if (backend->ops->kernels) backend->ops->kernels(backend, profile->kernels, sizeof profile->kernels);
    profile->n = 0;
    return status;
}
