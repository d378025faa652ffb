#include "kernels/cache_attention.h"

#include <stdlib.h>

static int kv_heads(const CacheAttention *a) {
    return a->num_kv_heads ? a->num_kv_heads : a->num_heads;
}

KvLayout cache_attention_layout(const CacheAttention *a) {
    bool quantised = a->quant_bit != 0;
    return (KvLayout){.layout = a->cache_layout,
                      .n_layers = a->num_layer,
                      .n_kv_heads = kv_heads(a),
                      .head_dim = a->head_dim,
                      .n_slots = a->max_tokens,
                      .type = a->quant_bit == 8   ? DTYPE_INT8
                              : a->quant_bit == 4 ? DTYPE_INT4
                                                  : a->cache_type,
                      .group = quantised ? a->quant_group : 0,
                      .scale_type = a->scale_type};
}

static bool is_plain(DType type) {
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16;
}

// ---- attributes, tensors ----------------------------------------------------------------------------------

static Status check_attributes(const CacheAttention *a, Error *error) {
    if (a->num_heads < 1 || a->head_dim < 1)
        return error_set(error, STATUS_USAGE, "num_heads %d, head_dim %d: at least 1 each", a->num_heads,
                         a->head_dim);
    if (a->num_kv_heads < 0 || a->num_heads % kv_heads(a) != 0)
        return error_set(error, STATUS_USAGE, "num_heads %d is not divisible by num_kv_heads %d",
                         a->num_heads, a->num_kv_heads);
    if (a->layer_idx < 0 || a->layer_idx >= a->num_layer)
        return error_set(error, STATUS_USAGE, "layer_idx %d is not among num_layer %d", a->layer_idx,
                         a->num_layer);
    if (a->quant_bit != 0 && a->quant_bit != 8 && a->quant_bit != 4)
        return error_set(error, STATUS_USAGE, "quant_bit %d: there are 0, 8 and 4", a->quant_bit);
    if (a->cache_mode != 0 && a->cache_mode != 1)
        return error_set(error, STATUS_USAGE, "cache_mode %d: there are 0 and 1", a->cache_mode);
    if (a->cache_mode == 1 && a->page_size < 1)
        return error_set(error, STATUS_USAGE, "page_size %d: at least 1", a->page_size);
    if (!is_plain(a->type))
        return error_set(error, STATUS_USAGE, "type %s: there are f32, f16 and bf16", dtype_name(a->type));
    if (a->quant_bit == 0 && !is_plain(a->cache_type))
        return error_set(error, STATUS_USAGE, "cache_type %s: without quant_bit there are f32, f16 and bf16",
                         dtype_name(a->cache_type));
    if (a->max_tokens > INT32_MAX)
        return error_set(error, STATUS_USAGE, "max_tokens %lld: at most 2147483647",
                         (long long)a->max_tokens);
    if (a->num_heads > INT32_MAX / a->head_dim)
        return error_set(error, STATUS_USAGE, "num_heads %d of head_dim %d are beyond counting", a->num_heads,
                         a->head_dim);
    if (a->quant_bit && (a->quant_group < 2 || a->quant_group % 2 || a->head_dim % a->quant_group))
        return error_set(error, STATUS_USAGE, "quant_group %d: an even number that divides head_dim %d",
                         a->quant_group, a->head_dim);
    KvLayout layout = cache_attention_layout(a);
    return kv_layout_check(&layout, error);
}

static Status check_tensors(const CacheAttention *a, Error *error) {
    const struct {
        const char *name;
        const void *data;
    } TENSORS[] = {
        {"query", a->query},
        {"current_key", a->current_key},
        {"current_value", a->current_value},
        {"seqstarts", a->seqstarts},
        {"kvstarts", a->kvstarts},
        {"cachestarts", a->cachestarts},
        {"start_pos", a->start_pos},
        {"cache", a->cache},
        {"attn_output", a->attn_output},
    };
    for (size_t i = 0; i < sizeof TENSORS / sizeof *TENSORS; i++)
        if (!TENSORS[i].data) return error_set(error, STATUS_USAGE, "%s is missing", TENSORS[i].name);
    if (a->quant_bit && !a->scale)
        return error_set(error, STATUS_USAGE, "scale is missing, with quant_bit %d", a->quant_bit);
    if (a->attn_mask && a->mask_dims != 2 && a->mask_dims != 3)
        return error_set(error, STATUS_USAGE, "attn_mask of %d dimensions: there are 2 and 3", a->mask_dims);
    return STATUS_OK;
}

// ---- tables -----------------------------------------------------------------------------------------------

// starts [batches + 1] begins at 0 and does not go backwards; no stretch is longer than `longest`, which is `limit`'s
// value.
static Status check_starts(const CacheAttention *a, const char *name, const int64_t *starts,
                           const char *limit, int64_t longest, Error *error) {
    if (starts[0] != 0)
        return error_set(error, STATUS_USAGE, "%s begins at %lld, not at 0", name, (long long)starts[0]);
    for (int64_t b = 0; b < a->batches; b++) {
        if (starts[b + 1] < starts[b] || starts[b + 1] > INT32_MAX)
            return error_set(error, STATUS_USAGE, "%s goes from %lld to %lld at sequence %lld", name,
                             (long long)starts[b], (long long)starts[b + 1], (long long)b);
        if (starts[b + 1] - starts[b] > longest)
            return error_set(error, STATUS_USAGE, "%s %lld, but sequence %lld has %lld", limit,
                             (long long)longest, (long long)b, (long long)(starts[b + 1] - starts[b]));
    }
    return STATUS_OK;
}

// Every index 0 … kvlen-1 of a sequence lies in the cache.
static Status check_slots(const CacheAttention *a, int64_t b, int64_t kvlen, Error *error) {
    int64_t page_size = a->cache_mode == 0 ? kvlen : a->page_size,
            pages = kvlen > 0 ? (kvlen - 1) / page_size + 1 : 0;
    if (a->cache_mode == 1 && pages > a->max_pages)
        return error_set(error, STATUS_USAGE, "max_pages %lld, but sequence %lld has %lld pages",
                         (long long)a->max_pages, (long long)b, (long long)pages);
    for (int64_t page = 0; page < pages; page++) {
        int64_t left = kvlen - page * page_size, n = left < page_size ? left : page_size;
        int64_t first = cache_attention_slot(a, b, page * page_size);
        if (first < 0 || first > a->max_tokens - n)
            return error_set(error, STATUS_USAGE,
                             "cachestarts: sequence %lld has %lld tokens from %lld on, the cache holds %lld",
                             (long long)b, (long long)n, (long long)first, (long long)a->max_tokens);
    }
    return STATUS_OK;
}

static Status check_sequence(const CacheAttention *a, int64_t b, Error *error) {
    int64_t seqlen = a->seqstarts[b + 1] - a->seqstarts[b], kvlen = a->kvstarts[b + 1] - a->kvstarts[b];
    if (b < a->decoding_batches && seqlen != 1)
        return error_set(error, STATUS_USAGE, "decoding_batches %lld, but sequence %lld has %lld queries",
                         (long long)a->decoding_batches, (long long)b, (long long)seqlen);
    if (kvlen < seqlen)
        return error_set(error, STATUS_USAGE, "kvstarts: sequence %lld has %lld queries over %lld keys",
                         (long long)b, (long long)seqlen, (long long)kvlen);
    if (a->start_pos[b] < 0 || a->start_pos[b] > kvlen - seqlen)
        return error_set(error, STATUS_USAGE,
                         "start_pos: sequence %lld stores %lld tokens from %lld on, of %lld keys",
                         (long long)b, (long long)seqlen, (long long)a->start_pos[b], (long long)kvlen);
    return check_slots(a, b, kvlen, error);
}

static int compare_slots(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static Status check_distinct(const CacheAttention *a, Error *error) {
    int64_t n = 0;
    int64_t *slots = malloc((size_t)(a->seqstarts[a->batches] + 1) * sizeof *slots);
    if (!slots) return error_set(error, STATUS_MEMORY, "no memory to check slots");
    for (int64_t b = 0; b < a->batches; b++)
        for (int64_t i = 0; i < a->seqstarts[b + 1] - a->seqstarts[b]; i++)
            slots[n++] = cache_attention_slot(a, b, a->start_pos[b] + i);
    qsort(slots, (size_t)n, sizeof *slots, compare_slots);
    Status status = STATUS_OK;
    for (int64_t i = 1; i < n && !status; i++)
        if (slots[i] == slots[i - 1])
            status = error_set(error, STATUS_USAGE, "cachestarts: two tokens go to slot %lld",
                               (long long)slots[i]);
    free(slots);
    return status;
}

static Status check_tables(const CacheAttention *a, Error *error) {
    if (a->batches < 0 || a->decoding_batches < 0 || a->decoding_batches > a->batches)
        return error_set(error, STATUS_USAGE, "decoding_batches %lld of batches %lld",
                         (long long)a->decoding_batches, (long long)a->batches);
    Status status = check_starts(a, "seqstarts", a->seqstarts, "max_seqlen", a->max_seqlen, error);
    if (!status) status = check_starts(a, "kvstarts", a->kvstarts, "max_kvlen", a->max_kvlen, error);
    for (int64_t b = 0; b < a->batches && !status; b++) status = check_sequence(a, b, error);
    if (!status && a->attn_mask && a->mask_columns < a->kvstarts[a->batches])
        status = error_set(error, STATUS_USAGE, "attn_mask has %lld columns for %lld keys",
                           (long long)a->mask_columns, (long long)a->kvstarts[a->batches]);
    return status ? status : check_distinct(a, error);
}

Status cache_attention_check(const CacheAttention *a, Error *error) {
    Status status = check_attributes(a, error);
    if (!status) status = check_tensors(a, error);
    if (!status) status = check_tables(a, error);
    return status ? error_prefix(error, "cache_attention: ") : STATUS_OK;
}
