#include "tests/gpu/engine_tests.h"
#include "tests/support/model/golden_model.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Quantised weights meet activations of 8 bits in decoding: with these sharp random weights that moves the logits by
// some percent (tests/engine/test_forward.c has the same bound for the CPU's fast loops).
#define QUANTIZED_BOUND 0.05

// Whether all is within the bound.
static bool test_case(Engine *engine, const char *model, const GoldenCase *c, double bound, Report *report) {
    bool within = true;
    static const int STEPS[] = {1, 7, 64};
    size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    Error error;
    for (int i = 0; i < 3; i++) {
        char what[48];
        memset(logits, 0xff, count * sizeof *logits);
        Status status = golden_model_evaluate(engine, c, STEPS[i], logits, &error);
        if (status) printf("FAILED %s: %s\n", model, error.message);
        snprintf(what, sizeof what, "%s by %d, %s", c->name, STEPS[i], dtype_name(engine_cache_type(engine)));
        const double distance = status ? NAN : golden_distance(logits, c->expected, count);
        report(model, what, distance, bound);
        within = within && distance <= bound;
    }
    free(logits);
    return within;
}

static bool test_model(const char *root, const char *model, const char *golden, const char *golden_of,
                       DType cache, Report *report) {
    Error error;
    GoldenSet set;
    Engine *engine = NULL;
    Status status = golden_model_read(golden, golden_of, &set, &error);
    if (!status) status = golden_model_open(root, model, "cuda", cache, &engine, &error);
    if (status) {
        printf("FAILED %s\n", error.message);
        report(model, "open", NAN, 0);
    }
    bool within = !status;
    for (int i = 0; i < set.n && !status; i++) {
        const GoldenCase *c = &set.cases[i];
        bool exact = model_main_type(engine_model(engine)) == DTYPE_F32 && cache == DTYPE_F32;
        double bound = exact ? 1e-4 : isnan(c->half_error) ? QUANTIZED_BOUND : c->half_error;
        within = test_case(engine, model, c, bound, report) && within;
    }
    engine_close(engine);
    golden_model_free(&set);
    return within;
}

void test_golden_logits(const char *root, Report *report) {
    static const struct {
        const char *folder, *model, *golden_of;
    } MODELS[] = {{"latent", "deepseek_v2", "deepseek_v2"},
                  {"latent", "deepseek_v2.gguf", "deepseek_v2"},
                  {"latent", "deepseek_v3", "deepseek_v3"},
                  {"latent", "deepseek_v3.gguf", "deepseek_v3"},
                  {"latent", "deepseek_v3-packed", "deepseek_v3-packed"},
                  {"latent", "glm4_moe_lite", "glm4_moe_lite"},
                  {"latent", "glm4_moe_lite.gguf", "glm4_moe_lite"},
                  {"models", "llama", "llama"},
                  {"models", "llama-linear", "llama-linear"},
                  {"models", "llama3", "llama3"},
                  {"models", "llama-yarn", "llama-yarn"},
                  {"models", "llama-sharded", "llama-sharded"},
                  {"models", "llama-f16", "llama-f16"},
                  {"models", "llama-bf16", "llama-bf16"},
                  {"models", "mistral", "mistral"},
                  {"models", "mistral-bf16", "mistral-bf16"},
                  {"models", "qwen2", "qwen2"},
                  {"models", "qwen2-bf16", "qwen2-bf16"},
                  {"models", "qwen3", "qwen3"},
                  {"models", "qwen3-bf16", "qwen3-bf16"},
                  {"models", "llama3.gguf", "llama3"},
                  {"models", "qwen2.gguf", "qwen2"},
                  {"models", "quants.gguf", "quants"},
                  {"models", "few-bits.gguf", "few-bits"},
                  {"architectures", "gptj", "gptj"},
                  {"architectures", "gpt_neox", "gpt_neox"},
                  {"architectures", "gpt_neox-sequential", "gpt_neox-sequential"},
                  {"architectures", "opt", "opt"},
                  {"architectures", "bloom", "bloom"},
                  {"architectures", "bloom.gguf", "bloom"},
                  {"architectures", "mpt", "mpt"},
                  {"architectures", "mpt.gguf", "mpt"},
                  {"architectures", "phi3", "phi3"},
                  {"architectures", "phi3.gguf", "phi3"},
                  {"architectures", "llama-dynamic", "llama-dynamic"},
                  {"dense", "gemma", "gemma"},
                  {"dense", "gemma.gguf", "gemma"},
                  {"dense", "gemma2", "gemma2"},
                  {"dense", "gemma2.gguf", "gemma2"},
                  {"dense", "gemma3", "gemma3"},
                  {"dense", "gemma3.gguf", "gemma3"},
                  {"dense", "gemma3-nested", "gemma3-nested"},
                  {"dense", "smollm3", "smollm3"},
                  {"dense", "smollm3.gguf", "smollm3"},
                  {"dense", "granite", "granite"},
                  {"dense", "granite.gguf", "granite"},
                  {"dense", "minicpm", "minicpm"},
                  {"dense", "minicpm.gguf", "minicpm"},
                  {"dense", "seed_oss", "seed_oss"},
                  {"dense", "seed_oss.gguf", "seed_oss"},
                  {"dense", "ernie4_5", "ernie4_5"},
                  {"dense", "ernie4_5.gguf", "ernie4_5"},
                  {"dense", "glm", "glm"},
                  {"dense", "glm.gguf", "glm"},
                  {"dense", "glm4", "glm4"},
                  {"dense", "glm4.gguf", "glm4"},
                  {"dense", "olmo2", "olmo2"},
                  {"dense", "olmo2.gguf", "olmo2"},
                  {"dense", "olmo3", "olmo3"},
                  {"dense", "olmo3.gguf", "olmo3"},
                  {"dense", "olmo3-nested", "olmo3-nested"},
                  {"dense", "exaone4", "exaone4"},
                  {"dense", "exaone4.gguf", "exaone4"},
                  {"dense", "exaone4-full", "exaone4-full"},
                  {"dense", "cohere", "cohere"},
                  {"dense", "cohere2", "cohere2"},
                  {"dense", "cohere2.gguf", "cohere2"},
                  {"dense", "stablelm", "stablelm"},
                  {"dense", "stablelm.gguf", "stablelm"},
                  {"dense", "starcoder2", "starcoder2"},
                  {"dense", "phi", "phi"},
                  {"dense", "phi.gguf", "phi"},
                  {"dense", "nemotron", "nemotron"},
                  {"dense", "nemotron.gguf", "nemotron"},
                  {"dense", "falcon-7b", "falcon-7b"},
                  {"dense", "falcon-7b.gguf", "falcon-7b"},
                  {"dense", "falcon-40b", "falcon-40b"},
                  {"dense", "falcon-40b.gguf", "falcon-40b"},
                  {"dense", "falcon-11b", "falcon-11b"},
                  {"dense", "baichuan", "baichuan"},
                  {"dense", "baichuan.gguf", "baichuan"},
                  {"dense", "baichuan-13b", "baichuan-13b"},
                  {"dense", "chatglm", "chatglm"},
                  {"dense", "ministral3", "ministral3"},
                  {"dense", "hunyuan", "hunyuan"},
                  {"dense", "hunyuan.gguf", "hunyuan"},
                  {"dense", "cohere-plus", "cohere-plus"},
                  {"dense", "cohere-plus.gguf", "cohere-plus"},
                  {"dense", "stablelm-12b", "stablelm-12b"},
                  {"dense", "stablelm-12b.gguf", "stablelm-12b"},
                  {"dense", "qwen", "qwen"},
                  {"dense", "qwen.gguf", "qwen"},
                  {"experts", "mixtral", "mixtral"},
                  {"experts", "mixtral.gguf", "mixtral"},
                  {"experts", "mixtral-packed", "mixtral-packed"},
                  {"experts", "qwen3_moe", "qwen3_moe"},
                  {"experts", "qwen3_moe.gguf", "qwen3_moe"},
                  {"experts", "qwen2_moe", "qwen2_moe"},
                  {"experts", "qwen2_moe.gguf", "qwen2_moe"},
                  {"experts", "olmoe", "olmoe"},
                  {"experts", "olmoe.gguf", "olmoe"},
                  {"experts", "granitemoe", "granitemoe"},
                  {"experts", "granitemoe.gguf", "granitemoe"},
                  {"experts", "glm4_moe", "glm4_moe"},
                  {"experts", "glm4_moe.gguf", "glm4_moe"},
                  {"experts", "ernie4_5_moe", "ernie4_5_moe"},
                  {"experts", "ernie4_5_moe.gguf", "ernie4_5_moe"},
                  {"experts", "gpt_oss", "gpt_oss"},
                  {"experts", "gpt_oss.gguf", "gpt_oss"},
                  {"experts", "phimoe", "phimoe"},
                  {"experts", "llama4", "llama4"},
                  {"experts", "llama4-usual", "llama4-usual"},
                  {"experts", "llama4-usual.gguf", "llama4-usual"},
                  {"quantized", "gptq-g128", "gptq-g128"},
                  {"quantized", "gptq-asym-g32", "gptq-asym-g32"},
                  {"quantized", "gptq-act-order", "gptq-act-order"},
                  {"quantized", "gptq-v2", "gptq-v2"},
                  {"quantized", "gptq-int8", "gptq-int8"},
                  {"quantized", "gptq-int8-asym", "gptq-int8-asym"},
                  {"quantized", "awq", "awq"},
                  {"quantized", "fp8-tensor", "fp8-tensor"},
                  {"quantized", "fp8-channel", "fp8-channel"},
                  {"quantized", "fp8-block", "fp8-block"},
                  {"quantized", "ct-int4", "ct-int4"},
                  {"quantized", "ct-int4-asym", "ct-int4-asym"},
                  {"quantized", "ct-int4-order", "ct-int4-order"},
                  {"quantized", "ct-int8-packed", "ct-int8-packed"},
                  {"quantized", "ct-int8", "ct-int8"},
                  {"quantized", "ct-fp8", "ct-fp8"},
                  {"quantized", "bnb-nf4", "bnb-nf4"},
                  {"quantized", "bnb-nf4-double", "bnb-nf4-double"},
                  {"quantized", "bnb-int8", "bnb-int8"},
                  {"quantized", "awq-experts", "awq-experts"},
                  {"quantized", "fp8-experts", "fp8-experts"},
                  {"quantized", "mxfp4", "mxfp4"}};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        char folder[400];
        snprintf(folder, sizeof folder, "%s/%s", root, MODELS[i].folder);
        bool within = test_model(folder, MODELS[i].model, folder, MODELS[i].golden_of, DTYPE_F32, report);
        within =
            test_model(folder, MODELS[i].model, folder, MODELS[i].golden_of, DTYPE_F16, report) && within;
        if (within) printf("within bounds: %s/%s\n", MODELS[i].folder, MODELS[i].model);
    }
    // The one that comes with palaver lies beside the tests, and in a bundle.
    test_model("assets", "parley-9m", root, "parley", DTYPE_F32, report);
    test_model("assets", "parley-9m", root, "parley", DTYPE_F16, report);
}
