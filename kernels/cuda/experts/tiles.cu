// Experts' GEMMs by the tiles of tiles.cuh, to the kernels of their weights' format.
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/device/by_format.cuh"

Status expert_tiles_gemm(CudaBackend *cuda, const Gemm *g, Error *error) {
    const CudaRoutes *r = &cuda->scratch.routes;
    ExpertTilesCall c = {};
    c.w = g->w->part[0], c.n_experts = cuda->shape->experts.n, c.rows = g->w->rows / c.n_experts;
    c.start = r->start, c.tiles = r->tiles, c.x = g->x, c.y = g->y;
    c.gated = g->epilogue == EPILOGUE_GATED, c.bias = g->bias, c.other = g->other;
    c.activation = cuda->shape->activation;
    auto launch = by_format<FORMAT_F16>(c.w.format, [](auto f) { return expert_tiles_launch<f.value>; });
    return cuda_check(launch(cuda, c), error, "experts' tiles of %d rows by [%d, %d]", g->n, g->w->rows,
                      g->w->cols);
}
