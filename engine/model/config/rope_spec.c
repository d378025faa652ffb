// Rotary frequencies as config.json and GGUF metadata tell them.
#include "engine/model/config/rope_spec.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"
#include "kernels/base/text/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char FULL[] = "full_attention";
static const char ORIGINAL[] = "original_max_position_embeddings";

// The keys within rope_scaling and rope_parameters whose null fails in transformers, or is false where absence is true.
static const char *const NEVER_NULL[] = {"rope_type", "type", "rope_theta", "partial_rotary_factor",
                                         "truncate",  NULL};

static bool is_key_of(const char *key, const char *const *keys) {
    while (*keys && strcmp(*keys, key) != 0) keys++;
    return *keys != NULL;
}

// rope_parameters (transformers 5) holds the base as well; rope_scaling (before) does not, and may be null. Where both
// are there transformers takes this one. Where layers differ, rope_parameters holds an object for each kind, and
// rope_scaling is that of full attention.
static const json_t *config_object(const RopeSpec *spec, const ParamSource *source, const char **name) {
    if (spec->layers) {
        const bool full = strcmp(spec->layers, FULL) == 0;
        const json_t *all = json_object_get(source->config, "rope_parameters"),
                     *own = json_object_get(all, spec->layers);
        *name = full ? "rope_parameters.full_attention" : "rope_parameters.sliding_attention";
        if (json_is_object(own) || !full) return own;
        *name = "rope_scaling";
        return json_object_get(source->config, *name);
    }
    const json_t *object = json_object_get(source->config, "rope_scaling");
    *name = "rope_scaling";
    if (json_object_size(object) > 0) return object;
    *name = "rope_parameters";
    return json_object_get(source->config, "rope_parameters");
}

static Status numbers_from_config(RopeSpec *spec, const ParamSource *source, const json_t *object,
                                  const char *what, Error *error) {
    double unasked;
    const struct {
        const char *key;
        double *value;
    } numbers[] = {
        {"rope_theta", &spec->base},
        {"partial_rotary_factor", &spec->rotary_part},
        {"factor", &spec->factor},
        {"low_freq_factor", &spec->low_freq_factor},
        {"high_freq_factor", &spec->high_freq_factor},
        {"beta_fast", &spec->beta_fast},
        {"beta_slow", &spec->beta_slow},
        {"attention_factor", &spec->attention_factor},
        {"mscale", &spec->mscale},
        {"mscale_all_dim", &spec->mscale_all_dim},
        {"alpha", source->architecture->rope_alpha ? &spec->alpha : &unasked},
        {"short_mscale", &spec->short_mscale},
        {"long_mscale", &spec->long_mscale},
        {"llama_4_scaling_beta", source->architecture->temperature ? &spec->temperature_beta : &unasked},
    };
    const bool own_base =
        spec->layers && strcmp(spec->layers, FULL) != 0 && source->architecture->default_window_base > 0;
    Status status = param_number(source, (Key){own_base ? "rope_local_base_freq" : "rope_theta", NULL},
                                 &spec->base, error);
    if (!status)
        status = param_number(source, (Key){"partial_rotary_factor", NULL}, &spec->rotary_part, error);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++)
        status = json_read_number(object, what, numbers[i].key, numbers[i].value, error);
    const char *const outside = source_config_key(source, "partial_rotary_factor");
    spec->has_part = json_is_number(json_object_get(object, "partial_rotary_factor")) ||
                     json_is_number(json_object_get(source->config, outside));
    if (!status && !source->architecture->partial_rotary && spec->rotary_part != 1) {
        // transformers would turn the whole head, other programs this part of it
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: partial_rotary_factor is %g: a %s model's heads are turned as a whole",
                         source->path, spec->rotary_part, source->architecture->name);
    }
    return status;
}

// The scheme's name, which older files have under another key; where both are there they must mean the same.
static Status type_from_config(RopeSpec *spec, const ParamSource *source, const json_t *object,
                               const char *what, Error *error) {
    static const char *const SAME[][2] = {{"none", "default"}, {"su", "longrope"}, {"yarn", "longrope"}};
    const bool longrope = source->architecture->longrope_alone; // under the third name as well
    const bool sections =
        source->architecture->sections == SECTIONS_IN_BLOCKS; // which older files call a scheme
    char names[2][sizeof spec->type] = {"", ""};
    Status status = json_read_string(object, what, "rope_type", names[0], sizeof names[0], error);
    if (!status) status = json_read_string(object, what, "type", names[1], sizeof names[1], error);
    if (status) return status;
    for (int i = 0; i < 2; i++)
        if (sections && strcmp(names[i], "mrope") == 0) snprintf(names[i], sizeof names[i], "default");
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2 + longrope; j++)
            if (strcmp(names[i], SAME[j][0]) == 0) snprintf(names[i], sizeof names[i], "%s", SAME[j][1]);
    if (names[0][0] != '\0' && names[1][0] != '\0' && strcmp(names[0], names[1]) != 0)
        return error_set(error, STATUS_FILE, "%s: rope_type is \"%s\", but type is \"%s\"", what, names[0],
                         names[1]);
    const bool older = names[0][0] == '\0' && names[1][0] != '\0';
    const char *name = older ? names[1] : names[0];
    spec->type_key = older ? "type" : "rope_type";
    if (name[0] != '\0') snprintf(spec->type, sizeof spec->type, "%s", name);
    if (!longrope || strcmp(spec->type, "default") == 0 || strcmp(spec->type, "longrope") == 0)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "%s.%s is \"%s\": a %s model has longrope or none", what,
                     spec->type_key, spec->type, source->architecture->name);
}

// Of classes whose ropes are of kinds of layers: what stands outside of rope_parameters is not read where that is missing, nor
// a base that a kind of its own lacks.
static Status check_kinds(const RopeSpec *spec, const ParamSource *source, Error *error) {
    static const char *const OUTSIDE[] = {"rope_theta", "rope_local_base_freq", "partial_rotary_factor",
                                          "rope_scaling"};
    const json_t *kinds = json_object_get(source->config, "rope_parameters");
    for (size_t i = 0; i < sizeof OUTSIDE / sizeof *OUTSIDE && !json_is_object(kinds); i++) {
        const json_t *value = json_object_get(source->config, OUTSIDE[i]);
        const bool scaling = strcmp(OUTSIDE[i], "rope_scaling") == 0; // whose null counts
        if (value && (scaling || !json_is_null(value)))
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: %s stands outside of rope_parameters, where a %s model does not go by it",
                             source->path, OUTSIDE[i], source->architecture->name);
    }
    const json_t *own = json_object_get(kinds, spec->layers);
    return !json_is_object(own) || json_object_get(own, "rope_theta")
               ? STATUS_OK
               : error_set(error, STATUS_FILE, "%s: rope_theta is missing in rope_parameters.%s",
                           source->path, spec->layers);
}

// Where layers differ: transformers does not read the older name of a scheme, and a base that is said outside is that
// of the layers without a window alone, for it as for its older versions only if it is the default.
static Status check_one_kind(const ParamSource *source, const json_t *object, const char *what,
                             Error *error) {
    const Architecture *a = source->architecture;
    const json_t *base = json_object_get(source->config, "rope_theta");
    if (json_object_get(object, "type") && !json_object_get(object, "rope_type"))
        return error_set(error, STATUS_UNSUPPORTED, "%s: its type is to be called rope_type in a %s model",
                         what, a->name);
    if (a->default_window_base > 0 || !json_is_number(base) || json_number_value(base) == a->default_base ||
        json_object_get(object, "rope_theta"))
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: rope_theta is %g, of which programs differ about the layers that it is for; a %s "
                     "model has %g, or "
                     "rope_parameters with a base for each kind of layer",
                     source->path, json_number_value(base), a->name, a->default_base);
}

static bool says_scaling(const ParamSource *source) {
    return json_object_size(json_object_get(source->config, "rope_scaling")) > 0 ||
           json_is_object(json_object_get(source->config, "rope_parameters"));
}

// What the class means where config.json has neither object: one that is there and empty is the unscaled rope, but the
// older one, empty, is none.
static void default_scaling(RopeSpec *spec, const ParamSource *source) {
    const Architecture *a = source->architecture;
    if (a->default_proportional > 0 && spec->layers && strcmp(spec->layers, FULL) == 0 &&
        !json_is_object(json_object_get(source->config, "rope_parameters")) &&
        !json_is_object(json_object_get(source->config, "rope_scaling"))) {
        snprintf(spec->type, sizeof spec->type, "proportional");
        spec->rotary_part = a->default_proportional;
    }
    if ((a->default_yarn == 0 && a->default_llama3 == 0) || says_scaling(source)) return;
    snprintf(spec->type, sizeof spec->type, a->default_yarn > 0 ? "yarn" : "llama3");
    spec->factor = a->default_yarn > 0 ? a->default_yarn : a->default_llama3;
    spec->original_context = a->default_original;
    spec->truncate = false;
    spec->low_freq_factor = 1, spec->high_freq_factor = 4;
}

// transformers 5 takes its default for an empty rope_scaling and for a base without one; transformers 4 scales nothing
// there, and takes the base (Apertus, whose files before their last training say so).
static Status check_default(const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    const json_t *base = json_object_get(source->config, "rope_theta");
    const bool other = json_is_number(base) && json_number_value(base) != a->default_base;
    if (a->default_llama3 == 0 || says_scaling(source) ||
        (!other && !json_object_get(source->config, "rope_scaling")))
        return STATUS_OK;
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: without rope scaling, or with another rope_theta alone, programs differ about the rope of "
        "a %s model; say it in rope_parameters, with rope_type (\"default\" is none) and rope_theta",
        source->path, a->name);
}

static Status spec_from_config(RopeSpec *spec, const ParamSource *source, Error *error) {
    const json_t *config = source->config;
    const char *name, *key;
    json_t *value;
    if (spec->rotary_dim > 0) // a part of the head in elements: of an architecture that has no other key
        return param_integer(source, (Key){"rotary_dim", NULL}, &spec->rotary_dim, error);
    const json_t *object = config_object(spec, source, &name);
    char what[512];
    snprintf(what, sizeof what, "%.400s: %s", source->path, name);
    json_object_foreach((json_t *)object, key, value) {
        if (json_is_null(value) && is_key_of(key, NEVER_NULL))
            return param_refuse_null(source, name, key, error);
        if (!json_is_object(value) || !text_has_suffix(key, "_attention")) continue;
        return error_set(error, STATUS_UNSUPPORTED, "%s differ by kind of layer, which palaver cannot do",
                         what);
    }
    if (spec->layers) {
        Status status = check_one_kind(source, object, what, error);
        if (!status && source->architecture->ropes_of_kinds) status = check_kinds(spec, source, error);
        if (status) return status;
    }
    spec->short_factors =
        (RopeFactors){.name = "short_factor", .list = json_object_get(object, "short_factor")};
    spec->long_factors = (RopeFactors){.name = "long_factor", .list = json_object_get(object, "long_factor")};
    default_scaling(spec, source);
    Status status = check_default(source, error);
    if (!status) status = type_from_config(spec, source, object, what, error);
    if (!status) status = numbers_from_config(spec, source, object, what, error);
    if (!status) status = json_read_bool(object, what, "truncate", &spec->truncate, error);
    if (!status) status = json_read_integer(object, what, ORIGINAL, &spec->original_context, error);
    if (!status) status = json_read_integer(config, source->path, ORIGINAL, &spec->original_context, error);
    if (status || !source->architecture->rotary_dim_key) return status;
    return param_integer(source, (Key){"rotary_dim", NULL}, &spec->rotary_dim, error);
}

void rope_spec_take_keys(const RopeSpec *spec, const ParamSource *source, RopeScaling scaling,
                         int64_t context) {
    static const char *const ALL[] = {"rope_type", "type", "rope_theta", "partial_rotary_factor", NULL};
    static const char *const OF_SCHEME[][10] = {
        [ROPE_SCALING_NONE] = {ORIGINAL},
        [ROPE_SCALING_LINEAR] = {"factor", ORIGINAL},
        [ROPE_SCALING_LLAMA3] = {"factor", "low_freq_factor", "high_freq_factor", ORIGINAL},
        [ROPE_SCALING_YARN] = {"factor", "beta_fast", "beta_slow", "attention_factor", "mscale",
                               "mscale_all_dim", "truncate", ORIGINAL},
        [ROPE_SCALING_FACTORS] = {NULL},
        [ROPE_SCALING_DYNAMIC] = {"factor"},
        [ROPE_SCALING_PROPORTIONAL] = {"factor"},
        [ROPE_SCALING_LONGROPE] = {"factor", "short_factor", "long_factor", "attention_factor", ORIGINAL},
    };
    const char *name, *key;
    json_t *value;
    if (!source->config || source->architecture->default_rotary_dim > 0) return;
    const json_t *object = config_object(spec, source, &name);
    for (int i = 0; ALL[i] != NULL; i++) unread_take_key(source, name, ALL[i]);
    if (source->architecture->temperature) unread_take_key(source, name, "llama_4_scaling_beta");
    if (source->architecture->longrope_mscale && scaling == ROPE_SCALING_LONGROPE) {
        unread_take_key(source, name, "short_mscale");
        unread_take_key(source, name, "long_mscale");
    }
    // Some repeat there what stands outside as well.
    const char *longest = "max_position_embeddings";
    if (json_same(json_object_get(object, longest), json_object_get(source->config, longest)))
        unread_take_key(source, name, longest);
    for (int i = 0; OF_SCHEME[scaling][i] != NULL; i++) unread_take_key(source, name, OF_SCHEME[scaling][i]);
    // It is max_position_embeddings from which dynamic NTK grows.
    const json_t *original = json_object_get(object, ORIGINAL),
                 *outer = json_object_get(source->config, ORIGINAL);
    bool dynamic = scaling == ROPE_SCALING_DYNAMIC;
    if (dynamic && json_integer_value(original) == context) unread_take_key(source, name, ORIGINAL);
    if (!dynamic || json_integer_value(outer) == context) unread_take_key(source, NULL, ORIGINAL);
    if (strncmp(name, "rope_parameters", 15) == 0 || spec->layers) return;
    // What the other object repeats is read with this one.
    const json_t *other = json_object_get(source->config, "rope_parameters");
    json_object_foreach((json_t *)other, key, value) {
        const json_t *same = json_object_get(object, key);
        if (!same && strcmp(key, "rope_type") == 0) same = json_object_get(object, "type");
        if (!same && strcmp(key, "rope_theta") == 0)
            same = json_object_get(source->config, source_config_key(source, key));
        if (same && json_same(same, value)) unread_take_key(source, "rope_parameters", key);
    }
}

static RopeFactors factors_from_gguf(const ParamSource *source, const char *name) {
    return (RopeFactors){.name = name, .tensor = checkpoint_find(source->checkpoint, name)};
}

// How much sharper queries become far into a text, and which magnitude YaRN has there: llama.cpp takes it for 1 whatever
// the file says, and files say 1, which is mscale_all_dim beside an mscale of 1.
static Status temperature_from_gguf(RopeSpec *spec, const ParamSource *source, Error *error) {
    static const Key SCALE = {NULL, "attention.temperature_scale"},
                     MULTIPLIER = {NULL, "rope.scaling.yarn_log_multiplier"};
    char text[KEY_SIZE];
    double multiplier = 1;
    spec->temperature_beta = 0;
    Status status = param_number(source, SCALE, &spec->temperature_beta, error);
    if (!status) status = param_number(source, MULTIPLIER, &multiplier, error);
    if (status || strcmp(spec->type, "yarn") != 0) return status;
    spec->attention_factor = 1;
    if (multiplier == 1) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "%s: %s is %g; of a YaRN that is not 1 programs disagree",
                     source->path, source_key(source, MULTIPLIER, text), multiplier);
}

// As llama.cpp reads them: a factor without a type is linear; attn_factor multiplies the usual magnitude, and is
// LongRoPE's, which its tensors announce.
static Status spec_from_gguf(RopeSpec *spec, const ParamSource *source, Error *error) {
    static const char *const TYPES[] = {"none", "linear", "yarn", "longrope"};
    static const Key TYPE = {NULL, "rope.scaling.type"};
    double attention = 1;
    char text[KEY_SIZE];
    const struct {
        const char *key;
        double *value;
    } numbers[] = {
        {"rope.freq_base", &spec->base},
        {"rope.scale_linear", &spec->factor},
        {"rope.scaling.factor", &spec->factor},
        {"rope.scaling.attn_factor", &attention},
        {"rope.scaling.yarn_beta_fast", &spec->beta_fast},
        {"rope.scaling.yarn_beta_slow", &spec->beta_slow},
    };
    char type[sizeof spec->type] = "";
    Status status = STATUS_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++)
        status = param_number(source, (Key){NULL, numbers[i].key}, numbers[i].value, error);
    if (spec->factor == 0) spec->factor = NAN; // how older files say "none"
    if (!status) status = param_string(source, TYPE, type, sizeof type, error);
    if (!status)
        status = param_integer(source, (Key){NULL, "rope.dimension_count"}, &spec->rotary_dim, error);
    if (!status) {
        status = param_integer(source, (Key){NULL, "rope.scaling.original_context_length"},
                               &spec->original_context, error);
    }
    if (status) return status;
    spec->divisors = factors_from_gguf(source, "rope_freqs.weight");
    spec->short_factors = factors_from_gguf(source, "rope_factors_short.weight");
    spec->long_factors = factors_from_gguf(source, "rope_factors_long.weight");
    if (type[0] == '\0') snprintf(type, sizeof type, isnan(spec->factor) ? "none" : "linear");
    if (spec->long_factors.tensor) snprintf(type, sizeof type, "longrope");
    bool known = false;
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) known = known || strcmp(TYPES[i], type) == 0;
    if (!known)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: %s is \"%s\"; GGUF files have none, linear, yarn and longrope", source->path,
                         source_key(source, TYPE, text), type);
    snprintf(spec->type, sizeof spec->type, "%s", type);
    spec->magnitude = attention;
    if (strcmp(type, "longrope") == 0) spec->attention_factor = attention;
    if (strcmp(type, "yarn") == 0)
        spec->attention_factor = attention * (spec->factor > 1 ? 0.1 * log(spec->factor) + 1 : 1);
    return source->architecture->temperature ? temperature_from_gguf(spec, source, error) : STATUS_OK;
}

Status rope_spec_read(RopeSpec *spec, const ParamSource *source, Error *error) {
    return !source->config ? spec_from_gguf(spec, source, error) : spec_from_config(spec, source, error);
}

// ---- factors -------------------------------------------------------------------------------------------

static bool is_list_of(const RopeFactors *factors, int n) {
    const CheckpointTensor *t = factors->tensor;
    if (t) return t->supported && t->type == DTYPE_F32 && t->n_dims == 1 && t->shape[0] == n;
    return json_is_array(factors->list) && json_array_size(factors->list) == (size_t)n;
}

Status rope_spec_divide(const RopeFactors *factors, const ParamSource *source, double *inv_freq, int n,
                        Error *error) {
    const CheckpointTensor *t = factors->tensor;
    if (!t && !factors->list)
        return error_set(error, STATUS_FILE, "%s: rope: %s is missing", source->path, factors->name);
    if (!is_list_of(factors, n)) {
        return !t ? error_set(error, STATUS_FILE, "%s: rope: %s should be a list of %d numbers", source->path,
                              factors->name, n)
                  : error_set(error, STATUS_FILE,
                              "%s: %s: expected [%d] f32, file has %d dimensions, [%lld] %s", source->path,
                              factors->name, n, t->n_dims, (long long)t->shape[0], t->type_name);
    }
    if (t) unread_take_tensor(source, t);
    for (int i = 0; i < n; i++) {
        double divisor = t ? (double)((const float *)t->data)[i]
                           : json_number_value(json_array_get(factors->list, (size_t)i));
        if (t && divisor > 1e29 &&
            divisor < 1e31) { // how GGUF's converter of Gemma 4 says that a pair does not turn
            inv_freq[i] = 0;
            continue;
        }
        if (!(divisor > 1e-9 && divisor < 1e9)) {
            return error_set(error, STATUS_FILE, "%s: %s[%d] is %g; it must be between 1e-9 and 1e9",
                             source->path, factors->name, i, divisor);
        }
        inv_freq[i] /= divisor;
    }
    return STATUS_OK;
}
