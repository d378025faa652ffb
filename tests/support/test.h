// What every test file includes: cmocka in the order it wants, and a main that runs tests by name.
// `tests/test_x` runs all, `tests/test_x PATTERN` those whose name matches (`*` and `?`).
#ifndef PALAVER_TESTS_TEST_H
#define PALAVER_TESTS_TEST_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

// A main that forgets to return this would pass whatever fails.
static inline int __attribute__((warn_unused_result)) test_failures(int n) {
    return n;
}

// Started in the background, or by nohup, these are ignored, and what a test starts would ignore them too: for ever, or,
// until it is there, one that the test sends at once.
static inline void test_take_signals(void) {
    static const int SIGNALS[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) signal(SIGNALS[i], SIG_DFL);
}

#define test_main(group, argc, argv, tests)                                                                  \
    (test_take_signals(), (argc) > 1 ? cmocka_set_test_filter((argv)[1]) : (void)0,                          \
     test_failures(cmocka_run_group_tests_name(group, tests, NULL, NULL)))

#endif
