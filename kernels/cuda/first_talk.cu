// What a plug-in has that was built for a first talk (FIRST in the Makefile): see device/built.cuh.
#include "kernels/cuda/attention/wide.cuh"
#include "kernels/cuda/decode/decode.cuh"
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/gemm/gemv.cuh"
#include "kernels/cuda/latent/latent.cuh"

#include <limits.h>
#include <stdio.h>

bool first_talk_has(int format) {
    return format == FORMAT_W8 ? is_built(tile_gemm_w8) : gemv_built(format);
}

Status first_talk_check(const DecoderShape *s, Error *error) {
    if (s->experts.n > 0 && !is_built(experts_route)) return built_lacks("experts", error);
    if (decoder_most_head_dim(s) == WIDE_HEAD && !is_built(wide_launch<WIDE_HALVES>))
        return built_lacks("heads of 512", error);
    if (s->latent.rank > 0 && !is_built(latent_qkv)) return built_lacks("latents", error);
    if ((s->alibi || s->attention_cap > 0) && !is_built(tile_launch<TILES_OF_ANY>))
        return built_lacks(s->alibi ? "ALiBi" : "capped scores", error);
    if (decode_built(DECODE_F16, s, 1) && decode_built(DECODE_F16, s, INT_MAX)) return STATUS_OK;
    char what[64];
    snprintf(what, sizeof what, "decoding by %d heads of %d over %d", s->n_heads, s->head_dim, s->n_kv_heads);
    return built_lacks(what, error);
}
