#include "tests/support/stores/stores.h"

#include "tests/support/program.h"
#include "tests/support/test.h"
#include "kernels/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *stores_path(const char *home, const char *tail) {
    static char path[4096];
    char folder[4096];
    Error error;
    snprintf(path, sizeof path, "%s/%s", home, tail);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(path_make_folder(folder, 0700, &error), STATUS_OK);
    return path;
}

void stores_put_text(const char *home, const char *tail, const char *text) {
    FILE *file = fopen(stores_path(home, tail), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

void stores_put(const char *home, const char *tail, const char *from) {
    char *whole = realpath(from, NULL);
    assert_non_null(whole);
    assert_int_equal(symlink(whole, stores_path(home, tail)), 0);
    free(whole);
}

static void put_hub(const char *home) {
    stores_put_text(home, "hub/models--acme--tiny-llama/refs/main", COMMIT);
    stores_put_text(home, "hub/models--acme--tiny-llama/refs/old", OTHER);
    stores_put(home, "hub/models--acme--tiny-llama/snapshots/" COMMIT, FOLDER);
    stores_put(home, "hub/models--acme--tiny-llama/snapshots/" OTHER, "tests/golden/models/llama-f16");
    stores_put_text(home, "hub/models--acme--quants-GGUF/refs/main", COMMIT);
    stores_put(home, "hub/models--acme--quants-GGUF/snapshots/" COMMIT "/quants-Q4_K_M.gguf", GGUF);
    stores_put(home, "hub/models--acme--quants-GGUF/snapshots/" COMMIT "/quants-Q8_0.gguf",
               "tests/golden/models/llama3.gguf");
    stores_put_text(home, "hub/models--acme--quants-GGUF/snapshots/" COMMIT "/mmproj-F16.gguf", "GGUF");
    stores_put(home, "hub/models--acme--quants-GGUF/snapshots/" COMMIT "/F16/quants-F16-00001-of-00002.gguf",
               "tests/golden/models/quants.gguf");
    stores_put_text(home,
                    "hub/models--acme--quants-GGUF/snapshots/" COMMIT "/F16/quants-F16-00002-of-00002.gguf",
                    "GGUF");
    stores_put_text(home, "hub/models--acme--only-words/refs/main", COMMIT);
    stores_put_text(home, "hub/models--acme--only-words/snapshots/" COMMIT "/config.json", "{}");
    stores_put_text(home, "hub/version.txt", "1");
}

static void put_ollama(const char *home) {
    char manifest[600], tail[200];
    snprintf(manifest, sizeof manifest,
             "{\"schemaVersion\": 2, \"layers\": [{\"mediaType\": \"application/vnd.ollama.image.template\", "
             "\"digest\": \"sha256:b\"}, {\"mediaType\": \"application/vnd.ollama.image.model\", \"digest\": "
             "\"sha256:%s\", \"size\": 1}]}",
             DIGEST);
    snprintf(tail, sizeof tail, "ollama/blobs/sha256-%s", DIGEST);
    stores_put(home, tail, GGUF);
    stores_put_text(home, "ollama/manifests/registry.ollama.ai/library/llama3.2/3b", manifest);
    stores_put_text(home, "ollama/manifests/registry.ollama.ai/library/llama3.2/latest", manifest);
    stores_put_text(home, "ollama/manifests/registry.ollama.ai/someone/mine/v1", manifest);
    stores_put_text(home, "ollama/manifests/hf.co/acme/else/Q4_0", manifest);
    stores_put_text(home, "ollama/manifests/registry.ollama.ai/library/broken/latest", "{\"layers\": [{");
    stores_put_text(home, "ollama/manifests/registry.ollama.ai/library/escape/latest",
                    "{\"layers\": [{\"mediaType\": \"application/vnd.ollama.image.model\", \"digest\": "
                    "\"sha256:../../../../etc/passwd\"}]}");
}

int stores_set_up(void **state) {
    static const char *const unset[] = {"HF_HOME", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "XDG_CACHE_HOME"};
    char path[4096];
    if (program_set_up(state)) return 1;
    const char *home = *state;
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) unsetenv(unset[i]);
    snprintf(path, sizeof path, "%s/hub", home);
    setenv("HF_HUB_CACHE", path, 1);
    snprintf(path, sizeof path, "%s/ollama", home);
    setenv("OLLAMA_MODELS", path, 1);
    snprintf(path, sizeof path, "%s/llama.cpp", home);
    setenv("LLAMA_CACHE", path, 1);
    put_hub(home);
    put_ollama(home);
    stores_put(home, ".lmstudio/models/acme/Phi-GGUF/phi-Q4_0.gguf", "tests/golden/architectures/phi3.gguf");
    stores_put(home, "llama.cpp/acme_bloom-GGUF_bloom-f16.gguf", "tests/golden/architectures/bloom.gguf");
    stores_put(home, "palaver/models/one.gguf", "tests/golden/models/llama3.gguf");
    stores_put(home, "palaver/models/two", FOLDER);
    stores_put_text(home, "palaver/models/one.toml", "");
    return 0;
}
