// Models by name: what is found in the stores of other programs, which of it a name means, and which is the default.
#include "tests/support/program.h"
#include "tests/support/stores/stores.h"
#include "tests/support/test.h"
#include "app/models/models.h"
#include "kernels/base/path.h"
#include "kernels/base/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_found(void **state) {
    (void)state;
    static const char *const expected[] = {"one",
                                           "two",
                                           "acme/quants-GGUF:F16",
                                           "acme/quants-GGUF:Q4_K_M",
                                           "acme/quants-GGUF:Q8_0",
                                           "acme/tiny-llama",
                                           "acme/tiny-llama@old",
                                           "ollama:hf.co/acme/else:Q4_0",
                                           "ollama:llama3.2:3b",
                                           "ollama:llama3.2:latest",
                                           "ollama:someone/mine:v1",
                                           "lmstudio:acme/Phi-GGUF:Q4_0",
                                           "llama.cpp:acme_bloom-GGUF_bloom-f16"};
    ModelList list;
    Error error;
    assert_int_equal(models_find(NULL, &list, &error), STATUS_OK);
    for (size_t i = 0; i < list.count && i < sizeof expected / sizeof *expected; i++)
        assert_string_equal(list.entries[i].name, expected[i]);
    assert_int_equal(list.count, sizeof expected / sizeof *expected);
    models_free(&list);
}

static void test_hub_by_home(void **state) {
    char path[4096];
    ModelList list;
    Error error;
    unsetenv("HF_HUB_CACHE");
    snprintf(path, sizeof path, "%s", (char *)*state);
    setenv("HF_HOME", path, 1); // whose hub/ it is
    assert_int_equal(models_find(NULL, &list, &error), STATUS_OK);
    assert_int_equal(list.count, 13);
    models_free(&list);
    unsetenv("HF_HOME");
}

// The path of what `name` means ends so.
static void expect(const char *name, const char *tail) {
    char path[PATH_ROOM];
    Error error;
    if (models_path(name, NULL, path, &error)) fail_msg("%s", error.message);
    if (!text_has_suffix(path, tail)) fail_msg("%s is %s, not %s", name, path, tail);
}

static void test_names(void **state) {
    (void)state;
    expect("one", "/palaver/models/one.gguf");
    expect("acme/tiny-llama", "/snapshots/" COMMIT);
    expect("acme/tiny-llama@old", "/snapshots/" OTHER);
    expect("acme/quants-GGUF:Q8_0", "quants-Q8_0.gguf");
    expect("acme/quants-gguf:q8_0", "quants-Q8_0.gguf");
    expect("acme/quants-GGUF:quants-Q4_K_M.gguf", "quants-Q4_K_M.gguf");
    expect("Q4_K_M", "quants-Q4_K_M.gguf");
    expect("ollama:llama3.2:3b", DIGEST);
    expect("llama3.2:3b", DIGEST);
    expect("ollama:llama3.2", DIGEST);
    expect("llama3.2", DIGEST); // three names of one file are one model
    expect("mine", DIGEST);
    expect("phi", "phi-Q4_0.gguf");
    expect("acme/Phi-GGUF", "phi-Q4_0.gguf");
    expect("BLOOM", "acme_bloom-GGUF_bloom-f16.gguf");
    expect(GGUF, GGUF);
}

static void refuses(const char *name, Status status, const char *words) {
    char path[PATH_ROOM];
    Error error;
    assert_int_equal(models_path(name, NULL, path, &error), status);
    if (!strstr(error.message, words)) fail_msg("'%s' is not in: %s", words, error.message);
}

static void test_refused(void **state) {
    (void)state;
    refuses("acme/quants-GGUF", STATUS_USAGE,
            "3 models: acme/quants-GGUF:F16, acme/quants-GGUF:Q4_K_M, acme/quants-GGUF:Q8_0");
    refuses("acme/tiny-lama", STATUS_FILE, "did you mean acme/tiny-llama?");
    refuses("ollama:llama3.2:70b", STATUS_FILE, "did you mean ollama:llama3.2:3b?");
    refuses("nothing/of-the-kind", STATUS_FILE, "palaver list");
    refuses("./acme/tiny-llama", STATUS_FILE, "No such file");
    refuses("escape", STATUS_FILE, "escape");
}

#define test(name) cmocka_unit_test_setup_teardown(test_##name, stores_set_up, program_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(found),
        test(hub_by_home),
        test(names),
        test(refused),
    };
    return test_main("models by name", argc, argv, tests);
}
