// Experts' GEMMs by the tiles of tiles.cuh, to the kernels of their weights' format.
#include "kernels/cuda/experts/experts.cuh"

static ExpertTilesLaunch *kernels_for(int format) {
    static ExpertTilesLaunch *const ALL[] = {NULL,
                                             expert_tiles_launch<FORMAT_F16>,
                                             expert_tiles_launch<FORMAT_BF16>,
                                             expert_tiles_launch<FORMAT_Q8>,
                                             expert_tiles_launch<FORMAT_Q8S>,
                                             expert_tiles_launch<FORMAT_Q8M>,
                                             expert_tiles_launch<FORMAT_Q4>,
                                             expert_tiles_launch<FORMAT_Q4M>,
                                             expert_tiles_launch<FORMAT_IQ4>,
                                             expert_tiles_launch<FORMAT_FP4>,
                                             expert_tiles_launch<FORMAT_Q2>,
                                             expert_tiles_launch<FORMAT_Q3>,
                                             expert_tiles_launch<FORMAT_Q5>,
                                             expert_tiles_launch<FORMAT_Q5M>,
                                             expert_tiles_launch<FORMAT_Q6>,
                                             expert_tiles_launch<FORMAT_E4M3>,
                                             expert_tiles_launch<FORMAT_NF4>};
    static_assert(sizeof ALL / sizeof *ALL == FORMAT_W8,
                  "a kernel for each format but W8, which experts have not");
    return ALL[format];
}

Status expert_tiles_gemm(CudaBackend *cuda, const Gemm *g, Error *error) {
    const CudaRoutes *r = &cuda->scratch.routes;
    ExpertTilesCall c = {};
    c.w = g->w->part[0], c.n_experts = cuda->shape->experts.n, c.rows = g->w->rows / c.n_experts;
    c.start = r->start, c.tiles = r->tiles, c.x = g->x, c.y = g->y;
    c.gated = g->epilogue == EPILOGUE_GATED, c.bias = g->bias, c.other = g->other;
    c.activation = cuda->shape->activation;
    return cuda_check(kernels_for(c.w.format)(cuda, c), error, "experts' tiles of %d rows by [%d, %d]", g->n,
                      g->w->rows, g->w->cols);
}
