// quantization_config of config.json, to the last key: what a method means, and which keys mean nothing.
#include "engine/files/quantized/quantized.h"

#include <stdio.h>
#include <string.h>

// ---- names without meaning for what the weights are, set between spaces --------------------------------------------

// How the weights were found, and with what they are multiplied elsewhere.
static const char HARMLESS[] =
    " quant_method tokenizer dataset damp_percent damp_auto_increment static_groups true_sequential"
    " act_group_aware meta quantizer backend model_seqlen block_name_to_quantize "
    "module_name_preceding_first_block"
    " batch_size pad_token_id max_input_length cache_block_outputs modules_in_block_to_quantize use_cuda_fp16"
    " use_exllama disable_exllama exllama_config model_name_or_path model_file_base_name mse lm_head"
    " parallel_packing do_fuse fuse_max_seq_len modules_to_fuse version quantization_status"
    " global_compression_ratio dequantize run_compressed use_optimized_inference activation_scale_ub"
    " llm_int8_threshold llm_int8_skip_modules llm_int8_enable_fp32_cpu_offload bnb_4bit_compute_dtype"
    " bnb_4bit_quant_storage bnb_4bit_use_double_quant bnb_4bit_quant_type load_in_4bit load_in_8bit"
    " _load_in_4bit _load_in_8bit sym desc_act ";

// Of compressed-tensors' schemes and their arguments: what tensors prove, and how the scales were found.
static const char SCHEME_KEYS[] = " targets weights input_activations output_activations format ";
static const char ARGUMENT_KEYS[] =
    " num_bits type symmetric strategy group_size dynamic actorder observer observer_kwargs"
    " block_structure scale_dtype zp_dtype ";

static bool is_nothing(const json_t *value) {
    return json_is_null(value) || ((json_is_object(value) || json_is_array(value)) &&
                                   json_object_size(value) + json_array_size(value) == 0);
}

// ---- errors ----------------------------------------------------------------------------------------------

static Status refuse_key(const QuantConfig *c, const char *key, Error *error) {
    char shown[96];
    text_copy_printable(shown, sizeof shown, key, strlen(key));
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: palaver does not know what %s means in quantization_config for weights quantised by %s, and "
        "would leave it out; if it means nothing, take it out of the file",
        c->path, shown, c->name);
}

static Status refuse_value(const QuantConfig *c, const char *key, const json_t *value, const char *read,
                           Error *error) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT), shown[96];
    text_copy_printable(shown, sizeof shown, text ? text : "?", text ? strlen(text) : 1);
    free(text);
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: quantization_config.%s is %s; of weights quantised by %s palaver reads %s: take another "
        "variant of the model, or a GGUF file of it",
        c->path, key, shown, c->name, read);
}

// One key whose value has to be one of the words of `read`, which are set between spaces; missing is fine.
static Status expect_word(const QuantConfig *c, const json_t *object, const char *key, const char *words,
                          const char *read, Error *error) {
    const json_t *value = json_member(object, key);
    char lower[32] = "";
    const char *text = json_string_value(value);
    for (size_t i = 0; text && text[i] && i + 1 < sizeof lower; i++)
        lower[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
    if (!value || (text && text_is_among(lower, words))) return STATUS_OK;
    return refuse_value(c, key, value, read, error);
}

static Status expect_flag(const QuantConfig *c, const json_t *object, const char *key, bool wanted,
                          const char *read, Error *error) {
    const json_t *value = json_member(object, key);
    if (!value || (json_is_boolean(value) && json_is_true(value) == wanted)) return STATUS_OK;
    return refuse_value(c, key, value, read, error);
}

// Every key of the object is harmless, means nothing, or is one of `read`.
static Status check_keys(const QuantConfig *c, const json_t *object, const char *read, const char *harmless,
                         Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (is_nothing(value) || text_is_among(key, read) || text_is_among(key, harmless)) continue;
        return refuse_key(c, key, error);
    }
    return STATUS_OK;
}

// ---- methods ---------------------------------------------------------------------------------------------

static Status read_group(QuantConfig *c, const json_t *q, const char *bits, const char *group, Error *error) {
    int64_t n_bits = 4, size = 128;
    Status status = json_read_integer(q, c->path, bits, &n_bits, error);
    if (!status) status = json_read_integer(q, c->path, group, &size, error);
    if (status) return status;
    if (n_bits != 4 && (n_bits != 8 || c->method != QUANT_GPTQ))
        return refuse_value(c, bits, json_member(q, bits),
                            c->method == QUANT_GPTQ ? "4 and 8 bits" : "4 bits", error);
    if (size != -1 && (size <= 0 || size > 1 << 20))
        return refuse_value(c, group, json_member(q, group), "groups of some columns, or -1 for all", error);
    c->bits = (int)n_bits;
    c->group_size = size;
    return STATUS_OK;
}

// GPTQModel's list of exceptions by regular expression: "-:…" leaves modules as they are, which their tensors show;
// "+:…" would give them other bits.
static Status check_exceptions(const QuantConfig *c, const json_t *q, Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(q, "dynamic"), key, value) {
        if (strncmp(key, "-:", 2) == 0) continue;
        return refuse_value(c, "dynamic", json_object_get(q, "dynamic"), "layers of the same bits", error);
    }
    return STATUS_OK;
}

static Status read_gptq(QuantConfig *c, const json_t *q, Error *error) {
    const char *words = " gptq gptq_v2 ", *read = "the formats gptq and gptq_v2";
    Status status = read_group(c, q, "bits", "group_size", error);
    if (!status) status = expect_word(c, q, "format", words, read, error);
    if (!status) status = expect_word(c, q, "checkpoint_format", words, read, error);
    if (!status) status = expect_word(c, q, "pack_dtype", " int32 ", "int32", error);
    if (!status) status = expect_flag(c, q, "is_marlin_format", false, "the formats gptq and gptq_v2", error);
    if (!status) status = check_exceptions(c, q, error);
    if (!status) status = json_read_bool(q, c->path, "desc_act", &c->act_order, error);
    const char *format =
        *json_text(q, "checkpoint_format") ? json_text(q, "checkpoint_format") : json_text(q, "format");
    c->zeros_as_they_are = strcmp(format, "gptq_v2") == 0 || strcmp(format, "GPTQ_V2") == 0;
    return status
               ? status
               : check_keys(c, q,
                            " bits group_size format checkpoint_format pack_dtype is_marlin_format dynamic ",
                            HARMLESS, error);
}

static Status read_awq(QuantConfig *c, const json_t *q, Error *error) {
    const char *bits = json_member(q, "w_bit") ? "w_bit" : "bits",
               *group = json_member(q, "q_group_size") ? "q_group_size" : "group_size";
    Status status = read_group(c, q, bits, group, error);
    if (!status) status = expect_word(c, q, "version", " gemm ", "the version gemm", error);
    if (!status) status = expect_word(c, q, "format", " gemm ", "the version gemm", error);
    if (!status) status = expect_word(c, q, "checkpoint_format", " gemm ", "the version gemm", error);
    if (!status) status = expect_flag(c, q, "zero_point", true, "those with zero points", error);
    if (!status) status = expect_flag(c, q, "desc_act", false, "those without act-order", error);
    c->ignored = json_member(q, "modules_to_not_convert");
    return status ? status
                  : check_keys(c, q,
                               " bits w_bit group_size q_group_size format checkpoint_format zero_point "
                               "modules_to_not_convert ",
                               HARMLESS, error);
}

static Status read_fp8(QuantConfig *c, const json_t *q, Error *error) {
    const json_t *size = json_member(q, "weight_block_size");
    const json_t *listed = json_member(q, "ignored_layers");
    Status status = expect_word(c, q, "activation_scheme", " dynamic static ", "dynamic and static", error);
    if (!status) status = expect_word(c, q, "fmt", " e4m3 ", "e4m3", error);
    if (!status) status = expect_word(c, q, "scale_fmt", " float ue8m0 ", "float and ue8m0", error);
    if (!status) status = expect_word(c, q, "expert_dtype", " fp8 ", "fp8", error);
    for (size_t i = 0; i < 2 && size && !status; i++) {
        const json_t *value = json_array_get(size, i);
        c->block[i] = json_is_integer(value) ? json_integer_value(value) : 0;
        if (json_array_size(size) != 2 || c->block[i] <= 0 || c->block[i] > 1 << 20)
            status = refuse_value(c, "weight_block_size", size, "blocks of [rows, columns]", error);
    }
    const bool powers = json_text_is(q, "scale_fmt", "ue8m0");
    c->fp8_inputs = c->block[1] == 0           ? FP8_INPUTS_ROWS
                    : c->block[1] != FP8_GROUP ? FP8_INPUTS_KEPT
                    : powers                   ? FP8_INPUTS_POWERS
                                               : FP8_INPUTS_GROUPS;
    c->fixed_inputs = json_text_is(q, "activation_scheme", "static");
    c->rounds_activations = c->fp8_inputs == FP8_INPUTS_KEPT;
    c->ignored = json_member(q, "modules_to_not_convert") ? json_member(q, "modules_to_not_convert") : listed;
    return status ? status
                  : check_keys(c, q,
                               " activation_scheme fmt scale_fmt expert_dtype weight_block_size "
                               "modules_to_not_convert ignored_layers ",
                               HARMLESS, error);
}

// transformers' Mxfp4Config.
static Status read_mxfp4(QuantConfig *c, const json_t *q, Error *error) {
    c->ignored = json_member(q, "modules_to_not_convert");
    return check_keys(c, q, " modules_to_not_convert ", HARMLESS, error);
}

static Status read_bitsandbytes(QuantConfig *c, const json_t *q, Error *error) {
    Status status = expect_word(c, q, "bnb_4bit_quant_type", " nf4 fp4 ", "nf4 and fp4", error);
    if (!status)
        status = expect_flag(c, q, "llm_int8_has_fp16_weight", false, "weights that are held in 8 or 4 bits",
                             error);
    c->ignored = json_member(q, "llm_int8_skip_modules");
    return status ? status : check_keys(c, q, " llm_int8_has_fp16_weight ", HARMLESS, error);
}

// ---- compressed-tensors ----------------------------------------------------------------------------------

// Which of several schemes a weight has, the number of its scales tells: see read_scales() of quant_integers.c.
static Status note_group_size(QuantConfig *c, const json_t *arguments, Error *error) {
    enum { MOST = sizeof c->group_sizes / sizeof *c->group_sizes };
    int64_t size = -1;
    Status status = json_member(arguments, "group_size")
                        ? json_read_integer(arguments, c->path, "group_size", &size, error)
                        : STATUS_OK;
    if (status || size == -1) return status;
    for (int i = 0; i < c->n_group_sizes; i++)
        if (c->group_sizes[i] == size) return STATUS_OK;
    if (size < 1 || size > 1 << 20 || c->n_group_sizes == MOST)
        return refuse_value(c, "group_size", json_member(arguments, "group_size"),
                            "groups of some columns, of at most eight sizes", error);
    c->group_sizes[c->n_group_sizes++] = size;
    return STATUS_OK;
}

// What is done to weights or to what enters a layer.
static Status check_arguments(QuantConfig *c, const json_t *arguments, bool weights, Error *error) {
    int64_t bits = 0;
    Status status = check_keys(c, arguments, "", ARGUMENT_KEYS, error);
    if (!status) status = expect_word(c, arguments, "type", " int float ", "int and float", error);
    if (!status && weights)
        status = expect_word(c, arguments, "strategy", " tensor channel group block ",
                             "scales of a tensor, a channel, a group or a block", error);
    if (!status) status = json_read_integer(arguments, c->path, "num_bits", &bits, error);
    if (status || !weights) return status;
    bool is_float = json_text_is(arguments, "type", "float");
    if (bits != 8 && (bits != 4 || is_float))
        return refuse_value(c, "num_bits", json_object_get(arguments, "num_bits"),
                            "int in 4 and 8 bits and float in 8 bits", error);
    status = note_group_size(c, arguments, error);
    if (status) return status;
    const json_t *block = json_member(arguments, "block_structure");
    for (size_t i = 0; i < 2 && json_text_is(arguments, "strategy", "block"); i++) {
        const json_t *value = json_array_get(block, i);
        int64_t size = json_is_integer(value) ? json_integer_value(value) : 0;
        if (json_array_size(block) != 2 || size <= 0 || size > 1 << 20 ||
            (c->block[i] && c->block[i] != size))
            return refuse_value(c, "block_structure", block ? block : arguments,
                                "blocks of [rows, columns], the same for all layers", error);
        c->block[i] = size;
    }
    return STATUS_OK;
}

// What enters a layer: FP8 by rows, by groups of 128, or by a fixed scale of the whole tensor; anything else is left out.
static Status note_inputs(QuantConfig *c, const json_t *inputs, Error *error) {
    int64_t size = -1;
    Status status = check_arguments(c, inputs, false, error);
    if (!status && json_member(inputs, "group_size"))
        status = json_read_integer(inputs, c->path, "group_size", &size, error);
    const bool groups = json_text_is(inputs, "strategy", "group"),
               is_float = json_text_is(inputs, "type", "float");
    const bool rows = json_text_is(inputs, "strategy", "token") || json_text_is(inputs, "strategy", "tensor");
    const bool kept = c->fp8_inputs != FP8_INPUTS_KEPT; // of another scheme: one for all layers is
    if (!is_float || !(rows || (groups && size == FP8_GROUP)) ||
        (kept && (c->fp8_inputs == FP8_INPUTS_GROUPS) != groups))
        c->rounds_activations = true;
    else
        c->fp8_inputs = groups ? FP8_INPUTS_GROUPS : FP8_INPUTS_ROWS;
    if (is_float && json_is_false(json_member(inputs, "dynamic"))) c->fixed_inputs = true;
    return status;
}

static Status check_scheme(QuantConfig *c, const json_t *scheme, Error *error) {
    static const char FORMATS[] = " dense pack-quantized int-quantized float-quantized naive-quantized ";
    const json_t *inputs = json_member(scheme, "input_activations");
    Status status = check_keys(c, scheme, "", SCHEME_KEYS, error);
    if (!status)
        status = expect_word(c, scheme, "format", FORMATS,
                             "pack-quantized, int-quantized and float-quantized", error);
    if (!status && !json_is_object(json_member(scheme, "weights")))
        return refuse_value(c, "config_groups", scheme, "groups whose weights are quantised", error);
    if (!status) status = check_arguments(c, json_member(scheme, "weights"), true, error);
    if (!status && inputs) status = note_inputs(c, inputs, error);
    if (json_member(scheme, "output_activations")) c->rounds_activations = true;
    return status;
}

static Status read_compressed(QuantConfig *c, const json_t *q, Error *error) {
    static const char FORMATS[] =
        " dense pack-quantized int-quantized float-quantized naive-quantized mixed-precision ";
    const json_t *sparsity = json_member(q, "sparsity_config");
    Status status =
        expect_word(c, q, "format", FORMATS, "pack-quantized, int-quantized and float-quantized", error);
    if (!status && sparsity)
        status = expect_word(c, sparsity, "format", " dense ", "weights that are not sparse", error);
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(q, "config_groups"), key, value) {
        if (!status) status = check_scheme(c, value, error);
    }
    c->ignored = json_member(q, "ignore");
    return status ? status
                  : check_keys(c, q, " format sparsity_config config_groups ignore kv_cache_scheme ",
                               HARMLESS, error);
}

// ---- together ----------------------------------------------------------------------------------------------

static const json_t *find(const Checkpoint *checkpoint) {
    const json_t *config = checkpoint_config(checkpoint), *q = json_member(config, "quantization_config");
    if (!q) q = json_member(json_member(config, "text_config"), "quantization_config");
    return q ? q : json_member(config, "compression_config");
}

bool quant_config_is_there(const Checkpoint *checkpoint) {
    return find(checkpoint) != NULL;
}

static Status check_list(const QuantConfig *c, Error *error) {
    size_t i;
    json_t *name;
    bool whole = !c->ignored || json_is_array(c->ignored);
    json_array_foreach(c->ignored, i, name) whole = whole && json_is_string(name);
    return whole ? STATUS_OK
                 : error_set(error, STATUS_FILE,
                             "%s: the modules that are not quantised should be a list of names", c->path);
}

Status quant_config_read(const Checkpoint *checkpoint, QuantConfig *config, Error *error) {
    static const struct {
        const char *word, *name;
        QuantMethod method;
        Status (*read)(QuantConfig *, const json_t *, Error *);
    } METHODS[] = {
        {"gptq", "GPTQ", QUANT_GPTQ, read_gptq},
        {"awq", "AWQ", QUANT_AWQ, read_awq},
        {"fp8", "FP8", QUANT_FP8, read_fp8},
        {"fbgemm_fp8", "FP8", QUANT_FP8, read_fp8},
        {"compressed-tensors", "compressed-tensors", QUANT_COMPRESSED, read_compressed},
        {"bitsandbytes", "bitsandbytes", QUANT_BITSANDBYTES, read_bitsandbytes},
        {"mxfp4", "MXFP4", QUANT_MXFP4, read_mxfp4},
    };
    const json_t *q = find(checkpoint);
    *config = (QuantConfig){.checkpoint = checkpoint, .group_size = -1};
    snprintf(config->path, sizeof config->path, "%s/config.json", checkpoint_path(checkpoint));
    if (!json_is_object(q))
        return error_set(error, STATUS_FILE, "%s: quantization_config should be an object", config->path);
    // Files of compression_config are older than its quant_method.
    const char *method = *json_text(q, "quant_method") || !json_member(q, "config_groups")
                             ? json_text(q, "quant_method")
                             : "compressed-tensors";
    for (size_t i = 0; i < sizeof METHODS / sizeof *METHODS; i++) {
        if (strcmp(METHODS[i].word, method) != 0) continue;
        config->method = METHODS[i].method;
        config->name = METHODS[i].name;
        Status status = METHODS[i].read(config, q, error);
        return status ? status : check_list(config, error);
    }
    char shown[64];
    text_copy_printable(shown, sizeof shown, *method ? method : "an unnamed method",
                        strlen(*method ? method : "an unnamed method"));
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: the weights are quantised by %s, which palaver cannot read (it reads GPTQ, AWQ, FP8, "
        "compressed-tensors, bitsandbytes and MXFP4); take the original model or a GGUF file of it",
        config->path, shown);
}
