// Hostile quantised folders: the length of a config.json in two bytes, the config, and safetensors. A Checkpoint all of
// whose weights can be made, or one line of error.
#include "engine/files/checkpoint_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink;

static void expect_line(Status status, const Error *error) {
    if (status && (error->message[0] == '\0' || strchr(error->message, '\n') != NULL)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Checkpoint *checkpoint;
    Error error = {0};
    json_t *config = NULL;
    if (size < 2) return 0;
    size_t n = data[0] + 256u * data[1];
    if (n > size - 2 || json_parse("config.json", (const char *)data + 2, n, &config, &error)) return 0;
    Status status =
        checkpoint_from_safetensors("fuzz.safetensors", data + 2 + n, size - 2 - n, &checkpoint, &error);
    if (status) {
        json_decref(config);
        return 0; // fuzz_safetensors.c has that
    }
    checkpoint->config = config;
    status = quantized_open(checkpoint, &error);
    expect_line(status, &error);
    for (int64_t i = 0; !status && i < checkpoint_n_tensors(checkpoint); i++) {
        const CheckpointTensor *t = checkpoint_tensor(checkpoint, i);
        Status made = checkpoint_make(checkpoint, t->data, NULL, &error);
        expect_line(made, &error);
        if (!made && t->method)
            sink = ((const uint8_t *)t->data)[0] ^ ((const uint8_t *)t->data)[t->bytes - 1];
    }
    checkpoint_close(checkpoint);
    return 0;
}
