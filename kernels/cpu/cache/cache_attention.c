// cache_attention(): the operator of its own, over the store of kv.c and the tiles of attention.c. It knows indexes only:
// index i of a sequence holds position i, whatever the slots held before.
#include "kernels/cache_attention.h"
#include "kernels/alibi.h"
#include "kernels/cpu/arena.h"
#include "kernels/cpu/cache/kv.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Run {
    const CacheAttention *a;
    const Loops *loops;
    KvLayer kv;
    int n_kv_heads;
    int64_t n_tokens, n_pages;
    // In one allocation:
    float *q;                // [n_tokens, num_heads, head_dim] queries, then results
    float *k, *v;            // [n_tokens, n_kv_heads, head_dim]
    int32_t *slots;          // [n_tokens] where keys and values go
    int32_t *positions;      // [n_tokens] the last index that each query sees
    int32_t *pages;          // [n_pages] of all sequences
    StepSequence *sequences; // [batches]
    TokenTile *tiles;        // [n_tokens]
    float *slopes;           // [num_heads]
    char *scratch;           // [n_threads, thread_bytes]
    int64_t thread_bytes;
} Run;

static int64_t kv_length(const CacheAttention *a, int64_t b) {
    return a->kvstarts[b + 1] - a->kvstarts[b];
}

static int64_t count_pages(const CacheAttention *a, int64_t b) {
    if (a->cache_mode == 0) return 1;
    return (kv_length(a, b) + a->page_size - 1) / a->page_size;
}

// Returns the bytes; -1 if they are beyond counting. base NULL: only counts.
static int64_t lay_out(Run *r, int n_threads, char *base) {
    const CacheAttention *a = r->a;
    Arena arena = {.base = base};
    int64_t width = (int64_t)a->num_heads * a->head_dim, kv_width = (int64_t)r->n_kv_heads * a->head_dim;
    r->q = arena_take(&arena, r->n_tokens * width, sizeof *r->q);
    r->k = arena_take(&arena, r->n_tokens * kv_width, sizeof *r->k);
    r->v = arena_take(&arena, r->n_tokens * kv_width, sizeof *r->v);
    r->slots = arena_take(&arena, r->n_tokens, sizeof *r->slots);
    r->positions = arena_take(&arena, r->n_tokens, sizeof *r->positions);
    r->pages = arena_take(&arena, r->n_pages, sizeof *r->pages);
    r->sequences = arena_take(&arena, a->batches, sizeof *r->sequences);
    r->tiles = arena_take(&arena, r->n_tokens, sizeof *r->tiles);
    r->slopes = arena_take(&arena, a->num_heads, sizeof *r->slopes);
    r->thread_bytes = attention_thread_bytes(r->loops, a->num_heads, r->n_kv_heads, a->head_dim);
    r->scratch = arena_take(&arena, n_threads, r->thread_bytes);
    return arena.overflow ? -1 : arena.used;
}

// The operator's tables as those of a step.
static void fill_tables(Run *r) {
    const CacheAttention *a = r->a;
    int32_t *pages = r->pages;
    for (int64_t b = 0; b < a->batches; b++) {
        int64_t first = a->seqstarts[b], n = a->seqstarts[b + 1] - first, kvlen = kv_length(a, b);
        bool causal = a->is_causal && b >= a->decoding_batches;
        for (int64_t i = 0; i < n; i++) {
            r->slots[first + i] = (int32_t)cache_attention_slot(a, b, a->start_pos[b] + i);
            r->positions[first + i] = (int32_t)(causal ? kvlen - n + i : kvlen - 1);
        }
        r->sequences[b] = (StepSequence){
            .first_token = (int)first, .n_tokens = (int)n, .n_slots = (int)kvlen, .pages = pages};
        for (int64_t page = 0; page < count_pages(a, b); page++)
            *pages++ = (int32_t)cache_attention_slot(a, b, page * a->page_size);
    }
    for (int h = 0; h < a->num_heads; h++) r->slopes[h] = alibi_slope(h, a->num_heads);
}

// Converts a token's query, key and value, and stores the latter two.
static void take_token(void *context, int64_t token, int thread) {
    const Run *r = context;
    const CacheAttention *a = r->a;
    int64_t width = (int64_t)a->num_heads * a->head_dim, kv_width = (int64_t)r->n_kv_heads * a->head_dim;
    float *k = r->k + token * kv_width, *v = r->v + token * kv_width;
    (void)thread;
    quant_load(a->type, a->query, token * width, width, r->q + token * width);
    quant_load(a->type, a->current_key, token * kv_width, kv_width, k);
    quant_load(a->type, a->current_value, token * kv_width, kv_width, v);
    for (int h = 0; h < r->n_kv_heads; h++) {
        int64_t at = (int64_t)h * a->head_dim;
        kv_store(r->loops, &r->kv, &(KvRow){KV_KEYS, r->slots[token], h, a->head_dim}, k + at);
        kv_store(r->loops, &r->kv, &(KvRow){KV_VALUES, r->slots[token], h, a->head_dim}, v + at);
    }
}

static void give_token(void *context, int64_t token, int thread) {
    const Run *r = context;
    const CacheAttention *a = r->a;
    int64_t width = (int64_t)a->num_heads * a->head_dim, at = token * width;
    (void)thread;
    if (a->type == DTYPE_F16)
        r->loops->to_half(r->q + at, width, (uint16_t *)a->attn_output + at);
    else if (a->type == DTYPE_BF16)
        for (int64_t i = at; i < at + width; i++) ((uint16_t *)a->attn_output)[i] = quant_to_bfloat(r->q[i]);
    else
        memcpy((float *)a->attn_output + at, r->q + at, (size_t)width * sizeof *r->q);
}

static void attend_all(const Run *r, Threads *threads) {
    const CacheAttention *a = r->a;
    AttentionJob job = {.loops = r->loops,
                        .threads = threads,
                        .scratch = r->scratch,
                        .thread_bytes = r->thread_bytes,
                        .q = r->q,
                        .y = r->q,
                        .n_heads = a->num_heads,
                        .n_kv_heads = r->n_kv_heads,
                        .head_dim = a->head_dim,
                        .scale = (float)(1 / sqrt(a->head_dim)),
                        .slopes = a->is_alibi ? r->slopes : NULL,
                        .mask_columns = a->kvstarts,
                        .positions = r->positions,
                        .tiles = r->tiles,
                        .sequences = r->sequences,
                        .page_size = a->cache_mode == 0 ? INT32_MAX : a->page_size,
                        .kv = &r->kv};
    if (a->attn_mask)
        job.mask = (AttendMask){.type = a->type,
                                .values = a->attn_mask,
                                .token_stride = a->mask_columns,
                                .head_stride = a->mask_dims == 3 ? r->n_tokens * a->mask_columns : 0};
    int tile_tokens = attention_tile_tokens(r->loops, a->num_heads, r->n_kv_heads);
    job.n_tiles = attention_cut_tiles(r->sequences, (int)a->batches, tile_tokens, r->tiles);
    attention_run(&job);
}

Status cpu_cache_attention(Backend *backend, const CacheAttention *a, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    Status status = cache_attention_check(a, error);
    if (status) return status;
    KvLayout layout = cache_attention_layout(a);
    Run r = {.a = a,
             .loops = cpu->loops,
             .kv = kv_layout_layer(&layout, a->cache, a->scale, a->layer_idx),
             .n_kv_heads = layout.n_kv_heads,
             .n_tokens = a->seqstarts[a->batches]};
    for (int64_t b = 0; b < a->batches; b++) r.n_pages += count_pages(a, b);
    int n_threads = threads_count(cpu->threads);
    int64_t bytes = lay_out(&r, n_threads, NULL);
    char *memory = bytes < 0 ? NULL : aligned_alloc(64, (size_t)(bytes > 0 ? bytes : 64));
    if (!memory)
        return error_set(error, STATUS_MEMORY, "cache_attention: no memory for %lld tokens",
                         (long long)r.n_tokens);
    lay_out(&r, n_threads, memory);
    fill_tables(&r);
    threads_run(cpu->threads, r.n_tokens, take_token, &r);
    attend_all(&r, cpu->threads);
    threads_run(cpu->threads, r.n_tokens, give_token, &r);
    free(memory);
    return STATUS_OK;
}
