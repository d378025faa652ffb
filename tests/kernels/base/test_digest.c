// Digests of files against the published ones (FIPS 180-4's examples), and against coreutils at every length near
// blocks.
#include "tests/support/files.h"
#include "tests/support/test.h"
#include "kernels/base/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *of(DigestKind kind, const void *bytes, size_t size, size_t step) {
    static char hex[DIGEST_HEX];
    Digest digest;
    digest_begin(&digest, kind);
    for (size_t at = 0; at < size; at += step)
        digest_add(&digest, (const char *)bytes + at, size - at < step ? size - at : step);
    digest_end(&digest, hex);
    return hex;
}

static void test_published(void **state) {
    (void)state;
    const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    assert_string_equal(of(DIGEST_SHA256, "", 0, 1),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(of(DIGEST_SHA256, "abc", 3, 1),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(of(DIGEST_SHA256, two, strlen(two), 7),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_string_equal(of(DIGEST_SHA1, "abc", 3, 2), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_string_equal(of(DIGEST_SHA1, two, strlen(two), 64), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
}

static void by_coreutils(const char *program, const char *folder, char hex[DIGEST_HEX]) {
    char command[300];
    snprintf(command, sizeof command, "%s %s/bytes", program, folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%64s", hex), 1);
    pclose(pipe);
}

static void test_lengths(void **state) {
    (void)state;
    char *folder = folder_new(), hex[DIGEST_HEX];
    uint8_t bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37 + i / 11);
    for (size_t n = 50; n < sizeof bytes; n += n < 135 ? 1 : 211) {
        folder_write(folder, "bytes", bytes, n);
        by_coreutils("sha256sum", folder, hex);
        assert_string_equal(of(DIGEST_SHA256, bytes, n, 1 + n % 70), hex);
        by_coreutils("sha1sum", folder, hex);
        assert_string_equal(of(DIGEST_SHA1, bytes, n, 1 + n % 70), hex);
    }
    folder_remove(folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published), cmocka_unit_test(test_lengths)};
    return test_main("digests", argc, argv, tests);
}
