// How long each op of a step takes, by the backend's own stamps.
//
// A step that is profiled takes the ops one by one, also where a backend could take a token through the model in one
// go (ops->decode): what is measured are the ops, not how they overlap in there.
#ifndef PALAVER_ENGINE_PROFILE_H
#define PALAVER_ENGINE_PROFILE_H

#include "kernels/ops.h"

typedef enum ProfileOp {
    PROFILE_BEGIN,
    PROFILE_EMBED,
    PROFILE_QKV,
    PROFILE_ATTEND,
    PROFILE_OUT,
    PROFILE_GATE_UP,
    PROFILE_DOWN,
    PROFILE_LOGITS,
    PROFILE_SAMPLE,
    PROFILE_N_OPS
} ProfileOp;

typedef struct Profile {
    double seconds[PROFILE_N_OPS]; // in all
    int64_t calls[PROFILE_N_OPS];
    bool narrowed;                       // the last step was, to a token (engine/narrow.h)
    char kernels[256];                   // that the last step took, by op; empty where there is no choice
    int n;                               // ops since the first stamp that are not added up yet
    unsigned char marks[OPS_MAX_STAMPS]; // [n] which
} Profile;

const char *profile_op_name(ProfileOp op); // "gate_up"

// The first stamp: before the ops that follow.
Status profile_begin(Profile *profile, Backend *backend, Error *error);
// After an op. Many ops are more than there are stamps: then those so far are added up first, which waits for them.
Status profile_mark(Profile *profile, Backend *backend, ProfileOp op, Error *error);
// Waits, and adds up what was marked since the first stamp.
Status profile_end(Profile *profile, Backend *backend, Error *error);

#endif
