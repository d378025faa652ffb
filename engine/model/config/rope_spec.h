// What files say about rotary frequencies: rope_spec.c reads it, model_frequencies.c computes with it.
#ifndef PALAVER_ENGINE_ROPE_SPEC_H
#define PALAVER_ENGINE_ROPE_SPEC_H

#include "engine/model/model.h"
#include "engine/model/config/source.h"

// Numbers by which the frequencies are divided one by one: of config.json or of a GGUF file.
typedef struct RopeFactors {
    const char *name;
    const json_t *list;
    const CheckpointTensor *tensor; // both NULL: not said
} RopeFactors;

typedef struct RopeSpec {
    const char *
        layers; // the object within rope_parameters that is meant: "full_attention"; NULL: all layers have one
    char type[32];
    const char *type_key;                     // what says it in config.json, "rope_type" or "type"
    double base, factor;                      // NaN: not said
    double rotary_part;                       // of the head, 0 to 1 (Hugging Face)
    bool has_part;                            // it is said
    int64_t rotary_dim;                       // 0: not said, the part decides
    int64_t original_context;                 // before scaling; 0: not said
    double low_freq_factor, high_freq_factor; // llama3
    double beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim; // YaRN
    double short_mscale,
        long_mscale;         // LongRoPE's magnitude of either kind, where the class has them; NaN: not said
    double alpha;            // NTK's: the base is multiplied by alpha^(dim/(dim - 2)); NaN: not said
    double temperature_beta; // 0: none
    double magnitude;        // of the schemes that have none of their own
    bool truncate;
    RopeFactors divisors;                    // of every length: GGUF's rope_freqs.weight
    RopeFactors short_factors, long_factors; // LongRoPE
} RopeSpec;

// Enters what the files say into *spec, which holds the defaults.
Status rope_spec_read(RopeSpec *spec, const ParamSource *source, Error *error);

// Settles which keys of the files mean something under a scheme: what is not of it stays unread.
void rope_spec_take_keys(const RopeSpec *spec, const ParamSource *source, RopeScaling scaling,
                         int64_t context);

// Divides inv_freq [n] by `factors`: STATUS_FILE unless they are n positive numbers.
Status rope_spec_divide(const RopeFactors *factors, const ParamSource *source, double *inv_freq, int n,
                        Error *error);

#endif
