// Bytes in, whole characters out.
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/utf8.h"

// Pushes `text` in chunks of the sizes that `next` gives, flushes, and compares.
typedef size_t (*NextSize)(void *state);

static void assert_stream(const char *text, size_t size, NextSize next, void *state, const char *expected,
                          size_t expected_size) {
    Utf8Stream stream = {0};
    char *out = malloc(UTF8_STREAM_ROOM(size) + 3 * size + 16);
    size_t n = 0;
    for (size_t at = 0; at < size;) {
        size_t take = next(state);
        if (take > size - at) take = size - at;
        char *chunk = malloc(take + 1); // its own block, so that a read beyond it is seen
        memcpy(chunk, text + at, take);
        size_t wrote = utf8_stream_push(&stream, chunk, take, out + n);
        free(chunk);
        assert_true(wrote <= UTF8_STREAM_ROOM(take));
        assert_int_equal(utf8_valid_run(out + n, wrote), wrote); // every push gives whole characters
        n += wrote;
        at += take;
    }
    n += utf8_stream_flush(&stream, out + n);
    assert_int_equal(utf8_stream_flush(&stream, out + n), 0);
    assert_int_equal(n, expected_size);
    assert_memory_equal(out, expected, expected_size);
    free(out);
}

static size_t always(void *state) {
    return *(size_t *)state;
}

static void assert_any_chunks(const char *text, size_t size, const char *expected) {
    for (size_t chunk = 1; chunk <= size + 1; chunk++)
        assert_stream(text, size, always, &chunk, expected, strlen(expected));
}

static void valid_text_passes(void **state) {
    (void)state;
    static const char *const texts[] = {"plain",
                                        "é",
                                        "日本語",
                                        "👩‍👩‍👧‍👦",
                                        "a\u07ff\u0800\uffff\U00010000\U0010ffff",
                                        "🏳️‍🌈 ok",
                                        "\u00e9\u0301"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_any_chunks(texts[i], strlen(texts[i]), texts[i]);
}

// Unicode 15, table 3-11 and others of section 3.9: one U+FFFD for each maximal subpart.
static void broken_text_is_replaced(void **state) {
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "\uFFFD\uFFFD\uFFFD\uFFFDA"},
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB"},
        {"\xF0\x9F\x98", "\uFFFD"},
        {"a\xC3", "a\uFFFD"},
        {"\xE2\x82é", "\uFFFDé"},
        {"\xF0\x9F\x98\xF0\x9F\x98\x80", "\uFFFD😀"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_any_chunks(cases[i].text, strlen(cases[i].text), cases[i].expected);
}

static void every_character_in_every_cut(void **state) {
    (void)state;
    for (uint32_t code = 0x80; code < 0x110000; code += code < 0x3000 ? 1 : 97) {
        if (code >= 0xD800 && code < 0xE000) continue;
        char text[4], out[64];
        int size = utf8_write(code, text);
        uint32_t back;
        assert_int_equal(utf8_next(text, (size_t)size, &back), size);
        assert_int_equal(back, code);
        for (int cut = 1; cut < size; cut++) {
            Utf8Stream stream = {0};
            assert_int_equal(utf8_stream_push(&stream, text, (size_t)cut, out), 0);
            assert_int_equal(utf8_stream_push(&stream, text + cut, (size_t)(size - cut), out), size);
            assert_memory_equal(out, text, size);
        }
    }
}

static size_t random_size(void *state) {
    uint32_t *seed = state;
    *seed = *seed * 1664525u + 1013904223u;
    return 1 + (*seed >> 24) % 7;
}

// However random bytes are cut, what comes out is the same.
static void cuts_do_not_matter(void **state) {
    (void)state;
    static const unsigned char bytes[] = {0x41, 0x80, 0xBF, 0xC2, 0xC3, 0xE0, 0xE2,
                                          0xED, 0xF0, 0xF4, 0x90, 0x9F, 0xA0, 0xFF};
    uint32_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        char text[40], whole[400];
        size_t size = 1 + random_size(&seed) * 5;
        for (size_t i = 0; i < size; i++)
            text[i] = (char)bytes[random_size(&seed) * 2 - random_size(&seed) % 2 - 1];
        Utf8Stream stream = {0};
        size_t n = utf8_stream_push(&stream, text, size, whole);
        n += utf8_stream_flush(&stream, whole + n);
        assert_stream(text, size, random_size, &seed, whole, n);
    }
}

static void empty_pushes_are_fine(void **state) {
    (void)state;
    Utf8Stream stream = {0};
    char out[64];
    assert_int_equal(utf8_stream_push(&stream, "", 0, out), 0);
    assert_int_equal(utf8_stream_push(&stream, "\xC3", 1, out), 0);
    assert_int_equal(utf8_stream_push(&stream, "", 0, out), 0);
    assert_int_equal(utf8_stream_push(&stream, "\xA9", 1, out), 2);
    assert_int_equal(utf8_stream_flush(&stream, out), 0);
}

static void expect_spelled(const char *text, const char *spelled) {
    char signs[200] = "", back[200];
    size_t at = 0, size;
    for (size_t i = 0, n = strlen(text); i < n; at += size)
        i += utf8_spell(text + i, n - i, signs + at, &size);
    signs[at] = 0;
    assert_string_equal(signs, spelled);
    assert_int_equal(utf8_unspell(spelled, back, sizeof back), strcmp(text, spelled) != 0);
    assert_string_equal(back, text);
    assert_false(utf8_unspell(spelled, back, strlen(text)));
}

static void spelled_and_back(void **state) {
    (void)state;
    expect_spelled("a\n\033\x7f\xff\xe6\x97", "a\\x0a\\x1b\\x7f\\xff\\xe6\\x97");
    expect_spelled("\x9b\xc2\x9b\xe2\x80\xae\xe6\x97\xa5", "\\x9b\\u009b\\u202e\xe6\x97\xa5");
    expect_spelled("plain", "plain");
    // What would look like another name: blanks that are none, zero widths, marks of direction, soft hyphens.
    expect_spelled("in\xc2\xa0two\xe2\x80\x8b\xe2\x80\x8e\xc2\xad\xef\xbb\xbf\xe2\x80\xa8",
                   "in\\u00a0two\\u200b\\u200e\\u00ad\\ufeff\\u2028");
    // What shows in its neighbours: a joined emoji, a blank as wide as its characters.
    expect_spelled("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb\xef\xb8\x8f\xe3\x80\x80",
                   "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb\xef\xb8\x8f\xe3\x80\x80");
    char text[50];
    assert_true(utf8_unspell("\\x20a\\x5cx1b c\\x5c", text, sizeof text)); // as in a name
    assert_string_equal(text, " a\\x1b c\\");
    static const char *const none[] = {"\\x41",   "\\x1B",   "\\x00", "\\x",        "\\x1",
                                       "\\u001b", "\\ud800", "\\x+1", "\\xc2\\x9b", "\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char text[50];
        if (utf8_unspell(none[i], text, sizeof text)) fail_msg("%s", none[i]);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_text_passes),
        cmocka_unit_test(broken_text_is_replaced),
        cmocka_unit_test(every_character_in_every_cut),
        cmocka_unit_test(cuts_do_not_matter),
        cmocka_unit_test(empty_pushes_are_fine),
        cmocka_unit_test(spelled_and_back),
    };
    return test_main("utf8_stream", argc, argv, tests);
}
