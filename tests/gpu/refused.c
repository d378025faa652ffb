// Weights that the GPU's forms cannot hold are refused while they are loaded.
#include "tests/gpu/side.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void expect_load(Side *s, const TestModel *model, Status expected, const char *what) {
    Layer *layer;
    Error error = {0};
    Status status = s->ops->load_layer(s->backend, &model->layers[0], &layer, &error);
    bool right = status == expected && (!status || strstr(error.message, "mxfp4"));
    report("mxfp4 scales", what, right ? 0 : NAN, 0);
}

void test_refused(const Ops *cuda) {
    static const Case CASE = {"refused", DTYPE_MXFP4, 96, 1, 1, 32, 256, 65, .n_tokens = 1, .kv = DTYPE_F16};
    TestModel model;
    Side side;
    model_fill(&model, &CASE, 5);
    side_open(&side, cuda, "cuda", &CASE, &model, 64);
    const size_t size = (size_t)dtype_row_bytes(DTYPE_MXFP4, 256 * 96);
    uint8_t *data = malloc(size);
    if (!data) abort();
    uint8_t *last = data + size - dtype_block_bytes(DTYPE_MXFP4);
    memcpy(data, model.layers[0].w_down.data, size);
    model.layers[0].w_down.data = data;
    expect_load(&side, &model, STATUS_OK, "as made");
    *last = 140;
    expect_load(&side, &model, STATUS_OK, "largest");
    *last = 141;
    expect_load(&side, &model, STATUS_UNSUPPORTED, "too large");
    free(data);
    side_close(&side);
    model_free(&model);
}
