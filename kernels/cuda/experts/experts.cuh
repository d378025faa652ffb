// Layers of experts (ops.h, Experts).
//
//   x ─ norm, router ─→ normed; ids and weights [n, n_active] of each token
//   rows     of few tokens: GEMVs over the rows of the experts that a token takes, which read ids on the device
//              g [n·n_active, size] = weight · activation(gate) · up;  x += Σ down·g
//   grouped  of many: pairs of a token and an expert are brought into the order of the experts, then
//              pairs [.., hidden_size] = rows of normed;  g = activation(gate) · up;  pairs = down·g;  x += Σ weight·pairs
//              or, without gates, g = up, and then g = activation(g)
//            in tiles, which find their expert in a table on the device, or by the GEMMs of one expert after the other,
//            for which the host waits until it knows how many pairs each has
//   flat     the same in tiles of few pairs, of whatever is between; and of rows that decode
// The shared expert's g [n, shared_size] lies behind the others', and goes through the ordinary GEMMs.
#ifndef PALAVER_KERNELS_CUDA_EXPERTS_EXPERTS_CUH
#define PALAVER_KERNELS_CUDA_EXPERTS_EXPERTS_CUH

#include "kernels/cuda/flat/flat.cuh"
#include "kernels/cuda/gemm/gemm.cuh"

// Whether both of a layer's matrices are.
static inline bool experts_quantised(const Layer *layer) {
    return format_grouped(layer->gate_up.part[0].format) && format_grouped(layer->down.part[0].format);
}

// The router of some tokens, and the norm before it.
struct RouteCall {
    const Layer *layer;
    const float *x; // [n, hidden_size]
    int n;
};
// scratch.normed and scratch.routes: ids, weights, shared. Of experts beside a dense part scratch.normed is the router's
// input, which nobody else takes.
MAY_LACK Status experts_route(CudaBackend *cuda, const RouteCall *call, Error *error);
// scratch.routes: start, tiles of tile_pairs pairs and what they have, token, where; and pairs, rows of scratch.normed;
// halved: which are of bf16, as f16. What begins behind it may read all but pairs at once.
Status experts_sort(CudaBackend *cuda, bool halved, int tile_pairs, Error *error);

// ---- rows_format.cu: for weights of one format each ------------------------------------------------------------

struct ExpertRowsCall {
    Weight w; // of all experts
    const int32_t *ids;
    const float *weights;
    int n, n_active, size, hidden;
    Activation activation;
    bool gated;                  // gate_up: else rows are those of up alone, and bias and up_bias NULL
    bool scales_input;           // gate_up: a weight multiplies gate and up, not their product
    const void *in;              // gate_up: [n, hidden]; down: [n·n_active, size]
    void *g;                     // gate_up
    float *x;                    // down
    const float *bias, *up_bias; // NULL: none; of all experts
};
template <Format FORMAT>
cudaError_t expert_rows_launch(const CudaBackend *cuda, const ExpertRowsCall *call, bool down);

// ---- tiles_format.cu: for weights of one format each -----------------------------------------------------------

// Rows of x of the pairs, which stand in the order of the experts, by each one's matrix. x and y are halves, but of
// FORMAT_BF16 bf16.
struct ExpertTilesCall {
    Weight w;                  // of all experts, one below the other
    int rows, n_experts;       // rows of each
    const int32_t *start;      // [n_experts + 1] the first pair of each
    const int32_t *tiles;      // [n_experts + 1] its first tile of EXPERT_TILE_PAIRS pairs
    const void *x;             // [pairs, w.cols]
    void *y;                   // gated: [pairs, rows / 2]; else [pairs, rows]
    bool gated;                // activation(gate + bias) · (up + other)
    const float *bias, *other; // of gated: NULL: none; [n_experts, rows / 2]
    Activation activation;
};
template <Format FORMAT>
cudaError_t expert_tiles_launch(const CudaBackend *cuda, const ExpertTilesCall &call);

// tiles.cu: the same for weights of any of them.
Status expert_tiles_gemm(CudaBackend *cuda, const Gemm *gemm, Error *error);

// ---- flat_format.cu: for weights of one format each ------------------------------------------------------------

// Tiles of at most `most` pairs each.
struct ExpertFlatTiles {
    int most, n_experts;
    const int32_t *n;  // on the device: how many there are
    const int4 *pairs; // [*n] of each the expert, the first pair, and how many
};
// a: w with the data of all experts and the rows of one; x [n, w.cols], the pairs; GATED, with biases of all gates and of
// all ups, [n_experts, w.rows / 2] each, or NULL, and any activation; or STORE.
template <Format FORMAT>
cudaError_t expert_flat_launch(CudaBackend *cuda, FlatArguments *a, const ExpertFlatTiles &tiles);

// ---- flat.cu ------------------------------------------------------------------------------------------------------

// Whether a layer's experts can go by the kernels of flat.cuh.
bool experts_flat(const CudaBackend *cuda, const Layer *layer);
// Pairs of a tile.
int experts_flat_pairs(const CudaBackend *cuda);
// g = activation(gate)·up of the pairs; pairs = down·g.
Status experts_flat_gate_up(CudaBackend *cuda, const Layer *layer, void *g, Error *error);
Status experts_flat_down(CudaBackend *cuda, const Layer *layer, const void *g, Error *error);

// ---- grouped.cu -------------------------------------------------------------------------------------------------

// Whether all experts go in one launch.
bool experts_tiled(const CudaBackend *cuda, const Layer *layer);
// Of a tile.
int experts_tile_pairs(const CudaBackend *cuda, const Layer *layer);
// g = activation(gate)·up of the pairs; pairs = down·g.
Status experts_tile_gate_up(CudaBackend *cuda, const Layer *layer, void *g, Error *error);
Status experts_tile_down(CudaBackend *cuda, const Layer *layer, const void *g, Error *error);

#endif
