// Hostile safetensors bytes: a Checkpoint whose every byte can be read, or one line of error.
#include "engine/files/checkpoint_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A length that is believed shows: allocations far beyond the input end the program.
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "max_allocation_size_mb=64";
}

static volatile uint8_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Checkpoint *checkpoint;
    Error error = {0};
    if (checkpoint_from_safetensors("fuzz.safetensors", data, size, &checkpoint, &error) != STATUS_OK) {
        if (error.message[0] == '\0' || strchr(error.message, '\n') != NULL || checkpoint != NULL) abort();
        return 0;
    }
    size_t sum = 0;
    for (int64_t i = 0; i < checkpoint_n_tensors(checkpoint); i++) {
        const CheckpointTensor *tensor = checkpoint_tensor(checkpoint, i);
        const uint8_t *bytes = tensor->data;
        if (tensor->bytes > 0) sink = bytes[0] ^ bytes[tensor->bytes - 1];
        if (tensor->supported && (uintptr_t)bytes % (uintptr_t)dtype_alignment(tensor->type) != 0) abort();
        if (checkpoint_find(checkpoint, tensor->name) != tensor) abort();
        sum += tensor->bytes;
    }
    if (sum > size) abort();
    checkpoint_close(checkpoint);
    return 0;
}
