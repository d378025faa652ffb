// The orders in which layers take their inputs (Matrix.order).
#include "kernels/cuda/weights/layout.cuh"

#include <string.h>

// An order, and what has it.
struct OrderOf {
    const Matrix *matrix;
    int32_t **to;
};
enum { LAYER_ORDERS = 4 };
static void orders_of_layer(const LayerWeights *h, Layer *l, OrderOf out[LAYER_ORDERS]) {
    const OrderOf all[LAYER_ORDERS] = {{&h->wq, &l->orders.qkv},
                                       {&h->wo, &l->orders.out},
                                       {&h->w_up, &l->orders.gate_up},
                                       {&h->w_down, &l->orders.down}};
    memcpy(out, all, sizeof all);
}

void orders_lay_out(const LayerWeights *h, Layer *layer, Arena *a) {
    OrderOf all[LAYER_ORDERS];
    orders_of_layer(h, layer, all);
    for (const OrderOf &o : all)
        if (o.matrix->order) *o.to = (int32_t *)a->take((size_t)o.matrix->cols * sizeof(int32_t));
}

Status orders_upload(CudaBackend *cuda, const LayerWeights *h, Layer *layer, Error *error) {
    OrderOf all[LAYER_ORDERS];
    Status status = STATUS_OK;
    orders_of_layer(h, layer, all);
    for (const OrderOf &o : all)
        if (*o.to && !status)
            status =
                upload_bytes(cuda, *o.to, o.matrix->order, (size_t)o.matrix->cols * sizeof(int32_t), error);
    return status;
}
