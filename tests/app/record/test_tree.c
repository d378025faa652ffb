// The tree of turns by itself: names, ways, undo and redo, what has left the window on which way.
#include "tests/support/test.h"
#include "app/record/transcript/tree.h"

#include <stdlib.h>
#include <string.h>

static void add_left(Tree *tree, int parent, const TreeEviction *evictions, int n) {
    Error error = {0};
    if (tree_add(tree, parent, evictions, n, &error)) fail_msg("%s", error.message);
}

static void add(Tree *tree, int parent) {
    add_left(tree, parent, NULL, 0);
}

static void expect_name(const Tree *tree, int index, const char *name) {
    char text[TREE_NAME_ROOM];
    tree_name(tree, index, text);
    assert_string_equal(text, name);
    assert_int_equal(tree_find(tree, name), index);
}

// `left` has a sign for each turn on the way to `index`: '-' out of the window, 'r' its reply, 'g' some tokens of
// it, '+' seen.
static void expect_left(const Tree *tree, int index, const char *left) {
    TreeEvicted found[100];
    char signs[101] = "";
    int n = tree_turn(tree, index);
    assert_true(n <= 100);
    tree_find_evicted(tree, index, found);
    for (int i = 0; i < n; i++)
        signs[i] = found[i].whole ? '-' : found[i].reply ? 'r' : found[i].n_evicted ? 'g' : '+';
    assert_string_equal(signs, left);
}

static void test_an_empty_tree(void **state) {
    (void)state;
    Tree tree;
    int n = 7;
    tree_init(&tree);
    assert_int_equal(tree_depth(&tree), 0);
    assert_int_equal(tree_ancestor(&tree, TREE_START, 3), TREE_START);
    assert_int_equal(tree_redo(&tree, 1, &n), TREE_START);
    assert_int_equal(n, 0);
    expect_name(&tree, TREE_START, "0");
    assert_int_equal(tree_find(&tree, "1.1"), TREE_NONE);
    tree_go(&tree, TREE_START);
    expect_left(&tree, TREE_START, "");
    tree_free(&tree);
}

static void test_names_count_attempts_at_a_turn(void **state) {
    (void)state;
    Tree tree;
    tree_init(&tree);
    add(&tree, TREE_START); // 1.1
    add(&tree, 0);          // 2.1
    add(&tree, 0);          // 2.2
    add(&tree, TREE_START); // 1.2
    add(&tree, 3);          // 2.3, after another first turn
    static const char *const names[] = {"1.1", "2.1", "2.2", "1.2", "2.3"};
    for (int i = 0; i < 5; i++) expect_name(&tree, i, names[i]);
    assert_int_equal(tree.head, 4);
    assert_int_equal(tree_next_attempt(&tree, TREE_START), 3);
    assert_int_equal(tree_next_attempt(&tree, 4), 1);
    static const char *const none[] = {
        "",     ".",    "1",   "1.",  "01.1", "1.01", "+1.1",
        " 1.1", "1.1 ", "1.3", "3.1", "00",   "-1",   "99999999999999999999.1"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(tree_find(&tree, none[i]), TREE_NONE);
    tree_free(&tree);
}

static void test_ways(void **state) {
    (void)state;
    Tree tree;
    int path[3];
    tree_init(&tree);
    add(&tree, TREE_START);
    add(&tree, 0);
    add(&tree, 0);
    add(&tree, 2);
    tree_path(&tree, 3, path);
    assert_int_equal(path[0], 0);
    assert_int_equal(path[1], 2);
    assert_int_equal(path[2], 3);
    assert_int_equal(tree_at(&tree, 1), 0);
    assert_int_equal(tree_at(&tree, 2), 2);
    assert_int_equal(tree_at(&tree, 3), 3);
    assert_int_equal(tree_ancestor(&tree, 3, 2), 0);
    assert_int_equal(tree_ancestor(&tree, 3, 3), TREE_START);
    assert_int_equal(tree_ancestor(&tree, 3, 1000000), TREE_START);
    tree_free(&tree);
}

static void expect_redo(const Tree *tree, int down, int index, int steps) {
    int n;
    assert_int_equal(tree_redo(tree, down, &n), index);
    assert_int_equal(n, steps);
}

// Redo follows the way that was gone last, whatever other ways there are.
static void test_redo_takes_the_way_gone_last(void **state) {
    (void)state;
    Tree tree;
    tree_init(&tree);
    add(&tree, TREE_START); // 0: 1.1
    add(&tree, 0);          // 1: 2.1
    add(&tree, 1);          // 2: 3.1
    expect_redo(&tree, 5, 2, 0);
    tree_go(&tree, TREE_START);
    expect_redo(&tree, 1, 0, 1);
    expect_redo(&tree, 3, 2, 3);
    expect_redo(&tree, 9, 2, 3);
    tree_go(&tree, 0);
    add(&tree, 0); // 3: 2.2 is the way now
    expect_redo(&tree, 1, 3, 0);
    tree_go(&tree, TREE_START);
    expect_redo(&tree, 9, 3, 2);
    tree_go(&tree, 2); // by name to the old way, and back up
    tree_go(&tree, 0);
    expect_redo(&tree, 9, 2, 2);
    add(&tree, TREE_START); // 4: 1.2, not after the head
    tree_go(&tree, TREE_START);
    expect_redo(&tree, 9, 4, 1);
    tree_free(&tree);
}

// What left while a turn was answered is out of the window after it, and was not before.
static void test_what_left_belongs_to_the_way(void **state) {
    (void)state;
    Tree tree;
    tree_init(&tree);
    for (int i = 0; i < 4; i++) add(&tree, i - 1);
    add_left(&tree, 3, &(TreeEviction){{1, 2}, 0}, 1); // 4: 5.1
    add(&tree, 4);                                     // 5: 6.1
    expect_left(&tree, 3, "++++");
    expect_left(&tree, 4, "--+++");
    expect_left(&tree, 5, "--++++");
    add(&tree, 3); // 6: 5.2, from before
    expect_left(&tree, 6, "+++++");
    add_left(&tree, 5, (TreeEviction[]){{{3, 3}, 0}, {{4, 5}, 0}}, 2); // 7: 7.1, twice in one reply
    expect_left(&tree, 7, "-----++");
    Error error;
    assert_int_equal(tree_evict(&tree, 6, &(TreeEviction){{1, 1}, 0}, 1, &error), STATUS_OK);
    assert_int_equal(tree_evict(&tree, 6, &(TreeEviction){{2, 3}, 0}, 1, &error), STATUS_OK);
    assert_int_equal(tree_evict(&tree, 6, NULL, 0, &error), STATUS_OK);
    expect_left(&tree, 6, "---++");
    expect_left(&tree, 3, "++++");
    tree_free(&tree);
}

// A reply may lose its beginning, more and more of it, or leave without its question.
static void test_parts_of_a_turn(void **state) {
    (void)state;
    Tree tree;
    TreeEvicted left[4];
    tree_init(&tree);
    add(&tree, TREE_START);
    add(&tree, 0);
    add_left(&tree, 1, (TreeEviction[]){{{1, 1}, TREE_REPLY}, {{2, 2}, 5}}, 2);
    expect_left(&tree, 1, "++");
    expect_left(&tree, 2, "rg+");
    add_left(&tree, 2, &(TreeEviction){{2, 2}, 9}, 1);
    tree_find_evicted(&tree, 3, left);
    assert_int_equal(left[1].n_evicted, 9);
    tree_find_evicted(&tree, 2, left);
    assert_int_equal(left[1].n_evicted, 5);
    add_left(&tree, 3, &(TreeEviction){{2, 2}, 0}, 1);
    expect_left(&tree, 4, "r-+++");
    tree_free(&tree);
}

// The system prompt is turn 0 of every way: out of the window where it was, there again where another takes its place.
static void test_the_system_prompt_leaves(void **state) {
    (void)state;
    Tree tree;
    tree_init(&tree);
    add(&tree, TREE_START);
    add(&tree, 0);
    add_left(&tree, 1, (TreeEviction[]){{{1, 1}, 0}, {{0, 0}, 0}}, 2); // 2: 3.1
    add(&tree, 2);
    add(&tree, 1);                                              // 4: 3.2, from before
    add_left(&tree, 4, &(TreeEviction){{0, 0}, TREE_REPLY}, 1); // 5: it has no reply
    const bool left[] = {false, false, true, true, false, false};
    for (int i = 0; i < tree.n; i++) assert_int_equal(tree_is_system_evicted(&tree, i), left[i]);
    assert_false(tree_is_system_evicted(&tree, TREE_START));
    tree_renew_system(&tree);
    for (int i = 0; i < tree.n; i++) assert_false(tree_is_system_evicted(&tree, i));
    expect_left(&tree, 3, "-+++");
    tree_free(&tree);
}

static void test_ranges_out_of_the_way_are_harmless(void **state) {
    (void)state;
    Tree tree;
    tree_init(&tree);
    add_left(&tree, TREE_START,
             (TreeEviction[]){{{0, 0}, 0}, {{5, 9}, 0}, {{2, 1}, 0}, {{2147483647, 2147483647}, 0}}, 4);
    expect_left(&tree, 0, "+");
    add_left(&tree, 0, &(TreeEviction){{-5, 2147483647}, 0}, 1);
    expect_left(&tree, 1, "--");
    tree_free(&tree);
}

static void test_forgotten_on_every_way_until_one_goes_back(void **state) {
    (void)state;
    Tree tree;
    tree_init(&tree);
    for (int i = 0; i < 5; i++) add(&tree, i - 1);
    tree_forget(&tree, 4, (TreeRange){1, 2});
    expect_left(&tree, 4, "--+++");
    add(&tree, 3); // another fifth turn
    expect_left(&tree, 5, "--+++");
    tree_go(&tree, 2);
    expect_left(&tree, 2, "--+");
    add(&tree, 0); // after a forgotten one, as an edit of turn 2 does
    expect_left(&tree, 6, "-+");
    tree_go(&tree, 1); // back to what was forgotten: it is remembered
    expect_left(&tree, 1, "++");
    expect_left(&tree, 4, "+++++");
    tree_forget(&tree, 4, (TreeRange){1, 3});
    tree_go(&tree, 1);
    expect_left(&tree, 4, "+++++"); // those behind it, too
    tree_free(&tree);
}

// Adding to a long way costs no more than to a short one.
static void test_a_long_way(void **state) {
    (void)state;
    enum { N = 200000 };
    Tree tree;
    tree_init(&tree);
    for (int i = 0; i < N; i++) add(&tree, i - 1);
    assert_int_equal(tree_depth(&tree), N);
    expect_name(&tree, N - 1, "200000.1");
    int n;
    tree_go(&tree, TREE_START);
    assert_int_equal(tree_redo(&tree, N + 1, &n), N - 1);
    assert_int_equal(n, N);
    tree_free(&tree);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_tree),
        cmocka_unit_test(test_names_count_attempts_at_a_turn),
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_redo_takes_the_way_gone_last),
        cmocka_unit_test(test_what_left_belongs_to_the_way),
        cmocka_unit_test(test_parts_of_a_turn),
        cmocka_unit_test(test_the_system_prompt_leaves),
        cmocka_unit_test(test_ranges_out_of_the_way_are_harmless),
        cmocka_unit_test(test_forgotten_on_every_way_until_one_goes_back),
        cmocka_unit_test(test_a_long_way),
    };
    return test_main("tree", argc, argv, tests);
}
