// begin: checks a step, uploads its arrays, cuts its tokens into attention tiles, computes cos and sin.
#include "kernels/cuda/attention/split.cuh"

#include <string.h>

struct BeginArguments {
    const int32_t *positions, *slots, *n_gone, *rope_sets;
    const double *inv_freq;
    int n_pairs;
    float magnitude;
    float2 *rope, *kept_rope; // kept_rope NULL: nothing is gone
    int32_t *slot_positions;
};

__device__ inline float2 turn_of(double angle, float magnitude) {
    double sine, cosine;
    sincos(angle, &sine, &cosine);
    return make_float2(magnitude * (float)cosine, magnitude * (float)sine);
}

// One thread a pair of a token: rope[t, i] = magnitude·(cos, sin)(p·inv_freq[i]), the angle in double. Thread 0
// of a token's pairs enters its position into the cache's slot. Grid: [n_tokens], block: 128.
__global__ void begin_kernel(BeginArguments a) {
    int token = blockIdx.x;
    int32_t position = a.positions[token];
    const double *inv_freq = a.inv_freq + (int64_t)a.rope_sets[token] * a.n_pairs;
    for (int i = threadIdx.x; i < a.n_pairs; i += blockDim.x) {
        int64_t at = (int64_t)token * a.n_pairs + i;
        a.rope[at] = turn_of(position * inv_freq[i], a.magnitude);
        if (a.kept_rope) a.kept_rope[at] = turn_of(a.n_gone[token] * inv_freq[i], 1);
    }
    if (threadIdx.x == 0 && a.slots[token] >= 0) a.slot_positions[a.slots[token]] = position;
}

static int n_pages(const Step *step, const StepSequence *q) {
    return (int)(((int64_t)q->n_slots + step->page_size - 1) / step->page_size);
}

Status cuda_check_step(const CudaBackend *cuda, const Step *step, Error *error) {
    if (step->n_tokens < 1 || step->n_tokens > cuda->max_tokens)
        return error_set(error, STATUS_USAGE, "begin: %d tokens, at most %d go into a step", step->n_tokens,
                         cuda->max_tokens);
    for (int i = 0; i < step->n_tokens; i++) {
        if (step->ids[i] < 0 || step->ids[i] >= cuda->shape->vocab_size)
            return error_set(error, STATUS_USAGE, "begin: token %d has id %d, the vocabulary %d entries", i,
                             step->ids[i], cuda->shape->vocab_size);
        if (step->positions[i] < 0 || step->slots[i] < 0)
            return error_set(error, STATUS_USAGE, "begin: token %d has position %d and slot %d", i,
                             step->positions[i], step->slots[i]);
        if (cuda->shape->n_positions > 0 && step->positions[i] >= cuda->shape->n_positions)
            return error_set(error, STATUS_USAGE,
                             "begin: token %d has position %d, the model has learned only %d positions", i,
                             step->positions[i], cuda->shape->n_positions);
    }
    int next = 0;
    for (int s = 0; s < step->n_sequences; s++) {
        const StepSequence *q = &step->sequences[s];
        if (q->first_token != next || q->n_tokens < 1 || q->n_tokens > step->n_tokens - next)
            return error_set(error, STATUS_USAGE,
                             "begin: sequence %d has %d tokens from %d on, expected from %d", s, q->n_tokens,
                             q->first_token, next);
        if (q->n_slots < 1 || step->page_size < 1 || q->n_gone < 0 || (q->n_gone > 0 && q->n_keep < 0))
            return error_set(error, STATUS_USAGE,
                             "begin: sequence %d sees %d slots in pages of %d, %d positions gone after %d", s,
                             q->n_slots, step->page_size, q->n_gone, q->n_keep);
        if (q->rope_set < 0 || q->rope_set >= cuda_rope_sets(cuda->shape))
            return error_set(error, STATUS_USAGE, "begin: sequence %d has set %d of %d sets of frequencies",
                             s, q->rope_set, cuda_rope_sets(cuda->shape));
        for (int i = 0; i < n_pages(step, q); i++)
            if (q->pages[i] < 0)
                return error_set(error, STATUS_USAGE, "begin: page %d of sequence %d is at slot %d", i, s,
                                 q->pages[i]);
        next += q->n_tokens;
    }
    if (next != step->n_tokens)
        return error_set(error, STATUS_USAGE, "begin: sequences cover %d of %d tokens", next, step->n_tokens);
    return STATUS_OK;
}

// ---- tiles ---------------------------------------------------------------------------------------------------

// Tokens of a tile: as many as keep 128 rows of a KV head's group busy.
static int tile_tokens(const AttendHeads *h) {
    int group = h->n_heads / h->n_kv_heads;
    return group < 128 ? 128 / group : 1;
}

// How many of a sequence's tiles have one token.
static int single_tiles(const StepSequence *q, StepKind kind, int most) {
    if (kind == STEP_READING) return 0;
    return most == 1 ? q->n_tokens : q->n_tokens % most == 1;
}

// Appends the tiles of a sequence, of at most `most` tokens each. Tiles of one token are for the kernels that split the
// cache, and stand apart: `singles` says which are wanted. In a prompt whose pieces are not to show, there are none.
static int cut_sequence(const StepSequence *q, AttendTile tile, int most, StepKind kind, bool singles,
                        AttendTile *tiles) {
    int n = 0;
    for (int t = 0; t < q->n_tokens; t += most) {
        tile.first_token = q->first_token + t;
        tile.n_tokens = q->n_tokens - t < most ? q->n_tokens - t : most;
        if ((tile.n_tokens == 1 && kind != STEP_READING) == singles) tiles[n++] = tile;
    }
    return n;
}

// The step's arrays in the order in which they are uploaded, from `base` on; returns the bytes.
static size_t lay_out(CudaBackend *cuda, const StageRoom *room, char *base) {
    size_t used = 0, n = (size_t)room->tokens;
    auto take = [&](size_t ints) {
        char *at = base + used;
        used += (ints * 4 + 15) / 16 * 16;
        return (int32_t *)at;
    };
    cuda->ids = take(n), cuda->positions = take(n), cuda->slots = take(n), cuda->n_gone = take(n);
    cuda->rope_sets = take(n), cuda->count = take(1);
    cuda->tiles = (AttendTile *)take(n * sizeof(AttendTile) / 4);
    cuda->pages.first = take((size_t)room->pages);
    cuda->split_tiles = take((size_t)room->splits);
    return used;
}

// Fills tiles and tables of pages, at `pages` and `tiles` in host memory.
static void fill_tiles(CudaBackend *cuda, const Step *step, const AttendHeads *heads,
                       const int64_t *mask_columns, AttendTile *tiles, int32_t *pages) {
    const int most = tile_tokens(heads);
    cuda->n_tiles = cuda->n_single_tiles = cuda->most_slots = 0;
    cuda->gone = false;
    for (int singles = 0; singles < 2; singles++) {
        int first_page = 0, n = cuda->n_tiles;
        for (int s = 0; s < step->n_sequences; s++) {
            const StepSequence *q = &step->sequences[s];
            AttendTile tile = {0, 0, first_page, q->n_slots, q->n_keep, q->n_gone, 0, 0, 0, 0};
            if (mask_columns) tile.mask_column = (int)mask_columns[s];
            n += cut_sequence(q, tile, most, step->kind, singles, tiles + n);
            if (!singles) memcpy(pages + first_page, q->pages, (size_t)n_pages(step, q) * sizeof *pages);
            first_page += n_pages(step, q);
            if (q->n_slots > cuda->most_slots) cuda->most_slots = q->n_slots;
            cuda->gone = cuda->gone || q->n_gone > 0;
        }
        if (singles)
            cuda->n_single_tiles = n - cuda->n_tiles;
        else
            cuda->n_tiles = n;
    }
}

// ---- splits --------------------------------------------------------------------------------------------------

enum {
    SPLITS_A_SM = 4,   // that run side by side, until a kernel for the cache's type has been launched
    LONG_SPLIT = 2048, // what is longer may be cut into two rounds of them, which end more evenly
    ROW_SPLIT = 1024,  // the most of a row among others; a split begins and ends in the time of 300 of f16
    LEAST_SPLIT = 128,
    SPLIT_UNIT = 64,
};

// Indexes of a split: as many as give every multiprocessor its splits of all tiles and KV heads; in a step whose sequences
// do not show in each other, as many as bring one sequence onto a quarter of them, the others being for others. So there are
// at most two rounds of splits and one a tile, or MOST_SPLITS for each row that decodes: more than the 65,535 that a
// grid can have would take 256 such rows, tens of millions of tokens.
static int choose_split(const CudaBackend *cuda, const Step *step, const StepSequence *q,
                        const AttendHeads *heads) {
    int64_t indexes = 0, longest = 0, blocks = (int64_t)heads->n_kv_heads * split_head_tiles(heads), slots;
    if (step->kind == STEP_DECODING) {
        longest = q->n_slots;
        int64_t n = cuda->n_sms / (4 * blocks), more = (longest + ROW_SPLIT - 1) / ROW_SPLIT;
        if (n < more) n = more;
        slots = (longest + n - 1) / n;
    } else {
        const int most = tile_tokens(heads);
        for (int s = 0; s < step->n_sequences; s++) {
            const StepSequence *other = &step->sequences[s];
            indexes += (int64_t)other->n_slots * single_tiles(other, step->kind, most);
            if (other->n_slots > longest) longest = other->n_slots;
        }
        // Whole rounds: the few blocks of one that is begun take as long as the others.
        int64_t round = cuda->n_sms * (cuda->splits_a_sm > 0 ? cuda->splits_a_sm : SPLITS_A_SM);
        bool once = cuda->cached == DTYPE_INT4 || cuda->cached == DTYPE_F32; // as measured: NOTES.md
        if (indexes * blocks / round > LONG_SPLIT && !once) round *= 2;
        int64_t n = round / blocks > 0 ? round / blocks : 1;
        slots = (indexes + n - 1) / n;
    }
    if (slots < LEAST_SPLIT) slots = LEAST_SPLIT;
    if (slots < longest / MOST_SPLITS + 1) slots = longest / MOST_SPLITS + 1;
    return (int)((slots + SPLIT_UNIT - 1) / SPLIT_UNIT * SPLIT_UNIT);
}

static int splits_of(int n_slots, int split_slots) {
    return (n_slots + split_slots - 1) / split_slots;
}

static void fill_splits(CudaBackend *cuda, const Step *step, const AttendHeads *heads, const StageRoom *room,
                        AttendTile *tiles, int32_t *split_tiles) {
    int n = 0, s = 0;
    for (int t = cuda->n_tiles; t < cuda->n_tiles + cuda->n_single_tiles; t++) {
        while (step->sequences[s].first_token + step->sequences[s].n_tokens <= tiles[t].first_token) s++;
        tiles[t].split_slots = choose_split(cuda, step, &step->sequences[s], heads);
        tiles[t].first_split = n;
        tiles[t].n_splits = splits_of(tiles[t].n_slots, tiles[t].split_slots);
        for (int i = 0; i < tiles[t].n_splits; i++) split_tiles[n++] = t;
    }
    while (n < room->splits) split_tiles[n++] = -1;
    cuda->n_splits = room->splits;
}

StageRoom cuda_stage_room(const CudaBackend *cuda, const Step *step, const AttendHeads *heads) {
    StageRoom room = {step->n_tokens, 0, 0};
    for (int s = 0; s < step->n_sequences; s++) {
        const StepSequence *q = &step->sequences[s];
        int singles = single_tiles(q, step->kind, tile_tokens(heads));
        room.pages += n_pages(step, q);
        if (singles > 0) room.splits += splits_of(q->n_slots, choose_split(cuda, step, q, heads)) * singles;
    }
    return room;
}

// With what the graphs of decode/graph.cu have to spare.
static size_t room_bytes(const CudaBackend *cuda, const StageRoom *needed, const AttendHeads *heads) {
    StageRoom room = {2 * needed->tokens, needed->splits + needed->splits / 4 + 16,
                      needed->pages + needed->pages / 4 + 64};
    CudaBackend any = *cuda;
    size_t kept = (size_t)room.tokens * (size_t)(cuda->shape->rope.rotary_dim / 2) * sizeof(float2);
    return cuda_room_bytes(lay_out(&any, &room, NULL) + kept) + split_bytes(room.splits, heads);
}

size_t cuda_step_bytes(const CudaBackend *cuda, int n_rows, int window) {
    const DecoderShape *s = cuda->shape;
    const AttendHeads heads = {s->n_heads, s->n_kv_heads, s->head_dim};
    const int most = tile_tokens(&heads);
    StepSequence sequence = {};
    Step step = {};
    step.n_sequences = 1, step.sequences = &sequence, step.page_size = 16;
    step.n_tokens = sequence.n_tokens = (cuda->max_tokens - 1) / most * most + 1; // the last one by itself
    sequence.n_slots = window;
    StageRoom prompt = cuda_stage_room(cuda, &step, &heads);
    step.n_tokens = sequence.n_tokens = 1, step.kind = STEP_DECODING;
    StageRoom row = cuda_stage_room(cuda, &step, &heads),
              rows = {n_rows, n_rows * row.splits, n_rows * row.pages};
    size_t reading = room_bytes(cuda, &prompt, &heads), decoding = room_bytes(cuda, &rows, &heads);
    return reading > decoding ? reading : decoding;
}

// ---- the op --------------------------------------------------------------------------------------------------

// Whether the step's tokens lie at the indexes of their positions. In a ring whose keys were turned in place they do not
// once it has gone round, and neither do those before them.
static bool in_order(const Step *step) {
    for (int s = 0; s < step->n_sequences; s++) {
        const StepSequence *q = &step->sequences[s];
        for (int t = q->first_token; t < q->first_token + q->n_tokens; t++) {
            int32_t index = step->positions[t];
            if (index >= q->n_slots ||
                step->slots[t] != q->pages[index / step->page_size] + index % step->page_size)
                return false;
        }
    }
    return true;
}

Status cuda_stage(CudaBackend *cuda, const Step *step, const AttendHeads *heads, const int64_t *mask_columns,
                  const StageRoom *given, Error *error) {
    StageRoom room = given ? *given : cuda_stage_room(cuda, step, heads);
    size_t n = (size_t)step->n_tokens, all = (size_t)room.tokens, bytes = lay_out(cuda, &room, NULL),
           kept = all * (size_t)(cuda->shape->rope.rotary_dim / 2) * sizeof(float2);
    Status status = cuda_check(cudaEventSynchronize(cuda->staged), error, "staging a step");
    if (!status) status = cuda_room(cuda, &cuda->staging, bytes, true, "a step's arrays", error);
    if (!status) status = cuda_room(cuda, &cuda->step, bytes + kept, false, "a step's arrays", error);
    if (status) return status;

    lay_out(cuda, &room, cuda->staging.memory);
    for (size_t i = n; i < all; i++) {
        cuda->ids[i] = cuda->positions[i] = cuda->n_gone[i] = cuda->rope_sets[i] = 0;
        cuda->slots[i] = -1;
    }
    if (step->ids) memcpy(cuda->ids, step->ids, n * sizeof(int32_t));
    memcpy(cuda->positions, step->positions, n * sizeof(int32_t));
    memcpy(cuda->slots, step->slots, n * sizeof(int32_t));
    for (int s = 0; s < step->n_sequences; s++)
        for (int t = 0; t < step->sequences[s].n_tokens; t++) {
            cuda->n_gone[step->sequences[s].first_token + t] = step->sequences[s].n_gone;
            cuda->rope_sets[step->sequences[s].first_token + t] = step->sequences[s].rope_set;
        }
    cuda->kind = step->kind;
    cuda->in_order = step->kind == STEP_READING && in_order(step);
    cuda->n_sequences = step->n_sequences;
    fill_tiles(cuda, step, heads, mask_columns, cuda->tiles, (int32_t *)cuda->pages.first);
    fill_splits(cuda, step, heads, &room, cuda->tiles, cuda->split_tiles);
    for (; given && cuda->n_tiles + cuda->n_single_tiles < room.tokens; cuda->n_single_tiles++)
        cuda->tiles[cuda->n_tiles + cuda->n_single_tiles] = AttendTile{};
    *cuda->count = step->n_tokens;
    lay_out(cuda, &room, cuda->step.memory);
    cuda->kept_rope = cuda->gone ? (float2 *)(cuda->step.memory + bytes) : NULL;
    cuda->n_tokens = room.tokens;
    // Which kernels attend goes by the size of pages: where sequences do not show in each other, not by their lengths.
    bool one_page = step->kind == STEP_ANY && cuda->most_slots <= step->page_size;
    cuda->pages.size = one_page ? 1u << 31 : (uint32_t)step->page_size;
    cuda->pages.shift = cuda->pages.size & (cuda->pages.size - 1) ? -1 : __builtin_ctz(cuda->pages.size);
    cudaError_t code =
        cudaMemcpyAsync(cuda->step.memory, cuda->staging.memory, bytes, cudaMemcpyHostToDevice, cuda->stream);
    if (code == cudaSuccess) code = cudaEventRecord(cuda->staged, cuda->stream);
    return cuda_check(code, error, "staging %d tokens", step->n_tokens);
}

Status cuda_begin_staged(CudaBackend *cuda, Error *error) {
    const DecoderShape *s = cuda->shape;
    BeginArguments a = {cuda->positions,          cuda->slots,    cuda->n_gone,
                        cuda->rope_sets,          cuda->inv_freq, s->rope.rotary_dim / 2,
                        (float)s->rope.magnitude, cuda->rope,     cuda->kept_rope,
                        cuda->slot_positions};
    begin_kernel<<<cuda->n_tokens, 128, 0, cuda->stream>>>(a);
    return CUDA_LAUNCHED(error, "begin: %d tokens", cuda->n_tokens);
}

Status cuda_begin(Backend *backend, const Step *step, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    AttendHeads heads = {s->n_heads, s->n_kv_heads, s->head_dim};
    Status status = cuda_check_step(cuda, step, error);
    if (!status) status = cuda_stage(cuda, step, &heads, NULL, NULL, error);
    if (status) return status;
    cuda_end_upload(cuda);
    cuda->slot_positions = step->slot_positions;
    return cuda_begin_staged(cuda, error);
}
