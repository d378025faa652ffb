// How a step's tokens are cut into tiles, and tiles of few tokens into splits. Only for kernels/cuda/step/.
#ifndef PALAVER_CUDA_STEP_CUT_CUH
#define PALAVER_CUDA_STEP_CUT_CUH

#include "kernels/cuda/attention/split.cuh"

static inline int n_pages(const Step *step, const StepSequence *q) {
    return (int)sequence_n_pages(q, step->page_size);
}

// Whether its tokens are of a prefix that is seen both ways: they see keys that this step stores behind theirs.
static inline bool reads_prefix(const Step *step, const StepSequence *q) {
    return step->positions[q->first_token] < q->n_prefix;
}

// How a step's sequences are cut: tiles of at most `most` tokens. Those of few tokens are for the kernels that split the
// cache, and stand apart: all of a short step, else those of sequences of one, or where all tiles are. In a prompt whose
// pieces are not to show, there are none.
struct TileCut {
    int most;
    bool none_few, all_few;
    TileCut(const Step *step, const SplitPlan *plan)
        : most(tile_tokens(&plan->heads)), none_few(step->kind == STEP_READING || any_prefix(step)),
          all_few(!none_few && step->kind == STEP_ANY && step->n_tokens <= plan->few) {}

    static bool any_prefix(const Step *step) {
        for (int s = 0; s < step->n_sequences; s++)
            if (step->sequences[s].n_prefix > 0 && reads_prefix(step, &step->sequences[s])) return true;
        return false;
    }

    // Whether a sequence's tiles are.
    bool few(const StepSequence *q) const {
        return all_few || (!none_few && (q->n_tokens == 1 || most == 1));
    }
    int few_tiles(const StepSequence *q) const { return few(q) ? (q->n_tokens + most - 1) / most : 0; }
    // Blocks of 64 rows that share all its tiles of a KV head.
    int row_blocks(const StepSequence *q, const AttendHeads *heads) const {
        const int group = heads->n_heads / heads->n_kv_heads;
        auto blocks = [&](int tokens) { return (tokens * group + SPLIT_WGMMA_ROWS - 1) / SPLIT_WGMMA_ROWS; };
        return q->n_tokens / most * blocks(most) + blocks(q->n_tokens % most);
    }
};

// Indexes of a split of a sequence.
int step_split_slots(const CudaBackend *cuda, const Step *step, const StepSequence *q, const SplitPlan *plan);

static inline int splits_of(int n_slots, int split_slots) {
    return (n_slots + split_slots - 1) / split_slots;
}

// Of the turns of sinks, behind a step's arrays.
static inline size_t sink_rope_bytes(const Rope *rope, int n_tokens) {
    return (size_t)rope_tables(rope) * (size_t)n_tokens * (size_t)(rope->rotary_dim / 2) * sizeof(float2);
}

// The step's arrays in the order in which they are uploaded, from `base` on; returns the bytes.
size_t step_lay_out(CudaStep *step, const StageRoom *room, char *base);

#endif
