// What cache_attention() refuses, naming the argument, before it touches anything.
#include "kernels/cache_attention.h"
#include "tests/support/kernels/random.h"

#include <string.h>

// A change of one member of an operator that is right; value is a number or an address.
typedef struct BadCase {
    const char *why;
    size_t offset, size;
    intptr_t value;
} BadCase;

#define CHANGE(why, member, value)                                                                           \
    { why, offsetof(CacheAttention, member), sizeof(((CacheAttention *)0)->member), (intptr_t)(value) }

static const int64_t LATE[] = {1, 2, 3}, BACK[] = {0, 2, 1}, LONG[] = {0, 2, 5}, SHORT[] = {0, 1, 5},
                     WIDE[] = {0, 3, 9}, BELOW[] = {-1, 3}, BEYOND[] = {1, 4};
static const int64_t OUTSIDE[] = {0, 2, 19, 8}, NEGATIVE[] = {0, -2, 4, 8}, SAME[] = {6, 4, 5, 3};
static const BadCase CASES[] = {
    CHANGE("num_heads 0", num_heads, 0),
    CHANGE("num_heads 4 is not divisible by num_kv_heads 3", num_kv_heads, 3),
    CHANGE("num_kv_heads -2", num_kv_heads, -2),
    CHANGE("head_dim 0", head_dim, 0),
    CHANGE("num_heads 2000000000 of head_dim 8", num_heads, 2000000000),
    CHANGE("layer_idx 2 is not among num_layer 2", layer_idx, 2),
    CHANGE("layer_idx -1", layer_idx, -1),
    CHANGE("num_layer 0", num_layer, 0),
    CHANGE("quant_bit 5", quant_bit, 5),
    CHANGE("quant_group 3", quant_group, 3),
    CHANGE("quant_group 0", quant_group, 0),
    CHANGE("quant_group 16", quant_group, 16),
    CHANGE("cache_mode 2", cache_mode, 2),
    CHANGE("cache layout 4", cache_layout, 4),
    CHANGE("page_size 0", page_size, 0),
    CHANGE("type q8_0", type, DTYPE_Q8_0),
    CHANGE("cache scales in bf16", scale_type, DTYPE_BF16),
    CHANGE("max_tokens 2147483648", max_tokens, INT64_C(1) << 31),
    CHANGE("0 slots", max_tokens, 0),
    CHANGE("scale is missing, with quant_bit 8", scale, 0),
    CHANGE("query is missing", query, 0),
    CHANGE("current_key is missing", current_key, 0),
    CHANGE("current_value is missing", current_value, 0),
    CHANGE("cache is missing", cache, 0),
    CHANGE("attn_output is missing", attn_output, 0),
    CHANGE("seqstarts is missing", seqstarts, 0),
    CHANGE("kvstarts is missing", kvstarts, 0),
    CHANGE("cachestarts is missing", cachestarts, 0),
    CHANGE("start_pos is missing", start_pos, 0),
    CHANGE("attn_mask of 4 dimensions", mask_dims, 4),
    CHANGE("attn_mask has 6 columns for 7 keys", mask_columns, 6),
    CHANGE("decoding_batches 3 of batches 2", decoding_batches, 3),
    CHANGE("decoding_batches -1", decoding_batches, -1),
    CHANGE("decoding_batches 1, but sequence 0 has 2", decoding_batches, 1),
    CHANGE("of batches -1", batches, -1),
    CHANGE("max_seqlen 1, but sequence 0 has 2", max_seqlen, 1),
    CHANGE("max_kvlen 3, but sequence 1 has 4", max_kvlen, 3),
    CHANGE("seqstarts begins at 1", seqstarts, LATE),
    CHANGE("seqstarts goes from 2 to 1", seqstarts, BACK),
    CHANGE("kvstarts begins at 1", kvstarts, LATE),
    CHANGE("kvstarts goes from 2 to 1", kvstarts, BACK),
    CHANGE("max_seqlen 2, but sequence 1 has 3", seqstarts, LONG),
    CHANGE("has 2 queries over 1 keys", kvstarts, SHORT),
    CHANGE("max_kvlen 4, but sequence 1 has 6", kvstarts, WIDE),
    CHANGE("start_pos: sequence 0", start_pos, BELOW),
    CHANGE("start_pos: sequence 1 stores 1 tokens from 4 on, of 4 keys", start_pos, BEYOND),
    CHANGE("max_pages 1, but sequence 0 has 2 pages", max_pages, 1),
    CHANGE("cachestarts: sequence 1 has 2 tokens from 19 on, the cache holds 20", cachestarts, OUTSIDE),
    CHANGE("cachestarts: sequence 0 has 1 tokens from -2 on", cachestarts, NEGATIVE),
    CHANGE("two tokens go to slot 4", cachestarts, SAME),
};
static const int64_t SEQSTARTS[] = {0, 2, 3}, KVSTARTS[] = {0, 3, 7}, START_POS[] = {1, 3},
                     CACHESTARTS[] = {0, 2, 4, 8};

// Two sequences of 2 and 1 queries over 3 and 4 keys, in pages of 2.
static void refuses_what_cannot_be_and_touches_nothing(void **state) {
    (void)state;
    float query[96] = {0}, output[96], mask[21] = {0};
    uint8_t cache[2 * 20 * 2 * 2 * 8], scale[2 * 20 * 2 * 2 * 4 * 4], full[sizeof scale];
    const CacheAttention good = {.num_heads = 4,
                                 .head_dim = 8,
                                 .num_kv_heads = 2,
                                 .num_layer = 2,
                                 .layer_idx = 1,
                                 .quant_bit = 8,
                                 .quant_group = 2,
                                 .cache_mode = 1,
                                 .page_size = 2,
                                 .batches = 2,
                                 .max_seqlen = 2,
                                 .max_kvlen = 4,
                                 .seqstarts = SEQSTARTS,
                                 .kvstarts = KVSTARTS,
                                 .cachestarts = CACHESTARTS,
                                 .start_pos = START_POS,
                                 .max_pages = 2,
                                 .max_tokens = 20,
                                 .query = query,
                                 .current_key = query,
                                 .current_value = query,
                                 .cache = cache,
                                 .scale = scale,
                                 .attn_mask = mask,
                                 .mask_dims = 2,
                                 .mask_columns = 7,
                                 .attn_output = output};
    const DecoderShape shape = any_shape();
    Backend *backend = open_cpu("cpu", 1, &shape, 1);
    memset(cache, 0xff, sizeof cache), memset(scale, 0xff, sizeof scale), memset(full, 0xff, sizeof full);
    memset(output, 0xff, sizeof output);
    Error error = {0};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        CacheAttention a = good;
        int32_t number = (int32_t)CASES[i].value;
        memcpy((char *)&a + CASES[i].offset, CASES[i].size == 4 ? (const void *)&number : &CASES[i].value,
               CASES[i].size);
        if (backend->ops->cache_attention(backend, &a, &error) != STATUS_USAGE)
            fail_msg("not refused: %s", CASES[i].why);
        if (!strstr(error.message, CASES[i].why))
            fail_msg("expected \"%s\" in \"%s\"", CASES[i].why, error.message);
        assert_memory_equal(cache, full, sizeof cache);
        assert_memory_equal(scale, full, sizeof scale);
        assert_memory_equal(output, full, sizeof output);
    }
    CacheAttention a = good;
    a.quant_bit = 0, a.cache_type = DTYPE_INT8;
    assert_int_equal(backend->ops->cache_attention(backend, &a, &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "cache_type int8"));
    a = good;
    a.batches = 0;
    assert_ok(backend->ops->cache_attention(backend, &a, &error), &error); // nothing to do
    assert_memory_equal(cache, full, sizeof cache);
    assert_ok(backend->ops->cache_attention(backend, &good, &error), &error);

    backend->ops->close(backend);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_cannot_be_and_touches_nothing),
    };
    return test_main("cache_attention_errors", argc, argv, tests);
}
