// How a decoder is cut for several cards (kernels/shards/shards_plan.c).
#include "kernels/shards/shards_plan.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <string.h>

static Error error;

typedef struct Cut {
    int n_heads, n_kv_heads, head_dim, intermediate, vocab;
    ShardBlocks blocks;
    int n;
    int heads[8], kv_heads[8], columns[8], rows[8]; // of each card; 0: not said
} Cut;

static void check_cut(const Cut *c) {
    const DecoderShape shape = {.n_layers = 1,
                                .hidden_size = 64,
                                .n_heads = c->n_heads,
                                .n_kv_heads = c->n_kv_heads,
                                .head_dim = c->head_dim,
                                .intermediate_size = c->intermediate,
                                .vocab_size = c->vocab};
    Shard shards[SHARDS_MOST];
    assert_ok(shards_plan(&shape, &c->blocks, c->n, shards, &error), &error);
    int head = 0, column = 0, row = 0;
    for (int i = 0; i < c->n; i++) {
        const Shard *s = &shards[i];
        const int group = c->n_heads / c->n_kv_heads;
        // One behind the other, without gaps, on borders of blocks; every head beside its KV head.
        assert_int_equal(s->first_head, head);
        assert_int_equal(s->first_column, column);
        assert_int_equal(s->first_row, row);
        head += s->n_heads, column += s->n_columns, row += s->n_rows;
        assert_int_equal((int64_t)s->first_head * c->head_dim % c->blocks.out, 0);
        assert_int_equal(s->first_column % c->blocks.down, 0);
        assert_int_equal(s->n_heads % s->n_kv_heads, 0);
        const int own_group = s->n_heads / s->n_kv_heads;
        for (int h = 0; h < s->n_heads; h++)
            assert_int_equal((s->first_head + h) / group, s->first_kv_head + h / own_group);
        if (c->heads[i]) assert_int_equal(s->n_heads, c->heads[i]);
        if (c->kv_heads[i]) assert_int_equal(s->n_kv_heads, c->kv_heads[i]);
        if (c->columns[i]) assert_int_equal(s->n_columns, c->columns[i]);
        if (c->rows[i]) assert_int_equal(s->n_rows, c->rows[i]);
        const DecoderShape own = shards_shape(&shape, s);
        assert_int_equal(own.vocab_size, c->vocab);
        assert_int_equal(decoder_output_rows(&own), s->n_rows);
    }
    assert_int_equal(head, c->n_heads);
    assert_int_equal(column, c->intermediate);
    assert_int_equal(row, c->vocab);
}

static void every_part_is_somebodys(void **state) {
    (void)state;
    static const Cut CUTS[] = {
        // Llama-2-7B, on two and four; Llama-3-70B on eight and on three.
        {32, 32, 128, 11008, 32000, {1, 1}, 2, {16, 16}, {16, 16}, {5504, 5504}, {16000, 16000}},
        {32,
         32,
         128,
         11008,
         32000,
         {32, 32},
         4,
         {8, 8, 8, 8},
         {8, 8, 8, 8},
         {2752, 2752, 2752, 2752},
         {8000}},
        {64,
         8,
         128,
         28672,
         128256,
         {256, 256},
         8,
         {8, 8, 8, 8, 8, 8, 8, 8},
         {1, 1, 1, 1, 1, 1, 1, 1},
         {0},
         {0}},
        {64, 8, 128, 28672, 128256, {1, 1}, 3, {24, 24, 16}, {3, 3, 2}, {0}, {0}},
        // 43 blocks of 256 on two.
        {32, 32, 128, 11008, 32000, {256, 256}, 2, {16, 16}, {16, 16}, {5632, 5376}, {0}},
        // One KV head on two, on three and on four: all of them have it.
        {8, 1, 64, 512, 1000, {1, 1}, 2, {4, 4}, {1, 1}, {256, 256}, {500, 500}},
        {8, 1, 64, 512, 1000, {1, 1}, 3, {3, 3, 2}, {1, 1, 1}, {0}, {0}},
        {8, 1, 64, 512, 1000, {256, 32}, 2, {4, 4}, {1, 1}, {0}, {0}},
        // Two KV heads on three: the first is on two of them; seven heads look at each.
        {14, 2, 64, 4864, 151936, {1, 1}, 3, {4, 3, 7}, {1, 1, 1}, {0}, {0}},
        {14, 2, 64, 4864, 151936, {1, 1}, 4, {4, 3, 4, 3}, {1, 1, 1, 1}, {0}, {0}},
        // A vocabulary of 32,001 on three; three KV heads on two; sizes that do not divide.
        {32, 32, 128, 11008, 32001, {1, 1}, 3, {11, 11, 10}, {0}, {0}, {10667, 10667, 10667}},
        {9, 3, 64, 1536, 49152, {32, 32}, 2, {6, 3}, {2, 1}, {768, 768}, {0}},
        {4, 2, 12, 40, 56, {1, 8}, 2, {2, 2}, {1, 1}, {24, 16}, {28, 28}},
        {3, 1, 16, 40, 57, {1, 8}, 3, {1, 1, 1}, {1, 1, 1}, {16, 16, 8}, {19, 19, 19}},
        {5, 5, 64, 72, 1001, {1, 8}, 4, {2, 1, 1, 1}, {0}, {24, 16, 16, 16}, {251, 250, 250, 250}},
        // Heads of 64 in blocks of 256: four KV heads stand together.
        {16, 16, 64, 1024, 1000, {256, 256}, 2, {8, 8}, {8, 8}, {512, 512}, {0}},
        {12, 12, 64, 768, 1000, {256, 256}, 2, {8, 4}, {8, 4}, {512, 256}, {0}},
    };
    for (size_t i = 0; i < sizeof CUTS / sizeof *CUTS; i++) check_cut(&CUTS[i]);
}

static void so_it_is_of_any_shape_that_is_not_refused(void **state) {
    (void)state;
    int refused = 0, taken = 0;
    for (uint32_t i = 0, at = 1; i < 4000; i++) {
        at = at * 1664525 + 1013904223;
        static const int BLOCKS[] = {1, 32, 64, 256}, DIMS[] = {8, 64, 80, 128};
        const int kv = 1 + (int)(at >> 8) % 9, group = 1 + (int)(at >> 12) % 7;
        Cut c = {kv * group,
                 kv,
                 DIMS[at >> 16 & 3],
                 0,
                 50 + (int)(at >> 18) % 1000,
                 {1, 1},
                 2 + (int)(at >> 28) % 7,
                 {0},
                 {0},
                 {0},
                 {0}};
        c.blocks.out = BLOCKS[at >> 20 & 3], c.blocks.down = BLOCKS[at >> 22 & 3];
        if ((int64_t)c.n_heads * c.head_dim % c.blocks.out != 0) continue;
        const int unit = c.blocks.down > 8 ? (int)c.blocks.down : 8;
        c.intermediate = unit * (1 + (int)(at >> 9) % 20);
        const DecoderShape shape = {.n_layers = 1,
                                    .hidden_size = 64,
                                    .n_heads = c.n_heads,
                                    .n_kv_heads = kv,
                                    .head_dim = c.head_dim,
                                    .intermediate_size = c.intermediate,
                                    .vocab_size = c.vocab};
        Shard shards[SHARDS_MOST];
        if (shards_plan(&shape, &c.blocks, c.n, shards, &error))
            refused++;
        else
            taken++, check_cut(&c);
    }
    assert_true(taken > 1000 && refused > 100);
}

static void what_leaves_a_card_empty_is_refused(void **state) {
    (void)state;
    const DecoderShape shape = {.n_layers = 1,
                                .hidden_size = 64,
                                .n_heads = 3,
                                .n_kv_heads = 3,
                                .head_dim = 64,
                                .intermediate_size = 512,
                                .vocab_size = 100};
    Shard shards[SHARDS_MOST];
    assert_int_equal(shards_plan(&shape, &(ShardBlocks){1, 1}, 4, shards, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "4 cards: 3 heads of 64 over 3 KV heads"));
    assert_int_equal(shards_plan(&shape, &(ShardBlocks){1, 256}, 3, shards, &error), STATUS_UNSUPPORTED);
    DecoderShape experts = shape;
    experts.intermediate_size = 0; // no layer is dense
    experts.experts = (Experts){.n = 8, .n_active = 2, .size = 768, .shared_size = 96};
    assert_int_equal(shards_plan(&experts, &(ShardBlocks){1, 256}, 2, shards, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "experts of 768 and 96"));
    assert_ok(shards_plan(&experts, &(ShardBlocks){1, 32}, 3, shards, &error), &error);
    for (int i = 0; i < 3; i++) {
        const DecoderShape own = shards_shape(&experts, &shards[i]);
        assert_int_equal(shards[i].first_of_expert, 256 * i);
        assert_int_equal(shards[i].first_of_shared, 32 * i);
        assert_int_equal(own.experts.size, 256);
        assert_int_equal(own.experts.shared_size, 32);
        assert_int_equal(own.experts.n, 8);
    }
    experts.experts.beside = true;
    assert_int_equal(shards_plan(&experts, &(ShardBlocks){1, 1}, 2, shards, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "take one card"));
}

// Columns of out are those of values, which latents' heads have of a size of their own; the latent is everybody's.
static void latents_are_cut_by_heads_of_values(void **state) {
    (void)state;
    const DecoderShape shape = {.n_layers = 1,
                                .hidden_size = 2048,
                                .n_heads = 20,
                                .n_kv_heads = 1,
                                .head_dim = 576,
                                .rope = {.rotary_dim = 64},
                                .latent = {.rank = 512, .q_rank = 768, .plain_dim = 192, .value_dim = 128},
                                .intermediate_size = 10240,
                                .vocab_size = 154880};
    static const int HEADS[][3] = {{10, 10, 0}, {7, 7, 6}, {8, 6, 6}};
    for (int i = 0; i < 3; i++) {
        Shard shards[SHARDS_MOST];
        const int n = i ? 3 : 2;
        // In blocks of 256 two heads of values of 128 stand together.
        assert_ok(shards_plan(&shape, &(ShardBlocks){i == 2 ? 256 : 8, 8}, n, shards, &error), &error);
        for (int card = 0, first = 0; card < n; first += HEADS[i][card++]) {
            assert_int_equal(shards[card].first_head, first);
            assert_int_equal(shards[card].n_heads, HEADS[i][card]);
            assert_int_equal(shards[card].first_kv_head, 0);
            assert_int_equal(shards[card].n_kv_heads, 1);
        }
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_somebodys),
        cmocka_unit_test(so_it_is_of_any_shape_that_is_not_refused),
        cmocka_unit_test(what_leaves_a_card_empty_is_refused),
        cmocka_unit_test(latents_are_cut_by_heads_of_values),
    };
    return test_main("shards_plan", argc, argv, tests);
}
