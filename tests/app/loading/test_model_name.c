// What a model is called where people read it: as its makers call it.
#include "tests/support/test.h"

#include <stdio.h>

#include "app/loading/model_name.h"

static void expect(const char *path, const char *own, const char *wanted) {
    char name[80];
    model_name(path, own, name, sizeof name);
    assert_string_equal(name, wanted);
}

static void names_as_their_makers_write_them(void **state) {
    (void)state;
    expect("/m/SmolLM2-135M-Instruct.Q4_1.gguf", "whatever", "SmolLM2-135M-Instruct");
    expect("Llama-3.2-3B-Instruct-Q4_K_M.gguf", NULL, "Llama-3.2-3B-Instruct");
    expect("/m/gpt-oss-120b-mxfp4-00001-of-00003.gguf", NULL, "gpt-oss-120b");
    expect("/m/Qwen3-8B-UD-IQ2_XXS.gguf", NULL, "Qwen3-8B-UD");
    expect("/m/phi-2.gguf", NULL, "phi-2"); // a number is no type
    expect("/m/parley-9m", "x", "parley-9m");
    expect("/m/parley-9m//", "x", "parley-9m"); // as Tab puts it in
    expect("parley-9m/", NULL, "parley-9m");
    expect("/", "x", "x");
    expect("/c/hub/models--Qwen--Qwen3-0.6B/snapshots/0123abcd", NULL, "Qwen3-0.6B");
    expect("/c/hub/models--Qwen--Qwen3-0.6B/", NULL, "Qwen3-0.6B");
    expect("/c/hub/models--a--b/snapshots/01/Mistral-7B.Q8_0.gguf", NULL, "Mistral-7B");
}

// Where the path says nothing, the file does.
static void names_of_blobs(void **state) {
    (void)state;
    expect("/o/blobs/sha256-dde5aa3fc5ff", "Llama 3.2 3B Instruct", "Llama 3.2 3B Instruct");
    expect("/m/model.gguf", "acme/Tiny-Chat", "Tiny-Chat");
    expect("/m/ggml-model-f16.gguf", "Tiny Chat", "Tiny Chat");
    expect("/m/model.gguf", NULL, "model");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_as_their_makers_write_them),
        cmocka_unit_test(names_of_blobs),
    };
    return test_main("model name", argc, argv, tests);
}
