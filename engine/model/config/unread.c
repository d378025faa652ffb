// What of a model's files is left unread, and what of that means nothing: the names that may be there all the same.
#include "engine/model/config/unread.h"
#include "kernels/base/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- names without meaning for what is computed ------------------------------------------------------------

// Keys of config.json: what the configuration classes of transformers 4 and 5 write for every model, what their
// architectures write about training, and what publishers add. Where a value could matter it is not here but among
// the fixed ones.
static const char HARMLESS_KEYS[] =
    // whose and what for
    " architectures auto_map model_type quantization_config compression_config _name_or_path "
    "transformers_version torch_dtype dtype license"
    " language name_or_path model_name custom_pipelines transformers.js_config is_llama_config verbose"
    " unsloth_fixed unsloth_version _commit_hash _from_model_config keys_to_ignore_at_inference"
    // how another program computes
    " _attn_implementation _attn_implementation_autoset _attn_implementation_internal"
    " _flash_attn_2_enabled _experts_implementation attn_implementation use_flash_attn use_cache"
    " use_bfloat16 torchscript pretraining_tp slow_but_exact attention_softmax_in_fp32"
    " masked_softmax_fusion bias_dropout_fusion skip_bias_add skip_bias_add_qkv offset_alibi"
    " chunk_size_feed_forward cache_implementation init_device tf_legacy_loss"
    // what it gives back
    " output_attentions output_hidden_states return_dict problem_type id2label label2id num_labels"
    " finetuning_task task_specific_params summary_type summary_use_proj summary_activation"
    " summary_proj_to_labels summary_first_dropout is_decoder"
    // training
    " attention_dropout hidden_dropout classifier_dropout attention_probs_dropout_prob"
    " hidden_dropout_prob resid_pdrop resid_dropout embd_pdrop emb_pdrop embedding_dropout attn_pdrop"
    " attn_dropout dropout activation_dropout layerdrop initializer_range initializer_factor init_std"
    " init_config gradient_checkpointing neftune_noise_alpha embedding_fraction router_aux_loss_coef"
    " output_router_logits router_jitter_noise"
    // tokens and text
    " tokenizer_class tokenizer_name prefix model_max_length max_sequence_length n_ctx bos_token_id"
    " eos_token_id pad_token_id unk_token_id sep_token_id cls_token_id mask_token_id bos_token"
    " eos_token pad_token unk_token decoder_start_token_id forced_bos_token_id forced_eos_token_id"
    " suppress_tokens begin_suppress_tokens"
    // sampling, which stood here before generation_config.json
    " max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups"
    " diversity_penalty temperature top_k top_p min_p typical_p repetition_penalty length_penalty"
    " no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences"
    " output_scores return_dict_in_generate remove_invalid_values exponential_decay_length_penalty"
    // encoders, which no architecture here has
    " tie_encoder_decoder cross_attention_hidden_size is_composition type_vocab_size"
    " ";

// What stands beside a text_config and is of images, and how text and they are put together.
static const char OF_OTHER_PARTS[] =
    " vision_config audio_config mm_tokens_per_image boi_token_index eoi_token_index image_token_index "
    "boi_token_id"
    " eoi_token_id image_token_id multimodal_projector_bias projector_hidden_act spatial_merge_size"
    " vision_feature_layer text_config model_type video_token_id audio_token_id boa_token_id eoa_token_id "
    "eoa_token_index"
    " vision_soft_tokens_per_image projector_bias projector_hidden_size projector_use_layernorm "
    "downsample_factor"
    " do_image_splitting encoder_patch_size max_image_tokens max_num_patches max_pixels_tolerance max_tiles"
    " min_image_tokens min_tiles tile_size use_image_special_tokens use_thumbnail"
    " image_start_token_id image_end_token_id video_start_token_id video_end_token_id"
    " vision_start_token_id vision_end_token_id vision_token_id language_model_only out_hidden_size "
    "projector_hidden_size ";
static const char *const OTHER_PARTS[] = {"vision_tower",
                                          "vision_model",
                                          "multi_modal_projector",
                                          "model.vision_tower",
                                          "model.vision_adapter",
                                          "model.vision_projection",
                                          "model.multi_modal_projector",
                                          "model.embed_vision",
                                          "model.vision_embedder",
                                          "model.visual",
                                          "visual",
                                          "model.audio_tower",
                                          "model.embed_audio"};

// Within rope_scaling and rope_parameters.
static const char HARMLESS_ROPE_KEYS[] = " finetuned ";
// Those of one scheme or another: under a scheme that does not read them, 1 means nothing.
static const char ROPE_FACTORS[] =
    " factor attention_factor mscale mscale_all_dim low_freq_factor high_freq_factor"
    " beta_fast beta_slow ";

// Of the architecture's keys in GGUF metadata: sizes that are proved by the shapes of weights, and notes.
static const char HARMLESS_META[] =
    " vocab_size attention.value_length tensor_data_layout rope.scaling.finetuned leading_dense_block_count"
    " interleave_moe_layer_step ";

// Frequencies, which follow from config.json; llama.cpp's converter leaves them out as well.
static const char BUFFER[] = "rotary_emb.inv_freq";

#define COUNT(ARRAY) (sizeof(ARRAY) / sizeof *(ARRAY))

static bool is_ignored(const Architecture *a, const char *key) {
    for (size_t i = 0; i < COUNT(a->ignored); i++)
        if (a->ignored[i] && strcmp(a->ignored[i], key) == 0) return true;
    return text_is_among(key, HARMLESS_KEYS) || (a->parts_beside && text_is_among(key, OF_OTHER_PARTS));
}

// ---- reading ---------------------------------------------------------------------------------------------

// What stands beside the text_config, and is not of other parts, holds for the text if that does not say otherwise.
static Status take_text(ParamSource *source, Error *error) {
    json_t *text = json_object_get(source->config, "text_config"), *value;
    const char *key;
    if (!json_is_object(text)) return STATUS_OK;
    source->unread->text = json_deep_copy(text);
    if (!source->unread->text) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    source->whole = json_string_value(json_object_get(source->config, "model_type"));
    if (!source->whole)
        return error_set(error, STATUS_FILE, "%s: does not name what is around its text_config (model_type)",
                         source->path);
    json_object_foreach((json_t *)source->config, key, value) {
        bool own = strcmp(key, "architectures") != 0 && json_object_get(text, key) != NULL;
        if (own || text_is_among(key, OF_OTHER_PARTS)) continue;
        if (json_object_set(source->unread->text, key, value))
            return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    }
    source->config = source->unread->text;
    return STATUS_OK;
}

Status unread_open(ParamSource *source, Unread *unread, Error *error) {
    const Checkpoint *checkpoint = source->checkpoint;
    *unread = (Unread){0};
    source->unread = unread;
    Status status = take_text(source, error);
    if (status) return status;
    if (source->config) unread->config = json_deep_copy(source->config);
    if (checkpoint) {
        unread->meta = calloc((size_t)checkpoint_n_meta(checkpoint) + 1, sizeof *unread->meta);
        unread->tensors = calloc((size_t)checkpoint_n_tensors(checkpoint) + 1, sizeof *unread->tensors);
    }
    bool whole = (!source->config || unread->config) && (!checkpoint || (unread->meta && unread->tensors));
    return whole ? STATUS_OK : error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
}

void unread_close(Unread *unread) {
    json_decref(unread->text);
    json_decref(unread->config);
    free(unread->meta);
    free(unread->tensors);
}

void unread_take_key(const ParamSource *source, const char *object, const char *key) {
    json_t *all = source->unread->config;
    const char *dot = object ? strchr(object, '.') : NULL;
    if (dot) all = json_object_getn(all, object, (size_t)(dot - object)), object = dot + 1;
    json_object_del(object ? json_object_get(all, object) : all, key);
}

void unread_take_meta(const ParamSource *source, const char *key) {
    const MetaValue *value = checkpoint_meta(source->checkpoint, key);
    if (value) source->unread->meta[value - checkpoint_meta_at(source->checkpoint, 0)] = true;
}

void unread_take_tensor(const ParamSource *source, const CheckpointTensor *tensor) {
    source->unread->tensors[tensor - checkpoint_tensor(source->checkpoint, 0)] = true;
}

// ---- what is left ----------------------------------------------------------------------------------------

static Status refuse_key(const ParamSource *source, const char *object, const char *key, Error *error) {
    char shown[96];
    text_copy_printable(shown, sizeof shown, key, strlen(key));
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: palaver does not know what %s%s%s means for a %s model, and would leave it out; if it "
        "means nothing, take it out of the file",
        source->path, object ? object : "", object ? "." : "", shown, source->architecture->name);
}

static bool is_harmless_rope(const ParamSource *source, const char *key, const json_t *value) {
    const Architecture *a = source->architecture;
    for (size_t i = 0; i < COUNT(a->ignored_rope); i++)
        if (a->ignored_rope[i] && strcmp(a->ignored_rope[i], key) == 0) return true;
    return text_is_among(key, HARMLESS_ROPE_KEYS) ||
           (text_is_among(key, ROPE_FACTORS) && json_is_number(value) && json_number_value(value) == 1);
}

// rope_parameters beside rope_scaling, which is what rope_spec.c reads then.
static bool is_second_rope(const ParamSource *source, const char *name) {
    return strcmp(name, "rope_parameters") == 0 &&
           json_object_size(json_object_get(source->config, "rope_scaling")) > 0;
}

static Status refuse_second_rope(const ParamSource *source, const char *key, Error *error) {
    char shown[96];
    text_copy_printable(shown, sizeof shown, key, strlen(key));
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%s: rope_parameters.%s contradicts rope_scaling, which is read where both are there and "
        "does not say the same; take one of the two out of the file",
        source->path, shown);
}

static Status check_object(const ParamSource *source, const char *name, const json_t *object, Error *error) {
    const char *key;
    json_t *value;
    bool is_rope = strncmp(name, "rope_", 5) == 0;
    json_object_foreach((json_t *)object, key, value) {
        bool known = is_rope ? is_harmless_rope(source, key, value) : is_ignored(source->architecture, key);
        if (known || json_is_null(value)) continue;
        if (is_rope && json_is_object(value)) { // of some layers
            char inner[96];
            snprintf(inner, sizeof inner, "%s.%.64s", name, key);
            Status status = check_object(source, inner, value, error);
            if (status) return status;
            continue;
        }
        return is_second_rope(source, name) ? refuse_second_rope(source, key, error)
                                            : refuse_key(source, name, key, error);
    }
    return STATUS_OK;
}

// Whether keys of the object `name` are read one by one.
static bool is_opened(const Architecture *a, const char *name) {
    for (size_t i = 0; i < COUNT(a->fixed); i++)
        if (a->fixed[i].object && strcmp(a->fixed[i].object, name) == 0) return true;
    return a->positions == POSITIONS_ROPE && a->default_rotary_dim == 0 &&
           (strcmp(name, "rope_scaling") == 0 || strcmp(name, "rope_parameters") == 0);
}

static Status check_config(const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    const char *key;
    json_t *value;
    json_object_foreach(source->unread->config, key, value) {
        bool nothing = json_is_null(value) || ((json_is_object(value) || json_is_array(value)) &&
                                               json_object_size(value) + json_array_size(value) == 0);
        if (nothing || is_ignored(a, key)) continue;
        if (!json_is_object(value) || !is_opened(a, key)) return refuse_key(source, NULL, key, error);
        Status status = check_object(source, key, value, error);
        if (status) return status;
    }
    return STATUS_OK;
}

static bool is_ignored_meta(const Architecture *a, const char *key) {
    for (size_t i = 0; i < COUNT(a->ignored_gguf); i++)
        if (a->ignored_gguf[i] && strcmp(a->ignored_gguf[i], key) == 0) return true;
    return text_is_among(key, HARMLESS_META);
}

static Status check_meta(const ParamSource *source, Error *error) {
    size_t n = strlen(source->architecture->gguf);
    for (int64_t i = 0; i < checkpoint_n_meta(source->checkpoint); i++) {
        const char *key = checkpoint_meta_at(source->checkpoint, i)->key;
        bool own = strncmp(key, source->architecture->gguf, n) == 0 && key[n] == '.';
        if (own && !source->unread->meta[i] && !is_ignored_meta(source->architecture, key + n + 1))
            return refuse_key(source, NULL, key, error);
    }
    return STATUS_OK;
}

Status unread_check_keys(const ParamSource *source, Error *error) {
    return source->config ? check_config(source, error) : check_meta(source, error);
}

static bool is_buffer(const ParamSource *source, const char *name) {
    const Architecture *a = source->architecture;
    for (size_t i = 0; i < COUNT(a->buffers); i++)
        if (a->buffers[i] && text_has_suffix(name, a->buffers[i])) return true;
    return text_has_suffix(name, BUFFER);
}

// Whether a tensor is of a part that does not write text, whose name is then in `others`.
static bool is_of_other_part(const ParamSource *source, const char *name, char *others, size_t size) {
    const bool has_parts = source->whole || source->architecture->parts_beside;
    for (size_t i = 0; has_parts && i < COUNT(OTHER_PARTS); i++) {
        const char *part = OTHER_PARTS[i], *last = strrchr(part, '.');
        size_t length = strlen(part), n = strlen(others);
        if (strncmp(name, part, length) != 0 || name[length] != '.') continue;
        last = last ? last + 1 : part;
        if (!strstr(others, last)) snprintf(others + n, size - n, "%s%s", n == 0 ? "" : ", ", last);
        return true;
    }
    return false;
}

// Whether a tensor is of a layer behind the last, and its architecture has such; or in a folder is named as what they are.
static bool predicts_further(const ParamSource *source, int n_layers, const char *name, char *others,
                             size_t size) {
    char place[64];
    const char *base = source->architecture->base;
    const size_t n = strlen(others);
    if (!source->architecture->predicts_further) return false;
    if (source->config)
        // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the table's own "layers.%d."
        snprintf(place, sizeof place, source->architecture->layer, n_layers);
    else
        base = "", snprintf(place, sizeof place, "blk.%d.", n_layers);
    if (strncmp(name, base, strlen(base)) == 0) name += strlen(base);
    const char *further = source->config ? source->architecture->further : NULL;
    const bool named = further && strncmp(name, further, strlen(further)) == 0;
    if (!named && strncmp(name, place, strlen(place)) != 0) return false;
    if (n == 0) snprintf(others, size, "a layer that predicts further tokens");
    return true;
}

Status unread_check_tensors(const ParamSource *source, int n_layers, char *others, size_t size,
                            Error *error) {
    const Checkpoint *checkpoint = source->checkpoint;
    for (int64_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const CheckpointTensor *tensor = checkpoint_tensor(checkpoint, i);
        if (source->unread->tensors[i] || (source->config && is_buffer(source, tensor->name))) continue;
        if (is_of_other_part(source, tensor->name, others, size)) continue;
        if (predicts_further(source, n_layers, tensor->name, others, size)) continue;
        char shown[96];
        text_copy_printable(shown, sizeof shown, tensor->name, strlen(tensor->name));
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: tensor %s has no place in a %s model as palaver knows it, and would be left out",
            checkpoint_file(checkpoint, tensor->file, NULL), shown, source->architecture->name);
    }
    return STATUS_OK;
}
