// Which NCCL is loaded, and why none is; stubs (tests/plugin/nccl_stub.c) lie beside the tested palaver in the folder `nccl`.
#include "kernels/cuda/nccl_library.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static NcclLibrary library;
static Error error;

static const char *stub(const char *name) {
    static char path[400];
    const char *program = getenv("PALAVER") ? getenv("PALAVER") : "build/san/palaver",
               *slash = strrchr(program, '/');
    snprintf(path, sizeof path, "%.*s/nccl/%s.so", slash ? (int)(slash - program) : 1, slash ? program : ".",
             name);
    return path;
}

static void is_refused(const char *wish, const char *words) {
    assert_int_equal(nccl_library_load(wish, &library, &error), STATUS_UNSUPPORTED);
    if (!strstr(error.message, words)) fail_msg("%s: %s", wish, error.message);
    assert_true(strlen(error.message) < 120); // stands in brackets
}

static void what_is_there_is_taken(void **state) {
    (void)state;
    assert_ok(nccl_library_load(stub("whole"), &library, &error), &error);
    assert_int_equal(library.version, 22803);
    assert_int_equal(library.abort(NULL), 0);
}

static void what_is_not_there_is_said(void **state) {
    (void)state;
    is_refused("0", "PALAVER_NCCL=0");
    is_refused("/nowhere/libnccl.so.2",
               "no NCCL: /nowhere/libnccl.so.2 cannot be loaded; PALAVER_NCCL names one");
    is_refused("Makefile", "cannot be loaded");
    is_refused(".", "cannot be loaded");
    is_refused("/a/folder/whose/name/is/so/long/that/nobody/reads/it/to/its/end/libnccl.so.2",
               "libnccl.so.2 cannot");
    is_refused("libm.so.6", "no NCCL: libm.so.6 has no ncclGetVersion");
    is_refused(stub("lacks"), "lacks.so has no ncclCommGetAsyncError");
    is_refused(stub("mute"), "mute.so does not tell its version");
}

static void an_old_one_is_refused(void **state) {
    (void)state;
    is_refused(stub("v2804"), "v2804.so is 2.8, not 2.10 or later");
    is_refused(stub("v20906"), "v20906.so is 2.9, not 2.10 or later");
    assert_ok(nccl_library_load(stub("v21003"), &library, &error), &error);
}

// Off, unless somebody wants it.
static void multicast_is_off(void **state) {
    (void)state;
    unsetenv("NCCL_NVLS_ENABLE");
    assert_ok(nccl_library_load(stub("whole"), &library, &error), &error);
    assert_string_equal(getenv("NCCL_NVLS_ENABLE"), "0");
    setenv("NCCL_NVLS_ENABLE", "1", 1);
    assert_ok(nccl_library_load(stub("whole"), &library, &error), &error);
    assert_string_equal(getenv("NCCL_NVLS_ENABLE"), "1");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_is_taken),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(an_old_one_is_refused),
        cmocka_unit_test(multicast_is_off),
    };
    return test_main("nccl", argc, argv, tests);
}
