// Weights that the GPU's forms cannot hold are refused while they are loaded.
#include "tests/gpu/model/side.h"

#include <math.h>
#include <string.h>

static void expect_load(Side *s, const TestModel *model, Status expected, const char *what) {
    Layer *layer;
    Error error = {0};
    const char *type = dtype_name(model->layers[0].w_down.type);
    Status status = s->ops->load_layer(s->backend, &model->layers[0], &layer, &error);
    bool right = status == expected && (!status || strstr(error.message, type));
    report(type, what, right ? 0 : NAN, 0);
}

// Loads a layer whose last block begins with these bytes.
static void load_with(Side *side, TestModel *model, const void *bytes, size_t n, Status expected) {
    const Matrix *m = &model->layers[0].w_down;
    uint8_t *last =
        (uint8_t *)m->data + m->rows * dtype_row_bytes(m->type, m->cols) - dtype_block_bytes(m->type);
    memcpy(last, bytes, n);
    expect_load(side, model, expected, expected ? "scale too large" : "largest scale");
}

static void test_type(const Ops *cuda, DType type, const void *largest, const void *beyond, size_t n) {
    const Case c = {"refused", type, 128, 1, 1, 64, 256, 65, .n_tokens = 1, .kv = DTYPE_F16};
    TestModel model;
    Side side;
    model_fill(&model, &c, 5);
    side_open(&side, cuda, "cuda", &c, &model, 64);
    expect_load(&side, &model, STATUS_OK, "as made");
    load_with(&side, &model, largest, n, STATUS_OK);
    load_with(&side, &model, beyond, n, STATUS_UNSUPPORTED);
    side_close(&side);
    model_free(&model);
}

void test_refused(const Ops *cuda) {
    test_type(cuda, DTYPE_MXFP4, &(uint8_t){140}, &(uint8_t){141}, 1);
    test_type(cuda, DTYPE_E4M3, &(float){-146}, &(float){147}, sizeof(float));
    test_type(cuda, DTYPE_NF4, &(float){65504}, &(float){-65520}, sizeof(float));
}
