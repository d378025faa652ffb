// Vectors of float32: norms, biases, scales.
#include "kernels/cuda/weights/layout.cuh"

Status vectors_check(const Vector *vectors, int n, Error *error) {
    for (const Vector *v = vectors; v < vectors + n; v++) {
        if (!v->from->data && !v->required) continue;
        if (!v->from->data) return error_set(error, STATUS_UNSUPPORTED, "cuda: %s is missing", v->name);
        if (v->from->rows != 1 || v->from->cols != v->size)
            return error_set(error, STATUS_UNSUPPORTED, "cuda: %s: expected [%lld], got [%lld, %lld]",
                             v->name, (long long)v->size, (long long)v->from->rows, (long long)v->from->cols);
    }
    return STATUS_OK;
}

void vectors_lay_out(const Vector *vectors, int n, Arena *a) {
    for (const Vector *v = vectors; v < vectors + n; v++)
        if (v->from->data) *v->to = (float *)a->take((size_t)v->size * 4);
}

Status vectors_upload(CudaBackend *cuda, const Vector *vectors, int n, Error *error) {
    Status status = STATUS_OK;
    for (const Vector *v = vectors; v < vectors + n && !status; v++)
        if (*v->to)
            status =
                upload_vectors(cuda, VectorList{&v->from, &v->size, 1, v->scale}, v->offset, *v->to, error);
    return status;
}
